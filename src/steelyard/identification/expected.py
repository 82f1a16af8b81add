"""The error to expect on other motion: rows predicted by parameters from rows away from them, by guarded folds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from steelyard._arrays import Array
from steelyard.errors import EstimationError
from steelyard.estimators.estimator import GAINS, SIMULATION, Estimate, Estimator, Refit, in_torques, needs
from steelyard.estimators.least_squares import joint_deviations, refit
from steelyard.findings import Finding
from steelyard.identification.term_selection import independent_runs
from steelyard.model.base_parameters import BaseParameters
from steelyard.model.floating.base_motion import ROWS
from steelyard.regression.folds import GuardedFold, guarded_folds, stretches
from steelyard.regression.information import Information, Time, stacked, triangular
from steelyard.regression.problem import Problem
from steelyard.regression.scores import Score, score_of
from steelyard.signals.samples import Samples

# Folds: different motions where there are at least FEWEST_RUNS of them, else stretches of time.
FOLDS, FEWEST_RUNS = 10, 5
# With fewer folds, or if a fit without one of them keeps less than this share of the rows, nothing can be expected.
FEWEST_FOLDS, LEAST_KEPT = 4, 0.5
# Mixed motion, in which every joint does what it did in the log at another time than the others:
# Samples of all runs, spread over the beginning of each (at least the second number of every run), its length [s], so
# that a long log is not read again, and the number of mixtures.
SAMPLES, FEWEST_SAMPLES, BEGINNING_S, MIXTURES = 512, 64, 60.0, 3
# Joint j starts j times this part of the run later: the golden section keeps all joints apart.
PART = 0.5 * (np.sqrt(5.0) - 1.0)


def expected_score(
    problem: Problem, base: BaseParameters, information: Information, estimator: Estimator, estimate: Estimate
) -> tuple[Score | None, tuple[Finding, ...]]:
    """Every row scored once, by parameters fitted without it and without the rows within three periods of the parallel
    filter, and a finding that says how. None where the rows are too few.

    Folds are different motions if the runs hold at least five, else ten stretches of time. Filters, terms, weights,
    priors and drive gains are those of the fit to all rows. Rows that are left out of one motion resemble it: what the
    parameters leave open elsewhere is added, the uncertainty of predictions on motion in which the joints move at other
    times (`unseen_uncertainty`).
    """
    try:
        left = fits_without_folds(problem, base, information, estimator, estimate)
    except EstimationError as error:
        return None, (Finding("expected-error", "info", f"no error is stated for other motion: {error}"),)
    message = f"error expected on other motion from {len(left.folds)} {left.kind} left out in turn"
    if information.guard:
        message += f", with a guard of {information.guard:.2g} s"
    if left.kind != "motions":
        message += "; a motion that repeats itself promises too much"
    wider = np.zeros(len(information.joints))
    if estimate.gains is None and problem.model.looped is None:  # loops do not close in every mixture
        wider = unseen_uncertainty(problem, base, estimate.covariance)
        message += ", and from the uncertainty of predictions where the joints move at other times"
    return left.score(base, problem.mask, wider), (Finding("expected-error", "info", message),)


@dataclass(frozen=True)
class FitsWithoutFolds:
    """Base `values` (b,) fitted without each of the `folds` in turn, what these are (`kind`: motions or stretches of
    time), and the rows to score them on."""

    torques: Information
    folds: tuple[GuardedFold, ...]
    kind: str
    values: tuple[Array, ...]

    def score(self, base: BaseParameters, mask: str, wider: Array | None = None) -> Score:
        """Every row scored by the fit without it; `wider` (n,) is added to the mean square of every joint."""
        torques, size = self.torques, np.zeros(len(self.torques.joints))
        rest = np.zeros(len(size)) if wider is None else wider * torques.rows()
        for fold, value in zip(self.folds, self.values, strict=True):
            theta = base.theta(np.nan_to_num(value))
            for j, own in enumerate(torques.columns):
                r = torques.gathered(j, fold.scored).r
                y = r[:, len(own)]
                rest[j] += np.sum((y - torques.known(r) - r[:, : len(own)] @ theta[own]) ** 2)
                size[j] += y @ y
        return score_of(torques.joints, rest, size, torques.rows(), mask)


def fits_without_folds(
    problem: Problem, base: BaseParameters, information: Information, estimator: Estimator, estimate: Estimate
) -> FitsWithoutFolds:
    """Fits to all rows but a fold and the rows within three periods of the parallel filter, computed from `information`
    alone; an EstimationError says why there are none."""
    if needs(estimator, SIMULATION):
        raise EstimationError(f"estimator '{estimator.name}' simulates whole runs, and no runs were left out")
    groups, kind = _groups(problem, information, needs(estimator, GAINS))
    if len(groups) < FEWEST_FOLDS:
        raise EstimationError(f"the log is too short to leave out stretches of time ({len(groups)} of {FEWEST_FOLDS})")
    folds = guarded_folds(information, groups)
    counted = {time: sum(part.rows for part in parts) for time, parts in _by_time(information).items()}
    least = min(sum(counted[time] for time in fold.kept) for fold in folds) / sum(counted.values())
    if least < LEAST_KEPT:
        raise EstimationError(
            f"the log is too short to leave out stretches of time with a guard of {information.guard:.2g} s on both "
            f"sides: {least:.0%} of the rows would be left"
        )
    torques = in_torques(information, estimate)
    again = estimate.refit or _least_squares(torques.without_known(), base, estimate)
    try:
        values = refitted(torques, base, folds, again)
    except EstimationError as error:
        raise EstimationError(str(error).rstrip(".")) from None
    return FitsWithoutFolds(torques, tuple(folds), kind, tuple(values))


def refitted(information: Information, base: BaseParameters, folds: Sequence[GuardedFold], again: Refit) -> list[Array]:
    """Base values (b,) of every fold from the rows that it keeps; NaN where these do not excite a parameter.

    Blocks that the same folds keep are reduced to one triangle first, so that the cost hardly depends on the folds.
    """
    source = (information if again.information is None else again.information).without_known()
    keeping = [set(fold.kept) for fold in folds]
    alike: dict[tuple[int, ...], list[Time]] = {}
    for time in source.times:
        alike.setdefault(tuple(k for k, kept in enumerate(keeping) if time in kept), []).append(time)
    rows = {who: stacked(source, base.kept, again.weights, times) for who, times in alike.items()}
    empty = np.zeros((0, len(base) + 1))
    return [
        again.values(triangular(np.concatenate([empty, *(part for who, part in rows.items() if k in who)])))
        for k in range(len(folds))
    ]


def _groups(problem: Problem, information: Information, every_load: bool) -> tuple[list[tuple[Time, ...]], str]:
    """The time blocks that are left out together, and what they are."""
    if not every_load:
        present = set(information.block_rows) & {time[0] for time in information.times}
        motions = [set(names) & present for names in independent_runs(problem.runs)]
        motions = [names for names in motions if names]
        if len(motions) >= FEWEST_RUNS:
            count = min(FOLDS, len(motions))
            joined = [set[str]().union(*motions[k::count]) for k in range(count)]
            return [tuple(t for t in information.times if t[0] in names) for names in joined], "motions"
    return stretches(information, FOLDS, every_load), "stretches of time"


def _by_time(information: Information) -> dict[Time, list]:
    out: dict[Time, list] = {time: [] for time in information.times}
    for key, part in information.blocks.items():
        out[key[:3]].append(part)
    return out


def _least_squares(torques: Information, base: BaseParameters, estimate: Estimate) -> Refit:
    """For an estimate that does not say how to fit other rows (drive gains): weighted least squares of the torques."""
    excited = np.isfinite(estimate.value) & ~estimate.cancelled
    return refit(1.0 / joint_deviations(torques, base), excited, estimate.cancelled)


def unseen_uncertainty(problem: Problem, base: BaseParameters, covariance: Array) -> Array:
    """Mean square [(N·m)² | N²] (n,) by which mixing raises the uncertainty of each joint's predicted effort.

    u_j = mean_s W_j(s) C W_j(s)ᵀ over samples s at which the joint moves, with C = `covariance` (b, b) of the base
    parameters; the result is (u_j of mixtures − u_j of the log)₊. A motion that repeats itself, or joints that always
    move together, leave directions of C unexcited that rows left out of the same motion do not show.
    """
    known = np.isfinite(np.diagonal(covariance))
    values, vectors = np.linalg.eigh(covariance[np.ix_(known, known)])
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    columns = np.array(base.kept)[known]
    size = np.zeros((MIXTURES + 1, 2, problem.model.robot.dof))
    count = max(FEWEST_SAMPLES, SAMPLES // len(problem.runs))
    for run in problem.runs:
        q, v, a, t, below = _thinned(run, count)
        if not len(t):
            continue  # a stream keeps no samples
        for k in range(MIXTURES + 1):
            speed = _rolled(v, k)
            found = problem.model.regressor(_rolled(q, k), speed, _rolled(a, k), t, run.load, below)[:, columns]
            w = np.einsum("ij,jcs->ics", problem.row_shares, found)
            squares = np.einsum("ics,cr->irs", w, root)
            squares = np.einsum("irs,irs->is", squares, squares)
            used = np.isfinite(squares) & (np.abs(speed) >= problem.rest_speeds[:, None])
            size[k] += [np.sum(squares, axis=1, where=used), used.sum(axis=1)]
    mean = size[:, 0] / np.maximum(size[:, 1], 1.0)
    return np.maximum(mean[1:].mean(axis=0) - mean[0], 0.0)


def _thinned(run: Samples, count: int) -> tuple[Array, Array, Array, Array, Array | None]:
    """q, v, a (n, m), t (m,) [s] and the motion of a floating base (9, m) of about `count` clean samples, evenly spread
    over the beginning of the run."""
    most = min(sum(s.clean[1] - s.clean[0] for s in run.stretches), round(BEGINNING_S * run.rate))
    step, got = max(1, most // count), 0
    parts = [np.zeros((3 * len(run.joints) + 1 + ROWS * run.floats, 0))]
    for piece in run.open():
        stretch = run.stretches[piece.stretch]
        place = piece.first + np.arange(piece.q.shape[1])
        chosen = (place >= stretch.clean[0]) & (place < stretch.clean[1]) & (place % step == 0)
        t = stretch.start - run.stretches[0].start + place / run.rate
        own = (piece.q, piece.v, piece.a, t[None], *(() if piece.base is None else (piece.base,)))
        parts.append(np.concatenate(own)[:, chosen])
        got += int(chosen.sum())
        if got >= count:
            break
    n = len(run.joints)
    q, v, a, t, base = np.split(np.concatenate(parts, axis=1), [n, 2 * n, 3 * n, 3 * n + 1])
    return q, v, a, t[0], base if run.floats else None


def _rolled(x: Array, mixture: int) -> Array:
    """Joint j of x (n, m) begins later by `mixture` j PART of the samples, and continues at the start."""
    count = x.shape[1]
    return np.stack([np.roll(own, int(mixture * j * PART % 1.0 * count)) for j, own in enumerate(x)])
