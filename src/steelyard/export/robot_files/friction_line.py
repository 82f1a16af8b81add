"""The straight line nearest to an identified friction curve, because robot files hold only a line.

URDF and MJCF have τ = damping q̇ + friction sign(q̇). Further terms of a model (a power law, Stribeck, load, Dahl) are
correlated with Fv and Fc, so that these two alone are far from the identified friction. The line written solves

    min Σ_v (f(v) − damping v − friction sign(v))²   with   damping ≥ 0, friction ≥ 0

over speeds of both directions up to the joint's limit. f is the torque of all terms when the joint moves alone, minus
their torque at rest, averaged over random postures: load friction has the mean load of a robot at rest, Dahl's state is
that of steady sliding, sign(v), and drift is that at the start of a run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from steelyard._arrays import Array
from steelyard.model.columns import Filling
from steelyard.model.model import Model
from steelyard.model.terms import LOAD, PAST, Motion, uses
from steelyard.model.terms.term import laws_of

# Largest speed of the fit if the file gives no limit [rad/s | m/s].
SPEED, SLIDING_SPEED = 3.0, 1.0
# Limits above this mean "no limit" [rad/s | m/s].
UNLIMITED = 1e3
# Speeds per direction, and postures.
SPEEDS, POSTURES = 50, 64
# A loss above this fraction of the curve (rms) is reported.
MUCH = 0.1


@dataclass(frozen=True)
class FrictionLine:
    """Friction of a joint as a file holds it, compared with the curve that was identified.

    damping, friction    the line [N·m·s, N·m | N·s/m, N]
    up_to                the largest speed of the fit [rad/s | m/s]
    rms, lost            root mean square of the curve and of what the line lacks of it [N·m | N]
    worst, worst_at      where they are farthest apart: by how much [N·m | N], and the velocity [rad/s | m/s]
    """

    joint: str
    unit: str
    damping: float
    friction: float
    up_to: float
    rms: float
    lost: float
    worst: float
    worst_at: float

    @property
    def much(self) -> bool:
        return self.lost > MUCH * self.rms

    def __str__(self) -> str:
        speed = "rad/s" if self.unit == "N.m" else "m/s"
        return (
            f"{self.joint}: {self.lost:.3g} of {self.rms:.3g} {self.unit} rms are lost up to {self.up_to:.3g} {speed}, "
            f"at most {self.worst:.3g} {self.unit} at {self.worst_at:.2g} {speed}"
        )


@dataclass(frozen=True)
class Curves:
    """Friction of each joint without the `plain` columns: rows (joints, 2 K) at speeds (joints, 2 K).

    The speeds −v of the second half are those of the first with the other sign. `columns` names the columns in them.
    """

    speeds: Array
    rows: Array
    columns: frozenset[str]


def curves(model: Model, theta: Array, plain: Mapping[str, object]) -> Curves:
    """Friction curves of a model with parameters theta (C,), without the columns whose symbols are `plain`."""
    tree, joints = model.tree, model.robot.joints
    top = np.array([_top_speed(joint.limits.velocity, joint.is_prismatic) for joint in joints])
    one_way = top[:, None] * np.arange(1, SPEEDS + 1) / SPEEDS
    speeds = np.hstack([one_way, -one_way])
    rows = np.zeros_like(speeds)
    found: set[str] = set()
    rubbing = [one for one in tree.fillings if any(e.column.symbol not in plain for e in one.entries)]
    if not rubbing:
        return Curves(speeds, rows, frozenset())
    still = _standing(model, theta)
    count = still.q.shape[1]
    posture = np.tile(np.arange(count), speeds.shape[1])
    q, none, _ = (x[:, posture] for x in still[:3])
    every = Motion(q, none, none, np.zeros(len(posture)), _taken(still.load, posture))
    for j in range(len(joints)):
        v = np.zeros_like(every.q)
        v[j] = np.repeat(speeds[j], count)
        for filling in rubbing:
            of_joint = [k for k, entry in enumerate(filling.entries) if entry.row == j]
            if not of_joint:
                continue
            values = _values(filling, tree, every._replace(v=v)) - _values(filling, tree, every)
            for k in of_joint:
                column = filling.entries[k].column
                part = theta[tree.layout.index(column.name)] * values[k].reshape(-1, count).mean(axis=1)
                if column.symbol not in plain and part.any():
                    rows[j] += part
                    found.add(column.name)
    return Curves(speeds, rows, frozenset(found))


def line(
    joint: str, unit: str, speeds: Array, rest: Array, plain: tuple[float, float], uneven: float
) -> FrictionLine | None:
    """The nearest line to damping v + friction sign(v) + rest(v) + uneven, `plain` being the first two.

    `uneven` is half the difference of the Coulomb levels of the two directions. None if nothing is lost. A part of rest
    that is even in v does not change the plain values, to the bit, because a line has no such part.
    """
    half = len(speeds) // 2
    odd = 0.5 * (rest[:half] - rest[half:])
    basis = np.stack([speeds[:half], np.ones(half)], axis=1)
    damping, friction = plain
    if odd.any():
        best, _ = nnls(basis, basis @ plain + odd)
        damping, friction = (float(x) for x in best)
    whole = plain[0] * speeds + plain[1] * np.sign(speeds) + rest + uneven
    apart = whole - damping * speeds - friction * np.sign(speeds)
    if not (rest.any() or uneven):
        return None
    worst = int(np.argmax(np.abs(apart)))
    rms, lost = (float(np.sqrt(np.mean(x**2))) for x in (whole, apart))
    return FrictionLine(
        joint, unit, damping, friction, float(speeds.max()), rms, lost, float(abs(apart[worst])), float(speeds[worst])
    )


def _top_speed(limit: float, sliding: bool) -> float:
    return limit if 0.0 < limit < UNLIMITED else SLIDING_SPEED if sliding else SPEED


def _standing(model: Model, theta: Array) -> Motion:
    """Every joint of the tree at rest, in random postures that the robot can reach, with the load of its gears."""
    if not model.knows_load:
        model = replace(model, carried=theta[model.inertial_index])
    q = model.random_positions(np.random.default_rng(0), POSTURES)
    still = Motion(q, np.zeros_like(q), np.zeros_like(q))
    load = model.load(still) if LOAD in model.uses else None
    if model.looped is None:
        return still._replace(load=load)
    followed = model.looped.follow(still)
    motion = followed.motion
    carried = None
    if load is not None:
        carried = np.zeros_like(motion.q)  # passive joints have no gears
        carried[model.robot.axis_index] = load
    kept = np.flatnonzero(~followed.lost)
    return Motion(*(x[:, kept] for x in motion[:3]), load=_taken(carried, kept))


def _taken(load: Array | None, samples: NDArray[np.int64]) -> Array | None:
    return None if load is None else load[:, samples]


def _values(filling: Filling, tree: Model, motion: Motion) -> Array:
    """Values (entries, B) of a term for independent samples: a law with memory uses that of steady sliding."""
    if PAST not in uses(filling.term):
        return filling.values(tree.robot, motion)
    laws = laws_of(filling.term, tree.robot) or ()
    kept = range(len(laws)) if filling.kept is None else filling.kept
    steady = [laws[k].law.steady for k in kept] if laws else []
    rows = np.zeros((len(filling.entries), motion.q.shape[1]))
    for row, entry, function in zip(rows, filling.entries, steady, strict=False):  # unknown memories: no curve
        if function is not None:
            row[:] = function(motion.v[entry.row])
    return rows
