"""References: commanded motion from logs, controllers and loops from project files, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import msgspec
import numpy as np
import pytest

from steelyard._arrays import Array
from steelyard.errors import DataError, ProjectError, SteelyardError
from steelyard.estimators import ESTIMATORS
from steelyard.estimators.simulated.didim import DIDIM
from steelyard.estimators.simulated.iv import IV
from steelyard.formats.robots import read_robot
from steelyard.model.base_parameters import base_parameters
from steelyard.model.model import Model
from steelyard.model.terms import DEFAULT_TERMS, named_terms
from steelyard.motion.random import random_fourier
from steelyard.project.automatic import resolve_auto
from steelyard.project.checks import check
from steelyard.project.project import Project, ProjectSpec, read_project
from steelyard.project.reopen import reopen
from steelyard.project.result_file import read_document
from steelyard.project.run import run
from steelyard.signals.channels import ChannelMap, Signal, resolve
from steelyard.signals.prepare import Preparation, prepare
from steelyard.signals.samples import Samples
from steelyard.simulation.closed_loop import Reference, simulate
from steelyard.simulation.controllers import PD, Cascade
from steelyard.simulation.experiment import INTEGRATED, MEASURED, experiment_of, measured_references, with_runs
from steelyard.simulation.plant import Plant
from testbed.pendulum import csv
from testbed.simulated import PENDULUM as ROBOT
from testbed.simulated import arm, channels_of, recording_of

RATE, SECONDS = 500.0, 12.0
CASCADE = {"kind": "cascade", "position_hz": 8.0, "velocity_hz": 25.0}
PROJECT = """\
robot = "pendulum.toml"
terms = "plain"
sign_width = 0.2
estimator = "iv"

[prepare]
cutoff_hz = 40.0
lowpass_hz = 15.0
decimate = 12
derivatives = "differences"
delay = "none"

[channels]
time = { column = "t", unit = "s" }
q = { columns = ["q_joint1", "q_joint2"], unit = "rad" }
effort = { columns = ["tau_joint1", "tau_joint2"], unit = "N.m" }
reference = { columns = ["qr_joint1", "qr_joint2"], unit = "rad" }
reference_v = { columns = ["vr_joint1", "vr_joint2"], unit = "rad/s" }

[controller]
kind = "cascade"
position_hz = 8.0
velocity_hz = 25.0

[[run]]
log = "log.csv"
"""


@pytest.fixture(autouse=True)
def simulating(monkeypatch: pytest.MonkeyPatch) -> None:
    """The estimators that simulate, by their names."""
    for kind in (IV, DIDIM):
        monkeypatch.setitem(ESTIMATORS, kind.name, kind)


@cache
def driven(folder: Path) -> tuple[Model, dict[str, Array]]:
    """A robot that a cascade drives by a Fourier motion, and its log with what was commanded."""
    (folder / "pendulum.toml").write_text(ROBOT, "utf-8")
    model = Model(read_robot(folder / "pendulum.toml"), named_terms(DEFAULT_TERMS, sign_width=0.2))
    nominal = model.layout.nominal
    assert nominal is not None
    plant = Plant(model, nominal)
    path = random_fourier(model.robot, 5, 0.2, SECONDS, np.random.default_rng(3))
    wanted = Reference(*path.at(np.arange(int(SECONDS * RATE)) / RATE))
    made = simulate(plant, Cascade.tuned(plant, 8.0, 25.0, wanted.q), wanted, RATE)
    rng = np.random.default_rng(4)
    log = {"t": made.t}
    for j, name in enumerate(model.robot.joint_names):
        log |= {f"q_{name}": made.q[j], f"tau_{name}": made.tau[j] + 0.2 * rng.standard_normal(len(made.t))}
        log |= {f"qr_{name}": wanted.q[j], f"vr_{name}": wanted.v[j]}
    return model, log


@pytest.fixture(scope="module")
def material(tmp_path_factory: pytest.TempPathFactory) -> tuple[Model, dict[str, Array]]:
    return driven(tmp_path_factory.mktemp("driven"))


@pytest.fixture
def project(tmp_path: Path, material: tuple[Model, dict[str, Array]]) -> Path:
    (tmp_path / "pendulum.toml").write_text(ROBOT, "utf-8")
    (tmp_path / "log.csv").write_text(csv(material[1]), "utf-8")
    (tmp_path / "project.toml").write_text(PROJECT, "utf-8")
    return tmp_path / "project.toml"


def edited(project: Path, *swaps: tuple[str, str]) -> Path:
    text = project.read_text("utf-8")
    for old, new in swaps:
        assert old in text
        text = text.replace(old, new)
    project.write_text(text, "utf-8")
    return project


def problem_of(project: Path):
    described = read_project(project)
    model = described.model()
    return described.problem(model, described.samples(model.robot, "identify"))


# --- From logs --------------------------------------------------------------------------------------------------------


def log_with_reference(seed: int = 1, jitter: float = 0.0) -> tuple[dict[str, Array], Array, Array]:
    """A log of two joints that follow what they are commanded, 5 ms behind."""
    robot, rng = arm(2), np.random.default_rng(seed)
    t = np.arange(3000) / 250.0 + jitter * rng.uniform(-1.0, 1.0, 3000) / 250.0
    path = random_fourier(robot, 4, 0.15, 20.0, rng)
    q, v, _ = path.at(t + 1.0)
    late = path.at(t + 1.0 - 0.005)[0]
    log = {"t": t}
    for j, name in enumerate(robot.joint_names):
        log |= {f"q_{name}": late[j], f"tau_{name}": rng.standard_normal(len(t))}
        log |= {f"qr_{name}": q[j], f"vr_{name}": v[j]}
    return log, q, v


def channels(**changes: Signal | None) -> ChannelMap:
    names = arm(2).joint_names
    given = {
        "reference": Signal([f"qr_{n}" for n in names], "rad"),
        "reference_v": Signal([f"vr_{n}" for n in names], "rad/s"),
    }
    return replace(channels_of(arm(2)), **(given | changes))


def prepared(log: dict[str, Array], table: ChannelMap) -> Samples:
    return prepare(recording_of(log), arm(2), table, Preparation(cutoff_hz=20.0))


@pytest.mark.parametrize("with_v", [True, False])
def test_a_reference_stands_on_the_samples_as_it_was_commanded(with_v: bool) -> None:
    log, q, v = log_with_reference()
    samples = prepared(log, channels() if with_v else channels(reference_v=None))
    assert samples.reference is not None
    (found,) = samples.reference()
    assert np.array_equal(found.q, q)  # exact signals are not filtered
    assert np.allclose(found.v[:, 5:-5], v[:, 5:-5], atol=1e-6)
    assert np.allclose(found.a[:, 5:-5], np.gradient(v, 1 / 250.0, axis=1)[:, 5:-5], atol=0.05)


def test_samples_are_the_same_with_and_without_a_reference() -> None:
    log, _, _ = log_with_reference()
    log["q_joint1"], log["q_joint2"] = np.repeat(log["q_joint1"][::3], 3), np.repeat(log["q_joint2"][::3], 3)
    log["tau_joint1"], log["tau_joint2"] = np.repeat(log["tau_joint1"][::3], 3), np.repeat(log["tau_joint2"][::3], 3)
    # the measured rows are stale two times of three while the reference goes on
    with_it, without = prepared(log, channels()), prepared(log, channels(reference=None, reference_v=None))
    assert with_it.stretches == without.stretches
    assert without.reference is None
    assert with_it.reference is not None
    for one, other in zip(with_it.open(), without.open(), strict=True):
        assert np.array_equal(one.q, other.q)
    (found,) = with_it.reference()
    assert found.q.shape == (2, with_it.count)
    assert np.allclose(found.q, np.stack([log["qr_joint1"], log["qr_joint2"]])[:, ::3], atol=1e-3)


def test_a_reference_is_cut_and_resampled_like_the_motion() -> None:
    log, _, _ = log_with_reference(jitter=0.3)
    keep = (log["t"] < 5.0) | (log["t"] > 6.0)
    cut = {name: x[keep] for name, x in log.items()}
    samples = prepared(cut, channels(reference_v=None))
    assert samples.reference is not None
    found = samples.reference()
    assert [one.q.shape[1] for one in found] == [stretch.length for stretch in samples.stretches]
    assert len(found) == 2
    # the same draws as the log's: jitter first
    rng = np.random.default_rng(1)
    rng.uniform(-1.0, 1.0, 3000)
    path = random_fourier(arm(2), 4, 0.15, 20.0, rng)
    for one, stretch in zip(found, samples.stretches, strict=True):
        t = stretch.start + np.arange(stretch.length) / samples.rate
        inside = slice(60, -60)
        q, v, _ = path.at(t + 1.0)
        assert np.allclose(one.q[:, inside], q[:, inside], atol=2e-4)
        assert np.allclose(one.v[:, inside], v[:, inside], atol=2e-2)


def test_velocities_alone_are_integrated_from_the_measured_start() -> None:
    log, q, _ = log_with_reference()
    samples = prepared(log, channels(reference=None))
    assert samples.reference is not None
    (found,) = samples.reference()
    start = np.array([log["q_joint1"][0], log["q_joint2"][0]])
    assert np.allclose(found.q - found.q[:, :1], q - q[:, :1], atol=1e-4)
    assert np.allclose(found.q[:, 0], start)
    assert any("integrated" in line for line in samples.history)


def test_a_reference_of_the_motor_side_becomes_the_joints_own() -> None:
    log, q, _ = log_with_reference()
    log |= {f"m_{n}": 100.0 * log[f"qr_{n}"] for n in arm(2).joint_names}
    signal = Signal([f"m_{n}" for n in arm(2).joint_names], "rad", "motor", ratio=100.0)
    samples = prepared(log, channels(reference=signal, reference_v=None))
    assert samples.reference is not None
    assert np.allclose(samples.reference()[0].q, q, atol=1e-12)


def test_references_take_no_gain_and_no_column_twice() -> None:
    names = [f"qr_{n}" for n in arm(2).joint_names]
    with pytest.raises(DataError, match="Channel 'reference': 'gain' belongs to the effort"):
        resolve(channels(reference=Signal(names, "rad", gain=2.0)), arm(2))
    with pytest.raises(DataError, match="Channel 'reference_v': 'offset' applies to positions only"):
        resolve(channels(reference_v=Signal(names, "rad/s", offset=1.0)), arm(2))
    with pytest.raises(DataError, match="qr_joint1, qr_joint2 is used by more than one signal"):
        resolve(channels(reference_v=Signal(names, "rad/s")), arm(2))


def test_a_hole_in_a_reference_is_named() -> None:
    log, _, _ = log_with_reference()
    log["qr_joint2"] = np.where(np.arange(3000) == 41, np.nan, log["qr_joint2"])
    samples = prepared(log, channels())
    assert samples.reference is not None
    with pytest.raises(DataError, match=r"'qr_joint2' is NaN or empty in row 42.*reference = \"measured\""):
        samples.reference()


def test_a_reference_of_another_zero_is_refused() -> None:
    log, _, _ = log_with_reference()
    table = channels(reference=Signal([f"qr_{n}" for n in arm(2).joint_names], "rad", offset=[0.0, 1.57]))
    model = Model(arm(2), named_terms(DEFAULT_TERMS, sign_width=0.2))
    experiment = experiment_of(model, [prepared(log, table)], CASCADE)
    with pytest.raises(DataError, match=r"reference of joint2 differs by 1.57 rad .* offset of \[channels\] reference"):
        experiment.references["run"]


# --- Experiments ------------------------------------------------------------------------------------------------------


def test_stated_gains_are_the_same_for_every_plant_and_bandwidths_are_kept() -> None:
    log, _, _ = log_with_reference()
    model = Model(arm(2), named_terms(DEFAULT_TERMS, sign_width=0.2))
    runs = [prepared(log, channels())]
    nominal = model.layout.nominal
    assert nominal is not None
    light, heavy = Plant(model, nominal), Plant(model, 2.0 * nominal)
    stated = experiment_of(model, runs, {"kind": "pd", "kp": [500.0, 200.0], "kd": 30.0})
    tuned = experiment_of(model, runs, CASCADE)
    one, other = stated.control(light), stated.control(heavy)
    assert isinstance(one, PD)
    assert isinstance(other, PD)
    assert np.array_equal(one.kp, other.kp)
    first, second = tuned.control(light), tuned.control(heavy)
    assert isinstance(first, Cascade)
    assert isinstance(second, Cascade)
    assert np.allclose(second.kv, 2.0 * np.asarray(first.kv))
    assert np.array_equal(first.kp, second.kp)
    (reference,) = tuned.references["run"]
    over_all = Cascade.tuned(light, 8.0, 25.0, reference.q)
    assert np.allclose(first.kv, over_all.kv, rtol=2e-3)
    assert not np.allclose(first.kv, Cascade.tuned(light, 8.0, 25.0).kv, rtol=0.01)


def test_the_measured_motion_may_stand_for_the_reference() -> None:
    log, _, _ = log_with_reference()
    model = Model(arm(2), named_terms(DEFAULT_TERMS, sign_width=0.2))
    run_ = prepared(log, channels(reference=None, reference_v=None))
    with pytest.raises(DataError, match=r"Run 'run' has no commanded motion: set reference in \[channels\]"):
        experiment_of(model, [run_], CASCADE)
    experiment = experiment_of(model, [run_], CASCADE, reference="measured")
    assert experiment.approximate == MEASURED
    (reference,) = experiment.references["run"]
    (piece,) = run_.open()
    assert np.array_equal(reference.q, piece.q)
    assert np.array_equal(reference.a, piece.a)
    other = replace(run_, name="other")
    assert list(with_runs(experiment, [other]).references) == ["other"]
    assert len(measured_references([run_, other])) == 2


# --- Project files ----------------------------------------------------------------------------------------------------


def test_a_project_drives_its_runs_and_recovers_the_truth(
    project: Path, material: tuple[Model, dict[str, Array]]
) -> None:
    done = run(read_project(project))
    model, _ = material
    nominal = model.layout.nominal
    assert nominal is not None
    truth = base_parameters(model).map @ nominal
    result = done.identification
    assert result.estimator == "iv"
    assert any(one.code == "iterations" for one in result.findings)
    assert not any(one.code == "approximate-reference" for one in result.findings)
    # torques held for 2 ms act a millisecond late
    assert np.all(np.abs(result.value - truth) < 5.0 * result.std + 0.005)
    kept = msgspec.convert(read_document(done.folder)["project"], ProjectSpec)
    assert kept.controller == read_project(project).spec.controller
    assert kept.channels == read_project(project).spec.channels
    reopened = reopen(done.folder, [project.parent / "log.csv"])
    problem, _ = reopened.problem()
    assert problem.experiment is not None
    assert problem.experiment.approximate == ""


@pytest.mark.slow
def test_a_measured_reference_is_labelled(project: Path) -> None:
    edited(project, ("[controller]", '[experiment]\nreference = "measured"\n\n[controller]'))
    explicit = resolve_auto(read_project(project))
    (told,) = (one for one in explicit.findings if one.code == "approximate-reference")
    assert told.severity == "warning"
    assert "measured" in told.message
    assert explicit.project.spec.experiment is not None
    wls = resolve_auto(read_project(edited(project, ('"iv"', '"wls"'))))
    assert not any(one.code == "approximate-reference" for one in wls.findings)


def test_commanded_velocities_alone_are_labelled(project: Path) -> None:
    edited(project, ('reference = { columns = ["qr_joint1", "qr_joint2"], unit = "rad" }\n', ""))
    experiment = problem_of(project).experiment
    assert experiment is not None
    assert experiment.approximate == INTEGRATED


def test_an_estimator_that_does_not_simulate_needs_no_reference(project: Path) -> None:
    assert problem_of(edited(project, ('"iv"', '"wls"'))).experiment is not None
    text = project.read_text("utf-8")
    for line in text.splitlines():
        if line.startswith("reference"):
            text = text.replace(line + "\n", "")
    project.write_text(text, "utf-8")
    assert problem_of(project).experiment is None


def test_a_loop_is_read_key_by_key(project: Path) -> None:
    table = (
        '[loop]\nside = "motor"\nencoder_ratio = { joint1 = 0.9, joint2 = 1.0 }\nencoder_offset = 0.1\n'
        'torque_limit = [50.0, 20.0]\ndelay_s = 0.004\nvelocity = "true"\nvelocity_filter_hz = 100.0\n\n[[run]]'
    )
    experiment = problem_of(edited(project, ("[[run]]", table))).experiment
    assert experiment is not None
    loop = experiment.loop
    assert loop.side == "motor"
    assert loop.encoder_ratio == [0.9, 1.0]
    assert loop.torque_limit == [50.0, 20.0]
    assert (loop.delay_s, loop.velocity, loop.velocity_filter_hz) == (0.004, "true", 100.0)
    assert loop.torque_ratio == 1.0


MISTAKES = {
    "no controller": ((PROJECT[PROJECT.index("[controller]") : PROJECT.index("[[run]]")], ""), "add a [controller]"),
    "no reference": (
        (PROJECT[PROJECT.index("reference =") : PROJECT.index("[controller]")], "\n"),
        'reference = "measured" in [experiment]',
    ),
    "kind": (('kind = "cascade"', 'kind = "cascad"'), "Did you mean 'cascade'?"),
    "key of the controller": (("position_hz", "positon_hz"), "Did you mean 'position_hz'?"),
    "key of another kind": (("velocity_hz = 25.0", "damping = 0.7"), "Controller 'cascade': Unknown key 'damping'"),
    "gains and bandwidths": (("velocity_hz = 25.0", "kp = 3.0"), "give gains"),
    "bandwidth": (("velocity_hz = 25.0", "velocity_hz = -2.0"), "velocity_hz must be positive"),
    "joint": (("velocity_hz = 25.0", "velocity_hz = { joint7 = 2.0 }"), "Unknown joint 'joint7'"),
    "experiment": (("[controller]", '[experiment]\nreference = "wanted"\n[controller]'), "Valid: commanded, measured"),
    "key of the loop": (("[[run]]", "[loop]\ndelay = 0.1\n[[run]]"), "Unknown key in [loop] 'delay'"),
    "side": (("[[run]]", '[loop]\nside = "link"\n[[run]]'), "[loop]: Unknown side 'link'"),
    "delay": (("[[run]]", "[loop]\ndelay_s = 0.0003\n[[run]]"), "not a whole number of samples"),
    "ratio": (("[[run]]", "[loop]\nencoder_ratio = 0.0\n[[run]]"), "encoder_ratio must be finite and not zero"),
    "lengths": (("[[run]]", "[loop]\ntorque_limit = [1.0, 2.0, 3.0]\n[[run]]"), "one number, or 2"),
    "missing joint": (("[[run]]", "[loop]\ntorque_limit = { joint1 = 1.0 }\n[[run]]"), "no value for joint2"),
    "sign": (("sign_width = 0.2", "sign_width = 0.0"), "sign_width = 0.2"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_one_sentence_before_any_fit(name: str, project: Path) -> None:
    swap, said = MISTAKES[name]
    with pytest.raises(SteelyardError) as caught:
        problem_of(edited(project, swap))
    assert said in str(caught.value)


def test_a_loop_without_a_controller_says_so(project: Path) -> None:
    text = PROJECT[PROJECT.index("[controller]") : PROJECT.index("[[run]]")]
    with pytest.raises(ProjectError, match=r"\[loop\] needs a \[controller\]"):
        read_project(edited(project, (text, "[loop]\ndelay_s = 0.0\n\n")))


@pytest.mark.slow
def test_a_project_that_simulates_can_be_checked(project: Path) -> None:
    found = check(read_project(project))
    assert not [one for one in found.findings if one.severity == "error"]


def test_a_rehearsal_reads_no_log(project: Path) -> None:
    described: Project = read_project(project)
    model = described.model()
    runs = described.samples(model.robot, "identify")
    closed = [replace(one, reference=lambda: pytest.fail("the log was read")) for one in runs]
    assert described.problem(model, closed).experiment is not None
