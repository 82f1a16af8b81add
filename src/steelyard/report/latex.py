"""LaTeX: a table as a `table*` to \\input in a paper, with booktabs rules, maths for numbers and powers in units."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import groupby

from steelyard.report.numerals import DASH
from steelyard.report.table import Table, TableColumn, TableRow

# Rows after which a second stack of rows starts to the right of the first: as many as fit on a two-column page.
MOST_ROWS = 40
_SPECIAL = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
_SPECIAL |= {one: f"\\{one}" for one in "&%$#_{}"}
# Characters that LaTeX's text fonts do not have.
_MATHS = {
    "σ": r"\sigma", "Σ": r"\Sigma", "θ": r"\theta", "±": r"\pm", "×": r"\times", "·": r"\cdot", "−": "-",
    "²": "^2", "³": "^3", "∞": r"\infty", "‖": r"\|", "≥": r"\ge", "≤": r"\le", "→": r"\to", "|": "|",
    "<": "<", ">": ">", "µ": r"\mu",
}  # fmt: skip
_UNIT_POWER = re.compile(r"(?<=[a-z])(\d)|\^(\([^)]*\)|\w)")


def latex(table: Table, symbols: Mapping[str, str] | None = None, caption: str = "") -> str:
    r"""A `table*` with one line per row; needs the packages booktabs and amsmath.

    `symbols` is LaTeX for texts of cells and headings, e.g. {"link1.ZZ": r"$\mathit{ZZ}_{1}$"}. More than `MOST_ROWS`
    rows are set in several stacks side by side, unless headings are grouped or a column is wide.
    """
    cells = latex_cells(table, symbols)
    narrow = not any(column.group or column.kind == "expression" for column in table.shown)
    stacks = max(1, -(-len(cells) // MOST_ROWS)) if narrow else 1
    height = -(-len(cells) // stacks)
    blank = ("",) * len(table.shown)
    lines = []
    for k in range(height):
        row = [cells[g * height + k] if g * height + k < len(cells) else blank for g in range(stacks)]
        lines.append("  " + " & ".join(cell for part in row for cell in part) + r" \\")
    heads = [symbols_or_text(column.title, symbols) for column in table.shown]
    broad = rf"p{{{0.8 if len(table.shown) < 4 else 0.3}\linewidth}}"
    kinds = "".join(broad if one.kind == "expression" else "l" if one.is_left else "r" for one in table.shown)
    notes = [rf"  \par {maths(note)}" for note in table.notes]
    return "\n".join(
        [
            "% Written by Steelyard. Needs \\usepackage{booktabs,amsmath}.",
            r"\begin{table*}",
            r"  \centering",
            rf"  \caption{{{maths(caption or table.title)}.}}",
            r"  \footnotesize",
            r"  \begin{tabular}{" + r"@{\quad}".join([kinds] * stacks) + "}",
            r"  \toprule",
            *_group_line(table),
            rf"  {' & '.join(heads * stacks)} \\",
            r"  \midrule",
            *lines,
            r"  \bottomrule",
            r"  \end{tabular}",
            *notes,
            r"\end{table*}",
            "",
        ]
    )


def latex_cells(table: Table, symbols: Mapping[str, str] | None = None) -> list[tuple[str, ...]]:
    """Every row as LaTeX, cell by cell."""
    return [tuple(_cell(table, row, column, symbols) for column in table.shown) for row in table]


def _cell(table: Table, row: TableRow, column: TableColumn, symbols: Mapping[str, str] | None) -> str:
    text = table.printed(row, column)
    if column.kind == "unit":
        return unit(str(table.cell(row, column.key) or ""))
    if column.is_left:
        return symbols_or_text(text, symbols)
    signed = text.replace("> ", ">").replace("< ", "<")
    return " ".join(numeral(part) for part in signed.split(" ")) if text else ""


def _group_line(table: Table) -> list[str]:
    """The line above the headings, with each group over its columns."""
    if not any(column.group for column in table.shown):
        return []
    cells = []
    for name, own in groupby(table.shown, key=lambda column: column.group):
        count = len(list(own))
        cells += [rf"\multicolumn{{{count}}}{{c}}{{{maths(name)}}}"] if name else [""] * count
    return [rf"  {' & '.join(cells)} \\"]


def symbols_or_text(text: str, symbols: Mapping[str, str] | None) -> str:
    """The LaTeX of a text in `symbols`, else the text itself."""
    return (symbols or {}).get(text) or maths(text)


def escaped(text: str) -> str:
    """Any text, escaped for LaTeX; line breaks and control characters become spaces."""
    return "".join(_SPECIAL.get(one, one) if one.isprintable() else " " for one in text)


def maths(text: str) -> str:
    """Any text, with Greek letters, powers and signs as maths."""
    return "".join(f"${_MATHS[one]}$" if one in _MATHS else escaped(one) for one in text.replace(DASH, "--"))


def numeral(text: str) -> str:
    """A printed number as maths, so that its minus sign is typeset as one: 1.2e-05 as 1.2·10⁻⁵."""
    if text in (DASH, "--", "∞"):
        return "--"
    if text == "±":
        return r"$\pm$"
    mantissa, _, exponent = text.removesuffix("%").partition("e")
    power = rf" \cdot 10^{{{int(exponent)}}}" if exponent else ""
    return f"${mantissa}{power}$" + (r"\%" if text.endswith("%") else "")


def unit(name: str) -> str:
    """`kg.m2` as kg m²."""
    powers = _UNIT_POWER.sub(lambda found: f"$^{{{(found[1] or found[2]).strip('()')}}}$", name)
    return powers.replace(".", r"\,").replace("|", "$|$")
