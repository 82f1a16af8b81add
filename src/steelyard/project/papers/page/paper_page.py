"""PaperPage: what a paper's command returns, and its printers: HTML page, Markdown, JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from steelyard.project.papers.page.claims import Claim
from steelyard.project.papers.page.comparison import PRINTED
from steelyard.project.papers.printed_tables import printed
from steelyard.report.composed import ComposedPart, compose
from steelyard.report.section import Piece
from steelyard.report.table import Table, TableColumn, table
from steelyard.signals.recording import Progress


@dataclass(frozen=True)
class PaperRequest:
    """How to run a paper: number of simulated experiments, random seed, and the folder of recorded data if any.

    data   folder with the project files of recordings (tx40.toml, tx40-iv.toml, ur10e-free.toml or one of your own)
    """

    experiments: int = 3
    seed: int = 0
    data: Path | None = None
    progress: Progress | None = field(default=None, compare=False)

    def tell(self, done: int, total: int) -> None:
        """Report progress, if anyone listens."""
        if self.progress is not None:
            self.progress("experiments", done, total)


@dataclass(frozen=True)
class PaperPage:
    """A paper next to ours: its sections in order, and the claims that must hold."""

    paper: str
    request: PaperRequest
    parts: tuple[ComposedPart, ...]
    claims: tuple[Claim, ...]

    @property
    def tables(self) -> dict[str, Table]:
        """Every table by name, in the order of the page."""
        return {piece.name: piece for part in self.parts for piece in part.pieces if isinstance(piece, Table)}

    @property
    def printed_numbers(self) -> int:
        """Numbers that the paper prints and that stand next to ours, counted once: a recording compares them again."""
        return sum(printed_numbers(own) for name, own in self.tables.items() if not name.startswith("recorded"))

    @property
    def broken(self) -> tuple[Claim, ...]:
        return tuple(claim for claim in self.claims if not claim.holds)

    @property
    def title(self) -> str:
        return f"{self.paper.upper()} reproduced"

    @property
    def verdict(self) -> str:
        """One sentence: claims and counts."""
        fault = f" Broken: {'; '.join(one.claim for one in self.broken)}." if self.broken else ""
        return (
            f"{len(self.claims) - len(self.broken)} of {len(self.claims)} claims hold. "
            f"{self.printed_numbers} printed numbers stand next to ours.{fault}"
        )

    def html(self) -> str:
        """The page, complete in one file."""
        facts = printed(self.paper)
        about = f"{facts['authors']}, {facts['title']}. {facts['subject']}."
        made = f"{self.request.experiments} simulated experiments, seed {self.request.seed}"
        parts = (*self.parts, ComposedPart("claims", "Claims", (claim_table(self.claims),)))
        return compose(self.title, "Steelyard · a paper reproduced", self.verdict, f"{about} {made}.", parts)

    def document(self) -> dict[str, object]:
        """The page for programs."""
        return {
            "schema": "steelyard.paper/1",
            "paper": self.paper,
            "experiments": self.request.experiments,
            "seed": self.request.seed,
            "recorded": None if self.request.data is None else str(self.request.data),
            "printed_numbers": self.printed_numbers,
            "tables": {name: {"title": own.title, "rows": own.records(), "notes": list(own.notes)}
                       for name, own in self.tables.items()},
            "claims": [claim.document() for claim in self.claims],
            "broken": len(self.broken),
        }  # fmt: skip


def printed_numbers(own: Table) -> int:
    """Numbers in the columns of what the paper prints."""
    keys = [column.key for column in own.columns if column.key.startswith(PRINTED) and not column.is_text]
    cells = (own.cell(row, key) for row in own for key in keys)
    return sum(isinstance(x, float | int) and math.isfinite(x) for x in cells)


def claim_table(claims: Sequence[Claim]) -> Table:
    """Every claim, its limit and what was measured."""
    columns = (
        TableColumn("claim", "Claim"),
        TableColumn("bar", "Limit"),
        TableColumn("measured", "Measured"),
        TableColumn("holds", "Holds", "flag"),
    )
    rows = [(one.claim, one.bar, one.measured, one.holds) for one in claims]
    return table("claims", "What must hold", columns, rows, ["" if one.holds else "bad" for one in claims])


def part(name: str, title: str, *pieces: Piece) -> ComposedPart:
    """A section of the page."""
    return ComposedPart(name, title, pieces)


def markdown(own: Table) -> str:
    """A table and its notes as Markdown; rows that are marked have their name in bold."""
    columns = own.shown
    heads = [f"{column.group}: {column.title}" if column.group else column.title for column in columns]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(columns)]
    for row in own:
        cells = [own.printed(row, column).replace("|", "\\|") for column in columns]
        if row.emphasis in ("warning", "bad") and cells[0]:
            cells[0] = f"**{cells[0]}**"
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join([*lines, *(f"\n{note}" for note in own.notes)])
