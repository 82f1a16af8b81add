"""Cause of a change of a robot since its identification, and the parameters of the body if it is a payload."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np

from steelyard._arrays import Array
from steelyard.errors import EstimationError
from steelyard.estimators.least_squares import CLUSTERS, FEWEST_CLUSTERS
from steelyard.identification.bodies import BODY, BODY_UNITS, body_slope, body_values, deviations
from steelyard.identification.payload_fit import Balance, Time, Weights, balance_of
from steelyard.identification.result import Identification
from steelyard.model.payload import Payload
from steelyard.online.change_detection import Alarm, Baseline
from steelyard.regression.information import Information, triangular
from steelyard.regression.statistics import jackknife_covariance

Kind = Literal["payload", "friction", "unknown"]
# Twice the log of the odds, corrected for correlation, at which one cause is preferred to the other: 1 in 20,000.
CLEAR = 20.0
# Fraction of the excess over the usual residual that a cause must explain.
LEAST_SHARE = 0.5
_LIGHTEST, _GUESS, _ITERATIONS = 0.05, 2.0, 5
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Tool:
    """Prior of a body that is picked up: its mass lies about `reach` [m] from the origin of its frame (`Payload.pose`).

    σ(MX) = reach · |M|,  σ(XX) = reach² · |M|  around zero; the mass itself has no prior.
    """

    reach: float = 0.2

    def __post_init__(self) -> None:
        if not 0.0 < self.reach < np.inf:
            raise EstimationError(f"reach must be positive [m], not {self.reach!r}.")

    def widths(self, mass: float) -> Array:
        """σ of XX … M (10,)."""
        heavy = max(abs(mass), _LIGHTEST)
        return np.array([self.reach**2 * heavy] * 6 + [self.reach * heavy] * 3 + [np.inf])


class Explained(NamedTuple):
    """‖residual/σ‖² of the rows after a change: with the robot unchanged, with a body, with other friction, and the
    usual value."""

    before: float
    payload: float
    friction: float
    usual: float


@dataclass(frozen=True)
class Pickup:
    """The body weighed after a change: ten parameters about its own frame (10,), with the covariance of the rows since
    (by `clusters` blocks left out, or classical and inflated where there are too few) and that of the robot's own."""

    payload: Payload
    value: Array
    covariance_log: Array
    covariance_robot: Array
    clusters: int
    rows: int

    @cached_property
    def body(self) -> dict[str, tuple[float, float, str]]:
        """Mass, centre of mass and inertia about it: value, σ and unit."""
        std = deviations(body_slope(self.value), self.covariance_log + self.covariance_robot)
        values = zip(BODY, body_values(self.value).tolist(), std.tolist(), BODY_UNITS, strict=True)
        return {name: (x, s, unit) for name, x, s, unit in values}

    @property
    def mass(self) -> float:
        return float(self.value[9])

    @property
    def mass_std(self) -> float:
        return float(np.sqrt(self.covariance_log[9, 9] + self.covariance_robot[9, 9]))


@dataclass(frozen=True)
class Change:
    """A detected change: when it happened and when it was reported [s of the log's clock], at which sample of the
    stream, by which test, and its most likely cause so far.

    `kind` may change from "unknown" as rows arrive. `pickup` is the body that would explain the change; it is valid
    only if the kind is "payload". A negative mass means that a body was put down.
    """

    t: float
    sample: int
    reported: float
    alarm: Alarm
    kind: Kind = "unknown"
    pickup: Pickup | None = None
    explained: Explained | None = None

    @property
    def verdict(self) -> str:
        """The result as one sentence."""
        when = f"at {self.t:.2f} s (reported at {self.reported:.2f} s, by {self.alarm.test})"
        if self.kind == "payload" and self.pickup is not None:
            done = "picked up" if self.pickup.mass > 0.0 else "put down"
            where, mass = self.pickup.payload.link, f"{abs(self.pickup.mass):.4g} ± {self.pickup.mass_std:.2g} kg"
            return f"A body of {mass} on {where} was {done} {when}."
        if self.kind == "friction":
            return f"Friction or offsets changed {when}; no body explains it."
        return f"Something changed {when}; so far neither a body nor friction alone explains it significantly."


def weigh_since(
    robot: Identification, baseline: Baseline, since: Information, payload: Payload, tool: Tool
) -> tuple[Pickup, Explained]:
    """The body on a robot that is otherwise unchanged, from rows since a change, and how well each cause explains them.

        (χ̂_l, δ̂) = argmin Σ_j ‖y_j − W_j (χ̂ + δ) − P_j χ_l‖² / σ_j² + ‖R δ‖² + inflation ‖D⁻¹ χ_l‖²     (P2 eq. 10)

    χ̂ is the identified robot, δ its error as allowed by the triangle R of its own rows, so that an error of the
    robot is not attributed to the body. D are the widths of `tool`, whose weight is multiplied by the inflation of
    correlated rows so that the weights of prior and rows are comparable. Rows are weighted by σ_j of the robot's own
    fit.
    """
    balance = balance_of(robot, since, payload, ())
    weights: Weights = {
        (run, joint): 1.0 / sigma
        for run in dict.fromkeys(time[0] for time in since.times)
        for joint, sigma in enumerate(baseline.sigma)
        if np.isfinite(sigma)
    }
    b = len(robot.base)
    groups: Sequence[Sequence[Time]] = since.clusters(CLUSTERS)
    parts = [_equations(balance, balance.stacked(weights, group), b) for group in groups]
    rows = triangular(np.concatenate(parts))
    held = np.zeros((b, 10 + b + 1))
    held[:, 10:-1] = baseline.root
    mass, given = _GUESS, held
    for _ in range(_ITERATIONS):
        given = np.concatenate([held, _expected(tool.widths(mass), baseline.inflation, b)])
        mass = float(_solved(np.concatenate([rows, given]))[9])
    x = _solved(np.concatenate([rows, given]))
    pickup = Pickup(
        balance.payload,
        x[:10],
        *_spread(robot, parts, given, x, baseline.inflation),
        int(since.rows().max(initial=0)),
    )
    rest = rows[:, -1]
    usual = float(sum(count for count, sigma in zip(since.rows(), baseline.sigma, strict=True) if np.isfinite(sigma)))
    named = set(friction_columns(robot))
    rubbing = [10 + k for k, name in enumerate(robot.base.names) if name in named]
    return pickup, Explained(
        float(rest @ rest), _left(rows, held, range(10)), _left(rows, held, rubbing), max(usual, float(b))
    )


def _equations(balance: Balance, rows: Array, b: int) -> Array:
    """[P | B | y − B χ̂] of weighted rows, from [P B E] of the `Balance`."""
    return np.column_stack([rows[:, : 10 + b], -rows @ balance.z])


def _expected(widths: Array, inflation: float, b: int) -> Array:
    rows = np.zeros((10, 10 + b + 1))
    rows[:, :10] = np.diag(np.sqrt(inflation) / widths)
    return rows[np.isfinite(widths)]


def _solved(rows: Array) -> Array:
    """Least squares of [U | y], the columns of U scaled to unit norm."""
    norms = np.linalg.norm(rows[:, :-1], axis=0)
    scale = np.where(norms > 0.0, norms, 1.0)
    return np.linalg.lstsq(rows[:, :-1] / scale, rows[:, -1], rcond=_ROUNDING)[0] / scale


def _left(rows: Array, held: Array, free: Sequence[int]) -> float:
    """‖residual/σ‖² with the columns `free` free and the error of the robot that its own rows allow."""
    wide = np.zeros((len(rows) + len(held), len(free) + held.shape[1] - 10))
    wide[: len(rows), : len(free)] = rows[:, list(free)]
    wide[:, len(free) :] = np.concatenate([rows, held])[:, 10:]
    x = _solved(wide)
    return float(np.sum((wide[:, -1] - wide[:, :-1] @ x) ** 2))


def _spread(
    robot: Identification, parts: Sequence[Array], given: Array, x: Array, inflation: float
) -> tuple[Array, Array, int]:
    """Covariances (10, 10) by leaving out blocks of the rows since, and from the robot's own; the number of blocks."""
    whole = np.concatenate([*parts, given])
    inverse = np.linalg.pinv(whole[:, :-1], rcond=_ROUNDING)[:10]
    own = inverse[:, : len(whole) - len(given)]
    log, clusters = inflation * own @ own.T, 0
    if len(parts) >= FEWEST_CLUSTERS:
        clusters = len(parts)
        others = (np.concatenate([*(p for k, p in enumerate(parts) if k != g), given]) for g in range(clusters))
        change = np.array([(_solved(rows) - x)[:10] for rows in others])
        log = jackknife_covariance(change)
    # y − B χ̂: an error of χ̂ is an error of the right-hand side
    slope = -own @ np.concatenate(parts)[:, 10:-1]
    # without blocks to leave out, the robot's covariance assumes independent rows
    covariance = np.nan_to_num(robot.covariance) * (1.0 if robot.clusters else inflation)
    return log, slope @ covariance @ slope.T, clusters


def friction_columns(robot: Identification) -> list[str]:
    """Base parameters of joints other than inertias and rotors: friction and offsets."""
    columns = [robot.base.layout.columns[k] for k in robot.base.kept]
    return [c.name for c in columns if c.kind == "term" and c.symbol != "Ia"]


def kind_of(explained: Explained, frictions: int, inflation: float) -> Kind:
    """The cause that explains the rows since a change: a body, other friction, or unknown where the odds are too low.

    2 ln odds = (S_friction − S_payload)/inflation + 2 (k_friction − k_payload), k the numbers of unknowns; the weight
    of correlated rows is divided by the inflation. The cause must also explain half of the excess over the usual
    residual.
    """
    excess = explained.before - explained.usual
    odds = (explained.friction - explained.payload) / inflation + 2.0 * (frictions - 10)
    causes: tuple[tuple[Kind, float, float], ...] = (
        ("payload", explained.payload, odds),
        ("friction", explained.friction, -odds),
    )
    for kind, left, clear in causes:
        if clear > CLEAR and excess > 0.0 and explained.before - left >= LEAST_SHARE * excess:
            return kind
    return "unknown"
