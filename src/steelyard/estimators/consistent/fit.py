"""Least squares over physical standard sets: the fit, and the resulting estimate with its certificate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import compress
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from steelyard._arrays import Array
from steelyard.errors import EstimationError
from steelyard.estimators.estimator import LEAST_ERROR, Certificate, Estimate
from steelyard.estimators.least_squares import DATA_TOLERANCE
from steelyard.findings import Finding
from steelyard.model.base_parameters import BaseParameters
from steelyard.physical.certificates import CERTIFIED, ON_BOUNDARY, smallest_eigenvalues
from steelyard.physical.cones import (
    Answer,
    Block,
    ConeScales,
    Entropy,
    clipped,
    least_squares,
    minimise,
    status_text,
    violation,
)
from steelyard.physical.consistency import check_stated, held_columns, link_columns, pseudo_inertia
from steelyard.physical.constraints import Constraints
from steelyard.physical.nearest import GOOD, INSIDE, NOISE_SIGMA, cones_of, scatter
from steelyard.regression.information import Information, triangular
from steelyard.regression.scores import score

# Eigenvalues are clipped at this fraction of a body's size, the smallest at which rounding leaves none negative.
FLOOR = 1e-11
# A residual below this fraction of the effort is rounding.
ROUNDING = 1e-6
# A relative increase of the residual above this means that part of the model is wrong.
DEAR = 0.03
# A mass more than this many times larger or smaller than in the robot file is reported.
FAR_OFF = 5.0
# Advice where the data ask for a negative rotor inertia.
ROTORS = (
    "rotor inertias are at zero: joint torque sensors do not measure the rotor, so with them remove the term 'rotor', "
    "or set constraints.nonnegative without Ia; otherwise "
)


class Data(NamedTuple):
    """Rows [R | y] (k, b + 1) in base parameters, in units of σ, and their least-squares values (b,).

    Values that the motion does not excite are NaN; the excited ones include their contribution.
    """

    rows: Array
    value: Array

    @staticmethod
    def solved(rows: Array) -> Data:
        """The rows with their least-squares solution of smallest norm."""
        if not np.all(np.isfinite(rows)):
            raise EstimationError(
                "Numerical overflow: positions or efforts are implausibly large. Check units, ratio and gain."
            )
        return Data(rows, np.asarray(np.linalg.lstsq(rows[:, :-1], rows[:, -1], rcond=None)[0], float))

    @property
    def least(self) -> float:
        """‖y − R χ̂‖ in σ, the minimum."""
        return self.residual(np.nan_to_num(self.value))

    def residual(self, value: Array) -> float:
        """‖y − R χ‖ in σ."""
        return float(np.linalg.norm(self.rows @ np.append(-value, 1.0)))

    def moved(self, value: Array) -> float:
        """Distance of base values from the least-squares ones in the metric of the information, in σ."""
        return float(np.sqrt(max(self.residual(value) ** 2 - self.least**2, 0.0)))

    @property
    def std(self) -> Array:
        """σ of the values (b,), infinite where the motion does not excite them."""
        excited = np.isfinite(self.value)
        out = np.full(len(excited), np.inf)
        out[excited] = np.linalg.norm(np.linalg.pinv(self.rows[:, :-1][:, excited], rcond=1e-15), axis=1)
        return out

    @property
    def effort(self) -> float:
        """‖y‖ in σ."""
        return float(np.linalg.norm(self.rows[:, -1]))

    def standard(self, base: BaseParameters) -> Array:
        """The rows in standard parameters, (k, C + 1)."""
        return np.column_stack([self.rows[:, :-1] @ base.map, self.rows[:, -1]])

    def shown(self, base: BaseParameters) -> BaseParameters:
        """Base parameters whose map gives the combinations that the excited ones represent in this motion."""
        return replace(base, map=self.shares @ base.map)

    @property
    def shares(self) -> Array:
        """S (b, b): the combinations S χ that excited parameters represent in this motion; others are unchanged."""
        excited = np.isfinite(self.value)
        out = np.eye(len(excited))
        if not excited.all():
            r = self.rows[:, :-1]
            share = np.linalg.lstsq(r[:, excited], r[:, ~excited], rcond=None)[0]
            size = np.linalg.norm(r[:, ~excited], axis=0) / np.linalg.norm(r[:, excited], axis=0)[:, None]
            out[np.ix_(excited, ~excited)] = np.where(np.abs(share) > DATA_TOLERANCE * size, share, 0.0)
        return out


def fitted(
    base: BaseParameters,
    rows: Array,
    constraints: Constraints,
    scales: ConeScales,
    entropies: tuple[Entropy, ...] = (),
    nearly: Array | None = None,
) -> Answer:
    """argmin ½‖A θ − a‖² + Σ entropies over the physical θ, from rows [A | a].

    Without entropies the rows have full column rank and their minimum is tried first: if it is physical, it is the
    solution. With entropies, `nearly` are rows that approximate them to second order, which give the starting point.
    """
    layout, held = base.layout, held_columns(base.layout)
    free = np.flatnonzero(~held)
    size = np.append(scales.columns[free], 1.0)

    def triangle(some: Array) -> Array:
        return triangular(size * np.column_stack([some[:, free], some[:, -1] - some[:, :-1] @ layout.known]))

    r = triangle(rows)
    whole = r if nearly is None else triangle(np.vstack([rows, nearly]))
    start = layout.known.copy()
    start[free] = size[:-1] * solve_triangular(whole[: len(free), :-1], whole[: len(free), -1])
    blocks = cones_of(layout, constraints, scales)
    if not entropies and violation(start, blocks) == 0.0:
        return Answer(start, "Closed form", 0)
    matrix = np.zeros((len(r), len(layout)))
    matrix[:, free] = r[:, :-1] / size[:-1]
    # the residual that no θ can reduce is left out of the search
    squares = matrix[: len(free)], -r[: len(free), -1]
    span, answers = np.diag(scales.columns)[:, free], []
    # bodies with stated parameters or ellipsoids cannot be clipped: the solver stays inside instead
    for inside in (INSIDE,) if held.any() else (0.0, INSIDE):
        answers.append(least_squares(squares, blocks, start, span, entropies, inside))
        if not entropies and not _good(answers[-1], blocks, held):
            answers.append(minimise(squares, blocks, start, span, inside))  # the same minimum by another path
        if _good(answers[-1], blocks, held):
            return answers[-1]
    return min(answers, key=lambda one: violation(clipped(one.theta, blocks, FLOOR, held), blocks))


def _good(answer: Answer, blocks: Sequence[Block], held: NDArray[np.bool_]) -> bool:
    return answer.status in GOOD and violation(clipped(answer.theta, blocks, FLOOR, held), blocks) <= CERTIFIED


def certified(
    base: BaseParameters,
    data: Data,
    answer: Answer,
    free: Estimate,
    weight: float,
    constraints: Constraints,
    scales: ConeScales,
    information: Information,
    regulariser: str = "",
) -> Estimate:
    """The estimate of a standard set, checked with numpy only; its error bars are those of the unconstrained one.

    The `information` also gives the increase of the residual in N·m | N; `regulariser` is that of the prior, if any.
    """
    blocks = cones_of(base.layout, constraints, scales)
    theta = answer.theta
    if violation(theta, blocks) > 0.0:
        theta = clipped(theta, blocks, FLOOR, held_columns(base.layout))
    theta = _at_zero(base, theta, scales, constraints)
    if violation(theta, blocks) > CERTIFIED:
        raise EstimationError(
            f"No standard set satisfies the constraints ({status_text(answer.status)}). Widen the mass bounds, boxes, "
            "ellipsoids and hulls, check the total mass and the stated payloads, or lower the margin."
        )
    value = base.map @ theta
    certificate = Certificate(
        smallest=smallest_eigenvalues(base.layout, theta),
        boundary=tuple(_boundary(base, theta, scales, constraints)),
        moved_sigma=data.moved(value),
        # without noise in the data there is no σ to compare with
        cost=(data.residual(value) - data.least) / max(data.least, LEAST_ERROR * data.effort, 1e-300),
        weight=weight,
        status=answer.status,
        iterations=answer.iterations,
        # where gains are estimated, the same efforts correspond to other torques
        cost_unweighted=_price_unweighted(base, information, value, data.value) if free.gains is None else None,
        tolerance=constraints.tolerance,
        moved_robust=None if weight else _moved_robust(data, free, value),
    )
    unsure = ~np.isfinite(free.value) | (np.any(data.shares != np.eye(len(base)), axis=1) & (weight == 0.0))
    covariance, classical = (_without(c, unsure) for c in (free.covariance, free.covariance_classical))
    rule = "least squares over physical robots" + (", pulled to the nominal values" if weight else "")
    return replace(
        free,
        value=value,
        covariance=covariance,
        covariance_classical=classical,
        standard=theta,
        standard_rule=rule,
        certificate=certificate,
        findings=(
            *(finding for finding in free.findings if finding.code != "not-excited"),
            *_findings(base, certificate, unsure, regulariser),
            *_far_off(base, theta),
            *check_stated(base.layout, constraints.tolerance).findings,
        ),
    )


def _price_unweighted(base: BaseParameters, information: Information, value: Array, least: Array) -> float:
    """Increase of the relative error from one set of base values to another."""
    after, before = (score(information, base.theta(x), "").total for x in (value, least))
    return (after - before) / max(before, LEAST_ERROR)


def _moved_robust(data: Data, free: Estimate, value: Array) -> float | None:
    """Distance of base values from those of `free` in its robust standard deviations, with classical correlations.

    None where they differ only by rounding: without noise there is no σ.
    """
    if data.moved(value) <= ROUNDING * data.effort:
        return None
    std = np.sqrt(np.diagonal(free.covariance_classical))
    known = np.isfinite(data.value) & np.isfinite(std) & (std > 0.0)
    own = np.ix_(known, known)
    spread = scatter(np.sqrt(np.diagonal(free.covariance)[known]), free.covariance_classical[own])
    size = np.sqrt(np.diagonal(spread))
    try:
        factor = np.linalg.cholesky(spread / np.outer(size, size))
    except np.linalg.LinAlgError:
        return None
    move = (data.shares @ value - data.value)[known] / size
    return float(np.linalg.norm(solve_triangular(factor, move, lower=True)))


def _without(covariance: Array, unsure: NDArray[np.bool_]) -> Array:
    """The covariance with NaN where the data alone do not determine a parameter."""
    out = covariance.copy()
    out[unsure, :] = out[:, unsure] = np.nan
    return out


def _at_zero(base: BaseParameters, theta: Array, scales: ConeScales, constraints: Constraints) -> Array:
    """theta with drive columns that differ from their bound by no more than the solver's rounding on it."""
    out, held = theta.copy(), held_columns(base.layout)
    for k in constraints.bounded(base.layout):
        if not held[k] and abs(theta[k]) < CERTIFIED * scales.columns[k]:
            out[k] = 0.0
    return out


def _boundary(base: BaseParameters, theta: Array, scales: ConeScales, constraints: Constraints) -> Iterator[str]:
    """Bodies whose scaled pseudo-inertia is singular, and drive columns that are zero."""
    held = held_columns(base.layout)
    for name, columns in link_columns(base.layout).items():
        mass, length = scales.links[name]
        size = np.sqrt(mass) * np.array([length, length, length, 1.0])
        body = pseudo_inertia(theta[columns]) + constraints.tolerance * np.diag([1.0, 1.0, 1.0, 0.0])
        scaled = body / np.outer(size, size)
        if not held[columns].all() and np.linalg.eigvalsh(scaled)[0] < ON_BOUNDARY:
            yield name
    for k in constraints.bounded(base.layout):
        if theta[k] < ON_BOUNDARY * scales.columns[k]:
            yield base.layout.columns[k].name


def _rotors(certificate: Certificate) -> bool:
    return any(name.endswith(".Ia") for name in certificate.boundary)


def _far_off(base: BaseParameters, theta: Array) -> Iterator[Finding]:
    """Links whose mass is far from that of the robot file, which motion alone hardly ever determines."""
    layout, nominal = base.layout, base.layout.nominal
    far = []
    for name, columns in link_columns(layout).items():
        column = layout.columns[columns[9]]
        filed = 0.0 if nominal is None or column.kind != "link" or column.known else float(nominal[columns[9]])
        if filed > 0.0 and not filed / FAR_OFF <= theta[columns[9]] <= FAR_OFF * filed:
            far.append(f"{name} {theta[columns[9]]:.3g} kg ({filed:.3g})")
    if far:
        yield Finding(
            "mass-implausible",
            "warning",
            f"masses far from those of the robot file (in brackets): {', '.join(far)}. Motion hardly determines a link "
            "mass, and a heavier or lighter body may be the nearest physical one",
            fix="the predicted torque is as good; before you use the bodies, set constraints.masses or total_mass, or "
            "a weight ('cross-validation') with the regulariser euclidean or pull-back",
        )


# Advice that keeps bodies off the boundary, by the regulariser that was used; none at weight 0. Entropy needs none.
_KEEPING_OFF = {
    "": "; a weight with the regulariser entropic or pull-back keeps bodies off the boundary",
    "euclidean": "; the regulariser entropic or pull-back keeps bodies off the boundary",
    "pull-back": "; a larger weight, or the regulariser entropic, keeps bodies off the boundary",
}


def _boundary_advice(certificate: Certificate, regulariser: str, noise: bool) -> str:
    cause = "" if noise else "more than noise explains: look for a missing term, a wrong gain, payload or kinematics; "
    sigma = (
        "the estimate with the prior and without constraints (map)"
        if certificate.weight
        else "the unconstrained estimate"
    )
    bodies = any(name in certificate.smallest for name in certificate.boundary)
    return f"{cause}σ is that of {sigma}" + (_KEEPING_OFF.get(regulariser, "") if bodies else "")


def _findings(
    base: BaseParameters, certificate: Certificate, unsure: NDArray[np.bool_], regulariser: str
) -> Iterator[Finding]:
    if unsure.any():
        names = ", ".join(compress(base.names, unsure))
        message = f"this motion does not determine {names} separately: the robot file and the physical constraints do"
        fix = "move the joints concerned faster, further and together"
        yield Finding("not-excited", "warning", message, fix=fix)
    if certificate.boundary:
        # as the command `consistency` judges the unconstrained values: in the larger of the two σ; a prior also moves
        # them
        moved = 0.0 if certificate.moved_robust is None else min(certificate.moved_robust, certificate.moved_sigma)
        noise = moved <= NOISE_SIGMA
        yield Finding(
            "constraints-active",
            "info" if noise else "warning",
            f"on the boundary of the physical set: {', '.join(certificate.boundary)}; "
            f"{certificate.moved_text(len(base))}, {certificate.cost_text}",
            fix=_boundary_advice(certificate, regulariser, noise),
        )
    if certificate.cost > DEAR and not certificate.weight:
        yield Finding(
            "constraints-costly",
            "warning",
            f"no physical robot fits as well: {certificate.cost_text}",
            fix=(ROTORS if _rotors(certificate) else "")
            + "look for a missing term, a wrong gain, a wrong payload or wrong kinematics; check the constraints",
        )
    if certificate.status not in GOOD:
        message = f"the solver stopped early ({status_text(certificate.status)}): a better set may exist"
        advice = "state mass bounds or a prior, or a small tolerance"
        yield Finding("solver-inaccurate", "warning", message, fix=advice)
