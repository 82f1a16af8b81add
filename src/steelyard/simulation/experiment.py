"""Experiment: how runs were driven, so that they can be driven again in simulation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from steelyard.simulation.closed_loop import IDEAL, Loop, Reference
from steelyard.simulation.controllers import Controller
from steelyard.simulation.plant import Plant


@dataclass(frozen=True, eq=False)
class Experiment:
    """References, controller and loop of the runs of a problem.

    references   by run, one for every gap-free stretch, on its samples
    control      the controller for a plant: the same for every plant where its gains are known, or tuned to a
                 bandwidth, which then stays as the parameters change (P4 §III)
    loop         what lies between controller and plant
    approximate  why the references are not what was commanded, in words; empty where they are
    """

    references: Mapping[str, Sequence[Reference]]
    control: Callable[[Plant], Controller]
    loop: Loop = IDEAL
    approximate: str = ""
