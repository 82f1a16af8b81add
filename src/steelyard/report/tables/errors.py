"""Table of errors per joint, for each model and set of rows."""

from __future__ import annotations

from collections.abc import Callable

from steelyard.identification.result import Identification
from steelyard.identification.verdict import effort_unit
from steelyard.regression.scores import Score
from steelyard.report.table import Emphasis, Kind, Table, TableColumn, table

# Scores by the names that tables give them.
KINDS = {
    "fitted": "identified model, on the rows it was fitted to",
    "unseen": "identified model, on unseen runs",
    "expected": "identified model, on other motion as guarded folds of the fitted rows promise",
    "nominal": "nominal model, on the fitted rows",
    "nominal, unseen": "nominal model, on unseen runs",
}


def scored(mask: str) -> str:
    """The rows that were scored, as a sentence."""
    return f"Scored: {mask}."


def error_scores(result: Identification) -> dict[str, Score]:
    """The available scores, by kind; the expected error only where no unseen run was scored."""
    expected = result.expected if result.unseen is None else None
    scores = (result.relative_error, result.unseen, expected, result.nominal, result.unseen_nominal)
    return {kind: score for kind, score in zip(KINDS, scores, strict=True) if score is not None}


def error_table(result: Identification) -> Table:
    """One row per joint, then the total: relative error, RMSE and rows of every score."""
    scores = error_scores(result)

    def columns(prefix: str, heading: str, kind: Kind, digits: int = 4) -> list[TableColumn]:
        return [
            TableColumn(
                f"{prefix}_{_key(name)}",
                name,
                kind,
                group=heading,
                shown=prefix == "relative" or name != "nominal, unseen",
                pale=name.startswith("nominal"),
                digits=digits,
            )
            for name in scores
        ]

    def cells(pick: Callable[[Score], float | None]) -> list[float | None]:
        return [pick(score) for score in scores.values()]

    relative, measured = (
        columns("relative", "Relative error", "share"),
        list(scores)[: 1 if result.unseen is None else 2],
    )
    described = (
        TableColumn("joint", "Joint"),
        *relative,
        TableColumn("bars", "Relative error as a bar", "bars", of=tuple(column.key for column in relative[:3])),
        *columns("rmse", "RMSE", "number", 3),
        TableColumn("unit", "Unit", "unit"),
        *(TableColumn(f"rows_{name}", name, "count", group="Rows") for name in measured),
    )
    rows = [
        (
            joint,
            *cells(lambda score, joint=joint: score.joints[joint]),
            None,
            *cells(lambda score, joint=joint: score.rmse[joint]),
            effort_unit(result.base.layout, joint),
            *(scores[name].rows[joint] for name in measured),
        )
        for joint in result.relative_error.joints
    ]
    total = (
        "all joints",
        *cells(lambda score: score.total),
        None,
        *(None for _ in scores),
        None,
        *(sum(scores[name].rows.values()) for name in measured),
    )
    notes = (
        "Relative error is ‖measured − predicted‖ / ‖measured‖, unweighted. "
        + "; ".join(f"{name}: {KINDS[name]}" for name in scores)
        + f". {scored(result.relative_error.mask)}"
    )
    every = [*rows, total]
    weights: list[Emphasis] = ["total" if row is total else "" for row in every]
    return table("errors", "Errors per joint", described, every, weights, [notes])


def _key(name: str) -> str:
    return name.replace(", ", "_")
