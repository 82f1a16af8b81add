"""Recursive estimation (P1) on a recorded log: gradient steps block by block, and the reason for their end."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, final

import numpy as np
from scipy.linalg import solve_triangular

from steelyard._arrays import Array
from steelyard.errors import EstimationError, choices
from steelyard.estimators.estimator import Estimate, Estimator
from steelyard.estimators.gradient.stopping import Proximity, StoppingRule, StoppingVerdict
from steelyard.estimators.gradient.update_rules import Gradient, Normalised, Seen, UpdateRule, follow
from steelyard.estimators.least_squares import joint_deviations, solve
from steelyard.findings import Finding
from steelyard.model.base_parameters import BaseParameters
from steelyard.regression.information import Information, stacked, triangular
from steelyard.regression.observe import Progress
from steelyard.regression.problem import Problem

NORMALISATIONS = ("largest", "each")
STARTS = ("zero", "nominal")
# A pass that reduces the distance by less than half of what its steps predict is limited by noise: blocks pull the
# estimate in different directions. No pass is expected to do better than to halve the distance.
_BEST_PASS = 0.5


@final
@dataclass(frozen=True)
class Recursive(Estimator):
    """Gradient steps on the torque residual, over the blocks of time in order, pass after pass (P1 eq. 5).

    θ⁺ = θ − ρ W_gᵀ(W_g θ − y_g),  ρ = λ / max_g ‖W_g‖²;   it ends at Σ_g W_gᵀ(W_g θ − y_g) = 0, the answer of `wls`

    with the rows of joint j in units of its σ_j. `gain` is λ, halved whenever noise limits a pass. `normalise` = "each"
    divides every block's step by its own ‖W_g‖², as P1 does: rows are then weighted by 1/‖W_g‖², which gives a
    different answer. It stops when ‖Σ Wᵀ(Wθ − y)‖ falls below `eps1` of ‖Σ Wᵀy‖, or below `sigmas` standard deviations,
    and θ changes by less than `eps2` in a pass; at the latest after `passes`. `start` is "zero" or "nominal".
    """

    gain: float = 1.0
    passes: int = 400
    eps1: float = 1e-12
    eps2: float = 1e-3
    sigmas: float = 0.05
    normalise: str = "largest"
    start: str = "zero"
    name: ClassVar[str] = "recursive"

    def __post_init__(self) -> None:
        Normalised(self.gain)
        StoppingRule(self.eps1, self.eps2)
        if isinstance(self.passes, bool) or not (isinstance(self.passes, int) and self.passes >= 1):
            raise EstimationError(
                f"Option `passes` of estimator 'recursive' must be a whole number of at least 1, not {self.passes!r}."
            )
        if not 0.0 <= self.sigmas < np.inf:
            raise EstimationError(
                f"Option `sigmas` of estimator 'recursive' must be zero or positive, not {self.sigmas!r}."
            )
        if self.normalise not in NORMALISATIONS:
            raise EstimationError(choices("normalisation", self.normalise, NORMALISATIONS))
        if self.start not in STARTS:
            raise EstimationError(choices("start", self.start, STARTS))

    def estimate(
        self, problem: Problem | None, base: BaseParameters, information: Information, progress: Progress | None = None
    ) -> Estimate:
        weights = 1.0 / joint_deviations(information, base)
        batch = solve(information, base, weights)
        way = self.way(base, information, weights, batch)
        value = np.full(len(base), np.nan)
        value[way.places] = way.values[-1]
        told = (
            f"{self.name} made {way.passes} passes over {len(way.blocks)} blocks of time, final gain {way.gain:.3g}: "
            f"{way.verdict}"
        )
        if way.verdict.proximity > self.eps1:  # below eps1 the limit is rounding, not standard deviations
            told += f"; {way.distance:.2g} σ from the least-squares estimate of the same rows"
        if way.verdict.stops:
            # the same point as least squares within a small fraction of σ, so its error bars are those of least squares
            return replace(batch, value=value).with_findings([Finding("iterations", "info", told)])
        unknown = np.full_like(batch.covariance, np.nan)
        lost = Finding(
            "not-converged",
            "warning",
            f"{told}. The recursion itself gives no error bars",
            fix="allow more passes, normalise by the largest block, or use wls or rls",
        )
        return replace(batch, value=value, covariance=unknown, covariance_classical=unknown, clusters=0).with_findings(
            [lost]
        )

    def way(
        self,
        base: BaseParameters,
        information: Information,
        weights: Array | None = None,
        batch: Estimate | None = None,
        every_block: bool = False,
    ) -> EstimatePath:
        """The path of the estimate, pass by pass, or block by block for pictures of its convergence."""
        if weights is None:
            weights = 1.0 / joint_deviations(information, base)
        if batch is None:
            batch = solve(information, base, weights)
        weights = np.where(np.isfinite(weights), weights, 0.0)
        places = np.flatnonzero(np.isfinite(batch.value))
        columns = np.array(base.kept)[places]
        whole = triangular(stacked(information, columns, weights))
        r, y = whole[: len(columns), :-1], whole[: len(columns), -1]
        # steps are made in coordinates in which the log's rows are orthonormal, W R⁻¹ and R θ: the result does not
        # depend on the choice, units and order of parameters, and distances are in standard deviations
        log = Proximity(np.eye(len(columns)), y, int(information.rows().sum()))
        blocks = [
            Seen(solve_triangular(r, part[:, :-1].T, trans=1).T, part[:, -1])
            for part in (stacked(information, columns, weights, [time]) for time in information.times)
        ]
        theta = np.zeros(len(columns))
        if self.start == "nominal" and base.layout.nominal is not None:
            theta = r @ (base.map @ base.layout.nominal)[places]
        sizes = np.array([np.sum(block.w**2) for block in blocks])
        noise = self.sigmas * np.sqrt(len(columns))
        rule = StoppingRule(self.eps1, self.eps2, excitation=0.0, noise=noise)
        gain, path, last = self.gain, [theta], np.inf
        verdict, done = rule.after_motion(theta, theta, log), 0
        while done < self.passes:
            step: UpdateRule = Normalised(gain) if self.normalise == "each" else Gradient(gain / float(sizes.max()))
            before = path[-1]
            made = follow(step, before, blocks)
            path.extend(made if every_block else deque(made, maxlen=1))
            done += 1
            verdict = rule.after_motion(path[-1], before, log)
            left = float(np.linalg.norm(log.at(path[-1])))
            if verdict.stops:
                break
            promised = max(float(np.exp(-gain / sizes.max())), _BEST_PASS)
            if left > 0.5 * (1.0 + promised) * last:
                gain *= 0.5
            last = left
        values = solve_triangular(r, np.array(path).T).T
        distance = float(np.linalg.norm(log.at(path[-1]))) / np.sqrt(len(columns))
        return EstimatePath(values, information.times, places, done, gain, verdict, distance)


class EstimatePath(NamedTuple):
    """The path of an estimate: values (K + 1, used) from the start on, after every pass or block; the blocks of a pass;
    which base parameters are used; the number of passes, the gain at the end and the last verdict; and the distance
    from least squares in standard deviations, as a root mean square over the parameters."""

    values: Array
    blocks: tuple[tuple[str, str, int], ...]
    places: np.ndarray
    passes: int
    gain: float
    verdict: StoppingVerdict
    distance: float
