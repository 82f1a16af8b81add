"""Commands about robots: `robots` and `params`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steelyard.cli import option_values
from steelyard.cli.console import JsonFlag, emit, say, say_findings
from steelyard.cli.tables import show
from steelyard.errors import RobotError, choices
from steelyard.report.table import TableColumn, table

if TYPE_CHECKING:
    from steelyard.model.base_parameters import BaseParameters
    from steelyard.model.model import Model


def robots(as_json: JsonFlag = False) -> None:
    from steelyard.formats.robots import builtin_robots, read_robot

    columns = (
        TableColumn("name", "Robot"),
        TableColumn("joints", "Joints", "count"),
        TableColumn("nominal_inertias", "Nominal inertias", "flag"),
        TableColumn("source", "Source", shown=False),
    )
    rows = []
    for name in builtin_robots():
        robot = read_robot(name)
        inertias = all(robot.links[i].inertia is not None for i in robot.bodies)
        rows.append((name, robot.dof, inertias, robot.source))
    listed = table("robots", "", columns, rows)
    if as_json:
        emit({"schema": "steelyard.robots/1", "robots": listed.records()})
        return
    show(listed)


def params(
    robot: Annotated[
        str,
        typer.Argument(help="Built-in robot, or a table, URDF, MJCF or SDF file.", autocompletion=option_values.robots),
    ],
    without: Annotated[
        list[str] | None,
        typer.Option(
            help="Parameters to leave out, by symbol (off) or name (joint1.off), comma-separated; may be repeated."
        ),
    ] = None,
    gravity: Annotated[
        str | None,
        typer.Option(
            help="Gravity X,Y,Z [m/s²] in the world frame of the robot description. Default: that of the robot file."
        ),
    ] = None,
    terms: Annotated[
        str | None,
        typer.Option(help=option_values.TERMS_HELP, autocompletion=option_values.completing(option_values.TERMS)),
    ] = None,
    hold: Annotated[list[str] | None, typer.Option(help=option_values.HOLD_HELP)] = None,
    on_base: Annotated[str | None, typer.Option("--base", help=option_values.BASE_HELP)] = None,
    as_json: JsonFlag = False,
) -> None:
    """Base parameters are the linear combinations that motion can identify; each is printed with its terms."""
    from steelyard.formats.robots import read_robot
    from steelyard.formats.robots.bases import checked_base
    from steelyard.model.base_parameters import base_parameters
    from steelyard.model.model import Model
    from steelyard.model.terms import DEFAULT_TERMS, named_terms

    field = None if gravity is None else _vector(gravity)
    described = read_robot(robot, field, option_values.listed(hold), checked_base(on_base))
    suggested = described.terms if described.terms is not None else DEFAULT_TERMS
    names = suggested if terms is None else tuple(name.strip() for name in terms.split(",") if name.strip())
    model = Model(described, named_terms(names))
    left_out = _symbols(without or [], model)
    base = base_parameters(model, left_out)
    if as_json:
        emit(_params_document(model, base, left_out))
    else:
        _show_params(model, base, left_out)


def _vector(value: str) -> list[float]:
    try:
        numbers = [float(part) for part in value.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) != 3:
        raise RobotError(f"--gravity takes three numbers X,Y,Z [m/s²], e.g. 0,0,-9.81, not '{value}'.")
    return numbers


def _symbols(names: list[str], model: Model) -> list[str]:
    """The values of `--without`, split at commas and checked against the model's columns."""
    wanted = option_values.listed(names)
    symbols = dict.fromkeys(column.symbol for column in model.layout.columns)
    for name in wanted:
        if name not in symbols and name not in model.layout:
            raise RobotError(choices("symbol or parameter", name, [*symbols, *model.layout.names]))
    return wanted


def _params_document(model: Model, base: BaseParameters, left_out: list[str]) -> dict[str, Any]:
    from steelyard.project.documents import plain

    return {
        "schema": "steelyard.params/1",
        "robot": model.robot.name,
        "terms": [term.name for term in model.terms],
        "gravity": model.robot.gravity.tolist(),
        "held": model.robot.held,
        "counts": _counts(base, left_out),
        "base_floats": model.robot.floats,
        **({"base_with_contacts": _with_base_rows(model, left_out)} if model.robot.floats else {}),
        "parameters": [
            {"name": c.name, "unit": c.unit, "nominal": c.nominal}
            for c in base.layout.columns
            if not _is_out(c, left_out)
        ],
        "zero": [base.layout.names[k] for k in base.zero],
        "regroupings": base.regroupings,
        "findings": plain(model.robot.findings),
        "gap": {"smallest_kept": base.smallest_kept, "largest_dropped": base.largest_dropped},
    }


def _is_out(column: Any, left_out: list[str]) -> bool:
    return column.symbol in left_out or column.name in left_out


def _counts(base: BaseParameters, left_out: list[str]) -> dict[str, int]:
    standard = sum(not _is_out(column, left_out) for column in base.layout.columns)
    return {"standard": standard, "zero": len(base.zero), "base": len(base)}


def _with_base_rows(model: Model, left_out: list[str]) -> int:
    """Number of base parameters if the wrench on a floating base is known in addition to the efforts."""
    from steelyard.model.base_parameters import base_parameters

    every = replace(model, robot=replace(model.robot, actuated=model.robot.joint_names))
    return len(base_parameters(every, left_out))


def _show_params(model: Model, base: BaseParameters, left_out: list[str]) -> None:
    counts = _counts(base, left_out)
    say(
        f"{model.robot.name}: {counts['standard']} standard parameters, {counts['zero']} without effect on effort, "
        f"{counts['base']} base parameters",
        "bold",
    )
    say(
        f"Base parameters chosen by rank: smallest kept column {base.smallest_kept:.2g}, largest dropped column "
        f"{base.largest_dropped:.2g} (0 = dependent)"
    )
    if model.robot.floats:
        say(
            f"The base floats. From the efforts of its limbs alone, with nothing touching them: {len(base)} base "
            f"parameters, listed here. Where every contact force is measured too: {_with_base_rows(model, left_out)}"
        )
    say("without effect on effort: " + (", ".join(base.layout.names[k] for k in base.zero) or "none"))
    for link in model.robot.links:
        if link.lumps:
            say(f"lumped into {link.name}: " + ", ".join(lump.name for lump in link.lumps))
    say_findings(model.robot.findings)
    columns = (
        TableColumn("name", "Base parameter", "code"),
        TableColumn("unit", "Unit", "unit"),
        TableColumn("expression", "Stands for", "code"),
    )
    rows = [
        (name, unit, None if expression == name else expression)
        for name, unit, expression in zip(base.names, base.units, base.expressions, strict=True)
    ]
    show(table("base", "", columns, rows))
