"""From traces to steps: which backward passes, of which ranks, stood before each optimizer step."""
