"""Logs of simulated robots: positions and efforts in SI units on the joint side, with a map of their columns."""

from __future__ import annotations

import numpy as np
from scipy.signal import lfilter

from steelyard._arrays import Array
from steelyard.model.robot import Robot
from steelyard.signals.channels import ChannelMap, Signal
from steelyard.signals.recording import Recording

# Samples before the first one that is used, so that coloured noise is stationary from the start.
_BEFORE = 200


def plain_log(name: str, robot: Robot, t: Array, q: Array, tau: Array) -> tuple[Recording, Robot, ChannelMap]:
    """The arguments of `prepare` for columns t (N,), q_AXIS and tau_AXIS, from q and tau (n, N)."""
    axes = robot.axis_names
    columns = {"t": t}
    columns |= {f"q_{axis}": x for axis, x in zip(axes, q, strict=True)}
    columns |= {f"tau_{axis}": x for axis, x in zip(axes, tau, strict=True)}
    linear = {joint.name: joint.is_prismatic for joint in robot.axes}
    channels = ChannelMap(
        "t",
        Signal({axis: f"q_{axis}" for axis in axes}, {axis: "m" if x else "rad" for axis, x in linear.items()}),
        Signal({axis: f"tau_{axis}" for axis in axes}, {axis: "N" if x else "N.m" for axis, x in linear.items()}),
    )
    return Recording.from_arrays(name, columns), robot, channels


def coloured(rng: np.random.Generator, shape: tuple[int, int], memory: float) -> Array:
    """AR(1) noise of unit variance along the last axis: e_k = memory · e_{k−1} + white."""
    white = rng.standard_normal((shape[0], shape[1] + _BEFORE))
    return np.sqrt(1.0 - memory**2) * np.asarray(lfilter([1.0], [1.0, -memory], white, axis=1))[:, _BEFORE:]
