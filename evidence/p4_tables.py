"""The tables of docs/gallery/p4.md, computed: P4 with a known truth, and on the recorded TX-40 and KR300.

Run it as `python evidence/p4_tables.py [PART …]`; it prints Markdown. Some parts need
recorded data next to the repository.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))  # the experiment is the tests' own

import msgspec
import numpy as np
import polars as pl
from testbed.p4 import (
    COULOMB,
    ENCODER_AT_90,
    ENCODER_OFF,
    FAR,
    LOOP,
    NEAR,
    TABLE_1,
    TORQUE_AT_90,
    UNSEEN,
    VISCOUS,
    Arm,
    identified,
    iterations,
    simulated_error,
    starting,
)
from testbed.tx40_table2 import long_name

from steelyard._arrays import Array
from steelyard.errors import SteelyardError
from steelyard.estimators import DIDIM, IV, WLS, Essential, Estimator
from steelyard.estimators.simulated.base import driven_again, weights_of
from steelyard.identification.identify import identify
from steelyard.identification.result import Identification
from steelyard.project.project import ExperimentSpec, Project, read_project
from steelyard.regression.observe import observe, stream_rows
from steelyard.regression.problem import Problem
from steelyard.signals.samples import Samples
from steelyard.validation.forward import forward_validation

DATA = ROOT.parent / "shared" / "data"
RATIO = 100.0
TOLERANCE = 0.025
THREE: tuple[Estimator, ...] = (
    Essential(ratio=RATIO),
    IV(TOLERANCE, start="nominal", ratio=RATIO),
    DIDIM(TOLERANCE, start="nominal", ratio=RATIO),
)
LOOPS = {"right": LOOP, "encoder × 0.9": ENCODER_AT_90, "torque × 0.9": TORQUE_AT_90, "encoder + 0.1 rad": ENCODER_OFF}


def table(head: Sequence[str], lines: Sequence[Sequence[object]]) -> None:
    for cells in (head, ["---"] * len(head), *lines):
        print("| " + " | ".join(str(cell) for cell in cells) + " |")
    print(flush=True)


def section(title: str) -> None:
    print(f"\n## {title}\n")


def with_sigma(result: Identification, k: int) -> str:
    return f"{result.value[k]:.3f} ({result.std[k] / abs(result.value[k]):.1%})"


def simulated(rate: float = 2000.0) -> None:
    section(f"Table I and III with a known truth, {rate / 1000:g} kHz")
    arm = Arm(rate)
    run = arm.logged()
    right = [identified(arm.problem(run), one) for one in THREE]
    biased = [identified(arm.problem(run, ENCODER_AT_90), one) for one in THREE[1:]]
    lines = []
    for short, true in TABLE_1.items():
        k = arm.places(short)[0]
        lines.append([short, f"{true:g}", *(with_sigma(one, k) for one in (*right, *biased))])
    table(("", "truth", "LS", "IV", "DIDIM", "IV, encoder × 0.9", "DIDIM, encoder × 0.9"), lines)
    table(
        ("", "LS", "IV", "DIDIM", "IV, encoder × 0.9", "DIDIM, encoder × 0.9"),
        [
            ["iterations", "", *(iterations(one) for one in (*right[1:], *biased))],
            ["‖y − Wθ‖/‖y‖", *(f"{one.relative_error.total:.5f}" for one in (*right, *biased))],
            [
                "‖y − Zθ‖/‖y‖",
                *(f"{simulated_error(arm.problem(run), one):.5f}" for one in right),
                *(f"{simulated_error(arm.problem(run, ENCODER_AT_90), one):.5f}" for one in biased),
            ],
            ["condition, columns scaled", *(f"{one.condition_scaled:.1f}" for one in (*right, *biased))],
        ],
    )


def _span(ratio: Array) -> str:
    return f"{ratio.min():.3f}–{ratio.max():.3f}"


def draws(count: int = 5) -> None:
    section(f"Errors of the simulator: {count} draws of noise")
    arm, lines = Arm(), []
    for seed in range(1, count + 1):
        run = arm.logged(seed)
        ls = identified(arm.problem(run), THREE[0]).value
        residual = dict.fromkeys(("iv", "didim"), 1.0)
        for name, loop in LOOPS.items():
            problem = arm.problem(run, loop)
            iv, didim = (identified(problem, one) for one in THREE[1:])

            def to_ls(result: Identification, *short: str, ls: Array = ls) -> Array:
                return result.value[arm.places(*short)] / ls[arm.places(*short)]

            errors = {"iv": iv.relative_error.total, "didim": simulated_error(problem, didim)}
            if loop is LOOP:
                residual = errors
            lines.append(
                (
                    seed,
                    name,
                    f"{np.abs(to_ls(iv, *TABLE_1) - 1).max():.2%}",
                    f"{errors['iv'] / residual['iv'] - 1:+.2%}",
                    f"{np.abs(to_ls(didim, *TABLE_1) - 1).max():.1%}",
                    _span(to_ls(didim, "ZZ1", "ZZ2")),
                    _span(to_ls(didim, *VISCOUS)),
                    _span(to_ls(didim, *COULOMB)),
                    f"{errors['didim'] / residual['didim'] - 1:+.1%}",
                )
            )
    head = (
        "draw", "simulator", "IV/LS, worst", "IV residual", "DIDIM/LS, worst", "ZZ1, ZZ2", "Fv", "Fc", "DIDIM residual",
    )  # fmt: skip
    table(head, lines)


def filtering(count: int = 3) -> None:
    section("Positions filtered at 300 Hz with 3e-4 rad of noise: estimate/truth, 60 base parameters, 1 % torque noise")
    lines = []
    for name, points in (("near", NEAR), ("far", FAR)):
        arm = Arm(points=points)
        at = arm.places("XX3", "Fc6")
        for seed in range(1, count + 1):
            problem = arm.problem(arm.logged(seed, 3e-4, 0.01, 300.0))
            found = [identified(problem, one) for one in (WLS(), IV(start="nominal"), DIDIM(start="nominal"))]
            ratios = np.array([one.value[at] / arm.truth[at] for one in found])
            lines.append((name, seed, *(f"{x:.2f}" for x in ratios.T.ravel())))
    table(("motion", "draw", "XX3 LS", "IV", "DIDIM", "Fc6 LS", "IV", "DIDIM"), lines)


def starts(count: int = 20) -> None:
    section(f"Starts ± 30 % off CAD without friction: {count} draws")
    arm = Arm()
    run, lines = arm.logged(), []
    for one in (IV(start="nominal"), DIDIM(start="nominal")):
        took, failed = [], []
        for seed in range(count):
            try:
                found = iterations(identified(arm.problem(run, model=starting(0.3, seed)), one))
            except SteelyardError as error:
                failed.append(f"{seed}: {error}")
                continue
            took.append(found) if found else failed.append(f"{seed}: not settled in {one.most}")
        lines.append((one.name, f"{len(took)} of {count}", f"{min(took)}–{max(took)}", "; ".join(failed)))
    table(("", "converged", "iterations", "failed"), lines)


def sensitivities() -> None:
    section("DIDIM (17) against Gauss–Newton with the exact sensitivities (14)–(15), from the same start")
    arm = Arm()
    problem, at = arm.problem(arm.logged()), np.array(arm.places(*TABLE_1))
    short = identified(problem, THREE[2])
    weights = weights_of(observe(problem), short.base)[:, None]

    def rows(samples: Samples) -> Array:
        return np.concatenate([weights * batch.y[0] for batch in stream_rows(problem, samples)], axis=1).ravel()

    def driven(essential: Array) -> Array:
        value = np.zeros(len(arm.base))
        value[at] = essential
        made = driven_again(problem, arm.base.theta(value))
        return rows(made[problem.runs[0].name])

    measured, nominal = rows(problem.runs[0]), problem.model.layout.nominal
    assert nominal is not None
    value, count, steps, moved = (arm.base.map @ nominal)[at], 0, 0, 1.0
    while moved > TOLERANCE and steps < 20:
        middle = driven(value)
        step = 1e-3 * np.maximum(np.abs(value), short.std[at])
        slopes = [(driven(value + d) - middle) / d.sum() for d in np.diag(step)]
        change = np.linalg.lstsq(np.array(slopes).T, measured - middle, rcond=None)[0]
        value = value + change
        moved = float(np.max(np.abs(change) / np.maximum(np.abs(value), 3.0 * short.std[at])))
        count, steps = count + 1 + len(at), steps + 1
    apart = np.abs(value - short.value[at])
    size = [np.linalg.norm(measured - driven(x)) for x in (short.value[at], value)]
    table(
        ("", "iterations", "simulations", "‖y − y_s‖ [σ]", "largest difference", "largest difference [σ]"),
        [
            ("(17)", iterations(short), iterations(short), f"{size[0]:.3f}", "", ""),
            (
                "(14)–(15)",
                steps,
                count,
                f"{size[1]:.3f}",
                f"{np.max(apart / np.abs(value)):.2%} ({list(TABLE_1)[int(np.argmax(apart / np.abs(value)))]})",
                f"{np.max(apart / short.std[at]):.2f}",
            ),
        ],
    )


def forward() -> None:
    section("The identified arm on an unseen reference")
    arm, other = Arm(), Arm(points=UNSEEN)
    unseen, lines = other.problem(other.logged(seed=2)), []
    for one in THREE:
        found = forward_validation(identified(arm.problem(arm.logged()), one), unseen)
        for name, score in found.joints.items():
            lines.append((one.name, name, f"{score.position_rms:.1e}", f"{score.torque_relative:.2%}"))
    table(("", "joint", "position, rms [rad]", "torque, relative"), lines)


def _real(file: str) -> tuple[Project, Problem]:
    project = read_project(ROOT / "examples" / "real" / file)
    model = project.model()
    return project, project.problem(model, project.samples(model.robot, "identify"))


def tx40() -> None:
    section("Recorded TX-40, reference = filtered measurement, cascade 10/30 Hz, and P4 Table I")
    paper = json.loads((DATA / "staubli_tx40" / "reference_results.json").read_text("utf-8"))["paper_AIM2017_table_I"]
    problem = _real("tx40-iv.toml")[1]
    results = [identify(problem, one) for one in (Essential(ratio=RATIO), IV(ratio=RATIO), DIDIM(ratio=RATIO))]
    printed = {name.split("(")[-1].rstrip(")"): row for name, row in paper["parameters"].items()}
    lines = []
    for short in TABLE_1:
        row = next(row for name, row in printed.items() if name.removesuffix("r") == short.lower())
        k = results[0].base.names.index(long_name(short))
        cells = [f"{row[e][0]:g} ({row[e][1]:.1f}%)" for e in ("idim_ls", "idim_iv", "didim")]
        lines.append([short, *(with_sigma(one, k) for one in results), *cells])
    table(("", "LS", "IV", "DIDIM", "P4 LS", "P4 IV", "P4 DIDIM"), lines)
    table(
        ("", "LS", "IV", "DIDIM"),
        [
            ["iterations (P4: 3 and 7)", "", *(iterations(one) for one in results[1:])],
            ["‖y − Wθ‖/‖y‖ (P4: 5.75, 5.59 %)", *(f"{one.relative_error.total:.2%}" for one in results)],
            ["‖y − Zθ‖/‖y‖ (P4: 5.57 %)", *(f"{simulated_error(problem, one):.2%}" for one in results)],
            ["condition (P4: 200)", *(f"{one.condition:.0f}" for one in results)],
            ["condition, columns scaled", *(f"{one.condition_scaled:.1f}" for one in results)],
            ["parameters", *(len(one.base) - len(one.cancelled) for one in results)],
        ],
    )


def kr300() -> None:
    section("Recorded KR300, runs A and B")
    project, problem = _real("kr300-iv.toml")
    spec = msgspec.structs.replace(project.spec, experiment=ExperimentSpec("measured"))
    measured = replace(project, spec=spec).problem(problem.model, problem.runs)
    three = (Essential(ratio=30.0), IV(start="nominal", ratio=30.0), DIDIM(start="nominal", ratio=30.0))
    lines, apart = [], []
    for name, whole in (("planned", problem), ("measured", measured)):
        for one in three:
            result = identify(whole, one)
            unseen = []
            for kept, left in ((0, 1), (1, 0)):
                part, other = (replace(whole, runs=(whole.runs[k],)) for k in (kept, left))
                try:
                    found = identify(part, one, held_out=other).unseen
                    unseen.append("" if found is None else f"{found.total:.1%}")
                except SteelyardError as error:
                    unseen.append(str(error).split(":")[0])
            lines.append(
                (
                    name, one.name, iterations(result) or "", f"{result.relative_error.total:.2%}",
                    f"{simulated_error(whole, result):.2%}", *unseen,
                    *(f"{x:.1%}" for x in result.relative_error.joints.values()),
                )
            )  # fmt: skip
            if one.name == "didim":
                apart.append((name, *(f"{x:.4f}" for x in _apart(whole, result))))
    joints = problem.model.robot.joint_names
    table(
        ("reference", "", "iterations", "‖y − Wθ‖", "‖y − Zθ‖", "A → B", "B → A", *(f"{j}, W" for j in joints)), lines
    )
    print("Simulated motion (DIDIM's) from the measured one, rms [rad]:\n")
    table(("reference", *joints), apart)
    print("Tracking error of run A as logged, and what the published gains make of it [N·m at the motor, rms]:\n")
    log = pl.read_parquet(DATA / "kuka_kr300" / "ident_A.parquet")
    gains = json.loads((DATA / "kuka_kr300" / "geometry.json").read_text("utf-8"))["controller"]
    rows = []
    for k, joint in enumerate(joints, start=1):
        slip = log[f"q_ref{k}_rad"] - log[f"q{k}_rad"]
        speed = log[f"dq_ref{k}_rad_s"] - log[f"dq{k}_rad_s"]
        feedback = gains["K_pos_eff_Nm_per_rad"][k - 1] * slip + gains["K_vel_eff_Nms_per_rad"][k - 1] * speed
        tau = log[f"tau_motor{k}_Nm"]
        rows.append(
            (joint, *(f"{np.std(x.to_numpy()):.3g}" for x in (slip, feedback, tau - log[f"tau_ff{k}_Nm"], tau)))
        )
    table(("joint", "q_ref − q [rad]", "published feedback", "τ − τ_ff", "τ"), rows)


def _apart(problem: Problem, result: Identification) -> Array:
    """Root mean square distance (n,) of the simulated from the measured positions over all runs."""
    made = driven_again(problem, result.theta)
    squares = []
    for run in problem.runs:
        (simulated_piece,) = made[run.name].open()
        q = np.concatenate([piece.q for piece in run.open()], axis=1)
        squares.append(np.mean((q - simulated_piece.q) ** 2, axis=1))
    return np.sqrt(np.mean(squares, axis=0))


PARTS: dict[str, Callable[[], None]] = {
    "simulated": simulated,
    "5khz": lambda: simulated(5000.0),
    "draws": draws,
    "filtering": filtering,
    "starts": starts,
    "sensitivities": sensitivities,
    "forward": forward,
    "tx40": tx40,
    "kr300": kr300,
}

if __name__ == "__main__":
    for part in sys.argv[1:] or PARTS:
        PARTS[part]()
