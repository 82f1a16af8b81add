"""Comparison with the robot file: the ratio of a joint's effort to the torque of its nominal inertias."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from steelyard._arrays import Array
from steelyard.model.parameters import INERTIAL
from steelyard.project.checks.channel_map.trial import FOLDS, Trial

# The robot file is used for a joint if its torque explains this fraction of the effort beyond friction, in every part
# of the log: else friction or a wrong link decides the ratio.
_SHARE = 0.85
_SPREAD = 0.25


class Scales(NamedTuple):
    """s_j (n,) of y_j = s_j τ_nominal,j + friction + offset, the relative deviation of s_j over the folds, and the
    fraction of the effort beyond friction that the robot file explains."""

    size: Array
    spread: Array
    share: Array

    @property
    def trusted(self) -> NDArray[np.bool_]:
        """Joints (n,) whose scale the robot file determines."""
        return (self.share > _SHARE) & (self.spread < _SPREAD) & (np.abs(self.size) > 0.0)


def nominal_scales(trial: Trial) -> Scales:
    """The scale of every joint's effort relative to the robot file; none is trusted if the file states no inertias."""
    n, layout = trial.model.robot.dof, trial.model.layout
    out = Scales(np.zeros(n), np.full(n, np.inf), np.zeros(n))
    if not trial.knows_inertias:
        return out
    theta = np.array([0.0 if c.nominal is None else c.nominal for c in layout.columns])
    stated = np.array(
        [c.symbol in INERTIAL or c.width is not None or (c.symbol == "Ia" and bool(c.nominal)) for c in layout.columns]
    )
    grams = trial.as_logged
    every = np.arange(FOLDS)
    for j in trial.active:
        free = np.flatnonzero(~stated & (grams.ww[:, j].sum(axis=0).diagonal() > 0.0))
        change = np.zeros((len(layout), 1 + len(free)))
        change[stated, 0] = theta[stated]
        change[free, 1 + np.arange(len(free))] = 1.0

        def fitted(folds: NDArray[np.int64], j: int = j, change: Array = change) -> tuple[float, float]:
            ww = change.T @ grams.ww[folds, j].sum(axis=0) @ change
            wy = change.T @ grams.wy[folds, j, :, j].sum(axis=0)
            yy = grams.yy[folds, j, j, j].sum()
            size = np.sqrt(np.maximum(np.diagonal(ww), 1e-300))
            whole = np.linalg.lstsq(ww / size / size[:, None], wy / size, rcond=1e-10)[0] / size
            rest = np.linalg.lstsq((ww / size / size[:, None])[1:, 1:], (wy / size)[1:], rcond=1e-10)[0] / size[1:]
            left, alone = yy - wy @ whole, yy - wy[1:] @ rest
            return float(whole[0]), float(1.0 - left / alone) if alone > 0.0 else 0.0

        out.size[j], out.share[j] = fitted(every)
        parts = np.array([fitted(np.delete(every, f))[0] for f in every])
        deviation = np.sqrt((FOLDS - 1) / FOLDS * np.sum((parts - parts.mean()) ** 2))
        out.spread[j] = deviation / abs(out.size[j]) if out.size[j] else np.inf
    return out
