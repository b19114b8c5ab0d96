"""One file for each mechanism, named for the wrong pattern; the files are found, not listed."""
