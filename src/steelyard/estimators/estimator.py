"""The contract of an estimator: a frozen dataclass of options that declares its needs and has one method."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from steelyard._arrays import Array
from steelyard.errors import EstimationError, choices
from steelyard.findings import Finding
from steelyard.model.base_parameters import BaseParameters
from steelyard.regression.information import Information
from steelyard.regression.observe import Progress
from steelyard.regression.problem import Problem

# The possible needs of an estimator, see `Estimator`.
GAINS, SIMULATION = "gains", "simulation"
NEEDS = (GAINS, SIMULATION)


@dataclass(frozen=True)
class GainDependence:
    """Dependence of a joint's gain on a payload parameter: σ(gain) would grow by `inflation` without this parameter's
    information."""

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
    dependences: tuple[GainDependence, ...] = ()


# Relative accuracy of efforts: an increase of a relative error below this is reported relative to it.
LEAST_ERROR = 1e-3


@dataclass(frozen=True)
class Certificate:
    """Proof that a standard set is physically consistent, and the increase of the residual that it costs.

    smallest          body → smallest eigenvalue of its pseudo-inertia [SI], computed by numpy; ≥ 0 means that it is
                      consistent, and ≥ −tolerance that it is within the requested `tolerance` [kg·m²]
    boundary          bodies and drive columns on the boundary of the feasible set
    moved_sigma       distance of the base values from the unconstrained ones in the metric of the information, in σ;
                      the truth is expected at a distance of √b
    moved_robust      the same with standard deviations by leave-one-block-out, as in the command `consistency`; None
                      where there are none
    cost              ‖y − Wθ‖ in units of σ_j, relative to that of unconstrained least squares, minus one
    cost_unweighted   the same in N·m | N, as relative errors are; None where not known
    weight            of the prior
    status, iterations   of the solver
    """

    smallest: dict[str, float]
    boundary: tuple[str, ...]
    moved_sigma: float
    cost: float
    weight: float
    status: str
    iterations: int
    cost_unweighted: float | None = None
    tolerance: float = 0.0
    moved_robust: float | None = None

    @property
    def consistent_bodies(self) -> int:
        """Number of consistent bodies, within the tolerance."""
        return sum(x >= -self.tolerance for x in self.smallest.values())

    @property
    def holds(self) -> bool:
        return self.consistent_bodies == len(self.smallest)

    @property
    def bound_text(self) -> str:
        """The lower bound on the eigenvalues of a consistent body, as text."""
        return f"below −{self.tolerance:g}, the tolerance" if self.tolerance else "negative"

    def error_before(self, error: float) -> float:
        """The relative error without constraints, from that with them and `cost_unweighted`."""
        cost = self.cost_unweighted or 0.0
        before = error / (1.0 + cost)
        return before if before >= LEAST_ERROR else max(error - cost * LEAST_ERROR, 0.0)

    @property
    def cost_text(self) -> str:
        """The increase of the residual as text: in units of each joint's σ, as it was fitted, and in N·m | N."""
        plain = "" if self.cost_unweighted is None else f", unweighted {self.cost_unweighted:+.2%}"
        return f"weighted residual {self.cost:+.2%}{plain}"

    def moved_text(self, count: int) -> str:
        """The distance by which `count` base values moved, as text, with the distance expected from noise: √b."""
        robust = "" if self.moved_robust is None else f"; robust σ: {self.moved_robust:.3g}"
        return (
            f"{self.moved_sigma:.3g} classical σ from unconstrained least squares over all {count} base parameters "
            f"together (white noise alone: about √{count} = {np.sqrt(count):.2g}{robust})"
        )


@dataclass(frozen=True)
class Refit:
    """The fit to other rows, with everything kept that was chosen from the data: weights, priors, cancelled parameters.

    weights (n,)   of the joints' rows, zero for joints without rows
    values         base values (b,) from rows [w W | w y] (k, b + 1) over the base columns; NaN where not excited
    information    the rows of the fit where these are not the measured ones, e.g. outliers with less weight
    """

    weights: Array
    values: Callable[[Array], Array]
    information: Information | None = None


@dataclass(frozen=True)
class Estimate:
    """Values of the base parameters and their uncertainty.

    value (b,)        NaN where the data do not excite the parameter, zero where `cancelled` (b,) is true
    covariance (b, b) by leave-one-block-out; `clusters` blocks were left out in turn, so intervals use Student's t with
                      `clusters` − 1 degrees of freedom
    condition         condition number of the weighted W_b; `condition_scaled` with columns of unit norm
    gains             set if the estimator also finds drive gains; the values are then in SI, for any unit of efforts
    standard (C,)     set if the estimator finds a full standard set, chosen by `standard_rule`, with its `certificate`
    refit             how to fit other rows in the same way; None for estimators that simulate
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
    standard: Array | None = None
    standard_rule: str = ""
    certificate: Certificate | None = None
    refit: Refit | None = field(default=None, compare=False, repr=False)

    def with_findings(self, more: Sequence[Finding]) -> Estimate:
        """The estimate with findings added."""
        return replace(self, findings=self.findings + tuple(more))


@runtime_checkable
class Estimator(Protocol):
    """A frozen dataclass of options, all with defaults. It sees the base parameters and the information, never a file.

    name    in project files and on the command line
    needs   its needs in addition to efforts in torque units; the callers provide them
            "gains"       it finds drive gains: rows are those of the motors, and each fold of a cross-validation has
                          a part of every load case
            "simulation"  it simulates the runs: the problem has an experiment, and cross-validation leaves out
                          whole runs

    An estimator without needs gets one effort per row, with the torque of known payloads subtracted. With any need it
    gets all responses, including that torque (`Information.without_known` subtracts it).
    """

    name: ClassVar[str]
    needs: ClassVar[frozenset[str]] = frozenset()

    def estimate(
        self, problem: Problem | None, base: BaseParameters, information: Information, progress: Progress | None = None
    ) -> Estimate:
        """The estimate of the base parameters.

        `information` holds all rows to fit. An estimator without "simulation" among its needs computes from it alone
        and ignores `problem` and `progress`: its callers may have no problem (None). One that simulates raises an
        EstimationError where there is no problem, or one without an experiment (`problem_to_simulate`).
        """
        ...


def options_of(estimator: Estimator) -> dict[str, Any]:
    """The options by name as plain tables, lists and numbers, as in a project file."""

    def plain(x: Any) -> Any:
        if isinstance(x, Mapping):
            return {key: plain(value) for key, value in x.items()}
        if isinstance(x, list | tuple | np.ndarray):
            return [plain(value) for value in x]
        return x.item() if isinstance(x, np.generic) else x

    return plain(asdict(estimator))  # type: ignore[arg-type]


def checked_needs(estimator: Estimator | type[Estimator]) -> frozenset[str]:
    """The declared needs of the estimator; raises an error unless they are a set of known needs."""
    declared = getattr(estimator, "needs", None)
    who = f"Estimator '{getattr(estimator, 'name', estimator)}'"
    if not isinstance(declared, AbstractSet):
        found = "is missing" if declared is None else f"is {declared!r}"
        raise EstimationError(
            f"{who}: the class attribute `needs` {found}. Declare a frozenset of names, empty for an estimator that "
            f"computes from the information alone. Valid: {', '.join(NEEDS)}."
        )
    for need in declared:
        if need not in NEEDS:
            raise EstimationError(f"{who}: " + choices("value in `needs`", str(need), NEEDS))
    return frozenset(declared)


def needs(estimator: Estimator, need: str) -> bool:
    """Whether the estimator declares this need: `GAINS` or `SIMULATION`."""
    return need in checked_needs(estimator)


def problem_to_simulate(estimator: Estimator, problem: Problem | None) -> Problem:
    """The problem, if it has an experiment; raises an error otherwise."""
    if problem is None or problem.experiment is None:
        raise EstimationError(
            f"Estimator '{estimator.name}' simulates the runs again, and the problem does not define how they were "
            "controlled: add an experiment, i.e. references ([channels] reference) and a [controller]."
        )
    return problem


def estimated(
    estimator: Estimator,
    problem: Problem | None,
    base: BaseParameters,
    information: Information,
    progress: Progress | None = None,
) -> Estimate:
    """The estimate from the responses that the estimator needs: all, or efforts minus the torque of known payloads."""
    declared = checked_needs(estimator)
    if SIMULATION in declared:
        problem = problem_to_simulate(estimator, problem)
    return estimator.estimate(problem, base, information if declared else information.without_known(), progress)


def in_torques(information: Information, estimate: Estimate) -> Information:
    """The information with efforts converted to torques by the estimate's gains, if it has any.

    Rows of motors without a gain are left out, because their torque is unknown.
    """
    if estimate.gains is None:
        return information
    factor = estimate.gains.factor
    kept = {key: triangle for key, triangle in information.blocks.items() if np.isfinite(factor[key.joint])}
    return replace(information, blocks=kept).scaled(factor)
