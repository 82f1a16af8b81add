"""The printers of a table for files and pages: HTML, JSON, CSV, Parquet and LaTeX. The terminal's is in `cli.tables`.

People get rounded numbers with units; programs get every column under its key, with the numbers as computed and nothing
where a number is not known.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from steelyard.errors import OutputError, choices, printable
from steelyard.identification.result import Identification
from steelyard.report.latex import latex
from steelyard.report.table import Cell, Table, TableColumn, TableRow
from steelyard.report.tables.identification import TABLE_NAMES, tables_of
from steelyard.report.templates import fragment

if TYPE_CHECKING:
    import polars as pl

SCHEMA = "steelyard.table/1"
# How a formula of a spreadsheet begins: a joint may have such a name.
_CALCULATED = r"^([=+\-@\t\r])"
# The scale of a ratio's bar is logarithmic, from 0.1% to 1000%.
_GAUGE_FROM, _GAUGE_DECADES = 1e-3, 4.0


def html(table: Table, with_csv: bool = False) -> Markup:
    """A `<table>` with its notes; every text is escaped. `with_csv` adds its content as CSV, for a page that saves
    it."""
    columns = [column for column in table.columns if column.shown]
    groups = [(name, list(own)) for name, own in groupby(columns, key=lambda column: column.group)]
    longest = max((x for row in table for x in _ratios(table, row)), default=0.0)
    return fragment(
        "table.html",
        table=table,
        columns=columns,
        groups=groups,
        grouped=any(name for name, _ in groups),
        searched=table.is_searched,
        bars=next((column for column in columns if column.kind == "bars"), None),
        headings={column.key: column.heading for column in table.columns},
        gauge=gauge_length,
        bar=lambda x: _bar_length(x, longest),
        sort_key=_sort_key,
        csv=_embedded_csv(table) if with_csv else "",
    )


def _embedded_csv(table: Table) -> Markup:
    """The table as CSV that may stand inside a script element: `<` and `>` are other characters."""
    return Markup(csv_text(table).replace("<", "\u2039").replace(">", "\u203a"))


def gauge_length(ratio: float) -> float:
    """Length of a ratio's bar on the logarithmic scale [%]; 0 for NaN."""
    if math.isnan(ratio) or ratio <= _GAUGE_FROM:
        return 0.0
    return round(min(100.0, 100.0 * math.log10(min(ratio, 1e3) / _GAUGE_FROM) / _GAUGE_DECADES), 1)


def _bar_length(ratio: float, longest: float) -> float:
    """Length of a bar relative to the longest of its table [%]."""
    return round(100.0 * min(ratio / longest, 1.0), 1) if longest > 0.0 and math.isfinite(ratio) else 0.0


def _ratios(table: Table, row: TableRow) -> list[float]:
    """The finite ratios of a row for which bars are drawn."""
    found = [x for column in table.columns if column.kind == "bars" for x in table.of(row, column)]
    return [x for x in found if math.isfinite(x)]


def _sort_key(x: Cell) -> str:
    """The number by which the page sorts a cell; empty for texts and unknown numbers."""
    if not isinstance(x, float | int) or math.isnan(x):
        return ""
    return f"{max(min(x, 1e300), -1e300):.9g}"


def json_text(table: Table) -> str:
    """{"schema", "name", "title", "columns": [{"key", "heading", "unit"}], "rows": [{key: value}], "notes"}."""
    columns = [
        {"key": column.key, "heading": column.heading, "unit": column.unit}
        for column in table.columns
        if column.kind != "bars"
    ]
    document = {
        "schema": SCHEMA,
        "name": table.name,
        "title": table.title,
        "columns": columns,
        "rows": table.records(),
        "notes": list(table.notes),
    }
    return json.dumps(document, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def csv_text(table: Table) -> str:
    """The frame of the table as CSV. A text that a spreadsheet would calculate gets an apostrophe before it."""
    import polars as pl

    return frame(table).with_columns(pl.col(pl.String).str.replace(_CALCULATED, "'$1")).write_csv()


def frame(table: Table) -> pl.DataFrame:
    """The table as a Polars frame: a column per key, null where a number is not known, KEY_1, KEY_2 … for several."""
    import polars as pl

    records = table.records()
    data: dict[str, Any] = {}
    for column in table.columns:
        cells = [record.get(column.key) for record in records]
        if column.kind == "numbers":
            width = max((len(x) for x in cells if x), default=0)
            for k in range(width):
                data[f"{column.key}_{k + 1}"] = pl.Series([x[k] if x else None for x in cells], dtype=pl.Float64)
        elif column.kind != "bars":
            shown = [printable(x) if isinstance(x, str) else x for x in cells]
            data[column.key] = pl.Series(shown, dtype=_frame_type(column))
    return pl.DataFrame(data)


def _frame_type(column: TableColumn) -> Any:
    import polars as pl

    if column.is_text:
        return pl.String
    return {"count": pl.Int64, "flag": pl.Boolean}.get(column.kind, pl.Float64)


def _parquet(table: Table) -> bytes:
    out = io.BytesIO()
    frame(table).write_parquet(out)
    return out.getvalue()


PRINTERS: dict[str, Callable[[Table], bytes]] = {
    ".csv": lambda table: csv_text(table).encode(),
    ".parquet": _parquet,
    ".json": lambda table: json_text(table).encode(),
    ".tex": lambda table: latex(table).encode(),
    ".html": lambda table: html(table).encode(),
}


# Every file that `table_files` can write.
TABLE_FILES = tuple(f"{name}{ending}" for name in TABLE_NAMES for ending in PRINTERS)


def check_ending(ending: str) -> str:
    """The file ending with its dot, which may be left out; one without a printer is refused."""
    dotted = f".{ending.removeprefix('.')}"
    if dotted not in PRINTERS:
        raise OutputError(choices("table format", dotted[1:], [one[1:] for one in PRINTERS]))
    return dotted


def written(table: Table, ending: str) -> bytes:
    """The table as the content of a file with this ending, one of `PRINTERS`; the dot may be left out."""
    return PRINTERS[check_ending(ending)](table)


def table_files(
    result: Identification, endings: Sequence[str], links: Mapping[str, str] | None = None
) -> dict[str, bytes]:
    """Every table of a result as files: {"parameters.csv": …}, with each of the endings."""
    made = tables_of(result, links)
    dotted = [check_ending(ending) for ending in endings]
    return {f"{name}{ending}": written(own, ending) for ending in dotted for name, own in made.items()}
