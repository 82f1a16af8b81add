"""Meaning of a column's name: its quantity, unit, joint or number, and whether it was measured or commanded."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from steelyard.model.robot import Robot
from steelyard.signals.guess.vocabulary import (
    COMMANDED,
    FOREIGN,
    LINEAR,
    LINK,
    MEASURED,
    MOTOR,
    NEUTRAL,
    PARTS,
    PROCESSED,
    QUANTITIES,
    TORQUES,
    UNITS,
    WORDS,
    Kind,
    Place,
)

_TOKEN = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_PART = re.compile("|".join(sorted(PARTS, key=len, reverse=True)))
_COMPOUND = re.compile(f"(?:(?:{_PART.pattern})s?)+")
_BRACKETED = re.compile(r"[\[(]\s*([^\[\]()\d][^\[\]()]*)[\])]")
# Words that leave open which quantity a column holds, and belong to any.
_WITHOUT_QUANTITY = frozenset({"#", "*", "a"}) | MEASURED | COMMANDED | MOTOR | LINK | PROCESSED
_SIGNS = {"°": "deg", "µ": "u", "μ": "u", "%": " percent", "·": ".", "²": "2"}


@dataclass(frozen=True)
class Meaning:
    """Meaning of the columns of one group: quantity, unit if stated, and origin of the number.

    `bare` columns are named after a joint or a state alone: neither a word nor a unit says that they are positions. Of
    columns known `by_unit` no word is understood, but a unit in brackets: `Gesamt 1 [Nm]`.
    """

    kind: Kind
    unit: str | None = None
    commanded: bool = False
    measured: bool = False
    place: Place = "joint"
    processed: bool = False
    bare: bool = False
    by_unit: bool = False


@dataclass(frozen=True)
class LoggerHeader:
    """The header of one logger: the columns that identify it, and the meaning of its columns.

    `meanings` are keyed by the column's name with `#` in place of the joint's number.
    """

    name: str
    signature: frozenset[str]
    meanings: Mapping[str, Meaning]

    def wrote(self, columns: Sequence[str]) -> bool:
        """True if these columns were written by this logger."""
        return self.signature <= set(columns)


@dataclass(frozen=True)
class ColumnName:
    """A column with the words of its name (`#` stands for its number, `*` for its joint), and what they mean."""

    column: str
    words: tuple[str, ...]
    meaning: Meaning
    number: int | None = None
    joint: int | None = None


@dataclass(frozen=True)
class Group:
    """Columns that hold one quantity for the joints, in joint order; `missing` joints have none."""

    meaning: Meaning
    words: tuple[str, ...]
    columns: tuple[str, ...]
    units: tuple[str | None, ...]
    why: str
    missing: tuple[str, ...] = ()
    surplus: tuple[str, ...] = ()

    @property
    def is_complete(self) -> bool:
        """True if every joint has exactly one column."""
        return not self.missing and not self.surplus

    @property
    def label(self) -> str:
        """`q1_rad … q6_rad`."""
        return range_of(self.columns + self.surplus)


def measured_word(column: str) -> str:
    """The word of a column's name that means "measured": `actual` in `actual_q_0`; empty where there is none."""
    return next((word for word in _split(column)[0] if word in MEASURED), "")


def range_of(columns: Sequence[str]) -> str:
    """The first and the last of several columns, as text."""
    return columns[0] if len(columns) == 1 else f"{columns[0]} … {columns[-1]}"


def as_clock(column: str, header: LoggerHeader | None) -> ColumnName:
    """A column as a clock, whatever its name; the unit is in brackets, `Zeit [ms]`, or the last word, `zeit_ms`."""
    known = header.meanings.get(column) if header else None
    words, stated = _split(column)
    unit = UNITS["time"].get(stated) or (UNITS["time"].get(words[-1:]) if len(words) > 1 else None)
    return ColumnName(column, words, known or Meaning("time", unit))


def is_foreign(column: str) -> bool:
    """True if a word of the name says that the column is neither a clock nor a signal of a joint."""
    return bool(set(_split(column)[0]) & FOREIGN)


def scalar_names(columns: Sequence[str], header: LoggerHeader | None) -> list[ColumnName]:
    """Names of the columns that may be a clock."""
    found = []
    for column in columns:
        known = header.meanings.get(column) if header else None
        words, stated = _split(column)
        meaning = known or _meaning(words, stated, linear=False)[0]
        if meaning is not None and meaning.kind == "time":
            found.append(ColumnName(column, words, meaning))
    return found


def groups(columns: Sequence[str], robot: Robot, header: LoggerHeader | None) -> list[Group]:
    """Columns grouped by meaning, complete for all joints or not, in the order of the log."""
    spelled = _joint_words(robot)
    linear = any(joint.is_prismatic for joint in robot.axes)
    readings = [_readings(column, spelled, header, linear, robot.dof) for column in columns]

    def family(name: ColumnName) -> tuple[str | None, ...]:
        # prismatic and revolute joints of one robot have different units; otherwise `q1_deg` and `q1_rad` are two
        # quantities. `axis 1 [rad]` and `axis 1 [Nm]` differ in what their units measure.
        words = (*name.words, name.meaning.kind)
        return words if linear else (*words, name.meaning.unit)

    sizes = Counter(family(option) for options in readings for option in options)
    kept: dict[tuple[str | None, ...], list[ColumnName]] = {}
    for options in readings:
        if options:
            # where a name holds several numbers, the joint number is the one that belongs to the largest family of
            # columns
            best = max(options, key=lambda option: sizes[family(option)])
            kept.setdefault(family(best), []).append(best)
    return [_group(members, robot) for members in kept.values()]


def _readings(
    column: str,
    spelled: Sequence[Sequence[tuple[str, ...]]],
    header: LoggerHeader | None,
    linear: bool,
    dof: int,
) -> list[ColumnName]:
    """All interpretations of a name: with its joint, or with each of its numbers as the joint number."""
    if header is not None:
        for match in re.finditer(r"\d+", column):
            stem = f"{column[: match.start()]}#{column[match.end() :]}"
            if stem in header.meanings:
                return [ColumnName(column, (stem,), header.meanings[stem], number=int(match.group()))]
    words, stated = _split(column)
    joint = _named_joint(words, spelled)
    if joint is not None:
        k, at, length = joint
        rest = (*words[:at], "*", *words[at + length :])
        meaning, used = _meaning(rest, stated, linear)
        return [] if meaning is None else [ColumnName(column, used, meaning, joint=k)]
    found = []
    for at, word in enumerate(words):
        if word.isdecimal():
            meaning, used = _meaning((*words[:at], "#", *words[at + 1 :]), stated, linear)
            if meaning is not None:
                found.append(ColumnName(column, used, meaning, number=int(word)))
    if not found and dof == 1:
        meaning, used = _meaning(words, stated, linear)
        found = [] if meaning is None else [ColumnName(column, used, meaning, joint=0)]
    return [name for name in found if name.meaning.kind != "time"]


def _split(column: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The words of a name in lower case without filler words, and the words of a unit in brackets."""
    text = column
    for sign, spelled in _SIGNS.items():
        text = text.replace(sign, spelled)
    stated: tuple[str, ...] = ()
    bracketed = _BRACKETED.search(text)
    if bracketed:
        stated = tuple(word.lower() for word in _TOKEN.findall(bracketed.group(1).replace("^", "")))
        text = text[: bracketed.start()] + " " + text[bracketed.end() :]
    words = [part for word in _TOKEN.findall(text.replace("^", "")) for part in _parts(word.lower())]
    return tuple(word for word in words if word not in NEUTRAL), stated


def _parts(word: str) -> list[str]:
    """The parts of a compound: `istposition` is `ist` and `position`."""
    return _PART.findall(word) if _COMPOUND.fullmatch(word) else [word]


def _joint_words(robot: Robot) -> list[list[tuple[str, ...]]]:
    """The words that identify each joint by name; none for joints that are only numbered (`joint1`, `q1`).

    A joint may be named by its whole name, or without the words for quantities in it. `th` of a thumb joint `th_cmc` is
    part of the name and not an angle; a word that all joints have may be either, and is left to the quantity.
    """
    names = [_split(name)[0] for name in robot.axis_names]
    shared = set(names[0]).intersection(*names) & QUANTITIES
    out = []
    for words in names:
        bare = tuple(word for word in words if word not in QUANTITIES)
        whole = tuple(word for word in words if word not in shared)
        out.append([] if all(word.isdecimal() for word in bare) else list(dict.fromkeys([whole, bare])))
    return out


def _named_joint(words: tuple[str, ...], spelled: Sequence[Sequence[tuple[str, ...]]]) -> tuple[int, int, int] | None:
    """(joint, index of its name among the words, number of words in it); longer names are tried first."""
    found = [
        (len(name), k, at)
        for k, ways in enumerate(spelled)
        for name in ways
        for at in range(len(words) - len(name) + 1)
        if words[at : at + len(name)] == name
    ]
    if not found:
        return None
    length, k, at = max(found)
    return k, at, length


def _meaning(words: tuple[str, ...], stated: tuple[str, ...], linear: bool) -> tuple[Meaning | None, tuple[str, ...]]:
    """The meaning of a name, and its words without the unit; None where the words name no known quantity."""
    for cut in (3, 2, 1, 0):
        end = len(words) - cut
        if end < 0 or (cut and not end):
            continue
        shown = None if cut or set(words) & (FOREIGN | QUANTITIES) else _kind_by_unit(stated)
        kind = shown or _kind(words[:end])
        unit = _unit(kind, words[end:]) if cut else None
        if kind is None or (cut and (unit is None or (unit in LINEAR and not linear))):
            continue
        rest = words[:end]
        if unit is None:
            unit, rest = _inner_unit(kind, rest)
        if stated:
            unit = _unit(kind, stated) or unit
        # a unit of amperes makes an "effort" a current, a unit of newton metres makes a "motor current" a torque
        named = set(rest)
        return (
            Meaning(
                "current" if unit in ("A", "mA") else "torque" if kind == "current" and unit in TORQUES else kind,
                unit,
                commanded=bool(named & COMMANDED),
                measured=bool(named & MEASURED),
                place="motor" if named & MOTOR else "link" if named & LINK else "joint",
                processed=bool(named & PROCESSED),
                bare=unit is None and not named & QUANTITIES,
                by_unit=shown is not None and bool(named - _WITHOUT_QUANTITY),
            ),
            rest,
        )
    return None, words


def _kind(words: tuple[str, ...]) -> Kind | None:
    named = set(words)
    if named & FOREIGN:
        return None
    if {"d", "q"} <= named and words.index("d") < words.index("q"):
        return "velocity"
    for kind, spelled in WORDS:
        if named & spelled:
            return kind
    # a name such as `joint1` or `observation.state[0]` can only be a position
    bare = named - {"#", "*"} - MEASURED - COMMANDED
    return "position" if named & {"#", "*"} and (not bare or bare == {"a"}) else None


def _kind_by_unit(stated: tuple[str, ...]) -> Kind | None:
    """What a unit in brackets measures; lengths, forces and counts may be of anything."""
    kinds: tuple[Kind, ...] = ("position", "velocity", "torque", "current")
    return next((kind for kind in kinds if UNITS[kind].get(stated, "raw") not in LINEAR | {"raw"}), None)


def _unit(kind: Kind | None, words: tuple[str, ...]) -> str | None:
    if kind in ("torque", "current"):
        return UNITS["torque"].get(words) or UNITS["current"].get(words)
    return None if kind is None else UNITS[kind].get(words)


def _inner_unit(kind: Kind, words: tuple[str, ...]) -> tuple[str | None, tuple[str, ...]]:
    """A unit before the number, as in `pos_deg_1`; single letters there are symbols, not units."""
    for length in (2, 1):
        for at in range(1, len(words) - length + 1):
            span = words[at : at + length]
            unit = _unit(kind, span)
            if unit is not None and all(len(word) > 1 or length > 1 for word in span) and unit not in LINEAR | {"raw"}:
                return unit, words[:at] + words[at + length :]
    return None, words


def _group(members: Sequence[ColumnName], robot: Robot) -> Group:
    first = members[0]
    if first.joint is not None:
        placed = {member.joint: member for member in reversed(members)}
        why = "columns are named after the joints"
        surplus: tuple[str, ...] = tuple(m.column for m in members if placed[m.joint] is not m)
    else:
        own = [int(n[-1]) if (n := re.findall(r"\d+", name)) else -1 for name in robot.axis_names]
        numbers = sorted({member.number for member in members if member.number is not None})
        start = numbers[0] if numbers[0] in (0, 1) else 1
        # where the columns have the same numbers as the joints' names, match by number, independent of the order
        is_own = sorted(own) == numbers
        order = own if is_own else list(range(start, start + robot.dof))
        placed = {order.index(m.number): m for m in reversed(members) if m.number in order}
        surplus = tuple(m.column for m in members if m not in placed.values())
        why = f"columns are numbered {numbers[0]} … {numbers[-1]}, " + (
            "like the joints" if is_own else f"and the robot has {robot.dof} joints"
        )
    ordered = [placed[k] for k in range(robot.dof) if k in placed]
    missing = tuple(name for k, name in enumerate(robot.axis_names) if k not in placed)
    return Group(
        first.meaning,
        first.words,
        tuple(member.column for member in (ordered or members)),
        tuple(member.meaning.unit for member in (ordered or members)),
        why,
        missing,
        surplus,
    )
