"""Command that writes files for others: `export`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Column, Table

from steelyard.cli import option_values
from steelyard.cli.console import JsonFlag, emit, number, people, say
from steelyard.errors import OutputError, ProjectError, choices

if TYPE_CHECKING:
    from steelyard.export import Export, IdentifiedModel
    from steelyard.export.robot_files.changes import FileChange
    from steelyard.project.reopen import Reopened

SCHEMA = "steelyard.export/1"
# Formats that edit a robot file, with the root of such a file and how a new one is called; then those that do not.
MODELS = {"urdf": ("robot", ".urdf"), "mjcf": ("mujoco", ".xml")}
FORMATS = (*MODELS, "c", "python", "latex")


def export_command(
    result: Annotated[Path, typer.Argument(help="A run folder or its result.json.")],
    to: Annotated[str, typer.Option(help=f"One of: {', '.join(FORMATS)}.")],
    source: Annotated[
        Path | None, typer.Option(help="URDF or MJCF to put the values into; default the result's own robot file.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="File to write, of c the folder; what is there is replaced, --source too if it is named here. "
            "Default: a new one in the current folder."
        ),
    ] = None,
    load: Annotated[
        str, typer.Option(help="A payload of the project, made part of the link that carries it.")
    ] = option_values.UNLOADED,
    name: Annotated[str | None, typer.Option(help="What functions and files are called, of c, python, latex.")] = None,
    regroupings: Annotated[bool, typer.Option("--regroupings", help="Of latex: a second table, of the sums.")] = False,
    allow_infeasible: Annotated[
        bool, typer.Option("--allow-infeasible", help="Of c and python: the values as identified, physical or not.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Write an identified model as URDF, MJCF, C, Python or a LaTeX table; what does not agree is not written."""
    from steelyard.export import identified_model
    from steelyard.project.reopen import reopen

    _check_asked(to, source, name, regroupings, allow_infeasible)
    reopened = reopen(result, [], load=load)
    origin = _origin(reopened, to, source)
    place = _place(reopened, to, origin, out, name)
    chosen = None if to == "latex" else identified_model(reopened.model, reopened.result, load, allow_infeasible)
    made = _made(to, reopened, chosen, origin, name, regroupings)
    notes = (*made.notes, *_apart_from(made.beside, origin, place), *_own_robot(reopened, place))
    made = replace(made, notes=notes)
    written = _write(place, made)
    if as_json:
        emit(_document(made, chosen, origin, written))
    _show(made, chosen)
    for path in written:
        say(f"Written: {path}")


def _check_asked(to: str, source: Path | None, name: str | None, regroupings: bool, allow_infeasible: bool) -> None:
    """Options that the format has no use for are mistakes, not wishes."""
    if to not in FORMATS:
        raise ProjectError("--to: " + choices("format", to, FORMATS))
    useless = {
        "--source": source is not None and to not in MODELS,
        "--name": name is not None and to in MODELS,
        "--regroupings": regroupings and to != "latex",
        "--allow-infeasible": allow_infeasible and to not in ("c", "python"),
    }
    for option, given in useless.items():
        if given:
            raise ProjectError(f"{option} means nothing to --to {to}: leave it out.")


def _origin(reopened: Reopened, to: str, source: Path | None) -> Path | None:
    """The robot file to edit: the one named, else the result's own where it is of the format, else none."""
    from steelyard.formats.robots.urdf import root_tag

    if to not in MODELS or source is not None:
        return source
    own = reopened.project.robot_file
    if own is None or own.suffix.lower() not in (".urdf", ".xml", ".mjcf"):
        return None
    return own if root_tag(own.read_bytes(), str(own)) == MODELS[to][0] else None


def _place(reopened: Reopened, to: str, origin: Path | None, out: Path | None, name: str | None) -> Path:
    """Where to write: as asked, else in the current folder, as compilers do, under a name that nothing has yet."""
    from steelyard.export.code.text import own_name
    from steelyard.project.output_folder import check_file

    if to == "c":
        own = f"{reopened.file.resolve().parent.name}-c"
    elif origin is not None:
        own = f"{origin.stem}-identified{origin.suffix}"
    else:
        endings = {kind: ending for kind, (_, ending) in MODELS.items()} | {"python": ".py", "latex": ".tex"}
        own = f"{name or own_name(reopened.model.robot.name)}{endings[to]}"
    if out is None:
        place = Path.cwd() / own
        if place.exists():
            raise OutputError(f"'{place}' exists. Name it with --out to replace it, or name another place.")
    else:
        place = out / own if to != "c" and out.is_dir() else out
    _spare(place, reopened)
    if to != "c":
        check_file(place)
    return place


def _spare(place: Path, reopened: Reopened) -> None:
    """What a result consists of is never written over: its own folder, its logs, and project files (TOML)."""
    where, run = place.resolve(), reopened.file.resolve().parent
    if where == run or run in where.parents or where in run.parents:
        raise OutputError(
            f"'{place}' is part of the result in '{run}', which an export must leave as it is. Name another place with "
            "--out."
        )
    logs = [(reopened.project.path.parent / one.log).resolve() for one in reopened.as_fitted.spec.run]
    if where in logs or (where.suffix == ".toml" and where.exists()):
        raise OutputError(f"'{place}' is what results are made from. Name another place with --out.")


def _own_robot(reopened: Reopened, place: Path) -> tuple[str, ...]:
    """A warning where the new file takes the place of the robot file of the result."""
    own = reopened.project.robot_file
    if own is None or place.resolve() != own.resolve():
        return ()
    return (
        f"'{place.name}' is the robot file of this result, which belongs to the old one: no command reads it any more "
        "until you identify again or put the old file back.",
    )


def _apart_from(beside: Sequence[str], origin: Path | None, place: Path) -> tuple[str, ...]:
    """A warning where the new file stands in another folder than the meshes its paths start from."""
    if origin is None or not beside or place.resolve().parent == origin.resolve().parent:
        return ()
    names = f"{', '.join(beside[:3])}{', …' if len(beside) > 3 else ''}"
    return (
        f"'{place.name}' looks for {names} in its own folder, and they belong to '{origin}'. Move it there, or name "
        f"that folder: --out {origin.parent}.",
    )


def _made(
    to: str,
    reopened: Reopened,
    chosen: IdentifiedModel | None,
    origin: Path | None,
    name: str | None,
    regroupings: bool,
) -> Export:
    from steelyard import export

    if chosen is None:
        return export.latex(reopened.result, reopened.model.robot, regroupings, name)
    if to == "c":
        return export.c(chosen, name)
    if to == "python":
        return export.python(chosen, name)
    if origin is None:
        return (export.new_urdf if to == "urdf" else export.new_mjcf)(chosen)
    return (export.urdf if to == "urdf" else export.mjcf)(chosen, origin)


def _write(place: Path, made: Export) -> tuple[Path, ...]:
    """All files or none: a folder of C, else the one file under the name that was asked for."""
    from steelyard.project.output_folder import whole_folder, write_files

    if made.name == "c":
        with whole_folder(place, tuple(made.files)) as fresh:
            for name, content in made.files.items():
                (fresh / name).write_bytes(content)
        return tuple(place / name for name in made.files)
    (content,) = made.files.values()
    write_files({place: content})
    return (place,)


# --- For people and programs ------------------------------------------------------------------------------------------


def _document(
    made: Export, chosen: IdentifiedModel | None, origin: Path | None, written: Sequence[Path]
) -> dict[str, Any]:
    from steelyard.project.documents import record

    standard = None
    if chosen is not None:
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
            "format": made.name,
            "files": [str(path) for path in written],
            "source": None if origin is None else str(origin),
            "parity": None if made.parity is None else asdict(made.parity) | {"friction": made.name not in MODELS},
            "left_out": list(made.left_out),
            "friction": [asdict(line) for line in made.friction],
            "notes": list(made.notes),
            "changes": [asdict(change) for change in made.changes],
            "standard": standard,
        },
    )


def _show(made: Export, chosen: IdentifiedModel | None) -> None:
    if made.changes:
        people.print(_change_table(made.changes))
    for one in made.left_out:
        say(f"Left out: {one}", "yellow")
    for one in made.notes:
        say(f"Note: {one}", "yellow")
    if chosen is None:
        say("Read back: every value is that of the result.")
        return
    say(f"Parameters: {chosen.rule}.")
    if chosen.cost:
        say(chosen.cost, "yellow")
    say(chosen.certificate, "green" if chosen.physical else "bold red")
    if made.parity is None:
        say("Not compiled here: there is no 'cc'. Run the self-test where there is one.", "yellow")
    else:
        say(f"Read back: {'without friction, ' if made.name in MODELS else ''}{made.parity}.", "bold")


def _change_table(changes: Sequence[FileChange]) -> Table:
    table = Table(Column("link or joint", no_wrap=True), "quantity", "before", "after", "unit", title="What changed")
    for one in changes:
        before, after = ("—" if x is None else number(x) for x in (one.before, one.after))
        table.add_row(one.owner, one.quantity, before, after, one.unit)
    return table
