"""What a step tells beside its coefficients: one file for each kind of evidence."""
