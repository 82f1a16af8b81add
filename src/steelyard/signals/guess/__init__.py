"""Guesses the meaning of log columns from their names and values, with the reasons."""

from steelyard.signals.guess.decide import guess_channels
from steelyard.signals.guess.guess import Guess, GuessedClock, GuessedSignal, Other
from steelyard.signals.guess.names import LoggerHeader, Meaning

__all__ = ["Guess", "GuessedClock", "GuessedSignal", "LoggerHeader", "Meaning", "Other", "guess_channels"]
