"""Table of the links of a robot or a standard set: whether each is physical."""

from __future__ import annotations

from collections.abc import Sequence

from steelyard.physical.consistency import LinkVerdict
from steelyard.report.table import Table, TableColumn, TableRow


def link_table(title: str, links: Sequence[LinkVerdict]) -> Table:
    """One row per body; bodies that are not physical are highlighted."""
    columns = (
        TableColumn("name", "Body"),
        TableColumn("mass", "Mass", "number", unit="kg"),
        TableColumn("eigenvalues", "Eigenvalues of J", "numbers", unit="kg.m2"),
        TableColumn("pivots", "Pivots", "numbers"),
        TableColumn("second_moment", "Σ_c smallest", "number"),
        TableColumn("needed_tolerance", "Needs", "number", unit="kg.m2"),
        TableColumn("verdict", "Verdict"),
    )
    rows = tuple(
        TableRow(
            (
                link.name,
                link.mass,
                tuple(link.eigenvalues),
                tuple(link.pivots),
                link.second_moments[0],
                max(link.needed.eigenvalues, link.needed.pseudo_inertia),
                link.verdict,
            ),
            "" if link.passes else "bad",
        )
        for link in links
    )
    return Table("links", title, columns, rows)
