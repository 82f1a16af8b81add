"""Recursive estimation by gradient steps (P1)."""
