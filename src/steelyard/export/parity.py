"""Parity: torques of an export compared with those of the identified model on the same random states."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from steelyard._arrays import Array
from steelyard.errors import OutputError
from steelyard.model.model import Model

# q, v, a (n, N) → τ (n, N): a model, a compiled C function, a file read back
TorqueLaw = Callable[[Array, Array, Array], Array]

TOLERANCE = 1e-9
# The torque of a joint with a very small load has the rounding of the large ones: it is compared with this fraction of
# them.
LEAST_SCALE = 1e-3


class States(NamedTuple):
    """Positions, velocities and accelerations of the axes, each (n, N) [rad | m, /s, /s²]."""

    q: Array
    v: Array
    a: Array


@dataclass(frozen=True)
class Parity:
    """How well two torque laws agree: over `states` states, the `largest` difference of any joint [N·m | N], and
    `relative`, the largest over the joint's own largest torque."""

    states: int
    largest: float
    relative: float

    def __str__(self) -> str:
        return f"torques agree to {self.relative:.1e} (relative) on {self.states} random states"


def random_states(model: Model, count: int = 64, seed: int = 0) -> States:
    """States within the joint limits that the robot can reach; velocities and accelerations of unit variance."""
    rng = np.random.default_rng(seed)
    q = model.random_positions(rng, count)
    return States(q, rng.normal(size=q.shape), rng.normal(size=q.shape))


def parity(wanted: TorqueLaw, given: TorqueLaw, states: States) -> Parity:
    """max |τ_given − τ_wanted|, and the same over max |τ_wanted| of each joint; NaN where either is."""
    tau = wanted(*states)
    apart = np.abs(given(*states) - tau).max(axis=1)
    own = np.abs(tau).max(axis=1)
    scale = np.maximum(own, max(LEAST_SCALE * float(own.max()), np.finfo(float).tiny))
    return Parity(tau.shape[1], float(apart.max()), float((apart / scale).max()))


def checked_parity(
    wanted: TorqueLaw, given: TorqueLaw, states: States, what: str, tolerance: float = TOLERANCE
) -> Parity:
    """The parity of an export, called `what` in messages; a mismatch raises an error, so that nothing is written."""
    found = parity(wanted, given, states)
    if not found.relative <= tolerance:  # NaN too
        raise OutputError(
            f"{what} was not written: read back, its torques differ from the identified model's by up to "
            f"{found.largest:.3g} N.m ({found.relative:.1e} relative; allowed {tolerance:.0e}). The file's geometry "
            "(axes, origins, zero positions) is not that of the robot that was identified: give the file the result "
            "was made from, or identify again with this one."
        )
    return found
