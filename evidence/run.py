"""The heavy evidence, one table: what is claimed, the bar, what was measured. `make evidence` runs it all.

--only NAME runs one part; --quick shortens the Monte Carlo (for a look, not for a claim).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))  # the oracles and random trees are the tests' own

import consistent as consistent_evidence
import design as design_evidence
import friction
import numpy as np
import online as online_evidence
import p1_tables
import p3_tables
from intervals import coverage
from rich.console import Console
from rich.progress import track
from rich.table import Table

from steelyard import (
    MAP,
    WLS,
    Essential,
    Model,
    Problem,
    Samples,
    base_parameters,
    cross_validate,
    identify,
    observe,
    prepare,
    read_project,
    read_robot,
)
from steelyard.excitation import random_fourier
from steelyard.project import Project
from steelyard.terms import DEFAULT_TERMS, named_terms

DATA = ROOT.parent / "shared" / "data"


class Line(NamedTuple):
    """One line of the table."""

    claim: str
    bar: str
    measured: str
    holds: bool


def counts(quick: bool) -> Iterator[Line]:
    def count(name: str, without: tuple[str, ...] = (), gravity=None) -> tuple[int, int, int]:
        robot = read_robot(name, gravity)
        model = Model(robot, named_terms(DEFAULT_TERMS if robot.terms is None else robot.terms))
        base = base_parameters(model, without)
        return len(model.layout), len(base.zero), len(base)

    for claim, bar, got in (
        ("tx40: standard, zero, base", (86, 11, 60), count("tx40")),
        ("tx40 without off: base", 54, count("tx40", ("off",))[2]),
        ("tx40 without gravity: base", 58, count("tx40", (), (0, 0, 0))[2]),
        ("tx40 in tilted gravity: base", 62, count("tx40", (), (3.0, 2.0, -9.0))[2]),
        ("kr270 (without its spring): base", 58, count("kr270")[2]),
        ("planar2r: base", 4, count("planar2r")[2]),
    ):
        yield Line(claim, str(bar), str(got), got == bar)


def oracles(quick: bool) -> Iterator[Line]:
    from trees import random_pose, random_state, random_tree, relative, rigid_model, with_base, worst_errors

    trees = 40 if quick else 250
    for oracle in ("pinocchio", "mujoco"):
        worst = worst_errors(trees, 1000, oracle)
        for what, bar in (("regressor", 1e-10), ("torque", 1e-10), ("acceleration", 1e-9)):
            if what in worst:
                yield Line(
                    f"{what} against {oracle}, {trees} random trees of up to 12 joints",
                    f"< {bar:.0e}",
                    f"{worst[what]:.1e}",
                    worst[what] < bar,
                )
    rng = np.random.default_rng(5)
    forward = frame = 0.0
    for _ in range(trees):
        robot = random_tree(rng, int(rng.integers(1, 13)), off_axis=bool(rng.integers(2)))
        model, theta = rigid_model(robot)
        state = random_state(rng, robot, 4)
        tau = model.torque(*state, theta)
        forward = max(forward, relative(model.forward(state.q, state.v, tau, theta), state.a))
        moved, same = rigid_model(with_base(robot, random_pose(rng)))
        frame = max(frame, relative(moved.torque(*state, same), tau))
    yield Line(f"forward dynamics inverts inverse, {trees} trees", "< 1e-09", f"{forward:.1e}", forward < 1e-9)
    yield Line(f"base frame and gravity turned together, {trees} trees", "< 1e-10", f"{frame:.1e}", frame < 1e-10)


def invariance(quick: bool) -> Iterator[Line]:
    robot = read_robot("tx40")
    model = Model(robot, named_terms(robot.terms or ()))
    truth = model.layout.nominal
    assert truth is not None
    rng = np.random.default_rng(11)
    t = np.arange(10_000) / 500.0
    runs = []
    for k in range(3):
        q, v, a = random_fourier(robot, 5, 0.1, 20.0, rng).at(t)
        runs.append(Samples.from_arrays(f"run{k}", robot.joint_names, 500.0, q, v, a, model.torque(q, v, a, truth)))
    exact = identify(Problem(model, runs, lowpass_hz=10.0, decimate=20))
    true_base = base_parameters(model).map @ truth
    worst = float(np.max(np.abs(exact.value - true_base) / np.maximum(np.abs(true_base), 1e-2)))
    yield Line("noise-free, exact derivatives: base parameters", "< 1e-08", f"{worst:.1e}", worst < 1e-8)
    if not DATA.is_dir():
        yield Line("chunks, tiles, merges on the TX40 log", "-", "skipped: no shared data", True)
        return
    project = read_project(ROOT / "examples" / "real" / "tx40.toml")
    (spec,) = project.spec.run
    real = project.model()

    def samples(chunk_rows: int) -> Samples:
        from steelyard.formats.logs import read_recording
        from steelyard.prepare import Preparation

        recording = read_recording(project.path.parent / spec.log)
        settings = Preparation(cutoff_hz=project.spec.prepare.cutoff_hz)
        return prepare(recording, real.robot, project.spec.channels.channel_map(), settings, chunk_rows=chunk_rows)

    reference = identify(project.problem(real, [samples(65536)]))
    same = all(
        np.array_equal(identify(project.problem(real, [samples(c)])).value, reference.value)
        for c in (997, 4096, 30_000)
    )
    yield Line("TX40: other reader chunks", "bitwise", "bitwise" if same else "differs", same)
    scale = np.maximum(np.abs(reference.value), reference.std)
    problem = project.problem(real, [samples(65536)])
    for tile in (64, 300, 1000):
        other = identify(problem, information=observe(problem, tile=tile))
        gap = float(np.max(np.abs(other.value - reference.value) / scale))
        yield Line(f"TX40: tiles of {tile}", "< 1e-09", f"{gap:.1e}", gap < 1e-9)


def intervals(quick: bool) -> Iterator[Line]:
    experiments = 40 if quick else 400
    for colour, label in ((0.0, "white"), (0.8, "AR(1) 0.8"), (0.99, "AR(1) 0.99")):
        c = coverage("tx40", experiments, colour, seed=1)
        mean, low = c.robust.mean(), c.robust.min()
        yield Line(
            f"95 % intervals, {experiments} simulated TX-40 logs, {label} torque noise",
            "mean 92-98 %, none < 80 %",
            f"mean {mean:.1%}, lowest {low:.1%} (classical: {c.classical.mean():.1%}, {c.classical.min():.1%})",
            bool(0.92 <= mean <= 0.98 and low >= 0.80),
        )


def real_robots(quick: bool) -> Iterator[Line]:
    for name, bar in (("tx40", 0.050), ("ur10e", 0.035), ("panda", 0.010), ("cobot6", 0.056)):
        project: Project = read_project(ROOT / "examples" / "real" / f"{name}.toml")
        if not (project.path.parent / project.spec.run[0].log).is_file():
            yield Line(f"{name}, real log", f"<= {bar:.1%}", "skipped: no shared data", True)
            continue
        model = project.model()
        result = identify(project.problem(model, project.samples(model.robot, "identify")))
        error = result.relative_error.total
        nominal = "none" if result.nominal is None else f"{result.nominal.total:.1%}"
        yield Line(
            f"{name}, real log, wls, {len(result.base)} base, {sum(result.relative_error.rows.values())} rows",
            f"<= {bar:.1%}",
            f"{error:.2%} (nominal {nominal})",
            error <= bar,
        )


def transfer(quick: bool) -> Iterator[Line]:
    """Essential parameters, and errors on motion that was not fitted."""
    if not DATA.is_dir():
        yield Line("essential parameters and unseen runs of real robots", "-", "skipped: no shared data", True)
        return

    def opened(name: str):
        project = read_project(ROOT / "examples" / "real" / f"{name}.toml")
        model = project.model()
        return project, model, project.problem(model, project.samples(model.robot, "identify"))

    _, _, problem = opened("tx40")
    result = identify(problem, Essential(ratio=30.0))
    count, error = len(result.base) - len(result.cancelled), result.relative_error.total
    yield Line(
        "tx40, real log, essential parameters at r_σ = 30",
        "22-31, <= 5.3%",
        f"{count}, {error:.2%}",
        22 <= count <= 31 and error <= 0.053,
    )
    project, model, problem = opened("kr300")
    unseen = problem.with_runs(project.samples(model.robot, "validate"))
    for estimator, bar in ((WLS(), 0.14), (MAP(), 0.05)):
        result = identify(problem, estimator, held_out=unseen)
        assert result.unseen is not None
        error = result.unseen.total
        yield Line(f"kr300 fitted on A, scored on B, {estimator.name}", f"<= {bar:.0%}", f"{error:.2%}", error <= bar)
    _, model, problem = opened("ur10e-free")
    judged = cross_validate(base_parameters(model), observe(problem), WLS(), "runs")
    error = judged.pooled.total
    yield Line("ur10e, leave one of 11 runs out, wls", "<= 4.3%", f"{error:.2%}", error <= 0.043)


def delays(quick: bool) -> Iterator[Line]:
    for name, joint, moved, sigma in friction.insertions():
        claim = f"{name}: effort of {joint} logged 3.4 samples late, its delay (σ {sigma:.2f} samples) moves by"
        yield Line(claim, "3.4 ± 0.2", f"{moved:.2f}", abs(moved - 3.4) <= 0.2)


def placebos(quick: bool) -> Iterator[Line]:
    for name, how, tried, passed in friction.placebos():
        forced = how.startswith("forced")
        bar = "tells why it is refused" if forced else "0 taken"
        yield Line(f"{name}: placebos that pass, {how}", bar, f"{passed} of {tried}", forced or passed == 0)


def p1(quick: bool) -> Iterator[Line]:
    for claim in p1_tables.claims(quick):
        yield Line(*claim)


def online(quick: bool) -> Iterator[Line]:
    for claim in online_evidence.claims(quick):
        yield Line(*claim)


def p3(quick: bool) -> Iterator[Line]:
    for part in p3_tables.PARTS:
        for claim in p3_tables.claims(part, quick):
            yield Line(*claim)


def design(quick: bool) -> Iterator[Line]:
    for claim in design_evidence.claims(quick):
        yield Line(*claim)


def consistent(quick: bool) -> Iterator[Line]:
    for claim in consistent_evidence.claims(quick):
        yield Line(*claim)


PARTS: dict[str, Callable[[bool], Iterator[Line]]] = {
    "counts": counts,
    "oracles": oracles,
    "invariance": invariance,
    "intervals": intervals,
    "real": real_robots,
    "transfer": transfer,
    "delays": delays,
    "placebos": placebos,
    "p1": p1,
    "p3": p3,
    "online": online,
    "design": design,
    "consistent": consistent,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=PARTS)
    parser.add_argument("--quick", action="store_true")
    chosen = parser.parse_args()
    console = Console(width=180)
    table = Table("claim", "bar", "measured", "holds", title="Steelyard evidence")
    broken = 0
    start = time.perf_counter()
    for name in track([n for n in PARTS if chosen.only in (None, n)], "evidence", console=Console(stderr=True)):
        for line in PARTS[name](chosen.quick):
            table.add_row(line.claim, line.bar, line.measured, "yes" if line.holds else "NO")
            broken += not line.holds
    console.print(table)
    console.print(f"{broken} broken claims; {time.perf_counter() - start:.0f} s")
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()
