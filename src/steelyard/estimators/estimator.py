"""The contract of an estimator: a frozen bag of options and one method."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from steelyard.base_parameters import BaseParameters
from steelyard.findings import Finding
from steelyard.information import Information
from steelyard.parameters import Array


@dataclass(frozen=True)
class Hanging:
    """What a joint's gain hangs on: σ(gain) would grow by `inflation` if this payload parameter told it nothing."""

    joint: str
    parameter: str
    inflation: float


@dataclass(frozen=True)
class GainEstimate:
    """Drive gains: the torque of motor j is `factor`_j times its stated effort. NaN where the scale is not determined.

    Covariances (n + b, n + b) are those of (factor, base values) together, by leave-one-block-out and by the classical
    formula; `bootstrap` (n + b,) are standard deviations over resampled blocks of time.
    """

    factor: Array
    covariance: Array
    covariance_classical: Array
    bootstrap: Array
    hangs: tuple[Hanging, ...] = ()


@dataclass(frozen=True)
class Estimate:
    """Values of the base parameters and how sure they are.

    value (b,): NaN where the data does not excite the parameter, zero where `cancelled` (b,) says so.
    covariance (b, b) by leave-one-block-out;
    `clusters` blocks were left out in turn, so intervals use Student's t with `clusters` − 1 degrees of freedom.
    `condition` is that of the weighted W_b, `condition_scaled` with columns of unit norm. `gains` are there where the
    estimator finds drive gains too; the values are then in SI, whatever the efforts' unit was.
    """

    value: Array
    covariance: Array
    covariance_classical: Array
    cancelled: NDArray[np.bool_]
    clusters: int
    condition: float
    condition_scaled: float
    findings: tuple[Finding, ...] = ()
    gains: GainEstimate | None = None

    def with_findings(self, more: Sequence[Finding]) -> Estimate:
        """The same with findings added."""
        return replace(self, findings=self.findings + tuple(more))


@runtime_checkable
class Estimator(Protocol):
    """An estimator sees the base parameters and the information, never a file.

    One with the class attribute `finds_gains` = True also finds drive gains.
    """

    name: ClassVar[str]

    def estimate(self, base: BaseParameters, information: Information) -> Estimate: ...


def finds_gains(estimator: Estimator) -> bool:
    """Whether the estimator finds drive gains beside the parameters."""
    return getattr(estimator, "finds_gains", False)


def estimated(estimator: Estimator, base: BaseParameters, information: Information) -> Estimate:
    """The estimate from what the estimator asks for: all responses, or efforts with what is known taken off."""
    return estimator.estimate(base, information if finds_gains(estimator) else information.without_known())


def in_torques(information: Information, estimate: Estimate) -> Information:
    """The information with efforts turned into torques by the estimate's gains, where it has some.

    Rows of motors without a gain are left out: nobody knows their torque.
    """
    if estimate.gains is None:
        return information
    factor = estimate.gains.factor
    told = {key: triangle for key, triangle in information.blocks.items() if np.isfinite(factor[key.joint])}
    return replace(information, blocks=told).scaled(factor)
