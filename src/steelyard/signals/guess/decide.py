"""guess_channels: which columns of a log are the clock, positions, velocities and efforts of a robot, and why."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from steelyard._arrays import Array
from steelyard.errors import DataError, choices
from steelyard.findings import Finding
from steelyard.model.robot import Robot
from steelyard.signals.channels import EFFORT_UNITS, GAIN_PER, POSITION_UNITS, TIME_UNITS, UNKNOWN, resolve
from steelyard.signals.composed import ROW_CLOCK, with_rate
from steelyard.signals.guess.choose import (
    EFFORTS,
    POSITIONS,
    VELOCITIES,
    FoundClock,
    chosen_group,
    found_clock,
    ranked,
    reason,
    rivals,
    shared_columns,
    some,
    to_fill_in,
)
from steelyard.signals.guess.evidence import LogHead, derivative, friction, log_heads, motion, span
from steelyard.signals.guess.guess import Guess, GuessedClock, GuessedSignal, Other
from steelyard.signals.guess.names import (
    ColumnName,
    Group,
    Kind,
    LoggerHeader,
    as_clock,
    groups,
    measured_word,
    scalar_names,
)
from steelyard.signals.guess.units import (
    Doubt,
    Matched,
    UnitGuess,
    beyond,
    factors,
    listed,
    match,
    moves_enough,
    other_angle,
    position_units,
    time_unit,
)
from steelyard.signals.recording import Recording

_Chosen = TypeVar("_Chosen")
# Friction of this many times its uncertainty decides the sign of an effort.
_SURE = 5.0
# Efforts this many times above or below the file's limits are in another unit or on another side.
_FAR_ABOVE = 2.0
_FAR_BELOW = 0.01
_NO_DERIVATIVE = "do not integrate to the positions (another unit, sign, order or quantity)"
# What a text log without a header calls its columns.
_NUMBERED = re.compile(r"col\d+")


def _listed(recordings: Sequence[Recording], columns: Sequence[str]) -> str:
    """The columns, and whether some are not in all logs."""
    differ = any(set(one.columns) != set(columns) for one in recordings)
    return f"{'The logs have different columns; in all of them are' if differ else 'Columns'}: {some(columns)}"


def _next(columns: Sequence[str]) -> str:
    if columns and all(_NUMBERED.fullmatch(name) for name in columns):
        return "The log has no header: write the names of its columns in the first line, or [channels] by hand."
    return "Rename the columns, or write [channels] by hand: docs/project-file.md."


def guess_channels(
    recordings: Sequence[Recording],
    robot: Robot,
    headers: Sequence[LoggerHeader] = (),
    *,
    time: str | None = None,
    rate_hz: float | None = None,
) -> Guess:
    """Channel map of logs with the same columns, from the column names and the first rows.

    `time` names the column of the clock; `rate_hz` is the rate of the rows of logs without a clock (see `with_rate`).
    Raises `DataError` where a quantity has no columns, or columns that do not fit the robot's joints.
    """
    if rate_hz is not None:
        if time is not None:
            raise DataError("Give either the column of the clock (time) or the rate of the rows (rate), not both.")
        recordings, time = [with_rate(one, rate_hz) for one in recordings], ROW_CLOCK
    columns = shared_columns(recordings)
    if time is not None and time not in columns:
        raise DataError(choices("column for the time", time, columns))
    header = next((one for one in headers if one.wrote(columns)), None)
    found = [one for one in groups(columns, robot, header) if one.meaning.kind != "acceleration"]
    named = scalar_names(columns, header)
    clocks = named if time is None else [as_clock(time, header)]
    whole = [one for one in found if one.is_complete]
    read = [name.column for name in clocks] + [column for one in whole for column in one.columns]
    heads = log_heads(recordings, read)
    usable = [one for one in whole if all(_holds_numbers(head, column) for head in heads for column in one.columns)]
    clock = _attempt(lambda: found_clock(clocks, heads, recordings if time is None else (), found, header))
    q = _attempt(lambda: chosen_group("positions", POSITIONS, usable, found, robot))
    effort = _attempt(lambda: chosen_group("efforts", EFFORTS, usable, found, robot))
    if isinstance(clock, DataError) or isinstance(q, DataError) or isinstance(effort, DataError):
        names = ", ".join(f"'{one.name}'" for one in recordings)
        problems = " ".join(str(one) for one in (clock, q, effort) if isinstance(one, DataError))
        raise DataError(
            f"Cannot guess the channels of {names}: {problems} {_listed(recordings, columns)}. {_next(columns)}"
        )
    if time is not None:
        clock = replace(clock, others=tuple(one for one in named if one.column != time))
    guess = _Decision(robot, clock.heads, found, usable, header, clock, q, effort).guess()
    if rate_hz is not None:  # as stated, not as rounded steps give it
        guess = replace(guess, time=replace(guess.time, rate_hz=float(rate_hz)))
    # raises here, not later, where a unit does not fit the kind of joint
    resolve(guess.channel_map(ratio=[1.0] * robot.dof, gain=[1.0] * robot.dof), robot)
    return guess


def _attempt(choose: Callable[[], _Chosen]) -> _Chosen | DataError:
    """What was chosen, or why nothing was: all problems of a log are reported at once."""
    try:
        return choose()
    except DataError as error:
        return error


def _holds_numbers(head: LogHead, column: str) -> bool:
    return column in head.values and bool(np.isfinite(head.values[column]).any())


@dataclass(frozen=True)
class _Decision:
    """The columns chosen by name; their values then decide units, sides and signs."""

    robot: Robot
    heads: Sequence[LogHead]
    found: Sequence[Group]
    usable: Sequence[Group]
    header: LoggerHeader | None
    clock: FoundClock
    q: Group
    effort: Group

    @property
    def time(self) -> ColumnName:
        return self.clock.name

    def guess(self) -> Guess:
        low, high = span(self.heads, self.q.columns)
        by_range = position_units(self.robot, self.q.units, self._source(self.q.words[0]), high - low)
        q, q_checks = self._positions(by_range, low, high)
        v, matched, left_out = self._velocities(q)
        if not all(self.q.units) and (v is None or all(self._stated(v))):
            # velocities with a stated unit decide the unit of the positions
            units = by_range.units if v is not None else other_angle(by_range.units)
            settled = UnitGuess(units, f"velocities integrate to them in {listed(units)}")
            again, checks = self._positions(settled, low, high)
            found, its_match, _ = self._velocities(again)
            if found is not None and all(self._stated(found)):
                q, q_checks, v, matched, left_out = again, checks, found, its_match, ""
        told = self._time(q, matched, not q_checks)
        follows = v is not None and bool(q_checks) and not all(self._stated(v))
        v_doubt = Doubt(
            "its unit follows from the unit of the positions, which is uncertain", "the unit that matches the positions"
        )
        effort, effort_checks = self._efforts(q, TIME_UNITS[told.units[0]])
        others = tuple(Other((name.column,), "another clock") for name in self.clock.others)
        unit, by_value = told.units[0], ["it increases in nearly equal steps"] if self.clock.by_value else []
        rate = 1.0 / (TIME_UNITS[unit] * float(np.median([one.step for one in self.clock.steps])))
        used = [self.time.column, *q.columns, *effort.columns, *(v.columns if v is not None else ())]
        return Guess(
            GuessedClock(self.time.column, unit, rate, (*by_value, told.why), others, self.time.column == ROW_CLOCK),
            q,
            effort,
            v,
            left_out,
            self.header.name if self.header else None,
            (
                *_unsure("time.column", self._clock_doubt()),
                *_unsure("time.unit", told.doubt),
                *q_checks,
                *_unsure("v.unit", v_doubt if follows else None),
                *effort_checks,
            ),
            any(not np.isfinite(head.values[column]).all() for head in self.heads for column in used),
        )

    def _clock_doubt(self) -> Doubt | None:
        """A clock found by its values alone may be another quantity, unless its name states a unit of time."""
        if not self.clock.by_value or self.time.meaning.unit is not None:
            return None
        others = ", ".join(name.column for name in self.clock.others[:2]) or "none; or --rate, the rate of the rows"
        return Doubt("no column has the name of a clock; this one increases in nearly equal steps", others)

    def _time(self, q: GuessedSignal, matched: Matched | None, is_sure: bool) -> UnitGuess:
        """Unit of the clock, decided also by the joint speeds that result."""
        if self.time.column == ROW_CLOCK:
            rate = f"{1.0 / self.clock.steps[0].step:.6g} rows per second, as stated"
            fits = matched is None or matched.time == "s"
            return UnitGuess(("s",), rate, None if fits else Doubt("velocities do not fit this rate", "another rate"))
        moved = [one for head in self.heads if (one := motion(head, self.time.column, q.columns)) is not None]
        top = np.max([np.abs(one.v).max(axis=1) for one in moved], axis=0) if moved else np.zeros(self.robot.dof)
        speed = top * factors(q.units, POSITION_UNITS)
        said = self.time.meaning.unit
        return time_unit(said, self._source(self.time.column), self.clock.steps, matched, speed, is_sure, self.robot)

    def _positions(self, told: UnitGuess, low: Array, high: Array) -> tuple[GuessedSignal, list[Finding]]:
        """Positions in the stated units, from `low` to `high` (n,) in these units."""
        group = self.q
        to_si = factors(told.units, POSITION_UNITS)
        wide = beyond(self.robot, (high - low) * to_si)
        checks = _unsure("q.unit", told.doubt)
        why = [group.why, *_says(group), told.why]
        side = "motor" if group.meaning.place == "motor" else "joint"
        if side == "motor":
            why.append("the name contains motor")
        elif not told.doubt and 3 * len(wide) >= self.robot.dof:
            # the header is trusted, so these columns cannot be the joint angles
            side = "motor"
            why.append("motor side: on the joint side the joints would exceed their ranges")
            text = f"{', '.join(wide)} travel further than the robot file allows"
            checks += _unsure("q.side", Doubt(text, 'side = "joint" in another unit, or another column'))
        elif not told.doubt:
            checks += _unsure("q.offset", self._outside(low * to_si, high * to_si, wide))
        if group.meaning.bare:
            text = "the column names state neither that these are positions nor their unit"
            checks += _unsure("q.columns", Doubt(text, "other columns, or normalised values that need a unit first"))
        checks += [*_only_by_unit("q", group), *self._rivals("q", group, POSITIONS)]
        signal = GuessedSignal(
            group.columns, told.units, tuple(why), side,
            to_fill_in=("ratio",) if side == "motor" else (), others=self._others(group, POSITIONS),
        )  # fmt: skip
        return signal, [*checks, *_fill_in("q", signal)]

    def _outside(self, low: Array, high: Array, wide: Sequence[str]) -> Doubt | None:
        """Joints whose travel fits their range but whose position does not: a different zero, sign or column."""
        off = []
        for joint, least, most in zip(self.robot.axes, low, high, strict=True):
            slack = 0.05 * (joint.limits.upper - joint.limits.lower)
            outside = least < joint.limits.lower - slack or most > joint.limits.upper + slack
            if joint.name in wide or (np.isfinite(slack) and outside):
                off.append(f"{joint.name} from {least:.3g} to {most:.3g}")
        if not off:
            return None
        return Doubt(f"outside the robot file's limits: {', '.join(off)}", "offset = [ … ] or sign = [ … ]")

    def _velocities(self, q: GuessedSignal) -> tuple[GuessedSignal | None, Matched | None, str]:
        """Velocities that are the derivative of the positions; others are left out, since v can be computed from q."""
        why_not = "none are logged"
        stated = self.time.meaning.unit
        times = [*([stated] if stated else []), *(unit for unit in TIME_UNITS if unit != stated)]
        for group in ranked(self.usable, VELOCITIES):
            if group.meaning.commanded or (group.meaning.place == "motor") != (self.q.meaning.place == "motor"):
                why_not = f"{group.label}: {reason(group)}"
                continue
            found = derivative(self.heads, self.time.column, q.columns, group.columns)
            matched = match(found, q.units, group.units, times)
            if matched is None:
                rests = found is None or not moves_enough(found.travel, q.units).any()
                what = "cannot be checked: no joint moves in the first rows"
                why_not = f"{group.label} {what if rests else _NO_DERIVATIVE}"
                continue
            ratio = ("ratio",) if q.side == "motor" else ()
            others = self._others(group, VELOCITIES)
            why = (group.why, matched.why)
            return GuessedSignal(group.columns, matched.units, why, q.side, (), ratio, others), matched, ""
        return None, None, why_not

    def _efforts(self, q: GuessedSignal, tick: float) -> tuple[GuessedSignal, list[Finding]]:
        group = self.effort
        is_current = group.meaning.kind == "current"
        usual = ["A" if is_current else "N" if joint.is_prismatic else "N.m" for joint in self.robot.axes]
        units = tuple(said or unit for said, unit in zip(group.units, usual, strict=True))
        why = [group.why, *_says(group)]
        checks = _only_by_unit("effort", group)
        if all(group.units):
            why.append(f"{self._source(group.words[0])} says {listed(units)}")
        else:
            why.append(f"assumed to be {listed(units)}")
            instead = 'unit = "mA"' if is_current else 'unit = "A" with gain = [ … ], as some drivers log'
            checks += _unsure("effort.unit", Doubt("the header states no unit", instead))
        # a gain converts the current of the drive directly to the joint effort: no side is needed
        side = "motor" if "ratio" in to_fill_in(group) else "joint"
        if side == "motor":
            why.append("the name contains motor")
        if not to_fill_in(group):
            checks += self._size(units)
        signs, sign_why, sign_checks = self._signs(q, tick)
        signal = GuessedSignal(
            group.columns, units, (*why, *sign_why), side, signs, to_fill_in(group), self._others(group, EFFORTS),
        )  # fmt: skip
        return signal, [*checks, *sign_checks, *self._rivals("effort", group, EFFORTS), *_fill_in("effort", signal)]

    def _size(self, units: Sequence[str]) -> list[Finding]:
        """Efforts far from the file's limits were measured on another side or in another unit."""
        low, high = (x * factors(units, EFFORT_UNITS) for x in span(self.heads, self.effort.columns))
        limits = np.array([joint.limits.effort for joint in self.robot.axes])
        known = np.isfinite(limits)
        share = np.maximum(np.abs(low), np.abs(high))[known] / limits[known]
        if known.any() and share.max() > _FAR_ABOVE:
            text = f"the largest effort is {share.max():.3g} times the robot file's limit"
            return _unsure("effort.unit", Doubt(text, 'unit = "mN.m", or unit = "raw" with gain = [ … ]'))
        if known.all() and share.max() < _FAR_BELOW:
            text = f"no effort reaches more than {share.max():.2g} of the robot file's limit"
            return _unsure("effort.side", Doubt(text, 'side = "motor" with ratio = [ … ]'))
        return []

    def _signs(self, q: GuessedSignal, tick: float) -> tuple[tuple[float, ...], list[str], list[Finding]]:
        """Signs of the efforts: friction opposes motion, so where it seems to drive the motion the sign is reversed."""
        to_si = factors(q.units, POSITION_UNITS)
        sure = friction(self.heads, self.time.column, q.columns, self.effort.columns, to_si, tick)
        names = np.array(self.robot.axis_names)
        against, along = names[sure > _SURE].tolist(), names[sure < -_SURE].tolist()
        why = [f"friction opposes the motion of {', '.join(against)}"] if against else []
        if not along:
            return (), why, []
        why.append(f"friction would accelerate {', '.join(along)}: sign -1")
        signs = tuple(-1.0 if name in along else 1.0 for name in self.robot.axis_names)
        doubt = Doubt(f"the direction of friction indicates a reversed effort sign of {', '.join(along)}", "sign = 1.0")
        return signs, why, _unsure("effort.sign", doubt)

    def _stated(self, signal: GuessedSignal) -> tuple[str | None, ...]:
        """The units stated in the names of a group."""
        return next(one.units for one in self.usable if one.columns == signal.columns)

    def _source(self, key: str) -> str:
        """The source that states a unit."""
        known = self.header is not None and key in self.header.meanings
        return self.header.name if known and self.header is not None else "the header"

    def _rivals(self, label: str, chosen: Group, kinds: Sequence[Kind]) -> list[Finding]:
        alike = rivals(chosen, self.usable, kinds)
        if not alike:
            return []
        return _unsure(f"{label}.columns", Doubt("other columns are possible as well", alike[0].label))

    def _others(self, chosen: Group, kinds: Sequence[Kind]) -> tuple[Other, ...]:
        others = [one for one in self.found if one.meaning.kind in kinds and one is not chosen]
        return tuple(Other(one.columns, reason(one)) for one in others)


def _says(group: Group) -> list[str]:
    if not group.meaning.measured:
        return []
    word = measured_word(group.columns[0])
    return [f"'{word}' in the name means measured" if word else "the log format says measured"]


def _only_by_unit(label: str, group: Group) -> list[Finding]:
    text = "the column names hold no known word, only a unit in brackets"
    return _unsure(f"{label}.columns", Doubt(text, "another column") if group.meaning.by_unit else None)


def _unsure(where: str, doubt: Doubt | None) -> list[Finding]:
    if doubt is None:
        return []
    return [Finding("uncertain-guess", "warning", doubt.text, where, f"check it; alternative: {doubt.instead}")]


def _fill_in(label: str, signal: GuessedSignal) -> list[Finding]:
    texts = {
        "gain": f"values in {listed(signal.units)} need gains [effort per unit] from the manufacturer or a test",
        "ratio": f"{signal.columns[0]} and the others are on the motor side, and a log does not contain gear ratios",
    }
    per = listed([GAIN_PER.get(unit, unit) for unit in signal.units])
    units = {
        "gain": f'N.m (prismatic joint: N) at the joint per {per}; or gain = "{UNKNOWN}" to identify them, with a run '
        "that carries a payload of known mass",
        "ratio": "motor turns per joint turn; or delete side and ratio if these are joint values",
    }
    return [
        Finding(
            "missing-value",
            "error",
            texts[name],
            f"{label}.{name}",
            f"write {name} = [ … ], one per joint: {units[name]}",
        )
        for name in signal.to_fill_in
    ]
