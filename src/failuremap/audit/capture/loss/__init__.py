"""What one unit weighs in a loss, seen where the loss is computed or where its gradient arrives."""
