"""Shared by the estimators of drive gains: error bars, cancelled parameters, and undetermined gains and parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import compress
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from steelyard._arrays import Array
from steelyard.errors import EstimationError
from steelyard.estimators.estimator import Estimate, GainEstimate
from steelyard.estimators.gains.equations import (
    WEIGH,
    DriveBlocks,
    DriveEquations,
    GainSolution,
    drive_blocks,
    least_squares,
)
from steelyard.estimators.gains.payload_dependence import dependence_findings, payload_dependences
from steelyard.estimators.gains.solvers import relative_deviations, separable
from steelyard.estimators.least_squares import (
    DATA_TOLERANCE,
    FEWEST_CLUSTERS,
    cluster_findings,
    excitation_findings,
    spread,
)
from steelyard.findings import Finding
from steelyard.model.base_parameters import BaseParameters, independent_columns
from steelyard.regression.information import Information, triangular
from steelyard.regression.statistics import jackknife_covariance, jackknife_deviation

# Number of bootstrap resamples, and steps of each from the estimate: more would change σ by less than its own error.
RESAMPLES, MOST_DRAWS, STEPS, SEED = 200, 2000, 1, 1
# A parameter with a smaller relative σ is never cancelled, as in `essential`.
CERTAIN = 0.01
# A gain with a larger relative σ cannot be distinguished from noise.
UNTOLD = 1.0 / 3.0
# A parameter is undetermined if its component in a null direction of unit length exceeds this.
REACHED = 1e-3

Covariance = Callable[[DriveEquations, GainSolution], Array]


class Solve(Protocol):
    """Gains and base parameters from equations, optionally from a start, in at most the given number of steps."""

    def __call__(
        self, equations: DriveEquations, start: GainSolution | None = ..., steps: int = ...
    ) -> GainSolution: ...


def checked_ratio(ratio: float | None) -> None:
    """The ratio of relative deviations at which cancelling stops, as in `essential`; None cancels nothing."""
    if ratio is not None and not ratio >= 1.0:
        raise EstimationError(f"ratio must be at least 1 (the papers use 10 to 30) or absent, not {ratio!r}.")


def gain_estimate(
    base: BaseParameters, information: Information, solve: Solve, covariance: Covariance, ratio: float | None
) -> Estimate:
    """Gains and base parameters by `solve`, with classical, leave-one-block-out and block-bootstrap deviations.

    `covariance` is the classical one of (g, χ). All three include the stated deviation of the known payload parameters.
    """
    blocks, start = scaled_blocks(base, information)
    first = solve(blocks.whole, start)
    if not np.all(np.isfinite(first.factor) & (first.factor != 0.0)):
        raise EstimationError(
            "A gain is zero or has no value: use the estimator gains, whose result does not depend on units."
        )
    essential, found = _essential(blocks.whole, first, solve, covariance, ratio)
    whole = blocks.whole.on(essential)
    n, b, motors = len(information.joints), len(base), len(blocks.motors)
    used = np.flatnonzero(blocks.excited)[essential]
    held = np.zeros(b, bool)
    held[np.flatnonzero(blocks.excited)[~essential]] = True
    place = np.zeros(n + b, bool)
    place[[*blocks.motors, *(n + used)]] = True

    weighing = _weighing(base, blocks, whole, solve, found)
    classical = covariance(whole, found) + weighing
    robust, single = _leave_one_out(blocks, essential, solve, found)
    robust = classical if robust is None else robust + weighing
    drawn = np.where(single, np.nan, _bootstrap(blocks, essential, solve, found))
    deviation = np.sqrt(drawn + np.diagonal(weighing))
    values, deviation = spread(np.concatenate(found), place), spread(deviation, place)
    classical, robust = spread(classical, place), spread(robust, place)

    names = [information.joints[j] for j in blocks.motors]
    dependences = payload_dependences(base, blocks, whole, found, used, names)
    w = whole.jacobian(found)[:, :-motors]
    return Estimate(
        np.where(held, 0.0, values[n:]),
        robust[n:, n:],
        classical[n:, n:],
        held,
        len(blocks.cases) if len(blocks.cases) >= FEWEST_CLUSTERS else 0,
        float(np.linalg.cond(w)),
        float(np.linalg.cond(w / np.linalg.norm(w, axis=0))),
        (
            *_undetermined(information, values[:n]),
            *excitation_findings(base, np.isfinite(values[n:]) | held),
            *cluster_findings(base, np.array(base.kept)[used], single[motors:], len(blocks.cases)),
            *_single_findings(list(compress(names, single[:motors]))),
            *_cancelled_findings(base, held, ratio),
            *dependence_findings(names, dependences, whole, relative_deviations(whole, found)),
        ),
        GainEstimate(values[:n], robust, classical, deviation, dependences),
    )


def scaled_blocks(base: BaseParameters, information: Information) -> tuple[DriveBlocks, GainSolution]:
    """The equations of the motors whose gain has a scale, and their solution by the likelihood (for every estimator):
    no null direction reaches the gain, and the gain can be distinguished from noise."""
    without: list[int] = []
    while True:
        blocks = drive_blocks(base, information, without)
        found = separable(blocks.whole)
        lost = _null(blocks.whole, found)[: len(found.factor)] | (_relative(blocks, found) > UNTOLD)
        if not lost.any():
            return blocks, found
        if lost.all():
            raise EstimationError(
                "The scale of the drive gains is not determined: the known torque of the payload is below the noise at "
                "every joint. Next: use a heavier payload, mount it further out, or record longer."
            )
        without += compress(blocks.motors, lost)


def _relative(blocks: DriveBlocks, found: GainSolution) -> Array:
    """σ(h_j)/|h_j| of h = 1/g, whose errors are nearly normal: the classical one, or that by leave-one-block-out if
    larger."""
    classical, count = relative_deviations(blocks.whole, found), len(blocks.cases)
    if count < FEWEST_CLUSTERS:
        return classical
    left_out = [
        separable(blocks.weighted(np.where(np.arange(count) == g, 0.0, 1.0)), found).factor for g in range(count)
    ]
    change = found.factor / np.array(left_out) - 1.0
    return np.maximum(classical, jackknife_deviation(change))


def _essential(
    equations: DriveEquations, found: GainSolution, solve: Solve, covariance: Covariance, ratio: float | None
) -> tuple[NDArray[np.bool_], GainSolution]:
    """Which base parameters stay, and the solution with these, by the rule of `essential` (P0 §III). Gains always
    stay."""
    left = np.ones(equations.w.shape[1], bool)
    while ratio is not None and left.sum() > 1:
        n = len(found.factor)
        with np.errstate(divide="ignore", invalid="ignore"):
            sigma = np.sqrt(np.diagonal(covariance(equations.on(left), found))[n:])
            relative = np.nan_to_num(sigma / np.abs(found.value), nan=np.inf)
        if relative.max() <= max(CERTAIN, ratio * relative.min()):
            break
        worst = int(relative.argmax())
        left[np.flatnonzero(left)[worst]] = False
        found = solve(equations.on(left), GainSolution(found.factor, np.delete(found.value, worst)))
    return left, found


def _null(equations: DriveEquations, at: GainSolution) -> NDArray[np.bool_]:
    """Which of (g, χ) can change without changing any predicted effort."""
    columns = equations.balanced(at)
    norms = np.linalg.norm(columns, axis=0)
    norms[norms == 0.0] = 1.0
    r = triangular(columns / norms)
    if not independent_columns(r, DATA_TOLERANCE).dropped:
        return np.zeros(len(norms), bool)
    _, s, v = np.linalg.svd(r)
    s = np.concatenate([s, np.zeros(len(v) - len(s))])
    reached = np.any(np.abs(v[s <= DATA_TOLERANCE * s[0]]) > REACHED, axis=0)
    return np.roll(reached, len(at.factor))


def _leave_one_out(
    blocks: DriveBlocks, essential: NDArray[np.bool_], solve: Solve, found: GainSolution
) -> tuple[Array | None, NDArray[np.bool_]]:
    """CR3 covariance of (g, χ), with every cluster left out and all solved again; and the parameters that depend on a
    single cluster."""
    count = len(blocks.cases)
    single = np.zeros(len(found.factor) + len(found.value), bool)
    if count < FEWEST_CLUSTERS:
        return None, single
    changes = []
    for g in range(count):
        rest = blocks.weighted(np.where(np.arange(count) == g, 0.0, 1.0)).on(essential)
        lost = _null(rest, found)
        single |= lost
        if lost.any():
            changes.append(_smallest_change(rest, found))
        else:
            changes.append(np.concatenate(solve(rest, found)) - np.concatenate(found))
    return jackknife_covariance(np.where(single, np.nan, np.array(changes))), single


def _smallest_change(equations: DriveEquations, at: GainSolution) -> Array:
    """One linear step of (g, χ) that does not change the directions that these rows do not excite."""
    step, _ = least_squares(equations.jacobian(at), equations.residual(at))
    b = len(at.value)
    return np.concatenate([-(at.factor**2) * step[b:], step[:b]])


def _bootstrap(blocks: DriveBlocks, essential: NDArray[np.bool_], solve: Solve, found: GainSolution) -> Array:
    """Variances of (g, χ) over clusters resampled with replacement within each load case; NaN with too few.

    A draw that loses half of a motor's rows does not represent this experiment and is repeated.
    """
    if len(blocks.cases) < FEWEST_CLUSTERS:
        return np.full(len(found.factor) + len(found.value), np.nan)
    rng = np.random.default_rng(SEED)
    cases = [np.flatnonzero([case == one for case in blocks.cases]) for one in dict.fromkeys(blocks.cases)]
    least = 0.5 * blocks.whole.rows
    drawn = []
    for _ in range(MOST_DRAWS):
        weights = np.zeros(len(blocks.cases))
        for members in cases:
            weights[members] = rng.multinomial(len(members), np.full(len(members), 1.0 / len(members)))
        equations = blocks.weighted(weights).on(essential)
        if np.all(equations.rows >= least):
            drawn.append(np.concatenate(solve(equations, found, STEPS)))
        if len(drawn) == RESAMPLES:
            return np.var(drawn, axis=0, ddof=1)
    return np.full(len(found.factor) + len(found.value), np.nan)


def _weighing(
    base: BaseParameters, blocks: DriveBlocks, whole: DriveEquations, solve: Solve, found: GainSolution
) -> Array:
    """Covariance of (g, χ) due to the stated deviations of the known payload parameters.

    The known parameters of a payload come from one weighing and are wrong together, by the relative deviation of the
    mass or, if that is not stated, by the largest one.
    """
    out = np.zeros((len(found.factor) + len(found.value),) * 2)
    for k, load in enumerate(blocks.loads):
        off = _relative_width(base, load)
        if off > 0.0:
            scale = np.where(np.arange(len(blocks.loads)) == k, off, 0.0)
            more, less = (np.concatenate(solve(whole.known_times(1.0 + s * scale), found)) for s in (1.0, -1.0))
            out += np.outer(more - less, more - less) / 4.0
    return out


def _relative_width(base: BaseParameters, load: str) -> float:
    stated = {
        c.symbol: c.width / abs(c.nominal) for c in base.layout.columns if c.owner == load and c.width and c.nominal
    }
    return stated.get("M", max(stated.values(), default=0.0))


def _undetermined(information: Information, factor: Array) -> Iterator[Finding]:
    for j in np.flatnonzero(~np.isfinite(factor)):
        name, triangle = information.joints[j], information.joint_triangles[j]
        if not np.any(triangle.r[:, len(information.columns[j])]):
            reason, fix = "it has no rows with an effort", "record a motion of this joint with its effort"
        else:
            reason = (
                "no known payload torque acts on it, and it shares no parameter with a joint of known gain, or both "
                "are below the noise; its own parameters compensate any gain"
            )
            fix = f"mount the payload where it loads {name}; {WEIGH}"
        yield Finding("gain-undetermined", "error", f"the gain of {name} is not determined: {reason}", name, fix)


def _single_findings(names: Sequence[str]) -> Iterator[Finding]:
    if names:
        yield Finding(
            "single-block",
            "warning",
            "gains determined by a single block of time, so they have no error bar: " + ", ".join(names),
            fix="record more motion with the payload",
        )


def _cancelled_findings(base: BaseParameters, held: NDArray[np.bool_], ratio: float | None) -> Iterator[Finding]:
    if ratio is not None:
        names = ", ".join(compress(base.names, held)) or "none"
        yield Finding(
            "essential-parameters",
            "info",
            f"{len(base) - held.sum()} essential parameters; {held.sum()} cancelled (ratio {ratio:g}): {names}",
        )
