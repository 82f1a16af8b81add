"""Simulated robots that were not used to tune any setting, drawn from a seed, with realistic logs.

Rigid torques come from Pinocchio, never from Steelyard. Robots are arms of the MJCF zoo next to the repository (without
meshes), built-in robots and random serial arms. A case draws

    the real robot   bodies that differ from its file by up to 30 %, rotors, friction by a law that no term has
    the motion       Fourier series, or moves with pauses; 3 to 120 s; slow or fast
    the log          50 Hz to 5 kHz, encoder steps of 1e-6 to 1e-3 rad, a resonance of 3 to 40 Hz in positions and
                     efforts, ripple, coloured noise, a delay, rounded efforts

and gives a log to identify, one of another motion to validate, and the true torques of a third motion.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
from scipy.signal import butter, lfilter, sosfilt
from scipy.spatial.transform import Rotation

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))  # the oracle is the tests' own

from steelyard._arrays import Array
from steelyard.formats.robots import read_robot
from steelyard.model.parameters import transformed_inertia
from steelyard.model.pose import Pose
from steelyard.model.robot import BASE, Drive, Joint, Limits, Link, Robot
from steelyard.motion.random import random_fourier, random_points
from steelyard.motion.trajectory import Quintic, Trajectory
from testbed.trees import Pinocchio, State, random_inertia, with_link_frame

ZOO = ROOT.parent / "shared" / "zoo" / "mjcf"
ARMS = (
    "agilex_piper/piper.xml", "arx_l5/arx_l5.xml", "flexiv_rizon4/flexiv_rizon4.xml",
    "franka_emika_panda/panda_nohand.xml", "franka_fr3/fr3.xml", "i2rt_yam/yam.xml", "kinova_gen3/gen3.xml",
    "kuka_iiwa_14/iiwa14.xml", "low_cost_robot_arm/low_cost_robot_arm.xml", "rethink_robotics_sawyer/sawyer.xml",
    "robotstudio_so101/so101.xml", "trossen_vx300s/vx300s.xml", "trossen_wx250s/wx250s.xml",
    "trs_so_arm100/so_arm100.xml", "ufactory_lite6/lite6.xml", "ufactory_xarm7/xarm7_nohand.xml",
    "unitree_z1/z1.xml", "universal_robots_ur10e/ur10e.xml", "universal_robots_ur5e/ur5e.xml",
)  # fmt: skip
BUILT_IN = ("kr270", "kr300", "panda", "tx40", "ur10e")
RANDOM_ARMS = 6


class Law(NamedTuple):
    """A friction law f(v; scale), odd in v, with f(±top speed) about ±1; none is linear in the terms of Steelyard."""

    name: str
    value: Callable[[Array, float], Array]


LAWS = (
    Law("arsinh", lambda v, s: np.arcsinh(v / s) / 3.0),
    Law("tanh and root", lambda v, s: 0.6 * np.tanh(3.0 * v / s) + 0.4 * np.sign(v) * np.abs(v / s) ** 0.6),
    Law("stribeck", lambda v, s: np.sign(v) * (0.6 + 0.5 * np.exp(-np.abs(v / s) * 4.0)) + 0.3 * v / s),
    Law("quadratic", lambda v, s: 0.6 * np.sign(v) + 0.4 * v * np.abs(v) / s**2),
    Law("rational", lambda v, s: np.sign(v) * (0.5 + np.abs(v / s)) / (1.0 + 0.5 * np.abs(v / s))),
)


@dataclass(frozen=True)
class Case:
    """What was drawn; amplitudes are shares of a joint's rms torque, or of its rms acceleration for the resonance."""

    number: int
    robot: str
    law: str
    seconds: float
    rate_hz: float
    moves: bool
    band_hz: float
    speed: float
    encoder_step: float
    resonance_hz: float
    resonance: float
    ripple: float
    noise: float
    colour: float
    delay_s: float
    friction: float
    inertias_told: bool

    @property
    def label(self) -> str:
        return f"{self.number:02d} {self.robot}"


def draw(number: int, seed: int) -> Case:
    """Case `number` of a seed; robots in turn, everything else at random."""
    rng = np.random.default_rng([seed, number])

    def between(low: float, high: float) -> float:
        return float(np.exp(rng.uniform(np.log(low), np.log(high))))

    sources = [*ARMS, *BUILT_IN, *(f"random arm {k}" for k in range(RANDOM_ARMS))]
    seconds = between(3.0, 120.0)
    # at most 200,000 samples: a minute at 3 kHz
    rate = min(between(50.0, 5000.0), 2e5 / seconds)
    band = min(between(0.3, 4.0), rate / 25.0)
    return Case(
        number, sources[number % len(sources)], LAWS[int(rng.integers(len(LAWS)))].name, seconds, rate,
        bool(rng.uniform() < 0.25), max(band, 1.5 / seconds), between(0.15, 1.0), between(1e-6, 1e-3),
        between(max(3.0, 2.0 * band), max(40.0, 4.0 * band)), between(0.03, 1.0), rng.uniform(0.0, 0.03),
        between(0.003, 0.05), rng.uniform(0.0, 0.95), rng.uniform(-0.001, 0.004), between(0.05, 0.4),
        bool(rng.uniform() < 0.6),
    )  # fmt: skip


# --- Robots -----------------------------------------------------------------------------------------------------------


def nominal_robot(source: str, seed: int) -> Robot:
    """The robot as its file describes it; zoo files are read without their shapes, whose meshes are not there."""
    if source in BUILT_IN:
        robot = replace(read_robot(source), coupling=None, springs=(), compensator=None, terms=None)
        return on_axes(robot)
    if source.startswith("random arm"):
        return random_arm(np.random.default_rng([seed, int(source.split()[-1]), 77]))
    import mujoco

    spec = mujoco.MjSpec.from_file(str(ZOO / source))
    bodiless = (spec.geoms, spec.meshes, spec.materials, spec.textures, spec.tendons, spec.equalities, spec.excludes)
    for several in (*bodiless, spec.keys, spec.actuators):
        for one in list(several):
            spec.delete(one)
    spec.compile()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / Path(source).name
        file.write_text(spec.to_xml(), "utf-8")
        robot = read_robot(file)
    return on_axes(robot)


def on_axes(robot: Robot) -> Robot:
    """The same robot with its link frames on their joints' axes, as URDF has them."""
    for i, joint in enumerate(robot.joints):
        if np.any(joint.point):
            robot = with_link_frame(robot, i, Pose(position=joint.point))
    return robot


def random_arm(rng: np.random.Generator) -> Robot:
    """Four to seven revolute joints, right angles between most neighbours, a base that may hang or lie."""
    count = int(rng.integers(4, 8))
    joints, links = [], []
    for i in range(count):
        length = 0.0 if i == 0 else float(rng.uniform(0.05, 0.4))
        quarter = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, -1.0], [0.0, 1.0, 0.0]])
        turn = quarter if i and rng.uniform() < 0.7 else np.eye(3)
        place = Pose(turn, np.array([0.0, 0.0, length]) if i % 2 else np.array([length, 0.0, 0.0]))
        limits = Limits(-2.5, 2.5, float(rng.uniform(1.0, 4.0)), np.inf)
        joints.append(Joint(f"joint{i + 1}", "revolute", i - 1, place, np.array([0.0, 0.0, 1.0]), limits=limits))
        links.append(Link(f"link{i + 1}", random_inertia(rng) * (0.8**i)))
    way = rng.choice(3)
    gravity = 9.80665 * np.array([(0.0, 0.0, -1.0), (0.0, 0.0, 1.0), (0.0, -1.0, 0.0)][int(way)])
    return Robot("random arm", tuple(links), tuple(joints), gravity=gravity)


def true_robot(robot: Robot, rng: np.random.Generator) -> Robot:
    """Bodies as they are: each scaled by up to 30 % and with a small mass where the file has none; rotors."""
    links = []
    for link in robot.links:
        if link.inertia is None or link.inertia[9] <= 0.0:
            links.append(replace(link, inertia=0.3 * random_inertia(rng)))
            continue
        scale, extra = 1.0 + rng.uniform(-0.3, 0.3), 0.1 * link.inertia[9] * rng.uniform()
        place = link.inertia[6:9] / max(link.inertia[9], 1e-9) + rng.normal(scale=0.02, size=3)
        x, y, z = place
        point = np.array([y * y + z * z, -x * y, -x * z, x * x + z * z, -y * z, x * x + y * y, x, y, z, 1.0])
        links.append(replace(link, inertia=scale * link.inertia + extra * point))
    bare = replace(robot, links=tuple(links), joints=tuple(replace(j, drive=Drive(rotor=0.0)) for j in robot.joints))
    q = random_points(bare, 64, rng)
    inertia = np.mean(np.diagonal(Pinocchio(bare).mass_matrix(q)), axis=0)
    stated = [joint.drive.rotor or 0.0 for joint in robot.joints]
    rotors = [float(r if r > 0.0 else rng.uniform(0.05, 0.5) * m) for r, m in zip(stated, inertia, strict=True)]
    drives = (Drive(rotor=rotor) for rotor in rotors)
    joints = tuple(replace(j, drive=d) for j, d in zip(bare.joints, drives, strict=True))
    return replace(bare, joints=joints)


# --- Logs -------------------------------------------------------------------------------------------------------------


class Log(NamedTuple):
    """A log as it is read: t (N,) [s], q and effort (n, N)."""

    t: Array
    q: Array
    effort: Array


@dataclass(frozen=True)
class Stranger:
    """A case made real: the file's robot, the real one, and what it does."""

    case: Case
    seed: int

    @cached_property
    def nominal(self) -> Robot:
        robot = nominal_robot(self.case.robot, self.seed)
        if self.case.inertias_told:
            return robot
        return replace(robot, links=tuple(replace(link, inertia=None) for link in robot.links))

    @cached_property
    def real(self) -> Robot:
        return true_robot(
            nominal_robot(self.case.robot, self.seed), np.random.default_rng([self.seed, self.case.number, 2])
        )

    @cached_property
    def oracle(self) -> Pinocchio:
        return Pinocchio(self.real)

    @cached_property
    def coefficients(self) -> tuple[Array, Array, Array]:
        """Friction [N·m] and speed scale of every joint, and torque offsets; from a motion of the same kind."""
        rng = np.random.default_rng([self.seed, self.case.number, 3])
        t = np.linspace(0.0, self.motion(4).duration, 400)
        state = State(*self.motion(4).at(t))
        size = np.sqrt(np.mean(self.oracle.torque(state) ** 2, axis=1)) + 1e-9
        top = np.max(np.abs(state.v), axis=1) + 1e-6
        floor = 0.05 * np.max(size)  # a joint without load still has friction
        level = self.case.friction * np.maximum(size, floor) * rng.uniform(0.5, 2.0, len(size))
        return level, top, 0.02 * size * rng.normal(size=len(size))

    def motion(self, which: int) -> Trajectory:
        """Motion `which` of the case: same kind, another draw."""
        case, rng = self.case, np.random.default_rng([self.seed, self.case.number, 10 + which])
        robot = replace(self.real, joints=tuple(replace(j, limits=self._room(j)) for j in self.real.joints))
        if case.moves:
            pause = 1.0 / case.band_hz
            count = max(3, int(case.seconds / (2.0 * pause)))
            points = random_points(robot, count, rng)
            times = np.arange(count) * case.seconds / (count - 1)
            # a quintic moves at up to 1.875 times its mean speed
            fastest = 1.875 * np.max(np.abs(np.diff(points)), axis=1) / (times[1] - times[0])
            speeds = np.array([j.limits.velocity for j in robot.joints])
            middle = points.mean(axis=1, keepdims=True)
            points = middle + (points - middle) * np.minimum(1.0, speeds / np.maximum(fastest, 1e-9))[:, None]
            return Quintic(points, times)
        harmonics = int(rng.integers(3, 7))
        return random_fourier(robot, harmonics, case.band_hz / harmonics, case.seconds, rng)

    def _room(self, joint: Joint) -> Limits:
        """Limits with a speed that suits the case."""
        lower = joint.limits.lower if np.isfinite(joint.limits.lower) else -2.5
        upper = joint.limits.upper if np.isfinite(joint.limits.upper) else 2.5
        speed = joint.limits.velocity if 0.0 < joint.limits.velocity < 20.0 else 3.0
        return Limits(lower, upper, self.case.speed * (0.3 if joint.is_prismatic else speed), np.inf)

    def torque(self, state: State) -> Array:
        """What the real robot takes, without noise, ripple or resonance, (n, N)."""
        level, top, offset = self.coefficients
        law = next(law for law in LAWS if law.name == self.case.law)
        rubbing = law.value(state.v, top[:, None])
        return self.oracle.torque(state) + level[:, None] * rubbing + offset[:, None]

    def log(self, which: int) -> Log:
        """The log of motion `which`."""
        case, rng = self.case, np.random.default_rng([self.seed, self.case.number, 20 + which])
        motion = self.motion(which)
        t = np.arange(int(motion.duration * case.rate_hz)) / case.rate_hz
        state, late = State(*motion.at(t)), State(*motion.at(np.maximum(t - case.delay_s, 0.0)))
        effort = self.torque(late)
        size = np.sqrt(np.mean(effort**2, axis=1, keepdims=True))
        # in its resonance a joint swings without the torque that a rigid one would need, and the controller answers
        swing, answer = self._resonance(state, rng)
        cycles = rng.integers(20, 160, (len(effort), 1))
        effort = effort + answer + case.ripple * size * np.sin(cycles * state.q + rng.uniform(0.0, 6.0, cycles.shape))
        white = rng.normal(size=effort.shape) * np.sqrt(1.0 - case.colour**2)
        effort = effort + case.noise * size * lfilter([1.0], [1.0, -case.colour], white)
        digit = size / 2000.0
        q = np.round((state.q + swing) / case.encoder_step) * case.encoder_step
        return Log(t, q, np.round(effort / digit) * digit)

    def _resonance(self, state: State, rng: np.random.Generator) -> tuple[Array, Array]:
        """Positions (n, N) [rad | m] of the swing, and the effort of the controller that sees it [N·m | N]."""
        case = self.case
        low, high = case.resonance_hz * np.array([0.95, 1.05])
        if high >= 0.45 * case.rate_hz:  # above what the log can hold
            return np.zeros_like(state.q), np.zeros_like(state.q)
        band = butter(2, [low, high], "bandpass", fs=case.rate_hz, output="sos")
        swing = sosfilt(band, rng.normal(size=state.q.shape), axis=1)
        swing /= np.sqrt(np.mean(swing**2, axis=1, keepdims=True)) + 1e-12
        squared = (2.0 * np.pi * case.resonance_hz) ** 2
        rms = np.sqrt(np.mean(state.a**2, axis=1, keepdims=True))
        swing *= case.resonance * rms / squared
        mass = np.mean(np.diagonal(self.oracle.mass_matrix(state.q[:, :: max(1, state.q.shape[1] // 32)])), axis=0)
        return swing, -rng.uniform(-0.3, 1.0, mass.shape)[:, None] * mass[:, None] * squared * swing

    def truth(self, samples: int = 4000) -> tuple[State, Array]:
        """Exact states and torques of an unseen motion, moving rows only for every joint (NaN elsewhere)."""
        motion = self.motion(2)
        t = np.linspace(0.0, motion.duration, samples)
        state = State(*motion.at(t))
        tau = self.torque(state)
        slow = np.abs(state.v) < 0.05 * np.max(np.abs(state.v), axis=1, keepdims=True)
        return state, np.where(slow, np.nan, tau)

    # --- As a user has it ---------------------------------------------------------------------------------------------

    def write(self, folder: Path) -> Path:
        """Robot file, a log to identify and one to validate, and the shortest project file there is; its path."""
        (folder / "robot.urdf").write_text(urdf_text(self.nominal), "utf-8")
        names = self.nominal.joint_names
        for which, name in enumerate(("identify", "validate")):
            log = self.log(which)
            columns = {"t": log.t} | {f"q_{n}": x for n, x in zip(names, log.q, strict=True)}
            columns |= {f"tau_{n}": x for n, x in zip(names, log.effort, strict=True)}
            pl.DataFrame(columns).write_parquet(folder / f"{name}.parquet")
        listed = {kind: ", ".join(f'"{kind}_{n}"' for n in names) for kind in ("q", "tau")}
        units = ", ".join(f'"{"m" if j.is_prismatic else "rad"}"' for j in self.nominal.joints)
        efforts = ", ".join(f'"{"N" if j.is_prismatic else "N.m"}"' for j in self.nominal.joints)
        project = folder / "project.toml"
        project.write_text(
            f'robot = "robot.urdf"\ngravity = {self.nominal.gravity.tolist()}\n'
            '[channels]\ntime = { column = "t", unit = "s" }\n'
            f"q = {{ columns = [{listed['q']}], unit = [{units}] }}\n"
            f"effort = {{ columns = [{listed['tau']}], unit = [{efforts}] }}\n"
            '[[run]]\nlog = "identify.parquet"\n[[run]]\nlog = "validate.parquet"\nrole = "validate"\n',
            "utf-8",
        )
        return project


def urdf_text(robot: Robot) -> str:
    """The robot as URDF; links without a stated inertia have none."""
    lines = ['<robot name="stranger"><link name="base"/>']
    for link, joint in zip(robot.links, robot.joints, strict=True):
        inside = ""
        if link.inertia is not None:
            *inertia, _, _, _, mass = transformed_inertia(link.inertia, np.eye(3), -_centre(link.inertia)).tolist()
            xx, xy, xz, yy, yz, zz = inertia
            inside = (
                f'<inertial><origin xyz="{_numbers(_centre(link.inertia))}"/><mass value="{mass!r}"/>'
                f'<inertia ixx="{xx!r}" ixy="{xy!r}" ixz="{xz!r}" iyy="{yy!r}" iyz="{yz!r}" izz="{zz!r}"/></inertial>'
            )
        assert not np.any(joint.point)
        angles = Rotation.from_matrix(joint.pose.rotation).as_euler("xyz")
        limits, parent = joint.limits, "base" if joint.parent == BASE else robot.links[joint.parent].name
        low, high = (float(x) if np.isfinite(x) else y for x, y in ((limits.lower, -6.3), (limits.upper, 6.3)))
        kind = "prismatic" if joint.is_prismatic else "revolute"
        lines.append(
            f'<link name="{link.name}">{inside}</link><joint name="{joint.name}" type="{kind}">'
            f'<parent link="{parent}"/><child link="{link.name}"/>'
            f'<origin xyz="{_numbers(joint.pose.position)}" rpy="{_numbers(angles)}"/>'
            f'<axis xyz="{_numbers(joint.axis)}"/>'
            f'<limit lower="{low!r}" upper="{high!r}" velocity="10" effort="1e6"/></joint>'
        )
    return "\n".join([*lines, "</robot>"])


def _centre(inertia: Array) -> Array:
    return inertia[6:9] / inertia[9] if inertia[9] > 0.0 else np.zeros(3)


def _numbers(values: Array) -> str:
    return " ".join(repr(float(x)) for x in values)


def strangers(count: int, seed: int) -> list[Stranger]:
    return [Stranger(draw(number, seed), seed) for number in range(count)]
