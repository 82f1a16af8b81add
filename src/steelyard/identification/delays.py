"""Delays: the lag of each joint's effort behind its position, to a fraction of a sample, with its error bar."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import BSpline, make_interp_spline
from scipy.stats import f as fisher
from scipy.stats import t as student

from steelyard._arrays import Array, single_threaded
from steelyard.errors import EstimationError
from steelyard.estimators.least_squares import CLUSTERS, DATA_TOLERANCE, FEWEST_CLUSTERS, joint_deviations
from steelyard.findings import Finding
from steelyard.model.base_parameters import BaseParameters, base_parameters, independent_columns
from steelyard.regression.information import BlockKey, Information, Triangle, triangular
from steelyard.regression.observe import Progress, observe
from steelyard.regression.problem import Problem
from steelyard.regression.statistics import jackknife_deviation

# Number of shifted copies of the effort per period of the parallel filter, and their range in periods on either side.
_COPIES, _PERIODS = 8, 1.0
# Degree of the spline between the copies. Up to 1.5 times the cut-off, where the filter ends, it passes all but 1e-5: a
# cubic one loses 0.3 % between copies, and noise alone would draw the delay there.
_DEGREE = 7
# Largest cut-off of the parallel filter while delays are searched, as a fraction of the rate. Above it a copy between
# two samples passes less noise than one at a sample, so that noise alone would look like a delay.
_HIGHEST = 0.25
# A delay of a single joint is significant when its p-value is below this (three standard deviations, if they were known
# exactly).
CHANCE = 2.7e-3
# No delay longer than this many samples, or this many seconds where the log is fast, is corrected: loggers have short
# delays. What looks like a longer one is friction or elasticity that the terms do not model.
BELIEVABLE_SAMPLES, BELIEVABLE_S = 3.0, 5e-3
# But a delay that more than half of the joints show by themselves is the logger's, up to this [s].
LONGEST_SHARED_S = 25e-3
# The plausible delay is this many standard deviations of the delays that are expected before any data.
EXPECTED = 2.5
# Joints share one delay unless the p-value of their agreement is below this and most differ by more than this [s].
ALIKE, CLOSE_S = 0.01, 6e-3
_STEPS = 12


@dataclass(frozen=True)
class Delays:
    """Delay of the effort behind the position for every joint, and one for all of them.

    seconds, std    (n,) [s]; NaN for a joint without rows. Standard deviations leave one block of time out in turn.
    common          one delay for all joints and its standard deviation [s]
    agree           p-value of the differences between the joints if one delay held for all
    blocks          number of stretches of time that were left out in turn
    furthest        [s]: delays beyond this were not searched
    `believable`    [s]: delays beyond this are reported, and not corrected
    """

    joints: tuple[str, ...]
    seconds: Array
    std: Array
    common: float
    common_std: float
    agree: float
    blocks: int
    furthest: float
    believable: float

    @property
    def _sure(self) -> float:
        """Number of σ that makes a delay significant: Student's t, since σ itself comes from few blocks."""
        return float(student.ppf(1.0 - 0.5 * CHANCE, self.blocks - 1))

    @property
    def sure_95(self) -> float:
        """Number of σ of a 95 % interval, by Student's t."""
        return float(student.ppf(0.975, self.blocks - 1))

    @property
    def significant(self) -> tuple[bool, ...]:
        """Joints whose delay differs significantly from zero."""
        return tuple(bool(abs(d) > self._sure * s) for d, s in zip(self.seconds, self.std, strict=True))

    @property
    def doubtful(self) -> tuple[str, ...]:
        """Joints whose delay is significant and too long to be plausible."""
        if any(self.correction) and self._shared:
            return ()
        found = zip(self.joints, self.seconds, self.significant, strict=True)
        return tuple(name for name, d, sure in found if sure and abs(d) > self.believable)

    @property
    def _shared(self) -> bool:
        """Whether one delay holds for all joints: by their error bars, or closely enough for most of those whose own
        delay is plausible. One that is not comes from friction or elasticity, and does not count."""
        apart = np.abs(self.seconds - self.common)[np.abs(self.seconds) <= self.believable]
        return self.agree > ALIKE or bool(len(apart) and np.median(apart) <= CLOSE_S)

    @property
    def _shown_by_most(self) -> bool:
        """Whether more than half of the joints show the common delay by themselves: significant, and within their error
        bars. Friction and elasticity differ from joint to joint."""
        near = np.abs(self.seconds - self.common) <= self._sure * self.std
        same = int(np.sum(near & np.array(self.significant)))
        return same > 1 and 2 * same > int(np.isfinite(self.seconds).sum())

    @property
    def correction(self) -> tuple[float, ...]:
        """Time [s] by which the efforts are read later, (n,): the common delay d, or each joint's own if these differ.

        The common one counts by its certainty, d s²/(s² + σ²) with the s that is expected of loggers: most probable for
        d ~ N(0, s²). Zero beyond what is plausible, unless most joints show it; single joints' delays must be
        significant. One logger is late for
        all joints; differences come from friction, elasticity or a resonance that the model lacks: on 40 simulated
        robots (evidence/generalise.py, seed 20261118) delays of single joints were wrong by 0.8 ms in the median, the
        common one by 0.3 ms.
        """
        if self._shared:
            expected = (self.believable / EXPECTED) ** 2
            late = self.common * expected / (expected + self.common_std**2)
            longest = max(self.believable, LONGEST_SHARED_S) if self._shown_by_most else self.believable
            return (float(late) if abs(self.common) <= longest else 0.0,) * len(self.joints)
        found = zip(self.seconds, self.significant, strict=True)
        return tuple(float(d) if sure and abs(d) <= self.believable else 0.0 for d, sure in found)

    @property
    def _corrected(self) -> str:
        late = ", ".join(f"{1e3 * d:+.2f}" for d in self.correction)
        return f"corrected by [{late}]" if any(self.correction) else "no correction"

    def _shown(self, seconds: float, std: float) -> str:
        """A delay ± σ [ms] as text; a delay at the limit of the search is not an estimate."""
        if not np.isfinite(seconds):
            return "not estimated"
        if abs(seconds) > (1.0 - 1e-6) * self.furthest:
            return f"at the limit of the search ({1e3 * seconds:+.4g})"
        return f"{1e3 * seconds:+.2f} ± {1e3 * std:.2f}"

    def findings(self) -> tuple[Finding, ...]:
        each = zip(self.joints, self.seconds, self.std, strict=True)
        told = ", ".join(f"{name} {self._shown(d, s)}" for name, d, s in each)
        common = self._shown(self.common, self.common_std)
        message = f"delay of the efforts after the positions [ms]: {told}; common {common}; {self._corrected}"
        if not self.doubtful:
            return (Finding("delays", "info", message),)
        limit = f"{1e3 * self.believable:.3g} ms"
        doubt = f"; {', '.join(self.doubtful)}: longer than {limit}, not corrected"
        advice = (
            f"longer than {limit}: check the terms (e.g. 'terms = \"default\"'); set 'delay' in '[prepare]' if the "
            "logger is late"
        )
        return (Finding("delays", "warning", message + doubt, ", ".join(self.doubtful), advice),)


def for_delays(problem: Problem) -> Problem:
    """The problem with the efforts as logged, and a parallel filter in whose band copies of the effort differ by their
    delay alone."""
    if problem.lowpass_hz is None:
        return replace(problem, delay=())
    highest = _HIGHEST * min(run.rate for run in problem.runs)
    return replace(problem, delay=(), lowpass_hz=min(problem.lowpass_hz, highest))


def effort_shifts(problem: Problem) -> tuple[float, ...]:
    """Shifts [s] of the copies of the effort used to find delays: one period of the parallel filter to either side."""
    if problem.lowpass_hz is None:
        raise EstimationError("Delays are estimated after the parallel filter: set lowpass_hz in [prepare].")
    count = round(_PERIODS * _COPIES)
    steps = [k for k in range(-count, count + 1) if k]
    return tuple(k / (_COPIES * problem.lowpass_hz) for k in steps)


@single_threaded
def estimate_delays(
    problem: Problem, information: Information | None = None, progress: Progress | None = None
) -> Delays:
    """Delays d of the efforts, y_j(t + d_j) = W_j(t) θ, from one pass that also keeps shifted copies of the effort.

    θ and d together minimise Σ_j ‖y_j(t + d_j) − W_j θ‖² / σ_j². Between copies y is interpolated by a spline (it
    is low-passed, so it is smooth); Newton's steps start from each joint's best copy, and from the best for all of
    them. Friction must be modelled first: unmodelled friction looks like a delay. `information` must hold the copies of
    `effort_shifts`.
    """
    if information is None:
        problem = for_delays(problem)
    elif any(problem.delay):
        raise EstimationError(
            "Delays are estimated from the efforts as logged: call observe on a problem without delay."
        )
    shifts = effort_shifts(problem)
    if information is None:
        information = observe(problem, progress=progress, shifts=shifts)
    information = information.without_known()
    fit = _Fit(information, base_parameters(problem.model), _Copies.at(shifts), np.ones(len(information.joints)))

    own, shared = np.eye(len(information.joints)), np.ones((len(information.joints), 1))
    start = np.array([fit.best_copy(j) for j in range(len(information.joints))])
    fit = fit.at(start)
    fit = fit.at(fit.refined(fit.unexplained(), start, own))
    every = fit.unexplained()
    found = fit.refined(every, start, own)
    best = fit.copies.places[int(np.argmin(np.linalg.norm(every.sum(axis=0), axis=1)))]
    common = fit.refined(every, np.full(len(start), best), shared)
    groups = information.clusters(CLUSTERS)
    if len(groups) < FEWEST_CLUSTERS:
        raise EstimationError("too few blocks of time for the σ of the delays; record longer.")
    left = [fit.unexplained([time for time in information.times if time not in set(group)]) for group in groups]
    each = np.array([fit.refined(one, found, own) for one in left])
    together = np.array([fit.refined(one, common, shared) for one in left])
    std = jackknife_deviation(each - found)
    found = np.where((std == 0.0) & (found != 0.0), np.nan, found)  # no block moves it: it is not from the data
    known = np.isfinite(found) & (std > 0.0)
    size, others = float(np.sum(((found - common) / std)[known] ** 2)), max(int(known.sum()) - 1, 1)
    return Delays(
        information.joints,
        found,
        std,
        float(common[0]),
        float(jackknife_deviation(together - common)[0]),
        float(fisher.sf(size / others, others, len(groups) - 1)),
        len(groups),
        fit.copies.furthest,
        max(BELIEVABLE_SAMPLES / max(run.rate for run in problem.runs), BELIEVABLE_S),
    )


def at_delays(information: Information, shifts: Sequence[float], seconds: Sequence[float]) -> Information:
    """The information with the efforts read `seconds` (n,) later, interpolated between their copies."""
    copies = _Copies.at(shifts)
    blocks = {}
    for key, triangle in information.blocks.items():
        width = len(information.columns[key.joint])
        efforts = width + len(copies.order)
        y = copies.sorted(triangle.r[:, width:efforts]) @ copies.spline(seconds[key.joint])
        rows = np.column_stack([triangle.r[:, :width], y, triangle.r[:, efforts:]])
        blocks[key] = Triangle.of(rows, triangle.rows)
    responses = (information.responses[0], *information.responses[len(copies.order) :])
    return replace(information, responses=responses, blocks=blocks)


@dataclass(frozen=True)
class _Copies:
    """Interpolation of a response between the shifted copies: weights are a spline of the shift."""

    order: NDArray[np.int64]
    places: Array
    spline: BSpline

    @staticmethod
    def at(shifts: Sequence[float]) -> _Copies:
        places = np.array([0.0, *shifts])
        order = np.argsort(places)
        return _Copies(order, places[order], make_interp_spline(places[order], np.eye(len(order)), _DEGREE))

    def sorted(self, y: Array) -> Array:
        """Copies (rows, R), the effort itself first, in the order of their shifts."""
        return y[:, self.order]

    @property
    def furthest(self) -> float:
        return float(self.places[-1])

    @property
    def spacing(self) -> float:
        return float(self.places[1] - self.places[0])


@dataclass(frozen=True)
class _Fit:
    """The weighted fit of parameters and delays on triangles [W_j | copies of y_j]."""

    information: Information
    base: BaseParameters
    copies: _Copies
    weights: Array

    def at(self, delay: Array) -> _Fit:
        """The fit with weights 1/σ_j of the efforts read `delay` (n,) [s] later, so that the start does not matter."""
        late = np.nan_to_num(delay)
        parts = []
        for triangle, own, seconds in zip(
            self.information.joint_triangles, self.information.columns, late, strict=True
        ):
            y = self.copies.sorted(triangle.r[:, len(own) :]) @ self.copies.spline(seconds)
            parts.append(Triangle(np.column_stack([triangle.r[:, : len(own)], y]), triangle.rows))
        blocks = {BlockKey("all", "all", 0, j): part for j, part in enumerate(parts) if part.rows}
        moved = replace(self.information, responses=self.information.responses[:1], blocks=blocks)
        sigma = np.nan_to_num(joint_deviations(moved, self.base))
        silent = np.array([not part.r[:, -1].any() for part in parts])  # an effort of zero says nothing of a delay
        return replace(self, weights=np.where((sigma > 0.0) & ~silent, 1.0 / np.where(sigma > 0.0, sigma, 1.0), 0.0))

    def _parts(self, times: Sequence[tuple[str, str, int]] | None) -> list[Triangle]:
        every = range(len(self.information.joints))
        if times is None:
            return [self.information.joint_triangles[j] for j in every]
        return [self.information.gathered(j, times) for j in every]

    def best_copy(self, joint: int) -> float:
        """The shift [s] at which the joint's own least squares has the smallest relative residual."""
        triangle = self.information.joint_triangles[joint]
        own = self.information.columns[joint]
        if not triangle.rows:
            return float("nan")
        kept = [k for k, c in enumerate(own) if c in self.base.kept]
        w, y = triangle.r[:, kept], self.copies.sorted(triangle.r[:, len(own) :])
        size = np.linalg.norm(y, axis=0)
        if not size.all():  # an effort of zero has no delay
            return float("nan")
        w = w[:, list(independent_columns(w, DATA_TOLERANCE).kept)]
        rest = y - w @ np.linalg.lstsq(w, y, rcond=None)[0]
        left = np.linalg.norm(rest, axis=0) / size
        return float(self.copies.places[int(np.argmin(left))])

    def unexplained(self, times: Sequence[tuple[str, str, int]] | None = None) -> Array:
        """What the columns leave of the weighted copies of every joint, (n, R, rows): (1 − W W⁺) w_j y_j(t + shift).

        The fit of θ for any delays is then done, and a step towards the best delays works on few rows.
        """
        place = np.full(len(self.base.layout), -1)
        place[list(self.base.kept)] = np.arange(len(self.base))
        count, copies = len(self.information.joints), len(self.copies.order)
        rows = []
        for j, (triangle, own) in enumerate(zip(self._parts(times), self.information.columns, strict=True)):
            kept = np.flatnonzero(place[own] >= 0)
            y = self.copies.sorted(triangle.r[:, len(own) :])
            # reduced to a triangle first, so that all joints together are few rows
            r = self.weights[j] * Triangle.of(np.column_stack([triangle.r[:, kept], y]), triangle.rows).r
            wide = np.zeros((len(r), len(self.base) + count * copies))
            wide[:, place[own[kept]]] = r[:, : len(kept)]
            wide[:, len(self.base) + j * copies :][:, :copies] = r[:, len(kept) :]
            rows.append(wide)
        system = np.concatenate(rows)
        used = list(independent_columns(system[:, : len(self.base)], DATA_TOLERANCE).kept)
        rest = triangular(np.column_stack([system[:, used], system[:, len(self.base) :]]))[len(used) :, len(used) :]
        return rest.T.reshape(count, copies, -1)

    def refined(self, unexplained: Array, start: Array, share: Array) -> Array:
        """Delays (n,) [s] of the least residual, by Newton's steps from `start` along the columns of `share` (n, m).

        With E_j (R, rows) of `unexplained` the residual is Σ_j s(d_j)ᵀ E_j, s(d) the weights of the copies at delay d.
        Its second derivatives are exact: by Gauss-Newton the derivative of the noise would count as that of the motion,
        and steps would be far too short.
        """
        spline, delay = self.copies.spline, np.where(np.isfinite(start), start, 0.0)
        for _ in range(_STEPS):
            at, slope, bend = (np.einsum("jrm,jr->jm", unexplained, spline(delay, order)) for order in range(3))
            rest = at.sum(axis=0)
            curvature = slope @ slope.T + np.diag(bend @ rest)
            step = share @ _downhill(share.T @ curvature @ share, share.T @ slope @ rest)
            step = np.clip(step, -self.copies.spacing, self.copies.spacing)
            delay = np.clip(delay + step, -self.copies.furthest, self.copies.furthest)
            if np.abs(step).max() < 1e-5 * self.copies.spacing:
                break
        return np.where(np.isfinite(start), delay, np.nan)


def _downhill(curvature: Array, slope: Array) -> Array:
    """Newton's step (m,), downhill also where a function bends down, and zero where it is flat.

    Scaled to unit curvature of each variable: joints without noise have many times the weight of others.
    """
    scale = np.sqrt(np.abs(np.diagonal(curvature)))
    scale = np.where(scale > 0.0, scale, 1.0)
    size, way = np.linalg.eigh(curvature / np.outer(scale, scale))
    flat = np.abs(size) <= DATA_TOLERANCE
    along = np.where(flat, 0.0, way.T @ (slope / scale)) / np.where(flat, 1.0, np.abs(size))
    return -(way @ along) / scale
