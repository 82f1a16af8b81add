"""Least squares pulled towards a prior: `map` and `ridge`."""
