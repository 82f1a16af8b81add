"""Commands that identify: `identify`, `report`, `demo`, `estimators`, and `warm`."""

from __future__ import annotations

import inspect
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from steelyard.cli import option_values
from steelyard.cli.console import JsonFlag, emit, progress_bar, say
from steelyard.cli.door.exit_codes import exit_if_errors
from steelyard.cli.printing.result import TableFlag, show_result
from steelyard.cli.tables import show
from steelyard.errors import OutputError, ProjectError, choices
from steelyard.report.table import TableColumn, table

if TYPE_CHECKING:
    from steelyard.project.demos.demo import Demo
    from steelyard.project.demos.orthoglide import Controlled


def identify(
    project: Annotated[Path, typer.Argument(help="Project file (TOML).")],
    estimator: Annotated[
        str | None,
        typer.Option(
            help=f"Estimator: {', '.join(option_values.ESTIMATORS)}. Default: that of the project.",
            autocompletion=option_values.completing(option_values.ESTIMATORS),
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Run folder to write. Default: NAME-run next to NAME.toml.")] = None,
    hold: Annotated[list[str] | None, typer.Option(help=option_values.HOLD_HELP)] = None,
    tables: Annotated[
        str,
        typer.Option(help=f"Tables to write into the run folder, comma-separated: {', '.join(option_values.TABLES)}."),
    ] = "",
    every_table: TableFlag = False,
    no_data: Annotated[
        bool, typer.Option("--no-data", help="Write a report without raw signals and spectra, to share.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Keys that the project leaves out are chosen from the data and written into the result."""
    from steelyard.estimators import ESTIMATORS
    from steelyard.project.output_folder import REPORT
    from steelyard.project.project import read_project
    from steelyard.project.run import run as run_project

    if estimator is not None and estimator not in ESTIMATORS:
        raise ProjectError(choices("estimator", estimator, ESTIMATORS))
    formats = [f".{name.strip()}" for name in tables.split(",") if name.strip()]
    with progress_bar() as progress:
        done = run_project(
            read_project(project).holding(option_values.listed(hold)), out, estimator, progress, formats, not no_data
        )
    if as_json:
        emit(done.document)
    links = {one["name"]: one["link"] for one in done.document["project"]["payload"]}
    show_result(done.identification, links, every_table, done.lamps, done.document["selection"])
    for fault in done.section_faults:
        say(fault, "yellow")
    say(f"Report: {done.folder / REPORT}")
    exit_if_errors(done.identification.findings)


def report_again(
    result: Annotated[Path, typer.Argument(help="Run folder or its result.json; its logs must still be in place.")],
    out: Annotated[Path | None, typer.Option(help="Page to write. Default: report.html of the run folder.")] = None,
    without_logs: Annotated[
        bool,
        typer.Option("--without-logs", help="Leave out the figures that need the logs of the fit."),
    ] = False,
    no_data: Annotated[
        bool, typer.Option("--no-data", help="Leave out raw signals and spectra, for a page to share.")
    ] = False,
    files: Annotated[
        str,
        typer.Option(help="Robot files whose worth on the logs the page is to show, comma-separated: urdf, mjcf, sdf."),
    ] = "",
    as_json: JsonFlag = False,
) -> None:
    from steelyard.project.output_folder import REPORT, check_file, write_files
    from steelyard.project.result_file import result_file
    from steelyard.project.run import page_again

    page = result_file(result).parent / REPORT if out is None else out
    if page.suffix.lower() not in (".html", ".htm"):
        raise OutputError(f"--out {page}: the report is one HTML page; give a name that ends in .html.")
    if out is not None:
        check_file(page)
    with progress_bar() as progress:
        html, faults = page_again(
            result, without_logs or no_data, progress, [one.strip() for one in files.split(",") if one.strip()]
        )
    write_files({page: html.encode("utf-8")})
    if as_json:
        emit({"schema": "steelyard.report/1", "report": str(page), "section_faults": list(faults)})
    for fault in faults:
        say(fault, "yellow")
    say(f"Report: {page}")


def demo(
    robot: Annotated[
        str, typer.Argument(help="Built-in robot or robot file.", autocompletion=option_values.robots)
    ] = "tx40",
    out: Annotated[
        Path | None, typer.Option(help="Folder for logs, project file and result. Default: runs/demo-ROBOT.")
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, help="Random seed for the true parameters, the motion and the noise.")
    ] = 7,
    every_table: TableFlag = False,
    as_json: JsonFlag = False,
) -> None:
    from steelyard.project.demos.demo import demo as run_demo
    from steelyard.project.demos.orthoglide_page import drive_gain_table, tracking_table
    from steelyard.project.output_folder import REPORT

    folder = out or Path("runs") / f"demo-{Path(robot).stem}"
    say(f"Simulating {robot}, then identifying it from the simulated log …")
    with progress_bar() as progress:
        done = run_demo(robot, folder, seed, progress)
    result = done.run.identification
    if as_json:
        control = {} if done.control is None else {"control": _control_record(done.control)}
        truth = dict(zip(result.base.names, done.truth.tolist(), strict=True))
        emit({**done.run.document, "truth": truth, **control})
    if every_table:
        _show_loop(done)
        if done.control is not None:
            show(drive_gain_table(done.control))
            show(tracking_table(done.control))
    show_result(result, every_table=every_table, lamps=done.run.lamps)
    say(f"{done.covered} of {len(result.base)} true values lie in their 95 % intervals.")
    say(
        "Next:\n"
        f"  steelyard identify {done.project} --table\n"
        f"  steelyard export {done.run.folder} --to c\n"
        "  steelyard init YOUR.urdf YOUR-LOG.csv"
    )
    say(f"Project: {done.project}\nReport: {done.run.folder / REPORT}")
    if done.control_page is not None:
        say(f"Gains and control laws: {done.control_page}")
    exit_if_errors(result.findings)


def estimators(as_json: JsonFlag = False) -> None:
    from steelyard.estimators import ESTIMATORS

    listed = {name: inspect.getdoc(kind) or "" for name, kind in ESTIMATORS.items()}
    if as_json:
        emit({"schema": "steelyard.estimators/1", "estimators": listed})
        return
    for name, line in listed.items():
        say(name, "bold")
        say(f"{line}\n")


def warm(as_json: JsonFlag = False) -> None:
    say("Compiling the kernels (once) …")
    seconds = load_kernels()
    if as_json:
        emit({"schema": "steelyard.warm/1", "seconds": seconds})
    say(f"Kernels ready ({seconds:.1f} s).")


def load_kernels() -> float:
    """Load every kernel, or compile it where the cache does not have it; the seconds that it took."""
    from steelyard.formats.robots import read_robot
    from steelyard.model.model import Model
    from steelyard.simulation import Cascade, Plant, Reference, simulate

    start = time.perf_counter()
    model = Model(read_robot("planar2r"), ())
    q = np.zeros((2, 3))
    theta = model.layout.nominal
    assert theta is not None
    model.regressor(q, q, q)
    model.mass_matrix(q, theta)
    model.forward(q, q, model.torque(q, q, q, theta), theta)
    plant = Plant(model, theta)
    simulate(plant, Cascade.tuned(plant), Reference(q, q, q), 1000.0)
    looped = Model(read_robot("fivebar"), ())
    assert looped.looped is not None
    home = np.repeat(looped.looped.closure.home[looped.robot.axis_index, None], 60, axis=1)
    looped.regressor(home, np.zeros_like(home), np.zeros_like(home))
    return time.perf_counter() - start


def _show_loop(done: Demo) -> None:
    """Least squares, instrumental variables and DIDIM of the run under a controller, and the truth (P4 Table I)."""
    if not done.loop:
        say(f"No closed-loop run: {done.loop_error}")
        return
    columns = (
        TableColumn("name", "Parameter", "code"),
        TableColumn("truth", "Truth", "number"),
        *(
            column
            for one in done.loop
            for column in (
                TableColumn(one.estimator, f"{one.estimator} ± σ", "estimate", of=(f"{one.estimator}_std",)),
                TableColumn(f"{one.estimator}_std", f"σ by {one.estimator}", "number", shown=False),
            )
        ),
    )
    rows = [
        (name, done.truth[k], *(x for one in done.loop for x in (one.value[k], one.std[k])))
        for k, name in enumerate(done.loop[0].base.names)
    ]
    show(table("closed_loop", "Identified under a controller", columns, rows))


def _control_record(control: Controlled) -> dict[str, Any]:
    from steelyard.project.documents import plain

    gains = control.gains
    found = {j: {"value": v, "std": s} for j, v, s in zip(gains.joints, gains.value, gains.std, strict=True)}
    return plain({"gains": found, "tracking": control.tracking})
