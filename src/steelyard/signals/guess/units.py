"""Units that the names do not state, found from values: the clock's from its steps, an angle's from the joint ranges, a
velocity's from its integral."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steelyard._arrays import Array
from steelyard.model.robot import Joint, Robot
from steelyard.signals.channels import POSITION_UNITS, TIME_UNITS, VELOCITY_UNITS
from steelyard.signals.guess.evidence import Clock, Derivative

# Typical rates of robot loggers [Hz].
_RATES = (5.0, 20_000.0)
# Default range where the file states none: two turns [rad], and the travel of a slide [m].
_TURNS = 4.0 * np.pi
_SLIDE = 5.0
# A joint that exceeds its range by less than this factor has an inaccurate limit, not a wrong unit.
_SLACK = 1.05
# Plausible range of the top speed where the file states none [rad/s | m/s].
_SPEEDS = (0.01, 20.0)
# If two units of the clock are possible, the one whose top speed is nearer to this one [rad/s | m/s] is preferred.
_USUAL_SPEED = 1.0
# A velocity is the derivative of the position if it explains this fraction of the motion with a ratio this close.
_EXPLAINED = 0.9
# Joints that travel less [rad | m] are not used: noise and encoder steps may hide their speed.
_LIVELY = 0.1
_CLOSE = 0.05
# With less travel than this [rad | m] the unit cannot be found.
_MOVED = 0.02
# Positions in degrees that move every joint by less than this [rad] may be radians under a wrong header.
_SMALL = 0.12
_ROTARY = ("rad", "deg")
_LINEAR = ("m", "mm")


@dataclass(frozen=True)
class Doubt:
    """The reason to doubt a choice, and the alternative as a line of the project file."""

    text: str
    instead: str


@dataclass(frozen=True)
class UnitGuess:
    """Units in joint order (one for a clock) with their reason, and a doubt if there is one."""

    units: tuple[str, ...]
    why: str
    doubt: Doubt | None = None


@dataclass(frozen=True)
class Matched:
    """Units under which a velocity is the derivative of a position."""

    time: str
    units: tuple[str, ...]
    why: str


def factors(units: Sequence[str], table: Mapping[str, tuple[str, float]]) -> Array:
    """Factor to SI of each joint's unit."""
    return np.array([table[unit][1] for unit in units])


def ranges(robot: Robot) -> Array:
    """Range of each joint [rad | m]."""

    def one(joint: Joint) -> float:
        width = joint.limits.upper - joint.limits.lower
        return width if np.isfinite(width) else _SLIDE if joint.is_prismatic else _TURNS

    return np.array([one(joint) for joint in robot.axes])


def beyond(robot: Robot, travel: Array) -> list[str]:
    """Joints whose travel [rad | m] exceeds their range; a continuous joint has no range."""
    wide = travel > _SLACK * ranges(robot)
    return [joint.name for joint, far in zip(robot.axes, wide, strict=True) if far and joint.kind != "continuous"]


def other_angle(units: Sequence[str]) -> tuple[str, ...]:
    """Degrees instead of radians and radians instead of degrees."""
    return tuple({"rad": "deg", "deg": "rad"}.get(unit, unit) for unit in units)


def moves_enough(travel: Array, units: Sequence[str]) -> NDArray[np.bool_]:
    """Joints that travel far enough for their speed to be measured."""
    return travel * factors(units, POSITION_UNITS) > _LIVELY


def position_units(robot: Robot, stated: Sequence[str | None], source: str, travel: Array) -> UnitGuess:
    """Units of positions. `source` names where the known units are stated; `travel` (n,) is in the log's own units.

    The right unit is the largest one in which every joint stays inside its range: a log in degrees exceeds any range
    when read in radians, and a log in radians hardly moves when read in degrees.
    """
    if all(stated):
        said = tuple(unit for unit in stated if unit)
        moved = float(np.max(travel * factors(said, POSITION_UNITS)))
        little = set(said) == {"deg"} and _MOVED < moved < _SMALL
        doubt = Doubt(f"in deg no joint moves by more than {travel.max():.2g} deg", 'unit = "rad"') if little else None
        return UnitGuess(said, f"{source} says {listed(said)}", doubt)
    units, why, doubt = [unit or "" for unit in stated], [], None
    for is_prismatic, options in ((False, _ROTARY), (True, _LINEAR)):
        unknown = [k for k, j in enumerate(robot.axes) if j.is_prismatic == is_prismatic and stated[k] is None]
        if unknown:
            guess = _by_range(options, travel[unknown], ranges(robot)[unknown])
            for k in unknown:
                units[k] = guess.units[0]
            why.append(guess.why)
            doubt = doubt or guess.doubt
    return UnitGuess(tuple(units), "; ".join(why), doubt)


def _by_range(options: tuple[str, str], travel: Array, width: Array) -> UnitGuess:
    """The larger of two units, unless the joints would exceed their ranges in it."""
    wide, narrow = options
    as_wide, as_narrow = (travel * POSITION_UNITS[unit][1] for unit in options)
    if np.all(as_wide <= _SLACK * width):
        why = f"in {wide} every joint stays within its range (largest travel {as_wide.max():.3g} {wide})"
        little = Doubt(f"the joints move by at most {travel.max():.2g}: too little to decide", f'unit = "{narrow}"')
        return UnitGuess((wide,), why, little if as_wide.max() < _MOVED else None)
    if np.all(as_narrow <= _SLACK * width):
        return UnitGuess(
            (narrow,),
            f"in {wide} joints would exceed their range, in {narrow} they stay within it (travel up to "
            f"{travel.max():.3g})",
            Doubt(
                f"only the joint ranges indicate {narrow}; motor angles look the same",
                f'unit = "{wide}", side = "motor", ratio = [ … ]',
            ),
        )
    nowhere = Doubt("no unit keeps the joints within their range: possibly motor side", 'side = "motor", ratio = [ … ]')
    return UnitGuess((wide,), f"assumed to be {wide}", nowhere)


def match(
    found: Derivative | None, q_units: Sequence[str], v_stated: Sequence[str | None], times: Sequence[str]
) -> Matched | None:
    """Units of time and velocity under which v integrates to q: the first of `times` that fits, None if none does.

    Δq[unit of q] = ratio · Σ v Δt in raw units, so that ratio = f_v · f_t / f_q with f the factors to SI.
    """
    if found is None:
        return None
    per_q = factors(q_units, POSITION_UNITS)
    moving = moves_enough(found.travel, q_units)
    if not moving.any() or not np.all(found.explained[moving] > _EXPLAINED):
        return None
    kinds = [POSITION_UNITS[unit][0] for unit in q_units]
    for time in times:
        for rotary, linear in (("rad/s", "m/s"), ("deg/s", "mm/s"), ("rpm", "m/s"), ("rev/s", "m/s")):
            units = [said or (rotary if k == "rotary" else linear) for said, k in zip(v_stated, kinds, strict=True)]
            expected = factors(units, VELOCITY_UNITS) * TIME_UNITS[time] / per_q
            if np.all(np.abs(found.ratio[moving] / expected[moving] - 1.0) < _CLOSE):
                miss = float(np.max(found.miss[moving] * per_q[moving]))
                others = ", ".join(unit for unit in TIME_UNITS if unit != time)
                return Matched(
                    time,
                    tuple(units),
                    f"its integral matches the position within {1e3 * miss:.2g} {_milli(kinds)} per window with the "
                    f"clock in {time}, not {others}",
                )
    return None


def _milli(kinds: Sequence[str]) -> str:
    return "mrad" if "linear" not in kinds else "mm or mrad" if "rotary" in kinds else "mm"


def time_unit(
    stated: str | None,
    source: str,
    clocks: Sequence[Clock],
    matched: Matched | None,
    top_speed: Array,
    is_sure: bool,
    robot: Robot,
) -> UnitGuess:
    """Unit of the clock. `source` names where it is stated, if so; `top_speed` (n,) is in rad or m per unit of the
    clock.

    Speeds exclude a unit only if the unit of the positions `is_sure`.
    """
    step = float(np.median([clock.step for clock in clocks]))
    likely = [unit for unit, factor in TIME_UNITS.items() if _RATES[0] <= 1.0 / (step * factor) <= _RATES[1]]
    if matched is not None:
        unit, doubt = matched.time, None
        if stated not in (None, unit):
            doubt = Doubt(f"{source} states {stated}, the velocities indicate {unit}", f'unit = "{stated}"')
        says = f"{source} says {stated}; " if stated == unit else ""
        return UnitGuess(
            (unit,), f"{says}steps of {step:.4g} {unit} ({_rate(step, unit)}); velocities integrate to positions", doubt
        )
    if stated is not None:
        odd = Doubt(f"steps of {step:.4g} {stated} are {_rate(step, stated)}, unusual for a log", _units(likely))
        why = f"{source} states {stated}: steps of {step:.4g} {stated} ({_rate(step, stated)})"
        return UnitGuess((stated,), why, None if stated in likely else odd)
    moves = top_speed.max() > 0.0
    fits = [u for u in likely if moves and (not is_sure or _is_possible(top_speed / TIME_UNITS[u], robot))]
    fits.sort(key=lambda unit: abs(np.log(top_speed.max() / TIME_UNITS[unit] / _USUAL_SPEED)))
    if not fits:
        doubt = Doubt("neither the time steps nor the speeds indicate the unit of the clock", _units(likely))
        return UnitGuess(("s",), f"steps of {step:.4g}, assumed to be s", doubt)
    doubt = None
    if len(fits) > 1:
        doubt = Doubt(f"{' and '.join(fits)} are both possible", _units(fits[1:]))
    elif step == 1.0:
        doubt = Doubt("steps of exactly 1 may be row numbers instead", "a column that holds the time")
    why = f"steps of {step:.4g} are {_rate(step, fits[0])} in {fits[0]}"
    if is_sure:
        why += ", which gives plausible joint speeds"
    return UnitGuess((fits[0],), why, doubt)


def _units(names: Sequence[str]) -> str:
    return " or ".join(f'unit = "{name}"' for name in names) or "another column"


def _is_possible(speed: Array, robot: Robot) -> bool:
    """True if the fastest joint moves and none is faster than twice its limit."""
    limits = np.array([2.0 * j.limits.velocity if np.isfinite(j.limits.velocity) else _SPEEDS[1] for j in robot.axes])
    return bool(np.all(speed <= limits) and speed.max() >= _SPEEDS[0])


def _rate(step: float, unit: str) -> str:
    return f"{1.0 / (step * TIME_UNITS[unit]):.4g} Hz"


def listed(units: Sequence[str]) -> str:
    """The distinct units as text."""
    return " and ".join(dict.fromkeys(units))
