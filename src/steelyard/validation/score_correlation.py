"""Correlation of scores: whether the errors of a parameter are correlated for longer than the blocks that are left out.

The influence of time block b on the parameters, A⁻¹ W_bᵀ e_b with A = WᵀW, sums to the error of the estimate. Leaving
out a cluster of neighbouring blocks shows its variance if the influences of different clusters are independent. A
residual may be correlated for long without harm, where W changes sign meanwhile: offsets suffer, inertias do not.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from steelyard._arrays import Array
from steelyard.estimators.least_squares import CLUSTERS, joint_deviations
from steelyard.findings import Finding
from steelyard.identification.result import Identification
from steelyard.regression.information import Information, stacked
from steelyard.regression.statistics import positive_autocorrelation

# A correlation time 2τ above this fraction of a cluster of length L makes error bars too narrow: they contain the
# fraction 1 − τ/L of the variance, so that intervals hold about 91 % instead of 95 %.
LONGEST = 0.6
# Blocks of a run below which their correlation is not judged.
FEWEST_BLOCKS = 24
MOST_NAMED = 8


def correlation_finding(result: Identification, information: Information) -> tuple[Finding, ...]:
    """A finding that names the parameters whose errors are correlated for longer than most of a cluster.

    `information` holds the fitted rows in torques, without known ones.
    """
    if not result.clusters:
        return ()
    base, used = result.base, np.isfinite(result.std) & np.isfinite(result.value)
    columns = np.array(base.kept)[used]
    weights = joint_deviations(information, base)
    weights = np.where(np.isfinite(weights), 1.0 / weights, 0.0)
    w = stacked(information, columns, weights)[:, :-1]
    inverse = np.asarray(np.linalg.pinv(w, rcond=1e-12), float)
    # parameters without an error bar keep their values
    value = np.nan_to_num(result.value)
    groups = information.clusters(CLUSTERS)
    long: dict[str, float] = {}
    shares = np.zeros(int(used.sum()))
    for _, own in groupby(information.times, key=lambda time: time[:2]):
        times = list(own)
        count = sum(group[0][:2] == times[0][:2] for group in groups)
        if len(times) < FEWEST_BLOCKS or not count:
            continue
        influence = np.array(
            [_influence(information, base.kept, used, weights, value, inverse, time) for time in times]
        )
        cluster = len(times) / count
        shares = np.maximum(shares, [_length(x) / cluster for x in influence.T])
    names = [name for name, yes in zip(base.names, used, strict=True) if yes]
    long = {name: float(share) for name, share in zip(names, shares, strict=True) if share > LONGEST}
    if not long:
        return ()
    order = sorted(long, key=lambda name: -long[name])
    shown = ", ".join(order[:MOST_NAMED]) + (f" and {len(order) - MOST_NAMED} more" if len(order) > MOST_NAMED else "")
    message = (
        f"the error bars of {shown} are too narrow: errors are correlated for up to {long[order[0]]:.0%} of a block of "
        f"time that is left out (at most {LONGEST:.0%} may be); this does not concern other parameters"
    )
    return (Finding("long-correlation", "warning", message),)


def _influence(
    information: Information,
    kept: Sequence[int],
    used: NDArray[np.bool_],
    weights: Array,
    value: Array,
    inverse: Array,
    time: tuple[str, str, int],
) -> Array:
    """A⁻¹ W_bᵀ e_b of one block over the used parameters; `inverse` is the pseudoinverse of W, as a triangle."""
    part = stacked(information, kept, weights, [time])
    rest = part[:, -1] - part[:, :-1] @ value
    return np.asarray(inverse @ (inverse.T @ (part[:, :-1][:, used].T @ rest)), float)


def _length(x: Array) -> float:
    """Correlation time in blocks, 1 + 2 Σ ρ_k over the initial positive part, without the one of white noise."""
    return float(2.0 * positive_autocorrelation(x).sum())
