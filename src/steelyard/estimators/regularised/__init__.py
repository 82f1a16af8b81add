"""Least squares with a prior: `map` and `ridge`."""
