"""Identification while the robot runs."""
