"""Criteria of a motion: functions of the information matrix F of the base parameters, with their gradients.

F = Σ_j Σ_s w_s,j w_s,jᵀ / σ_j² over the rows w of W in base columns; its inverse C is the expected covariance.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple, Protocol, final

import numpy as np
from scipy.linalg import get_lapack_funcs

from steelyard._arrays import Array
from steelyard.errors import EstimationError, ModelError, choices
from steelyard.model.base_parameters import BaseParameters
from steelyard.model.model import Model
from steelyard.motion.bounds import MotionLimits

_factorised, _inverted = get_lapack_funcs(("potrf", "potri"), dtype=np.float64)
# Number of states over which the effect of a parameter is averaged.
_STATES = 2000


class CriterionValue(NamedTuple):
    """value: the reported criterion; objective: the minimised function; slope G (b, b) = ∂objective/∂F, symmetric."""

    value: float
    objective: float
    slope: Array


class Criterion(Protocol):
    """A frozen set of options that becomes a function of F for the base parameters and nominal values of a model."""

    name: ClassVar[str]

    def bound(self, base: BaseParameters, theta: Array | None) -> Callable[[Array], CriterionValue]:
        """The score of an information matrix F (b, b); infinite where F is singular to rounding."""
        ...


@final
@dataclass(frozen=True)
class DOptimal:
    """log det C / 2b: the logarithm of the geometric mean of the half-axes of the confidence ellipsoid.

    With `parameters`, the same for these only, with all others unknown: log det C_SS / 2|S|. A value smaller by 0.7
    means half-axes half as long. Other units only add a constant.
    """

    parameters: Sequence[str] = ()
    name: ClassVar[str] = "d-optimal"

    def __post_init__(self) -> None:
        object.__setattr__(self, "parameters", tuple(self.parameters))

    def bound(self, base: BaseParameters, theta: Array | None) -> Callable[[Array], CriterionValue]:
        chosen = _indices(base, self.parameters)

        def score(f: Array) -> CriterionValue:
            found = _inverse(f)
            if found is None:
                return _singular(f)
            c, log_det = found
            if not self.parameters:
                value = -0.5 * log_det / len(f)
                return CriterionValue(value, value, -0.5 / len(f) * c)
            part = c[:, chosen]
            sign, size = np.linalg.slogdet(part[chosen])
            if sign <= 0.0:
                return _singular(f)
            value = 0.5 * float(size) / len(chosen)
            return CriterionValue(value, value, -0.5 / len(chosen) * part @ np.linalg.solve(part[chosen], part.T))

        return score


@final
@dataclass(frozen=True)
class ConditionNumber:
    """Condition number of W / σ with columns scaled to unit norm (Gautier and Khalil 1992).

    S = D F D with unit diagonal; value = √(λ_max / λ_min). A repeated eigenvalue has no gradient, so the minimised
    function is  log(tr Sᵖ tr S⁻ᵖ) / 2p ≥ log value,  which is close to it for a large `sharpness` p.
    """

    sharpness: float = 6.0
    name: ClassVar[str] = "condition"

    def __post_init__(self) -> None:
        if not 1.0 <= self.sharpness <= 50.0:
            raise ValueError(f"sharpness of criterion '{self.name}' must be between 1 and 50, not {self.sharpness!r}.")

    def bound(self, base: BaseParameters, theta: Array | None) -> Callable[[Array], CriterionValue]:
        p = self.sharpness

        def score(f: Array) -> CriterionValue:
            scale = _scale(f)
            if scale is None:
                return _singular(f)
            s = f * np.outer(scale, scale)
            size, axes = np.linalg.eigh(s)
            if size[0] <= len(f) * np.finfo(float).eps * size[-1]:
                return _singular(f)
            high, low = (size / size[-1]) ** p, (size[0] / size) ** p
            value = float(np.sqrt(size[-1] / size[0]))
            objective = float(np.log(value) + np.log(high.sum() * low.sum()) / (2.0 * p))
            slope = (axes * (0.5 / size * (high / high.sum() - low / low.sum()))) @ axes.T
            # S = D F D: through F itself, and through the diagonal of F in D
            slope = slope * np.outer(scale, scale)
            slope[np.diag_indices(len(f))] -= np.einsum("ij,ij->i", slope, f) * scale**2
            return CriterionValue(value, objective, slope)

        return score


@final
@dataclass(frozen=True)
class DeviationTargets:
    """Target σ for chosen parameters: the power mean of σ_k / target_k over those named, p = `sharpness`.

    `relative` {base parameter: fraction of its nominal value}, `absolute` {base parameter: σ in its own unit}. The
    value is (mean of (σ_k / target_k)ᵖ)^(1/p): at most 1 once they are met on average; a large p weights the worst
    only.
    """

    relative: Mapping[str, float] = field(default_factory=dict)
    absolute: Mapping[str, float] = field(default_factory=dict)
    sharpness: float = 4.0
    name: ClassVar[str] = "targets"

    def __post_init__(self) -> None:
        targets = [*self.relative.values(), *self.absolute.values()]
        if not targets or not all(np.isfinite(x) and x > 0.0 for x in targets):
            raise ValueError("Give a positive target for at least one parameter, e.g. relative={'link3.MX': 0.05}.")
        if not 1.0 <= self.sharpness <= 50.0:
            raise ValueError(f"sharpness of criterion '{self.name}' must be between 1 and 50, not {self.sharpness!r}.")

    def targets(self, base: BaseParameters, theta: Array | None) -> dict[str, float]:
        """Target σ of every parameter named, in its own unit."""
        _indices(base, [*self.relative, *self.absolute])
        if self.relative and theta is None:
            raise ModelError(
                "Relative targets need nominal values, and the robot file gives none: pass theta, or give absolute "
                "targets."
            )
        out = dict(self.absolute)
        for name, share in self.relative.items():
            assert theta is not None
            value = float(base.map[base.names.index(name)] @ theta)
            if value == 0.0:
                raise ModelError(
                    f"The nominal value of {name} is zero, so a relative target has no meaning. Give an absolute σ."
                )
            out[name] = share * abs(value)
        return out

    def bound(self, base: BaseParameters, theta: Array | None) -> Callable[[Array], CriterionValue]:
        wanted, p = self.targets(base, theta), self.sharpness
        chosen = _indices(base, wanted)
        target = np.array(list(wanted.values()))

        def score(f: Array) -> CriterionValue:
            c = covariance(f)
            if c is None:
                return _singular(f)
            variance = np.diagonal(c)[chosen]
            ratio = np.sqrt(variance) / target
            worst = ratio.max()
            power = (ratio / worst) ** p
            objective = float(np.log(worst) + np.log(power.mean()) / p)
            part = c[:, chosen]
            slope = -(part * (0.5 * power / power.sum() / variance)) @ part.T
            return CriterionValue(float(np.exp(objective)), objective, slope)

        return score


CRITERIA: dict[str, type[Criterion]] = {c.name: c for c in (DOptimal, ConditionNumber, DeviationTargets)}


def deviation_scale(
    model: Model,
    base: BaseParameters,
    limits: MotionLimits,
    effort: Array,
    theta: Array | None = None,
    share: float = 0.05,
) -> Array:
    """Scale of every base parameter for relative σ, (b,) in its own unit.

        scale_k = max(|value_k|, floor_k),   floor_k = share · min_j  effort_j / rms(W_jk)

    A relative σ is not meaningful for a value of zero or of little effect. The floor is the value that causes the
    fraction `share` of the effort of the joint that it affects most; the rms is over states drawn from the full limits,
    so that it does not depend on any motion. effort (n,) is the root mean square of the joints' efforts in earlier logs
    (`Known.effort`); values are those of θ (C,), none without it.
    """
    u = np.random.default_rng(0).uniform(-1.0, 1.0, (3, model.robot.dof, _STATES))
    middle, half = 0.5 * (limits.lower + limits.upper), 0.5 * (limits.upper - limits.lower)
    # a rate without a limit is taken as half of the range per second
    rates = (np.where(np.isfinite(x), x, half) for x in (limits.velocity, limits.acceleration))
    q, v, a = (x[:, None] * part for x, part in zip((half, *rates), u, strict=True))
    size = np.sqrt(np.mean(model.regressor(middle[:, None] + q, v, a)[:, list(base.kept)] ** 2, axis=2))
    with np.errstate(divide="ignore"):
        floor = share * np.min(np.where(size > 0.0, effort[:, None] / size, np.inf), axis=0)
    return floor if theta is None else np.maximum(floor, np.abs(base.map @ theta))


def covariance(f: Array) -> Array | None:
    """C = F⁻¹; None where F is singular to rounding."""
    found = _inverse(f)
    return None if found is None else found[0]


def _inverse(f: Array) -> tuple[Array, float] | None:
    """F⁻¹ and log det F by a Cholesky factorisation of F with unit diagonal.

    LAPACK is called directly: the overhead of SciPy takes longer than the work.
    """
    scale = _scale(f)
    if scale is None:
        return None
    # the transpose of a symmetric matrix has the memory layout that LAPACK needs
    factor, failed = _factorised((f * np.outer(scale, scale)).T, overwrite_a=True, clean=False)
    diagonal = np.diagonal(factor)
    if failed or diagonal.min() ** 2 <= len(f) * np.finfo(float).eps:
        return None
    log_det = 2.0 * float(np.sum(np.log(diagonal / scale)))
    inverse, _ = _inverted(factor, overwrite_c=True)
    upper = np.triu(inverse)
    upper += np.triu(upper, 1).T
    return upper * np.outer(scale, scale), log_det


def _scale(f: Array) -> Array | None:
    diagonal = np.diagonal(f)
    if not np.all(np.isfinite(f)) or diagonal.min() <= 0.0:
        return None
    return 1.0 / np.sqrt(diagonal)


def _singular(f: Array) -> CriterionValue:
    return CriterionValue(np.inf, np.inf, np.zeros_like(f))


def _indices(base: BaseParameters, names: Sequence[str] | Mapping[str, float]) -> list[int]:
    """Indices of base parameters by name; raises an error that explains an unknown name."""
    for name in names:
        if name in base.names:
            continue
        if name in base.layout:
            column = base.layout.index(name)
            groups = [base.names[k] for k in np.flatnonzero(base.map[:, column])]
            why = (
                f"it is identifiable only as part of {', '.join(groups[:5])}: give one of these"
                if groups
                else "it has no effect on any torque"
            )
            raise EstimationError(f"{name} cannot be identified by any motion: {why}.")
        raise EstimationError(choices("base parameter", name, base.names))
    return [base.names.index(name) for name in names]
