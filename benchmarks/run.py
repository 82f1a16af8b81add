"""Speed and memory compared with peers, one thread, after compilation, warm file cache; every ratio comes from one run.

    regressor   6-axis standard regressor and a Python loop over Pinocchio, into the same memory, and in the stream
    tx40        log file to base parameters against FIGAROH 1.0.2's regressor + decimation + solve on the same samples
    p0          essential and standard parameters, consistency and 10-fold cross-validation of the TX40, after the pass
    loops       regressors of looped robots, closure included, against that of an open 6-axis arm
    design      an exciting motion of the TX-40, and SLSQP by finite differences on the same criterion
    online      a running log of a 6-axis robot, identified and watched chunk by chunk
    consistent  physically consistent fit of a 7-axis arm and a tree of 30 links, and cvxpy on the same problem
    export      exported C: inverse dynamics, Pinocchio's and our own kernel
    door        processor time of the import and of `--help`
    many        processor time of `params` on 101 joints and of `check` on 16
    stream      10 million samples × 6 joints from a Parquet file to base parameters

`make bench` runs all and prints one table; `--json` prints the numbers, `--only NAME` runs one part.
"""

from __future__ import annotations

import os

for _variable in (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "POLARS_MAX_THREADS",
):
    os.environ[_variable] = "1"

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np
from consistent import bench_consistent, consistent_table
from door import bench_door, door_table
from iv import bench_iv, iv_table
from loops import bench_loops, loops_table
from many_joints import bench_many_joints, many_joints_table

from design import bench_design, design_table
from export import bench_export, export_table
from online import bench_online, online_table
from simulation import bench_simulation, simulation_table

ROOT = Path(__file__).resolve().parent.parent
TX40_DATA = ROOT.parent / "shared" / "data" / "staubli_tx40"
FIGAROH_PYTHON = ROOT / ".venv-figaroh" / "bin" / "python"


def timed(work: Callable[[], object], repeats: int) -> float:
    """Median seconds of several runs, after one that is not counted."""
    work()
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return median(seconds)


def peak_rss() -> int:
    """Highest resident memory of this process so far [bytes], from the kernel's own count."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise OSError("no VmHWM in /proc/self/status")


def bench_regressor() -> dict[str, float]:
    """Microseconds per sample: Pinocchio's loop and ours write W of the same motion into the same touched memory."""
    import pinocchio as pin

    from steelyard import Model, read_robot
    from steelyard._kernels.regressor import regressor
    from steelyard.model.terms import Motion

    robot = read_robot("tx40")
    model = Model(robot)
    rng = np.random.default_rng(0)
    n, columns, samples = robot.dof, 10 * robot.dof, 20000
    q, v, a = (rng.normal(size=(n, samples)) for _ in range(3))
    peer = pin.Model()
    for k, joint in enumerate(robot.joints):
        peer.addJoint(k, pin.JointModelRZ(), pin.SE3(joint.pose.rotation, joint.pose.position), joint.name)
    peer.gravity.linear = robot.gravity
    data = peer.createData()
    memory = np.zeros(samples * n * columns)
    by_sample = memory.reshape(samples, n, columns)
    rows = [np.ascontiguousarray(x.T) for x in (q, v, a)]

    def pinocchio_loop() -> None:
        compute = pin.computeJointTorqueRegressor
        for s in range(samples):
            by_sample[s] = compute(peer, data, rows[0][s], rows[1][s], rows[2][s])

    theirs = timed(pinocchio_loop, 3)
    reference = by_sample[:50].copy()
    memory[:] = 0.0
    by_lane = memory.reshape(n * columns, samples)
    slot = np.full((n, n), -1, np.int64)
    for i in range(n):
        for j in robot.ancestors(i):
            slot[j, i] = j * columns + 10 * i
    stored = timed(lambda: regressor(*model.mechanism, q, v, a, slot, by_lane), 5)
    order = np.array([9, 6, 7, 8, 0, 1, 3, 2, 4, 5])  # Pinocchio: m, mc, xx, xy, yy, xz, yz, zz
    ours = by_lane.reshape(n, n, 10, samples)[:, :, order, :50].transpose(3, 0, 1, 2).reshape(50, n, columns)
    tiles = [Motion(*(np.ascontiguousarray(x[:, s : s + 250]) for x in (q, v, a))) for s in range(0, samples, 250)]
    tile = np.empty((len(model.places), 250))

    def stream() -> None:
        for motion in tiles:
            model.fill(motion, tile)

    streamed = timed(stream, 5)
    return {
        "pinocchio_us": 1e6 * theirs / samples,
        "stored_us": 1e6 * stored / samples,
        "stream_us": 1e6 * streamed / samples,
        "stored_ratio": theirs / stored,
        "stream_ratio": theirs / streamed,
        "largest_difference": float(np.abs(ours - reference).max()),
    }


def tx40_once() -> None:
    """Child process: TX40 log to base parameters; prints seconds and peak memory above the imports."""
    from steelyard import identify, observe, read_project
    from steelyard.project.demos.demo import demo  # noqa: F401  (everything a user's process has loaded)

    def whole():
        project = read_project(ROOT / "examples" / "real" / "tx40.toml")
        model = project.model()
        problem = project.problem(model, project.samples(model.robot, "identify"))
        return identify(problem, information=observe(problem))

    _load_kernels()
    before = peak_rss()
    result = whole()
    memory = peak_rss() - before
    seconds = timed(whole, 7)
    print(json.dumps({"seconds": seconds, "megabytes": memory / 1e6, "residual": result.relative_error.total}))


def bench_tx40() -> dict[str, float]:
    """Ours starts from the file, FIGAROH from arrays that are filtered and differentiated already."""
    from steelyard import read_project

    if not TX40_DATA.is_dir() or not FIGAROH_PYTHON.is_file():
        raise SystemExit(f"needs {TX40_DATA} and the FIGAROH environment; run it through `make bench`")
    project = read_project(ROOT / "examples" / "real" / "tx40.toml")
    robot = project.robot()
    (samples,) = project.samples(robot, "identify")
    pieces = list(samples.open())
    q, v, a, effort = (np.concatenate([p[k] for p in pieces], axis=1).T for k in (2, 3, 4, 5))
    first, stop = samples.stretches[0].clean
    rest = np.array(project.spec.prepare.rest)
    with tempfile.TemporaryDirectory() as folder:
        motion = Path(folder) / "motion.npz"
        keep = (np.abs(v[first:stop]) >= rest).any(axis=1)
        arrays = {
            "q": q[first:stop],
            "dq": v[first:stop],
            "ddq": a[first:stop],
            "tau": effort[first:stop],
            "keep": keep,
        }
        np.savez(motion, **arrays)
        peer = _child(
            [
                str(FIGAROH_PYTHON),
                str(ROOT / "benchmarks" / "figaroh_tx40.py"),
                str(TX40_DATA / "tx40.urdf"),
                str(motion),
                *("--decimate", "100", "--wrist-coupling", "--repeats", "5"),
            ]
        )
    ours = _child([sys.executable, __file__, "--child", "tx40"])
    theirs_seconds, theirs_memory = peer["seconds"]["total"], peer["peak_mb_above_imports"]
    return {
        "figaroh_seconds": theirs_seconds,
        "steelyard_seconds": ours["seconds"],
        "ratio": theirs_seconds / ours["seconds"],
        "figaroh_megabytes": theirs_memory,
        "steelyard_megabytes": ours["megabytes"],
        "memory_share": ours["megabytes"] / theirs_memory,
        "figaroh_residual": peer["relative_residual"],
        "steelyard_residual": ours["residual"],
    }


def bench_p0() -> dict[str, float]:
    """Seconds of everything P0 asks for beyond base parameters, from the TX40's information."""
    from steelyard import Essential, base_parameters, cross_validate, identify, observe, read_project
    from steelyard.estimators import WLS
    from steelyard.estimators.least_squares import joint_deviations
    from steelyard.estimators.standard_set import closest, closest_on_essential, minimum_norm
    from steelyard.physical.consistency import check_links
    from steelyard.physical.nearest import nearest_feasible
    from steelyard.physical.prior import Widths, column_widths

    project = read_project(ROOT / "examples" / "real" / "tx40.toml")
    model = project.model()
    problem = project.problem(model, project.samples(model.robot, "identify"))
    information, base = observe(problem), base_parameters(model)
    nominal = model.layout.nominal
    assert nominal is not None

    def everything() -> None:
        full = identify(problem, WLS(), information)
        few = identify(problem, Essential(), information)
        names = [name for name in base.names if name not in few.cancelled]
        width = column_widths(model.layout, nominal, Widths())
        width = np.where(np.isfinite(width) & (width > 0), width, 1.0)
        sets = [minimum_norm(base, full.value), closest(base, full.value, nominal)]
        sets.append(closest(base, full.value, nominal, width))
        sets.append(closest_on_essential(information, base, names, nominal, 1.0 / joint_deviations(information, base)))
        for theta in sets:
            check_links(model.layout, theta, 0.0)
        nearest_feasible(base, full.value, full.covariance_classical, nominal)
        cross_validate(base, information, WLS(), 10)

    return {"seconds": timed(everything, 3)}


def write_long_log(path: Path, samples: int) -> None:
    """A TX-40 log at 5 kHz as Parquet, written in row groups; one 40 s simulated motion repeated."""
    import polars as pl

    from steelyard import Model, read_robot
    from steelyard.model.terms import named_terms
    from steelyard.motion.random import random_fourier

    robot = read_robot("tx40")
    model = Model(robot, named_terms(("rotor", "viscous", "coulomb", "offset")))
    rng = np.random.default_rng(3)
    period = 200_000
    t = np.arange(period) / 5000.0
    q, v, a = random_fourier(robot, 5, 0.1, period / 5000.0, rng).at(t)
    theta = model.layout.nominal
    assert theta is not None
    tau = model.torque(q, v, a, theta)
    tau += 0.03 * np.std(tau, axis=1, keepdims=True) * rng.standard_normal(tau.shape)
    frames = []
    for k in range(samples // period):
        columns = {"t": t + k * period / 5000.0}
        columns |= {f"q{j}": q[j] for j in range(6)} | {f"tau{j}": tau[j] for j in range(6)}
        frames.append(pl.DataFrame(columns))
    pl.concat(frames).write_parquet(path, compression="zstd", row_group_size=period)


def stream_once(path: str) -> None:
    """Child process: a long log to base parameters; prints samples per second and peak memory above the imports."""
    from steelyard import (
        ChannelMap,
        Model,
        Preparation,
        Problem,
        Signal,
        identify,
        observe,
        prepare,
        read_recording,
        read_robot,
    )  # fmt: skip
    from steelyard.model.terms import named_terms

    robot = read_robot("tx40")
    model = Model(robot, named_terms(("rotor", "viscous", "coulomb", "offset")))
    channels = ChannelMap("t", Signal([f"q{j}" for j in range(6)], "rad"), Signal([f"tau{j}" for j in range(6)], "N.m"))
    _load_kernels()
    before = peak_rss()
    start = time.perf_counter()
    samples = prepare(read_recording(path), robot, channels, Preparation(cutoff_hz=50.0))
    surveyed = time.perf_counter() - start
    problem = Problem(model, [samples], lowpass_hz=20.0, decimate=100)
    information = observe(problem)
    result = identify(problem, information=information)
    seconds = time.perf_counter() - start
    print(
        json.dumps(
            {
                "samples": samples.count,
                "seconds": seconds,
                "survey_seconds": surveyed,
                "samples_per_second": samples.count / seconds,
                "peak_megabytes": peak_rss() / 1e6,
                "megabytes_above_imports": (peak_rss() - before) / 1e6,
                "base": len(result.base),
                "relative_error": result.relative_error.total,
            }
        )
    )


def bench_stream(samples: int = 10_000_000) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "long.parquet"
        write_long_log(path, samples)
        path.read_bytes()  # warm the file cache
        return _child([sys.executable, __file__, "--child", "stream", str(path)])


def _load_kernels() -> None:
    """Load the compiled kernels from the cache before anything is measured."""
    from steelyard import Model, read_robot

    q = np.zeros((6, 4))
    Model(read_robot("tx40")).regressor(q, q, q)


def _child(command: list[str]) -> dict:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command[:3])} failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout)


def _table(results: dict[str, dict]) -> str:
    lines = []
    if "regressor" in results:
        r = results["regressor"]
        lines += [
            f"6-axis regressor, Pinocchio loop    {r['pinocchio_us']:8.2f} µs/sample",
            f"  Steelyard, same memory            {r['stored_us']:8.2f} µs/sample  {r['stored_ratio']:5.1f}× (bar 5×)",
            f"  Steelyard, in the stream          {r['stream_us']:8.2f} µs/sample  {r['stream_ratio']:5.1f}× (bar 8×)",
            f"  largest difference                {r['largest_difference']:8.1e}",
        ]
    if "tx40" in results:
        r = results["tx40"]
        lines += [
            f"TX40, FIGAROH 1.0.2 (arrays → base) {r['figaroh_seconds']:8.3f} s   {r['figaroh_megabytes']:7.0f} MB",
            f"  Steelyard (file → base)           {r['steelyard_seconds']:8.3f} s   {r['steelyard_megabytes']:7.0f} MB"
            f"  {r['ratio']:5.1f}×  (bar 15×), memory {r['memory_share']:.2f} of it (bar 0.25)",
        ]
    if "p0" in results:
        seconds = results["p0"]["seconds"]
        lines.append(f"TX40, all of P0 after the pass      {seconds:8.3f} s   (bar 1 s)")
    if "stream" in results:
        r = results["stream"]
        lines += [
            f"{r['samples'] / 1e6:.0f} M samples × 6 joints            {r['seconds']:8.1f} s   "
            f"{r['samples_per_second']:9.0f} samples/s  (bar 500000)",
            f"  peak memory                       {r['peak_megabytes']:8.0f} MB in all, "
            f"{r['megabytes_above_imports']:.0f} MB above the imports  (bar 500)",
        ]
    if "simulation" in results:
        lines += simulation_table(results["simulation"])
    if "iv" in results:
        lines += iv_table(results["iv"])
    if "loops" in results:
        lines += loops_table(results["loops"])
    if "design" in results:
        lines += design_table(results["design"])
    if "online" in results:
        lines += online_table(results["online"])
    if "consistent" in results:
        lines += consistent_table(results["consistent"])
    if "export" in results:
        lines += export_table(results["export"])
    if "door" in results:
        lines += door_table(results["door"])
    if "many" in results:
        lines += many_joints_table(results["many"])
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--only",
        choices=(
            "regressor",
            "tx40",
            "p0",
            "stream",
            "simulation",
            "iv",
            "loops",
            "design",
            "online",
            "consistent",
            "export",
            "door",
            "many",
        ),
    )
    parser.add_argument("--samples", type=int, default=10_000_000)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.child:
        {"tx40": tx40_once, "stream": stream_once}[chosen.child[0]](*chosen.child[1:])
        return
    parts = {
        "regressor": bench_regressor,
        "tx40": bench_tx40,
        "p0": bench_p0,
        "stream": lambda: bench_stream(chosen.samples),
        "simulation": bench_simulation,
        "iv": bench_iv,
        "loops": bench_loops,
        "design": bench_design,
        "online": bench_online,
        "consistent": bench_consistent,
        "export": bench_export,
        "door": bench_door,
        "many": bench_many_joints,
    }
    results = {name: work() for name, work in parts.items() if chosen.only in (None, name)}
    print(json.dumps(results, indent=1) if chosen.json else _table(results))


if __name__ == "__main__":
    main()
