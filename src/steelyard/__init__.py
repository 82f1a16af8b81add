"""Steelyard: weigh a robot by its own motion."""
