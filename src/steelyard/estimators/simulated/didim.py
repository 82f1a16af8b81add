"""DIDIM: measured efforts explained by the columns of a simulated motion."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, final

import numpy as np

from steelyard._arrays import Array
from steelyard.estimators.estimator import Estimate
from steelyard.estimators.least_squares import solve
from steelyard.estimators.simulated.base import Begin, SimulatingEstimator, instrument_columns, iterate
from steelyard.findings import Finding
from steelyard.model.base_parameters import BaseParameters
from steelyard.regression.information import Information, stacked
from steelyard.regression.observe import Progress
from steelyard.regression.problem import Problem
from steelyard.regression.scores import score

# A simulated motion whose residual exceeds this many times that of least squares is not the robot's. A convention: an
# error of a tenth of a gear ratio in the encoders gives 1.4 times, a real robot under a guessed controller 1.2 times.
DOUBTED = 1.2


@final
@dataclass(frozen=True)
class DIDIM(SimulatingEstimator):
    """Direct and inverse dynamic identification (DIDIM): θ̂ = Z⁺ y, in units of σ_j   (P4 eq. 19)

    Z are the columns of the motion that the model with the last θ̂ makes under the same controller and reference. The
    measured motion is used only for weights, the row mask and the torque of the known payload parameters, so its noise
    has no effect; an error of the simulated controller or sensors has. Iterates as `iv`, with the same options.
    """

    name: ClassVar[str] = "didim"

    def _from(
        self,
        begin: Begin,
        problem: Problem,
        base: BaseParameters,
        information: Information,
        progress: Progress | None,
    ) -> Estimate:
        weights, used = begin.weights, begin.used
        columns = instrument_columns(base, np.array(base.kept)[used])

        def step(both: Information) -> tuple[Array, float]:
            r = stacked(both, columns, weights)
            scale = np.linalg.norm(r[:, :-1], axis=0)
            scale[scale == 0.0] = 1.0
            theta = np.linalg.lstsq(r[:, :-1] / scale, r[:, -1], rcond=None)[0] / scale
            value = np.zeros(len(base))
            value[used] = theta
            return value, float(np.linalg.norm(r[:, -1] - r[:, :-1] @ theta))

        done = iterate(problem, base, begin, step, self.tolerance, self.most, progress)
        # least squares of the measured efforts on the columns of the simulated motion
        simulated = replace(
            base, layout=done.information.layout, kept=tuple(instrument_columns(base, base.kept).tolist())
        )
        found = solve(done.information, simulated, weights, cancelled=begin.held)
        error = score(done.information, simulated.theta(found.value), problem.mask).total
        told = f"the relative error with the simulated motion is {error:.2%} (the scores use the measured motion)"
        findings = [*done.findings(self.name, self.tolerance), Finding("simulated-error", "info", told)]
        plain = score(information, base.theta(begin.plain.value), problem.mask).total
        if error > DOUBTED * plain:
            findings.append(
                Finding(
                    "simulation-mismatch",
                    "warning",
                    f"the relative error is {plain:.2%} with the measured motion and {error:.2%} with the simulated "
                    "motion: reference, controller, encoders or the model are not as stated, and the estimate absorbs "
                    "the difference",
                    fix="compare with iv; check the reference, its delay, the ratios and the controller gains",
                )
            )
        return found.with_findings(findings)
