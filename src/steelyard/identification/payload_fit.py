"""Balance: the equations of a payload on a robot that is already identified, and their least squares."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from steelyard._arrays import Array
from steelyard.errors import EstimationError
from steelyard.estimators.least_squares import CLUSTERS, DATA_TOLERANCE, FEWEST_CLUSTERS
from steelyard.identification.result import Identification
from steelyard.model.parameters import INERTIAL
from steelyard.model.payload import Payload
from steelyard.regression.information import Information, triangular

# A time block (run, load case, block); 1 / σ of every (run, joint).
Time = tuple[str, str, int]
Weights = Mapping[tuple[str, int], float]
# An unknown whose part in the unexcited directions exceeds this (squared cosine) has no value.
_BLIND = 1e-6


@dataclass(frozen=True)
class Balance:
    """The equations R z = 0 of all rows, R = [P F B E] and z = (χ_l, free columns, the robot's χ_b, −k).

    P (…, 10) are the payload's columns, E holds the stated effort of motor j in column j of its rows. `z` holds the
    given values and zero for the `unknown` ones; `covariance` is that of z, zero for exact or unknown entries. `wide`
    (C, …) maps the layout's columns to [P F B].
    """

    information: Information
    payload: Payload
    wide: Array
    free: tuple[str, ...]
    z: Array
    covariance: Array
    unknown: NDArray[np.bool_]

    @property
    def unaffected(self) -> tuple[str, ...]:
        """Joints (or motors) on which the payload exerts no torque, for any position on its link."""
        columns = zip(self.information.joints, self.information.columns, strict=True)
        return tuple(joint for joint, own in columns if not self.wide[own, :10].any())

    def rows(self, joint: int, times: Iterable[Time]) -> tuple[Array, int]:
        """[P F B E] of a joint, and the number of its rows."""
        part, own = self.information.gathered(joint, times), self.information.columns[joint]
        efforts = np.zeros((len(part.r), len(self.information.joints)))
        efforts[:, joint] = part.r[:, len(own)]
        return np.concatenate([part.r[:, : len(own)] @ self.wide[own], efforts], axis=1), part.rows

    def stacked(self, weights: Weights, times: Iterable[Time]) -> Array:
        """Triangle of the weighted rows of all runs and joints in these times."""
        chosen = tuple(times)
        parts = [
            weight * self.rows(joint, [time for time in chosen if time[0] == run])[0]
            for (run, joint), weight in weights.items()
        ]
        return triangular(np.concatenate(parts))


class Fit(NamedTuple):
    """z with its unknowns found, and the solution: x = −inverse · R_given z_given on `rows` R.

    `shown` (u,) marks the unknowns that the rows determine, `rank` is the number of combinations they determine.
    """

    z: Array
    shown: NDArray[np.bool_]
    rank: int
    rows: Array
    inverse: Array


def balance_of(
    result: Identification, information: Information, payload: Payload, free: Sequence[str], gain_std: float = 0.0
) -> Balance:
    """The equations of runs that carry the payload, with the robot's parameters and gains as identified.

    `gain_std` is the relative deviation of stated gains: if all are wrong by one factor, so are the robot's parameters
    and the payload.
    `free` names columns that are estimated again together with the payload.
    """
    layout, base, joints = information.layout, result.base, len(information.joints)
    let = [k for k, name in enumerate(base.names) if name in free]
    held = [k for k, name in enumerate(base.names) if name in layout and name not in free]
    frame = np.zeros((len(layout), 10))
    frame[[layout.index(f"{payload.link}.{symbol}") for symbol in INERTIAL]] = payload.on_link
    named = tuple(base.names[k] for k in (*let, *held))
    robot = np.nan_to_num(result.value[held])
    factor = np.ones(joints) if result.gains is None else result.gains.factor
    stated = np.array([payload.known.get(symbol, 0.0) for symbol in INERTIAL])
    z = np.concatenate([stated, np.zeros(len(let)), robot, -factor])
    unknown = np.zeros(len(z), bool)
    unknown[:10] = [symbol not in payload.known for symbol in INERTIAL]
    unknown[10 : 10 + len(let)] = True
    covariance = np.zeros((len(z), len(z)))
    covariance[:10, :10] = np.diag([payload.std.get(symbol, 0.0) ** 2 for symbol in INERTIAL])
    own = slice(10 + len(let), None)
    if result.gains is None:
        covariance[own, own][: len(held), : len(held)] = result.covariance[np.ix_(held, held)]
        covariance[own, own] += gain_std**2 * np.outer(z[own], z[own])
    else:
        order = np.array([*(joints + k for k in held), *range(joints)])
        sign = np.repeat([1.0, -1.0], [len(held), joints])
        covariance[own, own] = np.outer(sign, sign) * result.gains.covariance[np.ix_(order, order)]
    # cancelled or unexcited parameters have no σ and add none; a value without σ makes that of the payload unknown too
    valued = [np.isfinite(result.value[k]) and base.names[k] not in result.cancelled for k in held]
    available = np.concatenate([np.ones(10 + len(let), bool), valued, np.isfinite(factor)])
    covariance = np.where(np.outer(available, available), covariance, 0.0)
    return Balance(
        information,
        payload,
        np.concatenate([frame, np.eye(len(layout))[:, [layout.index(name) for name in named]]], axis=1),
        tuple(base.names[k] for k in let),
        z,
        covariance,
        unknown,
    )


def fitted(balance: Balance, rows: Array) -> Fit:
    """Least squares x = −U⁺ R_given z_given on weighted rows R, the columns of U scaled to unit norm.

    An unknown is determined when it has no part in the null directions of the rows; choosing independent columns from
    left to right would give values to some unknowns whose effects cannot be separated.
    """
    u, given = rows[:, balance.unknown], rows[:, ~balance.unknown]
    norms = np.linalg.norm(u, axis=0)
    scale = np.where(norms > 0.0, norms, 1.0)
    left, sizes, right = np.linalg.svd(u / scale, full_matrices=False)
    live = sizes > DATA_TOLERANCE * max(sizes[0], 1e-300)
    inverse = (right[live].T / sizes[live]) @ left[:, live].T / scale[:, None]
    z = balance.z.copy()
    z[balance.unknown] = -inverse @ (given @ balance.z[~balance.unknown])
    return Fit(z, 1.0 - np.sum(right[live] ** 2, axis=0) < _BLIND, int(live.sum()), rows, inverse)


def run_weights(balance: Balance) -> Weights:
    """1 / σ of every run and joint, σ² = ‖residual of its own least squares‖² / (rows − unknowns)."""
    information = balance.information
    sigma, largest = {}, 0.0
    for run in dict.fromkeys(time[0] for time in information.times):
        times = [time for time in information.times if time[0] == run]
        for joint, name in enumerate(information.joints):
            rows, count = balance.rows(joint, times)
            if not count:
                continue
            fit = fitted(balance, rows)
            if count <= fit.rank:
                raise EstimationError(
                    f"{name} of '{run}' has {count} rows for {fit.rank} unknowns: the log is too short. Record longer, "
                    "or state what is known of the payload."
                )
            sigma[run, joint] = float(np.linalg.norm(rows @ fit.z) / np.sqrt(count - fit.rank))
            largest = max(largest, float(np.linalg.norm(rows @ balance.z) / np.sqrt(count)))
    # a joint that fits within rounding must not get an infinite weight
    return {key: 1.0 / max(s, 1e-14 * largest, 1e-300) for key, s in sigma.items()}


def left_out(balance: Balance, weights: Weights, fit: Fit) -> tuple[Array, int]:
    """Covariance (u, u) by leaving out blocks of time, and their number: C = (G − 1)/G Σ_g (x₍g₎ − x)(x₍g₎ − x)ᵀ (CR3).

    With too few blocks it is the classical one, σ̂² (UᵀU)⁻¹, and the number is zero.
    """
    groups = balance.information.clusters(CLUSTERS)
    if len(groups) < FEWEST_CLUSTERS:
        freedom = int(balance.information.rows().sum()) - fit.rank
        rest = fit.rows @ fit.z
        return rest @ rest / freedom * fit.inverse @ fit.inverse.T, 0
    parts = [balance.stacked(weights, group) for group in groups]
    changes = []
    for g in range(len(parts)):
        others = np.concatenate([part for k, part in enumerate(parts) if k != g])
        changes.append((fitted(balance, others).z - fit.z)[balance.unknown])
    change = np.array(changes)
    return (len(parts) - 1) / len(parts) * change.T @ change, len(parts)
