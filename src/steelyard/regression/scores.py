"""How well parameters explain measured efforts, from the triangles: no second pass over the data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steelyard._arrays import Array
from steelyard.regression.information import Information

# Directions of a covariance below this fraction of the largest are rounding.
RANK = 1e-13


@dataclass(frozen=True)
class Score:
    """‖y − Wθ‖/‖y‖, unweighted, on the rows that were kept, in total and per joint; rmse [N·m | N]; number of rows of
    each.

    `mask` describes the scored rows as text; `effort` is the root mean square of y itself. A joint without rows has
    NaN.
    """

    total: float
    joints: dict[str, float]
    rmse: dict[str, float]
    rows: dict[str, int]
    mask: str
    effort: dict[str, float]


def score(information: Information, theta: Array, mask: str) -> Score:
    """Score of standard parameters theta (C,), or of base values on their columns."""
    rest, size, rows = [], [], []
    for columns, triangle in zip(information.columns, information.joint_triangles, strict=True):
        y = triangle.r[:, len(columns)]
        known = information.known(triangle.r)
        rest.append(np.linalg.norm(triangle.r[:, : len(columns)] @ theta[columns] + known - y))
        size.append(np.linalg.norm(y))
        rows.append(triangle.rows)
    return score_of(information.joints, np.square(rest), np.square(size), np.array(rows), mask)


def score_of(joints: Sequence[str], error: Array, effort: Array, rows: NDArray[np.int64], mask: str) -> Score:
    """The score of sums of squared errors and of squared efforts, one of each per joint (n,)."""
    with np.errstate(invalid="ignore", divide="ignore"):
        relative, rmse, size = np.sqrt(error / effort), np.sqrt(error / rows), np.sqrt(effort / rows)
        total = float(np.sqrt(error.sum() / effort.sum()))

    def table(x: Array | NDArray[np.int64]) -> dict[str, float]:
        return dict(zip(joints, x.tolist(), strict=True))

    counts = {joint: int(count) for joint, count in zip(joints, rows, strict=True)}
    return Score(total, table(relative), table(rmse), counts, mask, table(size))


def covariance_factor(covariance: Array, classical: Array) -> Array:
    """L (b, k) with L Lᵀ the covariance of a prediction's parameters.

    Parameters without a robust σ get the classical covariance, those without either (not excited, cancelled) zero.
    """
    known, told = (np.isfinite(np.diagonal(c)) for c in (covariance, classical))
    own = np.outer(known, known)
    other = np.outer(told & ~known, told & ~known)
    whole = np.where(own, covariance, np.where(other, classical, 0.0))
    size = np.sqrt(np.diagonal(whole))
    scale = np.where(size > 0.0, size, 1.0)
    values, vectors = np.linalg.eigh(np.nan_to_num(whole) / np.outer(scale, scale))
    live = values > RANK * max(float(values.max(initial=0.0)), 1.0)
    return scale[:, None] * vectors[:, live] * np.sqrt(values[live])


def residual_deviation(information: Information, kept: Sequence[int], theta: Array, factor: Array) -> Array:
    """s_j (n,) [N·m | N], the deviation of a row from the true parameters, from the fitted rows; NaN without rows.

    s_j² = (‖y_j − W_j θ̂‖² + tr(W_j C W_jᵀ)) / r_j,   C = L Lᵀ with `factor` L (b, k) on the columns `kept`.
    A fit absorbs part of the residual: E‖y − Wθ̂‖² = r s² − tr(W C Wᵀ), whatever the correlation of the rows.
    """
    whole = np.zeros((len(information.layout), factor.shape[1]))
    whole[list(kept)] = factor
    out = np.full(len(information.joints), np.nan)
    for j, (columns, triangle) in enumerate(zip(information.columns, information.joint_triangles, strict=True)):
        if triangle.rows:
            w = triangle.r[:, : len(columns)]
            rest = w @ theta[columns] + information.known(triangle.r) - triangle.r[:, len(columns)]
            out[j] = np.sqrt((rest @ rest + np.sum((w @ whole[columns]) ** 2)) / triangle.rows)
    return out
