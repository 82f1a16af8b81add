"""A small arm under its controller with known truth: settings in which least squares may be trusted, and may not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.signal import butter, sosfilt

from steelyard._arrays import Array
from steelyard.findings import Finding
from steelyard.model.base_parameters import base_parameters
from steelyard.model.model import Model
from steelyard.model.payload import UNLOADED
from steelyard.model.terms import DEFAULT_TERMS, named_terms
from steelyard.motion.random import random_fourier
from steelyard.regression.observe import stream_rows
from steelyard.regression.problem import Problem
from steelyard.signals.prepare import Preparation, prepare
from steelyard.signals.samples import Samples
from steelyard.simulation.closed_loop import Loop, Reference, simulate
from steelyard.simulation.controllers import Cascade
from steelyard.simulation.experiment import Experiment
from steelyard.simulation.plant import Plant
from testbed.simulated import arm, channels_of, coloured, recording_of

# sign(v) cannot be simulated; the same width in the regressor [rad/s]
WIDTH = 0.2


@dataclass(frozen=True)
class Setting:
    """How a run is driven, disturbed, measured and filtered.

    The loop is a cascade of position_hz and velocity_hz. `disturbance` acts on the joints and `torque_noise` on their
    log alone, both as parts of a joint's rms torque: the first between `band_hz`, the second AR(1) with pole `memory`.
    `position_noise` [rad] is read by controller and log alike. Positions are filtered at cutoff_hz, rows at lowpass_hz.
    """

    position_hz: float = 10.0
    velocity_hz: float = 30.0
    disturbance: float = 0.0
    band_hz: tuple[float, float] = (5.0, 20.0)
    torque_noise: float = 0.03
    memory: float = 0.9
    position_noise: float = 2e-5
    cutoff_hz: float = 40.0
    lowpass_hz: float = 15.0
    duration: float = 12.0
    rate_hz: float = 500.0

    def cascade(self, plant: Plant) -> Cascade:
        return Cascade.tuned(plant, self.position_hz, self.velocity_hz)


NOMINAL = Setting()
# A disturbance where the loop still answers, and filters that let it into the rows.
ENDOGENOUS = Setting(disturbance=0.3, cutoff_hz=150.0, lowpass_hz=60.0)


def model_with_width(joints: int = 3) -> Model:
    return Model(arm(joints), named_terms(DEFAULT_TERMS, sign_width=WIDTH))


def plant_of(model: Model, load: str = UNLOADED) -> Plant:
    """The plant of the nominal values: the truth."""
    theta = model.layout.nominal
    assert theta is not None
    return Plant(model, theta, load)


def truth_of_base(model: Model) -> Array:
    return base_parameters(model).map @ plant_of(model).theta


def reference_of(model: Model, setting: Setting) -> Reference:
    """The same lively motion for every seed of noise."""
    trajectory = random_fourier(model.robot, 5, 0.2, setting.duration, np.random.default_rng(5))
    return Reference(*trajectory.at(np.arange(int(setting.duration * setting.rate_hz)) / setting.rate_hz))


def experiment_of(reference: Reference, setting: Setting, runs: Sequence[str] = ("run",)) -> Experiment:
    return Experiment({name: [reference] for name in runs}, setting.cascade)


def exact_problem(model: Model, setting: Setting = NOMINAL, noise: float = 0.0, seed: int = 0) -> Problem:
    """Simulated runs with their true derivatives, and white noise of so much of the rms torque on the efforts.

    A run without a load, and one of every payload of the model.
    """
    reference, rng = reference_of(model, setting), np.random.default_rng(seed)
    loads = {"run": UNLOADED, **{payload.name: payload.name for payload in model.payloads}}
    runs = []
    for name, load in loads.items():
        plant = plant_of(model, load)
        made = simulate(plant, setting.cascade(plant), reference, setting.rate_hz)
        effort = made.tau + noise * _rms(made.tau) * rng.standard_normal(made.tau.shape)
        runs.append(Samples.from_arrays(name, made.joints, made.rate, made.q, made.v, made.a, effort, load))
    experiment = experiment_of(reference, setting, tuple(loads))
    return Problem(model, runs, lowpass_hz=setting.lowpass_hz, rest=0.0, experiment=experiment)


def logged_problem(model: Model, setting: Setting, seed: int) -> Problem:
    """A run as a log would hold it, prepared like one."""
    rng = np.random.default_rng(seed)
    plant, reference = plant_of(model), reference_of(model, setting)
    size = _rms(plant.torque(reference.q, reference.v, reference.a))
    shape = reference.q.shape
    loop = Loop(
        encoder_noise=setting.position_noise * rng.standard_normal(shape),
        disturbance=setting.disturbance * size * _in_band(rng, shape, setting),
    )
    made = simulate(plant, setting.cascade(plant), reference, setting.rate_hz, loop)
    effort = made.tau_m + setting.torque_noise * size * coloured(rng, shape, setting.memory)
    columns = {"t": made.t}
    for joint, q, tau in zip(made.joints, made.q_m, effort, strict=True):
        columns |= {f"q_{joint}": q, f"tau_{joint}": tau}
    run = prepare(
        recording_of(columns), model.robot, channels_of(model.robot), Preparation(cutoff_hz=setting.cutoff_hz)
    )
    # a command holds until the next sample, so that it leads the measured motion by half a sample
    lead = (-0.5 / setting.rate_hz,) * model.robot.dof
    experiment = experiment_of(reference, setting)
    return Problem(model, [run], lowpass_hz=setting.lowpass_hz, delay=lead, experiment=experiment)


def _rms(x: Array) -> Array:
    return np.sqrt(np.mean(x**2, axis=1, keepdims=True))


def _in_band(rng: np.random.Generator, shape: tuple[int, int], setting: Setting) -> Array:
    """Noise of unit variance between the frequencies of the band."""
    sos = butter(2, setting.band_hz, "bandpass", fs=setting.rate_hz, output="sos")
    lead = int(setting.rate_hz)
    noise = np.asarray(sosfilt(sos, rng.standard_normal((shape[0], shape[1] + lead)), axis=1))[:, lead:]
    return noise / _rms(noise)


def small() -> Model:
    return model_with_width(2)


def the_finding(findings: tuple[Finding, ...], code: str) -> Finding:
    (found,) = [finding for finding in findings if finding.code == code]
    return found


def dense(problem: Problem, run: Samples) -> tuple[Array, Array]:
    """W (n, m, C) and y (n, m) of a run's rows, not compressed."""
    model = problem.model
    batches = list(stream_rows(problem, run))
    w = np.concatenate([batch.w for batch in batches], axis=1)
    full = np.zeros((model.robot.dof, w.shape[1], len(model.layout)))
    for place, (joint, column) in enumerate(model.places):
        full[joint, :, column] = w[place]
    return full, np.concatenate([batch.y[0] for batch in batches], axis=1)
