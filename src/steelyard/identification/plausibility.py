"""Doubts: findings on implausible values of an identification."""

from __future__ import annotations

import numpy as np

from steelyard.findings import Finding
from steelyard.identification.result import Identification
from steelyard.model.terms.registry import nonnegative_symbols
from steelyard.regression.information import Information
from steelyard.regression.problem import Problem

# A relative error above this means the wrong robot, units or loads.
HALF = 0.5


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
    # below 1e-9 both models are exact and differ by rounding
    if result.nominal is not None and result.relative_error.total > max(result.nominal.total, 1e-9):
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
    """Findings on negative friction or rotor inertia: beyond three σ it is due to a wrong sign, unit or term."""
    nonnegative = nonnegative_symbols()
    wrong = [
        f"{name} = {value:.4g} ± {std:.2g}"
        for name, value, std, group in zip(
            result.base.names, result.value, result.std, result.base.regroupings.values(), strict=True
        )
        if name.rpartition(".")[2] in nonnegative and len(group) == 1 and value < -3.0 * std
    ]
    if not wrong:
        return []
    return [
        Finding(
            "negative-drive-parameter",
            "warning",
            f"drive parameters are significantly negative: {', '.join(wrong)}",
            fix="check sign, unit and column of the effort; with joint torque sensors remove the term 'rotor'",
        )
    ]
