"""Exogeneity: whether the regressor is independent of the noise, as least squares requires (Durbin, Wu, Hausman)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2, t

from steelyard._arrays import Array, single_threaded
from steelyard.errors import EstimationError
from steelyard.findings import Finding
from steelyard.model.base_parameters import BaseParameters
from steelyard.regression.information import Information, stacked, triangular
from steelyard.regression.statistics import holm, jackknife_deviation

SIGNIFICANCE = 0.05
# A bias of half a standard deviation lowers the coverage of a 95 % interval to 92 %; less is not worth a warning.
RELEVANT = 0.5
_FEWEST = 5
# A direction in which the two covariances differ by less than this fraction is not used in the test.
_RANK = 1e-9


class Difference(NamedTuple):
    """A parameter by least squares and by instrumental variables, in its unit: both values, the standard deviation of
    their difference and that of the least squares, and the p-value of no difference after Holm's correction."""

    name: str
    least_squares: float
    instrumental: float
    std: float
    std_least_squares: float
    p_value: float

    @property
    def value(self) -> float:
        return self.least_squares - self.instrumental

    @property
    def in_sigmas(self) -> float:
        """The difference in standard deviations of the least squares."""
        return self.value / self.std_least_squares if self.std_least_squares > 0.0 else 0.0

    def __str__(self) -> str:
        part = f", {self.value / abs(self.instrumental):+.2%}" if self.instrumental else ""
        return f"{self.name} {self.value:+.3g} ({self.in_sigmas:+.2g} σ{part})"


@dataclass(frozen=True)
class Exogeneity:
    """A Durbin–Wu–Hausman test: `p_value` in block form over `clusters` blocks of time, and `p_value_textbook`.

    `differences` holds every parameter that took part, in order.
    """

    differences: tuple[Difference, ...]
    p_value: float
    p_value_textbook: float
    clusters: int
    significance: float = SIGNIFICANCE

    @property
    def rejected(self) -> bool:
        """Whether the two estimates differ significantly."""
        return self.p_value < self.significance

    @property
    def differing(self) -> tuple[Difference, ...]:
        """The parameters that differ significantly, the most significant first."""
        found = [d for d in self.differences if d.p_value < self.significance]
        return tuple(sorted(found, key=lambda d: d.p_value))

    @property
    def matters(self) -> bool:
        """Whether one of these differences is large enough, relative to the error bar, to be reported."""
        return any(abs(d.in_sigmas) >= RELEVANT for d in self.differing)

    @property
    def verdict(self) -> str:
        tests = (
            f"p = {self.p_value:.2g} over {self.clusters} blocks of time; {self.p_value_textbook:.2g} for independent "
            "rows"
        )
        if not self.rejected:
            return f"least squares and instrumental variables agree ({tests}): no evidence against least squares"
        named = ", ".join(str(d) for d in self.differing[:6])
        more = f" and {len(self.differing) - 6} more" if len(self.differing) > 6 else ""
        if self.matters:
            return f"least squares is biased ({tests}). It differs from instrumental variables in {named}{more}"
        return (
            f"least squares and instrumental variables differ significantly ({tests}), but by less than {RELEVANT:g} σ "
            f"of the estimate, so least squares is adequate: {named}{more}"
        )

    def findings(self) -> tuple[Finding, ...]:
        if not self.matters:
            return (Finding("exogenous", "info", self.verdict),)
        return (
            Finding(
                "endogenous",
                "warning",
                f"{self.verdict}: the regressor contains feedback or noise",
                fix="use iv instead of ls or wls, or lower the cut-off frequencies",
            ),
        )


@single_threaded
def durbin_wu_hausman(
    base: BaseParameters,
    both: Information,
    weights: Array,
    clusters: int,
    used: NDArray[np.bool_] | None = None,
    significance: float = SIGNIFICANCE,
) -> Exogeneity:
    """Compare θ̂_LS and θ̂_IV from the same rows, weights and parameters, `both` being `observe(…, instruments=…)`.

    d = θ̂_LS − θ̂_IV has mean zero when the regressor is exogenous. Block form: with d₍g₎ the difference without
    cluster g of G,

        σ_i² = (G − 1)/G Σ_g (d₍g₎ − d)_i²,   t_i = d_i/σ_i on G − 1 degrees of freedom,

    and p is the smallest of the two-sided p_i after Holm's correction. Textbook form: dᵀ (V_IV − V_LS)⁺ d ~ χ² with
    classical covariances, which treat all rows as independent.

    `weights` (n,) are 1/σ_j of the joints, `used` (b,) the parameters that take part (default: all).
    """
    information = both.without_known()
    groups = information.clusters(clusters)
    if len(groups) < _FEWEST:
        raise EstimationError(
            f"Only {len(groups)} blocks of time: the test needs {_FEWEST} to separate bias from chance. Record longer."
        )
    kept = np.array(base.kept) if used is None else np.array(base.kept)[used]
    columns = np.concatenate([len(base.layout) + kept, kept])
    parts = [stacked(information, columns, weights, group) for group in groups]
    whole = triangular(np.concatenate(parts))
    least, instrumental = _both(whole)
    without = [_both(triangular(np.concatenate(parts[:g] + parts[g + 1 :]))) for g in range(len(parts))]
    changes = np.array(without) - np.stack([least, instrumental])
    std, own = jackknife_deviation(changes[:, 0] - changes[:, 1]), jackknife_deviation(changes[:, 0])
    ratio = np.divide(np.abs(least - instrumental), std, out=np.zeros_like(std), where=std > 0.0)
    adjusted = holm(2.0 * t.sf(ratio, len(groups) - 1))
    names = [base.layout.names[c] for c in kept]
    table = np.stack([least, instrumental, std, own, adjusted], axis=1).tolist()
    rows = int(information.rows()[weights > 0].sum())
    return Exogeneity(
        tuple(Difference(name, *row) for name, row in zip(names, table, strict=True)),
        float(adjusted.min(initial=1.0)),
        _textbook(whole, least, instrumental, rows),
        len(groups),
        significance,
    )


def _both(r: Array) -> Array:
    """θ_LS and θ_IV (2, b) from the triangle of [Z W y]."""
    b = (r.shape[1] - 1) // 2
    w, y = r[:, b:-1], r[:, -1]
    size = np.linalg.norm(w, axis=0)
    size[size == 0.0] = 1.0
    least = np.linalg.lstsq(w / size, y, rcond=None)[0] / size
    try:
        return np.asarray([least, np.linalg.solve(r[:b, b:-1], r[:b, -1])], float)
    except np.linalg.LinAlgError:
        raise EstimationError(
            "The simulated motion is not correlated with the measured one in some block of time: check the reference, "
            "or test fewer parameters (ratio)."
        ) from None


def _textbook(r: Array, least: Array, instrumental: Array, rows: int) -> float:
    """p-value of dᵀ (V_IV − V_LS)⁺ d on the rank of the difference, both V with the variance of the instrumental
    residual."""
    b = len(least)
    rest = r[:, -1] - r[:, b:-1] @ instrumental
    variance = float(rest @ rest) / max(rows - b, 1)
    inverse = np.linalg.inv(r[:b, b:-1])
    wide = inverse @ inverse.T
    unit = np.sqrt(np.diagonal(wide))
    narrow = np.linalg.inv(triangular(r[:, b:-1] * unit))
    values, vectors = np.linalg.eigh(wide / np.outer(unit, unit) - narrow @ narrow.T)
    sure = values > _RANK * values.max(initial=0.0)
    parts = vectors[:, sure].T @ ((least - instrumental) / unit)
    if not sure.any() or variance == 0.0:
        return 1.0
    return float(chi2.sf(np.sum(parts**2 / values[sure]) / variance, int(sure.sum())))
