"""identify: from a problem to an identification. The whole story on one page."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version

import numpy as np

from steelyard._arrays import Array, single_threaded
from steelyard.errors import DataError, EstimationError
from steelyard.estimators import WLS, Estimate, Estimator
from steelyard.estimators.estimator import estimated, finds_gains, in_torques, options_of
from steelyard.estimators.least_squares import joint_deviations
from steelyard.estimators.simulated.base import SimulatingEstimator
from steelyard.estimators.standard_set import closest, closest_on_essential, minimum_norm
from steelyard.findings import Finding
from steelyard.identification.first_fit import with_load_to_scale
from steelyard.identification.legs import compare_legs, leg_findings
from steelyard.identification.loop_findings import loop_findings
from steelyard.identification.result import DriveGains, Identification, RunRecord
from steelyard.model.base_parameters import BaseParameters, base_parameters
from steelyard.physical.prior import Widths, column_widths
from steelyard.regression.information import Information
from steelyard.regression.observe import Progress, observe
from steelyard.regression.problem import Problem, overlap
from steelyard.regression.scores import score
from steelyard.signals.channels import gains_needed

# A fit that leaves more than this of the effort has the wrong robot, units or loads.
HALF = 0.5


@single_threaded
def identify(
    problem: Problem,
    estimator: Estimator | None = None,
    information: Information | None = None,
    held_out: Problem | None = None,
    progress: Progress | None = None,
    base: BaseParameters | None = None,
) -> Identification:
    """Base parameters of the problem's model: observe once (or reuse `information`), estimate, score, report findings.

    `held_out` holds other runs of the same model, which are only scored. `base` of the problem's model is made here
    unless it is given.
    """
    estimator = estimator or WLS()
    if problem.drives is not None and problem.drives.gain is None and not finds_gains(estimator):
        raise EstimationError(gains_needed(estimator.name))
    for run in held_out.runs if held_out else ():
        for fitted in problem.runs:
            if overlap(run, fitted):
                raise DataError(f"Run '{run.name}' is not unseen: it is the data of the fitted run '{fitted.name}'.")
    if information is None:
        problem = with_load_to_scale(problem, estimator, progress)
        information = observe(problem, progress=progress)
    base = base_parameters(problem.model) if base is None else base
    if isinstance(estimator, SimulatingEstimator):
        estimate = estimator.estimate_by_simulation(problem, base, information, progress)
    else:
        estimate = estimated(estimator, base, information)

    theta, nominal = base.theta(estimate.value), base.layout.nominal
    torques, other = in_torques(information, estimate), None
    if held_out is not None:
        same = replace(held_out, model=problem.model, delay=problem.delay, motor_rows=problem.motor_rows)
        other = in_torques(observe(same, progress=progress), estimate)
    standard, rule = _standard(base, estimate, torques)
    legs = compare_legs(base, problem.model.robot, estimate.value, estimate.covariance, estimate.clusters)
    result = Identification(
        robot=problem.model.robot.name,
        estimator=estimator.name,
        estimator_options=options_of(estimator),
        base=base,
        value=estimate.value,
        covariance=estimate.covariance,
        covariance_classical=estimate.covariance_classical,
        clusters=estimate.clusters,
        condition=estimate.condition,
        condition_scaled=estimate.condition_scaled,
        relative_error=score(torques, theta, problem.mask),
        nominal=None if nominal is None else score(torques, nominal, problem.mask),
        unseen=None if other is None else score(other, theta, problem.mask),
        unseen_nominal=None if other is None or nominal is None else score(other, nominal, problem.mask),
        runs=tuple(
            RunRecord(r.name, r.role, r.load, r.source, r.sha256, r.rate, (*r.history, problem.row_rule(r)))
            for r in (*problem.runs, *(held_out.runs if held_out else ()))
        ),
        cancelled=tuple(name for name, gone in zip(base.names, estimate.cancelled, strict=True) if gone),
        standard=standard,
        standard_rule=rule,
        certificate=estimate.certificate,
        carried=problem.model.carried,
        gains=_gains(problem, estimate),
        legs=legs,
        findings=problem.findings
        + tuple(loop_findings(problem.model, problem.runs))
        + _empty_runs(problem, information)
        + estimate.findings
        + leg_findings(legs),
        versions=_versions(),
    )
    return _with_doubts(result)


def _gains(problem: Problem, estimate: Estimate) -> DriveGains | None:
    found = estimate.gains
    if found is None:
        return None
    return DriveGains(
        problem.model.robot.axis_names,
        found.factor,
        problem.drives,
        found.covariance,
        found.covariance_classical,
        found.bootstrap,
        found.hangs,
    )


def _empty_runs(problem: Problem, information: Information) -> tuple[Finding, ...]:
    present = {key.run for key in information.blocks}
    return tuple(
        Finding(
            "empty-run",
            "warning",
            f"run '{run.name}' gives no rows: too short for the filters, outside its window, or at rest",
            run.name,
            "remove it, or mend what keeps its rows out",
        )
        for run in problem.runs
        if run.name not in present
    )


def _standard(base: BaseParameters, estimate: Estimate, information: Information) -> tuple[Array | None, str]:
    """A full set of standard parameters with the estimate's base values, and the rule that chose it (P0 §IV)."""
    if estimate.standard is not None:
        return estimate.standard, estimate.standard_rule
    nominal = base.layout.nominal
    if not np.all(np.isfinite(estimate.value)):
        return None, "none: some base parameters have no value"
    if nominal is None:
        return minimum_norm(base, estimate.value), "smallest norm (P0 eq. 26): the robot file has no nominal inertias"
    if estimate.cancelled.any():
        essential = [name for name, gone in zip(base.names, estimate.cancelled, strict=True) if not gone]
        information = information.without_known()
        weights = 1.0 / joint_deviations(information, base)
        found = closest_on_essential(information, base, essential, nominal, weights)
        return found, "nominal values, corrected on the essential columns (P0 eq. 32)"
    width = column_widths(base.layout, nominal, Widths())
    width = np.where(np.isfinite(width) & (width > 0), width, 1.0)
    return closest(
        base, estimate.value, nominal, width
    ), "closest to the nominal values in units of their widths (P0 eq. 30)"


def _with_doubts(result: Identification) -> Identification:
    """Add what the numbers themselves give away."""
    doubts = []
    weak = [n for n, r in zip(result.base.names, result.relative_std, strict=True) if not r < 0.5 and np.isfinite(r)]
    if weak:
        doubts.append(
            Finding(
                "weak-parameters",
                "info",
                f"{len(weak)} base parameters have a standard deviation above half their value: {', '.join(weak)}",
                fix="they are near zero, or the motion hardly shows them; do not read their values one by one",
            )
        )
    pairs = result.strong_correlations()
    if pairs:
        shown = ", ".join(f"{a} ~ {b} ({rho:+.3f})" for a, b, rho in pairs[:5])
        doubts.append(
            Finding("correlated", "info", f"{len(pairs)} pairs of parameters are hard to tell apart: {shown}")
        )
    doubts += _negative_drives(result)
    if result.relative_error.total > HALF:
        doubts.append(
            Finding(
                "explains-little",
                "warning",
                f"the fit explains only {max(0.0, 1 - result.relative_error.total):.0%} of the effort it was fitted to",
                fix="check units, signs and columns (steelyard check), loads of the runs, what is stated of payloads",
            )
        )
    if result.gains is not None and any(c.symbol.startswith("Fl") for c in result.base.layout.columns):
        doubts.append(
            Finding(
                "load-friction-and-gains",
                "warning",
                "load friction grows with the load as a gain or a payload's mass does: each can take the other's part, "
                "and σ does not show it",
                fix="identify without the term 'load' too, and take the difference as part of the error",
            )
        )
    fitted, unseen = result.relative_error.total, result.unseen.total if result.unseen else 0.0
    if unseen > max(2.0 * fitted, fitted + 0.05):
        doubts.append(
            Finding(
                "does-not-transfer",
                "warning",
                f"the error on unseen runs is {unseen:.1%}, against {fitted:.1%} where it was fitted",
                fix="fit on more and richer motion, lean on a prior (estimator map), and check that the runs are alike",
            )
        )
    # below 1e-9 both explain everything and differ by rounding
    if result.nominal is not None and result.relative_error.total > max(result.nominal.total, 1e-9):
        doubts.append(
            Finding(
                "worse-than-nominal",
                "warning",
                "the nominal model explains these rows better than the fit",
                fix="check the estimator's weights and the channel map",
            )
        )
    return result.with_findings(doubts)


def _negative_drives(result: Identification) -> list[Finding]:
    """Friction and rotor inertia cannot be negative: beyond three σ it is a wrong sign, unit or term."""
    wrong = [
        f"{name} = {value:.4g} ± {std:.2g}"
        for name, value, std, group in zip(
            result.base.names, result.value, result.std, result.base.regroupings.values(), strict=True
        )
        if name.rpartition(".")[2] in ("Ia", "Fv", "Fc", "Fcp", "Fcn") and len(group) == 1 and value < -3.0 * std
    ]
    if not wrong:
        return []
    return [
        Finding(
            "negative-drive",
            "warning",
            f"drive-chain parameters are negative beyond doubt: {', '.join(wrong)}",
            fix="check sign, unit and column of the effort; leave out 'rotor' with joint torque sensors",
        )
    ]


@cache
def _versions() -> dict[str, str]:
    out = {}
    for package in ("steelyard", "numpy", "scipy", "numba", "polars"):
        try:
            out[package] = version(package)
        except PackageNotFoundError:
            out[package] = "unknown"
    return out
