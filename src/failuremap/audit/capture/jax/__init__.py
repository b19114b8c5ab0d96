"""A JAX job's contributions and updates, from the two lines that its script has."""
