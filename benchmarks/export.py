"""Exported C: microseconds per call of the inverse dynamics, compared with Pinocchio's `rnea` and our own kernel.

All three compute the torque of the links alone, with the nominal inertias, at the same states. The C is compiled by
`cc -O2` and timed in a loop in C. Pinocchio is called from Python, since its wheel lacks the Eigen headers that
C++ would need; the overhead of a call is removed with a robot of one joint: n/(n − 1) (t_n − t_1).
The kernel works on lanes of samples, so its time is that of a sample among many.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

ROBOTS = ("tx40", "ur10e", "panda")
STATES = 256
_TIMER = """
#define _POSIX_C_SOURCE 199309L
#include "{name}.h"
#include <stdio.h>
#include <time.h>
enum {{ N = {n}, STATES = {states} }};
static double q[STATES][N], v[STATES][N], a[STATES][N];
int main(void)
{{
    double tau[N], kept = 0.0, best = 1e9;
    FILE *file = fopen("states.bin", "rb");
    if (!file || fread(q, sizeof q, 1, file) + fread(v, sizeof v, 1, file) + fread(a, sizeof a, 1, file) != 3) return 1;
    for (int turn = 0; turn < 20; ++turn) {{
        struct timespec from, to;
        clock_gettime(CLOCK_MONOTONIC, &from);
        for (int k = 0; k < 20; ++k)
            for (int s = 0; s < STATES; ++s) {{
                {name}_inverse_dynamics(q[s], v[s], a[s], tau);
                kept += tau[0];
            }}
        clock_gettime(CLOCK_MONOTONIC, &to);
        const double spent = (to.tv_sec - from.tv_sec) + 1e-9*(to.tv_nsec - from.tv_nsec);
        if (spent < best) best = spent;
    }}
    printf("%.17g %.17g\\n", 1e6*best/(20*STATES), kept);
    return 0;
}}
"""


def bench_export() -> dict[str, dict[str, float]]:
    """By robot: microseconds per call, of the links alone and of the whole drive chain."""
    from steelyard import read_robot

    return {name: _bench(read_robot(name)) for name in ROBOTS}


def _bench(robot) -> dict[str, float]:
    from steelyard import Model
    from steelyard._kernels.dynamics import inverse_dynamics
    from steelyard.export.parameter_set import IdentifiedModel
    from steelyard.model.terms import named_terms, rich_terms

    bare, rich = Model(robot), Model(robot, named_terms(rich_terms(robot)))
    assert bare.layout.nominal is not None
    theta = bare.layout.nominal.copy()
    masses = bare.inertial_index[:, 9]
    theta[masses] = np.where(theta[masses] == 0.0, 1.0, theta[masses])  # Pinocchio divides by the mass
    rng = np.random.default_rng(0)
    full = np.where(rich.layout.nominal == 0.0, rng.uniform(0.1, 1.0, len(rich.layout)), rich.layout.nominal)
    q, v, a = rng.normal(size=(3, robot.dof, STATES))
    lanes = [np.tile(x, 40) for x in (q, v, a)]
    many = np.empty_like(lanes[0])
    inertias = bare.link_inertias(theta)
    kernel = _best(lambda: inverse_dynamics(*bare.mechanism, inertias, *lanes, many)) / many.shape[1]
    theirs, alone, apart = _pinocchio(robot, theta.reshape(-1, 10), q, v, a, bare.torque(q, v, a, theta))
    n = robot.dof
    return {
        "c_us": _compiled(IdentifiedModel(bare, theta, "nominal"), q, v, a),
        "c_rich_us": _compiled(IdentifiedModel(rich, full, "nominal"), q, v, a),
        "kernel_us": 1e6 * kernel,
        "pinocchio_us": 1e6 * n / (n - 1) * (theirs - alone),
        "pinocchio_call_us": 1e6 * theirs,
        "pinocchio_difference": apart,
        "joints": n,
    }


def _compiled(identified, q, v, a) -> float:
    from steelyard.export.code.c import c_files

    made = c_files(identified, "robot")
    assert made.parity is not None, "the bench needs cc"
    with tempfile.TemporaryDirectory() as folder:
        for name, content in made.files.items():
            (Path(folder) / name).write_bytes(content)
        (Path(folder) / "timer.c").write_text(_TIMER.format(name="robot", n=len(q), states=STATES))
        (Path(folder) / "states.bin").write_bytes(b"".join(np.ascontiguousarray(x.T).tobytes() for x in (q, v, a)))
        compiler = shutil.which("cc")
        assert compiler
        subprocess.run([compiler, "-O2", "-o", "timer", "robot.c", "timer.c", "-lm"], cwd=folder, check=True)
        done = subprocess.run([f"{folder}/timer"], cwd=folder, check=True, capture_output=True, text=True)
    return float(done.stdout.split()[0])


def _pinocchio(robot, bodies, q, v, a, ours) -> tuple[float, float, float]:
    """Seconds per call of `rnea` for the robot and for its first joint alone, and how far its torques are from ours."""
    import pinocchio as pin

    def chain(count: int):
        model = pin.Model()
        for joint, ten in list(zip(robot.joints, bodies, strict=True))[:count]:
            kind = (
                pin.JointModelRZ()
                if np.allclose(joint.axis, (0, 0, 1))
                else pin.JointModelRevoluteUnaligned(joint.axis)
            )
            placed = pin.SE3(joint.pose.rotation, joint.pose.position)
            k = model.addJoint(joint.parent + 1, kind, placed, joint.name)
            order = [9, 6, 7, 8, 0, 1, 3, 2, 4, 5]  # Pinocchio: m, mc, xx, xy, yy, xz, yz, zz
            model.appendBodyToJoint(k, pin.Inertia.FromDynamicParameters(ten[order]), pin.SE3.Identity())
        model.gravity.linear = robot.gravity
        return model, model.createData()

    def seconds(count: int) -> float:
        model, data = chain(count)
        rows = [np.ascontiguousarray(x[:count].T) for x in (q, v, a)]

        def work() -> None:
            rnea = pin.rnea
            for s in range(STATES):
                rnea(model, data, rows[0][s], rows[1][s], rows[2][s])

        return _best(work) / STATES

    model, data = chain(robot.dof)
    tau = np.stack([pin.rnea(model, data, q[:, s], v[:, s], a[:, s]) for s in range(STATES)], axis=1)
    return seconds(robot.dof), seconds(1), float(np.abs(tau - ours).max() / np.abs(ours).max())


def _best(work: Callable[[], object], repeats: int = 30) -> float:
    """Seconds of the quickest of several runs: the time without other load on the core."""
    work()
    spent = []
    for _ in range(repeats):
        begun = time.perf_counter()
        work()
        spent.append(time.perf_counter() - begun)
    return min(spent)


def export_table(found: dict[str, dict[str, float]]) -> list[str]:
    lines = []
    for name, r in found.items():
        lines += [
            f"inverse dynamics of {name:8} in C      {r['c_us']:8.3f} µs per call  (bar 3 µs for 6 axes); "
            f"with all friction {r['c_rich_us']:.3f} µs",
            f"  Pinocchio's rnea, call removed       {r['pinocchio_us']:8.3f} µs, from Python "
            f"{r['pinocchio_call_us']:.2f} µs; our kernel, lanes {r['kernel_us']:.3f} µs per sample",
        ]
    return lines
