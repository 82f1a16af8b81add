"""How well parameters explain measured efforts, from the triangles: no second pass over the data."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

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
    names = information.joints
    with np.errstate(invalid="ignore", divide="ignore"):
        relative = np.array(rest) / np.array(size)
        rmse, effort = (np.array(x) / np.sqrt(rows) for x in (rest, size))
        total = float(np.linalg.norm(rest) / np.linalg.norm(size))
    return Score(
        total,
        dict(zip(names, relative.tolist(), strict=True)),
        dict(zip(names, rmse.tolist(), strict=True)),
        dict(zip(names, rows, strict=True)),
        mask,
        dict(zip(names, effort.tolist(), strict=True)),
    )
