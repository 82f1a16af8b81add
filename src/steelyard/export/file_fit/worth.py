"""FileWorth: the error of an exported file on the user's own logs, as its reader computes the effort."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from steelyard._arrays import Array
from steelyard.export.file_fit.rows import LoggedRows
from steelyard.identification.result import Identification
from steelyard.identification.verdict import UNEXPLAINED, worse
from steelyard.model.payload import UNLOADED
from steelyard.regression.information import Information
from steelyard.regression.scores import Score, score

FILE, IDENTIFIED, ORIGINAL = "file", "identified", "original"
_CALLED = {IDENTIFIED: "identified model", ORIGINAL: "robot file before"}


@dataclass(frozen=True)
class FileWorth:
    """Scores on fitted and unseen rows of the exported "file", the "identified" model and the "original" robot file.

    The rows are those of the runs with the load that the file carries; `fitted` or `unseen` is empty without such runs,
    and `unseen_fault` says why where their logs cannot be read. The original is missing where it states no inertias.
    `lacking` is the root mean square, over the fitted rows (the unseen ones without any), of the identified effort that
    the file does not have, by joint [N·m | N].
    """

    fitted: Mapping[str, Score]
    unseen: Mapping[str, Score] = field(default_factory=dict)
    lacking: Mapping[str, float] = field(default_factory=dict)
    load: str = UNLOADED
    unseen_fault: str = ""

    @property
    def judged(self) -> tuple[str, Mapping[str, Score]]:
        """The scores that count, and their rows as text: unseen motion if there is any, else the fitted rows."""
        return ("unseen motion", self.unseen) if self.unseen else ("the fitted rows", self.fitted)

    @property
    def sentences(self) -> tuple[str, ...]:
        """Sentences for people: the errors, what the file lacks, and what could not be scored."""
        what, scores = self.judged
        others = [("the fitted rows", self.fitted)] if self.fitted and self.unseen else []
        parts = [f"{_percent(each[FILE])} on {where}" for where, each in [(what, scores), *others]]
        next_to = [
            f"{called} {' and '.join(_percent(each[key]) for each in (self.unseen, self.fitted) if each)}"
            for key, called in _CALLED.items()
            if key in scores
        ]
        carrying = f", of runs with the load '{self.load}'" if self.load != UNLOADED else ""
        first = f"Torque error of this file, as its reader computes it: {', '.join(parts)}{carrying}"
        first += f" ({'; '.join(next_to)})."
        lost = {joint: x for joint, x in self.lacking.items() if x > 1e-9}
        if not lost:
            return (first, *self.faults)
        each = ", ".join(f"{joint} {x:.2g}" for joint, x in lost.items())
        return (first, f"Effort of the identified model that it does not have, rms [N.m or N]: {each}.", *self.faults)

    @property
    def faults(self) -> tuple[str, ...]:
        """What could not be scored."""
        return (f"Not scored on unseen motion: {self.unseen_fault}.",) if self.unseen_fault else ()

    @property
    def doubts(self) -> tuple[str, ...]:
        """What speaks against using the file, and what could not be scored."""
        what, scores = self.judged
        file, out = scores[FILE], []
        if ORIGINAL in scores and worse(file.total, scores[ORIGINAL].total):
            both = f"{_percent(file)} against {_percent(scores[ORIGINAL])}"
            out.append(f"The file predicts {what} worse than the robot file before ({both}): keep that file.")
        bad = [f"{joint} {x:.0%}" for joint, x in file.joints.items() if x > UNEXPLAINED]
        if bad:
            out.append(f"The file does not explain these joints on {what} (relative error): {', '.join(bad)}.")
        if out:
            out.append("C, Python and CasADi hold the whole identified model: export --to c, python or casadi.")
        return (*out, *self.faults)

    def document(self) -> dict[str, Any]:
        """The scores as plain tables for JSON."""
        plain = {
            what: {key: asdict(one) for key, one in scores.items()}
            for what, scores in (("fitted", self.fitted), ("unseen", self.unseen))
        }
        return plain | {"lacking": dict(self.lacking), "load": self.load}


def _percent(found: Score) -> str:
    return f"{100.0 * found.total:.2f} %"


def worth_of(
    rows: LoggedRows, values: Mapping[str, Array], load: str = UNLOADED, of_file: LoggedRows | None = None
) -> FileWorth | str:
    """The scores of values (C,) on the columns of the rows, over the runs with this load; why not where there are
    none.

    `of_file` are the rows of robot files where their gravity is not that of the identification; what they lack of the
    identified effort is then not computed, because it is mostly weight.
    """
    of_file = of_file or rows
    fitted, unseen = zip(rows.carrying(load), of_file.carrying(load), strict=True)
    some = fitted[0] or unseen[0]
    if some is None:
        return unscored_load(load, sorted(rows.payloads))

    def scores(identified: Information | None, file: Information | None) -> dict[str, Score]:
        own = ((key, identified if key == IDENTIFIED else file, x) for key, x in values.items())
        return {key: score(information, x, rows.mask) for key, information, x in own if information is not None}

    lacking = dict(_lacking(some, values[IDENTIFIED] - values[FILE])) if of_file is rows else {}
    return FileWorth(scores(*fitted), scores(*unseen), lacking, load, rows.unseen_fault)


def unscored_load(load: str, payloads: Iterable[str]) -> str:
    """The sentence for a file with a load that none of the runs carries."""
    loads = ", ".join(f"'{one}'" for one in payloads)
    why = (
        f"every run of the result carries a payload ({loads}); see --load"
        if load == UNLOADED
        else f"no run of the result carries the load '{load}'"
    )
    return f"The errors of this file are not known: {why}."


def worth_of_result(result: Identification, load: str = UNLOADED) -> FileWorth:
    """The scores of a file that holds the whole identified model; `load` is that of all runs."""

    def scores(found: Score, nominal: Score | None) -> dict[str, Score]:
        return {FILE: found, IDENTIFIED: found} | ({} if nominal is None else {ORIGINAL: nominal})

    unseen = {} if result.unseen is None else scores(result.unseen, result.unseen_nominal)
    return FileWorth(scores(result.relative_error, result.nominal), unseen, load=load)


def _lacking(information: Information, apart: Array) -> Iterator[tuple[str, float]]:
    """√(mean of (W_j Δθ)²) of every joint with rows."""
    for joint, own, triangle in zip(information.joints, information.columns, information.joint_triangles, strict=True):
        if triangle.rows:
            rest = triangle.r[:, : len(own)] @ apart[own]
            yield joint, float(np.linalg.norm(rest) / np.sqrt(triangle.rows))
