"""Table: columns and rows of raw values, described once and printed to terminal, HTML, JSON, CSV, Parquet and LaTeX.

A cell is a text, a number, a flag, a tuple of numbers, or None where the column does not apply. NaN is a number that is
not known and is printed as a dash.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

from steelyard.report import numerals

Cell = str | float | tuple[float, ...] | None
Emphasis = Literal["", "strong", "good", "warning", "bad", "total"]
Kind = Literal[
    "text",  # as it is
    "code",  # a name, in HTML in the type of programs
    "expression",  # what a parameter stands for; `of` the number of its terms
    "unit",  # kg.m2, printed kg·m²
    "number",  # a number to `digits` significant digits
    "given",  # a number as a file states it
    "value",  # a number to the digits that its standard deviation `of` allows
    "deviation",  # a standard deviation to two digits; `of` the value it belongs to
    "estimate",  # value ± standard deviation `of`, in one cell
    "share",  # a ratio, printed in percent
    "percent",  # a ratio, printed as a number of percent
    "gauge",  # a ratio; HTML adds a bar and the text of the column `of`
    "bars",  # HTML only: one bar for each of the ratios `of`
    "count",  # a whole number
    "flag",  # yes or no
    "numbers",  # several numbers in one cell, to `digits` significant digits
]  # fmt: skip
TEXTS = ("text", "code", "expression", "unit")
# A longer table gets a filter and is sorted by its headings in HTML.
MOST_PLAIN_ROWS = 12


@dataclass(frozen=True)
class TableColumn:
    """One column.

    key      its name in JSON, CSV and Parquet
    heading  its name for people
    kind     what the cells are and how they are printed
    of       keys of the columns it is printed together with, as its kind says
    unit     unit of all its cells, in the heading for people
    group    a heading above it and its neighbours of the same group
    shown    whether it is printed for people; programs get every column
    pale     printed in a weaker colour in HTML
    digits   significant digits of kinds "number" and "numbers"
    """

    key: str
    heading: str
    kind: Kind = "text"
    of: tuple[str, ...] = ()
    unit: str = ""
    group: str = ""
    shown: bool = True
    pale: bool = False
    digits: int = 4

    @property
    def title(self) -> str:
        """The heading with its unit: `Mass [kg]`."""
        return f"{self.heading} [{numerals.unit(self.unit)}]" if self.unit else self.heading

    @property
    def is_text(self) -> bool:
        """Whether cells are texts."""
        return self.kind in TEXTS

    @property
    def is_left(self) -> bool:
        """Whether cells are aligned left, as texts are; numbers are aligned right."""
        return self.is_text or self.kind == "flag"


@dataclass(frozen=True)
class TableRow:
    """One cell per column, and how strongly the row is highlighted."""

    cells: tuple[Cell, ...]
    emphasis: Emphasis = ""


@dataclass(frozen=True)
class Table:
    """Rows of raw values under described columns.

    name       its name for programs and files, e.g. "parameters"
    title      its name for people
    notes      sentences printed below it
    choose_by  key of a column of texts: an HTML page also filters this table by those texts
    """

    name: str
    title: str
    columns: tuple[TableColumn, ...]
    rows: tuple[TableRow, ...]
    notes: tuple[str, ...] = ()
    choose_by: str = ""

    def __post_init__(self) -> None:
        if len(self._place) != len(self.columns):
            raise ValueError(f"Table '{self.name}': two columns have the same key.")
        for column in self.columns:
            for key in column.of:
                if key not in self._place:
                    raise ValueError(f"Table '{self.name}': column '{column.key}' needs a column '{key}'.")
        for row in self.rows:
            if len(row.cells) != len(self.columns):
                raise ValueError(f"Table '{self.name}': {len(row.cells)} cells for {len(self.columns)} columns.")

    @cached_property
    def _place(self) -> dict[str, int]:
        return {column.key: k for k, column in enumerate(self.columns)}

    @property
    def is_searched(self) -> bool:
        """Whether an HTML page sorts this table by any column and filters it: it is long, and no row is a total."""
        return bool(self.choose_by) or (
            len(self.rows) > MOST_PLAIN_ROWS and all(row.emphasis != "total" for row in self.rows)
        )

    @property
    def shown(self) -> tuple[TableColumn, ...]:
        """Columns for people, without those that only HTML can draw."""
        return tuple(column for column in self.columns if column.shown and column.kind != "bars")

    def cell(self, row: TableRow, key: str) -> Cell:
        """The raw value of a row in the column of this key."""
        return row.cells[self._place[key]]

    def of(self, row: TableRow, column: TableColumn) -> tuple[Any, ...]:
        """The raw values that a column is printed together with."""
        return tuple(self.cell(row, key) for key in column.of)

    def printed(self, row: TableRow, column: TableColumn) -> str:
        """A cell as text for people."""
        x: Any = self.cell(row, column.key)
        if x is None:
            return ""
        match column.kind:
            case "number":
                return numerals.number(x, column.digits)
            case "given":
                return numerals.given(x)
            case "value":
                return numerals.value_and_deviation(x, self.of(row, column)[0])[0]
            case "deviation":
                return numerals.value_and_deviation(self.of(row, column)[0], x)[1]
            case "estimate":
                return numerals.estimate(x, self.of(row, column)[0])
            case "share" | "gauge":
                return numerals.share(x)
            case "percent":
                return numerals.percent(x)
            case "numbers":
                return " ".join(numerals.number(one, column.digits) for one in x) or numerals.DASH
            case "unit":
                return numerals.unit(x)
            case "flag":
                return "yes" if x else "no"
            case _:
                return str(x)

    def records(self) -> list[dict[str, Any]]:
        """Every row as {key: raw value}, None where a number is not known."""
        own = [column for column in self.columns if column.kind != "bars"]
        return [{column.key: _plain(self.cell(row, column.key)) for column in own} for row in self.rows]

    def with_notes(self, *notes: str) -> Table:
        """The same with more sentences below it."""
        return replace(self, notes=(*self.notes, *notes))

    def __iter__(self) -> Iterator[TableRow]:
        return iter(self.rows)


def table(
    name: str,
    title: str,
    columns: Sequence[TableColumn | None],
    rows: Sequence[Sequence[Any]],
    emphasis: Sequence[Emphasis] | None = None,
    notes: Sequence[str] = (),
    choose_by: str = "",
) -> Table:
    """A table from rows of cells, which may be NumPy numbers. A column None is left out, with its cell in every row."""
    kept = [k for k, column in enumerate(columns) if column is not None]
    weights = ("",) * len(rows) if emphasis is None else emphasis
    return Table(
        name,
        title,
        tuple(column for column in columns if column is not None),
        tuple(TableRow(tuple(_cell(row[k]) for k in kept), weight) for row, weight in zip(rows, weights, strict=True)),
        tuple(notes),
        choose_by,
    )


def _cell(x: Any) -> Cell:
    """A cell with NumPy types converted to Python types, and −0 to 0."""
    plain = x.tolist() if hasattr(x, "tolist") else x
    if isinstance(plain, list | tuple):
        return tuple(one + 0.0 if isinstance(one, float) else one for one in plain)
    return plain + 0.0 if isinstance(plain, float) else plain


def _plain(x: Any) -> Any:
    if isinstance(x, float):
        return x if math.isfinite(x) else None
    return [_plain(one) for one in x] if isinstance(x, tuple) else x
