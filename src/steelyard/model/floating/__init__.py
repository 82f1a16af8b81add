"""Robots whose base moves: how the motion of the base enters the dynamics, and which robots look like it."""
