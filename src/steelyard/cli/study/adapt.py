"""Command that lets a simulated robot learn while it moves: `adapt`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from steelyard.cli import option_values
from steelyard.cli.console import JsonFlag, emit, say, say_findings
from steelyard.cli.tables import show


def adapt_command(
    robot: Annotated[str, typer.Argument(help="Built-in robot or robot file.", autocompletion=option_values.robots)],
    motions: Annotated[int, typer.Option(min=1, help="Random motions of 2.5 s, at most.")] = 40,
    start: Annotated[float, typer.Option(help="First estimate, as a multiple of the true parameters.")] = 0.5,
    rule: Annotated[
        str,
        typer.Option(
            help=f"Update: {', '.join(option_values.UPDATE_RULES)}.",
            autocompletion=option_values.completing(option_values.UPDATE_RULES),
        ),
    ] = "normalised",
    noise: Annotated[float, typer.Option(min=0.0, help="σ of the measured accelerations [rad/s² or m/s²].")] = 0.0,
    seed: Annotated[
        int, typer.Option(min=0, help="Random seed for motions, noise, and for values that the file leaves out.")
    ] = 0,
    out: Annotated[Path | None, typer.Option(help="Folder for a page. Default: none is written.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """The controller uses the estimate, and its acceleration errors improve it (Tzvetkova). The page of `paper p1`
    shows how this fails: indefinite inertia, noise at rest, unsound stopping rules."""
    from steelyard.project.demos.adapt import adapt, adapted_parts, adapted_table
    from steelyard.project.documents import plain
    from steelyard.project.output_folder import REPORT, check_folder, write_folder
    from steelyard.report.composed import compose

    if out is not None:
        check_folder(out, (REPORT,))
    say(f"Simulating {robot} under computed torque with an estimate that improves …")
    done = adapt(robot, motions, start, rule, noise, seed)
    if out is not None:
        title, kicker = f"{done.robot}: adaptive control", "Steelyard · estimation while the robot moves"
        facts = f"Update {rule}, {motions} motions at most, start {start:g} times the truth, seed {seed}."
        write_folder(out, {REPORT: compose(title, kicker, done.verdict, facts, tuple(adapted_parts(done)))}, (REPORT,))
    findings = done.adaptation.findings()
    if as_json:
        emit(
            {
                "schema": "steelyard.adapt/1",
                "robot": done.robot,
                "rule": rule,
                "iterations": len(done.adaptation),
                "stopped": done.adaptation.stopped,
                "enough": done.adaptation.enough,
                "diverged": done.adaptation.diverged,
                "error": plain(done.error),
                "parameters": adapted_table(done).records(),
                "findings": plain(findings),
            }
        )
    show(adapted_table(done))
    say_findings(findings)
    say(done.verdict, "bold")
    if out is not None:
        say(f"Page: {out / REPORT}")
