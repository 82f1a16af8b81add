"""Suspects: edits of the map that were tried, their improvement, and its significance."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steelyard._arrays import Array
from steelyard.findings import Finding
from steelyard.project.checks.channel_map.edits import Edit
from steelyard.project.checks.channel_map.trial import FOLDS, Trial, Verdict

# An edit is accepted when the joints' errors fall by e^0.7 = 2 together, and by three times their variation by chance.
# Wrong edits of clean logs stay below 0.5; right edits of faulty ones reach 1 to 20.
GAIN = 0.7
SURE = 3.0
# An edit with this gain and this remaining error needs no alternatives.
SETTLED_GAIN, SETTLED_ERROR = 3.0, 0.1


@dataclass(frozen=True)
class Suspect:
    """An edit with its verdict. `gain` is Σ_j log of the reduction of the relative error, `spread` its deviation over
    the folds.

    `accepted` says whether the edit is significant, `rank` orders those that are, and `finding` reports it.
    """

    edit: Edit
    before: Verdict
    after: Verdict
    gain: float
    spread: float
    accepted: bool
    rank: float
    finding: Callable[[Suspect], Finding]

    @property
    def is_conclusive(self) -> bool:
        """True when the edit explains so much that no other kind of edit needs to be tried."""
        return self.accepted and self.gain > SETTLED_GAIN and self.after.mean < SETTLED_ERROR

    @property
    def evidence(self) -> str:
        """The reduction of the error as text, at the joint where it is largest."""
        fall = np.nan_to_num(np.log(self.before.relative / self.after.relative))
        j = int(np.argmax(fall))
        return (
            f"the error falls from {_percent(self.before.total)} to {_percent(self.after.total)} "
            f"({self.after.joints[j]}: {_percent(self.before.relative[j])} to {_percent(self.after.relative[j])})"
        )


def is_significant(gain: float, spread: float) -> bool:
    """Whether a gain is significant. A very large one may differ much between the folds: half its size is enough."""
    return gain >= GAIN and (gain >= SURE * spread or gain >= max(SETTLED_GAIN, 1.5 * spread))


def tried(trial: Trial, edit: Edit, finding: Callable[[Suspect], Finding]) -> Suspect:
    """Try an edit without a free factor."""
    after = trial.verdict(edit)
    gain, spread = after.gain_over(trial.baseline)
    return Suspect(edit, trial.baseline, after, gain, spread, is_significant(gain, spread), gain, finding)


@dataclass(frozen=True)
class Profile:
    """Best factor k̂ = exp(`log_size`) of a family of scalings, the deviation of its logarithm, and its verdict."""

    log_size: float
    spread: float
    verdict: Verdict


def profile(trial: Trial, scaled: Callable[[float], Edit], grid: Array, worth: float = -np.inf) -> Profile:
    """The best factor: the grid, then twice a finer one around its best, then a parabola.

    The deviation of log k̂ is that of the leave-one-fold-out factors. Nothing is refined if no factor of the grid gains
    `worth`.
    """
    known = {float(x): trial.verdict(scaled(float(np.exp(x)))) for x in grid}
    every = np.arange(FOLDS)
    best, near = _neighbours(known, every)
    if known[best].gain_over(trial.baseline)[0] < worth:
        return Profile(best, np.inf, known[best])
    for _ in range(2):
        if near is None:
            break
        for x in (0.5 * (best + near[0]), 0.5 * (best + near[1])):
            known.setdefault(x, trial.verdict(scaled(float(np.exp(x)))))
        best, near = _neighbours(known, every)
    size = peak(known, every)
    parts = np.array([peak(known, np.delete(every, f)) for f in every])
    spread = float(np.sqrt((FOLDS - 1) / FOLDS * np.sum((parts - parts.mean()) ** 2)))
    return Profile(size, spread, trial.verdict(scaled(float(np.exp(size)))))


def _score(verdict: Verdict, folds: NDArray[np.int64]) -> float:
    return -0.5 * float(np.nansum(np.log(verdict.error[folds].sum(axis=0) / verdict.effort[folds].sum(axis=0))))


def _neighbours(known: dict[float, Verdict], folds: NDArray[np.int64]) -> tuple[float, tuple[float, float] | None]:
    """The best size tried and its neighbours; None at an end of the grid."""
    sizes = sorted(known)
    k = int(np.argmax([_score(known[x], folds) for x in sizes]))
    return sizes[k], None if k in (0, len(sizes) - 1) else (sizes[k - 1], sizes[k + 1])


def peak(known: dict[float, Verdict], folds: NDArray[np.int64]) -> float:
    """The best size: vertex of the parabola through the best size and its neighbours."""
    best, near = _neighbours(known, folds)
    if near is None:
        return best
    x = np.array([near[0], best, near[1]])
    curve, slope, _ = np.polyfit(x - best, [_score(known[float(s)], folds) for s in x], 2)
    return float(np.clip(best - 0.5 * slope / curve, *near)) if curve < 0.0 else best


def joint_list(trial: Trial, joints: tuple[int, ...]) -> str:
    return ", ".join(trial.model.robot.axis_names[j] for j in joints)


def best_accepted(suspects: Iterable[Suspect]) -> Suspect | None:
    """The one that explains most among the significant ones."""
    return max((s for s in suspects if s.accepted), key=lambda s: s.rank, default=None)


def _percent(x: float) -> str:
    return f"{100.0 * x:.3g} %"
