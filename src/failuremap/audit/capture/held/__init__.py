"""Which elements of which parameters a tensor holds, whoever shards, flattens or copies them, and the hooks on them."""
