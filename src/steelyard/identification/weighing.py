"""weigh_payload: an unknown payload on a robot that is already identified, from runs that carry it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from steelyard._arrays import Array, single_threaded
from steelyard.errors import EstimationError, ModelError, choices
from steelyard.findings import Finding
from steelyard.identification.bodies import BODY, BODY_UNITS, body_slope, body_values, deviations
from steelyard.identification.payload_fit import Balance, Fit, balance_of, fitted, left_out, run_weights
from steelyard.identification.result import Identification
from steelyard.model.model import Model
from steelyard.model.parameters import INERTIAL
from steelyard.model.payload import Payload
from steelyard.physical.consistency import LinkVerdict, check_body, com_inertia, second_moments
from steelyard.physical.nearest import NOISE_SIGMA
from steelyard.regression.observe import Progress, observe
from steelyard.regression.problem import Problem
from steelyard.regression.scores import Score, score
from steelyard.signals.samples import same_log

# What may be fitted again on the loaded runs, by the names of its terms: friction changes from day to day.
FREE = {
    "offset": ("offset",),
    "friction": (
        "viscous", "coulomb", "asymmetric-viscous", "asymmetric-coulomb", "power-law", "stribeck", "load",
        "bearing", "dahl",
    ),
}  # fmt: skip
# A joint whose error is worse than in the robot's fit by this factor and difference was measured on another robot or
# day, or the payload is not on that link.
_WORSE, _WORSE_BY = 2.0, 0.01
# A mass within this many σ of zero counts as zero.
_SEEN_SIGMA = 2.0

_UPPER = np.triu_indices(3)


@dataclass(frozen=True)
class Quantity:
    """A value of the payload: its σ from the loaded runs (leave-one-block-out), and the σ added by the robot's own."""

    name: str
    value: float
    std_log: float
    std_robot: float
    unit: str

    @property
    def std(self) -> float:
        """Both combined: the runs that identified the robot and those that carry the payload are independent."""
        return float(np.hypot(self.std_log, self.std_robot))


class Refitted(NamedTuple):
    """A column of the robot that was estimated again: its value as identified, and value and σ on the loaded runs."""

    identified: float
    refitted: float
    std: float
    unit: str


@dataclass(frozen=True)
class PayloadResult:
    """A weighed payload: ten parameters about its own frame, NaN where the motion does not excite them.

    value (10,); covariance_log (10, 10) by leaving out `clusters` blocks of the loaded runs in turn; covariance_robot
    (10, 10) from the covariance of the robot's parameters and gains, and from the stated σ of gains and of known
    parameters.
    relative_error with the payload, `unloaded` without it, `fitted` that of the robot where it was identified.
    `unaffected` are the joints on which a payload on this link exerts no torque; `refitted` are the columns that were
    estimated again.
    """

    payload: Payload
    robot: str
    value: Array
    covariance_log: Array
    covariance_robot: Array
    clusters: int
    relative_error: Score
    unloaded: Score
    fitted: Score
    runs: tuple[str, ...]
    unaffected: tuple[str, ...] = ()
    refitted: dict[str, Refitted] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()

    @cached_property
    def parameters(self) -> tuple[Quantity, ...]:
        """The ten parameters XX … M about the payload's frame."""
        units = [column.unit for column in self.payload.columns]
        return self._quantities(INERTIAL, self.value, np.eye(10), units)

    @cached_property
    def body(self) -> tuple[Quantity, ...]:
        """Mass, centre of mass c = mc / M and inertia about it, J = I − (‖mc‖² 1 − mc mcᵀ) / M, by the delta method:

        cov = H C Hᵀ with H = ∂(M, c, J)/∂(ten parameters).
        """
        return self._quantities(BODY, body_values(self.value), self._slope, BODY_UNITS)

    @cached_property
    def _slope(self) -> Array:
        return body_slope(self.value)

    def _quantities(
        self, names: Sequence[str], value: Array, slope: Array, units: Sequence[str]
    ) -> tuple[Quantity, ...]:
        spreads = (deviations(slope, c).tolist() for c in (self.covariance_log, self.covariance_robot))
        return tuple(Quantity(*row) for row in zip(names, value.tolist(), *spreads, units, strict=True))

    @cached_property
    def physical(self) -> LinkVerdict | None:
        """Whether the ten parameters are those of a physical body; None where some have no value."""
        if not np.all(np.isfinite(self.value)):
            return None
        return check_body(self.payload.name, self.value)

    @cached_property
    def unphysical(self) -> Quantity | None:
        """The value that is not physical: the mass, else the smallest second moment, below zero; None without one.

        The smallest second moment about the centre of mass is the smallest eigenvalue λ of ½ tr(J) 1 − J, with σ(λ) to
        first order.
        """
        verdict = self.physical
        if verdict is None or verdict.passes:
            return None
        if verdict.mass <= 0.0:
            return self.body[0]
        values, vectors = np.linalg.eigh(second_moments(com_inertia(self.value)))
        u = vectors[:, 0]
        # an off-diagonal entry of J occurs twice in uᵀ J u
        slope = (0.5 * np.eye(3) - np.outer(u, u) * (2.0 - np.eye(3)))[_UPPER] @ self._slope[4:]
        [smallest] = self._quantities(["smallest second moment"], values[:1], slope[None], ["kg.m2"])
        return smallest

    @property
    def unphysical_by(self) -> float:
        """Distance of the ten parameters from a physical body in σ; 0 for a physical one, NaN without a verdict."""
        if self.physical is None:
            return np.nan
        if self.unphysical is None:
            return 0.0
        # the wrong value may have been stated as exact
        return -self.unphysical.value / self.unphysical.std if self.unphysical.std else np.inf

    @property
    def unseen(self) -> bool:
        """Whether the mass is within two σ of zero."""
        mass = self.body[0]
        return "M" not in self.payload.known and abs(mass.value) < _SEEN_SIGMA * mass.std

    @property
    def unexplained(self) -> tuple[str, ...]:
        """Joints on which the error is more than twice that of the fit, and by more than 1 % of the effort."""
        fitted = self.fitted.joints
        return tuple(
            joint
            for joint, error in self.relative_error.joints.items()
            if error > max(_WORSE * fitted[joint], fitted[joint] + _WORSE_BY)
        )

    @property
    def verdict(self) -> str:
        """The result as one sentence."""
        mass, placed = self.body[0], f"'{self.payload.name}' on {self.payload.link}"
        number = f"{mass.value:.4g} ± {mass.std:.2g} kg"
        falls = f"the error falls from {self.unloaded.total:.1%} to {self.relative_error.total:.1%} of the effort"
        if self.unexplained:
            left = f"leaves more than twice the error of the robot fit on {', '.join(self.unexplained)}"
            if "M" in self.payload.known or not np.isfinite(mass.value):
                return f"{placed} {left}: {falls}."
            weighs = "would weigh" if set(self.unexplained) & set(self.unaffected) else "weighs"
            return f"{placed} {weighs} {number}, but {left}: {falls}."
        if self.unseen:
            return f"{placed}: no payload detected ({number}); without one the error is {self.unloaded.total:.1%}."
        weighs = f"weighs {number}" if np.isfinite(mass.value) else "has no determined mass"
        if "M" in self.payload.known:
            weighs = f"weighs {mass.value:.4g} kg as stated"
        return f"{placed} {weighs}: {falls}."


@single_threaded
def weigh_payload(
    result: Identification,
    problem: Problem,
    payload: Payload,
    free: Sequence[str] = (),
    progress: Progress | None = None,
) -> PayloadResult:
    """Weigh the payload of the problem's runs, with the robot as identified (P2 eq. 10 with χ known).

        P_j χ_l = k_j e_j − W_j χ̂      for every motor or joint j,   χ̂_l = argmin Σ_(run, j) ‖…‖² / σ²_(run, j)

    P are the columns of the link that carries it, in the payload's frame; e the stated effort and k its identified
    factor, 1 where gains were stated. `problem` has the result's robot, terms and filters; its rest mask should be the
    fit's, in rad/s. `free` names the terms that are fitted again together with the payload: "offset", "friction".

    Load friction stays that of the robot alone: the coefficient of a joint that carried almost no load in the fit
    cannot be applied to its present load.
    """
    model = Model(problem.model.robot, problem.model.terms, result.carried)
    _check(result, model, free)
    payload = Model(model.robot, payloads=[payload]).payloads[0]
    if set(payload.known) == set(INERTIAL):
        raise EstimationError(
            f"All ten parameters of payload '{payload.name}' are known, so nothing is left to identify. Remove the "
            "ones to weigh from what is known."
        )
    loaded = replace(problem, model=model, motor_rows=result.gains is not None, factor=())
    doubt = (problem.drives and problem.drives.gain_std) or 0.0
    balance = balance_of(result, observe(loaded, progress=progress), payload, _free_columns(model, free), doubt)
    weights = run_weights(balance)
    fit = fitted(balance, balance.stacked(weights, balance.information.times))
    found = _result(result, balance, fit, left_out(balance, weights, fit), loaded.mask)
    findings = _run_findings(result, problem) + _gain_findings(result, problem, found)
    return replace(found, findings=findings + _plausibility_findings(result, found))


def _check(result: Identification, model: Model, free: Sequence[str]) -> None:
    own = tuple(column.name for column in result.base.layout.columns if column.kind != "payload")
    if result.robot != model.robot.name or own != model.layout.names:
        raise ModelError(
            f"The result is of robot '{result.robot}' with {len(own)} columns, the problem of '{model.robot.name}' "
            f"with {len(model.layout)}: they must be the same robot and terms."
        )
    for asked in free:
        if asked not in FREE:
            raise ModelError(choices("part to let free", asked, FREE))
    if result.gains is not None and not np.all(np.isfinite(result.gains.factor)):
        lost = [j for j, k in zip(result.gains.joints, result.gains.factor, strict=True) if not np.isfinite(k)]
        raise EstimationError(
            f"The result has no drive gain for {', '.join(lost)}: identify the gains first, with a known payload."
        )


def _free_columns(model: Model, free: Sequence[str]) -> tuple[str, ...]:
    chosen = [term for term in model.terms if any(term.name in FREE[asked] for asked in free)]
    if free and not chosen:
        raise ModelError(
            f"The robot was identified without terms of {' and '.join(free)}: there is nothing to refit. Remove --free."
        )
    return tuple(dict.fromkeys(entry.column.name for term in chosen for entry in term.entries(model.robot)))


def _result(result: Identification, balance: Balance, fit: Fit, spread: tuple[Array, int], mask: str) -> PayloadResult:
    unknown, given = np.flatnonzero(balance.unknown), np.flatnonzero(~balance.unknown)
    log = np.zeros((len(fit.z),) * 2)
    log[np.ix_(unknown, unknown)] = spread[0]
    # dz/dz_given: the identity for the given entries, and −U⁺ R_given for the unknowns found from them
    slope = np.zeros((len(fit.z), len(given)))
    slope[given] = np.eye(len(given))
    slope[unknown] = -fit.inverse @ fit.rows[:, given]
    robot = slope @ balance.covariance[np.ix_(given, given)] @ slope.T
    z, dark = fit.z.copy(), unknown[~fit.shown]
    z[dark] = np.nan
    for covariance in (log, robot):
        covariance[dark] = covariance[:, dark] = np.nan
    let = range(10, 10 + len(balance.free))
    before = dict(zip(result.base.names, result.value.tolist(), strict=True))
    units = {column.name: column.unit for column in balance.information.layout.columns}
    torques = balance.information.scaled(-fit.z[len(fit.z) - len(balance.information.joints) :])
    theta = np.array([result.theta[result.base.layout.index(name)] for name in balance.information.layout.names])
    loaded = theta.copy()
    for k, name in zip(let, balance.free, strict=True):
        loaded[balance.information.layout.index(name)] = fit.z[k]
    return PayloadResult(
        payload=balance.payload,
        robot=result.robot,
        value=z[:10],
        covariance_log=log[:10, :10],
        covariance_robot=robot[:10, :10],
        clusters=spread[1],
        relative_error=score(torques, loaded + balance.wide[:, :10] @ fit.z[:10], mask),
        unloaded=score(torques, theta, mask),
        fitted=result.relative_error,
        runs=tuple(balance.information.block_rows),
        unaffected=balance.unaffected,
        refitted={
            name: Refitted(before[name], float(z[k]), float(np.sqrt(log[k, k] + robot[k, k])), units[name])
            for k, name in zip(let, balance.free, strict=True)
        },
    )


# --- Findings ---------------------------------------------------------------------------------------------------------


def _run_findings(result: Identification, problem: Problem) -> tuple[Finding, ...]:
    """Findings on the runs themselves, and on runs that were also used in the fit."""
    out = list(problem.findings)
    for run in problem.runs:
        used = next((one for one in result.runs if one.role == "identify" and same_log(one, run)), None)
        if used is not None:
            message = (
                f"'{run.name}' was used to identify the robot, with load \"{used.load}\": the robot "
                "parameters already include it"
            )
            advice = "identify the robot without this run, or declare the payload in the project"
            out.append(Finding("payload-log-in-fit", "warning", message, run.name, advice))
    return tuple(out)


def _gain_findings(result: Identification, problem: Problem, found: PayloadResult) -> tuple[Finding, ...]:
    """Finding on gains whose error σ does not contain: stated ones, of currents or counts, without a deviation."""
    drives = problem.drives
    if result.gains is not None or drives is None or drives.gain_std is not None or set(drives.gain_unit) == {"1"}:
        return ()
    message = "σ takes the stated gains as exact: if all are wrong by 5 %, so are the mass and the first moments"
    advice = "state their relative deviation: gain_std = 0.05 in [channels] effort; or identify them from a known mass"
    return (Finding("payload-gains-exact", "info", message, found.payload.name, advice),)


def _plausibility_findings(result: Identification, found: PayloadResult) -> tuple[Finding, ...]:
    """Findings on implausible values."""
    name, out = found.payload.name, []
    lost = [
        column.name
        for column, x in zip((result.base.layout.columns[k] for k in result.base.kept), result.value, strict=True)
        if not np.isfinite(x) and column.kind != "payload"
    ]
    if lost:
        message = f"the robot fit has no value for {', '.join(lost)}: their effect is attributed to the payload"
        advice = "identify the robot with a motion that excites them"
        out.append(Finding("payload-robot-uncertain", "warning", message, name, advice))
    shown = np.isfinite(found.value)
    if not np.all(np.isfinite(np.diagonal(found.covariance_robot)[shown])):
        message = "the fit of the robot has no σ for some parameters or gains, so the payload has none either"
        advice = "identify the robot from more motion, especially with its payload"
        out.append(Finding("payload-robot-uncertain", "warning", message, name, advice))
    dark = [symbol for symbol, x in zip(INERTIAL, found.value, strict=True) if not np.isfinite(x)]
    if dark:
        message = f"these runs do not determine {', '.join(dark)} of the payload, alone or separately from each other"
        advice = "move the joints that turn it against gravity and about all axes, or state what is known"
        out.append(Finding("payload-not-excited", "warning", message, name, advice))
    if not found.clusters:
        message = (
            "too few blocks of time: the error bars of the loaded runs are the classical ones, which are too narrow"
        )
        out.append(Finding("few-blocks", "warning", message, name, "record longer"))
    if found.unseen:
        mass = found.body[0]
        message = f"the mass is within two σ of zero: {mass.value:.3g} ± {mass.std:.2g} kg"
        out.append(
            Finding("payload-not-detected", "info", message, name, "check that this is the log with the payload")
        )
    if found.unexplained:
        out.append(_badly(found))
    # a mass of zero need not be physical
    if found.unphysical is not None and not found.unseen:
        out.append(_not_physical(found, found.unphysical))
    return tuple(out)


def _badly(found: PayloadResult) -> Finding:
    """Joints that the payload does not explain, and whether it could."""
    errors, fitted = found.relative_error.joints, found.fitted.joints
    told = (f"{errors[joint]:.1%} on {joint} ({fitted[joint]:.1%} in the fit)" for joint in found.unexplained)
    message = f"the error with the payload is {', '.join(told)}"
    beyond = [joint for joint in found.unexplained if joint in found.unaffected]
    advice = "record both logs on one day, use --free friction, or check the link"
    if beyond:
        advice = (
            f"check the link: {', '.join(beyond)} cannot be loaded by a payload on {found.payload.link}, but their "
            "efforts change in these runs"
        )
    return Finding("payload-poor-fit", "warning", message, found.payload.name, advice)


def _not_physical(found: PayloadResult, unphysical: Quantity) -> Finding:
    """Finding on ten parameters of no physical body: the value that shows it, and what remains usable."""
    noise = found.unphysical_by <= NOISE_SIGMA
    message = (
        f"the ten parameters are not those of a physical body: {unphysical.name} {unphysical.value:.2g} ± "
        f"{unphysical.std:.2g} {unphysical.unit}, {found.unphysical_by:.2g} σ below zero"
    )
    if found.unexplained:
        advice = "fix what the finding payload-poor-fit reports first"
    elif noise:
        message += ", which noise explains"
        off = ", ".join(f"{1e3 * one.std:.2g}" for one in found.body[1:4])
        advice = (
            f"do not use the six inertias; mass (± {found.body[0].std:.2g} kg) and centre of mass (± {off} mm) are as "
            "good as their error bars"
        )
    else:
        message += ", more than noise explains"
        advice = "check for changed friction (--free friction), a wrong link, or a payload that was not rigidly fixed"
    return Finding("payload-not-physical", "info" if noise else "warning", message, found.payload.name, advice)
