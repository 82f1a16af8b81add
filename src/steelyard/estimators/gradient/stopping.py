"""Proximity (P1 eq. 23): how far an estimate is from what a motion says, and when recursive estimation may stop."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol, final, runtime_checkable

import numpy as np

from steelyard._arrays import Array
from steelyard.errors import EstimationError
from steelyard.estimators.gradient.update_rules import Seen


@dataclass(frozen=True, eq=False)
class Proximity:
    """The proximity function summed over a motion,  PRX(P̂) = Σ Wᵀ(W P̂ − τ) = (Σ WᵀW) P̂ − Σ Wᵀτ.

    (23) has + in the place of −: with u = Ψ P̂ that is 2Ψᵀu, which is not zero at the truth. At a single sample with
    the right sign it is n equations for b unknowns, and next to nothing at rest: only a whole motion can say that P̂ is
    right. gram is Σ WᵀW (b, b), moment Σ Wᵀτ (b,), from `rows` samples.
    """

    gram: Array
    moment: Array
    rows: int = 0

    @staticmethod
    def empty(count: int) -> Proximity:
        return Proximity(np.zeros((count, count)), np.zeros(count))

    def add(self, seen: Seen) -> Proximity:
        """With one more sample."""
        gram, moment = self.gram + seen.w.T @ seen.w, self.moment + seen.w.T @ seen.tau
        return replace(self, gram=gram, moment=moment, rows=self.rows + 1)

    def at(self, theta: Array) -> Array:
        """PRX (b,) of an estimate: zero exactly at the motion's least squares."""
        return self.gram @ theta - self.moment

    def relative(self, theta: Array) -> float:
        """‖PRX‖ / ‖Σ Wᵀτ‖: 1 for an estimate of zero. Infinite where the motion has no torque that its columns show."""
        size = float(np.linalg.norm(self.moment))
        return float(np.linalg.norm(self.at(theta))) / size if size > 0.0 else np.inf

    def excitation(self, scale: Array | None = None) -> float:
        """Least eigenvalue of Σ WᵀW, in the units of P̂ or of the sizes `scale` (b,) of its entries: the square sum of
        the torques that a change by one in the least visible direction makes [(N·m)²]."""
        gram = self.gram if scale is None else self.gram * np.outer(scale, scale)
        return max(float(np.linalg.eigvalsh(gram)[0]), 0.0)


def printed_proximity(theta: Array, seen: Seen) -> Array:
    """(23) as printed, ΨᵀΨ P̂ + Ψᵀu at one sample."""
    psi = seen.w if seen.psi is None else seen.psi
    return psi.T @ (psi @ theta) + psi.T @ seen.tau


def sample_proximity(theta: Array, seen: Seen) -> Array:
    """(23) at one sample with the right sign and the measured acceleration: Wᵀ(W P̂ − u)."""
    return seen.w.T @ (seen.w @ theta - seen.tau)


class StoppingVerdict(NamedTuple):
    """What a motion said of the estimate after it: relative proximity, relative change over the motion, excitation, and
    whether each was good enough."""

    proximity: float
    change: float
    excitation: float
    near: bool
    settled: bool
    excited: bool

    @property
    def stops(self) -> bool:
        return self.near and self.settled and self.excited

    def __str__(self) -> str:
        parts = [
            f"proximity {self.proximity:.2g}{'' if self.near else ' (too far)'}",
            f"change {self.change:.2g}{'' if self.settled else ' (still moving)'}",
            f"excitation {self.excitation:.2g}{'' if self.excited else ' (too little)'}",
        ]
        return ", ".join(parts)


@runtime_checkable
class Stop(Protocol):
    """What recursive estimation asks of a stopping rule: is it enough, at a sample and after a motion."""

    def at_sample(self, theta: Array, seen: Seen) -> bool: ...

    def after_motion(self, theta: Array, before: Array, motion: Proximity) -> StoppingVerdict: ...


@final
@dataclass(frozen=True, eq=False)
class StoppingRule:
    """Enough when, over a whole motion, the estimate agrees with it, no longer moves, and the motion could tell:

    ‖Σ Wᵀ(W P̂ − τ)‖ ≤ max(ε₁ ‖Σ Wᵀτ‖, noise)   and   ‖P̂ − P̂_before‖ ≤ ε₂ ‖P̂‖   and   λ_min(Σ WᵀW) > excitation

    P1 declares ε₁ and ε₂ and uses neither. `scale` (b,) are sizes of the parameters, which make the excitation [(N·m)²]
    independent of their units; `noise` is a proximity that cannot be told from zero.
    """

    eps1: float = 1e-3
    eps2: float = 1e-3
    excitation: float = 1.0
    scale: Array | None = None
    noise: float = 0.0

    def __post_init__(self) -> None:
        for name in ("eps1", "eps2"):
            if not 0.0 < getattr(self, name) < 1.0:
                raise EstimationError(f"{name} must lie between 0 and 1, not {getattr(self, name)!r}.")
        for name in ("excitation", "noise"):
            if not 0.0 <= getattr(self, name) < np.inf:
                raise EstimationError(f"{name} must be zero or positive, not {getattr(self, name)!r}.")

    def at_sample(self, theta: Array, seen: Seen) -> bool:
        """Never: one sample cannot tell."""
        return False

    def after_motion(self, theta: Array, before: Array, motion: Proximity) -> StoppingVerdict:
        proximity, excitation = motion.relative(theta), motion.excitation(self.scale)
        size = float(np.linalg.norm(theta))
        change = float(np.linalg.norm(theta - before)) / size if size > 0.0 else np.inf
        near = proximity <= self.eps1 or bool(np.linalg.norm(motion.at(theta)) < self.noise)
        return StoppingVerdict(proximity, change, excitation, near, change <= self.eps2, excitation > self.excitation)


@final
@dataclass(frozen=True)
class PublishedStop:
    """P1's rule (25), PRX = 0 at a sample, to a tolerance: to show what it does, not to be used.

    With the printed sign it holds nowhere but at rest, not even at the truth; with the right one (`corrected`) at the
    truth, and at rest whatever the estimate is.
    """

    tolerance: float = 1e-6
    corrected: bool = False

    def at_sample(self, theta: Array, seen: Seen) -> bool:
        value = sample_proximity(theta, seen) if self.corrected else printed_proximity(theta, seen)
        return bool(np.linalg.norm(value) <= self.tolerance)

    def after_motion(self, theta: Array, before: Array, motion: Proximity) -> StoppingVerdict:
        """Never: the rule looks at samples."""
        return StoppingVerdict(motion.relative(theta), np.nan, motion.excitation(), False, False, False)
