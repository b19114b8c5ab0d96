"""Trials of the judge itself: candidates that must be accepted, refused, or kept in."""
