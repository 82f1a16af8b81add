"""Guesses the meaning of log columns from their names and values, with the reasons, and the runs of logs."""

from steelyard.signals.guess.decide import guess_channels
from steelyard.signals.guess.guess import Guess, GuessedClock, GuessedSignal, Other
from steelyard.signals.guess.names import LoggerHeader, Meaning
from steelyard.signals.guess.runs import GuessedRun, GuessedRuns, guess_runs

__all__ = [
    "Guess",
    "GuessedClock",
    "GuessedRun",
    "GuessedRuns",
    "GuessedSignal",
    "LoggerHeader",
    "Meaning",
    "Other",
    "guess_channels",
    "guess_runs",
]
