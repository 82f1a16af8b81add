"""Can a motion be designed at all: limits that leave no room, too short a time, torques that cannot hold the robot."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from steelyard.errors import DataError
from steelyard.limit_proofs import MotionLimits
from steelyard.model import Model
from steelyard.parameters import Array
from steelyard.problem import REST_SPEED, STILL

# Postures tried for one in which the motors can hold the robot.
_POSTURES = 2000


def check_limits(model: Model, limits: MotionLimits, duration: float, rate_hz: float, parameters: int) -> None:
    """Errors that name the joint, the limit and by how much it is missed."""
    joints = model.robot.axes
    if len(limits.lower) != len(joints):
        raise DataError(f"The limits are those of {len(limits.lower)} joints; '{model.robot.name}' has {len(joints)}.")
    if not (np.isfinite(duration) and duration > 0.0 and np.isfinite(rate_hz) and rate_hz > 0.0):
        raise DataError(f"The duration [s] and the rate [Hz] must be positive, not {duration} and {rate_hz}.")
    for i, joint in enumerate(joints):
        unit = "m" if joint.is_prismatic else "rad"
        lower, upper = float(limits.lower[i]), float(limits.upper[i])
        if not np.isfinite(upper - lower):
            raise DataError(f"{joint.name} has no finite range: state a lower and an upper limit for its position.")
        if upper - lower < STILL:
            raise DataError(
                f"Position limits of {joint.name}: from {lower:.6g} to {upper:.6g} {unit} leave {upper - lower:.4g} "
                f"{unit}, {STILL - (upper - lower):.4g} {unit} less than the {STILL:g} {unit} it must travel to be "
                "seen moving. Widen them."
            )
        # back and forth in the time: the speed is gained in a quarter of it, at constant acceleration or jerk
        for what, top, power in (
            ("velocity", float(limits.velocity[i]), 0),
            ("acceleration", float(limits.acceleration[i]) * duration / 4, 1),
            ("jerk", float(limits.jerk[i]) * duration**2 / 64, 2),
        ):
            if top >= REST_SPEED:
                continue
            limit = float(getattr(limits, what)[i])
            factor = REST_SPEED / top if top > 0.0 else np.inf
            longer = f"give {duration * factor ** (1 / power):.4g} s or more, or " if power and top > 0.0 else ""
            raise DataError(
                f"{what.capitalize()} limit of {joint.name}: {limit:.6g} {unit}/s{('', '²', '³')[power]} lets it reach "
                f"{max(top, 0.0):.4g} {unit}/s in {duration:g} s, {REST_SPEED - top:.4g} {unit}/s short of the "
                f"{REST_SPEED:g} {unit}/s above which its friction slides: {longer}raise the limit {factor:.4g} times."
            )
    rows = int(duration * rate_hz) * len(joints)
    if rows < parameters:
        raise DataError(
            f"The duration of {duration:g} s gives {rows} rows at {rate_hz:g} Hz for {parameters} base parameters, "
            f"{parameters - rows} too few: give {parameters / rate_hz / len(joints):.4g} s or more, or sample faster."
        )


def holding_posture(
    model: Model, limits: MotionLimits, theta: Array | None, loads: Sequence[str], usable: float, seed: int
) -> Array:
    """A posture (n,) within the limits at which creeping either way takes the least share of the torque limits.

    An error where that is more than the `usable` share. Without limits on torque it is the middle of the ranges.
    """
    middle = 0.5 * (limits.lower + limits.upper)
    if not np.isfinite(limits.torque).any():
        return middle
    assert theta is not None
    for i, joint in enumerate(model.robot.axes):
        if limits.torque[i] <= 0.0:
            raise DataError(f"Torque limit of {joint.name}: {limits.torque[i]:.4g} must be positive.")
    # nearer to the middle than to the ends: a start needs room on both sides
    spread = np.random.default_rng(seed).uniform(-0.9, 0.9, (len(middle), _POSTURES))
    spread[:, 0] = 0.0
    q = middle[:, None] + 0.5 * (limits.upper - limits.lower)[:, None] * spread
    need = np.zeros_like(q)
    for load in loads:
        for way in (-1.0, 1.0):
            creeping = np.full_like(q, way * REST_SPEED)
            need = np.maximum(need, np.abs(model.torque(q, creeping, np.zeros_like(q), theta, load=load)))
    share = need / limits.torque[:, None]
    best = int(np.argmin(share.max(axis=0)))
    if share[:, best].max() >= usable:
        # the joint that is worst off at its own easiest posture; where each alone would do, that of the best posture
        j, k = int(np.argmax(share[:, best])), best
        if share.min(axis=1).max() >= usable:
            j = int(np.argmax(share.min(axis=1)))
            k = int(np.argmin(share[j]))
        name, unit = model.robot.axis_names[j], "N" if model.robot.axes[j].is_prismatic else "N·m"
        raise DataError(
            f"Torque limit of {name}: {limits.torque[j]:.4g} {unit}, of which a design may use {usable:.0%}. The "
            f"nominal model takes {need[j, k]:.4g} {unit} to creep at the easiest of {_POSTURES} postures, "
            f"{need[j, k] - usable * limits.torque[j]:.4g} {unit} too much. Raise the limit, widen the ranges, or "
            "check the nominal values."
        )
    return q[:, best]
