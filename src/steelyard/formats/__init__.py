"""Readers of files: robots, logs and motion limits."""
