"""FileWorth: the error of an exported file on the user's own logs, as its reader computes the effort."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from steelyard._arrays import Array
from steelyard.export.file_fit.rows import LoggedRows, moved_to
from steelyard.identification.result import Identification
from steelyard.identification.verdict import UNEXPLAINED
from steelyard.model.parameters import Layout
from steelyard.regression.information import Information
from steelyard.regression.scores import Score, score

FILE, IDENTIFIED, ORIGINAL = "file", "identified", "original"
_CALLED = {IDENTIFIED: "identified model", ORIGINAL: "robot file before"}


@dataclass(frozen=True)
class FileWorth:
    """Scores on fitted and unseen rows of the exported "file", the "identified" model and the "original" robot file.

    The original is missing where it states no inertias, `unseen` is empty without unseen runs. `lacking` is the root
    mean square, over the fitted rows, of the identified effort that the file does not have, by joint [N·m | N].
    """

    fitted: Mapping[str, Score]
    unseen: Mapping[str, Score] = field(default_factory=dict)
    lacking: Mapping[str, float] = field(default_factory=dict)

    @property
    def sentences(self) -> tuple[str, ...]:
        """Two sentences for people: the errors, and what the file lacks."""
        on = [("unseen motion", self.unseen)] if self.unseen else []
        parts = [f"{_percent(scores[FILE])} on {what}" for what, scores in [*on, ("the fitted rows", self.fitted)]]
        others = [
            f"{called} {' and '.join(_percent(scores[key]) for scores in (self.unseen, self.fitted) if scores)}"
            for key, called in _CALLED.items()
            if key in self.fitted
        ]
        first = f"Torque error of this file, as its reader computes it: {', '.join(parts)} ({'; '.join(others)})."
        lost = {joint: x for joint, x in self.lacking.items() if x > 1e-9}
        if not lost:
            return (first,)
        each = ", ".join(f"{joint} {x:.2g}" for joint, x in lost.items())
        return (
            first,
            f"Effort of the identified model that it does not have [N.m or N, rms of the fitted rows]: {each}.",
        )

    @property
    def doubts(self) -> tuple[str, ...]:
        """What speaks against using the file: on unseen motion if there is any, else on the fitted rows."""
        what, scores = ("unseen motion", self.unseen) if self.unseen else ("the fitted rows", self.fitted)
        file, out = scores[FILE], []
        if ORIGINAL in scores and file.total > scores[ORIGINAL].total:
            both = f"{_percent(file)} against {_percent(scores[ORIGINAL])}"
            out.append(f"The file predicts {what} worse than the robot file before ({both}): keep that file.")
        bad = [f"{joint} {x:.0%}" for joint, x in file.joints.items() if x > UNEXPLAINED]
        if bad:
            out.append(f"The file does not explain these joints on {what} (relative error): {', '.join(bad)}.")
        if out:
            out.append("C, Python and CasADi hold the whole identified model: export --to c, python or casadi.")
        return tuple(out)

    def document(self) -> dict[str, Any]:
        """The scores as plain tables for JSON."""
        plain = {
            what: {key: asdict(one) for key, one in scores.items()}
            for what, scores in (("fitted", self.fitted), ("unseen", self.unseen))
        }
        return plain | {"lacking": dict(self.lacking)}


def _percent(found: Score) -> str:
    return f"{100.0 * found.total:.2f} %"


def worth_of(
    rows: LoggedRows, result: Identification, theta: Array, layout: Layout, original: Array | None = None
) -> FileWorth:
    """The scores of a file with the values theta (C,) of `layout`; `original` (C,) are those of the file before."""
    wide = rows.fitted.layout
    values = {FILE: moved_to(wide, theta, layout)}
    values[IDENTIFIED] = moved_to(wide, np.nan_to_num(result.theta), result.base.layout)
    if original is not None:
        values[ORIGINAL] = moved_to(wide, original, layout)

    def scores(information: Information) -> dict[str, Score]:
        return {key: score(information, value, rows.mask) for key, value in values.items()}

    lacking = dict(_lacking(rows.fitted, values[IDENTIFIED] - values[FILE]))
    return FileWorth(scores(rows.fitted), {} if rows.unseen is None else scores(rows.unseen), lacking)


def worth_of_code(result: Identification) -> FileWorth:
    """The scores of a file that holds the whole identified model."""

    def scores(found: Score, nominal: Score | None) -> dict[str, Score]:
        return {FILE: found, IDENTIFIED: found} | ({} if nominal is None else {ORIGINAL: nominal})

    unseen = {} if result.unseen is None else scores(result.unseen, result.unseen_nominal)
    return FileWorth(scores(result.relative_error, result.nominal), unseen)


def _lacking(information: Information, apart: Array) -> Iterator[tuple[str, float]]:
    """√(mean of (W_j Δθ)²) of every joint with rows."""
    for joint, own, triangle in zip(information.joints, information.columns, information.joint_triangles, strict=True):
        if triangle.rows:
            rest = triangle.r[:, : len(own)] @ apart[own]
            yield joint, float(np.linalg.norm(rest) / np.sqrt(triangle.rows))
