"""Update rules of recursive estimation: one iteration of P1, from an estimate and one measurement to the next estimate.

A rule is a frozen set of options with one method and is independent of robots: it works on rows from any source, a
running experiment (`adaptive`) or blocks of a recorded log (the estimator `recursive`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol, final, runtime_checkable

import numpy as np

from steelyard._arrays import Array
from steelyard.errors import EstimationError, choices

INERTIAS = ("estimate", "truth")


class Seen(NamedTuple):
    """Input of an iteration. The torque's rows are w (n, b) at the measured acceleration, τ (n,) = W P + noise.

    A closed loop with the control (21) also has
    psi (n, b)       the rows Ψ = W(q, q̇, q̈*) at the requested acceleration (22), so that τ = Ψ P̂
    eta (n,)         η = q̈ − q̈*, the error of the acceleration (20)
    least            smallest eigenvalue σ_D of the inertia matrix D(q, P̂) [kg·m²]
    least_true       the same of the true D(q, P), known only in simulation
    """

    w: Array
    tau: Array
    psi: Array | None = None
    eta: Array | None = None
    least: float = np.nan
    least_true: float = np.nan


@runtime_checkable
class UpdateRule(Protocol):
    """Interface of an update rule. Options are the fields of a frozen dataclass."""

    name: ClassVar[str]

    def step(self, theta: Array, seen: Seen) -> Array:
        """The next estimate (b,)."""
        ...


@final
@dataclass(frozen=True)
class Published:
    """P1's update as printed:  P̂⁺ = P̂ − λ σ_D Ψᵀη / ‖Ψ‖²,   ‖Ψ‖² = Sp(ΨΨᵀ)   (24).

    D(q, P) η = Ψ (P̂ − P), so ‖P̂ − P‖ never grows if 0 < λ σ_D < 2 λ_min(D(q, P)): a bound on the *true* inertia. The
    paper takes σ_D from the estimate, which does not guarantee this, and is negative where D(q, P̂) is indefinite.
    `inertia` = "truth" takes it from the plant, in simulations. The step is unbounded where Ψ goes to zero, at rest.
    """

    gain: float = 1.0
    inertia: str = "estimate"
    name: ClassVar[str] = "published"

    def __post_init__(self) -> None:
        _check_gain(self.gain)
        if self.inertia not in INERTIAS:
            raise EstimationError(choices("inertia", self.inertia, INERTIAS))

    def step(self, theta: Array, seen: Seen) -> Array:
        if seen.psi is None or seen.eta is None:
            raise EstimationError(
                "The published update needs η of a loop controlled with the estimate (20), (21): use it in "
                "`adaptive_experiment`, and Normalised on recorded rows."
            )
        sigma = seen.least if self.inertia == "estimate" else seen.least_true
        size = float(np.sum(seen.psi**2))
        # Ψ = 0 to the bit has PRX = 0, for which the paper sets λ = 0
        return theta - self.gain * sigma / size * (seen.psi.T @ seen.eta) if size > 0.0 else theta


@final
@dataclass(frozen=True)
class Normalised:
    """The normalised gradient on the torque residual:  P̂⁺ = P̂ − λ Wᵀ(W P̂ − τ) / (ε + ‖W‖²),   0 < λ < 2.

    In the loop of (21) the residual W P̂ − τ is D(q, P̂) η. Without noise ‖P̂ − P‖ never grows, for any D(q, P̂). The
    `floor` ε [SI, as ‖W‖²] keeps noise from being divided by zero where W goes to zero, at rest.
    """

    gain: float = 1.0
    floor: float = 0.0
    name: ClassVar[str] = "normalised"

    def __post_init__(self) -> None:
        _check_gain(self.gain)
        if not 0.0 <= self.floor < np.inf:
            raise EstimationError(f"floor must be zero or positive, not {self.floor!r}.")

    def step(self, theta: Array, seen: Seen) -> Array:
        size = self.floor + float(np.sum(seen.w**2))
        # rows of zeros carry no information, and without a floor this avoids 0/0
        return theta - self.gain / size * (seen.w.T @ (seen.w @ theta - seen.tau)) if size > 0.0 else theta


@final
@dataclass(frozen=True)
class Gradient:
    """The gradient step with a stated length:  P̂⁺ = P̂ − ρ Wᵀ(W P̂ − τ)   (5), 0 < ρ < 2 / ‖W‖²."""

    rate: float
    name: ClassVar[str] = "gradient"

    def __post_init__(self) -> None:
        if not 0.0 < self.rate < np.inf:
            raise EstimationError(f"rate must be positive, not {self.rate!r}.")

    def step(self, theta: Array, seen: Seen) -> Array:
        return theta - self.rate * (seen.w.T @ (seen.w @ theta - seen.tau))


@final
@dataclass(frozen=True, eq=False)
class ParameterBounds:
    """The bounded space Ω (8) of the parameters: lower ≤ P̂ ≤ upper, (b,) each, infinite where no bound is known. An
    estimate outside is projected onto the nearest point, which does not increase its distance from the truth if the
    truth is inside."""

    lower: Array
    upper: Array

    def __post_init__(self) -> None:
        lower, upper = np.array(self.lower, float), np.array(self.upper, float)
        if lower.shape != upper.shape or lower.ndim != 1 or not np.all(lower <= upper):
            raise EstimationError(
                f"Bounds must be two vectors with lower ≤ upper, not {self.lower!r} and {self.upper!r}."
            )
        for name, bound in (("lower", lower), ("upper", upper)):
            bound.flags.writeable = False
            object.__setattr__(self, name, bound)

    def project(self, theta: Array) -> Array:
        return np.clip(theta, self.lower, self.upper)


def follow(rule: UpdateRule, start: Array, seen: Iterable[Seen], box: ParameterBounds | None = None) -> Iterator[Array]:
    """The estimates (b,) after every iteration, as the rows arrive."""
    theta = np.array(start, float)
    for rows in seen:
        theta = rule.step(theta, rows)
        if box is not None:
            theta = box.project(theta)
        yield theta


def closed_form(seen: Iterable[Seen]) -> Array:
    """P = G⁺ u (17)–(19) with the stacked rows of several samples, G (N·n, b) and the applied torque u = G* P̂.

    One sample never suffices: G has n rows for b > n parameters. Raises an error where the columns are linearly
    dependent.
    """
    rows = list(seen)
    w, tau = np.concatenate([s.w for s in rows]), np.concatenate([s.tau for s in rows])
    scale = np.linalg.norm(w, axis=0)
    scale[scale == 0.0] = 1.0
    theta, _, rank, _ = np.linalg.lstsq(w / scale, tau, rcond=1e-9)
    if rank < w.shape[1]:
        raise EstimationError(
            f"{len(rows)} samples determine {rank} of {w.shape[1]} parameters: the columns of G are linearly dependent "
            "and the inverse in (19) does not exist. Use more samples of a richer motion."
        )
    return theta / scale


def _check_gain(gain: float) -> None:
    if not 0.0 < gain < 2.0:
        raise EstimationError(f"The gain λ must be between 0 and 2 for the steps to converge, not {gain!r}.")
