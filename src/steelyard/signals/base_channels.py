"""Columns of a log with the motion of a floating base: an inertial sensor on it, or its pose in the world.

An inertial measurement unit needs no orientation, since its accelerometer measures the acceleration less gravity: that
is what the dynamics need. A pose (motion capture, a state estimator, a simulator) is differentiated twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from steelyard._arrays import Array
from steelyard.errors import DataError, choices
from steelyard.model.floating.base_motion import at_origin, of_pose
from steelyard.model.pose import Pose
from steelyard.model.robot import Robot

_TURN = 2.0 * np.pi
# Factor to SI of the units of each signal.
UNITS: dict[str, dict[str, float]] = {
    "gyroscope": {"rad/s": 1.0, "deg/s": _TURN / 360.0},
    "accelerometer": {"m/s2": 1.0, "g": 9.80665},
    "orientation": {"wxyz": 1.0, "xyzw": 1.0},
    "position": {"m": 1.0, "mm": 1e-3},
}
SENSOR, POSE = ("gyroscope", "accelerometer"), ("orientation", "position")
# A quaternion shorter than this is not a rotation that was rounded, but a missing one.
_NO_ROTATION = 0.5


@dataclass(frozen=True)
class BaseSignal:
    """Three columns x, y, z (four of a quaternion) and their unit; for a quaternion its order, wxyz or xyzw."""

    columns: Sequence[str]
    unit: str


@dataclass(frozen=True)
class BaseChannels:
    """Motion of a floating base: gyroscope and accelerometer, or orientation and position, of a frame on the base.

    `link` is a body of the robot file that is fixed to the base, "" for the base itself; the frame is at `pose` on it.
    """

    gyroscope: BaseSignal | None = None
    accelerometer: BaseSignal | None = None
    orientation: BaseSignal | None = None
    position: BaseSignal | None = None
    link: str = ""
    pose: Pose = field(default_factory=Pose)


@dataclass(frozen=True)
class ResolvedBase:
    """The columns checked against a robot: raw values times `factor`, in the `order` of `kind`'s signals, are those of
    a frame at `sensor` on the base."""

    kind: Literal["sensor", "pose"]
    columns: tuple[str, ...]
    factor: Array
    sensor: Pose
    gravity: Array

    def __call__(self, raw: Array) -> Array:
        """Values (6 or 7, N) in SI, to be filtered and differentiated."""
        return raw * self.factor[:, None]

    def motion(self, x: Array, dx: Array, ddx: Array) -> Array:
        """Motion (9, N) of the base's origin from filtered values and their derivatives."""
        if self.kind == "sensor":
            return at_origin(x[3:], x[:3], dx[:3], self.sensor)
        f, w, a = np.split(of_pose((x[:4], dx[:4], ddx[:4]), ddx[4:], self.gravity), 3)
        return at_origin(f, w, a, self.sensor)

    def continued(self, raw: Array, last: Array, first_row: int, name: str) -> Array:
        """Raw values with quaternions of unit length whose sign does not jump, since q and −q are one rotation; `last`
        is the value before the first one, NaN if there is none. `first_row` and `name` of the log are for messages."""
        if self.kind == "sensor":
            return raw
        size = np.linalg.norm(raw[:4], axis=0)
        if np.any(size < _NO_ROTATION):
            raise DataError(
                f"Log '{name}': the quaternion in the columns {', '.join(self.columns[:4])} has a norm of "
                f"{size.min():.3g} in row {first_row + int(np.argmin(size))}, which no rotation has. Check the columns "
                "of 'orientation' in [channels.base], or empty such cells and set missing = \"drop\"."
            )
        q = raw[:4] / size
        turns = np.sum(q * np.concatenate([last[:4, None], q[:, :-1]], axis=1), axis=0) < 0.0
        return np.concatenate([q * np.where(np.cumsum(turns) % 2 == 1, -1.0, 1.0), raw[4:]])


def resolved_base(channels: BaseChannels | None, robot: Robot) -> ResolvedBase | None:
    """The map of the base checked against a robot; None on a fixed base."""
    if not robot.floats:
        if channels is None:
            return None
        raise DataError(
            f"[channels.base] is the motion of a floating base, and '{robot.name}' is bolted down: state base = "
            '"floating", or remove the table.'
        )
    if channels is None:
        raise DataError(
            f"The base of '{robot.name}' floats, and no columns of its motion are named: add [channels.base] with "
            "'gyroscope' and 'accelerometer', or 'orientation' and 'position'. If the base did not move in the "
            'recordings, state base = "fixed".'
        )
    given = [name for name in (*SENSOR, *POSE) if getattr(channels, name) is not None]
    if given not in (list(SENSOR), list(POSE)):
        raise DataError(
            f"[channels.base] needs 'gyroscope' and 'accelerometer', or 'orientation' and 'position', not "
            f"{' and '.join(map(repr, given)) or 'nothing'}."
        )
    parts = [_columns(name, getattr(channels, name)) for name in given]
    names = tuple(column for columns, _ in parts for column in columns)
    if len(set(names)) != len(names):
        raise DataError(f"[channels.base] repeats a column: {', '.join(names)}.")
    factor = np.array([factor for columns, factor in parts for _ in columns])
    kind: Literal["sensor", "pose"] = "sensor" if given == list(SENSOR) else "pose"
    return ResolvedBase(kind, names, factor, _place(channels, robot), np.asarray(robot.gravity, float))


def _columns(name: str, signal: BaseSignal) -> tuple[list[str], float]:
    """The columns in the order used here (a quaternion as w, x, y, z), and the factor to SI."""
    what = f"[channels.base] {name}"
    if signal.unit not in UNITS[name]:
        raise DataError(f"{what}: {choices('unit', signal.unit, UNITS[name])}")
    count = 4 if name == "orientation" else 3
    if len(signal.columns) != count:
        raise DataError(f"{what} lists {len(signal.columns)} columns; it needs {count}.")
    columns = list(signal.columns)
    return (columns[-1:] + columns[:-1] if signal.unit == "xyzw" else columns), UNITS[name][signal.unit]


def _place(channels: BaseChannels, robot: Robot) -> Pose:
    """The sensor's frame on the base link."""
    base = robot.links[5]
    frames = {base.name: Pose()} | {lump.name: lump.pose for lump in base.lumps}
    if channels.link and channels.link not in frames:
        raise DataError(f"[channels.base] link: {choices('body on the base', channels.link, frames)}")
    return frames[channels.link or base.name] @ channels.pose
