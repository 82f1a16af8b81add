"""Excitation: random motions that use a robot's full limits, and the check that a trajectory respects them."""

from __future__ import annotations

import numpy as np

from steelyard._arrays import Array
from steelyard.errors import DataError
from steelyard.findings import Finding
from steelyard.model.robot import Joint, Robot
from steelyard.motion.trajectory import Fourier, Motion, Trajectory, positive

# Defaults for a joint without limits in random motions: (half range, speed).
UNLIMITED_REVOLUTE = (np.pi / 2, np.pi)
UNLIMITED_PRISMATIC = (0.25, 0.5)

_LIMIT_TOLERANCE = 1e-9


def limit_findings(trajectory: Trajectory, robot: Robot) -> tuple[Finding, ...]:
    """One finding per joint whose position or speed exceeds the robot's limits, also between samples."""
    if trajectory.dof != robot.dof:
        raise DataError(f"The trajectory moves {trajectory.dof} joints; robot '{robot.name}' has {robot.dof}.")
    seen, found = trajectory.extremes(), []
    for i, joint in enumerate(robot.axes):
        limits, unit = joint.limits, "m" if joint.is_prismatic else "rad"
        for what, value, limit, beyond, unit_ in (
            ("position", seen.lower[i], limits.lower, limits.lower - seen.lower[i], unit),
            ("position", seen.upper[i], limits.upper, seen.upper[i] - limits.upper, unit),
            ("velocity", seen.speed[i], limits.velocity, seen.speed[i] - limits.velocity, f"{unit}/s"),
        ):
            if beyond > _LIMIT_TOLERANCE * max(1.0, abs(limit)):
                message = f"{joint.name} reaches {value:.6g} {unit_}; its {what} limit is {limit:.6g} {unit_}"
                advice = f"scale the motion of {joint.name} down, or correct the limit in the robot file"
                found.append(
                    Finding(
                        "trajectory-velocity-limit" if what == "velocity" else "trajectory-position-limit",
                        "error",
                        message,
                        joint.name,
                        advice,
                    )
                )
    return tuple(found)


def random_points(robot: Robot, count: int, rng: np.random.Generator, margin: float = 0.05) -> Array:
    """`count` positions (n, count), uniform within the joint limits minus `margin` of the range at each end.

    A joint without limits moves within ±π/2 rad or ±0.25 m; with one limit, over the same width from that limit.
    """
    if count < 1:
        raise DataError(f"count must be at least 1, not {count}.")
    middle, half, _ = _room(robot, margin)
    return middle[:, None] + half[:, None] * rng.uniform(-1.0, 1.0, (robot.dof, count))


def random_fourier(
    robot: Robot,
    harmonics: int,
    frequency_hz: float,
    duration: float,
    rng: np.random.Generator,
    margin: float = 0.05,
    blend: float | None = None,
) -> Fourier:
    """A Fourier series with normal coefficients, each joint scaled until it reaches its position or velocity limit.

    It starts and ends at rest in the middle of the ranges; `blend` [s] defaults to a quarter of a period. A joint
    without limits moves within ±π/2 rad at π rad/s, or ±0.25 m at 0.5 m/s.
    """
    if harmonics < 1:
        raise DataError(f"A Fourier series needs at least one harmonic, not {harmonics}.")
    positive("frequency", frequency_hz)
    middle, half, speed = _room(robot, margin)
    sine, cosine = rng.standard_normal((2, robot.dof, harmonics))
    ramp = min(0.25 / frequency_hz, duration / 4) if blend is None else blend
    unit = Fourier(np.zeros(robot.dof), sine, cosine, frequency_hz, duration, ramp)
    seen = unit.extremes()
    scale = np.minimum(half / np.maximum(seen.upper, -seen.lower), speed / seen.speed)[:, None]
    return Fourier(middle, scale * sine, scale * cosine, frequency_hz, duration, ramp)


def _room(robot: Robot, margin: float) -> Motion:
    """Centre, half range and speed (n,) available to a random motion."""
    if not 0.0 <= margin < 0.5:
        raise DataError(f"margin is a fraction of the range at each end, from 0 to below 0.5, not {margin}.")
    lower, upper, speed = np.transpose([_joint_room(joint) for joint in robot.axes])
    return (lower + upper) / 2, (upper - lower) * (0.5 - margin), speed * (1.0 - margin)


def _joint_room(joint: Joint) -> tuple[float, float, float]:
    half, speed = UNLIMITED_PRISMATIC if joint.is_prismatic else UNLIMITED_REVOLUTE
    lower, upper = joint.limits.lower, joint.limits.upper
    if not np.isfinite(lower):
        lower = upper - 2 * half if np.isfinite(upper) else -half
    if not np.isfinite(upper):
        upper = lower + 2 * half
    if np.isfinite(joint.limits.velocity):
        speed = joint.limits.velocity
    if speed <= 0.0 or upper < lower:
        raise DataError(f"The limits of {joint.name} leave no range of motion: correct them in the robot file.")
    return lower, upper, speed
