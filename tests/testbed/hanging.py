"""Logs of a quadruped that hangs and swings with its legs in the air, as a logger with an IMU and motion capture has
them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.spatial.transform import Rotation

from steelyard._arrays import Array
from steelyard.model.model import Model
from steelyard.model.robot import Robot
from steelyard.model.terms import Coulomb, Viscous
from steelyard.signals.base_channels import BaseChannels, BaseSignal
from steelyard.signals.channels import ChannelMap, Signal

RATE = 250.0
# Where the IMU is on the base: the frame `imu_link` of the file.
ARM = np.array([0.05, 0.0, 0.02])
NOISE = 0.02


class Hanging(NamedTuple):
    """A log, the motion (9, N) of its base and the parameters behind its efforts."""

    log: dict[str, Array]
    base: Array
    theta: Array


def truth_of(model: Model) -> Array:
    nominal = model.layout.nominal
    assert nominal is not None
    friction = {"Fv": 0.05, "Fc": 0.1}
    return np.array([friction.get(c.symbol, x) for c, x in zip(model.layout.columns, nominal, strict=True)])


def hanging(robot: Robot, seconds: float, seed: int) -> Hanging:
    """Sums of sines of the joints, of the base's attitude Rz Ry Rx and of its place. The path is differentiated by
    hand, so that q, q̇ and q̈ are exact; efforts have 2 % of white noise, and the IMU the noise of a cheap one."""
    rng = np.random.default_rng(seed)
    t = np.arange(int(seconds * RATE)) / RATE
    q, v, a = _sines(rng, t, robot.dof, 0.8, 1.6)
    (x, y, _), (dx, dy, dz), (ddx, ddy, ddz) = angles = _sines(rng, t, 3, 0.4, 0.8)
    place, _, acceleration = _sines(rng, t, 3, 0.1, 0.8)
    sx, cx, sy, cy = np.sin(x), np.cos(x), np.sin(y), np.cos(y)
    rate = np.array([dx - sy * dz, cx * dy + sx * cy * dz, -sx * dy + cx * cy * dz])
    turn = np.array(
        [
            ddx - cy * dy * dz - sy * ddz,
            -sx * dx * dy + cx * ddy + cx * cy * dx * dz - sx * sy * dy * dz + sx * cy * ddz,
            -cx * dx * dy - sx * ddy - sx * cy * dx * dz - cx * sy * dy * dz + cx * cy * ddz,
        ]
    )
    attitude = Rotation.from_euler("ZYX", angles[0][::-1].T)
    force = attitude.inv().apply((acceleration - robot.gravity[:, None]).T).T
    base = np.concatenate([force, rate, turn])
    model = Model(robot, [Viscous(), Coulomb()])
    theta = truth_of(model)
    tau = model.torque(q, v, a, theta, base=base)
    tau = tau + NOISE * tau.std(axis=1, keepdims=True) * rng.standard_normal(tau.shape)
    arm = np.tile(ARM[:, None], (1, len(t)))
    felt = force + np.cross(turn, arm, axis=0) + np.cross(rate, np.cross(rate, arm, axis=0), axis=0)
    signals = {
        "q": q + 1e-6 * rng.standard_normal(q.shape),
        "tau": tau,
        "gyro": rate + 2e-3 * rng.standard_normal(rate.shape),
        "acc": felt + 2e-2 * rng.standard_normal(felt.shape),
        "quat": attitude.as_quat().T * rng.choice([-1.0, 1.0], len(t)),  # x, y, z, w; q and -q are one rotation
        "place": place,
    }
    log = {f"{name}{k}": row for name, rows in signals.items() for k, row in enumerate(rows)}
    return Hanging({"t": t} | log, base, theta)


def _sines(rng: np.random.Generator, t: Array, rows: int, size: float, top_hz: float) -> tuple[Array, Array, Array]:
    w = 2.0 * np.pi * rng.uniform(0.1, top_hz, (rows, 6))[:, :, None]
    angle = w * t + rng.uniform(0.0, 2.0 * np.pi, (rows, 6))[:, :, None]
    share = size / 3.0 * rng.uniform(0.5, 1.0, (rows, 6))[:, :, None]
    parts = share * np.sin(angle), share * w * np.cos(angle), -share * w**2 * np.sin(angle)
    return parts[0].sum(axis=1), parts[1].sum(axis=1), parts[2].sum(axis=1)


# --- The channel map of such a log ------------------------------------------------------------------------------------


def columns(name: str, count: int) -> tuple[str, ...]:
    return tuple(f"{name}{k}" for k in range(count))


SENSOR = BaseChannels(BaseSignal(columns("gyro", 3), "rad/s"), BaseSignal(columns("acc", 3), "m/s2"), link="imu_link")
POSE = BaseChannels(orientation=BaseSignal(columns("quat", 4), "xyzw"), position=BaseSignal(columns("place", 3), "m"))


def channels(base: BaseChannels | None) -> ChannelMap:
    return ChannelMap("t", Signal(columns("q", 12), "rad"), Signal(columns("tau", 12), "N.m"), base=base)
