"""Faults of a channel map, named by the edit that mends them: every edit is tried on the robot."""
