"""A hundred numbers that stand for a tensor: how they are read, and how those of its shards add up."""
