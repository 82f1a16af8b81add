"""Recursive least squares."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, final

import numpy as np

from steelyard.estimators.estimator import Estimate, Estimator
from steelyard.estimators.least_squares import joint_deviations, solve
from steelyard.findings import Finding
from steelyard.model.base_parameters import BaseParameters
from steelyard.regression.forgetting import Forgetting, Rule
from steelyard.regression.information import Information
from steelyard.regression.observe import Progress
from steelyard.regression.problem import Problem


@final
@dataclass(frozen=True)
class RLS(Estimator):
    """Recursive least squares on square-root information: rows are appended to triangles, with or without forgetting.

    θ̂_k = argmin Σ_j ‖y_j − W_j θ‖²_k / σ_j²,   ‖·‖_k weighted by `forgetting` (P1 §4, see `Forgetting`)

    Each joint has its own triangle, without weights, so σ_j is computed from all remembered rows for every estimate (P0
    §III), and no early value of it stays in the sum. Without forgetting it equals `wls`. `memory` counts rows of the
    clock, after decimation.
    """

    forgetting: Rule = "none"
    memory: float | None = None
    name: ClassVar[str] = "rls"

    def __post_init__(self) -> None:
        _ = self.rule

    @property
    def rule(self) -> Forgetting:
        return Forgetting(self.forgetting, np.inf if self.memory is None else float(self.memory))

    def estimate(
        self, problem: Problem | None, base: BaseParameters, information: Information, progress: Progress | None = None
    ) -> Estimate:
        remembered = self.rule.remembered(information)
        found = solve(remembered, base, 1.0 / joint_deviations(remembered, base))
        if self.forgetting == "none":
            return found
        assert found.refit is not None
        found = replace(found, refit=replace(found.refit, information=remembered))
        if self.forgetting == "directional":  # one block of time is left, which has classical error bars alone
            kept = tuple(finding for finding in found.findings if finding.code != "few-blocks")
            found = replace(found, covariance=found.covariance_classical, findings=kept)
        return found.with_findings((self._finding(remembered),))

    def _finding(self, remembered: Information) -> Finding:
        rows = remembered.rows()
        return Finding(
            "forgetting",
            "info",
            f"{self.forgetting} forgetting with a memory of {self.memory:g} rows: equivalent to {int(rows.min())} to "
            f"{int(rows.max())} rows per joint; classical error bars are too wide by up to √2",
        )
