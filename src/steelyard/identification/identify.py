"""identify: from a problem to an identification, the main algorithm."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version

import numpy as np

from steelyard._arrays import Array, single_threaded
from steelyard.errors import DataError, EstimationError
from steelyard.estimators import WLS, Estimate, Estimator
from steelyard.estimators.estimator import GAINS, SIMULATION, estimated, in_torques, needs, options_of
from steelyard.estimators.least_squares import joint_deviations
from steelyard.estimators.standard_set import closest, closest_on_essential, minimum_norm
from steelyard.identification.expected import expected_score
from steelyard.identification.first_fit import finds_scale, with_load_to_scale
from steelyard.identification.legs import compare_legs, leg_findings, loop_findings
from steelyard.identification.plausibility import (
    empty_runs,
    payload_contradictions,
    repeated_motions,
    with_plausibility_findings,
)
from steelyard.identification.result import DriveGains, Identification, RunRecord
from steelyard.model.base_parameters import BaseParameters, base_parameters
from steelyard.physical.prior import Widths, column_widths
from steelyard.regression.information import Information
from steelyard.regression.observe import Progress, observe
from steelyard.regression.problem import Problem, overlap
from steelyard.regression.scores import covariance_factor, residual_deviation, score
from steelyard.signals.channels import gains_needed


@single_threaded
def identify(
    problem: Problem,
    estimator: Estimator | None = None,
    information: Information | None = None,
    held_out: Problem | None = None,
    progress: Progress | None = None,
    held_out_information: Information | None = None,
) -> Identification:
    """Base parameters of the problem's model: observe once (or reuse `information`), estimate, score, report findings.

    `held_out` holds other runs of the same model, which are only scored; `held_out_information` is reused if given.
    """
    estimator = estimator or WLS()
    if problem.drives is not None and problem.drives.gain is None and not finds_scale(estimator):
        raise EstimationError(gains_needed(estimator.name))
    for run in held_out.runs if held_out else ():
        for fitted in problem.runs:
            if overlap(run, fitted):
                raise DataError(
                    f"Run '{run.name}' is not unseen: it has the same data as the fitted run '{fitted.name}'."
                )
    if information is None:
        problem = with_load_to_scale(problem, estimator, progress)
        information = observe(problem, progress=progress)
    base = base_parameters(problem.model)
    estimate = estimated(estimator, problem, base, information, progress)

    theta, nominal = base.theta(estimate.value), base.layout.nominal
    torques, other = in_torques(information, estimate), None
    if held_out is not None:
        same = replace(held_out, model=problem.model, delay=problem.delay, motor_rows=problem.motor_rows)
        other = in_torques(held_out_information or observe(same, progress=progress), estimate)
    expected, how = expected_score(problem, base, information, estimator, estimate)
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
            RunRecord(r.name, r.role, r.load, r.source, r.sha256, r.rate, (*r.history, problem.row_rule(r)), r.part)
            for r in (*problem.runs, *(held_out.runs if held_out else ()))
        ),
        expected=expected,
        cancelled=tuple(name for name, gone in zip(base.names, estimate.cancelled, strict=True) if gone),
        standard=standard,
        standard_rule=rule,
        certificate=estimate.certificate,
        carried=problem.model.carried,
        gains=_gains(problem, estimate),
        legs=legs,
        findings=problem.findings
        + tuple(loop_findings(problem.model, problem.runs))
        + empty_runs(problem, information)
        + estimate.findings
        + leg_findings(legs)
        + how
        + repeated_motions(problem.runs, held_out.runs if held_out else ())
        + (
            () if needs(estimator, GAINS) or needs(estimator, SIMULATION) else payload_contradictions(base, information)
        ),
        versions=_versions(),
        residual_std=residual_deviation(
            torques, base.kept, theta, covariance_factor(estimate.covariance, estimate.covariance_classical)
        ),
    )
    return with_plausibility_findings(result)


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
        found.dependences,
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


@cache
def _versions() -> dict[str, str]:
    out = {}
    for package in ("steelyard", "numpy", "scipy", "numba", "polars"):
        try:
            out[package] = version(package)
        except PackageNotFoundError:
            out[package] = "unknown"
    return out
