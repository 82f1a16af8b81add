"""Test vectors: states with the torques of the model itself, for the self-test of exported code."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from steelyard._arrays import Array
from steelyard.export.parameter_set import IdentifiedModel
from steelyard.export.parity import States, random_states
from steelyard.model.terms import TIME, OnJoints
from steelyard.model.terms.term import laws_of

# Steps of the walk on which Dahl's states are tested [rad | m]: about as long as their lengths.
_STEP = 1e-3


@dataclass(frozen=True)
class Vectors:
    """States (n, N) with their torques (n, N), those at rest (n, N) and mass matrices (n, n, N).

    `walk` are consecutive states in small steps with the torques of a model with Dahl's states; None if it has none.
    """

    states: States
    torque: Array
    gravity: Array
    mass: Array
    walk: tuple[States, Array] | None


def vectors(identified: IdentifiedModel, count: int = 16, seed: int = 1) -> Vectors:
    """Test vectors of a model to export; the first state is at rest, where signs are zero."""
    model = identified.model
    drawn = random_states(model, count, seed)
    for signal in (drawn.v, drawn.a):
        signal[:, 0] = 0.0
    still = np.zeros_like(drawn.q)
    walk = None
    if _remembering(identified):
        rng = np.random.default_rng(seed)
        q = drawn.q[:, :1] + np.cumsum(rng.normal(0.0, _STEP, drawn.q.shape), axis=1)
        steps = drawn._replace(q=q)
        walk = (steps, exported_torque(identified, *steps, remember=True))
    return Vectors(
        drawn,
        exported_torque(identified, *drawn),
        exported_torque(identified, drawn.q, still, still),
        model.mass_matrix(drawn.q, identified.bearing),
        walk,
    )


def exported_torque(identified: IdentifiedModel, q: Array, v: Array, a: Array, remember: bool = False) -> Array:
    """τ (n, N) of the model itself, without the terms that cannot be written as code.

    States are independent, with Dahl's states of steady sliding, sign(q̇), unless they are consecutive.
    """
    model, theta = identified.model, identified.theta.copy()
    sliding = np.zeros_like(q)
    for filling in model.fillings:
        inner = filling.term.term if isinstance(filling.term, OnJoints) else filling.term
        laws = laws_of(filling.term, model.robot)
        lost = laws is None and inner.name != "springs"
        steady = next((one.law.steady for one in laws or ()), None)
        slides = steady is not None and not remember
        for entry in filling.entries:
            column = model.layout.index(entry.column.name)
            if steady is not None and slides:
                sliding[entry.row] += theta[column] * steady(v[entry.row])
            if slides or lost:
                theta[column] = 0.0
    t = np.zeros(q.shape[1]) if TIME in model.uses else None
    return model.torque(q, v, a, theta, t, load=identified.load) + sliding


def _remembering(identified: IdentifiedModel) -> bool:
    return "past" in identified.model.uses
