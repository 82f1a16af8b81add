"""Commands about robots: `robots` and `params`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from steelyard.cli import option_values
from steelyard.cli.console import JsonFlag, emit, people, say
from steelyard.errors import RobotError, choices

if TYPE_CHECKING:
    from steelyard.model.base_parameters import BaseParameters
    from steelyard.model.model import Model


def robots(as_json: JsonFlag = False) -> None:
    """List the built-in robots."""
    from steelyard.formats.robots import builtin_robots, read_robot

    listed = []
    for name in builtin_robots():
        robot = read_robot(name)
        inertias = all(robot.links[i].inertia is not None for i in robot.bodies)
        listed.append({"name": name, "joints": robot.dof, "nominal_inertias": inertias, "source": robot.source})
    if as_json:
        emit({"schema": "steelyard.robots/1", "robots": listed})
        return
    table = Table("robot", "joints", "nominal inertias")
    for row in listed:
        table.add_row(row["name"], str(row["joints"]), "yes" if row["nominal_inertias"] else "no")
    people.print(table)


def params(
    robot: Annotated[str, typer.Argument(help="A built-in name, or a .toml, .urdf or MJCF file.")],
    without: Annotated[list[str] | None, typer.Option(help="Leave out columns by symbol (off) or name.")] = None,
    gravity: Annotated[str | None, typer.Option(help="X,Y,Z in m/s² in the world in which the base stands.")] = None,
    terms: Annotated[
        str | None, typer.Option(help=f"Comma-separated: {', '.join(option_values.TERMS)}; '' for none.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Standard and base parameters of a robot, with every regrouping."""
    from steelyard.formats.robots import read_robot
    from steelyard.model.base_parameters import base_parameters
    from steelyard.model.model import Model
    from steelyard.model.terms import DEFAULT_TERMS, named_terms

    described = read_robot(robot, None if gravity is None else _vector(gravity))
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
        raise RobotError(f"--gravity takes three numbers X,Y,Z in m/s², e.g. 0,0,-9.81; not '{value}'.")
    return numbers


def _symbols(names: list[str], model: Model) -> list[str]:
    """`--without` split at commas and checked against the model's columns."""
    wanted = [name.strip() for value in names for name in value.split(",") if name.strip()]
    symbols = dict.fromkeys(column.symbol for column in model.layout.columns)
    for name in wanted:
        if name not in symbols and name not in model.layout:
            raise RobotError(choices("symbol or parameter", name, [*symbols, *model.layout.names]))
    return wanted


def _params_document(model: Model, base: BaseParameters, left_out: list[str]) -> dict[str, Any]:
    return {
        "schema": "steelyard.params/1",
        "robot": model.robot.name,
        "terms": [term.name for term in model.terms],
        "gravity": model.robot.gravity.tolist(),
        "counts": _counts(base, left_out),
        "parameters": [
            {"name": c.name, "unit": c.unit, "nominal": c.nominal}
            for c in base.layout.columns
            if not _is_out(c, left_out)
        ],
        "zero": [base.layout.names[k] for k in base.zero],
        "regroupings": base.regroupings,
        "gap": {"smallest_kept": base.smallest_kept, "largest_dropped": base.largest_dropped},
    }


def _is_out(column: Any, left_out: list[str]) -> bool:
    return column.symbol in left_out or column.name in left_out


def _counts(base: BaseParameters, left_out: list[str]) -> dict[str, int]:
    standard = sum(not _is_out(column, left_out) for column in base.layout.columns)
    return {"standard": standard, "zero": len(base.zero), "base": len(base)}


def _show_params(model: Model, base: BaseParameters, left_out: list[str]) -> None:
    counts = _counts(base, left_out)
    say(
        f"{model.robot.name}: {counts['standard']} standard parameters, {counts['zero']} without effect, "
        f"{counts['base']} base parameters",
        "bold",
    )
    say(f"rank decision: smallest sine kept {base.smallest_kept:.2g}, largest dropped {base.largest_dropped:.2g}")
    say("without effect: " + (", ".join(base.layout.names[k] for k in base.zero) or "none"))
    for link in model.robot.links:
        if link.lumps:
            say(f"lumped into {link.name}: " + ", ".join(lump.name for lump in link.lumps))
    table = Table("base parameter", "unit", "stands for")
    for name, unit, expression in zip(base.names, base.units, base.expressions, strict=True):
        table.add_row(name, unit, "" if expression == name else expression)
    people.print(table)
