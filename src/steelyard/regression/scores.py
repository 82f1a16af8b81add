"""How well parameters explain measured efforts, from the triangles: no second pass over the data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steelyard._arrays import Array
from steelyard.regression.information import Information


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
