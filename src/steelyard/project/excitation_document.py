"""A designed excitation as a document, as a sentence and as a page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from steelyard.design.criteria import ConditionNumber
from steelyard.project.documents import plain, record
from steelyard.project.excite import Excitation, TargetReached
from steelyard.report.numerals import given as number
from steelyard.report.numerals import share as percent
from steelyard.report.preview import render_preview

SCHEMA = "steelyard.excite/1"
SCALE = (
    "The scale of a parameter is its value; where that is zero or negligible, the value that would make 5 % of the "
    "effort of the joint that it affects most."
)


def excitation_document(
    found: Excitation, seed: int, files: Sequence[Path], preview: Path | None, rate_hz: float | None
) -> dict[str, Any]:
    """The motions, what they reach and which σ they promise; `files` are those of the motions, `rate_hz` theirs."""
    design, forecast, robot = found.design, found.design.forecast, found.subject.model.robot
    before = np.full(len(forecast.base), np.nan) if found.before is None else found.before.std
    rows = zip(
        forecast.base.names, forecast.base.units, forecast.base.expressions, found.values, forecast.std, found.relative,
        before, strict=True,
    )  # fmt: skip
    parameters = [
        {"name": n, "unit": u, "expression": e, "value": x, "std": s, "relative": r, "std_before": b}
        for n, u, e, x, s, r, b in rows
    ]
    worst = found.worst
    motions = [
        {
            "load": load,
            "file": path,
            "duration_s": motion.duration,
            "ends": motion.at([0.0, motion.duration])[0].T,
            "limits": [plain(row) | {"share": row.share, "beyond": row.beyond} for row in rows],
        }
        for load, motion, rows, path in zip(
            design.loads, found.motions, found.limits, files or [None] * len(found.motions), strict=True
        )
    ]
    return record(
        SCHEMA,
        {
            "robot": robot.name,
            "joints": robot.axis_names,
            "terms": [term.name for term in found.subject.model.terms],
            "criterion": design.criterion,
            "value": design.value,
            "rows_hz": design.rate_hz,
            "rate_hz": rate_hz,
            "seed": seed,
            "noise": dict(zip(robot.axis_names, forecast.noise, strict=True)),
            "start": dict(zip(robot.axis_names, found.posture, strict=True)),
            "motions": motions,
            "geometric_mean": forecast.geometric_mean,
            "condition": forecast.condition,
            "condition_scaled": forecast.condition_scaled,
            "parameters": parameters,
            "unseen": forecast.unseen,
            "never": forecast.never,
            "grouped": forecast.grouped,
            "worst": None
            if worst is None
            else {
                key: dict(zip(("name", "std_over_scale"), one, strict=True))
                for key, one in zip(("before", "after"), worst, strict=True)
            },
            "targets": [one._asdict() | {"met": one.met} for one in found.reached],
            "unbounded": found.unbounded,
            "traces": design.trace,
            "preview": preview,
            "history": [*found.subject.notes, *found.allowed.notes, *design.history],
        },
    )


def excitation_verdict(found: Excitation) -> str:
    """The expected accuracy of the motion, in one or two sentences."""
    design, forecast = found.design, found.design.forecast
    shown = int(np.isfinite(forecast.std).sum())
    fine = int(np.count_nonzero(found.relative < 0.5))
    unknown = int(np.count_nonzero(~np.isfinite(found.values)))
    sharp = f", {fine} to better than half their value" if unknown < len(found.values) else ""
    if sharp and unknown:
        sharp += f"; {unknown} {'has' if unknown == 1 else 'have'} no nominal value to compare with"
    value = "" if design.criterion == ConditionNumber.name else f"{design.criterion} {number(design.value)}, "
    said = (
        f"Identifies {shown} of {len(forecast.base)} base parameters{sharp}; "
        f"{value}condition {number(forecast.condition_scaled)} (columns scaled)."
    )
    if found.worst is None:
        return said
    (name, now), (then_name, then) = found.worst
    if not np.isfinite(now):
        return f"{name} is not known yet; worst σ / scale after this motion {percent(then)} ({then_name}). {said}"
    lowered = f", lowered {now / then:.1f}x" if then > 0.0 else ""
    worst = f"Worst σ / scale {percent(now)} ({name}) now, {percent(then)} ({then_name}) after this motion{lowered}."
    return f"{worst} {said}"


def target_text(one: TargetReached) -> str:
    """A target and whether it is met."""
    verdict = "met" if one.met else "missed"
    return (
        f"Target {one.name}: σ wanted {percent(one.wanted)} of its value, to expect {percent(one.reached)}: {verdict}"
    )


def preview_page(found: Excitation) -> str:
    """The motion as an HTML page."""
    return render_preview(
        f"{found.subject.model.robot.name}: exciting motion",
        excitation_verdict(found),
        found.design,
        found.motions,
        found.rules,
        found.limits,
        found.values,
        found.relative,
        found.before,
        warnings=found.unbounded,
        taken=(*found.subject.notes, *found.allowed.notes),
        notes=(*(target_text(one) for one in found.reached), *([] if found.worst is None else [SCALE])),
    )
