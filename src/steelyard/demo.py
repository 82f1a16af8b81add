"""The one-minute tour: a robot simulated with known truth, logged to a file, and identified from that file alone."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy.signal import lfilter

from steelyard.base_parameters import base_parameters
from steelyard.errors import OutputError
from steelyard.excitation import random_fourier
from steelyard.formats.robots import builtin_robots, read_robot
from steelyard.model import Model
from steelyard.observe import Progress
from steelyard.parameters import Array, inertial_vector
from steelyard.project import read_project
from steelyard.results import whole_folder
from steelyard.robot import Drive, Link, Robot
from steelyard.run import RunResult, run
from steelyard.terms import DEFAULT_TERMS, Springs, named_terms

RATE_HZ = 1000.0
DURATION_S = 20.0
ENCODER_STEP = 2e-5
PROJECT = "project.toml"
RUN_FOLDER = "project-run"
# A spring as strong as the invented links are heavy.
_SPRING = {"Kr": 2e3, "K0": -400.0, "F": 50.0, "K": 5.0}
LOGS = {"identify": "identify.csv", "validate": "validate.csv"}


@dataclass(frozen=True)
class Demo:
    """A finished tour: the run, the true base parameters, and how many the 95 % intervals contain."""

    run: RunResult
    truth: Array
    covered: int
    project: Path


def demo(robot_name: str, folder: Path, seed: int = 7, progress: Progress | None = None) -> Demo:
    """Simulate, log, identify, compare with the truth. Everything lands in `folder`.

    The true robot differs from the nominal one by about 20 %; torques carry coloured noise of 3 % and positions are
    rounded to encoder steps. The log holds positions and torques only, as a real one would.
    """
    robot = read_robot(robot_name)
    names = robot.terms if robot.terms is not None else DEFAULT_TERMS
    rng = np.random.default_rng(seed)
    model = Model(_furnished(robot, rng), named_terms(names))
    truth = _perturbed(model, rng)
    project = _project(robot_name, folder, robot, names)
    _check_untouched(folder / PROJECT, project)
    with whole_folder(folder, (*LOGS.values(), PROJECT, RUN_FOLDER)) as fresh:
        for log in LOGS.values():
            (fresh / log).write_text(_log(model, truth, rng), "utf-8")
        (fresh / PROJECT).write_text(project, "utf-8")
        done = run(read_project(fresh / PROJECT), progress=progress)
    true_base = base_parameters(model).map @ truth
    low, high = done.identification.interval(0.95)
    covered = int(np.sum((true_base >= low) & (true_base <= high)))
    return Demo(replace(done, folder=folder / RUN_FOLDER), true_base, covered, folder / PROJECT)


def _check_untouched(file: Path, project: str) -> None:
    """An earlier demo is replaced only as long as nobody has worked on its project file."""
    if file.is_file() and file.read_text("utf-8") != project:
        raise OutputError(f"'{file}' is not as the demo writes it: yours? Name another folder with --out.")


def _furnished(robot: Robot, rng: np.random.Generator) -> Robot:
    """The robot with plausible inertias and drive chains where its file is silent."""
    links, joints = [], []
    for k, (link, joint) in enumerate(zip(robot.links, robot.joints, strict=True)):
        mass = 8.0 * 0.7**k
        invented = inertial_vector(mass, rng.normal(0, 0.05, 3), 0.01 * mass * np.diag(rng.uniform(0.8, 1.2, 3)))
        links.append(link if link.inertia is not None else Link(link.name, invented, link.lumps))
        size = 0.6**k
        guess = Drive(0.3 * size, 5.0 * size, 6.0 * size, 0.0)
        given = {name: x for name, x in vars(joint.drive).items() if x is not None}
        joints.append(replace(joint, drive=replace(guess, **given)))
    springs = {e.column.name: _SPRING[e.column.symbol] for e in Springs().entries(robot)} if robot.springs else {}
    return replace(robot, links=tuple(links), joints=tuple(joints), nominal=springs | robot.nominal)


def _perturbed(model: Model, rng: np.random.Generator) -> Array:
    """A truth about 20 % away from the nominal values."""
    nominal = model.layout.nominal
    assert nominal is not None
    return nominal * (1.0 + 0.2 * rng.standard_normal(len(nominal)))


def _log(model: Model, truth: Array, rng: np.random.Generator) -> str:
    """A CSV log of one random motion: t, positions, torques."""
    motion = random_fourier(model.robot, 5, 0.1, DURATION_S, rng)
    t = np.arange(int(DURATION_S * RATE_HZ)) / RATE_HZ
    q, v, a = motion.at(t)
    tau = model.torque(q, v, a, truth)
    colour = lfilter([1.0], [1.0, -0.9], rng.standard_normal(tau.shape), axis=1) * np.sqrt(1 - 0.9**2)
    tau = tau + 0.03 * np.sqrt(np.mean(tau**2, axis=1, keepdims=True)) * colour
    header = ",".join(["t", *_columns("q", model.robot), *_columns("tau", model.robot)])
    rows = np.column_stack([t, np.round(q / ENCODER_STEP).T * ENCODER_STEP, tau.T])
    lines = (f"{row[0]:.3f}," + ",".join(f"{x:.6g}" for x in row[1:]) for row in rows)
    return header + "\n" + "\n".join(lines) + "\n"


def _columns(prefix: str, robot: Robot) -> list[str]:
    """Column names after the joints, or their numbers where a name would need quoting."""
    plain = all(re.fullmatch(r"[\w.-]+", name) for name in robot.joint_names)
    return [f"{prefix}_{name if plain else k + 1}" for k, name in enumerate(robot.joint_names)]


def _project(robot_name: str, folder: Path, robot: Robot, terms: tuple[str, ...]) -> str:
    def listed(prefix: str) -> str:
        return "[" + ", ".join(f'"{name}"' for name in _columns(prefix, robot)) + "]"

    def units(rotary: str, linear: str) -> str:
        kinds = [linear if joint.is_prismatic else rotary for joint in robot.joints]
        return f'"{rotary}"' if linear not in kinds else "[" + ", ".join(f'"{kind}"' for kind in kinds) + "]"

    source = robot_name if robot_name in builtin_robots() else os.path.relpath(robot_name, folder)
    chosen = ", ".join(f'"{name}"' for name in terms)
    return f"""\
# Written by `steelyard demo`: simulated logs. Point robot, channels and runs at your own files.
robot = {json.dumps(source, ensure_ascii=False)}
terms = [{chosen}]

[prepare]
cutoff_hz = 25.0      # zero-phase low-pass of positions
lowpass_hz = 10.0     # parallel filter of effort and columns
decimate = 40         # one row of so many samples is kept
rest = 0.02           # rows slower than this fraction of a joint's top speed are left out

[channels]
time = {{ column = "t", unit = "s" }}
q = {{ columns = {listed("q")}, unit = {units("rad", "m")} }}
effort = {{ columns = {listed("tau")}, unit = {units("N.m", "N")}, side = "joint" }}

[[run]]
log = "{LOGS["identify"]}"
role = "identify"

[[run]]
log = "{LOGS["validate"]}"
role = "validate"
"""
