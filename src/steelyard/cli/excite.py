"""Command that plans motion: `excite`."""

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
from steelyard.cli.watch import BLOCKS
from steelyard.errors import DataError, OutputError, ProjectError, choices

if TYPE_CHECKING:
    from steelyard._arrays import Array
    from steelyard.design.criteria import Criterion
    from steelyard.formats.motion_limits import Allowed
    from steelyard.model.robot import Robot
    from steelyard.project.excite import Subject


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
    family: Annotated[str, typer.Option(help=f"One of: {', '.join(option_values.FAMILIES)}.")] = option_values.FAMILIES[
        0
    ],
    criterion: Annotated[
        str | None,
        typer.Option(
            help=f"One of: {', '.join(option_values.CRITERIA)}. Default d-optimal; with --target or --given targets."
        ),
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
    terms: Annotated[
        str | None, typer.Option(help=f"Comma-separated: {', '.join(option_values.TERMS)}; '' for none.")
    ] = None,
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
    out: Annotated[Path | None, typer.Option(help=f"Motion file: {', '.join(option_values.MOTION_FILES)}.")] = None,
    preview: Annotated[Path | None, typer.Option(help="Page with the motion, its limits and σ (.html).")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Design a motion that shows the parameters best, within limits that hold between samples too."""
    from steelyard.cli.excitation_tables import excitation_document, preview_page, show_excitation
    from steelyard.design.feasibility import weighing
    from steelyard.export.motions import check_ur, checked_rate, export_motion, format_of
    from steelyard.model.payload import UNLOADED
    from steelyard.project.excite import allowed_of, excite, family_of
    from steelyard.project.output_folder import check_file, write_files

    loads, masses = _loads(load or (UNLOADED,))
    files = _places(out, loads)
    if preview is not None:
        if preview.suffix.lower() not in (".html", ".htm"):
            raise OutputError(f"--preview writes a page: name it '{preview.stem}.html', not '{preview.name}'.")
        check_file(preview)
    subject = _subject(robot, given, terms)
    subject = replace(subject, theta=weighing(subject.model, subject.theta, masses))
    described = subject.model.robot
    form = None if out is None else format_of(out.name)
    hz = None if form is None else checked_rate(form, rate)
    if form is not None and form.name == "urscript":
        check_ur(described)
    allowed = allowed_of(subject, limits)
    chosen = _criterion(criterion, _words(parameters), _targets(target or ()), subject, allowed)
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
        written[preview] = preview_page(found).encode()
    write_files(written)
    if as_json:
        emit(excitation_document(found, seed, files, preview, hz))
    show_excitation(found)
    for path in files:
        say(f"Motion: {path} ({format_of(path.name).name}, {hz:g} Hz), read again and within its limits")
    if preview is not None:
        say(f"Preview: {preview}")
    if out is None:
        say("No motion file was written: name one with --out.")


# --- What was asked ---------------------------------------------------------------------------------------------------


def _places(out: Path | None, loads: Sequence[str]) -> tuple[Path, ...]:
    """A file for every motion: NAME.csv, or NAME-none.csv, NAME-load.csv of several."""
    from steelyard.export.motions import format_of
    from steelyard.project.output_folder import check_file

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


def _subject(robot: str | None, given: Path | None, terms: str | None) -> Subject:
    """A robot by name or file, a project file, or the model behind a result: the last two have terms of their own."""
    from steelyard.project.excite import is_project, subject_of, subject_of_result

    if given is not None:
        if terms is not None:
            raise ProjectError("With --given the model is that of the result: leave out --terms.")
        return subject_of_result(given, robot)
    if robot is None:
        raise ProjectError("Name a robot: a built-in name, a robot file or a project file; or a result with --given.")
    if terms is not None and is_project(robot):
        raise ProjectError(f"The terms are those of the project '{robot}': leave out --terms.")
    return subject_of(robot, None if terms is None else _words(terms))


def _criterion(
    name: str | None, parameters: Sequence[str], targets: Mapping[str, float], subject: Subject, allowed: Allowed
) -> Criterion:
    """The criterion asked for; without a name that which the other options mean.

    `targets` without any aims at every parameter of a result, at the same share of its scale.
    """
    from steelyard.design.criteria import CRITERIA, ConditionNumber, DeviationTargets, DOptimal
    from steelyard.project.excite import every_target

    if name is None:
        name = DeviationTargets.name if targets or (subject.result and not parameters) else DOptimal.name
    if name not in CRITERIA:
        raise DataError(choices("criterion", name, CRITERIA))
    if parameters and name != DOptimal.name:
        raise DataError(f"--parameters belongs to --criterion {DOptimal.name}; with '{name}' leave it out.")
    if targets and name != DeviationTargets.name:
        raise DataError(f"--target belongs to --criterion {DeviationTargets.name}; with '{name}' leave it out.")
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
    from steelyard.design.criteria import DOptimal

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
