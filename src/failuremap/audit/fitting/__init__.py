"""Which combination of the contributions an update is: solved for, tried by name, or corrected; from sketches alone."""
