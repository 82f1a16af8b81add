"""Table of estimators side by side on rows that they did not see."""

from __future__ import annotations

from steelyard.report import numerals
from steelyard.report.table import Emphasis, Table, TableColumn, table
from steelyard.validation.estimator_scores import EstimatorScores

HEADINGS = {"unseen": "Unseen motion", "left out": "Rows left out in turn"}


def estimator_table(found: EstimatorScores) -> Table:
    """One row per estimator, that of the result first: errors on the fitted rows and on other rows, per joint."""
    heading = HEADINGS[found.rows]
    joints = tuple(dict.fromkeys(name for one in found.scores for name in one.joints))
    columns = (
        TableColumn("estimator", "Estimator", "code"),
        TableColumn("used", "Used here", "flag"),
        TableColumn("fitted", "Fitted rows", "share"),
        TableColumn("total", "all joints", "share", group=heading),
        *(TableColumn(f"joint_{name}", name, "share", group=heading) for name in joints),
    )
    unknown = float("nan")
    rows = [
        (one.estimator, one.used, one.fitted, one.total, *(one.joints.get(name, unknown) for name in joints))
        for one in found.scores
    ]
    weights: list[Emphasis] = ["strong" if one.used else "" for one in found.scores]
    return table("estimators", "Estimators on the same rows", columns, rows, weights, notes(found))


def notes(found: EstimatorScores) -> tuple[str, ...]:
    """What the scores are, which is smallest, and what is missing."""
    said = [
        "Relative errors of estimators with their default options, on unseen runs."
        if found.rows == "unseen"
        else "Relative errors of estimators with their default options, on rows left out in turn, with a guard on both "
        "sides. These rows belong to the fitted motion: other motion may have larger errors."
    ]
    best, used = found.best, found.scores[0]
    if best is not None and numerals.share(best.total) != numerals.share(used.total):
        less = f"{best.estimator} has the smallest error, {numerals.share(best.total)} instead of "
        said.append(f"{less}{numerals.share(used.total)}: identify with --estimator {best.estimator} to use it.")
    said += [f"{one.estimator}: {one.reason}." for one in found.scores if one.reason]
    if found.skipped:
        names = ", ".join(found.skipped)
        said.append(f"Not tried, because their cost grows with the cube of the number of parameters: {names}.")
    said.append("Computed from the rows of the fit without reading the logs again; estimators that simulate are not.")
    return tuple(said)
