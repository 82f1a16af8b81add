"""Motion of a floating base: what enters the dynamics, in the frame of the base.

    f (3,) = d − g    specific force at the base's origin [m/s²], what an accelerometer there measures
    ω (3,)            angular velocity [rad/s], what a gyroscope measures
    α (3,) = ω̇        angular acceleration [rad/s²]

stacked as (9, N). Neither orientation nor velocity is needed: the equations of motion depend on gravity and on the
acceleration d of the origin only by their difference, and not on the velocity of the origin.

The tree of a floating robot begins with six joints x, y, z, rx, ry, rz. Every sample uses them at q = 0, where their
axes are those of the base and nothing is singular: the dynamics know no orientation, so that each sample may measure
from its own. There (rx, ry, rz) turns the base with ω = q̇_r and, since each joint carries the next,

    α = q̈_r + (ω_y ω_z, −ω_x ω_z, ω_x ω_y),    d − g = q̈_xyz  in a field of zero gravity.

The efforts of these six joints are the force [N] and the moment about the base's origin [N·m] that act on the robot
from outside, along the axes of the base.
"""

from __future__ import annotations

import numpy as np

from steelyard._arrays import Array
from steelyard.model.pose import Pose

# Rows of a base motion, and its parts.
ROWS = 9
FORCE, RATE, ANGULAR = slice(0, 3), slice(3, 6), slice(6, 9)


def coordinates(base: Array) -> tuple[Array, Array, Array]:
    """q, q̇, q̈ (6, N) of the base's joints for its motion (9, N)."""
    x, y, z = rate = base[RATE]
    still = np.zeros((3, base.shape[1]))
    turned = base[ANGULAR] - np.stack([y * z, -x * z, x * y])
    return np.zeros((6, base.shape[1])), np.concatenate([still, rate]), np.concatenate([base[FORCE], turned])


def at_origin(force: Array, rate: Array, angular: Array, sensor: Pose) -> Array:
    """The base's motion (9, N) from that measured in the frame of a sensor at a pose on the base, (3, N) each.

    f = R f_s − α × r − ω × (ω × r),    ω = R ω_s,    α = R α_s
    """
    f, w, a = (sensor.rotation @ x for x in (force, rate, angular))
    r = sensor.position[:, None]
    f = f - np.cross(a, r, axis=0) - np.cross(w, np.cross(w, r, axis=0), axis=0)
    return np.concatenate([f, w, a])


def of_pose(attitude: tuple[Array, Array, Array], acceleration: Array, gravity: Array) -> Array:
    """A frame's motion (9, N) from its attitude, a quaternion (w, x, y, z) (4, N) with its first and second derivative,
    and the acceleration (3, N) of its origin in the world.

        ω = 2 Im(q* q̇),    α = 2 Im(q* q̈),    f = Rᵀ(p̈ − g)

    for a unit quaternion, whose q̇* q̇ is real. One that a filter left shorter than 1 by little is scaled.
    """
    q, dq, ddq = attitude
    size = np.sum(q**2, axis=0)
    w, a = (2.0 * _imaginary(q, x) / size for x in (dq, ddq))
    x = acceleration - gravity[:, None]
    # Rᵀ x of the unit quaternion
    t = 2.0 * np.cross(x, q[1:], axis=0)
    back = x + (q[0] * t + np.cross(t, q[1:], axis=0)) / size
    return np.concatenate([back, w, a])


def _imaginary(q: Array, p: Array) -> Array:
    """Im(q* p) of quaternions (4, N)."""
    return q[0] * p[1:] - p[0] * q[1:] - np.cross(q[1:], p[1:], axis=0)


def random_base(rng: np.random.Generator, count: int) -> Array:
    """Base motions (9, count) of some m/s², rad/s and rad/s², in any direction."""
    base = rng.normal(size=(ROWS, count))
    base[FORCE] *= 5.0
    return base
