"""Command that tests whether inertias are physically possible: `consistency`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from steelyard.cli import option_values
from steelyard.cli.console import JsonFlag, emit, number, say, say_findings
from steelyard.cli.door.exit_codes import ExitCode
from steelyard.cli.tables import show
from steelyard.errors import OutputError, RobotError, choices

if TYPE_CHECKING:
    from steelyard.identification.result import Identification
    from steelyard.physical.consistency import Consistency, LinkVerdict, MassMatrixFloor
    from steelyard.physical.nearest import Feasibility

SCHEMA = "steelyard.consistency/1"
OWN_SET, NEAREST_SET = SETS = ("own", "nearest")


def consistency(
    source: Annotated[str, typer.Argument(help="Run folder or result.json; or a built-in robot or robot file.")],
    tolerance: Annotated[float, typer.Option(help="Allowed violation of the inertia conditions [kg·m²].")] = 0.0,
    asked_set: Annotated[
        str | None,
        typer.Option(
            "--set",
            help="Standard set of a result to test: own (as identified) or nearest (the nearest physical one). "
            "Default: own if it is physical, else nearest.",
            autocompletion=option_values.completing(SETS),
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="File for the tested set of a result (.csv, .tex, .parquet, .json, .html). It is replaced."),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """For a robot, every link is tested. For a result, the test is whether any physical robot has its base values."""
    if asked_set is not None and asked_set not in SETS:
        raise OutputError(choices("set", asked_set, SETS))
    if _is_result(source):
        from steelyard.project.result_file import read_result

        result = read_result(source)
        document = _result_document(result, tolerance, asked_set)
        if out is not None:
            _write_set(result, document["feasibility"], out)
    elif asked_set is not None or out is not None:
        raise OutputError(f"'{source}' is a robot: --set and --out are for the standard set of a result.")
    else:
        document = _robot_document(source, tolerance)
    if as_json:
        emit(document)
    if not document["consistent"]:
        raise typer.Exit(ExitCode.JUDGED)


def _is_result(source: str) -> bool:
    """Whether the argument is a run folder or JSON; a built-in robot has priority over a folder with its name."""
    from steelyard.formats.robots import builtin_robots

    return source not in builtin_robots() and (Path(source).is_dir() or Path(source).suffix == ".json")


def _write_set(result: Identification, judged: dict[str, Any], out: Path) -> None:
    """The judged set as a table file, with drive gains and payloads."""
    from steelyard.project.output_folder import write_files
    from steelyard.report.printers import check_ending, written
    from steelyard.report.tables.standard_set import standard_set_table

    ending = check_ending(out.suffix or "?")
    theta = np.array([judged["theta"][name] for name in result.base.layout.names])
    write_files({out: written(standard_set_table(result, theta, judged["set"]), ending)})
    say(f"Written: {out}")


def _result_document(result: Identification, tolerance: float, asked_set: str | None) -> dict[str, Any]:
    """The judgement of one standard set of a result, by the same rules for its own and the nearest set."""
    from steelyard.physical.certificates import judged_set
    from steelyard.physical.consistency import check_stated
    from steelyard.physical.nearest import NOISE_SIGMA, OWN
    from steelyard.project.documents import record
    from steelyard.report.tables.links import link_table

    layout, drive_std = result.base.layout, result.drive_std
    answer = _asked(result, tolerance, asked_set)
    own, judged = answer.status == OWN, judged_set(layout, answer.theta, drive_std, tolerance)
    stated, bodies = {c.name: c.nominal for c in layout.columns if c.known}, check_stated(layout, tolerance)
    # a distance within three σ is noise: the robot is possible, but not exactly with these values
    possible = judged.physical if own else answer.possible or answer.distance_sigma <= NOISE_SIGMA
    unusable = ()
    if not own and result.certificate is not None and result.standard is not None:
        refused = judged_set(layout, result.standard, drive_std, tolerance)
        unusable = () if refused.physical else refused.findings
    of_base = () if own else answer.findings
    findings = tuple(dict.fromkeys((*of_base, *unusable, *judged.findings, *bodies.findings)))
    _show_feasibility(result, answer)
    say(f"This set: {judged.reason}")
    show(link_table(_TITLES[own], judged.links))
    if stated:
        say(f"Held at stated values: {', '.join(f'{name} = {x:g}' for name, x in stated.items())}")
    say_findings(findings)
    return record(
        SCHEMA,
        {
            "kind": "result",
            "robot": result.robot,
            "consistent": bodies.consistent and possible,
            "tolerance": tolerance,
            "prior": "nominal" if layout.nominal is not None else "none",
            "unknown": [name for name, x in zip(result.base.names, result.value, strict=True) if not np.isfinite(x)],
            "stated": stated,
            "feasibility": {
                "set": OWN_SET if own else NEAREST_SET,
                "possible": answer.possible,
                "distance_sigma": answer.distance_sigma,
                "worst": None if answer.worst is None else {"name": answer.worst[0], "sigma": answer.worst[1]},
                "prior_distance": answer.prior_distance,
                "violation": answer.violation,
                "status": answer.status,
                "iterations": answer.iterations,
                "smallest": answer.smallest,
                "base_values": dict(zip(result.base.names, answer.base_values, strict=True)),
                "theta": dict(zip(layout.names, answer.theta, strict=True)),
            },
            "links": [_link_document(link) for link in judged.links],
            "mass_matrix": None,
            "findings": findings,
        },
    )


def _asked(result: Identification, tolerance: float, asked_set: str | None) -> Feasibility:
    """The set to judge: the own one, the nearest one, or by default the own one if it is physical."""
    from steelyard.physical.nearest import Constraints, own_or_nearest, own_set, scatter

    own, spread = result.standard, scatter(result.std, result.covariance_classical)
    constraints = Constraints(tolerance=tolerance)
    if asked_set != OWN_SET:
        own = None if asked_set == NEAREST_SET else own
        return own_or_nearest(result.base, result.value, own, spread, constraints)
    if own is None:
        raise OutputError(
            f"The result of {result.robot} has no standard set of its own: {result.standard_rule}. Use --set nearest."
        )
    return own_set(result.base, result.value, own, spread, constraints)


def _robot_document(source: str, tolerance: float) -> dict[str, Any]:
    from steelyard.formats.robots import read_robot
    from steelyard.model.model import Model
    from steelyard.model.terms import DEFAULT_TERMS, named_terms
    from steelyard.physical.consistency import check_bodies, mass_matrix_floor, negative_drive, robot_bodies
    from steelyard.project.documents import record
    from steelyard.report.tables.links import link_table

    robot = read_robot(source)
    bodies, unknown = robot_bodies(robot)
    if not bodies:
        raise RobotError(f"Robot '{robot.name}' states no inertias: give a robot file that does, or a result.")
    model = Model(robot, named_terms(robot.terms if robot.terms is not None else DEFAULT_TERMS))
    theta = model.layout.nominal
    negative = () if theta is None else negative_drive(model.layout, theta)
    verdict = check_bodies(bodies, tolerance, negative)
    floor = None if theta is None else mass_matrix_floor(model, theta)
    findings = (*verdict.findings, *(() if floor is None else floor.findings))
    show(link_table(robot.name, verdict.links))
    _show_verdict(verdict, floor, unknown)
    say_findings(findings)
    return record(
        SCHEMA,
        {
            "kind": "robot",
            "robot": robot.name,
            # every link is physical by itself, and the mass matrix is positive definite
            "consistent": verdict.consistent and (floor is None or floor.smallest > 0.0),
            "tolerance": tolerance,
            "unknown": unknown,
            "stated": {},
            "feasibility": None,
            "links": [_link_document(link) for link in verdict.links],
            "mass_matrix": floor,
            "findings": findings,
        },
    )


def _link_document(link: LinkVerdict) -> dict[str, Any]:
    return {
        "name": link.name,
        "verdict": link.verdict,
        "passes": link.passes,
        "positive_definite": link.positive_definite,
        "mass": link.mass,
        "com": link.com,
        "eigenvalues": link.eigenvalues,
        "pivots": link.pivots,
        "minors": link.minors,
        "second_moments": link.second_moments,
        "pseudo_inertia_smallest": link.pseudo_smallest,
        "needed_tolerance": link.needed._asdict(),
    }


# --- For people -------------------------------------------------------------------------------------------------------


def _show_verdict(verdict: Consistency, floor: MassMatrixFloor | None, unknown: Sequence[str]) -> None:
    lines = [str(verdict)]
    if floor is not None:
        lines.append(f"Smallest eigenvalue of M(q) over {floor.count} random q: {number(floor.smallest)}")
    if unknown:
        lines.append(f"Without inertia in the file: {', '.join(unknown)}")
    say("\n".join(lines))


_TITLES = {True: "The result's own standard set", False: "Nearest feasible standard set"}


def _show_feasibility(result: Identification, answer: Feasibility) -> None:
    """Which set is judged, and for the nearest one whether it has the base values of the result."""
    from steelyard.physical.cones import status_text
    from steelyard.physical.nearest import NOISE_SIGMA, OWN

    if answer.status == OWN:
        say(f"The standard set of {result.robot} as identified ({result.standard_rule}).", "bold")
        return
    prior = "smallest set" if result.base.layout.nominal is None else "nominal values, in units of their widths"
    said = (
        f"These base values of {result.robot} are possible"
        if answer.possible
        else f"These base values of {result.robot} are not possible exactly, but within noise "
        f"({number(answer.distance_sigma)} σ)"
        if answer.distance_sigma <= NOISE_SIGMA
        else f"These base values of {result.robot} are not possible; the nearest possible ones are "
        f"{number(answer.distance_sigma)} σ away"
    )
    say(f"{said} (prior: {prior}; {status_text(answer.status)}).", "bold")
