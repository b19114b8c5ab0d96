"""The pages, a file for each kind: each has `pages(frame)`, which yields path and content."""
