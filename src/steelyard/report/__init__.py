"""Pages, figures and tables: a result as one self-contained HTML file that opens offline, and as tables for people and
programs.

`render` writes the page from its sections; `register` adds your own `Section`, which returns texts, `Table`s and
`Figure`s. `tables_of` gives every table of a result by name; `written(table, ".csv")` is its content as a file: CSV,
Parquet, JSON, LaTeX or HTML. `html` and `frame` print a table as HTML and as a Polars frame.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from steelyard.report.notebook import plotly_figure
    from steelyard.report.page import render
    from steelyard.report.printers import frame, html, table_files, written
    from steelyard.report.registry import SECTIONS, register, unregister
    from steelyard.report.section import Figure, FigureChoice, ReportSubject, Section
    from steelyard.report.table import Table, TableColumn, TableRow
    from steelyard.report.tables.identification import tables_of

# Names are imported when first used, because numerals and tables are also needed without pages.
_HOMES = {
    "plotly_figure": "notebook",
    "render": "page",
    "frame": "printers",
    "html": "printers",
    "table_files": "printers",
    "written": "printers",
    "SECTIONS": "registry",
    "register": "registry",
    "unregister": "registry",
    "Figure": "section",
    "FigureChoice": "section",
    "ReportSubject": "section",
    "Section": "section",
    "Table": "table",
    "TableColumn": "table",
    "TableRow": "table",
    "tables_of": "tables.identification",
}
__all__ = [
    "SECTIONS",
    "Figure",
    "FigureChoice",
    "ReportSubject",
    "Section",
    "Table",
    "TableColumn",
    "TableRow",
    "frame",
    "html",
    "plotly_figure",
    "register",
    "render",
    "table_files",
    "tables_of",
    "unregister",
    "written",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'steelyard.report' has no attribute '{name}'")
    return getattr(import_module(f"steelyard.report.{_HOMES[name]}"), name)
