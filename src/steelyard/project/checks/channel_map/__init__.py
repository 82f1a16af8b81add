"""Faults of a channel map, identified by the edit that corrects them: every edit is tried on the robot."""
