"""The table that every paper shares: printed, truth or recorded, identified ± σ, and the difference in σ."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from scipy.stats import t as student

from steelyard.model.parameters import Layout
from steelyard.report.table import Emphasis, Table, TableColumn, table

# A difference beyond this many σ gets a sentence.
FAR = 3.0
# Columns of what a paper prints have keys that start so.
PRINTED = "printed"


@dataclass(frozen=True)
class Compared:
    """A number of a paper next to ours, in one unit.

    printed     as the paper prints it, with its σ; NaN where it prints none
    truth       of the simulation, or the recorded reference; NaN where there is none but the printed number
    value, std  ours; σ is 0 for a number that has no error and NaN where none is known
    """

    name: str
    printed: float
    value: float
    std: float = math.nan
    printed_std: float = math.nan
    truth: float = math.nan
    unit: str = ""

    @property
    def difference(self) -> float:
        """Ours minus the truth in our σ; without a truth, minus the printed number in both σ together."""
        if math.isfinite(self.truth):
            apart, scale = self.value - self.truth, self.std
        else:
            apart, scale = self.value - self.printed, math.hypot(self.std, _or_zero(self.printed_std))
        return apart / scale if scale > 0.0 else math.nan


def percent_of(value: float, percent: float) -> float:
    """σ of a printed value with 100 σ/|value|."""
    return abs(value) * percent / 100.0


def comparison(
    name: str,
    title: str,
    rows: Sequence[Compared],
    blocks: int = 0,
    why: Mapping[str, str] | None = None,
    reference: str = "Truth",
    notes: Sequence[str] = (),
) -> Table:
    """The table; `blocks` is the number of blocks that σ was made from, `why` a sentence per row that is far off.

    A row beyond 3 σ is marked and gets its sentence of `why`. For rows without one, a sentence gives the probability
    that the farthest of this many rows is that far off by chance.
    """
    with_truth = any(math.isfinite(row.truth) for row in rows)
    with_printed_std = any(math.isfinite(row.printed_std) for row in rows)
    columns = (
        TableColumn("name", "", "code"),
        TableColumn("unit", "Unit", "unit") if any(row.unit for row in rows) else None,
        TableColumn(PRINTED, "Printed", "given"),
        TableColumn(f"{PRINTED}_std", "σ, printed", "number", digits=2) if with_printed_std else None,
        TableColumn("truth", reference, "given") if with_truth else None,
        TableColumn("value", "Identified ± σ", "estimate", of=("std",)),
        TableColumn("std", "σ", "number", shown=False),
        TableColumn("difference", "Difference", "number", unit="σ", digits=2),
    )
    cells, weights = [], list[Emphasis]()
    for row in rows:
        given = (row.printed, row.printed_std, row.truth)
        printed, printed_std, truth = (x if math.isfinite(x) else None for x in given)
        difference = row.difference if math.isfinite(row.difference) else None
        cells.append((row.name, row.unit, printed, printed_std, truth, row.value, row.std, difference))
        weights.append("warning" if difference is not None and abs(difference) > FAR else "")
    return table(name, title, columns, cells, weights, (*notes, *far_sentences(rows, blocks, why or {})))


def far_sentences(rows: Sequence[Compared], blocks: int, why: Mapping[str, str]) -> list[str]:
    """A sentence per row beyond 3 σ, and how likely the farthest is by chance if σ is right."""
    far = [row for row in rows if abs(row.difference) > FAR]
    out = []
    for row in far:
        against = "the truth" if math.isfinite(row.truth) else "the printed number"
        reason = why.get(row.name, "")
        out.append(f"{row.name} is {abs(row.difference):.1f} σ from {against}{': ' if reason else '.'}{reason}")
    unexplained = [row for row in far if row.name not in why]
    if unexplained:
        compared = sum(math.isfinite(row.difference) for row in rows)
        farthest = max(abs(row.difference) for row in unexplained)
        tail = 2.0 * float(student.sf(farthest, blocks - 1 if blocks > 1 else math.inf))
        of = f"σ from {blocks} blocks" if blocks > 1 else "exact σ"
        chance = 1.0 - (1.0 - tail) ** compared
        out.append(
            f"With {of}, one of {compared} right values is {farthest:.1f} σ off with probability "
            f"{_probability(chance)}."
        )
    return out


def base_rows(
    names: Mapping[str, str],
    printed: Callable[[str], tuple[float, float]],
    found: Mapping[str, tuple[float, float]],
    truth: Mapping[str, float] | None,
    layout: Layout,
) -> list[Compared]:
    """A row per base parameter: {name in the table: name of its column}; `printed` and `found` give value and σ."""
    units = dict(zip(layout.names, layout.units, strict=True))
    out = []
    for shown, column in names.items():
        value, std = found[column]
        stated, deviation = printed(shown)
        true = math.nan if truth is None else truth[column]
        out.append(Compared(shown, stated, value, std, deviation, true, units[column]))
    return out


def _probability(p: float) -> str:
    return "below 0.1 %" if p < 1e-3 else f"{100.0 * p:.2g} %"


def _or_zero(x: float) -> float:
    return x if math.isfinite(x) else 0.0
