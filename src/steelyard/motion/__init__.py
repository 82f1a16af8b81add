"""Trajectories, what bounds them and what they must not touch."""
