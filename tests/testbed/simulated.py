"""Small robots with known truth and the logs they would write, for the tests of the data path and the estimators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from steelyard._arrays import Array
from steelyard.estimators import ESTIMATORS
from steelyard.identification.result import Identification
from steelyard.model.model import Model
from steelyard.model.parameters import inertial_vector
from steelyard.model.pose import Pose
from steelyard.model.robot import BASE, Drive, Joint, Limits, Link, Robot
from steelyard.model.terms import DEFAULT_TERMS, Motion, named_terms
from steelyard.motion.random import random_fourier
from steelyard.project.demos.logs import coloured as coloured
from steelyard.signals.channels import ChannelMap, Signal
from steelyard.signals.recording import Recording
from steelyard.signals.samples import Samples

# Estimators that take efforts for torques: any log of `samples_of` will do for them.
TORQUE_ESTIMATORS = tuple(name for name, kind in ESTIMATORS.items() if not kind.needs)
LIMITS = Limits(-2.0, 2.0, 4.0)


# A robot file of two joints with everything nominal.
PENDULUM = """\
name = "pendulum"
convention = "mdh"

[[joint]]
name = "joint1"
alpha = "pi/2"
lower = -2.0
upper = 2.0
velocity = 4.0
inertia = { XX = 0.4, YY = 0.5, ZZ = 0.6, MX = 0.8, MY = -0.3, MZ = 0.2, M = 5.0 }
rotor = 0.4
viscous = 3.0
coulomb = 4.0

[[joint]]
name = "joint2"
alpha = "pi/2"
d = 0.4
lower = -2.0
upper = 2.0
velocity = 4.0
inertia = { XX = 0.1, XY = 0.01, YY = 0.15, ZZ = 0.2, MX = 0.3, MY = -0.1, MZ = 0.1, M = 2.0 }
rotor = 0.2
viscous = 1.5
coulomb = 2.0
"""


def arm(joints: int = 3, name: str = "arm") -> Robot:
    """A chain whose axes turn about z, y, x, z, …: everything it has is well visible in a lively motion."""
    return _assembled(name, [i - 1 for i in range(joints)])


def forked() -> Robot:
    """A trunk that carries an arm of two joints and another of one: its joints may be listed in other orders."""
    return _assembled("forked", [BASE, 0, 1, 0])


def slider() -> Robot:
    """A slide that carries a turning joint."""
    robot = _assembled("slider", [BASE, 0])
    first = replace(robot.joints[0], kind="prismatic", axis=np.array([0.0, 0.0, 1.0]))
    return replace(robot, joints=(first, robot.joints[1]))


def _assembled(name: str, parents: list[int]) -> Robot:
    links, joints = [], []
    for i, parent in enumerate(parents):
        mass = 6.0 / (i + 1)
        inertia = 0.03 * mass * np.diag([1.0, 1.3, 1.6])
        links.append(Link(f"link{i + 1}", inertial_vector(mass, np.array([0.11, -0.07, 0.09]), inertia)))
        pose = Pose(position=np.array([0.1, 0.05, 0.4]) if parent != BASE else np.zeros(3))
        axis = np.eye(3)[(2, 1, 0)[i % 3]]
        drive = Drive(0.4 / (i + 1), 3.0 / (i + 1), 4.0 / (i + 1), 0.3)
        joints.append(Joint(f"joint{i + 1}", "revolute", parent, pose, axis, limits=LIMITS, drive=drive))
    return Robot(name, tuple(links), tuple(joints))


def model_of(robot: Robot) -> Model:
    return Model(robot, named_terms(DEFAULT_TERMS))


def silent(robot: Robot) -> Robot:
    """The robot of a file that gives no inertias."""
    return replace(robot, links=tuple(replace(link, inertia=None) for link in robot.links))


def truth_of(model: Model) -> Array:
    theta = model.layout.nominal
    assert theta is not None
    return theta


def motion_of(robot: Robot, count: int, rate: float, seed: int) -> Motion:
    """A random Fourier motion sampled `count` times at `rate` [Hz], with its exact derivatives."""
    fourier = random_fourier(robot, 5, 0.2, count / rate, np.random.default_rng(seed))
    return Motion(*fourier.at(np.arange(count) / rate))


def samples_of(
    model: Model, count: int = 4000, rate: float = 200.0, seed: int = 1, noise: float = 0.0, name: str = "run"
) -> Samples:
    """Exact derivatives and the torque of the nominal values, with white noise of standard deviation `noise` [N·m]."""
    motion = motion_of(model.robot, count, rate, seed)
    effort = model.torque(*motion[:3], truth_of(model))
    effort = effort + noise * np.random.default_rng(seed + 1000).standard_normal(effort.shape)
    return Samples.from_arrays(name, model.robot.joint_names, rate, *motion[:3], effort)


def late_samples_of(
    model: Model,
    theta: Array,
    late: Sequence[float],
    count: int = 4000,
    rate: float = 200.0,
    seed: int = 1,
    noise: float = 0.0,
    name: str = "run",
) -> Samples:
    """Exact motion of which every joint's effort τ(θ) lags `late` (n,) samples: it is evaluated so much earlier."""
    fourier = random_fourier(model.robot, 5, 0.2, count / rate + 2.0, np.random.default_rng(seed))
    t = 1.0 + np.arange(count) / rate
    effort = np.stack([model.torque(*fourier.at(t - d / rate)[:3], theta)[j] for j, d in enumerate(late)])
    effort = effort + noise * np.random.default_rng(seed + 1000).standard_normal(effort.shape)
    return Samples.from_arrays(name, model.robot.joint_names, rate, *fourier.at(t)[:3], effort)


def log_of(model: Model, count: int = 4000, rate: float = 200.0, seed: int = 1, noise: float = 0.5) -> dict[str, Array]:
    """Columns t, q_JOINT and tau_JOINT of a log in SI units on the joint side."""
    samples = samples_of(model, count, rate, seed, noise)
    (piece,) = samples.open()
    columns = {"t": np.arange(count) / rate}
    columns |= {f"q_{joint}": x for joint, x in zip(samples.joints, piece.q, strict=True)}
    return columns | {f"tau_{joint}": x for joint, x in zip(samples.joints, piece.effort, strict=True)}


def recording_of(columns: Mapping[str, Array], name: str = "run") -> Recording:
    return Recording.from_arrays(name, columns)


def channels_of(robot: Robot) -> ChannelMap:
    """The map of `log_of`, by joint name."""
    linear = {joint.name: joint.is_prismatic for joint in robot.joints}
    return ChannelMap(
        "t",
        Signal({name: f"q_{name}" for name in linear}, {name: "m" if x else "rad" for name, x in linear.items()}),
        Signal({name: f"tau_{name}" for name in linear}, {name: "N" if x else "N.m" for name, x in linear.items()}),
    )


def distance(one: Identification, other: Identification) -> float:
    """Largest difference of base values over max(|θ|, σ), `other` told in the base parameters of `one`.

    The two models may list their joints in different orders; columns are matched by name.
    """
    theta = np.array([other.theta[other.base.layout.index(name)] for name in one.base.layout.names])
    # a cancelled parameter is zero in both and has no σ
    scale = np.where(np.isfinite(one.std), np.maximum(np.abs(one.value), one.std), 1.0)
    return float(np.max(np.abs(one.base.map @ theta - one.value) / scale))
