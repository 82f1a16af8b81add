"""Choice of columns by their names alone: the clock, and for every quantity the most likely group of columns."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace

from steelyard.errors import DataError
from steelyard.model.robot import Robot
from steelyard.signals.guess.evidence import Clock, LogHead, clock, log_heads
from steelyard.signals.guess.names import ColumnName, Group, Kind, LoggerHeader, as_clock, is_foreign
from steelyard.signals.recording import Recording

POSITIONS: tuple[Kind, ...] = ("position",)
VELOCITIES: tuple[Kind, ...] = ("velocity",)
EFFORTS: tuple[Kind, ...] = ("torque", "current")
# The reason given for not using references as measured motion.
COMMANDED = "commanded or computed, not measured"
# A clock without a known name advances by nearly the same step in at least this fraction of the rows.
_EVEN = 0.9
_KNOWN: dict[Kind, str] = {
    "position": "q, pos, angle, or a unit in brackets, [rad] or [deg]",
    "torque": "tau, torque, effort, moment, i, current, or a unit in brackets, [N.m] or [A]",
}


def shared_columns(recordings: Sequence[Recording]) -> tuple[str, ...]:
    """Columns that every log has, in the order of the first log."""
    first = recordings[0]
    for other in recordings[1:]:
        alone = [column for column in first.columns if column not in other.columns]
        if 2 * len(alone) > len(first.columns):
            raise DataError(
                f"'{first.name}' and '{other.name}' have different headers: only the first has {some(alone)}; the "
                f"other has {some(other.columns)}. All logs of one project must have the same columns: write one "
                "project for each."
            )
    return tuple(column for column in first.columns if all(column in other.columns for other in recordings))


@dataclass(frozen=True)
class FoundClock:
    """The column of the clock with its steps in every log, and the other columns that may be one.

    A clock `by_value` has an unknown name and was found by its even steps; `heads` are the first rows with the clock.
    """

    name: ColumnName
    steps: tuple[Clock, ...]
    others: tuple[ColumnName, ...]
    heads: tuple[LogHead, ...]
    by_value: bool = False


def found_clock(
    names: Sequence[ColumnName],
    heads: Sequence[LogHead],
    recordings: Sequence[Recording] = (),
    found: Sequence[Group] = (),
    header: LoggerHeader | None = None,
) -> FoundClock:
    """The column that increases in every log; the stamp of a message is preferred to the time of its arrival.

    Without a sound one among `names`, columns of `recordings` that belong to no group `found` are searched by value;
    without `recordings` the names are those that the user stated, and no other column is searched.
    """
    reasons = []
    for name in sorted(names, key=lambda name: ("receive" in name.words, len(name.words))):
        if not all(name.column in head.values for head in heads):
            reasons.append(f"'{name.column}' holds text")
            continue
        steps = [clock(head, name.column) for head in heads]
        sound = [one for one in steps if one is not None and one.is_sound]
        if len(sound) == len(heads):
            return FoundClock(name, tuple(sound), tuple(one for one in names if one is not name), tuple(heads))
        reasons.append(
            f"'{name.column}' " + ("is constant or only decreases" if None in steps else "decreases or repeats values")
        )
    seen = f" ({'; '.join(reasons)})" if reasons else ""
    if not recordings:
        raise DataError(
            f"The column named as the clock is not one{seen}. Name another column with --time, or state the rate of "
            "the rows with --rate, e.g. --rate 100 [Hz]."
        )
    taken = {column for one in found for column in one.columns + one.surplus} | {name.column for name in names}
    rest = [column for column in shared_columns(recordings) if column not in taken]
    more = log_heads(recordings, rest)
    likely = _clocks_by_value(rest, more, header)
    if likely:
        both = [LogHead(head.log, {**head.values, **new.values}) for head, new in zip(heads, more, strict=True)]
        best = found_clock(likely[:1], both)
        return replace(best, others=tuple(likely[1:]), by_value=True)
    raise DataError(
        f"No column is a clock{seen}. Name the column with --time, or state the rate of the rows with --rate, e.g. "
        "--rate 100 [Hz]; better, log the time of every row in a column named 't_s', 't_ms' or 'time'."
    )


def _clocks_by_value(columns: Sequence[str], heads: Sequence[LogHead], header: LoggerHeader | None) -> list[ColumnName]:
    """Columns that increase in nearly equal steps in every log, the likeliest clock first: one with a unit of time in
    its name, then one with the most even steps."""
    found = []
    for column in columns:
        steps = [clock(head, column) if column in head.values else None for head in heads]
        even = [one.even for one in steps if one is not None and one.is_sound]
        if heads and len(even) == len(heads) and min(even) >= _EVEN and not is_foreign(column):
            name = as_clock(column, header)
            found.append((name.meaning.unit is None, -min(even), len(found), name))
    return [name for *_, name in sorted(found)]


def ranked(found: Sequence[Group], kinds: Sequence[Kind]) -> list[Group]:
    """Groups of these kinds, the most likely first."""
    return sorted((one for one in found if one.meaning.kind in kinds), key=_rank)


def rivals(chosen: Group, found: Sequence[Group], kinds: Sequence[Kind]) -> list[Group]:
    """Groups that are as likely as the chosen one by all rules."""
    return [one for one in ranked(found, kinds) if one is not chosen and _rank(one)[:-1] == _rank(chosen)[:-1]]


def _rank(group: Group) -> tuple[bool, bool, int, bool, bool, bool, bool, bool, int]:
    """Sort key: measured before commanded, no gain or ratio needed before needed, joint side before motor side, raw
    before filtered."""
    said = group.meaning
    return (
        said.commanded,
        bool(to_fill_in(group)),
        ("joint", "link", "motor").index(said.place),
        said.processed,
        said.bare,
        said.by_unit,
        not said.measured,
        said.kind == "current",
        len(group.words),
    )


def to_fill_in(group: Group) -> tuple[str, ...]:
    """Values that a log cannot hold: the gain of a current or a count, the ratio of a gear."""
    said = group.meaning
    if said.kind == "current" or "raw" in group.units:
        return ("gain",)
    return ("ratio",) if said.place == "motor" else ()


def chosen_group(
    label: str, kinds: Sequence[Kind], usable: Sequence[Group], found: Sequence[Group], robot: Robot
) -> Group:
    """The first of the measured groups that fit the joints; raises an error that lists the columns found instead."""
    best = ranked(usable, kinds)
    if best and not best[0].meaning.commanded:
        return best[0]
    joints = f"the {robot.dof} joints of '{robot.name}' ({', '.join(robot.axis_names)})"
    partial = [one for one in found if one.meaning.kind in kinds and not one.is_complete]
    if partial:
        near = max(partial, key=lambda one: (not one.meaning.commanded, len(one.columns)))
        gap, instead = f"no joint for {', '.join(near.surplus)}", ""
        if near.missing:
            gap = f"nothing for {', '.join(near.missing)}"
            asked = " ".join(f"--hold {shlex.quote(name)}" for name in near.missing)
            instead = f", or hold the joints that did not move: {asked}"
        count = len(near.columns) + len(near.surplus)
        raise DataError(
            f"{count} column{' holds' if count == 1 else 's hold'} {label} ({near.label}), but one is needed for each "
            f"of {joints}: {gap}. Give the robot that was logged, name the columns after its joints{instead}."
        )
    if best:
        raise DataError(
            f"All {label} in the log are commanded or computed, none are measured: {best[0].label}. Log the measured "
            f"{label} of {joints}, or write the project file by hand to use these."
        )
    unreadable = [one for one in found if one.meaning.kind in kinds]
    if unreadable:
        raise DataError(f"The columns {unreadable[0].label} contain no numbers. Fix the log and retry.")
    raise DataError(f"No columns hold {label} for {joints}. Recognised names contain {_KNOWN[kinds[0]]}.")


def reason(group: Group) -> str:
    """Why a group is not the first choice."""
    said = group.meaning
    if group.missing:
        return f"nothing for {', '.join(group.missing)}"
    if group.surplus:
        return "more columns than joints"
    if said.commanded:
        return COMMANDED
    if said.place == "motor":
        return "motor side"
    if said.place == "link":
        return "a second encoder"
    return "filtered" if said.processed else "in amperes" if said.kind == "current" else "another candidate"


def some(columns: Sequence[str]) -> str:
    """Names of columns, shortened for a message."""
    return ", ".join(columns[:40]) + (", …" if len(columns) > 40 else "")
