"""Six robots with two logs each: three real ones, and three simulated ones that are not built in.

Simulated logs come from Pinocchio through evidence/strangers.py: bodies up to 30 % off the file, friction of a law that
no term has, ripple, coloured noise, rounded positions, and measured velocities. Every log is given as columns in SI, so
that one program puts the same faults into all of them.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import msgspec
import numpy as np
import polars as pl
from strangers import Case, Stranger

from steelyard._arrays import Array
from steelyard.estimators import Auto
from steelyard.identification.identify import identify
from steelyard.model.model import Model
from steelyard.project.project import Project, SignalSpec, read_project
from steelyard.regression.problem import Problem

ROOT = Path(__file__).resolve().parent.parent
ACCURACY = ROOT / "examples" / "accuracy"
SEED = 20261119
# Zoo file and friction law of the simulated robots.
SIMULATED = {
    "gen3": ("kinova_gen3/gen3.xml", "stribeck"),
    "lite6": ("ufactory_lite6/lite6.xml", "tanh and root"),
    "z1": ("unitree_z1/z1.xml", "quadratic"),
}
# The runs of real robots that are used.
REAL = {"ur10e": (3, 7), "kr300": (0, 1), "cobot6": (0, 1)}
Columns = dict[str, Array]


@dataclass(frozen=True)
class Six:
    """A robot's project with two runs, and their columns."""

    name: str
    project: Project
    logs: tuple[Columns, ...]

    @property
    def q(self) -> list[str]:
        return names_of(self.project.spec.channels.q)

    @property
    def v(self) -> list[str]:
        return [] if self.project.spec.channels.v is None else names_of(self.project.spec.channels.v)

    @property
    def effort(self) -> list[str]:
        return names_of(self.project.spec.channels.effort)

    @property
    def time(self) -> str:
        return self.project.spec.channels.time.column

    @cached_property
    def fitted(self) -> tuple[Model, Array]:
        """The model with plain terms and the standard set fitted to the clean logs, from which loads are made."""
        with tempfile.TemporaryDirectory() as folder:
            project = self.written(Path(folder), self.logs, self.project).with_spec(terms="plain", estimator=None)
            model = project.model()
            problem = Problem(model, project.samples(model.robot, "identify"), lowpass_hz=5.0)
            theta = identify(problem, Auto()).standard
        assert theta is not None
        return model, theta

    def motion(self, log: Columns) -> tuple[Array, Array, Array]:
        """q, v, a (n, N) of a log in SI, differentiated after a smooth fit."""
        t = log[self.time]
        q = np.array([log[name] for name in self.q])
        step = float(np.median(np.diff(t)))
        width = max(3, int(0.06 / step) | 1)
        kernel = np.hanning(width + 2)[1:-1]
        kernel /= kernel.sum()

        def smooth(x: Array) -> Array:
            return np.array([np.convolve(np.pad(row, width // 2, mode="edge"), kernel, mode="valid") for row in x])

        v = smooth(np.gradient(smooth(q), t, axis=1))
        return q, v, smooth(np.gradient(v, t, axis=1))

    @property
    def gain(self) -> Array:
        """Factors (n,) from an effort column to N·m."""
        gain = self.project.spec.channels.effort.gain
        return np.ones(len(self.q)) if gain is None else np.broadcast_to(np.array(gain, float), (len(self.q),))

    def written(self, folder: Path, logs: tuple[Columns, ...], project: Project) -> Project:
        """The project with these logs instead of its own, written to a folder."""
        runs = []
        for k, (run, log) in enumerate(zip(project.spec.run, logs, strict=True)):
            file = folder / f"run{k + 1}.parquet"
            pl.DataFrame(log).write_parquet(file)
            runs.append(msgspec.structs.replace(run, log=str(file), rows=None))
        return Project(msgspec.structs.replace(project.spec, run=runs), project.path)


def names_of(signal: SignalSpec) -> list[str]:
    return list(signal.columns.values()) if isinstance(signal.columns, dict) else list(signal.columns)


def real(name: str) -> Six:
    project = read_project(ACCURACY / f"{name}.toml").with_spec(estimator=None)
    runs = [project.spec.run[k] for k in REAL[name]]
    project = project.with_spec(run=[msgspec.structs.replace(run, role="identify") for run in runs])
    logs = []
    for run in runs:
        (file,) = project.log_files(run)
        frame = pl.read_parquet(file)
        low, high = run.rows or (1, len(frame))
        logs.append({c: frame[c].to_numpy().astype(float)[low - 1 : high] for c in frame.columns})
    return Six(name, project, tuple(logs))


def simulated(name: str, folder: Path) -> Six:
    """Two motions of 20 s at 250 Hz with measured velocities, and the robot file."""
    source, law = SIMULATED[name]
    number = list(SIMULATED).index(name)
    case = Case(
        number, source, law, 20.0, 250.0, False, 0.8, 0.6, 2e-5, 18.0, 0.1, 0.005, 0.01, 0.5, 0.0, 0.15, True
    )  # fmt: skip
    stranger = Stranger(case, SEED)
    place = folder / name
    place.mkdir()
    project = read_project(stranger.write(place))
    joints = stranger.nominal.joint_names
    logs = []
    for which in (0, 1):
        log, rng = stranger.log(which), np.random.default_rng([SEED, number, which])
        v = np.gradient(log.q, log.t, axis=1)
        v = np.array([np.convolve(np.pad(x, 4, mode="edge"), np.ones(9) / 9.0, mode="valid") for x in v])
        v = v + 1e-3 * np.abs(v).max(axis=1, keepdims=True) * rng.normal(size=v.shape)
        columns = {"t": log.t}
        for kind, signal in (("q", log.q), ("dq", v), ("tau", log.effort)):
            columns |= {f"{kind}_{joint}": x for joint, x in zip(joints, signal, strict=True)}
        logs.append(columns)
    channels = project.spec.channels
    speed = SignalSpec([f"dq_{j}" for j in joints], unit="rad/s")
    runs = [msgspec.structs.replace(run, role="identify") for run in project.spec.run]
    project = project.with_spec(channels=msgspec.structs.replace(channels, v=speed), run=runs)
    return Six(name, project, tuple(logs))


def six(name: str, folder: Path) -> Six:
    return simulated(name, folder) if name in SIMULATED else real(name)


def with_payload(model: Model, mass: float, centre: Array) -> Array:
    """Standard parameters (C,) of a compact body on the last link."""
    x, y, z = centre
    point = np.array([y * y + z * z, -x * y, -x * z, x * x + z * z, -y * z, x * x + y * y, x, y, z, 1.0])
    out = np.zeros(len(model.layout))
    out[model.inertial_index[-1]] = mass * point
    return out


def rigid(model: Model, theta: Array, rotors: bool = True) -> Array:
    """The parameters of the bodies alone (and of the rotors)."""
    kept = [c.kind == "link" or (rotors and c.symbol == "Ia") for c in model.layout.columns]
    return np.where(kept, theta, 0.0)
