"""LaTeX: a table of base parameters with error bars, to \\input in a paper."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from steelyard.errors import OutputError
from steelyard.export.code.parts import identifier
from steelyard.export.code.text import plain
from steelyard.export.export import Export
from steelyard.identification.result import Identification
from steelyard.model.robot import Robot
from steelyard.report.latex import escaped, latex, latex_cells, numeral
from steelyard.report.table import Table, TableColumn, table

_HEADS = {"2σ": r"$2\sigma$", "σ [%]": r"$\%\sigma_r$"}


def latex_table(result: Identification, robot: Robot, regroupings: bool = False, name: str | None = None) -> Export:
    r"""NAME.tex: a `table*` of base parameters as the papers print them (P0 Table II): value, 2σ, 100 σ/|value|, unit.

    Needs the packages booktabs and amsmath. A parameter that is a sum of several has an R in its index; `regroupings`
    adds a second table with the sums. Values are rounded to the second digit of 2σ and read back before they are
    returned.
    """
    symbols = _HEADS | {
        one: _symbol(one, robot, len(group) > 1) for one, group in result.base.regroupings.items()
    }  # fmt: skip
    described = paper_table(result)
    caption = plain(f"Base parameters of {result.robot}, identified by {result.estimator_chosen}")
    text = latex(described, symbols, caption) + (_sums(result, robot, symbols) if regroupings else "")
    _read_back(text, latex_cells(described, symbols), result)
    stem = name or identifier(result.robot, "robot").lower()
    left_out = tuple(
        f"{one}: it was not excited and has no value."
        for one, x in zip(result.base.names, result.value, strict=True)
        if not np.isfinite(x)
    )
    files = {f"{stem}.tex": text.encode("utf-8")}
    return Export("latex", files, left_out, read_back="Read back: every value equals that of the result.")


def paper_table(result: Identification) -> Table:
    """Value, 2σ and relative σ of every base parameter, as in P0 Table II."""
    columns = (
        TableColumn("name", "Parameter", "code"),
        TableColumn("value", "Value", "value", of=("two_std",)),
        TableColumn("two_std", "2σ", "deviation", of=("value",)),
        TableColumn("relative_std", "σ [%]", "percent"),
        TableColumn("unit", "Unit", "unit"),
    )
    base = result.base
    rows = list(zip(base.names, result.value, 2.0 * result.std, result.relative_std, base.units, strict=True))
    return table("parameters", "Base parameters", columns, rows)


def _symbol(name: str, robot: Robot, regrouped: bool) -> str:
    """`link1.ZZ` as ZZ_{1R}: the number of the link or joint, R where other parameters are summed into it."""
    owner, _, symbol = name.rpartition(".")
    links = [link.name for link in robot.links]
    names = links if owner in links else list(robot.joint_names)
    index = str(names.index(owner) + 1) if owner in names else rf"\text{{{escaped(owner)}}}"
    return rf"$\mathit{{{escaped(symbol)}}}_{{{index}{'R' if regrouped else ''}}}$"


def _sums(result: Identification, robot: Robot, symbols: dict[str, str]) -> str:
    """A second table: the sum behind each regrouped parameter."""
    base = result.base
    sums = dict(symbols)
    rows = []
    for (name, group), expression in zip(base.regroupings.items(), base.expressions, strict=True):
        if len(group) > 1:
            parts = [f"{_share(x)}{_symbol(one, robot, False)}" for one, x in group.items()]
            sums[expression] = " ".join(parts).removeprefix("$+$ ")
            rows.append((name, expression, len(group)))
    columns = (
        TableColumn("name", "Parameter", "code"),
        TableColumn("expression", "Sum", "expression", of=("terms",)),
        TableColumn("terms", "Terms", "count", shown=False),
    )
    text = latex(table("sums", "Regrouped parameters", columns, rows), sums)
    return text.split("\n", 1)[1]  # the comment on packages is needed once, above the first table


def _share(x: float) -> str:
    """A coefficient with its sign in front; a factor of one is not written."""
    size = f"{abs(x):.6g}"
    return ("$-$ " if x < 0.0 else "$+$ ") + ("" if size == "1" else numeral(size) + r"\,")


def _number(cell: str) -> float:
    """The number in a cell; NaN where there is none."""
    if cell == "--":
        return np.nan
    mantissa, _, exponent = cell.strip("$").partition(r" \cdot 10^{")
    return float(mantissa) * 10.0 ** int(exponent.rstrip("}") or 0)


def _read_back(text: str, cells: Sequence[Sequence[str]], result: Identification) -> None:
    """Parse the table and compare it: one row per parameter, every value within half its last digit of the result's."""
    inner = text.split("\\midrule\n")[1].split("  \\bottomrule")[0]
    width = len(cells[0])
    read: list[list[str]] = []
    lines = [line.strip().removesuffix(r" \\").split(" & ") for line in inner.splitlines()]
    for g in range(max(len(line) for line in lines) // width):
        read += [[cell.strip() for cell in line[g * width : (g + 1) * width]] for line in lines]
    read = [row for row in read if any(row)]
    if [list(row) for row in cells] != read:
        raise OutputError("The LaTeX table was not written: the rows read back differ from those of the result.")
    for row, name, value, std in zip(read, result.base.names, result.value, result.std, strict=True):
        shown, allowed = _number(row[1]), 0.1 * std if np.isfinite(std) and std > 0.0 else 1e-3 * abs(value)
        if np.isfinite(value) and not abs(shown - value) <= allowed:
            raise OutputError(f"The LaTeX table was not written: {name} reads {shown:g} instead of {value:g}.")
