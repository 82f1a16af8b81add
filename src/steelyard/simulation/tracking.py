"""How well control laws follow a motion: tracking errors of a simulated robot (P3 Table 4)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from steelyard._arrays import Array
from steelyard.motion.trajectory import Trajectory
from steelyard.simulation.closed_loop import Loop, Reference, simulate
from steelyard.simulation.controllers import PID, ComputedTorque, Controller
from steelyard.simulation.plant import Plant

PLAIN_PID, FORWARD_PID = "PID", "PID with velocity feed-forward"

# A difference of positions is late by half the sample time, which may cost more than an error of the model.
EXACT_SPEED = Loop(velocity="true")


class ControlLaw(NamedTuple):
    """A controller with a name, and the share of its commands that becomes torque: 1, or true over assumed gains."""

    name: str
    controller: Controller
    torque_ratio: ArrayLike = 1.0


@dataclass(frozen=True)
class Tracking:
    """Tracking error of one control law on one motion: largest and rms error of every axis, (n,) each [rad | m]."""

    law: str
    motion: str
    largest: tuple[float, ...]
    rms: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class TrackedMotion:
    """A control law on a motion: t (N,) [s], the reference positions and the error q_r − q, (n, N) each [rad | m]."""

    law: str
    motion: str
    t: Array
    reference: Array
    error: Array

    @property
    def tracking(self) -> Tracking:
        """Largest and rms error of every axis."""
        largest, rms = np.abs(self.error).max(axis=1), np.sqrt(np.mean(self.error**2, axis=1))
        return Tracking(self.law, self.motion, tuple(largest.tolist()), tuple(rms.tolist()))


def pid_laws(assumed: Plant, hertz: float) -> Iterator[ControlLaw]:
    """PID without and with the velocity of the reference, tuned to the bandwidth [Hz] with the assumed inertias."""
    yield ControlLaw(PLAIN_PID, PID.tuned(assumed, hertz))
    yield ControlLaw(FORWARD_PID, PID.tuned(assumed, hertz, velocity_feedforward=1.0))


def computed_torque(name: str, assumed: Plant, hertz: float, torque_ratio: ArrayLike = 1.0) -> ControlLaw:
    """Computed torque with an integral: a triple pole at the bandwidth [Hz], as that of the PID laws."""
    return ControlLaw(name, ComputedTorque.tuned(assumed, hertz, integral=True), torque_ratio)


def followed(
    plant: Plant, law: ControlLaw, motion: str, path: Trajectory | Reference, rate_hz: float, loop: Loop = EXACT_SPEED
) -> TrackedMotion:
    """The plant under a control law on a motion, from the reference only.

    The speed is that of a tachometer unless `loop` says otherwise.
    """
    own = replace(loop, torque_ratio=law.torque_ratio)
    made = simulate(plant, law.controller, path, rate_hz, own)
    wanted = path.q if isinstance(path, Reference) else path.at(made.t)[0]
    return TrackedMotion(law.name, motion, made.t, wanted, wanted - made.q)
