"""Identification while the robot runs.

Feed `Chunk`s of samples to an `Online`; it returns an identification after each, and with `ChangeDetection` also the
`Change` that it found.
"""

from __future__ import annotations

from steelyard.online.causal_filter import Chunk
from steelyard.online.change_cause import Change, Pickup, Tool
from steelyard.online.change_detection import Alarm
from steelyard.online.history import History, HistoryPoint
from steelyard.online.online import ChangeDetection, Online

__all__ = ["Alarm", "Change", "ChangeDetection", "Chunk", "History", "HistoryPoint", "Online", "Pickup", "Tool"]
