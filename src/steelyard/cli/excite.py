"""Command that designs a motion: `excite`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer
from rich.live import Live
from rich.text import Text

from steelyard.cli import option_values
from steelyard.cli.console import JsonFlag, emit, number, people, say
from steelyard.cli.tables import show
from steelyard.cli.watch import BLOCKS
from steelyard.errors import DataError, OutputError, ProjectError, choices

if TYPE_CHECKING:
    from steelyard._arrays import Array
    from steelyard.design.criteria import Criterion
    from steelyard.formats.motion_limits import Allowed
    from steelyard.model.robot import Robot
    from steelyard.project.excite import Excitation, Subject

# Limits used to less than this fraction are not listed.
_SHOWN = 0.5


def excite_command(
    robot: Annotated[
        str | None,
        typer.Argument(
            help="Built-in robot, robot file, or project file (with its terms and payloads).",
            autocompletion=option_values.robots,
        ),
    ] = None,
    limits: Annotated[
        Path | None,
        typer.Option(help="Limits of the motion and obstacles (TOML). Default: the limits of the robot file."),
    ] = None,
    given: Annotated[
        Path | None,
        typer.Option(help="Run folder or result.json whose information is counted in: design what its logs lack."),
    ] = None,
    duration: Annotated[
        float,
        typer.Option(help="Duration of the motion without ramps [s]; rounded up to whole samples of the motion file."),
    ] = 10.0,
    harmonics: Annotated[
        int, typer.Option(help="Fourier harmonics H per joint (a B-spline uses 2H + 2 control points).")
    ] = 5,
    family: Annotated[
        str,
        typer.Option(
            help=f"Family of motions: {', '.join(option_values.FAMILIES)}.",
            autocompletion=option_values.completing(option_values.FAMILIES),
        ),
    ] = option_values.FAMILIES[0],
    criterion: Annotated[
        str | None,
        typer.Option(
            help=f"Criterion to optimise: {', '.join(option_values.CRITERIA)}. Default: d-optimal; with --target or "
            "--given: targets.",
            autocompletion=option_values.completing(option_values.CRITERIA),
        ),
    ] = None,
    parameters: Annotated[
        str, typer.Option(help="Base parameters that d-optimal counts, comma-separated. Default: all.")
    ] = "",
    target: Annotated[
        list[str] | None,
        typer.Option(
            help="Wanted σ of a base parameter as a fraction of its value, e.g. link3.MX=0.05; may be repeated.",
            metavar="NAME=SHARE",
        ),
    ] = None,
    noise: Annotated[
        str | None,
        typer.Option(
            help="Effort noise σ [N·m or N]: one value, or one per joint, comma-separated. Default: that of the "
            "result, or 1 % of the effort limits."
        ),
    ] = None,
    load: Annotated[
        list[str] | None,
        typer.Option(
            help="Load case; may be repeated, for one motion each. 'none': no payload. KG: largest possible mass of a "
            "payload of unknown mass [kg].",
            metavar="NAME[=KG]",
        ),
    ] = None,
    terms: Annotated[
        str | None,
        typer.Option(help=option_values.TERMS_HELP, autocompletion=option_values.completing(option_values.TERMS)),
    ] = None,
    hold: Annotated[list[str] | None, typer.Option(help=option_values.HOLD_HELP)] = None,
    start: Annotated[
        str | None,
        typer.Option(help="Position to start from and return to [rad or m], one per joint, comma-separated."),
    ] = None,
    rate: Annotated[
        float | None, typer.Option(help="Sampling rate of the motion file [Hz]. Default: 100; URScript 500.")
    ] = None,
    row_rate: Annotated[
        float | None,
        typer.Option(
            help="Rate of regression rows in the later identification [Hz]. Default: 50, or with --given that of the "
            "result."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Random seed for the start values of the search.")] = 0,
    starts: Annotated[int, typer.Option(min=1, help="Number of searches; the best motion is kept.")] = 8,
    iterations: Annotated[int, typer.Option(min=1, help="Largest number of steps per search.")] = 300,
    out: Annotated[
        Path | None,
        typer.Option(help=f"Motion file to write ({', '.join(option_values.MOTION_FILES)}). Default: no file."),
    ] = None,
    preview: Annotated[
        Path | None,
        typer.Option(help="HTML page to write: the motion, its limits and the expected σ. Default: no page."),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """The σ to expect is printed for every parameter, before the robot moves."""
    from steelyard.design.feasibility import weighing
    from steelyard.export.motions import check_ur, checked_rate, export_motion, format_of
    from steelyard.model.payload import UNLOADED
    from steelyard.project.excitation_document import excitation_document, preview_page
    from steelyard.project.excite import allowed_of, excite, family_of
    from steelyard.project.output_folder import check_file, write_files

    loads, masses = _loads(load or (UNLOADED,))
    files = _places(out, loads)
    if preview is not None:
        if preview.suffix.lower() not in (".html", ".htm"):
            raise OutputError(f"--preview writes an HTML page: name it '{preview.stem}.html', not '{preview.name}'.")
        check_file(preview)
    subject = _subject(robot, given, terms, option_values.listed(hold))
    subject = replace(subject, theta=weighing(subject.model, subject.theta, masses))
    described = subject.model.robot
    form = None if out is None else format_of(out.name)
    hz = None if form is None else checked_rate(form, rate)
    if form is not None and form.name == "urscript":
        check_ur(described)
    allowed = allowed_of(subject, limits)
    chosen = _criterion(criterion, _words(parameters), _targets(target or ()), subject, allowed)
    for line in (*subject.notes, *allowed.notes):
        say(line, "cyan")
    with _searching(starts, chosen.name) as (progress, on_step):
        found = excite(
            subject, allowed, duration, chosen, family_of(family, harmonics),
            loads=loads, noise=_noise(noise), start=None if start is None else _posture(start, described),
            rows_hz=row_rate, step=0.0 if hz is None else 1.0 / hz,
            seed=seed, starts=starts, iterations=iterations, progress=progress, on_step=on_step,
        )  # fmt: skip
    written: dict[Path, bytes] = {}
    for k, path in enumerate(files):
        made = export_motion(path.name, found.motions[k], found.rules[k], hz, found.remarks(k))
        written[path] = made.files[path.name]
    if preview is not None:
        written[preview] = preview_page(found).encode()
    write_files(written)
    if as_json:
        emit(excitation_document(found, seed, files, preview, hz))
    _show(found)
    for path in files:
        say(f"Motion: {path} ({format_of(path.name).name}, {hz:g} Hz), read back and within its limits")
    if preview is not None:
        say(f"Preview: {preview}")
    if out is None:
        say("No motion file was written; name one with --out.")


# --- What was asked ---------------------------------------------------------------------------------------------------


def _places(out: Path | None, loads: Sequence[str]) -> tuple[Path, ...]:
    """A file per motion: NAME.csv; with several loads NAME-none.csv, NAME-LOAD.csv."""
    from steelyard.export.motions import format_of
    from steelyard.project.output_folder import check_file

    if out is None:
        return ()
    if len(set(loads)) != len(loads):
        raise OutputError("Two motions with the same load would have the same file name: give every --load once.")
    places = [out]
    if len(loads) > 1:
        wrong = [load for load in loads if not re.fullmatch(r"[\w .+-]+", load)]
        if wrong:
            raise OutputError(
                f"--load {wrong[0]}: the name becomes part of a file name, {out.stem}-{wrong[0]}{out.suffix}. "
                "Name the payload with letters, digits, '-' and '_' only, or design its motion alone."
            )
        places = [out.with_stem(f"{out.stem}-{load}") for load in loads]
    for place in places:
        format_of(place.name)
        check_file(place)
    return tuple(places)


def _subject(robot: str | None, given: Path | None, terms: str | None, held: Sequence[str]) -> Subject:
    """A robot by name or file, a project file, or the model of a result; the last two define their own terms."""
    from steelyard.project.excite import is_project, subject_of, subject_of_result

    if given is not None:
        if terms is not None:
            raise ProjectError("With --given the terms are those of the result: leave out --terms.")
        if held:
            raise ProjectError("With --given the joints are those of the result: leave out --hold.")
        return subject_of_result(given, robot)
    if robot is None:
        raise ProjectError("Give a robot (built-in name, robot file or project file) or a result (--given).")
    if terms is not None and is_project(robot):
        raise ProjectError(f"The terms are those of the project '{robot}': leave out --terms.")
    return subject_of(robot, None if terms is None else _words(terms), held)


def _criterion(
    name: str | None, parameters: Sequence[str], targets: Mapping[str, float], subject: Subject, allowed: Allowed
) -> Criterion:
    """The requested criterion; without a name, the one that the other options imply.

    `targets` without --target aims at the same fraction of its scale for every parameter of a result.
    """
    from steelyard.design.criteria import CRITERIA, ConditionNumber, DeviationTargets, DOptimal
    from steelyard.project.excite import every_target

    if name is None:
        name = DeviationTargets.name if targets or (subject.result and not parameters) else DOptimal.name
    if name not in CRITERIA:
        raise DataError(choices("criterion", name, CRITERIA))
    if parameters and name != DOptimal.name:
        raise DataError(f"--parameters applies to --criterion {DOptimal.name} only; with '{name}' leave it out.")
    if targets and name != DeviationTargets.name:
        raise DataError(f"--target applies to --criterion {DeviationTargets.name} only; with '{name}' leave it out.")
    if name == DOptimal.name:
        return DOptimal(parameters)
    if name == ConditionNumber.name:
        return ConditionNumber()
    if targets:
        return DeviationTargets(relative=targets)
    every = every_target(subject, allowed)
    if every is None:
        raise DataError(
            "--criterion targets needs --target NAME=SHARE, e.g. --target link3.MX=0.05, or a result (--given)."
        )
    return every


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
        raise DataError(f"{option} takes numbers separated by commas, not '{value}'.") from None


def _noise(value: str | None) -> Array | float | None:
    """None, one σ for all joints, or one per joint."""
    if value is None:
        return None
    found = _numbers("--noise", value)
    return float(found[0]) if len(found) == 1 else found


def _posture(value: str, robot: Robot) -> Array:
    found = _numbers("--start", value)
    if len(found) != robot.dof or not np.all(np.isfinite(found)):
        raise DataError(
            f"--start takes {robot.dof} finite numbers, one per joint: {', '.join(robot.axis_names)} [rad or m], "
            f"not '{value}'."
        )
    return found


# --- While it is searched ---------------------------------------------------------------------------------------------


@contextmanager
def _searching(
    starts: int, criterion: str
) -> Iterator[tuple[Callable[[str, int, int], None], Callable[[int, float], None]]]:
    """Shows the criterion during the search: one updated line in a terminal, otherwise one line per search.

    Values are printed as "about", because the search minimises a smooth approximation (its logarithm, except for
    `DOptimal`).
    """
    from steelyard.design.criteria import DOptimal

    traces: list[list[float]] = []

    def shown(objective: float) -> str:
        return number(objective if criterion == DOptimal.name else float(np.exp(objective)))

    def best() -> str:
        return shown(min(trace[-1] for trace in traces))

    def on_step(search: int, value: float) -> None:
        while len(traces) <= search:
            traces.append([])
        traces[search].append(value)
        if live is not None:
            live.update(
                Text(
                    f"search {search + 1} of {starts}: {criterion} about {shown(value)}, best {best()}  "
                    f"{_bars(traces[search])}"
                )
            )

    def progress(task: str, done: int, total: int) -> None:
        if traces and len(traces) >= done and traces[done - 1]:
            own = traces[done - 1]
            say(f"search {done} of {total}: {criterion} about {shown(own[-1])} after {len(own)} steps, best {best()}")

    live = Live(console=people, transient=True, refresh_per_second=8) if people.is_terminal else None
    if live is None:
        yield progress, on_step
        return
    with live:
        yield progress, on_step


def _bars(trace: Sequence[float], width: int = 40) -> str:
    """The decrease of the objective as block characters, at most `width` of them, each for the same number of steps."""
    picked = [trace[round(k)] for k in np.linspace(0, len(trace) - 1, min(width, len(trace)))]
    low, high = min(picked), max(picked)
    return "".join(BLOCKS[round((x - low) / (high - low or 1.0) * (len(BLOCKS) - 1))] for x in picked)


# --- What was found ---------------------------------------------------------------------------------------------------


def _show(found: Excitation) -> None:
    """Print limits, expected σ, parameters that are not excited, and the verdict."""
    from steelyard.design.constraints import used
    from steelyard.design.ramps import pasted
    from steelyard.project.excitation_document import SCALE, excitation_verdict, target_text
    from steelyard.report.tables.design import forecast_table, limit_table

    design, forecast = found.design, found.design.forecast
    for load, rows in zip(design.loads, found.limits, strict=True):
        near = [row for row in rows if not used(row) < _SHOWN]
        show(limit_table(near, "Limits" if len(design.loads) == 1 else f"Limits with load {load}"))
        say(f"{len(rows)} limits hold; those of which less than {_SHOWN:.0%} is used are not listed.")
    show(forecast_table(forecast, found.values, found.relative, found.before))
    for line in design.history:
        say(line)
    if forecast.unseen:
        say(f"Not identifiable with this motion, but with others: {', '.join(forecast.unseen)}", "yellow")
    if forecast.never:
        say(f"Not identifiable with any motion: {', '.join(forecast.never)}")
    if forecast.grouped:
        say(
            f"Identifiable only in linear combinations: {len(forecast.grouped)} standard parameters (see `steelyard "
            "params`)"
        )
    say(f"Starts at rest at {pasted(found.posture)}; {found.motions[0].duration:.2f} s")
    say(excitation_verdict(found), "bold")
    if found.worst is not None:
        say(SCALE)
    for one in found.reached:
        say(target_text(one), "" if one.met else "yellow")
    for line in found.unbounded:
        say(line, "bold red")
