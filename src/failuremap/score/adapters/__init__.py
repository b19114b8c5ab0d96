"""What evaluation harnesses run: the suites as an Inspect task, and as a task of lm-evaluation-harness."""
