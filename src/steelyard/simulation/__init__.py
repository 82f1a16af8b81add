"""The closed loop: plant, controllers, and the encoders and drives between them.

`simulate` drives a `Plant` along a `Trajectory` or `Reference` under a controller, with the imperfections of a `Loop`.
An `Experiment` is the controller and the references of recorded runs, which `IV`, `DIDIM` and `OutputErrorMethod` need.
"""

from __future__ import annotations

from steelyard.simulation.closed_loop import Loop, Reference, Revision, Simulated, simulate
from steelyard.simulation.controllers import PD, PID, Cascade, ComputedTorque, Controller, controller_from
from steelyard.simulation.experiment import Experiment, commanded_references, experiment_of, measured_references
from steelyard.simulation.plant import Plant

__all__ = [
    "PD",
    "PID",
    "Cascade",
    "ComputedTorque",
    "Controller",
    "Experiment",
    "Loop",
    "Plant",
    "Reference",
    "Revision",
    "Simulated",
    "commanded_references",
    "controller_from",
    "experiment_of",
    "measured_references",
    "simulate",
]
