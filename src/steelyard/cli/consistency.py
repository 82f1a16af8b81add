"""Command about physics: `consistency`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from rich.table import Table
from rich.text import Text

from steelyard.cli.console import JsonFlag, emit, number, people, say, say_findings
from steelyard.errors import RobotError
from steelyard.findings import Finding

if TYPE_CHECKING:
    from steelyard.identification.result import Identification
    from steelyard.physical.consistency import Consistency, LinkVerdict, MassMatrixFloor
    from steelyard.physical.nearest import Feasibility

INCONSISTENT = 1
SCHEMA = "steelyard.consistency/1"


def consistency(
    source: Annotated[str, typer.Argument(help="A run folder or result.json, a built-in robot or a robot file.")],
    tolerance: Annotated[float, typer.Option(help="How far an inertia may miss, kg.m2.")] = 0.0,
    as_json: JsonFlag = False,
) -> None:
    """Can it exist? Judge a robot's links, or whether a result's base values are possible; exit code 1 if not."""
    if _is_result(source):
        from steelyard.project.result_file import read_result

        document = _result_document(read_result(source), tolerance)
    else:
        document = _robot_document(source, tolerance)
    if as_json:
        emit(document)
    if not document["consistent"]:
        raise typer.Exit(INCONSISTENT)


def _is_result(source: str) -> bool:
    """Run folders and JSON; a built-in robot wins over a folder of its name, as everywhere."""
    from steelyard.formats.robots import builtin_robots

    return source not in builtin_robots() and (Path(source).is_dir() or Path(source).suffix == ".json")


def _result_document(result: Identification, tolerance: float) -> dict[str, Any]:
    from steelyard.physical.certificates import CERTIFIED
    from steelyard.physical.consistency import check_links, check_stated
    from steelyard.physical.nearest import NOISE_SIGMA, OWN, Constraints, own_or_nearest, scatter

    layout = result.base.layout
    spread, asked = scatter(result.std, result.covariance_classical), Constraints(tolerance=tolerance)
    answer = own_or_nearest(result.base, result.value, result.standard, spread, asked)
    # the set lies on the boundary as a rule, and the solver's last digits with it
    verdict = check_links(layout, answer.theta, tolerance + CERTIFIED)
    unknown = [name for name, x in zip(result.base.names, result.value, strict=True) if not np.isfinite(x)]
    stated, bodies = {c.name: c.nominal for c in layout.columns if c.known}, check_stated(layout, tolerance)
    findings = (*answer.findings, *_uncertified(result, answer, tolerance), *bodies.findings)
    _show_feasibility(result, answer)
    _show_links(_TITLES[answer.status == OWN], verdict.links)
    if stated:
        say(f"Held as stated: {', '.join(f'{name} = {x:g}' for name, x in stated.items())}")
    _show_findings(findings)
    return {
        "schema": SCHEMA,
        "kind": "result",
        "robot": result.robot,
        # within three σ it is noise: the robot is possible, only not exactly at these values
        "consistent": bodies.consistent and (answer.possible or answer.distance_sigma <= NOISE_SIGMA),
        "tolerance": tolerance,
        "prior": "nominal" if layout.nominal is not None else "none",
        "unknown": unknown,
        "stated": stated,
        "feasibility": {
            "set": "own" if answer.status == OWN else "nearest",
            "possible": answer.possible,
            "distance_sigma": answer.distance_sigma,
            "worst": None if answer.worst is None else {"name": answer.worst[0], "sigma": answer.worst[1]},
            "prior_distance": answer.prior_distance,
            "violation": answer.violation,
            "status": answer.status,
            "iterations": answer.iterations,
            "smallest": answer.smallest,
            "base_values": dict(zip(result.base.names, answer.base_values.tolist(), strict=True)),
            "theta": dict(zip(layout.names, answer.theta.tolist(), strict=True)),
        },
        "links": [_link_document(link) for link in verdict.links],
        "mass_matrix": None,
        "findings": [asdict(finding) for finding in findings],
    }


def _uncertified(result: Identification, answer: Feasibility, tolerance: float) -> tuple[Finding, ...]:
    """What keeps the certified set of a result from being taken, as a rotor inertia that was allowed to be negative."""
    from steelyard.physical.certificates import CERTIFIED
    from steelyard.physical.consistency import check_links
    from steelyard.physical.nearest import OWN

    if result.certificate is None or result.standard is None or answer.status == OWN:
        return ()
    return check_links(result.base.layout, result.standard, tolerance + CERTIFIED).findings


def _robot_document(source: str, tolerance: float) -> dict[str, Any]:
    from steelyard.formats.robots import read_robot
    from steelyard.model.model import Model
    from steelyard.model.terms import DEFAULT_TERMS, named_terms
    from steelyard.physical.consistency import check_bodies, mass_matrix_floor, negative_drive, robot_bodies

    robot = read_robot(source)
    bodies, unknown = robot_bodies(robot)
    if not bodies:
        raise RobotError(f"Robot '{robot.name}' gives no inertias: there is nothing to judge.")
    model = Model(robot, named_terms(robot.terms if robot.terms is not None else DEFAULT_TERMS))
    theta = model.layout.nominal
    negative = () if theta is None else negative_drive(model.layout, theta)
    verdict = check_bodies(bodies, tolerance, negative)
    floor = None if theta is None else mass_matrix_floor(model, theta)
    findings = (*verdict.findings, *(() if floor is None else floor.findings))
    _show_links(robot.name, verdict.links)
    _show_verdict(verdict, floor, unknown)
    _show_findings(findings)
    return {
        "schema": SCHEMA,
        "kind": "robot",
        "robot": robot.name,
        # links that can exist one by one, and a robot that can be moved at all
        "consistent": verdict.consistent and (floor is None or floor.smallest > 0.0),
        "tolerance": tolerance,
        "unknown": list(unknown),
        "stated": {},
        "feasibility": None,
        "links": [_link_document(link) for link in verdict.links],
        "mass_matrix": None if floor is None else asdict(floor),
        "findings": [asdict(finding) for finding in findings],
    }


def _link_document(link: LinkVerdict) -> dict[str, Any]:
    """A body as JSON; null for a tolerance that does not exist and for a pivot of −inf."""

    def plain(values: Sequence[float]) -> list[float | None]:
        return [x if np.isfinite(x) else None for x in values]

    return {
        "name": link.name,
        "verdict": link.verdict,
        "passes": link.passes,
        "positive_definite": link.positive_definite,
        "mass": link.mass,
        "com": link.com,
        "eigenvalues": link.eigenvalues,
        "pivots": plain(link.pivots),
        "minors": link.minors,
        "second_moments": link.second_moments,
        "pseudo_inertia_smallest": link.pseudo_smallest,
        "needed_tolerance": dict(zip(link.needed._fields, plain(link.needed), strict=True)),
    }


# --- For people -------------------------------------------------------------------------------------------------------


def _show_links(title: str, links: Sequence[LinkVerdict]) -> None:
    table = Table("body", "mass", "eigenvalues of J", "pivots", "Σ_c smallest", "needs", "verdict", title=title)
    for link in links:
        needs = number(max(link.needed.eigenvalues, link.needed.pseudo_inertia))
        colour = "green" if link.passes else "bold red"
        table.add_row(
            link.name,
            number(link.mass),
            " ".join(map(number, link.eigenvalues)),
            " ".join(map(number, link.pivots)),
            number(link.second_moments[0]),
            needs,
            Text(link.verdict, style=colour),
        )
    people.print(table)


def _show_verdict(verdict: Consistency, floor: MassMatrixFloor | None, unknown: Sequence[str]) -> None:
    lines = [str(verdict)]
    if floor is not None:
        lines.append(f"Smallest eigenvalue of M(q) over {floor.count} random q: {number(floor.smallest)}")
    if unknown:
        lines.append(f"Without inertia in the file: {', '.join(unknown)}")
    say("\n".join(lines))


_TITLES = {True: "The result's own standard set", False: "Nearest feasible standard set"}


def _show_feasibility(result: Identification, answer: Feasibility) -> None:
    from steelyard.physical.cones import in_words
    from steelyard.physical.nearest import OWN

    prior = "smallest set" if result.base.layout.nominal is None else "nominal values, in units of their widths"
    said = (
        f"These base values of {result.robot} are possible"
        if answer.possible
        else f"These base values of {result.robot} are not possible as they are: {number(answer.distance_sigma)} σ away"
    )
    how = f"by {result.standard_rule}" if answer.status == OWN else f"prior: {prior}; {in_words(answer.status)}"
    say(f"{said} ({how}).", "bold")


def _show_findings(findings: Sequence[Finding]) -> None:
    say_findings(findings)
