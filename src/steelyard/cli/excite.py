"""Command that plans motion: `excite`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.live import Live
from rich.table import Column, Table
from rich.text import Text

from steelyard.cli.console import JsonFlag, app, emit, number, people, percent, say
from steelyard.cli.watch import BLOCKS
from steelyard.criteria import CRITERIA, ConditionNumber, DOptimal
from steelyard.design_checks import weighing
from steelyard.errors import DataError, OutputError
from steelyard.excite import (
    FAMILIES,
    Excitation,
    TargetReached,
    allowed_of,
    criterion_of,
    excite,
    family_of,
    subject_of,
)
from steelyard.export.trajectories import FORMATS, check_ur, checked_rate, export_motion, format_of
from steelyard.motion_rules import holds_always, used
from steelyard.parameters import Array
from steelyard.payload import UNLOADED
from steelyard.ramps import pasted
from steelyard.report.preview import render_preview
from steelyard.results import check_file, record, write_files
from steelyard.robot import Robot
from steelyard.terms import TERMS

SCHEMA = "steelyard.excite/1"
_SCALE = (
    "The scale of a parameter is its value; where that is zero or hardly matters, what makes 5 % of the effort of the "
    "joint that it shows in most."
)
# Limits of which less than this is used are not worth a row of the table.
_SHOWN = 0.5


@app.command(name="excite")
def excite_command(
    robot: Annotated[
        str | None, typer.Argument(help="A built-in name, a robot file, or a project file for its terms and payloads.")
    ] = None,
    limits: Annotated[Path | None, typer.Option(help="What the motion may use and must keep clear of (TOML).")] = None,
    given: Annotated[
        Path | None, typer.Option(help="A run folder or result.json: what next, given what it tells already?")
    ] = None,
    duration: Annotated[
        float, typer.Option(help="Seconds of the motion without ramps; rounded up to whole samples of the file.")
    ] = 10.0,
    harmonics: Annotated[int, typer.Option(help="Of every joint; a b-spline gets 2 H + 2 points.")] = 5,
    family: Annotated[str, typer.Option(help=f"One of: {', '.join(FAMILIES)}.")] = FAMILIES[0],
    criterion: Annotated[
        str | None,
        typer.Option(help=f"One of: {', '.join(CRITERIA)}. Default d-optimal; with --target or --given targets."),
    ] = None,
    parameters: Annotated[str, typer.Option(help="Base parameters that d-optimal looks at, comma-separated.")] = "",
    target: Annotated[
        list[str] | None,
        typer.Option(help="σ of a base parameter as a share of its value; may be repeated.", metavar="NAME=SHARE"),
    ] = None,
    noise: Annotated[
        str | None, typer.Option(help="σ of a row in N.m or N, one or one a joint, comma-separated.")
    ] = None,
    load: Annotated[
        list[str] | None,
        typer.Option(
            help="A load case; repeated, a motion for each is designed. 'none': unloaded. =KG is the most that a "
            "payload of unknown mass may weigh.",
            metavar="NAME[=KG]",
        ),
    ] = None,
    terms: Annotated[str | None, typer.Option(help=f"Comma-separated: {', '.join(TERMS)}; '' for none.")] = None,
    start: Annotated[
        str | None, typer.Option(help="Posture to start from and return to, in rad or m, comma-separated.")
    ] = None,
    rate: Annotated[float | None, typer.Option(help="Samples a second in the file; default 100, URScript 500.")] = None,
    rows: Annotated[
        float | None, typer.Option(help="Rows a second of the identification to come; default 50, or the result's.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same motion.")] = 0,
    starts: Annotated[int, typer.Option(min=1, help="Searches, of which the best is kept.")] = 8,
    iterations: Annotated[int, typer.Option(min=1, help="Steps of a search at most.")] = 300,
    out: Annotated[Path | None, typer.Option(help=f"Motion file: {', '.join(FORMATS)}.")] = None,
    preview: Annotated[Path | None, typer.Option(help="Page with the motion, its limits and σ (.html).")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Design a motion that shows the parameters best, within limits that hold between samples too."""
    loads, masses = _loads(load or (UNLOADED,))
    files = _places(out, loads)
    if preview is not None:
        if preview.suffix.lower() not in (".html", ".htm"):
            raise OutputError(f"--preview writes a page: name it '{preview.stem}.html', not '{preview.name}'.")
        check_file(preview)
    subject = subject_of(robot, given, terms)
    subject = replace(subject, theta=weighing(subject.model, subject.theta, masses))
    described = subject.model.robot
    form = None if out is None else format_of(out.name)
    hz = None if form is None else checked_rate(form, rate)
    if form is not None and form.name == "urscript":
        check_ur(described)
    allowed = allowed_of(subject, limits)
    chosen = criterion_of(criterion, _words(parameters), _targets(target or ()), subject, allowed)
    for line in (*subject.said, *allowed.said):
        say(line, "cyan")
    with _searching(starts, chosen.name) as (progress, heard):
        found = excite(
            subject, allowed, duration, chosen, family_of(family, harmonics),
            loads=loads, noise=_noise(noise), start=None if start is None else _posture(start, described), rows_hz=rows,
            step=0.0 if hz is None else 1.0 / hz,
            seed=seed, starts=starts, iterations=iterations, progress=progress, heard=heard,
        )  # fmt: skip
    written: dict[Path, bytes] = {}
    for k, path in enumerate(files):
        made = export_motion(path.name, found.motions[k], found.rules[k], hz, found.remarks(k))
        written[path] = made.files[path.name]
    if preview is not None:
        written[preview] = _page(found).encode()
    write_files(written)
    if as_json:
        emit(_document(found, seed, files, preview, hz))
    _show(found)
    for one in found.reached:
        say(_target(one), "" if one.met else "yellow")
    for line in found.unbounded:
        say(line, "bold red")
    for path in files:
        say(f"Motion: {path} ({format_of(path.name).name}, {hz:g} Hz), read again and within its limits")
    if preview is not None:
        say(f"Preview: {preview}")
    if out is None:
        say("No motion file was written: name one with --out.")


# --- What was asked ---------------------------------------------------------------------------------------------------


def _places(out: Path | None, loads: Sequence[str]) -> tuple[Path, ...]:
    """A file for every motion: NAME.csv, or NAME-none.csv, NAME-load.csv of several."""
    if out is None:
        return ()
    if len(set(loads)) != len(loads):
        raise OutputError("Two motions with the same load would be one file: name every --load once.")
    places = [out]
    if len(loads) > 1:
        wrong = [load for load in loads if not re.fullmatch(r"[\w .+-]+", load)]
        if wrong:
            raise OutputError(
                f"--load {wrong[0]}: the name would be part of a file's name, {out.stem}-{wrong[0]}{out.suffix}. "
                "Name the payload with letters, digits, '-' and '_', or design its motion alone."
            )
        places = [out.with_stem(f"{out.stem}-{load}") for load in loads]
    for place in places:
        format_of(place.name)
        check_file(place)
    return tuple(places)


def _loads(given: Sequence[str]) -> tuple[tuple[str, ...], dict[str, float]]:
    """Load cases and the masses stated with them [kg]: "none" and "brick=2.5"."""
    masses = {}
    for one in given:
        name, equals, mass = one.rpartition("=")
        try:
            masses |= {name: float(mass)} if equals else {}
        except ValueError:
            raise DataError(f"--load takes NAME or NAME=KG, e.g. brick or brick=2.5, not '{one}'.") from None
    return tuple(one.rpartition("=")[0] or one for one in given), masses


def _words(value: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in value.split(",") if part.strip())


def _targets(given: Sequence[str]) -> dict[str, float]:
    """{"link3.MX": 0.05} from "link3.MX=0.05" or "link3.MX=5%"."""
    out = {}
    for one in given:
        name, _, share = (part.strip() for part in one.partition("="))
        try:
            out[name] = float(share.removesuffix("%")) * (0.01 if share.endswith("%") else 1.0)
        except ValueError:
            raise DataError(f"--target takes NAME=SHARE, e.g. link3.MX=0.05 or link3.MX=5%, not '{one}'.") from None
        if not 0.0 < out[name] < np.inf:
            raise DataError(f"--target {one}: the share must be positive.")
    return out


def _numbers(option: str, value: str) -> Array:
    try:
        return np.array([float(part) for part in value.split(",")])
    except ValueError:
        raise DataError(f"{option} takes numbers with commas between, not '{value}'.") from None


def _noise(value: str | None) -> Array | float | None:
    """None, one σ for all joints, or one each."""
    if value is None:
        return None
    found = _numbers("--noise", value)
    return float(found[0]) if len(found) == 1 else found


def _posture(value: str, robot: Robot) -> Array:
    found = _numbers("--start", value)
    if len(found) != robot.dof or not np.all(np.isfinite(found)):
        raise DataError(
            f"--start takes {robot.dof} finite numbers, one for each of {', '.join(robot.axis_names)} [rad or m], "
            f"not '{value}'."
        )
    return found


# --- While it is searched ---------------------------------------------------------------------------------------------


@contextmanager
def _searching(
    starts: int, criterion: str
) -> Iterator[tuple[Callable[[str, int, int], None], Callable[[int, float], None]]]:
    """The criterion while it goes down: a line that renews itself in a terminal, elsewhere a line a search.

    "about", as what is made small is a smooth stand-in, and the logarithm of it but for `DOptimal`.
    """
    traces: list[list[float]] = []

    def told(objective: float) -> str:
        return number(objective if criterion == DOptimal.name else float(np.exp(objective)))

    def best() -> str:
        return told(min(trace[-1] for trace in traces))

    def heard(search: int, value: float) -> None:
        while len(traces) <= search:
            traces.append([])
        traces[search].append(value)
        if live is not None:
            live.update(
                Text(
                    f"search {search + 1} of {starts}: {criterion} about {told(value)}, best {best()}  "
                    f"{_bars(traces[search])}"
                )
            )

    def progress(task: str, done: int, total: int) -> None:
        if traces and len(traces) >= done and traces[done - 1]:
            own = traces[done - 1]
            say(f"search {done} of {total}: {criterion} about {told(own[-1])} after {len(own)} steps, best {best()}")

    live = Live(console=people, transient=True, refresh_per_second=8) if people.is_terminal else None
    if live is None:
        yield progress, heard
        return
    with live:
        yield progress, heard


def _bars(trace: Sequence[float], width: int = 40) -> str:
    """The way down as blocks, the last `width` of as many stretches of equal numbers of steps."""
    picked = [trace[round(k)] for k in np.linspace(0, len(trace) - 1, min(width, len(trace)))]
    low, high = min(picked), max(picked)
    return "".join(BLOCKS[round((x - low) / (high - low or 1.0) * (len(BLOCKS) - 1))] for x in picked)


# --- For machines -----------------------------------------------------------------------------------------------------


def _document(
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


def _show(found: Excitation) -> None:
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


def _page(found: Excitation) -> str:
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
