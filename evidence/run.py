"""The long-running evidence in one table: claim, bar, measured value. `make evidence` runs it all.

--only NAME runs one part; --quick shortens the Monte Carlo (for a quick check, not for a claim). --json prints the
claims with their figures in full precision on stdout and everything else on stderr; same_numbers.py compares two such
files.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))  # the oracles and random trees are the tests' own

import consistent
import friction
import legs
import numpy as np
import statements
from intervals import coverage
from rich.console import Console
from rich.progress import track
from rich.table import Table

import design
import online
import papers
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
from steelyard.model.terms import DEFAULT_TERMS, named_terms
from steelyard.motion.random import random_fourier
from steelyard.project.papers.page.claims import Claim
from steelyard.project.papers.registry import PAPERS
from steelyard.project.project import Project

DATA = ROOT.parent / "shared" / "data"


def counts(quick: bool) -> Iterator[Claim]:
    def count(name: str, without: tuple[str, ...] = (), gravity=None, less: str = "") -> tuple[int, int, int]:
        robot = read_robot(name, gravity)
        terms = DEFAULT_TERMS if robot.terms is None else robot.terms
        model = Model(robot, named_terms(term for term in terms if term != less))
        base = base_parameters(model, without)
        return len(model.layout), len(base.zero), len(base)

    for claim, bar, got in (
        ("tx40: standard, zero, base", (86, 11, 60), count("tx40")),
        ("tx40 without off: base", 54, count("tx40", ("off",))[2]),
        ("tx40 without gravity: base", 58, count("tx40", (), (0, 0, 0))[2]),
        ("tx40 in tilted gravity: base", 62, count("tx40", (), (3.0, 2.0, -9.0))[2]),
        ("kr270 with its spring: base", 60, count("kr270")[2]),
        ("kr270 without its spring: base", 58, count("kr270", less="springs")[2]),
        ("planar2r: base", 4, count("planar2r")[2]),
    ):
        yield Claim.of(claim, str(bar), got == bar, "{}", got)


def oracles(quick: bool) -> Iterator[Claim]:
    from testbed.trees import random_pose, random_state, random_tree, relative, rigid_model, with_base, worst_errors

    trees = 40 if quick else 250
    for oracle in ("pinocchio", "mujoco"):
        worst = worst_errors(trees, 1000, oracle)
        for what, bar in (("regressor", 1e-10), ("torque", 1e-10), ("acceleration", 1e-9)):
            if what in worst:
                claim = f"{what} against {oracle}, {trees} random trees of up to 12 joints"
                yield Claim.of(claim, f"< {bar:.0e}", worst[what] < bar, "{:.1e}", worst[what])
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
    claim = f"forward dynamics inverts inverse, {trees} trees"
    yield Claim.of(claim, "< 1e-09", forward < 1e-9, "{:.1e}", forward)
    claim = f"base frame and gravity turned together, {trees} trees"
    yield Claim.of(claim, "< 1e-10", frame < 1e-10, "{:.1e}", frame)


def invariance(quick: bool) -> Iterator[Claim]:
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
    yield Claim.of("noise-free, exact derivatives: base parameters", "< 1e-08", worst < 1e-8, "{:.1e}", worst)
    if not DATA.is_dir():
        yield Claim.of("chunks, tiles, merges on the TX40 log", "-", True, "skipped: no shared data")
        return
    project = read_project(ROOT / "examples" / "real" / "tx40.toml")
    (spec,) = project.spec.run
    real = project.model()

    def samples(chunk_rows: int) -> Samples:
        from steelyard.signals.prepare import Preparation

        recording = project.recording(spec)
        settings = Preparation(cutoff_hz=project.spec.prepare.cutoff_hz)
        return prepare(recording, real.robot, project.spec.channels.channel_map(), settings, chunk_rows=chunk_rows)

    reference = identify(project.problem(real, [samples(65536)]))
    same = all(
        np.array_equal(identify(project.problem(real, [samples(c)])).value, reference.value)
        for c in (997, 4096, 30_000)
    )
    yield Claim.of("TX40: other reader chunks", "bitwise", same, "bitwise" if same else "differs")
    scale = np.maximum(np.abs(reference.value), reference.std)
    problem = project.problem(real, [samples(65536)])
    for tile in (64, 300, 1000):
        other = identify(problem, information=observe(problem, tile=tile))
        gap = float(np.max(np.abs(other.value - reference.value) / scale))
        yield Claim.of(f"TX40: tiles of {tile}", "< 1e-09", gap < 1e-9, "{:.1e}", gap)


def intervals(quick: bool) -> Iterator[Claim]:
    experiments = 40 if quick else 400
    for colour, label in ((0.0, "white"), (0.8, "AR(1) 0.8"), (0.99, "AR(1) 0.99")):
        c = coverage("tx40", experiments, colour, seed=1)
        mean, low = c.robust.mean(), c.robust.min()
        yield Claim.of(
            f"95 % intervals, {experiments} simulated TX-40 logs, {label} torque noise",
            "mean 92-98 %, none < 80 %",
            0.92 <= mean <= 0.98 and low >= 0.80,
            "mean {:.1%}, lowest {:.1%} (classical: {:.1%}, {:.1%})",
            *(mean, low, c.classical.mean(), c.classical.min()),
        )


def real_robots(quick: bool) -> Iterator[Claim]:
    for name, bar in (("tx40", 0.050), ("ur10e", 0.035), ("panda", 0.010), ("cobot6", 0.056)):
        project: Project = read_project(ROOT / "examples" / "real" / f"{name}.toml")
        if not (project.path.parent / project.spec.run[0].log).is_file():
            yield Claim.of(f"{name}, real log", f"<= {bar:.1%}", True, "skipped: no shared data")
            continue
        model = project.model()
        result = identify(project.problem(model, project.samples(model.robot, "identify")), WLS())
        error = result.relative_error.total
        rows = sum(result.relative_error.rows.values())
        claim = f"{name}, real log, wls, {len(result.base)} base, {rows} rows"
        if result.nominal is None:
            yield Claim.of(claim, f"<= {bar:.1%}", error <= bar, "{:.2%} (nominal none)", error)
        else:
            nominal = result.nominal.total
            yield Claim.of(claim, f"<= {bar:.1%}", error <= bar, "{:.2%} (nominal {:.1%})", error, nominal)


def transfer(quick: bool) -> Iterator[Claim]:
    """Essential parameters, and errors on motion that was not fitted."""
    if not DATA.is_dir():
        yield Claim.of("essential parameters and unseen runs of real robots", "-", True, "skipped: no shared data")
        return

    def opened(name: str):
        project = read_project(ROOT / "examples" / "real" / f"{name}.toml")
        model = project.model()
        return project, model, project.problem(model, project.samples(model.robot, "identify"))

    _, _, problem = opened("tx40")
    result = identify(problem, Essential(ratio=30.0))
    count, error = len(result.base) - len(result.cancelled), result.relative_error.total
    holds = 22 <= count <= 31 and error <= 0.053
    claim = "tx40, real log, essential parameters at r_σ = 30"
    yield Claim.of(claim, "22-31, <= 5.3%", holds, "{}, {:.2%}", count, error)
    project, model, problem = opened("kr300")
    unseen = problem.with_runs(project.samples(model.robot, "validate"))
    for estimator, bar in ((WLS(), 0.14), (MAP(), 0.05)):
        result = identify(problem, estimator, held_out=unseen)
        assert result.unseen is not None
        error = result.unseen.total
        claim = f"kr300 fitted on A, scored on B, {estimator.name}"
        yield Claim.of(claim, f"<= {bar:.0%}", error <= bar, "{:.2%}", error)
    _, model, problem = opened("ur10e-free")
    judged = cross_validate(base_parameters(model), observe(problem), WLS(), "runs")
    error = judged.pooled.total
    yield Claim.of("ur10e, leave one of 11 runs out, wls", "<= 4.3%", error <= 0.043, "{:.2%}", error)


def delays(quick: bool) -> Iterator[Claim]:
    for name, joint, moved, sigma in friction.insertions():
        claim = f"{name}: effort of {joint} logged 3.4 samples late, its delay (σ {sigma:.2f} samples) moves by"
        yield Claim.of(claim, "3.4 ± 0.2", abs(moved - 3.4) <= 0.2, "{:.2f}", moved)


def placebos(quick: bool) -> Iterator[Claim]:
    for name, how, tried, passed in friction.placebos():
        forced = how.startswith("forced")
        bar = "tells why it is refused" if forced else "0 taken"
        holds = forced or passed == 0
        yield Claim.of(f"{name}: placebos that pass, {how}", bar, holds, "{} of {}", passed, tried)


PARTS: dict[str, Callable[[bool], Iterable[Claim]]] = {
    "counts": counts,
    "oracles": oracles,
    "invariance": invariance,
    "intervals": intervals,
    "real": real_robots,
    "transfer": transfer,
    "delays": delays,
    "placebos": placebos,
    **{paper: partial(papers.claims, paper) for paper in PAPERS},
    "legs": legs.claims,
    "online": online.claims,
    "design": design.claims,
    "consistent": consistent.claims,
    "statements": statements.claims,
}


class Made(NamedTuple):
    """A claim and the part it belongs to."""

    part: str
    claim: Claim


def made(parts: Sequence[str], quick: bool) -> Iterator[Made]:
    for part in track(parts, "evidence", console=Console(stderr=True)):
        for claim in PARTS[part](quick):
            yield Made(part, claim)


def document(claims: Sequence[Made], quick: bool) -> dict[str, object]:
    return {
        "schema": "steelyard.evidence/1",
        "quick": quick,
        "claims": [{"part": part} | claim.document() for part, claim in claims],
        "broken": broken(claims),
    }


def broken(claims: Sequence[Made]) -> int:
    return sum(not claim.holds for _, claim in claims)


def table(claims: Sequence[Made]) -> Table:
    out = Table("claim", "bar", "measured", "holds", title="Steelyard evidence")
    for _, claim in claims:
        out.add_row(claim.claim, claim.bar, claim.measured, "yes" if claim.holds else "NO")
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=PARTS)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true", help="print the claims as JSON on stdout")
    chosen = parser.parse_args()
    start = time.perf_counter()
    # parts print tables of their own: stdout is for the JSON alone
    with redirect_stdout(sys.stderr if chosen.json else sys.stdout):
        claims = list(made([n for n in PARTS if chosen.only in (None, n)], chosen.quick))
        console = Console(width=180)
        console.print(table(claims))
        for part, claim in claims:
            if not claim.holds:
                console.print(f"BROKEN ({part}): {claim.claim}: {claim.measured}, not {claim.bar}")
        console.print(f"{broken(claims)} broken claims; {time.perf_counter() - start:.0f} s")
    if chosen.json:
        print(json.dumps(document(claims, chosen.quick), indent=1, ensure_ascii=False, allow_nan=False))
    sys.exit(1 if broken(claims) else 0)


if __name__ == "__main__":
    main()
