"""LaTeX: a table of base parameters with error bars, to \\input in a paper."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from steelyard.errors import OutputError
from steelyard.export.code.parts import identifier
from steelyard.export.code.text import plain
from steelyard.export.export import Export
from steelyard.identification.result import Identification
from steelyard.model.robot import Robot
from steelyard.report.numerals import LARGEST_SHARE, value_and_deviation

# Rows after which a second table stands beside the first: what fits on a page of two columns.
ROWS = 40
_SPECIAL = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
_SPECIAL |= {one: f"\\{one}" for one in "&%$#_{}"}
_UNIT_POWER = re.compile(r"(?<=[a-z])(\d)|\^(\([^)]*\)|\w)")
HEADS = ("Parameter", "Value", r"$2\sigma$", r"$\%\sigma_r$", "Unit")


def latex_table(result: Identification, robot: Robot, regroupings: bool = False, name: str | None = None) -> Export:
    r"""NAME.tex: a `table*` of base parameters as the papers print them (P0 Table II): value, 2σ, 100 σ/|value|, unit.

    Needs the packages booktabs and amsmath. A parameter that stands for a sum has an R in its index; `regroupings`
    adds a second table with the sums. Values are rounded to the second digit of 2σ and read back before they are given.
    """
    cells = _cells(result, robot)
    text = _table(result, cells) + (_sums(result, robot) if regroupings else "")
    _read_back(text, cells, result)
    stem = name or identifier(result.robot, "robot").lower()
    left_out = tuple(
        f"{one}: it was not excited and has no value."
        for one, x in zip(result.base.names, result.value, strict=True)
        if not np.isfinite(x)
    )
    return Export("latex", {f"{stem}.tex": text.encode("utf-8")}, left_out)


def escaped(text: str) -> str:
    """Any text as LaTeX shows it."""
    return "".join(_SPECIAL.get(one, one) for one in text)


def _cells(result: Identification, robot: Robot) -> list[tuple[str, ...]]:
    """Name, value, 2σ, relative σ in percent and unit of every base parameter."""
    out = []
    base = result.base
    for name, value, std, relative, unit, group in zip(
        base.names, result.value, result.std, result.relative_std, base.units, base.regroupings.values(), strict=True
    ):
        shown, deviation = (_numeral(x) for x in value_and_deviation(float(value), 2.0 * float(std)))
        percent = _numeral(f"{100.0 * relative:.3g}") if np.isfinite(relative) else "--"
        percent = "$>999$" if relative > LARGEST_SHARE else percent
        out.append((_symbol(name, robot, len(group) > 1), shown, deviation, percent, _unit(unit)))
    return out


def _numeral(text: str) -> str:
    """A number as maths, so that its minus is one: 1.2e-05 as 1.2·10⁻⁵."""
    if text in ("—", "--", "∞"):
        return "--"
    mantissa, _, exponent = text.partition("e")
    power = rf" \cdot 10^{{{int(exponent)}}}" if exponent else ""
    return f"${mantissa}{power}$"


def _number(cell: str) -> float:
    """What a cell of `_numeral` says; NaN where it says nothing."""
    if cell == "--":
        return np.nan
    mantissa, _, exponent = cell.strip("$").partition(r" \cdot 10^{")
    return float(mantissa) * 10.0 ** int(exponent.rstrip("}") or 0)


def _symbol(name: str, robot: Robot, regrouped: bool) -> str:
    """`link1.ZZ` as ZZ_{1R}: the number of the link or joint, R where other parameters are summed into it."""
    owner, _, symbol = name.rpartition(".")
    links = [link.name for link in robot.links]
    names = links if owner in links else list(robot.joint_names)
    index = str(names.index(owner) + 1) if owner in names else rf"\text{{{escaped(owner)}}}"
    return rf"$\mathit{{{escaped(symbol)}}}_{{{index}{'R' if regrouped else ''}}}$"


def _unit(unit: str) -> str:
    """`kg.m2` as kg m²."""
    powers = _UNIT_POWER.sub(lambda found: f"$^{{{(found[1] or found[2]).strip('()')}}}$", unit)
    return powers.replace(".", r"\,")


def _table(result: Identification, cells: Sequence[Sequence[str]]) -> str:
    groups = -(-len(cells) // ROWS)
    height = -(-len(cells) // groups)
    rows = []
    for k in range(height):
        row = [cells[g * height + k] if g * height + k < len(cells) else ("",) * len(HEADS) for g in range(groups)]
        rows.append("  " + " & ".join(cell for group in row for cell in group) + r" \\")
    heads = " & ".join(HEADS * groups)
    caption = escaped(plain(f"Base parameters of {result.robot}, identified by {result.estimator}"))
    return "\n".join(
        [
            "% Written by Steelyard. Needs \\usepackage{booktabs,amsmath}.",
            r"\begin{table*}",
            r"  \centering",
            rf"  \caption{{{caption}.}}",
            r"  \footnotesize",
            r"  \begin{tabular}{" + r"@{\quad}".join(["lrrrl"] * groups) + "}",
            r"  \toprule",
            rf"  {heads} \\",
            r"  \midrule",
            *rows,
            r"  \bottomrule",
            r"  \end{tabular}",
            r"\end{table*}",
            "",
        ]
    )


def _sums(result: Identification, robot: Robot) -> str:
    """What each regrouped parameter stands for."""
    lines = [
        r"\begin{table*}", r"  \centering", r"  \caption{Regrouped parameters.}", r"  \footnotesize",
        r"  \begin{tabular}{lp{0.8\linewidth}}", r"  \toprule", r"  Parameter & Sum \\", r"  \midrule",
    ]  # fmt: skip
    for name, group in result.base.regroupings.items():
        if len(group) > 1:
            parts = [f"{_share(x)}{_symbol(one, robot, False)}" for one, x in group.items()]
            lines.append(f"  {_symbol(name, robot, True)} & {' '.join(parts).removeprefix('$+$ ')} \\\\")
    return "\n".join([*lines, r"  \bottomrule", r"  \end{tabular}", r"\end{table*}", ""])


def _share(x: float) -> str:
    """A coefficient with its sign in front; one is not spelt out."""
    size = f"{abs(x):.6g}"
    return ("$-$ " if x < 0.0 else "$+$ ") + ("" if size == "1" else _numeral(size) + r"\,")


def _read_back(text: str, cells: Sequence[Sequence[str]], result: Identification) -> None:
    """Parse the table again: as many rows as parameters, every value within half its last digit of the result's."""
    inner = text.split("\\midrule\n")[1].split("  \\bottomrule")[0]
    width = len(HEADS)
    read: list[list[str]] = []
    lines = [line.strip().removesuffix(r" \\").split(" & ") for line in inner.splitlines()]
    for g in range(max(len(line) for line in lines) // width):
        read += [[cell.strip() for cell in line[g * width : (g + 1) * width]] for line in lines]
    read = [row for row in read if any(row)]
    if [list(row) for row in cells] != read:
        raise OutputError("The LaTeX table was not written: read back, its rows are not those of the result.")
    for row, name, value, std in zip(read, result.base.names, result.value, result.std, strict=True):
        shown, allowed = _number(row[1]), 0.1 * std if np.isfinite(std) and std > 0.0 else 1e-3 * abs(value)
        if np.isfinite(value) and not abs(shown - value) <= allowed:
            raise OutputError(f"The LaTeX table was not written: {name} reads {shown:g}, and is {value:g}.")
