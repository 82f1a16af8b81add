"""Robots of many joints: user + system time [s] of `steelyard params` on 101 joints and `steelyard check` on 16.

Both robots are made here: a lift with two arms, each with a hand of six fingers of seven joints, and four wheels; and
a hand of four fingers of four joints with a log of 60 s at 200 Hz. Each command runs once in a fresh process, the start
of the interpreter included. The bar is the time limit.

`python benchmarks/many_joints.py` prints a table, `--json` the numbers.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

import numpy as np
from door import processor_seconds

CASES = {"params, 101 joints": 3.0, "check, 16 joints": 20.0}
RATE_HZ, SECONDS = 200.0, 60.0
_BODY = (
    '<link name="{name}"><inertial><origin xyz="0.03 0.01 0.02"/><mass value="{mass}"/>'
    '<inertia ixx="{small}" iyy="{large}" izz="{large}" ixy="0" ixz="0" iyz="0"/></inertial></link>'
)
_JOINT = (
    '<joint name="{name}_joint" type="{kind}"><parent link="{parent}"/><child link="{name}"/><axis xyz="{axis}"/>'
    '<origin xyz="{at}"/><limit lower="-0.8" upper="0.8" velocity="9" effort="50"/></joint>'
)
_AXES = ("0 0 1", "0 1 0", "1 0 0")


class _File:
    """A URDF under construction, chain by chain."""

    def __init__(self) -> None:
        self.parts = ['<link name="base"/>']
        self.joints = 0

    def chain(self, name: str, parent: str, joints: int, at: str, mass: float, kind: str = "revolute") -> str:
        """Joints in a row whose axes alternate; returns the last link."""
        for k in range(joints):
            link = f"{name}_{k + 1}"
            size = {"small": 2e-4 * mass, "large": 1e-3 * mass}
            self.parts.append(_BODY.format(name=link, mass=mass, **size))
            axis = _AXES[(k + (joints == 4)) % 3]
            self.parts.append(_JOINT.format(name=link, parent=parent, kind=kind, axis=axis, at=at))
            parent, at, self.joints = link, "0.05 0.01 0.1", self.joints + 1
        return parent

    def write(self, path: Path) -> Path:
        path.write_text(f'<robot name="{path.stem}">{"".join(self.parts)}</robot>', "utf-8")
        return path


def large_robot(path: Path) -> Path:
    """A lift, two arms of six joints with a hand of six fingers of seven joints, four wheels: 101 joints."""
    file = _File()
    for k in range(4):
        file.chain(f"wheel{k + 1}", "base", 1, f"{k} 0.2 0", 1.0)
    lift = file.chain("lift", "base", 1, "0 0 0.5", 10.0, "prismatic")
    for side in ("left", "right"):
        hand = file.chain(f"{side}_arm", lift, 6, "0.1 0.2 0.1", 2.0)
        for finger in range(6):
            file.chain(f"{side}_finger{finger + 1}", hand, 7, f"0.05 {0.02 * finger} 0.1", 0.02)
    assert file.joints == 101
    return file.write(path)


def hand(path: Path) -> Path:
    """Four fingers of four joints."""
    file = _File()
    for finger in range(4):
        file.chain(f"finger{finger + 1}", "base", 4, f"0 {0.05 * finger} 0.1", 0.05)
    return file.write(path)


def hand_project(folder: Path) -> Path:
    """The project of the hand with its log."""
    from steelyard import Model, read_robot
    from steelyard.model.terms import DEFAULT_TERMS, named_terms
    from steelyard.motion.random import random_fourier

    robot = read_robot(hand(folder / "hand.urdf"))
    model, rng = Model(robot, named_terms(DEFAULT_TERMS)), np.random.default_rng(1)
    t = np.arange(int(SECONDS * RATE_HZ)) / RATE_HZ
    q, v, a = random_fourier(robot, 6, 0.1, SECONDS, rng).at(t)
    assert model.layout.nominal is not None
    tau = model.torque(q, v, a, model.layout.nominal)
    rms = np.sqrt(np.mean(tau**2, axis=1, keepdims=True))
    speed = np.sqrt(np.mean(v**2, axis=1, keepdims=True))
    tau = tau + 0.1 * rms * np.sign(v) + 0.05 * rms / speed * v + 0.02 * rms * rng.standard_normal(tau.shape)
    names = [f"q{k + 1}_rad" for k in range(16)], [f"tau{k + 1}_Nm" for k in range(16)]
    rows = np.column_stack([t, q.T, tau.T])
    header = ",".join(["t_s", *names[0], *names[1]])
    np.savetxt(folder / "log.csv", rows, "%.9g", ",", header=header, comments="")
    lists = [json.dumps(one) for one in names]
    (folder / "project.toml").write_text(
        f'robot = "hand.urdf"\n[channels]\ntime = {{ column = "t_s", unit = "s" }}\n'
        f'q = {{ columns = {lists[0]}, unit = "rad" }}\neffort = {{ columns = {lists[1]}, unit = "N.m" }}\n'
        '[[run]]\nlog = "log.csv"\n',
        "utf-8",
    )
    return folder / "project.toml"


def bench_many_joints() -> dict[str, dict[str, float]]:
    """Seconds and the bar of each case."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        commands = (["params", str(large_robot(folder / "large.urdf"))], ["check", str(hand_project(folder))])
        return {
            name: {"seconds": processor_seconds(["-m", "steelyard", *command, "--json"]), "bar": bar}
            for (name, bar), command in zip(CASES.items(), commands, strict=True)
        }


def many_joints_table(found: dict[str, dict[str, float]]) -> list[str]:
    return [f"{name:36}  {one['seconds']:8.2f} s  (bar {one['bar']:.0f})" for name, one in found.items()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    found = bench_many_joints()
    print(json.dumps(found, indent=1) if chosen.json else "\n".join(many_joints_table(found)))


if __name__ == "__main__":
    main()
