"""What `excite` found: a document for machines, tables and a verdict for people, the preview."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Column, Table

from steelyard.cli.console import number, people, percent, say
from steelyard.design.constraints import holds_always, used
from steelyard.design.criteria import ConditionNumber
from steelyard.design.ramps import pasted
from steelyard.project.documents import record
from steelyard.project.excite import Excitation, TargetReached
from steelyard.report.preview import render_preview

SCHEMA = "steelyard.excite/1"
_SCALE = (
    "The scale of a parameter is its value; where that is zero or hardly matters, what makes 5 % of the effort of the "
    "joint that it shows in most."
)
# Limits of which less than this is used are not worth a row of the table.
_SHOWN = 0.5


# --- For machines -----------------------------------------------------------------------------------------------------


def excitation_document(
    found: Excitation, seed: int, files: Sequence[Path], preview: Path | None, rate_hz: float | None
) -> dict[str, Any]:
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
            "file": str(path) if path is not None else None,
            "duration_s": motion.duration,
            "ends": motion.at([0.0, motion.duration])[0].T,
            "limits": [asdict(row) | {"share": row.share, "beyond": row.beyond} for row in rows],
        }
        for load, motion, rows, path in zip(
            design.loads, found.motions, found.limits, files or [None] * len(found.motions), strict=True
        )
    ]
    return record(
        SCHEMA,
        {
            "robot": robot.name,
            "joints": list(robot.axis_names),
            "terms": [term.name for term in found.subject.model.terms],
            "criterion": design.criterion,
            "value": design.value,
            "rows_hz": design.rate_hz,
            "rate_hz": rate_hz,
            "seed": seed,
            "noise": dict(zip(robot.axis_names, forecast.noise.tolist(), strict=True)),
            "start": dict(zip(robot.axis_names, found.posture.tolist(), strict=True)),
            "motions": motions,
            "geometric_mean": forecast.geometric_mean,
            "condition": forecast.condition,
            "condition_scaled": forecast.condition_scaled,
            "parameters": parameters,
            "unseen": list(forecast.unseen),
            "never": list(forecast.never),
            "grouped": {name: list(groups) for name, groups in forecast.grouped.items()},
            "worst": None
            if worst is None
            else {
                key: dict(zip(("name", "std_over_scale"), one, strict=True))
                for key, one in zip(("before", "after"), worst, strict=True)
            },
            "targets": [one._asdict() | {"met": one.met} for one in found.reached],
            "unbounded": list(found.unbounded),
            "traces": [list(trace) for trace in design.trace],
            "preview": None if preview is None else str(preview),
            "history": [*found.subject.said, *found.allowed.said, *design.history],
        },
    )


# --- For people -------------------------------------------------------------------------------------------------------


def show_excitation(found: Excitation) -> None:
    design, forecast = found.design, found.design.forecast
    for load, rows in zip(design.loads, found.limits, strict=True):
        table = Table(
            Column("limit", no_wrap=True), Column("of", no_wrap=True), "allowed", "reached", "used", "left",
            "for all t", title="" if len(design.loads) == 1 else f"load {load}",
        )  # fmt: skip
        for row in (row for row in rows if not used(row) < _SHOWN):
            told = "proven" if holds_always(row) else f"at {row.samples} samples"
            numbers = (number(row.limit), number(row.value), percent(used(row)), number(-row.beyond))
            table.add_row(row.quantity, row.joint, *numbers, told)
        people.print(table)
        say(f"{len(rows)} limits hold; those of which less than {_SHOWN:.0%} is used are not listed.")
    _show_forecast(found)
    for line in design.history:
        say(line)
    if forecast.unseen:
        say(f"Not by this motion, though others would show them: {', '.join(forecast.unseen)}", "yellow")
    if forecast.never:
        say(f"Not identifiable however you move: {', '.join(forecast.never)}")
    if forecast.grouped:
        say(
            f"Only in sums, however you move: {len(forecast.grouped)} standard parameters (`steelyard params` has the "
            "sums)"
        )
    say(f"Starts at rest at {pasted(found.posture)}; {found.motions[0].duration:.2f} s")
    say(_verdict(found), "bold")
    if found.worst is not None:
        say(_SCALE)
    for one in found.reached:
        say(_target(one), "" if one.met else "yellow")
    for line in found.unbounded:
        say(line, "bold red")


def _show_forecast(found: Excitation) -> None:
    forecast, known = found.design.forecast, found.before is not None
    table = Table(
        Column("parameter", no_wrap=True), "value", "σ to expect", "rel. σ", *(["σ now"] if known else []), "unit"
    )
    before = forecast.std if found.before is None else found.before.std
    for name, value, std, relative, now, unit in zip(
        forecast.base.names, found.values, forecast.std, found.relative, before, forecast.base.units, strict=True
    ):
        table.add_row(name, number(value), number(std), percent(relative), *([number(now)] if known else []), unit)
    people.print(table)


def _verdict(found: Excitation) -> str:
    """One sentence on what the motion promises."""
    design, forecast = found.design, found.design.forecast
    shown = int(np.isfinite(forecast.std).sum())
    fine = int(np.count_nonzero(found.relative < 0.5))
    sharp = f", {fine} to better than half their value" if np.isfinite(found.values).any() else ""
    value = "" if design.criterion == ConditionNumber.name else f"{design.criterion} {number(design.value)}, "
    said = (
        f"Shows {shown} of {len(forecast.base)} base parameters{sharp}; "
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


def _target(one: TargetReached) -> str:
    verdict = "met" if one.met else "missed"
    return (
        f"Target {one.name}: σ wanted {percent(one.wanted)} of its value, to expect {percent(one.reached)}: {verdict}"
    )


def preview_page(found: Excitation) -> str:
    return render_preview(
        f"{found.subject.model.robot.name}: exciting motion",
        _verdict(found),
        found.design,
        found.motions,
        found.rules,
        found.limits,
        found.values,
        found.relative,
        found.before,
        warnings=found.unbounded,
        taken=(*found.subject.said, *found.allowed.said),
        notes=(*(_target(one) for one in found.reached), *([] if found.worst is None else [_SCALE])),
    )
