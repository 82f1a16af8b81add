"""Channel map: which log columns are which signals, and their joint, unit, sign, gear ratio and side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar, cast

import numpy as np

from steelyard._arrays import Array
from steelyard.errors import DataError, choices
from steelyard.model.robot import Robot
from steelyard.signals.base_channels import BaseChannels, ResolvedBase, resolved_base

T = TypeVar("T", float, str)
PerJoint = T | Sequence[T] | Mapping[str, T]

TIME_UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_TURN = 2.0 * np.pi
# (kind of joint, factor to SI)
POSITION_UNITS = {
    "rad": ("rotary", 1.0), "mrad": ("rotary", 1e-3), "deg": ("rotary", _TURN / 360.0), "rev": ("rotary", _TURN),
    "m": ("linear", 1.0), "mm": ("linear", 1e-3),
}  # fmt: skip
VELOCITY_UNITS = {
    "rad/s": ("rotary", 1.0), "mrad/s": ("rotary", 1e-3), "deg/s": ("rotary", _TURN / 360.0),
    "rev/s": ("rotary", _TURN), "rpm": ("rotary", _TURN / 60.0),
    "m/s": ("linear", 1.0), "mm/s": ("linear", 1e-3),
}  # fmt: skip
# "needs gain": the value becomes an effort only when multiplied by `gain` [N.m or N per unit of `GAIN_PER`]
EFFORT_UNITS = {
    "N.m": ("rotary", 1.0), "Nm": ("rotary", 1.0), "mN.m": ("rotary", 1e-3), "kN.m": ("rotary", 1e3),
    "N": ("linear", 1.0), "kN": ("linear", 1e3),
    "A": ("needs gain", 1.0), "mA": ("needs gain", 1e-3), "raw": ("needs gain", 1.0),
}  # fmt: skip
SIDES = ("joint", "motor")
# The value of `gain` that asks for the gains to be identified.
UNKNOWN = "unknown"
# The unit of current or count that a gain refers to; milliamperes are converted to amperes first.
GAIN_PER = {"A": "A", "mA": "A", "raw": "raw"}


@dataclass(frozen=True)
class Signal:
    """One kind of signal for all joints, as the user states it.

    `columns`, `unit`, `sign`, `ratio`, `gain` and `offset` are one value, a list in the robot's joint order, or a table
    by joint name. `ratio` is motor turns per joint turn (with side = "motor"). `gain` is in N.m or N per unit of
    current, or the word "unknown" for all joints: the gains are then to be identified, and 1 is used in their place.
    `offset` [rad | m] is added to positions after conversion. `gain_std` is the relative standard deviation of stated
    gains, by which all of them may be wrong together.
    """

    columns: Sequence[str] | Mapping[str, str]
    unit: PerJoint[str]
    side: str = "joint"
    sign: PerJoint[float] = 1.0
    ratio: PerJoint[float] | None = None
    gain: PerJoint[float] | Literal["unknown"] | None = None
    offset: PerJoint[float] = 0.0
    gain_std: float | None = None


@dataclass(frozen=True)
class Drives:
    """The stated conversion from logged efforts to joint torques, one entry per motor in joint order.

    The torque of motor k on the joint side is sign_k · ratio_k · gain_k times the value logged in `unit`_k. An
    identified factor corrects the gain only; gear ratios, signs and couplings are known. `gain` is None where it was
    stated as unknown and 1 was used; `ratio` is 1 for signals of the joint side. `gain_unit` is the unit of `gain`:
    "N.m/A", "N/raw", or "1" for signals logged as efforts. `gain_std` is the relative standard deviation of all stated
    gains together; None where it was not stated.
    """

    unit: tuple[str, ...]
    gain: tuple[float, ...] | None
    ratio: tuple[float, ...]
    side: str
    gain_unit: tuple[str, ...]
    gain_std: float | None = None


@dataclass(frozen=True)
class ChannelMap:
    """The whole map: a clock, positions, efforts, and velocities where they were logged.

    `reference` and `reference_v` are commanded positions and velocities, used by estimators that simulate the runs.
    `base` is the motion of a floating base.
    """

    time: str
    q: Signal
    effort: Signal
    time_unit: str = "s"
    v: Signal | None = None
    reference: Signal | None = None
    reference_v: Signal | None = None
    base: BaseChannels | None = None


@dataclass(frozen=True)
class Linear:
    """signal (n, B) = matrix @ raw (n, B) + offset: every unit, sign, ratio and coupling in one product."""

    columns: tuple[str, ...]
    matrix: Array
    offset: Array

    def __call__(self, raw: Array) -> Array:
        # a diagonal map is applied as a row scaling: BLAS rounding may depend on the width of the chunk, this does not
        diagonal = np.diagonal(self.matrix)
        if np.array_equal(self.matrix, np.diag(diagonal)):
            return raw * diagonal[:, None] + self.offset[:, None]
        # added row by row: the summation order of np.sum depends on the width
        return np.stack([sum(row[:, None] * raw) for row in self.matrix]) + self.offset[:, None]


@dataclass(frozen=True)
class ResolvedChannels:
    """The map checked against a robot and ready to be applied to raw rows.

    `columns` leaves out the columns of the references: samples are the same with and without them.
    """

    time: str
    time_factor: float
    q: Linear
    effort: Linear
    v: Linear | None
    drives: Drives
    reference: Linear | None = None
    reference_v: Linear | None = None
    base: ResolvedBase | None = None

    def places(self, signal: Linear | ResolvedBase) -> list[int]:
        """Rows of a signal's columns among the values that are read (all `columns` but the clock)."""
        return [self.columns.index(name) - 1 for name in signal.columns]

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column to be read once, the clock first."""
        named = (self.time, *self.q.columns, *(self.v.columns if self.v else ()), *self.effort.columns)
        return tuple(dict.fromkeys((*named, *(self.base.columns if self.base else ()))))

    @property
    def has_reference(self) -> bool:
        return self.reference is not None or self.reference_v is not None


def gains_needed(estimator: str) -> str:
    """The error message where gains are stated as unknown and the estimator does not identify gains."""
    return (
        f"gain = \"{UNKNOWN}\" needs an estimator that identifies gains ('gains', 'tls-mixed' or 'tls'), not "
        f"'{estimator}', and a run that carries a payload of known mass. Otherwise state 'gain'."
    )


def resolve(channels: ChannelMap, robot: Robot) -> ResolvedChannels:
    """Check names, units, sides and ratios, and fold them into one linear map per signal.

    On the motor side q̇_m = diag(ratio) C q̇, so that (P0 eq. 34)
        q = C⁻¹ diag(sign/ratio) q_m,    τ = Cᵀ diag(sign·ratio·gain) τ_m
    """
    if channels.time_unit not in TIME_UNITS:
        raise DataError("Channel 'time': " + choices("unit", channels.time_unit, TIME_UNITS))
    coupling = robot.motor_map
    motion = {
        label: None if signal is None else _motion(label, signal, units, robot)
        for label, signal, units in (
            ("q", channels.q, POSITION_UNITS),
            ("v", channels.v, VELOCITY_UNITS),
            ("reference", channels.reference, POSITION_UNITS),
            ("reference_v", channels.reference_v, VELOCITY_UNITS),
        )
    }
    effort = channels.effort
    if _values("effort", "offset", effort.offset, robot).any():
        raise DataError(
            "Channel 'effort': 'offset' applies to positions only; use the term 'offset' to identify an effort offset."
        )
    factor = _factors("effort", effort, EFFORT_UNITS, robot) * _values("effort", "sign", effort.sign, robot)
    drives = _drives(effort, robot)
    if drives.gain is not None:
        factor = factor * np.array(drives.gain)
    matrix = np.diag(factor)
    if drives.side == "motor":
        matrix = coupling.T @ np.diag(factor * np.array(drives.ratio))
    torque = Linear(_columns("effort", effort, robot), matrix, np.zeros(robot.dof))
    _check_shared(channels.time, torque, *motion.values())
    q, v, *references = motion.values()
    assert q is not None
    base = resolved_base(channels.base, robot)
    if base is not None:
        _check_shared(channels.time, torque, base, *motion.values())
    return ResolvedChannels(channels.time, TIME_UNITS[channels.time_unit], q, torque, v, drives, *references, base=base)


def _motion(label: str, signal: Signal, units: dict[str, tuple[str, float]], robot: Robot) -> Linear:
    """The linear map from logged positions or velocities to those of the joints."""
    if signal.gain is not None or signal.gain_std is not None:
        raise DataError(f"Channel '{label}': 'gain' belongs to the effort channel; use 'ratio' and 'sign' here.")
    offset = _values(label, "offset", signal.offset, robot)
    if units is VELOCITY_UNITS and offset.any():
        raise DataError(f"Channel '{label}': 'offset' applies to positions only; remove it.")
    factor = _factors(label, signal, units, robot) * _values(label, "sign", signal.sign, robot)
    matrix = np.diag(factor)
    if _is_motor_side(label, signal):
        matrix = np.linalg.inv(robot.motor_map) @ np.diag(factor / _ratio(label, signal, robot))
    return Linear(_columns(label, signal, robot), matrix, offset)


def _drives(effort: Signal, robot: Robot) -> Drives:
    at_motor = _is_motor_side("effort", effort)
    gain = effort.gain
    if isinstance(gain, str):
        if gain != UNKNOWN:
            raise DataError(f"Channel 'effort': gain must be numbers or the word \"{UNKNOWN}\", not '{gain}'.")
        if robot.coupled and not at_motor:
            raise DataError(
                f"Channel 'effort': gain = \"{UNKNOWN}\" is identified per motor, and motors of '{robot.name}' drive "
                "several joints: set side = \"motor\" and 'ratio', motor turns per joint turn."
            )
        stated = None
    else:
        stated = np.ones(robot.dof) if gain is None else _values("effort", "gain", gain, robot)
    units = _spread("effort", "unit", effort.unit, robot)
    if effort.gain_std is not None and not (stated is not None and 0.0 <= effort.gain_std < 1.0):
        raise DataError(
            f"Channel 'effort': gain_std must be a relative standard deviation of stated gains, from 0 to below 1, not "
            f"{effort.gain_std!r}" + (f'; gains that are "{UNKNOWN}" have none.' if stated is None else ".")
        )
    # a motor is rotary even where it drives a prismatic joint
    efforts = ("N" if joint.is_prismatic and not at_motor else "N.m" for joint in robot.axes)
    return Drives(
        tuple(units),
        None if stated is None else tuple(stated.tolist()),
        tuple(_ratio("effort", effort, robot).tolist()) if at_motor else (1.0,) * robot.dof,
        effort.side,
        tuple(
            f"{told}/{GAIN_PER[unit]}" if unit in GAIN_PER else "1" for told, unit in zip(efforts, units, strict=True)
        ),
        effort.gain_std,
    )


def _check_shared(time: str, *signals: Linear | ResolvedBase | None) -> None:
    names = [time, *(name for signal in signals if signal is not None for name in signal.columns)]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DataError(
            f"Column {', '.join(twice)} is used by more than one signal (time, q, v, effort, references, base)."
        )


def _spread(label: str, what: str, value: PerJoint[T], robot: Robot) -> list[T]:
    """One value per joint from a scalar, a list in joint order or a table by joint name."""
    if isinstance(value, Mapping):
        for name in value:
            if name not in robot.axis_names:
                raise DataError(f"Channel '{label}', {what}: " + choices("joint", name, robot.axis_names))
        missing = [name for name in robot.axis_names if name not in value]
        if missing:
            raise DataError(f"Channel '{label}': {what} is missing for joint {', '.join(missing)}.")
        return [value[name] for name in robot.axis_names]
    if isinstance(value, str) or not isinstance(value, Sequence):
        return [cast(T, value)] * robot.dof
    if not value:
        or_else = ', or set gain = "unknown" to identify them' if what == "gain" else ""
        raise DataError(
            f"Channel '{label}': {what} is an empty list: fill in one value per joint of '{robot.name}' "
            f"({', '.join(robot.axis_names)}){or_else}."
        )
    if len(value) != robot.dof:
        raise DataError(
            f"Channel '{label}': {what} lists {len(value)} entries for the {robot.dof} joints of '{robot.name}' "
            f"({', '.join(robot.axis_names)})."
        )
    return list(value)


def _values(label: str, what: str, value: PerJoint[float], robot: Robot) -> Array:
    out = np.array(_spread(label, what, value, robot), float)
    if not np.all(np.isfinite(out)) or (what != "offset" and np.any(out == 0.0)):
        raise DataError(f"Channel '{label}': {what} must be finite{'' if what == 'offset' else ' and not zero'}.")
    return out


def _columns(label: str, signal: Signal, robot: Robot) -> tuple[str, ...]:
    names = _spread(label, "columns", signal.columns, robot)
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DataError(f"Channel '{label}': column {', '.join(twice)} is used by more than one joint.")
    return tuple(names)


def _factors(label: str, signal: Signal, units: dict[str, tuple[str, float]], robot: Robot) -> Array:
    """Factor to SI for every joint; raises an error where a unit does not fit the kind of joint."""
    factors = []
    for joint, unit in zip(robot.axes, _spread(label, "unit", signal.unit, robot), strict=True):
        if unit not in units:
            raise DataError(f"Channel '{label}': " + choices("unit", unit, units))
        kind, factor = units[unit]
        moves = "linear" if joint.is_prismatic else "rotary"
        if kind == "needs gain" and signal.gain is None:
            raise DataError(
                f"Channel '{label}': unit '{unit}' needs a 'gain' [N.m or N per {GAIN_PER[unit]}] to be converted to "
                "an effort; "
                f'gain = "{UNKNOWN}" identifies the gain from runs with and without a payload of known mass.'
            )
        # the motor of a prismatic joint is rotary: on the motor side an angle is allowed
        if kind in ("linear", "rotary") and kind != moves and signal.side != "motor":
            right = ", ".join(u for u, (k, _) in units.items() if k == moves)
            raise DataError(
                f"Channel '{label}': unit '{unit}' does not fit the {joint.kind} joint '{joint.name}'. Valid: {right}."
            )
        factors.append(factor)
    return np.array(factors)


def _is_motor_side(label: str, signal: Signal) -> bool:
    if signal.side not in SIDES:
        raise DataError(f"Channel '{label}': " + choices("side", signal.side, SIDES))
    if signal.side == "motor" and signal.ratio is None:
        raise DataError(f"Channel '{label}': side = \"motor\" needs 'ratio', motor turns per joint turn.")
    if signal.side == "joint" and signal.ratio is not None:
        raise DataError(f"Channel '{label}': 'ratio' applies only with side = \"motor\"; remove it or set the side.")
    return signal.side == "motor"


def _ratio(label: str, signal: Signal, robot: Robot) -> Array:
    assert signal.ratio is not None
    return _values(label, "ratio", signal.ratio, robot)
