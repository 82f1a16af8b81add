"""Identification while the robot runs.

Feed an `Online` with `Chunk`s of samples; it returns an identification after each, and the `Change` it found where
`ChangeDetection` asks it to look for one.
"""

from __future__ import annotations

from steelyard.online.causal_filter import Chunk
from steelyard.online.change_cause import Change, Pickup, Tool
from steelyard.online.change_detection import Alarm
from steelyard.online.history import Course, Moment
from steelyard.online.online import ChangeDetection, Online

__all__ = ["Alarm", "Change", "ChangeDetection", "Chunk", "Course", "Moment", "Online", "Pickup", "Tool"]
