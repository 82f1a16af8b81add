"""Which columns are the motion of a floating base: an inertial sensor, or its pose, by names and values."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from steelyard._arrays import Array
from steelyard.model.robot import Robot
from steelyard.signals.base_channels import POSE, SENSOR, BaseChannels, BaseSignal
from steelyard.signals.recording import Recording

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
# Words of a name that show the signal; all words of one entry must be there.
_SIGNALS: dict[str, tuple[frozenset[str], ...]] = {
    "gyroscope": tuple(map(frozenset, (["gyro"], ["gyroscope"], ["omega"], ["angular", "velocity"], ["ang", "vel"]))),
    "accelerometer": tuple(map(frozenset, (["acc"], ["accel"], ["accelerometer"], ["linear", "acceleration"]))),
    "orientation": tuple(map(frozenset, (["quat"], ["quaternion"], ["orientation"]))),
    "position": tuple(map(frozenset, (["position"], ["pos"], ["translation"]))),
}
_AXES = {"0": "x", "1": "y", "2": "z", "3": "w"} | {axis: axis for axis in "xyzw"}
# A place belongs to the base only if its name says so: joints have positions too.
_BASE = frozenset({"base", "body", "trunk", "torso", "pelvis", "root", "imu", "floating"})
_IMU = re.compile("imu", re.IGNORECASE)
# Median length of what an accelerometer measures, by its unit, and the fraction by which a robot in motion differs.
_AT_REST = {"m/s2": 9.80665, "g": 1.0}
_NEAR = 0.3
# No base turns as fast as this for long [rad/s]: a gyroscope with larger values counts degrees.
_FASTEST = 15.0
_ROWS = 20000


class GuessedBase(NamedTuple):
    """The channels, and the reason for each of their signals."""

    channels: BaseChannels
    why: Mapping[str, str]


def guess_base(recording: Recording, robot: Robot, taken: Sequence[str]) -> GuessedBase | None:
    """The motion of the base in the columns that no joint uses; None if there is none or the values do not fit."""
    found = _signals([column for column in recording.columns if column not in taken])
    for kinds in (SENSOR, POSE):
        if not all(kind in found for kind in kinds):
            continue
        head = _head(recording, [column for kind in kinds for column in found[kind]])
        signals, why = {}, {}
        for kind in kinds:
            unit, reason = _unit(kind, found[kind], np.stack([head[column] for column in found[kind]]))
            if unit is None:
                break
            signals[kind], why[kind] = BaseSignal(found[kind], unit), reason
        else:
            frames = [lump.name for lump in robot.links[5].lumps if _IMU.search(lump.name)]
            link = frames[0] if kinds == SENSOR and len(frames) == 1 else ""
            return GuessedBase(BaseChannels(**signals, link=link), why)
    return None


def _signals(columns: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The columns of every signal in the order x, y, z (w), of the first complete group."""
    groups: dict[tuple[str, tuple[str, ...]], dict[str, str]] = {}
    for column in columns:
        words = [word.lower() for word in _WORD.findall(column)]
        # base_qw and base_px: the letter before the axis names the signal
        if words and re.fullmatch("[qp][xyzw]", words[-1]):
            words = [*words[:-1], {"q": "quat", "p": "position"}[words[-1][0]], words[-1][1]]
        if len(words) < 2 or words[-1] not in _AXES:
            continue
        for kind, entries in _SIGNALS.items():
            spoken = any(entry <= set(words[:-1]) for entry in entries)
            if spoken and (kind != "position" or _BASE & set(words)):
                groups.setdefault((kind, tuple(words[:-1])), {})[_AXES[words[-1]]] = column
                break
    out: dict[str, tuple[str, ...]] = {}
    for (kind, _), own in groups.items():
        wanted = "xyzw" if kind == "orientation" else "xyz"
        if set(own) == set(wanted):
            out.setdefault(kind, tuple(own[axis] for axis in wanted))
    return out


def _head(recording: Recording, columns: Sequence[str]) -> Mapping[str, Array]:
    return next(iter(recording.chunks(tuple(columns), _ROWS)))


def _unit(kind: str, columns: Sequence[str], x: Array) -> tuple[str | None, str]:
    """The unit that the values fit, None if they fit none, and why."""
    size = np.linalg.norm(x, axis=0)
    size = size[np.isfinite(size)]
    if not len(size):
        return None, ""
    usual = float(np.median(size))
    if kind == "orientation":
        return ("xyzw" if abs(usual - 1.0) < 0.01 else None), f"unit quaternions (norm {usual:.3g})"
    if kind == "accelerometer":
        unit = next((unit for unit, rest in _AT_REST.items() if abs(usual / rest - 1.0) < _NEAR), None)
        return unit, f"usually {usual:.3g} long: gravity in {unit}"
    if kind == "gyroscope":
        top = float(np.quantile(size, 0.95))
        said = any(word in column.lower() for column in columns for word in ("deg", "dps"))
        unit = "deg/s" if said or top > _FASTEST else "rad/s"
        return unit, f"95 % of the rates are below {top:.3g}" if not said else "by the names"
    return "m", "by the names"
