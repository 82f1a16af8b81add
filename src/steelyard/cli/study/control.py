"""Command that compares control laws with an identified model: `control`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from steelyard.cli import option_values
from steelyard.cli.console import JsonFlag, emit, progress_bar, say
from steelyard.cli.door.exit_codes import ExitCode
from steelyard.cli.tables import show


def control_command(
    result: Annotated[Path, typer.Argument(help="Run folder or its result.json.")],
    log: Annotated[
        Path | None, typer.Argument(help="Log with the motion to follow. Default: the first run of the fit.")
    ] = None,
    load: Annotated[str, typer.Option(help="Payload that the log carries.")] = option_values.UNLOADED,
    seconds: Annotated[float, typer.Option(min=0.1, help="Length of the motion, at most [s].")] = 10.0,
    bandwidth: Annotated[float, typer.Option(min=0.01, help="Triple pole of all laws [Hz].")] = 10.0,
    rate: Annotated[float, typer.Option(min=10.0, help="Rate of the controller [Hz].")] = 1000.0,
    sigmas: Annotated[
        float, typer.Option(min=0.0, help="Error of the identified model in the simulation, in units of its σ.")
    ] = 1.0,
    sign_width: Annotated[
        float | None,
        typer.Option(help="Speed over which sign(v) is smooth [rad/s or m/s]. Default: 2 % of the top speed."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Random seed for the error of the model.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Folder for a page. Default: none is written.")] = None,
    as_json: JsonFlag = False,
) -> ExitCode:
    """PID, PID with velocity feed-forward, and computed torque with the model of the robot file and with the identified
    one, all of the same bandwidth (Briot, Gautier, Table 4)."""
    from steelyard.project.demos.control import control, control_parts, control_table
    from steelyard.project.documents import plain
    from steelyard.project.output_folder import REPORT, check_folder, write_folder
    from steelyard.report.composed import compose

    if out is not None:
        check_folder(out, (REPORT,))
    with progress_bar() as progress:
        done = control(
            result, log, load=load, seconds=seconds, bandwidth_hz=bandwidth, rate_hz=rate, sigmas=sigmas,
            sign_width=sign_width, seed=seed, progress=progress,
        )  # fmt: skip
    if out is not None:
        title, kicker = f"{done.result.robot}: control laws", "Steelyard · control with an identified model"
        parts = tuple(control_parts(done))
        html = compose(title, kicker, done.verdict, f"Motion of '{done.motion}'.", parts)
        write_folder(out, {REPORT: html}, (REPORT,))
    if as_json:
        emit(
            {
                "schema": "steelyard.control/1",
                "robot": done.result.robot,
                "motion": done.motion,
                "axes": list(done.axes),
                "units": list(done.units),
                "tracking": plain([one.tracking for one in done.runs]),
                "failed": list(done.failed),
            }
        )
    show(control_table(done))
    say(done.verdict, "bold")
    if out is not None:
        say(f"Page: {out / REPORT}")
    return ExitCode.PARTIAL if done.failed else ExitCode.DONE
