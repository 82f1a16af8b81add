"""A table is described once, and every printer prints the same numbers."""

from __future__ import annotations

import io
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from rich.console import Console

from steelyard.cli.tables import rich_table
from steelyard.errors import OutputError
from steelyard.project.project import read_project
from steelyard.project.result_file import read_result
from steelyard.project.run import run
from steelyard.report import Table, TableColumn, frame, html, tables_of, written
from steelyard.report.latex import latex
from steelyard.report.table import table
from steelyard.report.tables.identification import TABLE_NAMES
from testbed.command import Run

HOSTILE = "</td><script>alert('x')</script> & 50% of $x_1$\\"
THIRD = 1.0 / 3.0


def example() -> Table:
    columns = (
        TableColumn("name", "Name", "code"),
        TableColumn("value", "Value", "value", of=("std",)),
        TableColumn("std", "± σ", "deviation", of=("value",)),
        TableColumn("mass", "Mass", "estimate", of=("mass_std",), unit="kg"),
        TableColumn("mass_std", "σ of mass", "number", shown=False),
        TableColumn("relative", "fitted", "share", group="Error"),
        TableColumn("other", "nominal", "share", group="Error", pale=True),
        TableColumn("bars", "As a bar", "bars", of=("relative", "other")),
        TableColumn("com", "Centre", "numbers", unit="m", digits=3),
        TableColumn("rows", "Rows", "count"),
        TableColumn("good", "Good", "flag"),
        TableColumn("unit", "Unit", "unit"),
    )
    rows = [
        ("a.ZZ", THIRD, 0.012, 2.5, 0.0, 0.05, 0.5, None, (0.1, -2.0, THIRD), 12, True, "kg.m2"),
        (HOSTILE, np.nan, np.nan, 2.5, np.float64(0.03), np.nan, np.inf, None, (), 0, np.bool_(False), "N.m"),
        ("all", None, None, None, None, 0.05, 0.5, None, None, 12, None, None),
    ]
    return table("example", "An example", columns, rows, ["", "bad", "total"], ["A note with 5% & more."])


class Cells(HTMLParser):
    """The texts of every row, and the tags."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.tags: list[str] = []
        self.feed(source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_data(self, data: str) -> None:
        if self.rows and self.rows[-1]:
            self.rows[-1][-1] = (self.rows[-1][-1] + data).strip()


def test_people_get_rounded_numbers_with_units_and_dashes() -> None:
    described = example()
    shown = [[described.printed(row, column) for column in described.shown] for row in described]
    assert shown == [
        ["a.ZZ", "0.333", "0.012", "2.5", "5.00%", "50.0%", "0.100 -2.00 0.333", "12", "yes", "kg·m²"],
        [HOSTILE, "—", "—", "2.500 ± 0.030", "—", "> 999%", "—", "0", "no", "N·m"],
        ["all", "", "", "", "5.00%", "50.0%", "", "12", "", ""],
    ]
    assert [column.title for column in described.shown[3:5]] == ["Mass [kg]", "fitted"]


def test_programs_get_every_number_as_computed() -> None:
    first, second, total = example().records()
    assert first["value"] == THIRD
    assert (first["mass"], first["mass_std"], first["com"]) == (2.5, 0.0, [0.1, -2.0, THIRD])
    assert second["name"] == HOSTILE
    assert second["value"] is second["relative"] is second["other"] is None
    assert (second["good"], second["com"]) == (False, [])
    assert total["value"] is None
    assert "bars" not in first


def test_json_csv_and_parquet_hold_the_same_numbers() -> None:
    described = example()
    data = json.loads(written(described, ".json"))
    assert (data["schema"], data["name"], data["notes"]) == ("steelyard.table/1", "example", list(described.notes))
    assert data["rows"] == described.records()
    assert [column["key"] for column in data["columns"]][:2] == ["name", "value"]
    read = pl.read_parquet(io.BytesIO(written(described, ".parquet")))
    assert read.equals(frame(described), null_equal=True)
    assert read["value"].to_list() == [THIRD, None, None]
    assert read["com_3"].to_list() == [THIRD, None, None]
    assert read.schema["rows"] == pl.Int64
    assert read.schema["good"] == pl.Boolean
    text = pl.read_csv(io.BytesIO(written(described, ".csv")))
    assert text.columns == read.columns
    assert text["value"].to_list() == [THIRD, None, None]
    assert text["name"].to_list() == ["a.ZZ", HOSTILE, "all"]


def test_html_escapes_and_groups() -> None:
    source = str(html(example()))
    cells = Cells(source)
    assert set(cells.tags) <= {"div", "table", "thead", "tbody", "tr", "th", "td", "code", "span", "p"}
    assert cells.rows[0][:3] == ["Name", "Value", "± σ"]
    assert "Error" in cells.rows[0]
    assert cells.rows[1] == ["fitted", "nominal"]
    assert cells.rows[2][:4] == ["a.ZZ", "0.333", "± 0.012", "2.5"]
    assert cells.rows[3][0] == HOSTILE
    assert "A note with 5% &amp; more." in source
    assert '<tr class="bad">' in source
    assert "&lt;script&gt;" in source
    lengths = [float(x) for x in re.findall(r"width:([\d.]+)%", source)]
    assert lengths == [10.0, 100.0, 0.0, 0.0, 10.0, 100.0]


def test_latex_escapes_and_prints_maths() -> None:
    source = latex(example(), {"a.ZZ": r"$\mathit{ZZ}_{1}$"})
    lines = source.splitlines()
    assert r"  \begin{tabular}{lrrrrrrrll}" in lines
    assert any(r"\multicolumn{2}{c}{Error}" in line for line in lines)
    (first,) = [line for line in lines if line.startswith(r"  $\mathit{ZZ}_{1}$")]
    assert first == (
        r"  $\mathit{ZZ}_{1}$ & $0.333$ & $0.012$ & $2.5$ & $5.00$\% & $50.0$\% & $0.100$ $-2.00$ $0.333$ & $12$ & yes"
        r" & kg\,m$^{2}$ \\"
    )
    assert r"\& 50\% of \$x\_1\$\textbackslash{}" in source
    assert r"$2.500$ $\pm$ $0.030$" in source
    assert r"A note with 5\% \& more." in source
    assert "σ" not in source


def test_the_terminal_prints_what_is_shown() -> None:
    console = Console(file=io.StringIO(), width=200, markup=False)
    console.print(rich_table(example(), without=("com",)))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    for word in ("An example", "a.ZZ", "0.333", "2.500 ± 0.030", "kg·m²", "Mass [kg]", "50% of $x_1$"):
        assert word in text, word
    assert "σ of mass" not in text
    assert "Centre" not in text
    assert text.count("Error") == 1


def test_a_table_that_does_not_fit_together_is_refused() -> None:
    name = TableColumn("name", "Name")
    with pytest.raises(ValueError, match="two columns have the same key"):
        table("twice", "", (name, name), [])
    with pytest.raises(ValueError, match="column 'x' needs a column 'std'"):
        table("alone", "", (TableColumn("x", "x", "value", of=("std",)),), [])
    with pytest.raises(ValueError, match="2 cells for 1 columns"):
        Table("wide", "", (name,), (example().rows[0].__class__(("a", "b")),))
    with pytest.raises(OutputError, match=r"Unknown table format 'xls'.*csv, parquet, json, tex, html"):
        written(example(), ".xls")
    assert written(example(), "csv") == written(example(), ".csv")


def test_latex_cells_are_on_one_line() -> None:
    text = latex(table("t", "T", (TableColumn("a", "A"),), [("x\ny\r\tz\x07&",)]))
    assert "  x y  z \\& \\\\" in text.splitlines()


@pytest.mark.slow
def test_identify_writes_the_tables_it_is_asked_for(steelyard: Run, project: Path) -> None:
    told = steelyard("identify", project, "--tables", "csv, parquet,tex")
    assert told.code == 0, told.err
    folder = project.parent / "project-run"
    result = read_result(folder)
    assert tables_of(result).keys() <= set(TABLE_NAMES)
    for name in tables_of(result):
        assert {path.suffix for path in folder.glob(f"{name}.*")} == {".csv", ".parquet", ".tex"}
    for read in (pl.read_csv(folder / "parameters.csv"), pl.read_parquet(folder / "parameters.parquet")):
        assert read["name"].to_list() == list(result.base.names)
        assert read["value"].to_list() == result.value.tolist()
        assert read["std"].to_list() == result.std.tolist()
    # a later run without tables leaves no old ones behind, and other files in the folder are safe
    run(read_project(project))
    assert sorted(path.name for path in folder.iterdir()) == ["report.html", "result.json"]
    (folder / "thesis.csv").write_text("mine")
    refused = steelyard("identify", project, "--tables", "csv")
    assert (refused.code, (folder / "thesis.csv").read_text()) == (2, "mine")
    # a user's file may have the name of a table: it is replaced only where the folder's result lists it
    (folder / "thesis.csv").unlink()
    for mine in (folder, project.parent / "mine"):
        mine.mkdir(exist_ok=True)
        (mine / "runs.csv").write_text("mine")
        refused = steelyard("identify", project, "--out", mine)
        assert refused.code == 2
        assert "holds other files (runs.csv), which would be lost" in refused.err
        assert (mine / "runs.csv").read_text() == "mine"
    inside = steelyard("identify", project, "--out", project / "run" / "a")
    assert inside.code == 2
    assert f"'{project}' is a file, so no folder can be made in it" in inside.err
    wrong = steelyard("identify", project, "--tables", "xlsx", "--out", project.parent / "other")
    assert wrong.code == 2
    assert "Unknown table format 'xlsx'" in wrong.err
    assert not (project.parent / "other").exists()
