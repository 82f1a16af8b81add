"""Commands that identify: `identify`, `demo`, `estimators`, and `warm`."""

from __future__ import annotations

import inspect
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from rich.table import Column, Table

from steelyard.cli import option_values
from steelyard.cli.console import FAILED, JsonFlag, emit, number, people, percent, progress_bar, say, say_findings
from steelyard.errors import ProjectError, choices

if TYPE_CHECKING:
    from steelyard.estimators.estimator import Certificate
    from steelyard.identification.legs import LegComparison
    from steelyard.identification.result import DriveGains, Identification
    from steelyard.project.demos.demo import Demo
    from steelyard.project.demos.orthoglide import Controlled
    from steelyard.report.tables import BodyRow, PayloadRow


def identify(
    project: Annotated[Path, typer.Argument(help="The project file (TOML).")],
    estimator: Annotated[str | None, typer.Option(help=f"One of: {', '.join(option_values.ESTIMATORS)}.")] = None,
    out: Annotated[Path | None, typer.Option(help="Run folder to write; default NAME-run beside NAME.toml.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Identify a robot from its project file; writes result.json and report.html."""
    from steelyard.estimators import ESTIMATORS
    from steelyard.project.output_folder import REPORT
    from steelyard.project.project import read_project
    from steelyard.project.run import run as run_project

    if estimator is not None and estimator not in ESTIMATORS:
        raise ProjectError(choices("estimator", estimator, ESTIMATORS))
    with progress_bar() as progress:
        done = run_project(read_project(project), out, estimator, progress)
    if as_json:
        emit(done.document)
    show_result(done.identification, {one["name"]: one["link"] for one in done.document["project"]["payload"]})
    if done.document["selection"] is not None and done.document["selection"]["trials"]:
        people.print(_trial_table(done.document["selection"]))
    say(f"Report: {done.folder / REPORT}")
    _exit_on_errors(done.identification)


def demo(
    robot: Annotated[str, typer.Argument(help="A built-in name or a robot file.")] = "tx40",
    out: Annotated[Path | None, typer.Option(help="Folder for logs, project and results.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the simulated robot, motion and noise.")] = 7,
    as_json: JsonFlag = False,
) -> None:
    """Simulate a robot with known truth, log it, identify it from the log, and compare."""
    from steelyard.project.demos.demo import demo as run_demo
    from steelyard.project.output_folder import REPORT

    folder = out or Path("runs") / f"demo-{Path(robot).stem}"
    say(f"Simulating {robot}, then identifying it from the log alone …")
    with progress_bar() as progress:
        done = run_demo(robot, folder, seed, progress)
    result = done.run.identification
    if as_json:
        told = {} if done.control is None else {"control": _control_record(done.control)}
        truth = dict(zip(result.base.names, done.truth.tolist(), strict=True))
        emit({**done.run.document, "truth": truth, **told})
    _show_loop(done)
    show_result(result)
    if done.control is not None:
        _show_control(done.control)
    say(
        f"{done.covered} of {len(result.base)} true values lie in their 95 % intervals.\n"
        f"Project: {done.project}\nReport: {done.run.folder / REPORT}"
    )
    _exit_on_errors(result)


def estimators(as_json: JsonFlag = False) -> None:
    """List the estimators."""
    from steelyard.estimators import ESTIMATORS

    listed = {name: inspect.getdoc(kind) or "" for name, kind in ESTIMATORS.items()}
    if as_json:
        emit({"schema": "steelyard.estimators/1", "estimators": listed})
        return
    for name, line in listed.items():
        say(name, "bold")
        say(f"{line}\n")


def warm(as_json: JsonFlag = False) -> None:
    """Compile the kernels once; later runs load them from the cache."""
    from steelyard.formats.robots import read_robot
    from steelyard.model.model import Model
    from steelyard.simulation import Cascade, Plant, Reference, simulate

    say("Compiling the kernels (once) …")
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
    seconds = time.perf_counter() - start
    if as_json:
        emit({"schema": "steelyard.warm/1", "seconds": seconds})
    say(f"Kernels ready ({seconds:.1f} s).")


def _show_loop(done: Demo) -> None:
    """Least squares, instrumental variables and DIDIM of the run under a controller, beside the truth (P4 Table I)."""
    if not done.loop:
        say(f"No run under a controller: {done.loop_lost}")
        return
    table = Table(Column("closed loop", no_wrap=True), "truth", *(f"{one.estimator} ± σ" for one in done.loop))
    for k, name in enumerate(done.loop[0].base.names):
        values = (f"{number(one.value[k])} ± {number(one.std[k])}" for one in done.loop)
        table.add_row(name, number(done.truth[k]), *values)
    people.print(table)


def _show_control(control: Controlled) -> None:
    """Gains found by a weighed payload, and what they are worth to a controller that carries it (P3 Tables 3 and 4)."""
    from steelyard.project.demos.orthoglide import GAINS, MAKER

    gains = control.gains
    say(
        "Drive gains from runs without and with a weighed payload, and control laws that follow two motions (P3)",
        "bold",
    )
    table = Table(Column("drive gain by payload", no_wrap=True), "truth", "identified ± σ", "maker's")
    for joint, true, value, std, stated in zip(gains.joints, GAINS, gains.value, gains.std, MAKER, strict=True):
        table.add_row(joint, number(true), f"{number(value)} ± {number(std)}", number(stated))
    people.print(table)
    axes = (f"{what} {joint}" for what in ("max", "rms") for joint in gains.joints)
    table = Table("motion", Column("tracking error [µm]", no_wrap=True), *axes)
    for motion in dict.fromkeys(one.motion for one in control.tracking):
        for one in (one for one in control.tracking if one.motion == motion):
            table.add_row(motion, one.law, *(f"{1e6 * x:.1f}" for x in (*one.largest, *one.rms)))
        table.add_section()
    people.print(table)


def _control_record(control: Controlled) -> dict[str, Any]:
    gains = control.gains
    found = {j: {"value": v, "std": s} for j, v, s in zip(gains.joints, gains.value, gains.std, strict=True)}
    return {"gains": found, "tracking": [asdict(one) for one in control.tracking]}


def show_result(result: Identification, links: Mapping[str, str] | None = None) -> None:
    """A result for people: parameters, what goes with them, scores, findings and the verdict."""
    from steelyard.report.tables import body_rows, payload_rows

    table = Table(Column("parameter", no_wrap=True), "value", "± σ", "σ classical", "rel. σ", "unit")
    for name, value, std, classical, relative, unit in zip(
        result.base.names, result.value, result.std, result.std_classical, result.relative_std, result.base.units,
        strict=True,
    ):  # fmt: skip
        table.add_row(name, number(value), number(std), number(classical), percent(relative), unit)
    people.print(table)
    if result.gains is not None:
        people.print(_gain_table(result.gains))
    if payloads := payload_rows(result, links):
        people.print(_payload_table(payloads))
    if result.legs:
        people.print(_leg_table(result.legs))
    if bodies := body_rows(result):
        people.print(_body_table(bodies))
    people.print(_score_table(result))
    say(f"Scored: {result.relative_error.mask}")
    if result.certificate is not None:
        say(_certified(result.certificate, result))
    say_findings(result.findings)
    say(result.verdict, "bold")


def _gain_table(gains: DriveGains) -> Table:
    """Identified gains beside the stated ones where there are any; at the joint, gear ratio included, where that is
    another number."""
    geared, known = bool(np.any(gains.joint_side != gains.value)), bool(np.isfinite(gains.stated).any())
    table = Table(
        Column("drive gain", no_wrap=True), "identified", "± σ", "σ bootstrap", "σ classical", "unit",
        *(["at the joint (same unit)"] if geared else []), *(["stated", "|e|"] if known else []),
    )  # fmt: skip
    for k, joint in enumerate(gains.joints):
        numbers = (gains.value[k], gains.std[k], gains.std_bootstrap[k], gains.std_classical[k])
        side = [number(gains.joint_side[k])] if geared else []
        stated = [number(gains.stated[k]), percent(gains.error[k])] if known else []
        table.add_row(joint, *map(number, numbers), gains.units[k], *side, *stated)
    return table


def _leg_table(legs: Sequence[LegComparison]) -> Table:
    """The same parameter of every leg, and whether they are told apart (P3 §3.1)."""
    table = Table(Column("legs", no_wrap=True), *(f"leg {k + 1} ± σ" for k in range(len(legs[0].names))), "unit", "p")
    for one in legs:
        cells = (f"{number(x)} ± {number(s)}" for x, s in zip(one.values, one.std, strict=True))
        table.add_row(one.names[0], *cells, one.unit, f"{one.p:.2g}", style="bold" if one.differ else "")
    return table


def _payload_table(payloads: Sequence[PayloadRow]) -> Table:
    """What each load case carries: what was stated of it, its mass, and where it sits in its own frame."""
    names = Column("payload", no_wrap=True)
    table = Table(names, "link", "stated", "mass [kg]", "com x [m]", "com y [m]", "com z [m]")
    for one in payloads:
        cells = (f"{value} ± {deviation}" if deviation else value for value, deviation in one.body)
        table.add_row(one.name, one.link, one.stated, *cells)
    return table


def _body_table(bodies: Sequence[BodyRow]) -> Table:
    """The bodies of a certified standard set; bold where one lies on the boundary of what is possible."""
    names = Column("body", no_wrap=True)
    table = Table(names, "mass [kg]", "com [m]", "principal moments [kg.m2]", "least eigenvalue of P")
    for one in bodies:
        style = "bold" if one.boundary else ""
        table.add_row(one.name, one.mass, one.com, one.moments, one.smallest, style=style)
    return table


def _certified(certificate: Certificate, result: Identification) -> str:
    from steelyard.physical.cones import in_words
    from steelyard.report.tables import price_in_words

    return (
        f"Certified: {certificate.existing} of {len(certificate.smallest)} bodies can exist (no eigenvalue of the "
        f"pseudo-inertia P is {certificate.below}); {in_words(certificate.status)}.\n"
        f"Price: {price_in_words(result)}; {certificate.moved(len(result.base))}."
    )


def _score_table(result: Identification) -> Table:
    """Relative error per joint where it was fitted, on unseen runs, and of the nominal model."""
    from steelyard.report.tables import effort_unit

    kinds = {"fitted": result.relative_error, "unseen": result.unseen}
    kinds |= {"nominal": result.nominal, "nominal, unseen": result.unseen_nominal}
    shown = {name: score for name, score in kinds.items() if score is not None}
    table = Table("relative error", *shown, "RMSE fitted", "unit", "rows")
    fit = result.relative_error
    for joint in fit.joints:
        errors = (percent(score.joints[joint]) for score in shown.values())
        unit = effort_unit(result.base.layout, joint)
        table.add_row(joint, *errors, number(fit.rmse[joint]), unit, str(fit.rows[joint]))
    totals = (percent(score.total) for score in shown.values())
    table.add_row("total", *totals, "", "", str(sum(fit.rows.values())), style="bold")
    return table


def _trial_table(selection: dict[str, Any]) -> Table:
    """What was offered to each joint, what it bought on left-out runs, and what became of it."""
    table = Table("term", "joint", "error without", "with", "gain ± σ", "folds better", "verdict")
    for t in selection["trials"]:
        gain = f"{100 * t['gain']:+.2f} ± {100 * t['std']:.2f} %"
        style = "bold" if t["verdict"] in ("taken", "dropped") else ""
        errors = percent(t["without"]), percent(t["including"])
        table.add_row(t["label"], t["joint"], *errors, gain, f"{t['folds']:.0%}", t["verdict"], style=style)
    return table


def _exit_on_errors(result: Identification) -> None:
    if any(finding.severity == "error" for finding in result.findings):
        raise typer.Exit(FAILED)
