"""Can a motion be designed at all: limits that leave no room, too short a time, no posture to hold or clear."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from steelyard._arrays import Array
from steelyard.design.objective import REACH
from steelyard.errors import DataError, choices
from steelyard.model.model import Model
from steelyard.model.parameters import Column
from steelyard.model.payload import UNLOADED
from steelyard.model.robot import Robot
from steelyard.motion.bounds import MotionLimits
from steelyard.motion.clearance import Clearance
from steelyard.regression.problem import REST_SPEED, STILL

# Postures tried for one in which the motors can hold the robot and nothing touches.
_POSTURES = 2000
# Samples that a design can be asked for: its torques are looked at a hundred times as often.
MOST_SAMPLES = 50_000


def check_limits(model: Model, limits: MotionLimits, duration: float, rate_hz: float, parameters: int) -> None:
    """Errors that name the joint, the limit and by how much it is missed."""
    joints = model.robot.axes
    if len(limits.lower) != len(joints):
        raise DataError(f"The limits are those of {len(limits.lower)} joints; '{model.robot.name}' has {len(joints)}.")
    for what, value in (
        ("duration of a motion (--duration) [s]", duration),
        ("rate of rows (rate_hz, --rows) [Hz]", rate_hz),
    ):
        if not (np.isfinite(value) and value > 0.0):
            raise DataError(f"The {what} must be positive, not {value:g}.")
    if duration * rate_hz > MOST_SAMPLES:
        raise DataError(
            f"A duration of {duration:g} s at {rate_hz:g} rows a second makes {duration * rate_hz:.4g} samples, and a "
            f"design takes {MOST_SAMPLES} at most: give a shorter --duration, or fewer --rows (rate_hz)."
        )
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
            higher = f"raise the limit {factor:.4g} times" if top > 0.0 else "state a limit above zero"
            raise DataError(
                f"{what.capitalize()} limit of {joint.name}: {limit:.6g} {unit}/s{('', '²', '³')[power]} lets it reach "
                f"{max(top, 0.0):.4g} {unit}/s in {duration:g} s, {REST_SPEED - top:.4g} {unit}/s short of the "
                f"{REST_SPEED:g} {unit}/s above which its friction slides: {longer}{higher}."
            )
    rows = int(duration * rate_hz) * len(joints)
    if rows < parameters:
        raise DataError(
            f"The duration of {duration:g} s gives {rows} rows at {rate_hz:g} Hz for {parameters} base parameters, "
            f"{parameters - rows} too few: give {parameters / rate_hz / len(joints):.4g} s or more, or sample faster."
        )


def check_loads(model: Model, limits: MotionLimits, theta: Array | None, loads: Sequence[str]) -> None:
    """An error where torques are limited and a load case carries a body of which nobody says how heavy it is."""
    if theta is None or not np.isfinite(limits.torque).any():
        return
    for payload in (one for one in model.payloads if one.name in loads):
        if "M" not in payload.known and not theta[model.layout.index(f"{payload.name}.M")] > 0.0:
            raise DataError(
                f"Torques are limited, and nobody says how heavy the payload '{payload.name}' is: with 0 kg the motion "
                f"could ask more of the motors than they have. Give the most it may weigh [kg], --load "
                f"{payload.name}=2.5, or its mass in the [[payload]] of the project. In Python pass a theta with "
                f"{payload.name}.M, or free the torques (MotionLimits(…, torque=inf))."
            )


def weighing(model: Model, theta: Array | None, masses: Mapping[str, float]) -> Array | None:
    """θ (C,) with payloads taken to weigh `masses` [kg] for torques, where their own are not known."""
    out = None if theta is None else np.array(theta)
    for name, mass in masses.items():
        payload = next((one for one in model.payloads if one.name == name), None)
        if payload is None:
            raise DataError(choices("load case", name, [UNLOADED, *(one.name for one in model.payloads)]))
        if "M" in payload.known:
            raise DataError(f"--load {name}={mass:g}: the project says {payload.known['M']:g} kg. Leave one out.")
        if not 0.0 < mass < np.inf:
            raise DataError(f"--load {name}={mass:g}: a mass is a positive number of kilograms.")
        if out is not None:
            out[model.layout.index(f"{name}.M")] = mass
    return out


def torque_caveats(model: Model, theta: Array | None, limits: MotionLimits, loads: Sequence[str]) -> tuple[str, ...]:
    """What the torques of the nominal model θ (C,) leave out, in sentences, where they are limited."""
    if theta is None or not np.isfinite(limits.torque).any():
        return ()
    said = []
    rubs = {column.owner for column, x in zip(model.layout.columns, theta, strict=True) if _friction(column) and x}
    free = [name for name in model.robot.axis_names if name not in rubs]
    if free:
        of = "" if len(free) == model.robot.dof else f" of {', '.join(free)}"
        said.append(f"Torques exclude friction{of}, of which the model has no values: the motors need more than told.")
    for payload in (one for one in model.payloads if one.name in loads):
        values = theta[[model.layout.index(column.name) for column in payload.columns]]
        if not np.any(values[:-1]):
            said.append(
                f"Torques take the payload '{payload.name}' as a point of {values[-1]:.4g} kg at the origin of its "
                f"frame on {payload.link}: its centre of mass and inertia are not stated."
            )
    return tuple(said)


def _friction(column: Column) -> bool:
    return column.kind == "term" and column.symbol.startswith("F")


def check_posture(clearance: Clearance | None, limits: MotionLimits, q: Array, name: str, robot: Robot) -> None:
    """An error where a posture q (n,), called `name`, is outside the positions allowed or too near to something."""
    if np.shape(q) != (robot.dof,) or not np.all(np.isfinite(q)):
        raise DataError(f"{name} must be {robot.dof} finite numbers, for {', '.join(robot.axis_names)}, not {q!r}.")
    for i, joint in enumerate(robot.axes):
        unit = "m" if joint.is_prismatic else "rad"
        for side, bound, beyond in (
            ("below the lower", limits.lower[i], limits.lower[i] - q[i]),
            ("above the upper", limits.upper[i], q[i] - limits.upper[i]),
        ):
            if beyond > 0.0:
                raise DataError(
                    f"{name} has {joint.name} at {q[i]:.6g} {unit}, {beyond:.4g} {unit} {side} limit of {bound:.6g} "
                    f"{unit}. Move it inside, or widen the limit."
                )
    if clearance is None or not len(clearance):
        return
    distance = clearance.distances(np.asarray(q, float)[:, None])[:, 0]
    k = int(np.argmin(distance))
    if distance[k] < clearance.margin:
        raise DataError(f"{name}: {_too_near(clearance, k, float(distance[k]))} Choose another posture.")


def _too_near(clearance: Clearance, pair: int, distance: float) -> str:
    apart = f"overlap by {-distance:.4g} m" if distance < 0.0 else f"are {distance:.4g} m apart"
    return (
        f"{clearance.names[pair]} {apart}, {clearance.margin - distance:.4g} m short of the margin of "
        f"{clearance.margin:.4g} m."
    )


def holding_posture(
    model: Model,
    limits: MotionLimits,
    theta: Array | None,
    loads: Sequence[str],
    usable: float,
    seed: int,
    clearance: Clearance | None = None,
    spare: float = 0.0,
) -> Array:
    """A posture (n,) within the limits at which creeping either way takes the least share of the torque limits.

    With a clearance it is also one that leaves room, more than the margin and `spare` [m]: the larger counts of the
    share of the torques and of what is missing to `REACH`. An error where no posture will do. Without either it is
    the middle of the ranges.
    """
    middle = 0.5 * (limits.lower + limits.upper)
    limited = bool(np.isfinite(limits.torque).any())
    if not limited and (clearance is None or not len(clearance)):
        return middle
    # nearer to the middle than to the ends: a start needs room on both sides
    spread = np.random.default_rng(seed).uniform(-0.9, 0.9, (len(middle), _POSTURES))
    spread[:, 0] = 0.0
    q = middle[:, None] + 0.5 * (limits.upper - limits.lower)[:, None] * spread
    used = np.zeros(_POSTURES)
    if limited:
        assert theta is not None
        used = _creeping(model, limits, theta, loads, usable, q)
    if clearance is not None and len(clearance):
        used = np.maximum(used, 1.0 - _room(clearance, spare, q) / REACH)
        if used.min() >= 1.0:
            raise DataError(
                f"None of {_POSTURES} postures within the limits is clear of everything and can also be held by the "
                "motors. Raise the torque limits, widen the ranges, or make the margin smaller."
            )
    return q[:, int(np.argmin(used))]


def _room(clearance: Clearance, spare: float, q: Array) -> Array:
    """What the nearest pair has left beyond the margin and `spare` at postures q (n, N), (N,) [m]."""
    distance = clearance.distances(q)
    room = distance - clearance.margin - spare
    if room.min(axis=0).max() <= 0.0:
        # the pair that is worst off at its own best posture; where each alone would do, that of the best posture
        best = int(np.argmax(room.min(axis=0)))
        k = int(np.argmin(room[:, best]))
        if room.max(axis=1).min() <= 0.0:
            k = int(np.argmin(room.max(axis=1)))
            best = int(np.argmax(room[k]))
        short = clearance.margin + spare - float(distance[k, best])
        raise DataError(
            f"None of {_POSTURES} postures within the limits is clear. At the clearest, {clearance.names[k]} are "
            f"{distance[k, best]:.4g} m apart (negative: they overlap), {short:.4g} m less than the margin of "
            f"{clearance.margin:.4g} m and the {spare:.4g} m a design keeps beyond it. Widen the ranges, correct the "
            "shapes, or ignore the pair where it may touch."
        )
    return room.min(axis=0)


def _creeping(model: Model, limits: MotionLimits, theta: Array, loads: Sequence[str], usable: float, q: Array) -> Array:
    """The share (N,) of what is usable of the torque limits that creeping either way takes at postures q (n, N)."""
    for i, joint in enumerate(model.robot.axes):
        if limits.torque[i] <= 0.0:
            raise DataError(f"Torque limit of {joint.name}: {limits.torque[i]:.4g} must be positive.")
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
    return share.max(axis=0) / usable
