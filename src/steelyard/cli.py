"""The command line: thin. People's text goes to stderr, `--json` prints one object on stdout, errors exit with 2."""

from __future__ import annotations

import inspect
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from steelyard.base_parameters import BaseParameters, base_parameters
from steelyard.demo import demo as run_demo
from steelyard.errors import ProjectError, RobotError, SteelyardError, choices
from steelyard.estimators import ESTIMATORS
from steelyard.formats.robots import builtin_robots, read_robot
from steelyard.identification import Identification
from steelyard.model import Model
from steelyard.project import REPORT, read_project
from steelyard.project import run as run_project
from steelyard.results import text
from steelyard.terms import DEFAULT_TERMS, TERMS, named_terms

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Steelyard weighs a robot by its own motion: base parameters with honest error bars from logs.",
)
people = Console(stderr=True)
JsonFlag = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")]
FAILED = 2


def main() -> None:
    """Entry point: errors a user can mend become one sentence and exit code 2."""
    wants_json = "--json" in sys.argv
    try:
        # outside standalone mode an Exit raised by a command comes back as its code
        sys.exit(app(standalone_mode=False))
    except SteelyardError as error:
        _failed(str(error), wants_json)
    except typer.Abort:
        _failed("Stopped.", wants_json)
    except Exception as error:
        # click's usage errors carry a message for people; anything else is a bug and keeps its traceback
        if not hasattr(error, "format_message"):
            raise
        message = error.format_message()  # type: ignore[attr-defined]
        # without a command the help was shown and there is nothing to add
        _failed(f"{message} See: steelyard --help", wants_json) if message else sys.exit(FAILED)


def _failed(message: str, wants_json: bool) -> None:
    if wants_json:
        print(text({"schema": "steelyard.error/1", "error": message}))
    people.print(f"[bold red]error:[/] {escape(message)}", highlight=False, soft_wrap=True)
    sys.exit(FAILED)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(version("steelyard"))
        raise typer.Exit


@app.callback()
def options(
    wants_version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_show_version)
    ] = False,
) -> None:
    """Options of the command itself."""


@app.command()
def robots(as_json: JsonFlag = False) -> None:
    """List the built-in robots."""
    listed = []
    for name in builtin_robots():
        robot = read_robot(name)
        inertias = all(link.inertia is not None for link in robot.links)
        listed.append({"name": name, "joints": robot.dof, "nominal_inertias": inertias, "source": robot.source})
    if as_json:
        print(text({"schema": "steelyard.robots/1", "robots": listed}))
        return
    table = Table("robot", "joints", "nominal inertias")
    for row in listed:
        table.add_row(row["name"], str(row["joints"]), "yes" if row["nominal_inertias"] else "no")
    people.print(table)


@app.command()
def estimators(as_json: JsonFlag = False) -> None:
    """List the estimators."""
    listed = {name: inspect.getdoc(kind) or "" for name, kind in ESTIMATORS.items()}
    if as_json:
        print(text({"schema": "steelyard.estimators/1", "estimators": listed}))
        return
    for name, line in listed.items():
        people.print(f"[bold]{name}[/]\n{escape(line)}\n", highlight=False)


@app.command()
def params(
    robot: Annotated[str, typer.Argument(help="A built-in name, or a .toml, .urdf or MJCF file.")],
    without: Annotated[list[str] | None, typer.Option(help="Leave out columns by symbol (off) or name.")] = None,
    gravity: Annotated[str | None, typer.Option(help="X,Y,Z in m/s² of the base frame.")] = None,
    terms: Annotated[str | None, typer.Option(help=f"Comma-separated: {', '.join(TERMS)}; '' for none.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Standard and base parameters of a robot, with every regrouping."""
    described = read_robot(robot, None if gravity is None else _vector(gravity))
    suggested = described.terms if described.terms is not None else DEFAULT_TERMS
    names = suggested if terms is None else tuple(name.strip() for name in terms.split(",") if name.strip())
    model = Model(described, named_terms(names))
    left_out = _symbols(without or [], model)
    base = base_parameters(model, left_out)
    if as_json:
        print(text(_params_document(model, base, left_out)))
    else:
        _show_params(model, base, left_out)


@app.command()
def identify(
    project: Annotated[Path, typer.Argument(help="The project file (TOML).")],
    estimator: Annotated[str | None, typer.Option(help=f"One of: {', '.join(ESTIMATORS)}.")] = None,
    out: Annotated[Path | None, typer.Option(help="Run folder to write; default NAME-run beside NAME.toml.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Identify a robot from its project file; writes result.json and report.html."""
    if estimator is not None and estimator not in ESTIMATORS:
        raise ProjectError(choices("estimator", estimator, ESTIMATORS))
    with _progress() as progress:
        done = run_project(read_project(project), out, estimator, progress)
    if as_json:
        print(text(done.document))
    _show_result(done.identification)
    people.print(f"Report: {done.folder / REPORT}", highlight=False, soft_wrap=True)
    _exit_on_errors(done.identification)


@app.command()
def demo(
    robot: Annotated[str, typer.Argument(help="A built-in name or a robot file.")] = "tx40",
    out: Annotated[Path | None, typer.Option(help="Folder for logs, project and results.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the simulated robot, motion and noise.")] = 7,
    as_json: JsonFlag = False,
) -> None:
    """Simulate a robot with known truth, log it, identify it from the log, and compare."""
    folder = out or Path("runs") / f"demo-{Path(robot).stem}"
    people.print(f"Simulating {escape(robot)}, then identifying it from the log alone …", highlight=False)
    with _progress() as progress:
        done = run_demo(robot, folder, seed, progress)
    result = done.run.identification
    if as_json:
        print(text({**done.run.document, "truth": dict(zip(result.base.names, done.truth.tolist(), strict=True))}))
    _show_result(result)
    people.print(
        f"{done.covered} of {len(result.base)} true values lie in their 95 % intervals.\n"
        f"Project: {done.project}\nReport: {done.run.folder / REPORT}",
        highlight=False,
        soft_wrap=True,
    )
    _exit_on_errors(result)


@app.command()
def warm(as_json: JsonFlag = False) -> None:
    """Compile the kernels once; later runs load them from the cache."""
    people.print("Compiling the kernels (once) …")
    start = time.perf_counter()
    model = Model(read_robot("planar2r"), ())
    q = np.zeros((2, 3))
    theta = model.layout.nominal
    assert theta is not None
    model.regressor(q, q, q)
    model.mass_matrix(q, theta)
    model.forward(q, q, model.torque(q, q, q, theta), theta)
    seconds = time.perf_counter() - start
    if as_json:
        print(text({"schema": "steelyard.warm/1", "seconds": seconds}))
    people.print(f"Kernels ready ({seconds:.1f} s).")


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
    people.print(
        f"[bold]{escape(model.robot.name)}[/]: {counts['standard']} standard parameters, "
        f"{counts['zero']} without effect, [bold]{counts['base']} base parameters[/]\n"
        f"gap: smallest kept {base.smallest_kept:.2g}, largest dropped {base.largest_dropped:.2g}",
        highlight=False,
    )
    people.print("without effect: " + ", ".join(base.layout.names[k] for k in base.zero), highlight=False)
    table = Table("base parameter", "unit", "stands for")
    for name, unit, expression in zip(base.names, base.units, base.expressions, strict=True):
        table.add_row(name, unit, "" if expression == name else expression)
    people.print(table)


def _show_result(result: Identification) -> None:
    table = Table("parameter", "value", "± σ", "σ classical", "rel. σ", "unit")
    for name, value, std, classical, relative, unit in zip(
        result.base.names, result.value, result.std, result.std_classical, result.relative_std, result.base.units,
        strict=True,
    ):  # fmt: skip
        table.add_row(name, _number(value), _number(std), _number(classical), _percent(relative), unit)
    people.print(table)
    scores = Table("joint", "relative error", "RMSE", "rows", "nominal")
    fit = result.relative_error
    for joint in fit.joints:
        nominal = "—" if result.nominal is None else _percent(result.nominal.joints[joint])
        scores.add_row(joint, _percent(fit.joints[joint]), _number(fit.rmse[joint]), str(fit.rows[joint]), nominal)
    nominal = "—" if result.nominal is None else _percent(result.nominal.total)
    scores.add_row("total", _percent(fit.total), "", str(sum(fit.rows.values())), nominal)
    people.print(scores)
    people.print(f"Scored: {fit.mask}", highlight=False)
    colours = {"info": "cyan", "warning": "yellow", "error": "bold red"}
    for finding in result.findings:
        people.print(f"[{colours[finding.severity]}]{escape(str(finding))}[/]", highlight=False)
    people.print(f"[bold]{escape(result.verdict)}[/]", highlight=False)


def _number(x: float) -> str:
    return f"{x:.4g}" if np.isfinite(x) else "—"


def _percent(x: float) -> str:
    return f"{x:.2%}" if np.isfinite(x) else "—"


def _exit_on_errors(result: Identification) -> None:
    if any(finding.severity == "error" for finding in result.findings):
        raise typer.Exit(FAILED)


@contextmanager
def _progress() -> Iterator[Callable[[str, int, int], None]]:
    """A bar per run on stderr, shown once the work has taken two seconds."""
    started = time.perf_counter()
    tasks: dict[str, Any] = {}
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeRemainingColumn(),
    )
    bar = Progress(*columns, console=people, transient=True)

    def advance(run: str, done: int, total: int) -> None:
        if not tasks and time.perf_counter() - started < 2.0:
            return
        if not tasks:
            bar.start()
        if run not in tasks:
            tasks[run] = bar.add_task(f"observing {run}", total=total)
        bar.update(tasks[run], completed=done)

    try:
        yield advance
    finally:
        if tasks:  # stopping a bar that never started would print an empty line
            bar.stop()


if __name__ == "__main__":
    main()
