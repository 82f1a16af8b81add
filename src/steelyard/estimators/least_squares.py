"""Least squares on triangles, with error bars that hold for correlated residuals."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from steelyard._arrays import Array
from steelyard.errors import EstimationError
from steelyard.estimators.estimator import Estimate, Refit
from steelyard.findings import Finding
from steelyard.model.base_parameters import BaseParameters, independent_columns
from steelyard.regression.information import Information, stacked, triangular
from steelyard.regression.statistics import jackknife_covariance

# A column closer than this (sine of the angle) to the span of the others was not excited by the motion.
DATA_TOLERANCE = 1e-6
# Ten to twenty clusters suffice for coverage (t with G − 1 degrees of freedom); with fewer, each is longer and contains
# more of the correlation.
CLUSTERS = 12
FEWEST_CLUSTERS = 5
# Leaving out phases of a periodic motion must give wider error bars than leaving out periods of time by this factor
# (median over the parameters) before an error of the model is assumed to repeat itself.
REPEATED_ERROR = 1.2
# ... or by the first factor for more than the second fraction of the parameters.
FAR_LARGER, A_TENTH = 2.0, 0.1
# A group of rows that holds all but this fraction of the information on a direction holds all of it.
LEAST_LEFT = 1e-6


def joint_deviations(information: Information, base: BaseParameters) -> Array:
    """σ_j (n,) of each joint's own least squares, σ_j² = ‖y_j − W_j χ̂_j‖² / (r_j − b_j)  (P0 §III).

    A joint with no more rows than parameters of its own gets the same σ_j relative to its effort as the other joints in
    the median: it hardly moved, and must not refuse the fit of all. Joints without rows get NaN.
    """
    sigma, effort = np.full((2, len(information.joints)), np.nan)
    short = ""
    for j, triangle in enumerate(information.joint_triangles):
        if not triangle.rows:
            continue
        own = [k for k, c in enumerate(information.columns[j]) if c in base.kept]
        w, y = triangle.r[:, own], triangle.r[:, len(information.columns[j])]
        effort[j] = np.linalg.norm(y) / np.sqrt(triangle.rows)
        w = w[:, list(independent_columns(w, DATA_TOLERANCE).kept)]
        freedom = triangle.rows - w.shape[1]
        if freedom <= 0:
            short = short or f"{information.joints[j]} has {triangle.rows} rows for {w.shape[1]} parameters of its own"
            continue
        rest = y - w @ np.linalg.lstsq(w, y, rcond=None)[0]
        sigma[j] = np.linalg.norm(rest) / np.sqrt(freedom)
    if short:
        if not np.any(np.isfinite(sigma)):
            raise EstimationError(
                f"{short}, and no joint has more rows than parameters: the log is too short. Record longer, decimate "
                "less, or remove terms."
            )
        sigma = np.where(np.isnan(sigma), effort * np.nanmedian(sigma / np.maximum(effort, 1e-300)), sigma)
    # a joint that fits within rounding must not get an infinite weight: the rounding of the largest effort bounds every
    # σ
    sizes = effort[np.isfinite(effort)]
    if not len(sizes):
        raise EstimationError("No rows are left to fit. Record longer, or leave out fewer of them.")
    return np.maximum(sigma, max(1e-14 * max(sizes), 1e-300))


def solve(
    information: Information,
    base: BaseParameters,
    weights: Array,
    *,
    cancelled: NDArray[np.bool_] | None = None,
    prior: Array | None = None,
    phases: bool = True,
) -> Estimate:
    """θ̂ = argmin Σ_j w_j² ‖y_j − W_j θ‖² (+ ‖p − Pθ‖²) with classical and leave-one-block-out covariances.

    With fewer than FEWEST_CLUSTERS clusters there is no robust covariance (NaN).

    classical (P0 eq. 11):   C = σ̂² (WᵀW)⁻¹,  σ̂² = ‖ρ‖² / (r − b)
    CR3:                     C = (G − 1)/G Σ_g (θ̂₍g₎ − θ̂)(θ̂₍g₎ − θ̂)ᵀ,  θ̂₍g₎ from all rows but cluster g.
    A cluster is a stretch of time across all joints, so it contains the correlation in time and between joints.

    If the motion repeats itself, an error of the model does so too, and no block of time that is left out shows it.
    With `phases`, blocks of one phase in all periods are left out as well if their scores show such an error
    (`adjusted_scores`), and σ is the larger of the two.

    `cancelled` (b,) parameters are held at zero (essential parameters); `prior` (k, b + 1) holds rows [P | p] in units
    of their standard deviation, which enter every fit and are never left out.
    """
    rows = int(information.rows().sum())
    weights = np.where(np.isfinite(weights), weights, 0.0)
    columns = np.array(base.kept)
    held = np.zeros(len(columns), bool) if cancelled is None else cancelled
    extra = np.zeros((0, len(columns) + 1)) if prior is None else prior
    whole = triangular(np.concatenate([stacked(information, columns, weights), extra]))
    if not np.all(np.isfinite(whole)):
        raise EstimationError(
            "Numerical overflow: positions or efforts are implausibly large. Check units, ratio and gain."
        )
    free = np.flatnonzero(~held)
    excited = np.zeros(len(columns), bool)
    excited[free[list(independent_columns(whole[:, free], DATA_TOLERANCE).kept)]] = True
    used = columns[excited]
    if rows + len(extra) <= len(used):
        raise EstimationError(
            f"{rows} rows are too few for {len(used)} base parameters: the log is too short. Record longer or decimate "
            "less."
        )
    extra = extra[:, [*np.flatnonzero(excited), -1]]
    r = triangular(np.concatenate([stacked(information, used, weights), extra]))
    w, y = r[: len(used), :-1], r[: len(used), -1]
    theta = solve_triangular(w, y)
    variance = r[-1, -1] ** 2 / (rows + len(extra) - len(used)) if len(r) > len(used) else 0.0
    inverse = solve_triangular(w, np.eye(len(used)))
    classical = variance * inverse @ inverse.T
    groups = information.clusters(CLUSTERS)
    parts = [stacked(information, used, weights, g) for g in groups]
    robust, one_cluster = _leave_one_out(parts, theta, extra)
    findings = excitation_findings(base, excited | held) + cluster_findings(base, used, one_cluster, len(groups))
    by_phase = information.phases(CLUSTERS, FEWEST_CLUSTERS) if phases and robust is not None else ()
    if robust is not None and len(by_phase) >= FEWEST_CLUSTERS:
        parts = [stacked(information, used, weights, g) for g in by_phase]
        ratio = deviation_ratios(adjusted_scores(parts, theta, w), robust)
        if beyond_noise(ratio):
            left_out, _ = _leave_one_out(parts, theta, extra)
            robust = robust if left_out is None else wider(robust, left_out)
            findings += repetition_findings(information, ratio)
    scale = np.linalg.norm(w, axis=0)
    return Estimate(
        np.where(held, 0.0, spread(theta, excited)),
        spread(robust if robust is not None else np.full_like(classical, np.nan), excited),
        spread(classical, excited),
        held,
        len(groups) if robust is not None else 0,
        float(np.linalg.cond(w)),
        float(np.linalg.cond(w / scale)),
        findings,
        refit=refit(weights, excited, held, extra),
    )


def refit(
    weights: Array, excited: NDArray[np.bool_], held: NDArray[np.bool_] | None = None, extra: Array | None = None
) -> Refit:
    """Least squares over the same `excited` (b,) parameters; `extra` are the rows of a prior over these."""
    used = np.append(excited, True)

    def values(rows: Array) -> Array:
        own = rows[:, used] if extra is None else np.concatenate([rows[:, used], extra])
        scale = np.linalg.norm(own[:, :-1], axis=0)
        scale[scale == 0.0] = 1.0
        theta = np.linalg.lstsq(own[:, :-1] / scale, own[:, -1], rcond=DATA_TOLERANCE)[0] / scale
        return np.where(False if held is None else held, 0.0, spread(theta, excited))

    return Refit(np.where(np.isfinite(weights), weights, 0.0), values)


def _leave_one_out(parts: Sequence[Array], theta: Array, extra: Array) -> tuple[Array | None, NDArray[np.bool_]]:
    """CR3 covariance from the clusters' triangles, and the parameters that depend on a single cluster.

    The sum of all clusters but g comes from running sums from both ends: 3 G small factorisations. The `extra` rows of
    a prior stay in every one.
    """
    count = len(parts)
    one_cluster = np.zeros(len(theta), bool)
    if count < FEWEST_CLUSTERS:
        return None, one_cluster
    before, after = [extra], [extra[:0]]
    for part, mirror in zip(parts[:-1], reversed(parts[1:]), strict=True):
        before.append(triangular(np.concatenate([before[-1], part])))
        after.append(triangular(np.concatenate([after[-1], mirror])))
    after.reverse()
    changes = []
    for left, right in zip(before, after, strict=True):
        r = triangular(np.concatenate([left, right]))
        w, y = r[: len(theta), :-1], r[: len(theta), -1]
        norms = np.linalg.norm(w, axis=0)
        if len(w) < len(theta) or np.any(np.abs(np.diagonal(w)) <= DATA_TOLERANCE * norms):
            one_cluster[list(independent_columns(w, DATA_TOLERANCE).dropped)] = True
            changes.append(np.linalg.lstsq(w, y - w @ theta, rcond=DATA_TOLERANCE)[0])
        else:
            changes.append(solve_triangular(w, y) - theta)
    covariance = jackknife_covariance(np.array(changes))
    covariance[one_cluster, :] = np.nan
    covariance[:, one_cluster] = np.nan
    return covariance, one_cluster


def adjusted_scores(parts: Sequence[Array], theta: Array, w: Array) -> Array:
    """CR2 covariance from the triangles [W_g | y_g] of groups of rows, with the triangle w of all rows (A = wᵀw):

        C = Σ_g d_g d_gᵀ,   d_g = A^(−½) (1 − M_g)^(−½) u_g,   M_g = A^(−½) W_gᵀW_g A^(−½),   u_g = A^(−½) W_gᵀ e_g

    Unbiased for independent rows, and so a test of them. Leaving out a phase that holds most of the information on a
    direction (CR3) gives too wide error bars there.
    """
    inverse = solve_triangular(w, np.eye(len(theta)))
    out = np.zeros((len(theta), len(theta)))
    for part in parts:
        x = part[:, :-1] @ inverse
        sizes, vectors = np.linalg.eigh(x.T @ x)
        score = vectors.T @ (x.T @ (part[:, -1] - part[:, :-1] @ theta))
        change = inverse @ (vectors @ (score / np.sqrt(np.maximum(1.0 - sizes, LEAST_LEFT))))
        out += np.outer(change, change)
    return out


def deviation_ratios(other: Array, covariance: Array) -> Array:
    """σ'/σ of the parameters that have both."""
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = np.sqrt(np.diagonal(other) / np.diagonal(covariance))
    return ratio[np.isfinite(ratio)]


def beyond_noise(ratio: Array) -> bool:
    """Whether σ'/σ of all parameters is larger than noise makes it: in the median, or far larger for a tenth of them.

    A single ratio scatters by a third, the median by a tenth.
    """
    return len(ratio) > 0 and bool(np.median(ratio) > REPEATED_ERROR or np.mean(ratio > FAR_LARGER) > A_TENTH)


def wider(covariance: Array, other: Array) -> Array:
    """D C D with D_i = max(1, σ'_i/σ_i)."""
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = np.sqrt(np.diagonal(other) / np.diagonal(covariance))
    size = np.where(np.isfinite(ratio), np.maximum(ratio, 1.0), 1.0)
    return size[:, None] * covariance * size


def repetition_findings(information: Information, ratio: Array) -> tuple[Finding, ...]:
    factor = float(np.median(np.maximum(ratio, 1.0)))
    shown = ", ".join(f"{period:.3g} s ('{run}')" for run, period in information.periods.items())
    return (
        Finding(
            "repeating-residual",
            "info",
            f"the motion repeats itself every {shown}, and so does part of the residual: an error of the model, not "
            f"noise. By its phase, σ is {factor:.2g} times as wide as by blocks of time (median)",
            fix="record a motion that does not repeat itself, or add the term that the residual shows",
        ),
    )


def spread(x: Array, excited: NDArray[np.bool_]) -> Array:
    """Values of the excited parameters among all base parameters, NaN elsewhere."""
    out = np.full((len(excited),) * x.ndim, np.nan)
    out[np.ix_(*[np.flatnonzero(excited)] * x.ndim)] = x
    return out


def excitation_findings(base: BaseParameters, excited: NDArray[np.bool_]) -> tuple[Finding, ...]:
    if excited.all():
        return ()
    names = [name for name, yes in zip(base.names, excited, strict=True) if not yes]
    return (
        Finding(
            "not-excited",
            "warning",
            f"this motion excites {int(excited.sum())} of {len(base)} base parameters; it does not determine "
            "separately "
            + ", ".join(names)
            + " (an effect they share with another parameter is attributed to that one)",
            fix="move the joints concerned faster, further and together",
        ),
    )


def cluster_findings(
    base: BaseParameters, used: NDArray[np.int64], one_cluster: NDArray[np.bool_], clusters: int
) -> tuple[Finding, ...]:
    out = []
    if clusters < FEWEST_CLUSTERS:
        out.append(
            Finding(
                "few-blocks",
                "warning",
                f"only {clusters} independent blocks of time: too few for error bars (the classical ones are too "
                "narrow for correlated residuals)",
                fix="record longer",
            )
        )
    if one_cluster.any():
        names = [base.layout.names[c] for c in used[one_cluster]]
        out.append(
            Finding(
                "single-block",
                "warning",
                "determined by a single block of time, so without error bar: " + ", ".join(names),
                fix="repeat the motion that excites them",
            )
        )
    return tuple(out)
