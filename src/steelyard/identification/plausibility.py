"""Doubts: findings on implausible values of an identification."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from steelyard._arrays import Array
from steelyard.estimators.least_squares import CLUSTERS, DATA_TOLERANCE, FEWEST_CLUSTERS, joint_deviations
from steelyard.findings import Finding
from steelyard.identification.result import Identification
from steelyard.identification.term_selection import same_motion
from steelyard.identification.verdict import worse
from steelyard.model.base_parameters import BaseParameters
from steelyard.model.terms.registry import nonnegative_symbols
from steelyard.physical.certificates import NEGATIVE_SIGMAS, surely_negative
from steelyard.regression.information import KNOWN, Information, Time, triangular
from steelyard.regression.problem import Problem
from steelyard.regression.statistics import jackknife_deviation
from steelyard.signals.samples import Samples, same_log

# A relative error above this means the wrong robot, units or loads.
HALF = 0.5
# The stated parameters of a payload are contradicted if they are off by this share, and by this many deviations.
PAYLOAD_SHARE, PAYLOAD_SURE = 0.2, 4.0


def empty_runs(problem: Problem, information: Information) -> tuple[Finding, ...]:
    """Runs without rows."""
    present = {key.run for key in information.blocks}
    return tuple(
        Finding(
            "empty-run",
            "warning",
            f"run '{run.name}' gives no rows: too short for the filters, outside its window, or at rest",
            run.name,
            "remove the run, or correct its window, 'rest' or the filters",
        )
        for run in problem.runs
        if run.name not in present
    )


def repeated_motions(fitted: Sequence[Samples], others: Sequence[Samples]) -> tuple[Finding, ...]:
    """Runs among `others` that repeat a fitted motion in another recording."""
    out = []
    for run in others:
        twin = next((one for one in fitted if same_motion(run, one) and not same_log(run, one)), None)
        if twin is not None:
            message = f"'{run.name}' repeats the motion of '{twin.name}': its error says little about other motion"
            out.append(Finding("same-motion", "warning", message, run.name))
    return tuple(out)


def payload_contradictions(base: BaseParameters, information: Information) -> tuple[Finding, ...]:
    """Payloads whose stated parameters the efforts contradict: y = W θ + α τ_stated, and α is not 1.

    α has the deviation by leaving out clusters of time. Runs without the payload must determine the robot: where they
    do not, α is uncertain and nothing is said.
    """
    if KNOWN not in information.responses:
        return ()
    weights = 1.0 / joint_deviations(information.without_known(), base)
    weights = np.where(np.isfinite(weights), weights, 0.0)
    out = []
    for load in sorted({column.owner for column in base.layout.columns if column.known}):
        if not any(key.load == load for key in information.blocks):
            continue
        parts = [_with_known(base, information, weights, times, load) for times in information.clusters(CLUSTERS)]
        if len(parts) < FEWEST_CLUSTERS:
            continue
        found = np.array(
            [_scale([part for k, part in enumerate(parts) if k != left]) for left in range(-1, len(parts))]
        )
        alpha, std = found[0], float(jackknife_deviation(found[1:] - found[0]))
        if abs(alpha - 1.0) > max(PAYLOAD_SHARE, PAYLOAD_SURE * std):
            out.append(
                Finding(
                    "payload-contradicted",
                    "error",
                    f"the efforts fit with {alpha:.2f} ± {std:.2f} times the stated parameters of payload '{load}'",
                    load,
                )
            )
    return tuple(out)


def _with_known(
    base: BaseParameters, information: Information, weights: Array, times: Sequence[Time], load: str
) -> Array:
    """Triangle of [w W | w τ_stated of this load | w (y − τ_stated of other loads)] over the base columns."""
    own = [time for time in times if time[1] == load]
    others = [time for time in times if time[1] != load]
    kept, rows = list(base.kept), []
    for j, columns in enumerate(information.columns):
        place = {c: k for k, c in enumerate(columns)}
        here = [k for k, c in enumerate(kept) if c in place]
        for chosen, mine in ((own, True), (others, False)):
            r = information.gathered(j, chosen).r
            wide = np.zeros((len(r), len(kept) + 2))
            wide[:, here] = r[:, [place[kept[k]] for k in here]]
            wide[:, -1] = r[:, len(columns)] - (0.0 if mine else information.known(r))
            wide[:, -2] = information.known(r) if mine else 0.0
            rows.append(weights[j] * wide)
    return triangular(np.concatenate(rows))


def _scale(parts: Sequence[Array]) -> float:
    """α of the least squares over all parts."""
    whole = triangular(np.concatenate(parts))
    scale = np.linalg.norm(whole[:, :-1], axis=0)
    scale[scale == 0.0] = 1.0
    found = np.linalg.lstsq(whole[:, :-1] / scale, whole[:, -1], rcond=DATA_TOLERANCE)[0] / scale
    return float(found[-1])


def with_plausibility_findings(result: Identification) -> Identification:
    """The identification with findings on its implausible values added."""
    found = []
    weak = [n for n, r in zip(result.base.names, result.relative_std, strict=True) if not r < 0.5 and np.isfinite(r)]
    if weak:
        having = "1 base parameter has" if len(weak) == 1 else f"{len(weak)} base parameters have"
        found.append(
            Finding(
                "weak-parameters",
                "info",
                f"{having} a σ above half the value: {', '.join(weak)}",
                fix="they are near zero, or the motion hardly excites them; do not use their values one by one",
            )
        )
    pairs = result.strong_correlations()
    if pairs:
        shown = ", ".join(f"{a} ~ {b} ({rho:+.3f})" for a, b, rho in pairs[:5])
        found.append(
            Finding(
                "correlated-parameters",
                "info",
                f"{len(pairs)} {'pair' if len(pairs) == 1 else 'pairs'} of parameters can hardly be separated: {shown}",
            )
        )
    found += _negative_drives(result)
    if result.relative_error.total > HALF:
        found.append(
            Finding(
                "poor-fit",
                "warning",
                f"the fit explains only {max(0.0, 1 - result.relative_error.total):.0%} of the effort it was fitted to",
                fix="check units, signs and columns (steelyard check), the loads of the runs and the stated payloads",
            )
        )
    if result.gains is not None and any(c.symbol.startswith(("Fl", "Fb")) for c in result.base.layout.columns):
        found.append(
            Finding(
                "load-friction-and-gains",
                "warning",
                "load friction, drive gains and the payload mass all scale with the load: each can absorb part of the "
                "other, and σ does not show it",
                fix="identify without the term 'load' as well, and count the difference as part of the error",
            )
        )
    fitted, unseen = result.relative_error.total, result.unseen.total if result.unseen else 0.0
    if unseen > max(2.0 * fitted, fitted + 0.05):
        found.append(
            Finding(
                "poor-generalisation",
                "warning",
                f"the relative error is {unseen:.1%} on unseen runs and {fitted:.1%} on the fitted ones",
                fix="fit more and richer motion, use a prior (estimator map), and check that the runs are comparable",
            )
        )
    if result.nominal is not None and not result.nominal.total < 1.0:
        message = "the nominal model explains none of the effort: its error is as large as the effort itself"
        found.append(Finding("nominal-contradicted", "warning", message))
    # below 1e-9 both models are exact and differ by rounding
    if result.nominal is not None and worse(result.relative_error.total, max(result.nominal.total, 1e-9)):
        found.append(
            Finding(
                "worse-than-nominal",
                "warning",
                "the nominal model explains these rows better than the fit",
                fix="check the estimator's weights and the channel map",
            )
        )
    return result.with_findings(found)


def _negative_drives(result: Identification) -> list[Finding]:
    """Findings on negative friction or rotor inertia: beyond three σ it is due to a wrong sign, unit or term.

    Those of the standard set; without one, those of the base parameters that are single drive parameters.
    """
    std = result.drive_std
    if result.standard is not None:
        found = surely_negative(result.base.layout, result.standard, std)
    else:
        nonnegative, groups = nonnegative_symbols(), result.base.regroupings.values()
        found = tuple(
            (name, float(value))
            for name, value, group in zip(result.base.names, result.value, groups, strict=True)
            if name.rpartition(".")[2] in nonnegative and len(group) == 1 and value < -NEGATIVE_SIGMAS * std[name]
        )
    if not found:
        return []
    wrong = [f"{name} = {value:.4g}" + (f" ± {std[name]:.2g}" if name in std else "") for name, value in found]
    return [
        Finding(
            "negative-drive-parameter",
            "warning",
            f"drive parameters are significantly negative: {', '.join(wrong)}",
            fix="check sign, unit and column of the effort; with joint torque sensors remove the term 'rotor'",
        )
    ]
