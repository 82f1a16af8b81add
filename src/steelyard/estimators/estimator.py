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
class Estimate:
    """Values of the base parameters and how sure they are.

    value (b,): NaN where the data does not excite the parameter, zero where `cancelled` (b,) says so.
    covariance (b, b) by leave-one-block-out;
    `clusters` blocks were left out in turn, so intervals use Student's t with `clusters` − 1 degrees of freedom.
    `condition` is that of the weighted W_b, `condition_scaled` with columns of unit norm.
    """

    value: Array
    covariance: Array
    covariance_classical: Array
    cancelled: NDArray[np.bool_]
    clusters: int
    condition: float
    condition_scaled: float
    findings: tuple[Finding, ...] = ()

    def with_findings(self, more: Sequence[Finding]) -> Estimate:
        """The same with findings added."""
        return replace(self, findings=self.findings + tuple(more))


@runtime_checkable
class Estimator(Protocol):
    """An estimator sees the base parameters and the information, never a file."""

    name: ClassVar[str]

    def estimate(self, base: BaseParameters, information: Information) -> Estimate: ...
