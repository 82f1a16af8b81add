"""The table of identical legs in docs/gallery/p3.md: how often legs of one design are found to differ (Orthoglide).

Run it as `python evidence/legs.py`; it prints Markdown and exits with 1 if a claim is broken. `evidence/run.py --only
legs` puts its claims into one table.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

import numpy as np

from steelyard import Problem, Robot, base_parameters, observe, read_robot
from steelyard._arrays import single_threaded
from steelyard.estimators import WLS
from steelyard.identification.legs import compare_legs
from steelyard.model.payload import UNLOADED
from steelyard.project.demos.orthoglide import (
    GAINS,
    ROBOT,
    driven,
    logged,
    modelled,
    truth,
)
from steelyard.project.papers.page.claims import Claim


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    print("\n| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(row) + " |")


def legs(quick: bool) -> Iterator[Claim]:
    experiments = 40 if quick else 400
    robot = read_robot(ROBOT)
    model = modelled(robot)
    base, alike = base_parameters(model), truth(model)
    owner = {name: first for leg in robot.legs for name, first in zip(leg, robot.legs[0], strict=True)}
    owner |= {_link(robot, joint): _link(robot, first) for joint, first in owner.items()}
    for k, column in enumerate(model.layout.columns):
        if column.owner in owner:
            alike[k] = alike[model.layout.index(f"{owner[column.owner]}.{column.symbol}")]
    heavier = alike.copy()
    for symbol in ("Fv", "Fc"):
        heavier[model.layout.index(f"{robot.axis_names[1]}.{symbol}")] *= 1.3
    shown = []
    for name, theta, count in (("identical", alike, experiments), ("30 % more friction of drive 2", heavier, 40)):
        differing = {"any": 0, "joint11.Fv": 0, "joint11.Fc": 0}
        # new motions every ten experiments: one motion alone may be too favourable
        for k in range(count):
            runs = driven(model, theta, (UNLOADED,), np.random.default_rng([3, k // 10]))
            samples = logged(runs, robot, 0.02, np.random.default_rng([4, k]))
            found = WLS().estimate(None, base, observe(Problem(model, samples, rest=0.0, factor=GAINS.tolist())))
            compared = compare_legs(base, robot, found.value, found.covariance, found.clusters)
            differ = {one.names[0] for one in compared if one.differ}
            for parameter in differing:
                differing[parameter] += parameter in differ or (parameter == "any" and bool(differ))
        shown.append([name, str(count), *(str(x) for x in differing.values())])
        if theta is alike:
            share = differing["any"] / count
            claim = f"orthoglide, legs alike, {count} experiments: told apart"
            yield Claim.of(claim, "<= 2 %", share <= 0.02, "{:.1%}", share)
        else:
            least = min(differing["joint11.Fv"], differing["joint11.Fc"]) / count
            claim = f"orthoglide, one drive with 30 % more friction, {count} experiments: Fv and Fc told apart"
            yield Claim.of(claim, ">= 99 %", least >= 0.99, "{:.1%}", least)
    table(("legs", "experiments", "in any parameter", "in Fv of the drives", "in Fc"), shown)


def _link(robot: Robot, joint: str) -> str:
    return robot.links[robot.joint_index(joint)].name


@single_threaded
def claims(quick: bool = False) -> list[Claim]:
    """The claims; the table is printed."""
    return list(legs(quick))


if __name__ == "__main__":
    lines = claims()
    for line in lines:
        print(f"\n{'holds' if line.holds else 'BROKEN'}: {line.claim}: {line.measured} ({line.bar})")
    sys.exit(0 if all(line.holds for line in lines) else 1)
