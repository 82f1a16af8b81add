"""Least squares over physically consistent robots."""
