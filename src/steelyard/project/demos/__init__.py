"""Demonstrations on simulated robots with known truth."""
