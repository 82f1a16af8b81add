"""The one-minute tour: a robot simulated with known truth, logged to a file, and identified from that file."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy.signal import lfilter

from steelyard._arrays import Array
from steelyard.errors import EstimationError, OutputError, SimulationError
from steelyard.estimators import DIDIM, IV, WLS
from steelyard.formats.robots import read_robot
from steelyard.identification.identify import identify
from steelyard.identification.result import Identification
from steelyard.model.base_parameters import base_parameters
from steelyard.model.model import Model
from steelyard.model.parameters import inertial_vector
from steelyard.model.robot import Drive, Link, Robot
from steelyard.model.terms import DEFAULT_TERMS, Springs, named_terms
from steelyard.motion.random import random_fourier
from steelyard.physical.certificates import unphysical
from steelyard.physical.consistency import link_columns, pseudo_inertia, pseudo_inertia_vector
from steelyard.physical.nearest import nearest_feasible
from steelyard.project.demos.logs import plain_log
from steelyard.project.demos.orthoglide import ROBOT as ORTHOGLIDE
from steelyard.project.demos.orthoglide import Controlled, controlled
from steelyard.project.demos.orthoglide_page import CONTROL_PAGE, control_page
from steelyard.project.draft import stated_robot
from steelyard.project.output_folder import whole_folder, write_files
from steelyard.project.project import read_project
from steelyard.project.run import RunResult, run
from steelyard.regression.observe import Progress
from steelyard.regression.problem import Problem
from steelyard.signals.prepare import Preparation, prepare
from steelyard.simulation.closed_loop import Reference, simulate
from steelyard.simulation.controllers import Cascade
from steelyard.simulation.experiment import Experiment
from steelyard.simulation.plant import Plant

RATE_HZ = 1000.0
DURATION_S = 20.0
# One encoder step of a revolute joint [rad], and of a prismatic one [m].
ENCODER_STEP, SCALE_STEP = 2e-5, 1e-6
# Harmonics of 0.1 Hz. The strokes of parallel robots are short: slow motion would hardly excite their inertias.
HARMONICS, HARMONICS_LOOPED = 5, 20
# Under a controller: sign(v) is smooth over this speed [rad/s | m/s], and the run is shorter.
SIGN_WIDTH = 0.2
LOOP_S = 10.0
CUTOFF_HZ, LOWPASS_HZ, DECIMATE, REST = 25.0, 10.0, 40, 0.02
PROJECT = "project.toml"
RUN_FOLDER = "project-run"
# A spring with a strength in proportion to the weight of the assumed links.
_SPRING = {"Kr": 2e3, "K0": -400.0, "F": 50.0, "K": 5.0}
LOGS = {"identify": "identify.csv", "validate": "validate.csv"}


@dataclass(frozen=True)
class Demo:
    """A finished tour: the run, the true base parameters, and the number of them inside the 95 % intervals.

    `loop` holds least squares, IV and DIDIM of a second run, under a controller whose gains and reference are known (P4
    Table I); it is empty if the robot cannot be simulated, and `loop_error` gives the reason. `control` compares
    control laws with models identified from currents (P3 Table 4), for the robot of that paper; `control_page` is the
    page of it.
    """

    run: RunResult
    truth: Array
    covered: int
    project: Path
    loop: tuple[Identification, ...] = ()
    loop_error: str = ""
    control: Controlled | None = None
    control_page: Path | None = None


def demo(robot_name: str, folder: Path, seed: int = 7, progress: Progress | None = None) -> Demo:
    """Simulate, log, identify, compare with the truth. All files are written to `folder`.

    The true robot differs from the nominal one by about 20 %; torques have coloured noise of 3 % and positions are
    rounded to encoder steps. The log holds positions and torques only, as a real one would.
    """
    robot = read_robot(robot_name)
    names = robot.terms if robot.terms is not None else DEFAULT_TERMS
    rng = np.random.default_rng(seed)
    model = Model(furnished(robot, rng), named_terms(names))
    truth = perturbed(model, rng)
    project = _project(robot_name, folder, robot, names)
    _check_untouched(folder / PROJECT, project)
    # logs carry no mark: they are of an earlier demo only next to its project file
    with whole_folder(folder, (*LOGS.values(), PROJECT, RUN_FOLDER, CONTROL_PAGE)) as fresh:
        for log in LOGS.values():
            (fresh / log).write_text(_log(model, truth, rng), "utf-8")
        (fresh / PROJECT).write_text(project, "utf-8")
    # after the logs are in place, so that the result names their folder
    done = run(read_project(folder / PROJECT), folder / RUN_FOLDER, progress=progress)
    true_base = base_parameters(model).map @ truth
    low, high = done.identification.interval(0.95)
    covered = int(np.sum((true_base >= low) & (true_base <= high)))
    finished = Demo(done, true_base, covered, folder / PROJECT)
    if robot_name == ORTHOGLIDE:
        control, page = controlled(robot, seed, progress), folder / CONTROL_PAGE
        write_files({page: control_page(control, robot.name).encode("utf-8")})
        finished = replace(finished, control=control, control_page=page)
    try:
        return replace(finished, loop=_under_control(robot, names, model.robot, truth, rng, progress))
    except (SimulationError, EstimationError) as error:
        return replace(finished, loop_error=str(error))


def _check_untouched(file: Path, project: str) -> None:
    """Raises an error if the project file of an earlier demo was edited: only an unedited one is replaced."""
    if file.is_file() and file.read_text("utf-8") != project:
        raise OutputError(
            f"'{file}' differs from the one the demo writes; it may be yours. Choose another folder with --out."
        )


def furnished(robot: Robot, rng: np.random.Generator) -> Robot:
    """The robot with plausible inertias and drive chains where its file gives none."""
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


def perturbed(model: Model, rng: np.random.Generator) -> Array:
    """A truth (C,) about 20 % away from the nominal values, whose bodies can exist.

    Bodies: P = e^(0.2 z) A P₀ Aᵀ, A = [[1 + 0.1 Z, 0.1 l z], [0, 1]], with normal z and Z, l the radius of gyration and
    P₀ the pseudo-inertia of the file, or of the nearest bodies with the same torques if its own cannot exist.
    """
    nominal = model.layout.nominal
    assert nominal is not None
    truth = nominal * (1.0 + 0.2 * rng.standard_normal(len(nominal)))
    if unphysical(model.layout, nominal):
        base = base_parameters(model)
        nominal = nearest_feasible(base, base.map @ nominal).theta
    for columns in link_columns(model.layout).values():
        sizes, axes = np.linalg.eigh(pseudo_inertia(nominal[columns]))
        half = axes * np.sqrt(np.maximum(sizes, 0.0))
        length = np.sqrt(max(float(np.sum(half[:3] ** 2)) / max(float(half[3] @ half[3]), 1e-12), 0.0))
        moved = np.eye(4)
        moved[:3, :3] += 0.1 * rng.standard_normal((3, 3))
        moved[:3, 3] = 0.1 * length * rng.standard_normal(3)
        body = moved @ half
        truth[columns] = np.exp(0.2 * rng.standard_normal()) * pseudo_inertia_vector(body @ body.T)
    return truth


def _under_control(
    robot: Robot,
    names: tuple[str, ...],
    furnished: Robot,
    truth: Array,
    rng: np.random.Generator,
    progress: Progress | None,
) -> tuple[Identification, ...]:
    """A second log, of the true robot under a cascade of 10 and 30 Hz, identified by `wls`, `iv` and `didim`.

    The log holds encoder readings and commands. A command is held for a sample, so it leads the motion by
    half the sample time; the simulation of DIDIM does the same.
    """
    plant = Plant(Model(furnished, named_terms(names, sign_width=SIGN_WIDTH)), truth)
    controller = Cascade.tuned(plant)
    motion = random_fourier(furnished, 5, 2.0 / LOOP_S, LOOP_S, rng)
    reference = Reference(*motion.at(np.arange(int(LOOP_S * RATE_HZ)) / RATE_HZ))
    made = simulate(plant, controller, reference, RATE_HZ, progress=progress)
    log = plain_log("under control", robot, made.t, rounded(made.q, robot), noisy(made.tau, rng))
    samples = prepare(*log, Preparation(CUTOFF_HZ))
    problem = Problem(
        Model(robot, named_terms(names, sign_width=SIGN_WIDTH)), [samples], LOWPASS_HZ, DECIMATE, REST,
        experiment=Experiment({samples.name: [reference]}, lambda _: controller),
    )  # fmt: skip
    held = replace(problem, delay=(-0.5 / RATE_HZ,) * robot.dof)
    pairs = ((held, WLS()), (held, IV()), (problem, DIDIM()))
    return tuple(identify(one, estimator, progress=progress) for one, estimator in pairs)


def noisy(tau: Array, rng: np.random.Generator, share: float = 0.03) -> Array:
    """Torques (n, N) with coloured noise, a share of their RMS."""
    colour = lfilter([1.0], [1.0, -0.9], rng.standard_normal(tau.shape), axis=1) * np.sqrt(1 - 0.9**2)
    return tau + share * np.sqrt(np.mean(tau**2, axis=1, keepdims=True)) * colour


def rounded(q: Array, robot: Robot) -> Array:
    """Positions (n, N) in whole encoder steps."""
    step = np.array([[SCALE_STEP if joint.is_prismatic else ENCODER_STEP] for joint in robot.axes])
    return np.round(q / step) * step


def _log(model: Model, truth: Array, rng: np.random.Generator) -> str:
    """A CSV log of one random motion: t, positions, torques."""
    harmonics = HARMONICS_LOOPED if model.robot.loops else HARMONICS
    motion = random_fourier(model.robot, harmonics, 0.1, DURATION_S, rng)
    t = np.arange(int(DURATION_S * RATE_HZ)) / RATE_HZ
    q, v, a = motion.at(t)
    tau = noisy(model.torque(q, v, a, truth), rng)
    header = ",".join(["t", *_columns("q", model.robot), *_columns("tau", model.robot)])
    rows = np.column_stack([t, rounded(q, model.robot).T, tau.T])
    lines = (f"{row[0]:.3f}," + ",".join(f"{x:.6g}" for x in row[1:]) for row in rows)
    return header + "\n" + "\n".join(lines) + "\n"


def _columns(prefix: str, robot: Robot) -> list[str]:
    """Column names from the joint names, or their numbers if a name would need quoting."""
    plain = all(re.fullmatch(r"[\w.-]+", name) for name in robot.axis_names)
    return [f"{prefix}_{name if plain else k + 1}" for k, name in enumerate(robot.axis_names)]


def _project(robot_name: str, folder: Path, robot: Robot, terms: tuple[str, ...]) -> str:
    def listed(prefix: str) -> str:
        return "[" + ", ".join(f'"{name}"' for name in _columns(prefix, robot)) + "]"

    def units(rotary: str, linear: str) -> str:
        kinds = [linear if joint.is_prismatic else rotary for joint in robot.axes]
        return f'"{rotary}"' if linear not in kinds else "[" + ", ".join(f'"{kind}"' for kind in kinds) + "]"

    source = stated_robot(robot_name, folder / PROJECT)
    chosen = ", ".join(f'"{name}"' for name in terms)
    return f"""\
# Written by `steelyard demo`: simulated logs. Point robot, channels and runs at your own files.
robot = {json.dumps(source, ensure_ascii=False)}
terms = [{chosen}]

[prepare]
cutoff_hz = {CUTOFF_HZ}      # zero-phase low-pass of positions
lowpass_hz = {LOWPASS_HZ}     # parallel filter of effort and columns
decimate = {DECIMATE}         # one row is kept per this number of samples
rest = {REST}           # rows slower than this fraction of a joint's top speed are left out

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
