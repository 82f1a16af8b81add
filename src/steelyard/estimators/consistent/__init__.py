"""Least squares over robots that can exist."""
