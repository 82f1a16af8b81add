"""From the columns of a log to q, v, a and effort on one clock.

A `Recording` holds the columns as logged, a `ChannelMap` says what they are (`guess_channels` proposes one), and
`prepare` turns them into `Samples` with the settings of a `Preparation`. `propose_cutoffs` and `choose_derivatives`
find these settings.
"""

from __future__ import annotations

from steelyard.signals.channels import ChannelMap, Signal
from steelyard.signals.derivatives import DerivativeChoice, choose_derivatives
from steelyard.signals.guess import Guess, guess_channels
from steelyard.signals.prepare import Preparation, prepare
from steelyard.signals.recording import Recording
from steelyard.signals.samples import Samples
from steelyard.signals.spectrum import Bandwidth, Cutoffs, propose_cutoffs

__all__ = [
    "Bandwidth",
    "ChannelMap",
    "Cutoffs",
    "DerivativeChoice",
    "Guess",
    "Preparation",
    "Recording",
    "Samples",
    "Signal",
    "choose_derivatives",
    "guess_channels",
    "prepare",
    "propose_cutoffs",
]
