"""Cross-validation from blocks of information: every row is scored once, by parameters that did not see it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from steelyard.base_parameters import BaseParameters
from steelyard.errors import EstimationError
from steelyard.estimators import Estimator
from steelyard.information import Information
from steelyard.parameters import Array
from steelyard.scores import Score, score
from steelyard.threads import single_threaded

Time = tuple[str, str, int]


@dataclass(frozen=True)
class Fold:
    """A part of the rows scored with parameters fitted to all the others; what those do not show counts as zero."""

    name: str
    score: Score
    not_excited: tuple[str, ...] = ()


@dataclass(frozen=True)
class CrossValidation:
    """Every row scored once, by parameters that did not see it: per fold, and `pooled` over all folds.

    `nominal` is the nominal model on the same rows; `asked` what the folds were to be.
    """

    estimator: str
    asked: str
    folds: tuple[Fold, ...]
    pooled: Score
    nominal: Score | None

    @property
    def worst(self) -> Fold:
        return max(self.folds, key=lambda fold: np.nan_to_num(fold.score.total))

    @property
    def verdict(self) -> str:
        nominal = "" if self.nominal is None else f", nominal model {self.nominal.total:.2%}"
        return (
            f"Relative error {self.pooled.total:.2%} on rows left out of the fit, {len(self.folds)} folds "
            f"(worst {self.worst.score.total:.2%} on {self.worst.name}{nominal})."
        )


def restricted(information: Information, times: Collection[Time], out: bool = False) -> Information:
    """Only the time blocks (run, load case, block) named, or with `out` all blocks but those."""
    chosen = set(times)
    blocks = {key: triangle for key, triangle in information.blocks.items() if (key[:3] in chosen) != out}
    return replace(information, blocks=blocks)


@single_threaded
def cross_validate(
    base: BaseParameters,
    information: Information,
    estimator: Estimator,
    folds: int | Literal["runs"] = 10,
    mask: str = "the rows of the information",
) -> CrossValidation:
    """Leave out each fold, fit the other blocks, score the fold's own triangles. No second look at the data.

    `folds`: a number k makes about k stretches of time of equal rows, none across a run; "runs" leaves one run out at
    a time. Blocks of one motion resemble each other, so for unseen motion "runs" is the honest one.
    """
    done: list[Fold] = []
    named = _folds(information, folds)
    for name, times in named:
        try:
            estimate = estimator.estimate(base, restricted(information, times, out=True))
        except EstimationError as error:
            raise EstimationError(f"Without {name} there is no estimate: {error}") from None
        theta = np.zeros(len(base.layout))
        theta[list(base.kept)] = np.nan_to_num(estimate.value)
        unknown = tuple(n for n, x in zip(base.names, estimate.value, strict=True) if not np.isfinite(x))
        done.append(Fold(name, score(restricted(information, times), theta, mask), unknown))
    every = restricted(information, [time for _, times in named for time in times])
    # with θ = 0 the residual is the effort itself
    effort = score(every, np.zeros(len(base.layout)), mask)
    nominal = base.layout.nominal
    return CrossValidation(
        estimator.name,
        str(folds),
        tuple(done),
        _pooled([fold.score for fold in done], effort),
        None if nominal is None else score(every, nominal, mask),
    )


def _folds(information: Information, folds: int | Literal["runs"]) -> list[tuple[str, tuple[Time, ...]]]:
    """Names and time blocks of the folds."""
    if folds == "runs":
        found = [
            (f"run '{r}'", tuple(time for time in information.times if time[0] == r)) for r in information.block_rows
        ]
    elif isinstance(folds, int) and folds >= 2:
        found = [(_stretch(times), times) for times in information.clusters(folds)]
    else:
        raise EstimationError(f'folds must be "runs" or a whole number from 2, not {folds!r}.')
    for name, times in found:
        if not sum(triangle.rows for key, triangle in information.blocks.items() if key[:3] in set(times)):
            raise EstimationError(
                f"The fold of {name} holds no motion: no rows are left after filtering, decimation and the rest mask. "
                "Leave that run out of the project."
            )
    if len(found) < 2:
        raise EstimationError(
            "There is only one fold, so nothing is left to fit. "
            + ("Give two runs or more, or a number of folds." if folds == "runs" else "Record longer or decimate less.")
        )
    return found


def _stretch(times: Sequence[Time]) -> str:
    first, last = times[0][2], times[-1][2]
    return f"'{times[0][0]}' block {first}" + ("" if first == last else f"–{last}")


def _pooled(scores: Sequence[Score], effort: Score) -> Score:
    """One score over the rows of all folds; `effort` is the score of predicting zero on the same rows."""

    def squares(one: Score) -> Array:
        return np.array([np.nan_to_num(one.rmse[j]) ** 2 * one.rows[j] for j in effort.joints])

    error, whole, rows = sum(map(squares, scores)), squares(effort), np.array(list(effort.rows.values()))
    with np.errstate(invalid="ignore", divide="ignore"):
        relative, rmse = np.sqrt(error / whole), np.sqrt(error / rows)
    total = float(np.sqrt(np.sum(error) / whole.sum()))
    joints = list(effort.joints)
    return Score(
        total,
        dict(zip(joints, relative.tolist(), strict=True)),
        dict(zip(joints, rmse.tolist(), strict=True)),
        dict(effort.rows),
        effort.mask,
    )
