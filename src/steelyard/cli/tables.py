"""The terminal's printer of a table."""

from __future__ import annotations

from collections.abc import Collection

from rich.table import Table as RichTable

from steelyard.cli.console import people, say
from steelyard.report.table import Emphasis, Table

_STYLES: dict[Emphasis, str] = {
    "": "",
    "strong": "bold",
    "total": "bold",
    "good": "green",
    "warning": "yellow",
    "bad": "red",
}
# Names up to this length are never broken.
_LONGEST_NAME = 48


def show(table: Table, without: Collection[str] = (), notes: bool = True) -> None:
    """Print a table with its notes, if it has rows; columns with a key in `without` are left out."""
    if table.rows:
        people.print(rich_table(table, without))
    if table.rows and notes:
        for note in table.notes:
            say(note)


def rich_table(table: Table, without: Collection[str] = ()) -> RichTable:
    """The table for a terminal, without its notes."""
    columns = [column for column in table.shown if column.key not in without]
    out = RichTable(title=table.title or None, title_justify="left", title_style="bold")
    for k, column in enumerate(columns):
        starts = column.group and (not k or columns[k - 1].group != column.group)
        heading = f"{column.group if starts else ''}\n{column.title}" if column.group else column.title
        whole = not k and all(len(table.printed(row, column)) <= _LONGEST_NAME for row in table)
        out.add_column(heading, justify="left" if column.is_left else "right", no_wrap=whole, overflow="fold")
    for row in table:
        out.add_row(*(table.printed(row, column) for column in columns), style=_STYLES[row.emphasis])
    return out
