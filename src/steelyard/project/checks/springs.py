"""Springs and balancers: whether a log can separate their columns from gravity and from each other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from steelyard._arrays import Array
from steelyard.errors import EstimationError
from steelyard.estimators import WLS
from steelyard.estimators.estimator import Estimate
from steelyard.estimators.least_squares import joint_deviations
from steelyard.findings import Finding
from steelyard.model.base_parameters import BaseParameters, base_parameters
from steelyard.model.terms import Compensator, Springs
from steelyard.project.checks.channel_map.trial import REST, Trial
from steelyard.regression.information import Information, stacked
from steelyard.regression.observe import observe
from steelyard.regression.problem import Problem

# A column is determined if its σ is below this fraction of its size: else the log is no better than a robot file, which
# a prior trusts to the same width.
TOLD = Springs.width
# Number of parameters listed as indistinguishable from a spring.
_MOST_NAMED = 3


def spring_findings(trial: Trial) -> Iterator[Finding]:
    """One finding for every column of a spring or compensator, from weighted least squares without a prior."""
    model = trial.model
    terms = [term for term in model.terms if isinstance(term, Compensator | Springs)]
    joints: dict[str, list[str]] = {}
    for entry in (entry for term in terms for entry in term.entries(model.robot.tree)):
        joints.setdefault(entry.column.name, []).append(model.robot.joint_names[entry.row])
    if not joints:
        return
    base = base_parameters(model)
    try:
        information = _information(trial)
        estimate = WLS().estimate(None, base, information)
        weights = np.nan_to_num(1.0 / joint_deviations(information, base))
    except EstimationError as error:
        told = f"it is unknown whether {', '.join(joints)} can be separated from gravity: {error}"
        yield Finding("spring-separability", "warning", told, ", ".join(joints))
        return
    columns = stacked(information, base.kept, weights)[:, :-1]
    for name, moving in joints.items():
        kept = name in base.names
        yield _measured(base, estimate, columns, name, ", ".join(moving)) if kept else _structural(base, name)


def _information(trial: Trial) -> Information:
    """The trial's rows as `Information`, without those of joints whose signals are bad."""
    runs = [trace.samples(trial.model.robot.axis_names, f"trace {k}") for k, trace in enumerate(trial.traces)]
    information = observe(Problem(trial.model, runs, trial.band, None, REST))
    return replace(information, blocks={key: t for key, t in information.blocks.items() if key.joint in trial.active})


def _measured(base: BaseParameters, estimate: Estimate, columns: Array, name: str, joints: str) -> Finding:
    """The data on a base parameter: value, σ by leave-one-block-out, and the parameters correlated with it."""
    k = base.names.index(name)
    column, value, sigma = base.layout.columns[base.kept[k]], estimate.value[k], np.sqrt(estimate.covariance[k, k])
    leaning = "use its nominal value" if column.nominal else "give a nominal value and use it"
    fix = f"move {joints} over more of the range and at several speeds; or {leaning} with the estimator 'map'"
    if not np.isfinite(sigma):
        told = f"this log does not determine {name} separately: too little motion of {joints}, or only in a short part"
        return Finding("spring-separability", "warning", told, name, fix)
    # the smaller of the two: parameters that cannot be separated diverge to large values
    size = min(abs(value), abs(column.nominal or value))
    unit = "" if column.unit == "1" else f" {column.unit}"
    share = f"{sigma / size:.1%} of {'it' if size == abs(value) else 'the nominal value'}"
    found = (
        f"{value:.4g} ± {sigma:.2g}{unit}, σ is {share}; sine of its angle to all other columns "
        f"{_sine(columns, k):.2g}; correlated estimates: {_correlated(base, estimate, k)}"
    )
    if sigma < TOLD * size:
        return Finding("spring-separability", "info", f"this log separates {name} from gravity: {found}", name)
    return Finding(
        "spring-separability", "warning", f"this log cannot separate {name} from gravity: {found}", name, fix
    )


def _correlated(base: BaseParameters, estimate: Estimate, k: int) -> str:
    """The parameters whose estimates are most correlated with that of k (classical covariance)."""
    deviation = np.sqrt(np.diagonal(estimate.covariance_classical))
    with np.errstate(invalid="ignore", divide="ignore"):
        correlation = np.nan_to_num(estimate.covariance_classical[k] / (deviation * deviation[k]))
    nearest = [int(i) for i in np.argsort(-np.abs(correlation), kind="stable") if i != k][:_MOST_NAMED]
    return ", ".join(f"{base.names[i]} (correlation {correlation[i]:+.3f})" for i in nearest)


def _sine(columns: Array, k: int) -> float:
    """Sine of the angle of column k to the span of all others: 1/sine² is its variance inflation."""
    norms = np.linalg.norm(columns, axis=0)
    unit = columns / np.where(norms > 0.0, norms, 1.0)
    others = np.delete(unit, k, axis=1)
    return float(np.linalg.norm(unit[:, k] - others @ np.linalg.lstsq(others, unit[:, k], rcond=None)[0]))


def _structural(base: BaseParameters, name: str) -> Finding:
    """Finding on a column that no motion can separate from others, or that has no effect."""
    sums = zip(base.names, base.expressions, strict=True)
    groups = [f"{lead} ({shown})" for lead, shown in sums if name in base.regroupings[lead]]
    if not groups:
        fix = "check its anchors: no joint changes the length of the spring"
        return Finding("spring-separability", "warning", f"{name} has no effect on any joint", name, fix)
    return Finding(
        "spring-separability",
        "warning",
        f"no motion can separate {name} from other parameters: it is part of {'; '.join(groups)}",
        name,
        "use those base parameters as linear combinations, or remove one of the terms",
    )
