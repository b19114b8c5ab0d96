"""What one unit of each contribution weighs in the update, and whether all weigh the same."""
