"""Guess: a channel map with its reasons, the points to check, and the values that only the user knows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from steelyard.findings import Finding
from steelyard.signals.channels import ChannelMap, Signal


@dataclass(frozen=True)
class Other:
    """Columns that were not used, and the reason."""

    columns: tuple[str, ...]
    why: str


@dataclass(frozen=True)
class GuessedClock:
    """The time column, its unit, and its usual rate [Hz]; `is_stated` means that the log has no clock and the user
    stated the rate of its rows."""

    column: str
    unit: str
    rate_hz: float
    why: tuple[str, ...]
    others: tuple[Other, ...] = ()
    is_stated: bool = False


@dataclass(frozen=True)
class GuessedSignal:
    """One quantity of all joints: columns, units, signs in joint order. `to_fill_in` lists keys (`gain`,
    `ratio`) that the user must fill in."""

    columns: tuple[str, ...]
    units: tuple[str, ...]
    why: tuple[str, ...]
    side: str = "joint"
    signs: tuple[float, ...] = ()
    to_fill_in: tuple[str, ...] = ()
    others: tuple[Other, ...] = ()

    def signal(self, ratio: Sequence[float] | None = None, gain: Sequence[float] | None = None) -> Signal:
        """This guess as a `Signal` of a channel map."""
        return Signal(self.columns, self.units, self.side, self.signs or 1.0, ratio, gain)


@dataclass(frozen=True)
class Guess:
    """The clock, positions, efforts, and velocities unless they were `left_out` (with the reason).

    `findings` list what to check (`uncertain-guess`) and to fill in (`missing-value`), each with a key of [channels].
    `has_empty_cells` means that some of the first rows lack a value.
    """

    time: GuessedClock
    q: GuessedSignal
    effort: GuessedSignal
    v: GuessedSignal | None
    left_out: str
    logger: str | None
    findings: tuple[Finding, ...]
    has_empty_cells: bool = False

    @property
    def signals(self) -> dict[str, GuessedSignal]:
        """The signals by their names in the channel map."""
        return {"q": self.q, **({} if self.v is None else {"v": self.v}), "effort": self.effort}

    def channel_map(self, ratio: Sequence[float] | None = None, gain: Sequence[float] | None = None) -> ChannelMap:
        """The map, with `ratio` and `gain` in joint order for the signals that leave them blank."""
        made = {
            label: one.signal(ratio if "ratio" in one.to_fill_in else None, gain if "gain" in one.to_fill_in else None)
            for label, one in self.signals.items()
        }
        return ChannelMap(self.time.column, made["q"], made["effort"], self.time.unit, made.get("v"))
