"""Numbers of docs/gallery/p4.md that `steelyard paper p4` does not compute: 5 kHz, exact sensitivities, the KR300.

Run it as `python evidence/p4_tables.py [PART …]`; it prints Markdown. The KR300 needs recorded data.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
import msgspec
import numpy as np
import polars as pl

from steelyard._arrays import Array
from steelyard.errors import SteelyardError
from steelyard.estimators import DIDIM, IV, Essential, Estimator
from steelyard.estimators.simulated.base import driven_again, weights_of
from steelyard.identification.identify import identify
from steelyard.identification.result import Identification
from steelyard.project.papers.setups.closed_loop import (
    ENCODER_AT_90,
    TABLE_1,
    Arm,
    identified,
    iterations,
    simulated_error,
)
from steelyard.project.project import ExperimentSpec, Project, read_project
from steelyard.regression.observe import observe, stream_rows
from steelyard.regression.problem import Problem
from steelyard.signals.samples import Samples

DATA = ROOT.parent / "shared" / "data"
RATIO = 100.0
TOLERANCE = 0.025
THREE: tuple[Estimator, ...] = (
    Essential(ratio=RATIO),
    IV(TOLERANCE, start="nominal", ratio=RATIO),
    DIDIM(TOLERANCE, start="nominal", ratio=RATIO),
)


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


def _real(file: str) -> tuple[Project, Problem]:
    project = read_project(ROOT / "examples" / "real" / file)
    model = project.model()
    return project, project.problem(model, project.samples(model.robot, "identify"))


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


def bars(count: int = 12) -> None:
    """Whether σ by blocks left out is that of the errors, parameter by parameter, over draws of noise."""
    section(f"Error bars of LS over {count} draws of noise on the motion of Table I")
    arm = Arm()
    at = arm.places(*TABLE_1)
    found = [identified(arm.problem(arm.logged(seed)), THREE[0]) for seed in range(1, count + 1)]
    error = np.array([one.value[at] - arm.truth[at] for one in found])
    std = np.array([one.std[at] for one in found])
    size, z = np.sqrt(np.mean(std**2, axis=0)), error / std
    worst = int(np.argmax(error.std(axis=0, ddof=1) / size))
    rows = [
        ("rms of error / σ, all 28", f"{np.sqrt(np.mean(z**2)):.2f}"),
        ("share beyond 3 σ", f"{np.mean(np.abs(z) > 3.0):.1%}"),
        ("largest spread / σ", f"{list(TABLE_1)[worst]}: {error[:, worst].std(ddof=1):.4f} / {size[worst]:.4f}"),
        ("its mean error", f"{error[:, worst].mean():+.4f}"),
    ]
    table(("", ""), rows)


PARTS: dict[str, Callable[[], None]] = {
    "5khz": lambda: simulated(5000.0),
    "sensitivities": sensitivities,
    "bars": bars,
    "kr300": kr300,
}


if __name__ == "__main__":
    for part in sys.argv[1:] or PARTS:
        PARTS[part]()
