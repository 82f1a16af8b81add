"""Checks: faults of logs and channel maps, found before any fit; one check per file."""

from steelyard.project.checks.check import Check, check

__all__ = ["Check", "check"]
