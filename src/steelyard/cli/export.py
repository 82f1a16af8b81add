"""Command that writes an identified model for other programs: `export`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Column, Table

from steelyard.cli import option_values
from steelyard.cli.console import JsonFlag, emit, number, people, percent, progress_bar, say
from steelyard.cli.door.exit_codes import PlugInError
from steelyard.cli.tables import show
from steelyard.errors import OutputError, SteelyardError, few

if TYPE_CHECKING:
    from steelyard.export import Export, ExportRequest, ExportTarget
    from steelyard.export.robot_files.changes import FileChange
    from steelyard.project.reopen import Reopened

SCHEMA = "steelyard.export/1"


def export_command(
    result: Annotated[Path, typer.Argument(help="Run folder or its result.json.")],
    to: Annotated[
        str,
        typer.Option(
            help=f"Format to write: {', '.join(option_values.EXPORT_TARGETS)}.",
            autocompletion=option_values.completing(option_values.EXPORT_TARGETS),
        ),
    ],
    source: Annotated[
        Path | None,
        typer.Option(
            help="URDF, MJCF or SDF file to edit (urdf, mjcf, sdf). Default: the result's own, if it has one."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="File to write (c: folder). An existing file is replaced, --source too if it is named here. "
            "Default: a new file in the current folder."
        ),
    ] = None,
    load: Annotated[
        str,
        typer.Option(
            help="Payload of the project to add to the link that carries it (urdf, mjcf, sdf, c, python, casadi)."
        ),
    ] = option_values.UNLOADED,
    name: Annotated[
        str | None,
        typer.Option(help="Name of functions and files (c, python, casadi, latex). Default: the robot's name."),
    ] = None,
    regroupings: Annotated[
        bool, typer.Option("--regroupings", help="Add a second table: the sums that base parameters stand for (latex).")
    ] = False,
    allow_infeasible: Annotated[
        bool,
        typer.Option(
            "--allow-infeasible",
            help="Write the values as identified, even if they are not physical (c, python, casadi).",
        ),
    ] = False,
    exact: Annotated[
        bool,
        typer.Option(
            "--exact",
            help="Keep the identified values, even if the format cannot hold all of them, without a new fit of what it "
            "holds (urdf, mjcf, sdf).",
        ),
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Every file is read back and compared with the identified model first; what does not agree is not written."""
    from steelyard.export import named_target
    from steelyard.project.reopen import reopen

    target = named_target(to)
    reopened = reopen(result, [], load=load)
    asked = {
        "load": load if load != option_values.UNLOADED else None,
        "source": source,
        "name": name,
        "regroupings": regroupings or None,
        "allow_infeasible": allow_infeasible or None,
        "exact": exact or None,
    }
    given = {option: value for option, value in asked.items() if value is not None}
    with progress_bar() as progress:
        rows = cache(lambda: reopened.logged_rows(progress))
        request = target.request(reopened.model, reopened.result, rows, reopened.constraints, **given)
        if target.root and source is None:
            request = replace(request, source=_own_source(reopened, target))
        place = _place(reopened, target, request, out)
        made = _made(target, request)
    notes = (
        *made.notes,
        *(_unfit(reopened, made) if target.form is not None else ()),
        *_apart_from(made.companions, request.source, place),
        *_own_robot(reopened, place),
    )
    made = replace(made, notes=notes)
    written = _write(place, target, made)
    if as_json:
        emit(_document(target, request, made, written))
    _show(target, request, made)
    for path in written:
        say(f"Written: {path}")


def _made(target: ExportTarget, request: ExportRequest) -> Export:
    """The files of the target; whatever a user's own target raises is reported as its fault."""
    try:
        return target.export(request)
    except (Exception, SystemExit) as error:
        if target.name in option_values.EXPORT_TARGETS or isinstance(error, SteelyardError | MemoryError):
            raise
        raise PlugInError(f"The export target '{target.name}' failed") from error


def _own_source(reopened: Reopened, target: ExportTarget) -> Path | None:
    """The result's own robot file, if the target can edit it."""
    from steelyard.formats.robots.urdf import root_tag

    own = reopened.project.robot_file
    if own is None or own.suffix.lower() not in (".urdf", ".xml", ".mjcf", ".sdf"):
        return None
    return own if root_tag(own.read_bytes(), str(own)) == target.root else None


def _place(reopened: Reopened, target: ExportTarget, request: ExportRequest, out: Path | None) -> Path:
    """Where to write: `out`, or a new file in the current folder; an error if that exists already."""
    from steelyard.export.code.text import own_name
    from steelyard.project.output_folder import check_file

    if not target.ending:
        own = f"{reopened.file.resolve().parent.name}-{target.name}"
    elif request.source is not None:
        own = f"{request.source.stem}-identified{request.source.suffix}"
    else:
        own = f"{request.name or own_name(reopened.model.robot.name)}{target.ending}"
    if out is None:
        place = Path.cwd() / own
        if place.exists():
            raise OutputError(f"'{place}' exists. Name it with --out to replace it, or name another place.")
    else:
        place = out / own if target.ending and out.is_dir() else out
    _spare(place, reopened)
    if target.ending:
        check_file(place)
    return place


def _spare(place: Path, reopened: Reopened) -> None:
    """Refuse to overwrite the inputs of a result: its own folder, its logs, and project files (TOML)."""
    where, run = place.resolve(), reopened.file.resolve().parent
    if where == run or run in where.parents or where in run.parents:
        raise OutputError(
            f"'{place}' is part of the result in '{run}', which an export must not change. Name another place with "
            "--out."
        )
    folder, runs = reopened.project.path.parent, reopened.as_fitted.spec.run
    logs = [(folder / log).resolve() for one in runs for log in one.logs]
    in_archive = where.is_file() and any(where in log.parents for log in logs)
    if where in logs or in_archive or (where.suffix == ".toml" and where.exists()):
        raise OutputError(f"'{place}' is an input of the result (a log or a TOML file). Name another place with --out.")


def _unfit(reopened: Reopened, made: Export) -> tuple[str, ...]:
    """A note where the file is not good enough for simulation, by the limit of the project for its lamps."""
    if made.worth is None:
        return ()
    what, scores = made.worth.judged
    error, limit = scores["file"].total, reopened.project.spec.lamps.simulation
    if error <= limit:
        return ()
    return (
        f"The file is not good enough for simulation: its relative error on {what} is {percent(error)}, above "
        f"{limit:.0%} (simulation in [lamps]).",
    )


def _own_robot(reopened: Reopened, place: Path) -> tuple[str, ...]:
    """A note where the new file replaces the robot file of the result."""
    own = reopened.project.robot_file
    if own is None or place.resolve() != own.resolve():
        return ()
    return (
        f"'{place.name}' is the robot file of this result and has been replaced. Commands refuse the result until you "
        "identify again or restore the old file.",
    )


def _apart_from(beside: Sequence[str], origin: Path | None, place: Path) -> tuple[str, ...]:
    """A note on the meshes that the source finds by relative paths, and the new file in its folder does not."""
    if origin is None:
        return ()
    lost = [one for one in beside if (origin.parent / one).exists() and not (place.parent / one).exists()]
    if not lost:
        return ()
    return (
        f"'{place.name}' does not find {few(lost, 3)} in its folder '{place.parent}'. Copy the files there, or write "
        f"it next to the source: --out {origin.parent}.",
    )


def _write(place: Path, target: ExportTarget, made: Export) -> tuple[Path, ...]:
    """Write all files or none: a folder, or the one file with the requested name."""
    from steelyard.project.output_folder import whole_folder, write_files

    if not target.ending:
        with whole_folder(place, tuple(made.files)) as fresh:
            for name, content in made.files.items():
                (fresh / name).write_bytes(content)
        return tuple(place / name for name in made.files)
    (content,) = made.files.values()
    write_files({place: content})
    return (place,)


# --- What is printed --------------------------------------------------------------------------------------------------


def _document(target: ExportTarget, request: ExportRequest, made: Export, written: Sequence[Path]) -> dict[str, Any]:
    from steelyard.project.documents import record

    standard = None
    if target.standard:
        chosen = request.written
        standard = {
            "rule": chosen.rule,
            "load": chosen.load,
            "physical": chosen.physical,
            "smallest": chosen.smallest,
            "distance_sigma": chosen.distance_sigma,
            "torque_change": chosen.torque_change,
            "values": dict(zip(chosen.model.layout.names, chosen.theta.tolist(), strict=True)),
        }
    return record(
        SCHEMA,
        {
            "format": target.name,
            "files": [str(path) for path in written],
            "source": None if request.source is None else str(request.source),
            "parity": None if made.parity is None else asdict(made.parity) | {"friction": not target.root},
            "left_out": list(made.left_out),
            "friction": [asdict(line) for line in made.friction],
            "notes": list(made.notes),
            "changes": [asdict(change) for change in made.changes],
            "standard": standard,
            "scores": None if made.worth is None else made.worth.document(),
            "unscored": made.unscored or None,
            "fit": _fit_document(request),
        },
    )


def _fit_document(request: ExportRequest) -> dict[str, Any] | None:
    """The fit over what a robot file can hold, and what it changes; None where the file has the identified values."""
    if request.form is None or request.file_values.fit is None:
        return None
    fit, moves = request.file_values.fit, request.file_values.moves
    return {
        "holds": list(request.form.holds),
        "weight": fit.weight,
        "share": fit.share,
        "mass_width": fit.mass_width,
        "changed": [dict(zip(("parameter", "identified", "written"), move, strict=True)) for move in moves],
    }


def _show(target: ExportTarget, request: ExportRequest, made: Export) -> None:
    from steelyard.report.tables.worth import worth_table

    if made.changes:
        people.print(_change_table(made.changes))
    for one in made.left_out:
        say(f"Left out: {one}", "yellow")
    for one in made.notes:
        say(f"Note: {one}", "yellow")
    if target.standard:
        chosen = request.written
        say(f"Parameters: {chosen.rule}.")
        if chosen.cost:
            say(chosen.cost, "yellow")
        say(chosen.certificate, "green" if chosen.physical else "bold red")
    if made.worth is not None:
        show(worth_table(made.worth))
    elif made.unscored:
        say(made.unscored, "yellow")
    if made.parity is not None:
        say(f"Read back: {'without friction, ' if target.root else ''}{made.parity}.", "bold")
    else:
        say(made.read_back or f"Not read back: target '{target.name}' does not compare its files with the model.")


def _change_table(changes: Sequence[FileChange]) -> Table:
    table = Table(Column("link or joint", no_wrap=True), "quantity", "before", "after", "unit", title="What changed")
    for one in changes:
        before, after = ("—" if x is None else number(x) for x in (one.before, one.after))
        table.add_row(one.owner, one.quantity, before, after, one.unit)
    return table
