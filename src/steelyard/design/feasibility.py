"""Whether a motion can be designed: checks of limits and duration, and a posture that can be held and is clear."""

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

# Number of postures tried for one that the motors can hold and that is free of contact.
_POSTURES = 2000
# Largest number of samples of a design: its torques are checked on a hundred times as many.
MOST_SAMPLES = 50_000


def check_limits(model: Model, limits: MotionLimits, duration: float, rate_hz: float, parameters: int) -> None:
    """Raises errors that name the joint, the limit and by how much it is missed."""
    joints = model.robot.axes
    if len(limits.lower) != len(joints):
        raise DataError(f"The limits are for {len(limits.lower)} joints; '{model.robot.name}' has {len(joints)}.")
    for what, value in (
        ("duration of a motion (--duration) [s]", duration),
        ("rate of rows (rate_hz, --row-rate) [Hz]", rate_hz),
    ):
        if not (np.isfinite(value) and value > 0.0):
            raise DataError(f"The {what} must be positive, not {value:g}.")
    if duration * rate_hz > MOST_SAMPLES:
        raise DataError(
            f"A duration of {duration:g} s at {rate_hz:g} rows per second gives {duration * rate_hz:.4g} samples, and "
            f"a design uses at most {MOST_SAMPLES}: give a shorter --duration, or a lower --row-rate (rate_hz)."
        )
    for i, joint in enumerate(joints):
        unit = "m" if joint.is_prismatic else "rad"
        lower, upper = float(limits.lower[i]), float(limits.upper[i])
        if not np.isfinite(upper - lower):
            raise DataError(f"{joint.name} has no finite range: give a lower and an upper position limit.")
        if upper - lower < STILL:
            raise DataError(
                f"Position limits of {joint.name}: from {lower:.6g} to {upper:.6g} {unit} leave {upper - lower:.4g} "
                f"{unit}, {STILL - (upper - lower):.4g} {unit} less than the {STILL:g} {unit} it must travel to count "
                "as moving. Widen them."
            )
        # back and forth in the duration: the speed is reached in a quarter of it, at constant acceleration or jerk
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
            higher = f"raise the limit {factor:.4g} times" if top > 0.0 else "give a limit above zero"
            raise DataError(
                f"{what.capitalize()} limit of {joint.name}: {limit:.6g} {unit}/s{('', '²', '³')[power]} lets it reach "
                f"{max(top, 0.0):.4g} {unit}/s in {duration:g} s, {REST_SPEED - top:.4g} {unit}/s short of the "
                f"{REST_SPEED:g} {unit}/s above which its friction is sliding: {longer}{higher}."
            )
    rows = int(duration * rate_hz) * len(joints)
    if rows < parameters:
        raise DataError(
            f"The duration of {duration:g} s gives {rows} rows at {rate_hz:g} Hz for {parameters} base parameters, "
            f"{parameters - rows} too few: give at least {parameters / rate_hz / len(joints):.4g} s, or sample faster."
        )


def check_loads(model: Model, limits: MotionLimits, theta: Array | None, loads: Sequence[str]) -> None:
    """Raises an error where torques are limited and a load case carries a body of unknown mass."""
    if theta is None or not np.isfinite(limits.torque).any():
        return
    for payload in (one for one in model.payloads if one.name in loads):
        if "M" not in payload.known and not theta[model.layout.index(f"{payload.name}.M")] > 0.0:
            raise DataError(
                f"Torques are limited, and the mass of the payload '{payload.name}' is unknown: with 0 kg the motion "
                f"could exceed the torque of the motors. Give its largest mass [kg], --load {payload.name}=2.5, or its "
                f"mass in the [[payload]] of the project. In Python pass a theta with {payload.name}.M, or remove the "
                "torque limits (MotionLimits(…, torque=inf))."
            )


def weighing(model: Model, theta: Array | None, masses: Mapping[str, float]) -> Array | None:
    """θ (C,) with `masses` [kg] for payloads of unknown mass, for torques."""
    out = None if theta is None else np.array(theta)
    for name, mass in masses.items():
        payload = next((one for one in model.payloads if one.name == name), None)
        if payload is None:
            raise DataError(choices("load case", name, [UNLOADED, *(one.name for one in model.payloads)]))
        if "M" in payload.known:
            raise DataError(
                f"--load {name}={mass:g}: the project states {payload.known['M']:g} kg. Remove one of the two."
            )
        if not 0.0 < mass < np.inf:
            raise DataError(f"--load {name}={mass:g}: the mass must be a positive number [kg].")
        if out is not None:
            out[model.layout.index(f"{name}.M")] = mass
    return out


def torque_caveats(model: Model, theta: Array | None, limits: MotionLimits, loads: Sequence[str]) -> tuple[str, ...]:
    """Sentences on what the torques of the nominal model θ (C,) leave out, where they are limited."""
    if theta is None or not np.isfinite(limits.torque).any():
        return ()
    said = []
    rubs = {column.owner for column, x in zip(model.layout.columns, theta, strict=True) if _friction(column) and x}
    free = [name for name in model.robot.axis_names if name not in rubs]
    if free:
        of = "" if len(free) == model.robot.dof else f" of {', '.join(free)}"
        said.append(
            f"Torques exclude friction{of}, for which the model has no values: the motors need more than reported."
        )
    for payload in (one for one in model.payloads if one.name in loads):
        values = theta[[model.layout.index(column.name) for column in payload.columns]]
        if not np.any(values[:-1]):
            said.append(
                f"Torques treat the payload '{payload.name}' as a point mass of {values[-1]:.4g} kg at the origin of "
                f"its frame on {payload.link}: its centre of mass and inertia are not stated."
            )
    return tuple(said)


def _friction(column: Column) -> bool:
    return column.kind == "term" and column.symbol.startswith("F")


def check_posture(clearance: Clearance | None, limits: MotionLimits, q: Array, name: str, robot: Robot) -> None:
    """Raises an error where a posture q (n,), called `name`, is outside its limits or too close to something."""
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
    """A posture (n,) within the limits at which slow motion in either direction takes the smallest fraction of the
    torque limits.

    With a clearance it also keeps the margin and `spare` [m]: the cost is the larger of the torque fraction and of the
    distance missing to `REACH`. Raises an error if no posture is possible. Without either it is the middle of the
    ranges.
    """
    middle = 0.5 * (limits.lower + limits.upper)
    limited = bool(np.isfinite(limits.torque).any())
    if not limited and (clearance is None or not len(clearance)):
        return middle
    # nearer to the middle than to the ends: a start needs range on both sides
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
                f"None of {_POSTURES} postures within the limits is free of collisions and can also be held by the "
                "motors. Raise the torque limits, widen the ranges, or reduce the margin."
            )
    return q[:, int(np.argmin(used))]


def _room(clearance: Clearance, spare: float, q: Array) -> Array:
    """Distance of the nearest pair beyond the margin and `spare` at postures q (n, N), (N,) [m]."""
    distance = clearance.distances(q)
    room = distance - clearance.margin - spare
    if room.min(axis=0).max() <= 0.0:
        # the pair that is worst at its own best posture; if each alone is possible, that of the best posture
        best = int(np.argmax(room.min(axis=0)))
        k = int(np.argmin(room[:, best]))
        if room.max(axis=1).min() <= 0.0:
            k = int(np.argmin(room.max(axis=1)))
            best = int(np.argmax(room[k]))
        short = clearance.margin + spare - float(distance[k, best])
        raise DataError(
            f"None of {_POSTURES} postures within the limits is free of collisions. In the best one, "
            f"{clearance.names[k]} are {distance[k, best]:.4g} m apart (negative: they overlap), {short:.4g} m less "
            f"than the margin of {clearance.margin:.4g} m plus the {spare:.4g} m that a design adds to it. Widen the "
            "ranges, correct the shapes, or ignore the pair if it may touch."
        )
    return room.min(axis=0)


def _creeping(model: Model, limits: MotionLimits, theta: Array, loads: Sequence[str], usable: float, q: Array) -> Array:
    """Fraction (N,) of the usable torque limits that slow motion in either direction takes at postures q (n, N)."""
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
        # the joint that is worst at its own easiest posture; if each alone is possible, that of the best posture
        j, k = int(np.argmax(share[:, best])), best
        if share.min(axis=1).max() >= usable:
            j = int(np.argmax(share.min(axis=1)))
            k = int(np.argmin(share[j]))
        name, unit = model.robot.axis_names[j], "N" if model.robot.axes[j].is_prismatic else "N·m"
        raise DataError(
            f"Torque limit of {name}: {limits.torque[j]:.4g} {unit}, of which a design may use {usable:.0%}. The "
            f"nominal model needs {need[j, k]:.4g} {unit} for slow motion at the best of {_POSTURES} postures, "
            f"{need[j, k] - usable * limits.torque[j]:.4g} {unit} too much. Raise the limit, widen the ranges, or "
            "check the nominal values."
        )
    return share.max(axis=0) / usable
