"""Payloads: weighed on a robot that is known, named in project files, and told by the command."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
from scipy.stats import t as student

from steelyard._arrays import Array
from steelyard.errors import DataError, EstimationError, ModelError, ProjectError
from steelyard.estimators import WLS, Auto, Essential, Estimator
from steelyard.estimators.gains.gains import Gains
from steelyard.formats.robots import read_robot
from steelyard.formats.robots.assembly import pose_from_rpy
from steelyard.identification.identify import identify
from steelyard.identification.result import Identification
from steelyard.identification.weighing import PayloadResult, weigh_payload
from steelyard.model.model import Model
from steelyard.model.parameters import INERTIAL, inertial_vector
from steelyard.model.payload import Payload
from steelyard.model.terms import DEFAULT_TERMS, named_terms
from steelyard.physical.consistency import com_inertia, second_moments
from steelyard.project.project import ProjectSpec, read_project
from steelyard.project.reopen import reopen
from steelyard.project.result_file import read_result
from steelyard.project.run import run
from steelyard.regression.problem import Problem
from steelyard.signals.channels import Drives
from steelyard.signals.samples import Samples
from testbed.command import Run
from testbed.simulated import PENDULUM, arm, coloured, motion_of, samples_of, silent, truth_of

MODEL = Model(arm(4), named_terms(DEFAULT_TERMS))
# A 3 kg body beside and above its frame.
BODY = inertial_vector(3.0, np.array([0.04, -0.02, 0.09]), np.diag([0.02, 0.025, 0.015]))
TILTED = pose_from_rpy((0.05, -0.1, 0.2), (0.3, -0.4, 1.1))


def loaded_samples(
    model: Model, payload: Payload, body: Array = BODY, noise: Array | float = 0.0, seed: int = 50, count: int = 3000
) -> Samples:
    """A run of the nominal robot with the body on the payload's link, and noise (n, N) or of so many N.m."""
    carrier = Model(model.robot, model.terms, payloads=[payload])
    theta = np.append(truth_of(model), body)
    motion = motion_of(model.robot, count, 200.0, seed)
    effort = carrier.torque(*motion[:3], theta, load=payload.name)
    if isinstance(noise, float):
        noise = noise * np.random.default_rng(seed + 1000).standard_normal(effort.shape)
    return Samples.from_arrays("loaded", model.robot.joint_names, 200.0, *motion[:3], effort + noise)


def identified(model: Model = MODEL, noise: float = 0.0, estimator: Estimator | None = None) -> Identification:
    return identify(Problem(model, [samples_of(model, 3000, noise=noise)]), estimator or WLS())


def weighed(result: Identification, samples: Samples, payload: Payload, **options) -> PayloadResult:
    return weigh_payload(result, Problem(MODEL, [samples]), payload, **options)


@pytest.fixture(scope="module")
def exact() -> Identification:
    return identified()


@pytest.fixture(scope="module")
def noisy() -> Identification:
    return identified(noise=0.5)


# --- The numbers ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "payload",
    [Payload("box"), Payload("box", "link3"), Payload("box", "link4", TILTED)],
    ids=["last link", "other link", "tilted"],
)
def test_exact_data_give_the_body(exact: Identification, payload: Payload) -> None:
    found = weighed(exact, loaded_samples(MODEL, payload), payload)
    np.testing.assert_allclose(found.value, BODY, atol=1e-7)
    told = [one.value for one in found.body]
    expected = [3.0, 0.04, -0.02, 0.09, 0.02, 0.0, 0.0, 0.025, 0.0, 0.015]
    np.testing.assert_allclose(told, expected, atol=1e-7)
    assert [one.name for one in found.parameters] == list(INERTIAL)
    assert found.physical is not None
    assert found.physical.verdict == "consistent"
    assert found.unphysical_by == 0.0
    assert found.relative_error.total < 1e-7 < 0.05 < found.unloaded.total
    assert found.payload.link == (payload.link or "link4")
    assert found.findings == ()


def test_what_is_known_stays(noisy: Identification) -> None:
    payload = Payload("box", known={"M": 3.0, "MX": 0.12})
    found = weighed(noisy, loaded_samples(MODEL, payload, noise=0.5), payload)
    by_name = {one.name: one for one in found.parameters}
    assert (by_name["M"].value, by_name["M"].std) == (3.0, 0.0)
    assert by_name["MX"].value == 0.12
    open_ = {
        one.name: one for one in weighed(noisy, loaded_samples(MODEL, payload, noise=0.5), Payload("box")).parameters
    }
    # knowing the mass sharpens the rest
    assert by_name["MZ"].std < open_["MZ"].std
    assert abs(by_name["MZ"].value - 0.27) < 4.0 * by_name["MZ"].std


def test_a_stated_deviation_goes_into_the_error_bars(noisy: Identification) -> None:
    run_ = loaded_samples(MODEL, Payload("box"), noise=0.5)
    sure = weighed(noisy, run_, Payload("box", known={"M": 3.0}))
    unsure = weighed(noisy, run_, Payload("box", known={"M": 3.0}, std={"M": 0.2}))
    mass, moment = unsure.parameters[9], unsure.parameters[8]
    assert (mass.std_log, mass.std_robot) == (0.0, pytest.approx(0.2))
    # how far MZ moves with the mass that is stated, by the definition
    moved = weighed(noisy, run_, Payload("box", known={"M": 3.001})).value[8] - sure.value[8]
    expected = np.hypot(sure.parameters[8].std_robot, 0.2 * moved / 0.001)
    assert moment.std_robot == pytest.approx(expected, rel=1e-3)
    # and with it the centre of mass: MZ and M move together
    assert unsure.body[3].std_robot > sure.body[3].std_robot


@pytest.mark.slow
def test_the_body_s_deviations_are_those_of_its_parameters(noisy: Identification) -> None:
    payload = Payload("box")
    found = weighed(noisy, loaded_samples(MODEL, payload, noise=2.0), payload)
    rng = np.random.default_rng(3)
    # far from the origin everything depends on everything; small enough for the delta method
    far = inertial_vector(3.0, np.array([0.4, -0.2, 0.5]), np.diag([0.02, 0.025, 0.015]))
    root = 1e-4 * rng.standard_normal((10, 10))
    told = replace(found, value=far, covariance_log=root @ root.T, covariance_robot=0.5 * root @ root.T)
    draws = far + np.sqrt(1.5) * rng.standard_normal((20000, 10)) @ root.T
    spread = np.array([np.concatenate([[x[9]], x[6:9] / x[9], com_inertia(x)[np.triu_indices(3)]]) for x in draws])
    np.testing.assert_allclose([one.std for one in told.body], np.std(spread, axis=0), rtol=0.03)
    np.testing.assert_allclose([one.value for one in told.body], np.mean(spread, axis=0), atol=1e-4)
    # how far from a body that can exist, in its own σ
    unphysical = replace(told, value=far - np.array([0.03, 0, 0, 0, 0, 0, 0, 0, 0, 0]))
    smallest = [np.linalg.eigvalsh(second_moments(com_inertia(x)))[0] for x in draws + unphysical.value - far]
    assert unphysical.unphysical_by == pytest.approx(-np.mean(smallest) / np.std(smallest), rel=0.03)
    assert replace(told, value=-far).unphysical_by == pytest.approx(3.0 / told.body[0].std)


@pytest.mark.slow
@pytest.mark.parametrize("free", [(), ("offset",)], ids=["held", "offset"])
def test_the_robot_s_doubt_goes_through_the_equations(free: tuple[str, ...]) -> None:
    """σ of the robot against its definition: every parameter and gain moved along a root of their covariance."""
    result, other = gained()
    assert result.gains is not None
    found = weighed(result, other, Payload("second"), free=free)
    joints, step = len(result.gains.joints), 1e-3
    values, vectors = np.linalg.eigh(result.gains.covariance)
    total = np.zeros(10)
    for size, direction in zip(np.sqrt(np.maximum(values, 0.0)), vectors.T, strict=True):
        ends = []
        for sign in (step, -step):
            move = sign * size * direction
            gains = replace(result.gains, factor=result.gains.factor + move[:joints])
            ends.append(
                weighed(
                    replace(result, gains=gains, value=result.value + move[joints:]), other, found.payload, free=free
                ).value
            )
        total += ((ends[0] - ends[1]) / (2.0 * step)) ** 2
    np.testing.assert_allclose([one.std_robot for one in found.parameters], np.sqrt(total), rtol=0.02)


@pytest.mark.slow
def test_the_stated_deviation_of_gains_is_that_of_the_payload(noisy: Identification) -> None:
    """Gains that are all wrong by one factor make the robot's parameters and the payload wrong by it."""
    run, joints = loaded_samples(MODEL, Payload("box"), noise=0.5), len(MODEL.robot.axes)
    drives = Drives(("A",) * joints, (1.0,) * joints, (1.0,) * joints, "joint", ("N.m/A",) * joints)
    exact = weighed(noisy, replace(run, drives=drives), Payload("box"))
    doubted = weighed(noisy, replace(run, drives=replace(drives, gain_std=0.05)), Payload("box"))
    more = np.sqrt(np.diagonal(doubted.covariance_robot - exact.covariance_robot))
    np.testing.assert_allclose(more, 0.05 * np.abs(exact.value), rtol=1e-6)
    the_codes = [{finding.code for finding in one.findings} for one in (exact, doubted)]
    assert "payload-gains-exact" in the_codes[0] - the_codes[1]


@pytest.mark.parametrize(("gain", "wrong"), [("1.0", "1.5"), ("1.0", "-0.1"), ('"unknown"', "0.1")])
def test_a_wrong_deviation_of_gains_is_refused(gain: str, wrong: str, tmp_path: Path, logs: Path) -> None:
    file = project_file(tmp_path, logs, gain=f"{gain}, gain_std = {wrong}")
    project = read_project(file)
    with pytest.raises(DataError, match="gain_std must be"):
        project.samples(project.robot(), "identify")


def test_error_bars_cover() -> None:
    """Correlated noise in both the free and the loaded run: 95 % intervals hold the truth."""
    model = Model(arm(3), named_terms(DEFAULT_TERMS))
    hits, shares = [], []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        free = samples_of(model, 3000, seed=100 + seed)
        (piece,) = free.open()
        noise = 1.5 * coloured(rng, piece.effort.shape, 0.8)
        free = Samples.from_arrays("free", free.joints, 200.0, piece.q, piece.v, piece.a, piece.effort + noise)
        result = identify(Problem(model, [free], decimate=4))
        noise = 1.5 * coloured(rng, piece.effort.shape, 0.8)
        run_ = loaded_samples(model, Payload("box"), noise=noise, seed=200 + seed)
        found = weigh_payload(result, Problem(model, [run_], decimate=4), Payload("box"))
        std = np.array([one.std for one in found.parameters])
        hits.append(np.abs(found.value - BODY) <= student.ppf(0.975, found.clusters - 1) * std)
        shares.append([one.std_robot / one.std for one in found.parameters])
    assert 0.9 < np.mean(hits) < 0.99
    # the robot's own uncertainty is a real part of it: without it the intervals would be too short
    assert 0.3 < np.median(shares) < 0.9


def test_what_the_motion_does_not_show_has_no_value() -> None:
    """An axis along gravity shows one inertia; a frame beside the axis mixes it with moments and mass."""
    model = Model(arm(1), named_terms(DEFAULT_TERMS))
    result = identify(Problem(model, [samples_of(model)]))
    found = weigh_payload(result, Problem(model, [loaded_samples(model, Payload("box"))]), Payload("box"))
    shown = [one.name for one in found.parameters if np.isfinite(one.value)]
    assert shown == ["ZZ"]
    assert found.value[5] == pytest.approx(BODY[5], abs=1e-7)
    assert np.isnan(found.body[0].value)
    assert found.physical is None
    assert np.isnan(found.unphysical_by)
    codes = [finding.code for finding in found.findings]
    assert codes == ["payload-not-excited"]
    assert "XX, XY, XZ, YY, YZ, MX, MY, MZ, M" in found.findings[0].message
    beside = Payload("box", pose=pose_from_rpy((0.3, 0.1, 0.0), (0.0, 0.0, 0.0)))
    found = weigh_payload(result, Problem(model, [loaded_samples(model, beside)]), beside)
    assert not np.isfinite(found.value).any()
    # stated, the rest tells ZZ again
    told = replace(beside, known={name: x for name, x in zip(INERTIAL, BODY, strict=True) if name in ("MX", "MY", "M")})
    found = weigh_payload(result, Problem(model, [loaded_samples(model, beside)]), told)
    assert found.value[5] == pytest.approx(BODY[5], abs=1e-7)


def test_friction_of_the_day_may_be_fitted_anew(exact: Identification) -> None:
    payload = Payload("box")
    (piece,) = (samples := loaded_samples(MODEL, payload)).open()
    other_day = piece.effort + 2.0 + 1.0 * np.sign(piece.v)
    samples = Samples.from_arrays("loaded", samples.joints, 200.0, piece.q, piece.v, piece.a, other_day)
    held = weighed(exact, samples, payload)
    free = weighed(exact, samples, payload, free=("offset", "friction"))
    assert abs(held.body[0].value - 3.0) > 100.0 * abs(free.body[0].value - 3.0)
    np.testing.assert_allclose(free.value, BODY, atol=1e-6)
    assert set(free.refitted) == {f"joint{j}.{symbol}" for j in range(1, 5) for symbol in ("off", "Fv", "Fc")}
    offset = free.refitted["joint2.off"]
    assert offset.refitted - offset.identified == pytest.approx(2.0, abs=1e-5)
    assert offset.std >= 0.0
    assert offset.unit == "N.m"
    assert held.refitted == {}
    (badly,) = (finding for finding in held.findings if finding.code == "payload-poor-fit")
    assert set(held.unexplained) <= {"joint1", "joint2", "joint3", "joint4"}
    assert all(f"on {joint} (" in badly.message for joint in held.unexplained)
    assert "--free friction" in badly.fix
    assert "weighs" in held.verdict
    assert f"but leaves more than twice the error of the robot fit on {', '.join(held.unexplained)}" in held.verdict
    assert free.unexplained == ()


def test_a_wrong_link_is_told_by_the_joints_beyond_it(noisy: Identification) -> None:
    samples = loaded_samples(MODEL, Payload("box"), noise=0.5)
    right, wrong = weighed(noisy, samples, Payload("box")), weighed(noisy, samples, Payload("box", "link2"))
    assert (right.unexplained, right.unaffected) == ((), ())
    assert wrong.unaffected == ("joint3", "joint4")
    assert "joint3" in wrong.unexplained
    assert wrong.relative_error.joints["joint3"] == pytest.approx(wrong.unloaded.joints["joint3"])
    (badly,) = (finding for finding in wrong.findings if finding.code == "payload-poor-fit")
    assert badly.severity == "warning"
    assert badly.fix.startswith("check the link: joint3 cannot be loaded by a payload on link2")
    # the mass is not shown on that link
    assert wrong.verdict.startswith(
        "'box' on link2 leaves more than twice the error of the robot fit on joint1, joint2, joint3: "
    )
    better = replace(right, fitted=replace(right.fitted, joints=dict.fromkeys(right.fitted.joints, 1e-3)))
    assert better.verdict.startswith("'box' on link4 weighs ")
    assert replace(better, unaffected=("joint4",)).verdict.startswith("'box' on link4 would weigh ")
    assert not any("noise explains" in finding.message or "worth" in finding.fix for finding in wrong.findings)
    # a joint that was fitted as badly is no sign of anything
    poor = replace(wrong, fitted=wrong.relative_error)
    assert poor.unexplained == ()


def test_a_stated_mass_on_a_wrong_link_is_not_confirmed(noisy: Identification) -> None:
    payload = Payload("box", "link2", known={"M": 3.0})
    found = weighed(noisy, loaded_samples(MODEL, Payload("box"), noise=0.5), payload)
    assert found.verdict.startswith("'box' on link2 leaves more than twice the error of the robot fit on ")


def test_ten_parameters_of_no_body_are_told_by_the_number_that_says_so(noisy: Identification) -> None:
    """A point mass far out: its inertia about its own centre is zero and comes out on either side of it."""
    payload = Payload("box")
    point = inertial_vector(3.0, np.array([0.04, -0.02, 0.09]), np.zeros((3, 3)))
    found = weighed(noisy, loaded_samples(MODEL, payload, point, noise=0.5), payload)
    (doubt,) = (finding for finding in found.findings if finding.code == "payload-not-physical")
    assert found.unphysical is not None
    assert found.unphysical.value < 0.0
    assert found.unphysical_by == pytest.approx(-found.unphysical.value / found.unphysical.std)
    assert f"smallest second moment {found.unphysical.value:.2g} ± {found.unphysical.std:.2g} kg.m2" in doubt.message
    assert (doubt.severity, found.unphysical_by < 3.0) == ("info", True)
    # what is left is told with its own error bars, in millimetres
    assert f"mass (± {found.body[0].std:.2g} kg)" in doubt.fix
    assert f"{1e3 * found.body[3].std:.2g} mm" in doubt.fix


@pytest.mark.parametrize("estimator", [Essential(), WLS()], ids=["essential", "wls"])
def test_any_result_serves(estimator: Estimator) -> None:
    result = identified(noise=0.5, estimator=estimator)
    payload = Payload("box")
    found = weighed(result, loaded_samples(MODEL, payload, noise=0.5), payload)
    mass = found.body[0]
    assert abs(mass.value - 3.0) < 4.0 * mass.std < 0.5
    if estimator.name == "essential":
        assert result.cancelled


def gained() -> tuple[Identification, Samples]:
    """Gains that were stated wrongly, identified with a first payload, and a run that carries a second one."""
    payload, wrong = Payload("first", known=dict(zip(INERTIAL, BODY, strict=True))), np.array([0.5, 2.0, 1.25, 0.8])
    carrying = Model(MODEL.robot, MODEL.terms, payloads=[payload])

    def stated(samples: Samples, name: str, load: str) -> Samples:
        (piece,) = samples.open()
        effort = piece.effort / wrong[:, None]
        return Samples.from_arrays(name, samples.joints, 200.0, piece.q, piece.v, piece.a, effort, load)

    free = stated(samples_of(MODEL, 3000, noise=0.3), "free", "none")
    first = stated(loaded_samples(MODEL, payload, noise=0.3, seed=70), "first", "first")
    result = identify(Problem(carrying, [free, first], motor_rows=True), Gains())
    assert result.gains is not None
    np.testing.assert_allclose(result.gains.factor, wrong, rtol=0.05)
    other = inertial_vector(1.4, np.array([0.0, 0.1, 0.05]), np.diag([0.004, 0.002, 0.005]))
    return result, stated(loaded_samples(MODEL, Payload("second"), other, noise=0.3, count=1000), "second", "none")


@pytest.mark.slow
def test_identified_gains_are_used() -> None:
    result, second = gained()
    assert result.gains is not None
    mass = weighed(result, second, Payload("second")).body[0]
    assert abs(mass.value - 1.4) < 4.0 * mass.std < 0.4
    lost = replace(result.gains, factor=np.array([1.0, np.nan, 1.0, 1.0]))
    with pytest.raises(EstimationError, match="no drive gain for joint2"):
        weighed(replace(result, gains=lost), second, Payload("second"))


def test_several_runs_have_deviations_of_their_own(noisy: Identification) -> None:
    """A quiet and a loud run weigh together better than either, and nearly as the quiet one does."""
    payload = Payload("box")
    quiet = replace(loaded_samples(MODEL, payload, noise=0.2), name="quiet")
    loud = replace(loaded_samples(MODEL, payload, noise=8.0, seed=51), name="loud")
    both = weigh_payload(noisy, Problem(MODEL, [quiet, loud]), payload)
    one = weigh_payload(noisy, Problem(MODEL, [quiet]), payload)
    assert both.runs == ("quiet", "loud")
    assert abs(both.body[0].value - one.body[0].value) < one.body[0].std


def test_an_empty_hand_weighs_nothing(noisy: Identification) -> None:
    found = weighed(noisy, loaded_samples(MODEL, Payload("box"), np.zeros(10), noise=0.5), Payload("box"))
    assert [finding.code for finding in found.findings] == ["payload-not-detected"]
    mass = found.body[0]
    assert found.verdict.startswith(f"'box' on link4: no payload detected ({mass.value:.4g} ± {mass.std:.2g} kg);")


def test_too_short_for_blocks_is_said(noisy: Identification) -> None:
    samples = loaded_samples(MODEL, Payload("box"), noise=0.5, count=120)
    found = weigh_payload(noisy, Problem(MODEL, [samples], decimate=4, rest=0.0), Payload("box"))
    assert found.clusters == 0
    assert "few-blocks" in [finding.code for finding in found.findings]
    assert found.body[0].std > 0.0


def test_what_cannot_be_weighed_is_refused(exact: Identification) -> None:
    samples = loaded_samples(MODEL, Payload("box"))
    with pytest.raises(EstimationError, match="All ten parameters of payload 'box' are known"):
        weighed(exact, samples, Payload("box", known=dict(zip(INERTIAL, BODY, strict=True))))
    with pytest.raises(ModelError, match=r"Unknown part to let free 'inertia'.* Valid: offset, friction"):
        weighed(exact, samples, Payload("box"), free=["inertia"])
    with pytest.raises(ModelError, match="Unknown link 'hand'"):
        weighed(exact, samples, Payload("box", "hand"))
    bare = Model(MODEL.robot)
    with pytest.raises(ModelError, match="same robot and terms"):
        weigh_payload(exact, Problem(bare, [samples]), Payload("box"))
    rigid = identify(Problem(bare, [samples_of(bare)]))
    with pytest.raises(ModelError, match="without terms of friction"):
        weigh_payload(rigid, Problem(bare, [samples]), Payload("box"), ["friction"])
    with pytest.raises(EstimationError, match="log is too short"):
        weigh_payload(exact, Problem(MODEL, [samples], decimate=700, rest=0.0), Payload("box"))


def test_a_robot_without_nominal_inertias_serves_too() -> None:
    model = Model(silent(MODEL.robot), named_terms((*DEFAULT_TERMS, "load")))
    free = samples_of(MODEL, 3000, noise=0.2)
    result = identify(Problem(model, [free]))
    assert result.carried is not None
    samples = loaded_samples(MODEL, Payload("box"), noise=0.2)
    found = weigh_payload(result, Problem(model, [samples]), Payload("box"))
    assert found.body[0].value == pytest.approx(3.0, rel=0.03)


# --- In a project -----------------------------------------------------------------------------------------------------

# without rotors
ROBOT = "\n".join(line for line in PENDULUM.splitlines() if not line.startswith("rotor"))

PROJECT = """\
robot = "pendulum.toml"
terms = ["rotor", "viscous", "coulomb"]
{estimator}

[prepare]
derivatives = "differences"
delay = "none"
cutoff_hz = 20.0
lowpass_hz = 8.0
rest = 0.02

[channels]
time = {{ column = "t", unit = "s" }}
q = {{ columns = ["q1", "q2"], unit = "rad" }}
effort = {{ columns = ["i1", "i2"], unit = "A", gain = {gain} }}

[[run]]
log = "free.csv"

[[run]]
log = "loaded.csv"
load = "{load}"

{payload}
"""
GAINS = np.array([12.0, 8.0])


def csv(file: Path, motion: tuple[Array, ...], effort: Array, rate: float = 200.0) -> None:
    columns = [np.arange(effort.shape[1]) / rate, *motion[0], *(effort / GAINS[:, None])]
    rows = "\n".join(",".join(map(repr, row)) for row in np.array(columns).T.tolist())
    file.write_text(f"t,q1,q2,i1,i2\n{rows}\n", "utf-8")


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a robot and logs of currents: free, and with two bodies in its hand."""
    folder = tmp_path_factory.mktemp("logs")
    (folder / "pendulum.toml").write_text(ROBOT, "utf-8")
    robot = read_robot(folder / "pendulum.toml")
    model = Model(robot, named_terms(("rotor", "viscous", "coulomb")))
    for name, body, seed in (("free", None, 1), ("loaded", BODY, 2), ("other", 0.5 * BODY, 3)):
        motion = motion_of(robot, 4000, 200.0, seed)
        theta = truth_of(model).copy()
        if body is not None:
            theta[model.inertial_index[1]] += body
        effort = model.torque(*motion[:3], theta)
        effort = effort + 0.1 * np.random.default_rng(seed).standard_normal(effort.shape)
        csv(folder / f"{name}.csv", motion[:3], effort)
    return folder


def project_file(
    folder: Path, logs: Path, payload: str = "", gain: str = "[12.0, 8.0]", estimator: str = "", load: str = "box"
) -> Path:
    for log in logs.iterdir():
        if log.is_file():
            (folder / log.name).write_bytes(log.read_bytes())
    text = PROJECT.format(payload=payload, gain=gain, estimator=estimator, load=load)
    (folder / "project.toml").write_text(text, "utf-8")
    return folder / "project.toml"


BOX = '[[payload]]\nname = "box"\n'


@pytest.mark.parametrize(
    ("keys", "known"),
    [
        ("", {}),
        ("known = { M = 2.805, MX = 0.1 }", {"M": 2.805, "MX": 0.1}),
        ("mass = 3.0", {"M": 3.0}),
        ("mass = 3.0\ncom = [0.04, -0.02, 0.09]", {"MX": 0.12, "MY": -0.06, "MZ": 0.27, "M": 3.0}),
        (
            "mass = 3.0\ncom = [0.04, -0.02, 0.09]\ninertia_com = [0.02, 0.0, 0.0, 0.025, 0.0, 0.015]",
            dict(zip(INERTIAL, BODY, strict=True)),
        ),
    ],
    ids=["nothing", "known", "mass", "com", "all"],
)
def test_a_payload_is_told_in_parameters_or_as_a_body(
    tmp_path: Path, logs: Path, keys: str, known: dict[str, float]
) -> None:
    project = read_project(project_file(tmp_path, logs, BOX + keys))
    (payload,) = project.model().payloads
    assert payload.link == "link2"
    assert payload.known == pytest.approx(known)
    assert set(payload.known) == set(known)
    names = project.model().layout.names
    assert names[-10:] == tuple(f"box.{symbol}" for symbol in INERTIAL)


def test_a_payload_has_a_frame_and_a_link(tmp_path: Path, logs: Path) -> None:
    keys = 'link = "link1"\nxyz = [0.05, -0.1, 0.2]\nrpy = [0.3, -0.4, 1.1]\nmass = 2.0\nstd = { M = 0.01 }'
    (payload,) = read_project(project_file(tmp_path, logs, BOX + keys)).model().payloads
    assert (payload.link, payload.std) == ("link1", {"M": 0.01})
    np.testing.assert_allclose(payload.pose.rotation, TILTED.rotation)
    np.testing.assert_allclose(payload.pose.position, TILTED.position)


@pytest.mark.parametrize(
    ("payload", "load", "said"),
    [
        (BOX + "known = { M = 2.0 }\nmass = 2.0", "box", "'box' is defined twice: keep either 'known' or 'mass'"),
        (BOX + "com = [0.0, 0.0, 0.1]", "box", "com is not sufficient alone: give mass, mass and com"),
        (BOX + "mass = 2.0\ninertia_com = [1, 0, 0, 1, 0, 1]", "box", "inertia_com is not sufficient alone"),
        (BOX + "known = { m = 2.0 }", "box", "Unknown parameter 'm'"),
        (BOX + "known = { M = -2.0 }", "box", "known M = -2.0 is not a possible value"),
        (BOX + "std = { M = 0.1 }", "box", "std is given for M, which known does not contain"),
        (BOX + "xyz = [0.0, 0.0, inf]", "box", "xyz [m], rpy [rad], mass [kg], com [m] and inertia_com must be finite"),
        (BOX + 'link = "hand"', "box", "Unknown link 'hand'. Valid: link1, link2."),
        (BOX + "weight = 2.0", "box", "Unknown key in [payload] 'weight'. Valid: name, link, xyz, rpy, known"),
        (BOX, "bax", "no run carries the payload 'box'; set load = \"box\" on the runs that do. Loads of the runs: "),
        (BOX + BOX, "box", "two payloads are named box"),
        ('[[payload]]\nname = "none"\n', "box", "it cannot be 'none', which means no load"),
    ],
)  # fmt: skip
def test_a_wrong_payload_is_one_sentence(
    tmp_path: Path, logs: Path, payload: str, load: str, said: str, steelyard: Run
) -> None:
    told = steelyard("identify", project_file(tmp_path, logs, payload, load=load))
    assert told.code == 2
    assert said in told.err.replace("\n", " ")


def test_a_load_without_a_payload_is_a_label(tmp_path: Path, logs: Path) -> None:
    project = read_project(project_file(tmp_path, logs))
    assert project.model().payloads == ()
    assert [entry.load for entry in project.spec.run] == ["none", "box"]


def test_payload_and_robot_are_identified_together_and_read_back(tmp_path: Path, logs: Path) -> None:
    file = project_file(tmp_path, logs, BOX + "mass = 3.0")
    done = run(read_project(file))
    # the result's project is the same, with its payload, and makes the same model
    again = msgspec.convert(json.loads(json.dumps(done.document["project"])), ProjectSpec)
    assert [one.payload().known for one in again.payload] == [{"M": 3.0}]
    same = replace(read_project(file), spec=again)
    assert same.model().layout.names == done.identification.base.layout.names
    assert same.estimator() == read_project(file).estimator() == Auto()
    found = dict(zip(done.identification.base.names, done.identification.value, strict=True))
    std = dict(zip(done.identification.base.names, done.identification.std, strict=True))
    for name, truth in (("box.MX", 0.12), ("box.MY", -0.06)):
        assert abs(found[name] - truth) < 5.0 * std[name] < 0.1


@pytest.mark.slow
def test_unknown_gains_choose_their_estimator(tmp_path: Path, logs: Path, steelyard: Run) -> None:
    file = project_file(tmp_path, logs, BOX + "mass = 3.0\ncom = [0.04, -0.02, 0.09]", gain='"unknown"')
    project = read_project(file)
    assert project.estimator().name == "gains"
    model = project.model()
    problem = project.problem(model, project.samples(model.robot, "identify"))
    assert problem.motor_rows
    assert problem.runs[0].drives is not None
    assert problem.runs[0].drives.gain is None
    told = steelyard("identify", file, "--json")
    assert told.code == 0
    gains = told.document["gains"]
    assert gains is not None
    result = read_result(tmp_path / "project-run")
    assert result.gains is not None
    np.testing.assert_allclose(result.gains.value, GAINS, rtol=0.05)
    assert result.gains.units == ("N.m/A", "N.m/A")
    # and another body is weighed with them
    told = steelyard("payload", tmp_path / "project-run", tmp_path / "other.csv", "--known", "MZ=0.135", "--json")
    assert told.code == 0
    numbers = {one["name"]: one for one in told.document["body"]}
    assert abs(numbers["mass"]["value"] - 1.5) < 4.0 * numbers["mass"]["std"] < 0.6


@pytest.mark.parametrize("estimator", ["wls", "map", "essential"])
def test_unknown_gains_refuse_other_estimators(tmp_path: Path, logs: Path, estimator: str, steelyard: Run) -> None:
    file = project_file(tmp_path, logs, BOX + "mass = 3.0", gain='"unknown"', estimator=f'estimator = "{estimator}"')
    told = steelyard("identify", file)
    assert told.code == 2
    assert f"needs an estimator that identifies gains ('gains', 'tls-mixed' or 'tls'), not '{estimator}'" in told.err
    assert "payload of known mass" in told.err
    assert steelyard("identify", file, "--estimator", "ls").code == 2


def test_a_misspelt_unknown_is_told(tmp_path: Path, logs: Path, steelyard: Run) -> None:
    told = steelyard("identify", project_file(tmp_path, logs, gain='"unkown"'))
    assert told.code == 2
    assert "gain must be numbers or the word \"unknown\", not 'unkown'." in told.err


def test_springs_stand_in_the_project_of_a_robot_whose_file_has_none(tmp_path: Path, logs: Path) -> None:
    file = project_file(tmp_path, logs, '[[spring]]\nname = "coil"\nkind = "joint"\njoint = "joint2"\nfree = 0.1\n')
    file.write_text(file.read_text("utf-8").replace('"coulomb"]', '"coulomb", "springs"]'), "utf-8")
    model = read_project(file).model()
    assert [spring.name for spring in model.robot.springs] == ["coil"]
    assert "coil.K" in model.layout


# --- The command ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fitted(logs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder of the free robot, with its gains stated."""
    folder = tmp_path_factory.mktemp("fitted")
    file = project_file(folder, logs)
    text = file.read_text("utf-8").replace('[[run]]\nlog = "loaded.csv"\nload = "box"\n', "")
    file.write_text(text, "utf-8")
    return run(read_project(file)).folder


def test_the_command_weighs(fitted: Path, logs: Path, tmp_path: Path, steelyard: Run) -> None:
    told = steelyard(
        "payload",
        fitted,
        logs / "loaded.csv",
        "--known",
        "MZ=0.27",
        "--name",
        "box",
        "--out",
        tmp_path / "box",
        "--json",
    )
    assert told.code == 0
    document = told.document
    assert document["schema"] == "steelyard.payload/2"
    assert (document["name"], document["link"], document["known"]) == ("box", "link2", {"MZ": 0.27})
    body = {one["name"]: one for one in document["body"]}
    assert abs(body["mass"]["value"] - 3.0) < 4.0 * body["mass"]["std"] < 0.5
    assert body["mass"]["unit"] == "kg"
    assert body["mass"]["std"] == pytest.approx(np.hypot(body["mass"]["std_log"], body["mass"]["std_robot"]))
    assert document["relative_error"]["total"] < 0.1 * document["unloaded"]["total"]
    assert [entry["name"] for entry in document["logs"]] == ["loaded.csv"]
    assert json.loads((tmp_path / "box" / "payload.json").read_text("utf-8")) == document
    assert "weighs" in told.err
    assert "σ of the robot" in told.err


def test_the_command_fits_anew_and_bounds_the_log(fitted: Path, logs: Path, steelyard: Run) -> None:
    log = logs / "loaded.csv"
    told = steelyard("payload", fitted, log, "--free", "friction", "--seconds", 2, 12, "--json")
    assert told.code == 0
    assert set(told.document["refitted"]) == {"joint1.Fv", "joint1.Fc", "joint2.Fv", "joint2.Fc"}
    assert told.document["refitted"]["joint1.Fv"]["unit"] == "N.m.s"
    assert "N·m·s" in told.err
    whole = steelyard("payload", fitted, log, "--json").document
    assert sum(told.document["relative_error"]["rows"].values()) < 0.7 * sum(whole["relative_error"]["rows"].values())
    rows = steelyard("payload", fitted, log, "--rows", 401, 2401, "--json").document
    assert rows["relative_error"]["rows"] == told.document["relative_error"]["rows"]


def test_a_fitted_log_and_an_unloaded_one_are_told(fitted: Path, logs: Path, steelyard: Run) -> None:
    told = steelyard("payload", fitted, logs / "free.csv", "--json")
    assert told.code == 0
    codes = [finding["code"] for finding in told.document["findings"]]
    assert "payload-log-in-fit" in codes
    assert "payload-not-detected" in codes
    assert "no payload detected" in told.err


def test_a_wrong_link_is_told_by_the_command(fitted: Path, logs: Path, steelyard: Run) -> None:
    told = steelyard("payload", fitted, logs / "loaded.csv", "--link", "link1", "--json")
    assert told.code == 0
    assert "joint2" in told.document["unexplained"]
    assert told.document["fitted"]["joints"]["joint2"] < 0.5 * told.document["relative_error"]["joints"]["joint2"]
    assert "joint2 cannot be loaded by a payload on link1" in told.err


def test_a_load_the_result_does_not_know_leads_to_payloads(fitted: Path, logs: Path) -> None:
    with pytest.raises(ProjectError, match=r"Unknown load 'box'. Valid: none. .*\[\[payload\]\].*`steelyard payload`"):
        reopen(fitted, [logs / "loaded.csv"], load="box")


@pytest.mark.slow
def test_a_load_that_differs_from_the_fit_s_is_told(tmp_path: Path, logs: Path) -> None:
    folder = run(read_project(project_file(tmp_path, logs, BOX + "mass = 3.0"))).folder

    def told(log: str, load: str = "none") -> list[str]:
        reopened = reopen(folder, [logs / log], load=load)
        return [str(finding) for finding in reopened.load_findings(reopened.problem()[1])]

    assert told("loaded.csv") == [
        'warning: load-differs [loaded.csv]: it carried "box" in the fit and is scored with "none" now → add --load box'
    ]
    assert "leave out --load" in told("free.csv", "box")[0]
    assert told("loaded.csv", "box") == told("free.csv") == told("other.csv") == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--known", "m=2"], "--known m=2: Unknown parameter 'm'"),
        (["--known", "mass=2.6"], "M is the mass; MX, MY, MZ are the mass times the centre of mass."),
        (["--known", "M"], "--known takes NAME=VALUE with a number, e.g. M=2.8, not 'M'."),
        (["--known", "M=heavy"], "not 'M=heavy'"),
        (["--known", "M=nan"], "known M = nan is not a possible value"),
        (["--link", "hand"], "Unknown link 'hand'"),
        (["--free", "gravity"], "Unknown part to let free 'gravity'. Valid: offset, friction."),
        (["--free", "offset"], "identified without terms of offset"),
        (["--rows", "1", "9", "--seconds", "0", "1"], "give one of them"),
        (["--rows", "9", "1"], "rows must be [first, last]"),
        (["--name", "none"], "cannot be 'none'"),
        (["--name", ""], "cannot be ''"),
    ],
)
def test_a_wrong_option_is_one_sentence(
    fitted: Path, logs: Path, arguments: list[str], said: str, steelyard: Run
) -> None:
    told = steelyard("payload", fitted, logs / "loaded.csv", *arguments)
    assert told.code == 2
    assert said in told.err
    assert len(told.err.strip().splitlines()) == 1


def test_wrong_files_are_one_sentence(fitted: Path, logs: Path, tmp_path: Path, steelyard: Run) -> None:
    log = logs / "loaded.csv"
    assert "No result at" in steelyard("payload", tmp_path / "none", log).err
    (tmp_path / "bare.csv").write_text("t,q1\n0,1\n1,2\n", "utf-8")
    told = steelyard("payload", fitted, tmp_path / "bare.csv")
    assert told.code == 2
    assert "lacks the columns q2, i1, i2" in told.err
    told = steelyard("payload", fitted, log, logs / "other.csv", "--rows", 1, 500)
    assert "apply to one log" in told.err
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "thesis.txt").write_text("mine", "utf-8")
    told = steelyard("payload", fitted, log, "--out", tmp_path / "kept")
    assert told.code == 2
    assert "thesis.txt" in told.err
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["thesis.txt"]


# --- Real -------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_ur10e_weighs_its_load(shared_data, tmp_path: Path, steelyard: Run) -> None:
    """2.805 kg, gains read from the log, the robot identified from eleven free runs of other days and this one."""
    log = shared_data("ur10e", "ident_load_50s_14harm.parquet")
    examples = Path(__file__).resolve().parents[2] / "examples" / "real"
    run(read_project(examples / "ur10e-free.toml"), tmp_path / "free")
    told = steelyard("payload", tmp_path / "free", log, "--rows", 308, 5071, "--json")
    assert told.code == 0
    mass = told.document["body"][0]
    assert mass["value"] == pytest.approx(2.805, rel=0.02)
    assert abs(mass["value"] - 2.805) < 2.0 * mass["std"]
    assert told.document["relative_error"]["total"] < 0.05 < 0.2 < told.document["unloaded"]["total"]
    assert told.document["unexplained"] == []
    com = np.array([one["value"] for one in told.document["body"][1:4]])
    np.testing.assert_allclose(com, [0.03, 0.16, -0.17], atol=0.01)
    free = steelyard("payload", tmp_path / "free", log, "--rows", 308, 5071, "--free", "friction", "--json").document
    assert free["body"][0]["value"] == pytest.approx(2.805, rel=0.02)
    assert free["relative_error"]["total"] < told.document["relative_error"]["total"]
    wrong = steelyard("payload", tmp_path / "free", log, "--rows", 308, 5071, "--link", "forearm_link", "--json")
    assert wrong.document["unexplained"] == ["wrist_1_joint", "wrist_2_joint", "wrist_3_joint"]
    assert "cannot be loaded by a payload on forearm_link" in wrong.err


def test_a_robot_without_error_bars_gives_a_payload_without(noisy: Identification) -> None:
    """σ that is not known is not zero."""
    payload = Payload("brick", "link4")
    samples = loaded_samples(MODEL, payload, noise=0.2)
    blind = replace(noisy, covariance=np.full_like(noisy.covariance, np.nan))
    sure, unsure = (weighed(one, samples, payload) for one in (noisy, blind))
    assert np.all(np.isfinite(np.diagonal(sure.covariance_robot)))
    assert not np.any(np.isfinite(np.diagonal(unsure.covariance_robot)))
    assert "payload-robot-uncertain" in {finding.code for finding in unsure.findings}
    assert "payload-robot-uncertain" not in {finding.code for finding in sure.findings}
