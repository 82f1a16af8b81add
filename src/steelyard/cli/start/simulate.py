"""Command that makes a log without a robot: `simulate`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from steelyard.cli import option_values
from steelyard.cli.console import JsonFlag, emit, number, progress_bar, say, say_findings
from steelyard.cli.door.exit_codes import exit_if_errors
from steelyard.errors import ProjectError


def simulate_command(
    robot: Annotated[
        str, typer.Argument(help="Built-in robot or robot file.", autocompletion=option_values.robots)
    ],
    out: Annotated[Path, typer.Option(help="Log to write: .csv or .parquet.")] = Path("simulated.csv"),
    motion: Annotated[
        Path | None,
        typer.Option(help="Motion to follow: a table with t and q_JOINT, as `steelyard excite --out` writes it. "
                          "Default: a random motion within the limits."),
    ] = None,
    controller: Annotated[
        str, typer.Option(help=f"Controller: {', '.join(option_values.CONTROLLERS)}.")
    ] = "cascade",
    gain: Annotated[
        list[str] | None,
        typer.Option(help="Gain or bandwidth of the controller, KEY=VALUE as in [controller]; may be repeated, e.g. "
                          "--gain position_hz=10. Default: tuned to the robot's inertias."),
    ] = None,
    duration: Annotated[float, typer.Option(min=1.0, help="Duration of a random motion [s].")] = 20.0,
    rate: Annotated[float, typer.Option(min=10.0, help="Rate of controller and log [Hz].")] = 1000.0,
    noise: Annotated[float, typer.Option(min=0.0, help="Noise of the efforts [fraction of their RMS].")] = 0.02,
    terms: Annotated[str | None, typer.Option(help=option_values.TERMS_HELP)] = None,
    seed: Annotated[int, typer.Option(min=0, help="Random seed for the motion and the noise.")] = 1,
    robot_seed: Annotated[
        int, typer.Option(min=0, help="Random seed for the values that the robot file does not state.")
    ] = 1,
    as_json: JsonFlag = False,
) -> None:  # fmt: skip
    """The controller sees encoder readings and commands efforts; the log holds t, q_JOINT and tau_JOINT."""
    from steelyard.project.demos.simulated_log import simulated_log
    from steelyard.project.output_folder import check_file, write_files

    check_file(out)
    listed = None if terms is None else tuple(option_values.listed([terms]))
    with progress_bar() as progress:
        made = simulated_log(
            robot, out.suffix.lower(), {"kind": controller, **_gains(gain)}, motion, duration=duration, rate_hz=rate,
            noise=noise, seed=seed, robot_seed=robot_seed, terms=listed, progress=progress,
        )  # fmt: skip
    write_files({out: made.content})
    if as_json:
        from steelyard.project.documents import record

        emit(
            record(
                "steelyard.simulation/1",
                {"log": str(out), "rows": made.rows, "controller": controller, "seed": seed,
                 "robot_seed": robot_seed},
                truth=made.truth, invented=made.invented, tracking=made.tracking, findings=made.findings,
            )
        )  # fmt: skip
    worst = max(made.tracking, key=lambda joint: made.tracking[joint])
    say(f"Log: {out} ({made.rows} rows)", "bold")
    say(f"Largest RMS tracking error: {worst}, {number(made.tracking[worst])} rad or m")
    if made.invented:
        say(f"Not in the robot file, invented from --robot-seed {robot_seed}: {', '.join(made.invented)}")
    say_findings(made.findings)
    say(f"Next:\n  {shlex.join(['steelyard', 'init', robot, str(out)])}")
    exit_if_errors(made.findings)


def _gains(given: list[str] | None) -> dict[str, Any]:
    """KEY=VALUE as a table; a comma-separated value is one per joint."""
    table: dict[str, Any] = {}
    for one in given or ():
        key, equals, text = one.partition("=")
        try:
            values = [float(part) for part in text.split(",")]
        except ValueError:
            values = []
        if not equals or not values:
            raise ProjectError(f"--gain takes KEY=VALUE with numbers, e.g. position_hz=10, not '{one}'.")
        table[key.strip()] = values if len(values) > 1 else values[0]
    return table
