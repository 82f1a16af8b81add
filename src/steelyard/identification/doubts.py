"""Doubts: what the numbers of an identification themselves speak against."""

from __future__ import annotations

import numpy as np

from steelyard.findings import Finding
from steelyard.identification.result import Identification
from steelyard.regression.information import Information
from steelyard.regression.problem import Problem

# A fit that leaves more than this of the effort has the wrong robot, units or loads.
HALF = 0.5


def empty_runs(problem: Problem, information: Information) -> tuple[Finding, ...]:
    """Runs without a single row."""
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


def with_doubts(result: Identification) -> Identification:
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
