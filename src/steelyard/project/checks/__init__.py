"""Checks: faults of logs and channel maps named before any fit, one detective a file."""

from steelyard.project.checks.check import Check, check

__all__ = ["Check", "check"]
