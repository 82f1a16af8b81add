"""The command that plans motion: limits files, ramps, motion files read again by other means, and what it refuses."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from ruamel.yaml import YAML
from scipy.interpolate import BPoly

from steelyard._arrays import Array
from steelyard.cli import excite as command
from steelyard.design.constraints import MotionRules, broken, check_rows
from steelyard.design.feasibility import torque_caveats
from steelyard.design.ramps import USED, ramped, shortest
from steelyard.errors import DataError, OutputError, RobotError
from steelyard.export.motion_check import Written, check_playback
from steelyard.export.motions import FORMATS, LEAD_IN_S, export_motion
from steelyard.formats.motion_limits import MARGIN, read_limits
from steelyard.formats.robots import read_robot
from steelyard.formats.robots.toml import read_table
from steelyard.model.model import Model
from steelyard.model.payload import Payload
from steelyard.model.terms import DEFAULT_TERMS, named_terms
from steelyard.motion.bounds import proven_bounds
from steelyard.motion.clearance import Clearance
from steelyard.motion.limits import SPEED_UP_S, MotionLimits
from steelyard.motion.obstacles import Box, Capsule, Plane, Surroundings
from steelyard.motion.trajectory import Fourier, Quintic, Trajectory
from steelyard.project import excite as excite_module
from steelyard.project.excite import Excitation, allowed_of, excite, subject_of
from steelyard.project.output_folder import write_files
from testbed.command import Run
from testbed.pages import without_plotly
from testbed.simulated import PENDULUM, log_of

# A search of a few steps: what is tested here holds for any motion.
QUICK = ("--starts", 1, "--iterations", 4)
PROJECT = """\
robot = "pendulum.toml"
terms = {terms}

[prepare]
cutoff_hz = 20.0
lowpass_hz = 8.0
decimate = 10
derivatives = "differences"
delay = "none"
rate_hz = 200.0

[channels]
time = {{ column = "t", unit = "s" }}
q = {{ columns = ["q_joint1", "q_joint2"], unit = "rad" }}
effort = {{ columns = ["tau_joint1", "tau_joint2"], unit = "N.m" }}

[[run]]
log = "log.csv"
"""
LOADED = """
[[run]]
log = "loaded.csv"
load = "weight"

[[payload]]
name = "weight"
known = { M = 2.0 }
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in that holds the robot file of a pendulum."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pendulum.toml").write_text(PENDULUM, "utf-8")
    return tmp_path


@cache
def pendulum() -> Model:
    return Model(read_table(PENDULUM.encode(), "pendulum.toml"), named_terms(DEFAULT_TERMS))


def rules_of(torque: float = np.inf, clearance: Clearance | None = None, **limits: float) -> MotionRules:
    stated = {"velocity": 3.0, "acceleration": 10.0, "jerk": 100.0} | limits
    both = {"lower": -2.0, "upper": 2.0, "torque": torque} | stated
    bounds = MotionLimits(**{name: np.full(2, x) for name, x in both.items()})
    return MotionRules(pendulum(), bounds, pendulum().layout.nominal, clearance=clearance)


def wave(amplitude: float = 0.5, duration: float = 4.0) -> Fourier:
    """Two joints that swing and come to rest where they began."""
    sine = amplitude * np.array([[1.0, -1.0], [-0.5, 0.5]])
    cosine = amplitude * np.array([[2.0, -1.0], [1.0, -0.5]])
    return Fourier(np.array([0.3, -0.2]), sine, cosine, 1.0 / duration, duration)


def left_behind(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir() if entry.name != "pendulum.toml")


# --- Ramps ------------------------------------------------------------------------------------------------------------

POSTURES = st.lists(st.floats(-2.0, 2.0), min_size=2, max_size=2).map(np.array)
TOPS = st.floats(0.2, 20.0)


@given(start=POSTURES, velocity=TOPS, acceleration=TOPS, jerk=TOPS)
@settings(max_examples=30)
def test_ramps_are_within_the_limits_and_no_longer_than_they_must_be(
    start: Array, velocity: float, acceleration: float, jerk: float
) -> None:
    rules = rules_of(velocity=velocity, acceleration=acceleration, jerk=jerk)
    middle = Quintic(np.array([[0.0, 0.3], [0.0, -0.3]]), np.array([0.0, 50.0]))
    whole = ramped(middle, start, rules)
    if np.abs(start).max() < 1e-9:
        return
    assert not broken(rules.limit_use(whole))
    np.testing.assert_allclose(whole.at([0.0, whole.duration])[0].T, [start, start], atol=1e-12)
    way = proven_bounds(whole.parts[0])
    tops = {"velocity": velocity, "acceleration": acceleration, "jerk": jerk}
    assert max(getattr(way, name).max() / top for name, top in tops.items()) == pytest.approx(USED, rel=1e-9)


def test_a_ramp_ends_on_a_sample() -> None:
    whole = ramped(wave(), np.array([1.0, 1.0]), rules_of(), step=0.01)
    for part in whole.parts:
        assert part.duration / 0.01 == pytest.approx(round(part.duration / 0.01), abs=1e-9)


def test_a_ramp_is_slowed_down_until_the_torques_hold() -> None:
    start = np.array([1.5, -1.5])
    fast = ramped(wave(), start, rules_of(acceleration=500.0, velocity=50.0, jerk=np.inf))
    peak = max(row.value for row in rules_of(200.0).limit_use(fast) if row.quantity == "torque")
    tight = rules_of(0.6 * peak, acceleration=500.0, velocity=50.0, jerk=np.inf)
    slow = ramped(wave(), start, tight)
    assert slow.parts[0].duration > 1.2 * shortest(np.abs(start - wave().at([0.0])[0][:, 0]), tight.limits)
    assert not [row for row in broken(tight.limit_use(slow)) if row.quantity == "torque"]


def test_a_ramp_that_gravity_forbids_names_the_torque() -> None:
    with pytest.raises(DataError, match=r"from the start posture .* blocked: torque of joint1 is .* at any speed"):
        ramped(wave(0.1), np.array([1.5, 1.5]), rules_of(6.0))


def test_a_ramp_that_is_blocked_names_the_pair() -> None:
    robot = pendulum().robot
    arm = Capsule("link1", np.zeros(3), np.array([0.4, 0.0, 0.0]), 0.02)
    tip = 0.4 * np.array([np.cos(0.9), 0.0, np.sin(0.9)])
    clearance = Clearance.of(robot, Surroundings((arm,), boxes=(Box("post", tip, np.full(3, 0.1)),)))
    free = rules_of(clearance=clearance)
    assert not broken(free.limit_use(wave(0.1)))
    first = ",".join(f"{x:z.6f}" for x in wave(0.1).at([0.0])[0][:, 0])
    with pytest.raises(DataError, match=rf"blocked: clearance of link1 - post .*another --seed or .*: {first}$"):
        ramped(wave(0.1), np.array([1.6, -0.2]), free)


def test_where_the_way_is_blocked_the_next_best_motion_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    subject = subject_of("planar2r")
    allowed, start = allowed_of(subject, None), np.zeros(2)

    def found(refused: int) -> Excitation:
        left = [DataError(f"blocked {k}") for k in range(refused)]

        def blocked(*given: Any) -> Any:
            if left:
                raise left.pop(0)
            return ramped(*given)

        monkeypatch.setattr(excite_module, "ramped", blocked)
        return excite(subject, allowed, 4.0, starts=2, iterations=4, noise=0.5, start=start)

    best, next_best = found(0), found(1)
    assert next_best.design.value > best.design.value
    assert "the motions of 1 better search were rejected" in next_best.design.history
    with pytest.raises(DataError, match=r"blocked 0"):
        found(2)


def test_a_motion_that_starts_there_needs_no_ramp() -> None:
    motion = wave()
    assert ramped(motion, motion.at([0.0])[0][:, 0], rules_of()) is motion


# --- What a controller makes of the samples ---------------------------------------------------------------------------


@given(
    q=st.lists(st.floats(-1.0, 1.0), min_size=4, max_size=4),
    v=st.lists(st.floats(-2.0, 2.0), min_size=4, max_size=4),
    a=st.lists(st.floats(-9.0, 9.0), min_size=4, max_size=4),
    h=st.integers(50, 500).map(lambda ms: ms / 1000),
)
@settings(max_examples=40)
def test_bounds_of_a_quintic_interpolation_hold(q: list[float], v: list[float], a: list[float], h: float) -> None:
    """Against scipy's polynomial through the same ends: a limit a little below what it reaches is refused."""
    t = np.array([0.0, h, 2 * h, 3 * h])
    written = Written(("joint1",), t, np.array([q]), np.array([v]), np.array([a]), 0.0)
    curve = BPoly.from_derivatives(t, np.transpose([q, v, a]))
    fine = np.linspace(0.0, t[-1], 3001)[:-1]
    reached = [np.abs((curve.derivative(k) if k else curve)(fine)).max() for k in range(4)]
    for k, name in enumerate(("upper", "velocity", "acceleration", "jerk")):
        bounds = {"lower": -1e9, "upper": 1e9, "velocity": 1e9, "acceleration": 1e9, "jerk": 1e12}
        bounds[name] = reached[k] - 1e-6 * (1.0 + reached[k])
        if k == 0:
            bounds["lower"] = -bounds["upper"]
        with pytest.raises(OutputError, match=r"quintic interpolation"):
            check_playback(written, MotionLimits(**{key: np.array([x]) for key, x in bounds.items()}), "quintic")


@pytest.mark.parametrize("name", ["m.csv", "m.parquet", "m.yaml", "m.script"])
@pytest.mark.parametrize("limit", ["velocity", "acceleration", "jerk", "upper", "torque"])
def test_a_file_that_would_pass_a_limit_is_never_handed_out(name: str, limit: str) -> None:
    subject = subject_of("tx40")
    start = np.array([0.0, -1.5, 1.5, 0.0, 0.0, 0.0])
    there = start + np.array([0.5, 0.3, -0.4, 0.6, 0.5, -1.0])
    motion = Quintic(np.column_stack([start, there, start]), np.array([0.0, 1.0, 2.0]))
    bounds, theta = proven_bounds(motion), subject.theta
    assert theta is not None
    tau = np.abs(subject.model.torque(*motion.at(np.linspace(0.0, 2.0, 4001)), theta)).max(axis=1)
    room = {"lower": bounds.lower - 0.1, "upper": bounds.upper + 0.1, "torque": 1.1 * tau}
    room |= {key: 1.05 * getattr(bounds, key) for key in ("velocity", "acceleration", "jerk")}
    assert export_motion(name, motion, MotionRules(subject.model, MotionLimits(**room), theta)).files
    tight = room | {limit: room[limit] - np.eye(6)[1] * {"upper": 0.11}.get(limit, 0.07 * room[limit][1] * 1.5)}
    with pytest.raises(OutputError, match=r"joint2"):
        export_motion(name, motion, MotionRules(subject.model, MotionLimits(**tight), theta))


def played(motion: Trajectory, rate_hz: float, fine: Array) -> tuple[Array, Array, Array]:
    """q, v, a of scipy's quintics through samples of a motion."""
    t = np.arange(round(motion.duration * rate_hz) + 1) / rate_hz
    curve = BPoly.from_derivatives(t, np.transpose(motion.at(t), (2, 0, 1)))
    q, v, a = ((curve.derivative(k) if k else curve)(fine).T for k in range(3))
    return q, v, a


@pytest.mark.parametrize("name", ["m.csv", "m.parquet", "m.yaml"])
def test_few_samples_are_refused_where_what_is_played_comes_too_near(name: str) -> None:
    """A point 0.4 m from joint 1, a floor that the motion keeps clear of and quintics through a sample a second not."""
    tip = Capsule("link1", np.array([0.4, 0.0, 0.0]), np.array([0.4, 0.0, 0.0]), 0.01)
    robot, motion, fine = pendulum().robot, replace(wave(0.3), frequency_hz=0.75), np.linspace(0.0, 4.0, 4001)

    def clear_of(offset: float) -> Clearance:
        return Clearance.of(
            robot, Surroundings((tip,), (Plane("floor", np.array([0.0, 0.0, 1.0]), offset),), margin=0.02)
        )

    kept = clear_of(0.0).distances(motion.at(fine)[0]).min()
    nearer = kept - clear_of(0.0).distances(played(motion, 1.0, fine)[0]).min()
    assert nearer > 0.01
    rules = rules_of(velocity=50.0, acceleration=500.0, jerk=5000.0, clearance=clear_of(kept - 0.02 - 0.5 * nearer))
    assert not broken(rules.limit_use(motion))
    assert export_motion(name, motion, rules).files
    with pytest.raises(
        OutputError, match=r"link1 - floor would come .* m too near, played as quintics .* at 1 Hz.* higher"
    ):
        export_motion(name, motion, rules, 1.0)


def test_few_samples_are_refused_where_what_is_played_takes_more_torque() -> None:
    """A weight on a light arm: what is played swings wider, and lifts more."""
    motion, fine, theta = (
        replace(wave(0.3), frequency_hz=0.75),
        np.linspace(0.0, 4.0, 4001),
        np.zeros(len(pendulum().layout)),
    )
    theta[pendulum().layout.index("link1.MX")] = 0.8
    both = (motion.at(fine), played(motion, 1.0, fine))
    least, most = (float(np.abs(pendulum().torque(*x, theta)).max()) for x in both)
    assert most > 1.01 * least
    rules = replace(rules_of(0.5 * (least + most), velocity=50.0, acceleration=500.0, jerk=5000.0), theta=theta)
    assert export_motion("m.csv", motion, rules).files
    with pytest.raises(OutputError, match=r"torque of joint1 would reach .*, played as quintics"):
        export_motion("m.csv", motion, rules, 1.0)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["m.csv", "m.parquet", "m.yaml"])
def test_the_digits_of_a_file_are_enough_for_its_jerk(name: str) -> None:
    """By the text of the file, in numbers longer than its own; where no digits would do, a lower rate is asked for."""
    motion = wave(0.05, 0.5)
    top = float(proven_bounds(motion).jerk.max())
    rules = rules_of(velocity=50.0, acceleration=500.0, jerk=1.01 * top)
    written = FORMATS[Path(name).suffix].read(export_motion(name, motion, rules, 1e4).files[name])
    assert written.v is not None
    assert written.a is not None
    q, v, a = (np.asarray(x, np.longdouble) for x in (written.q, written.v, written.a))
    h = np.longdouble(1.0) / 10_000
    for way in (1, -1):
        # the jerk at the end of a step of the quintic through both ends: (60 Δ − 36 h v₀ − 24 h v₁ …) / h³
        one, two = (slice(None, -1), slice(1, None))[::way]
        far, fast = way * (q[:, two] - q[:, one]), h * (36 * v[:, one] + 24 * v[:, two])
        jerk = (60 * far - fast - way * h**2 * (9 * a[:, one] - 3 * a[:, two])) / h**3
        assert 0.9 * top < np.abs(jerk).max() < 1.01 * top
    with pytest.raises(OutputError, match=r"jerk of joint\d would pass .* At 100000 Hz the rounding .* lower --rate"):
        export_motion(name, wave(0.001, 0.2), rules_of(jerk=8.0), 1e5)


# --- Files, read by other means ---------------------------------------------------------------------------------------


@cache
def tx40() -> Excitation:
    subject = subject_of("tx40")
    return excite(subject, allowed_of(subject, None), starts=1, iterations=4, noise=0.5)


def of_table(frame: pl.DataFrame) -> tuple[Array, Array]:
    joints = [f"joint{k}" for k in range(1, 7)]
    assert frame.columns == ["t", *(f"{symbol}_{joint}" for symbol in "qva" for joint in joints)]
    q, v, a = (frame.select([f"{symbol}_{joint}" for joint in joints]).to_numpy().T for symbol in "qva")
    t = frame["t"].to_numpy()
    # velocities and accelerations are those of the positions
    np.testing.assert_allclose(np.gradient(q, t, axis=1)[:, 1:-1], v[:, 1:-1], atol=2e-2)
    np.testing.assert_allclose(np.gradient(v, t, axis=1)[:, 1:-1], a[:, 1:-1], atol=1e-1)
    return t, q


def of_yaml(content: bytes) -> tuple[Array, Array]:
    message = YAML(typ="safe").load(content)
    assert message["joint_names"] == [f"joint{k}" for k in range(1, 7)]
    assert set(message) == {"header", "joint_names", "points"}
    points = message["points"]
    assert all({"positions", "velocities", "accelerations", "time_from_start"} == set(point) for point in points)
    t = np.array([p["time_from_start"]["sec"] + 1e-9 * p["time_from_start"]["nanosec"] for p in points])
    assert np.all(np.diff(t) > 0.0)
    assert points[0]["velocities"] == points[-1]["velocities"] == [0.0] * 6
    assert t[0] == LEAD_IN_S
    return t - LEAD_IN_S, np.array([p["positions"] for p in points]).T


def of_script(content: bytes) -> tuple[Array, Array]:
    """A controller that knows movej, servoj, sleep and stopj: where it is after every servoj."""
    lines = [line for line in content.decode("ascii").splitlines() if not line.startswith("#")]
    assert lines[0] == "def steelyard_excitation():"
    assert lines[-1] == "end"
    t, now, places = [0.0], 0.0, []
    for line in lines[1:-1]:
        call = re.fullmatch(r"  (\w+)\((.*)\)", line)
        assert call, line
        verb, inside = call.groups()
        if verb in ("sleep", "stopj"):
            continue
        numbers, rest = re.fullmatch(r"\[(.*)\], (.*)", inside).groups()  # type: ignore[union-attr]
        places.append([float(x) for x in numbers.split(",")])
        if verb == "movej":
            assert dict(part.split("=") for part in rest.split(", ")) == {"a": "0.3", "v": "0.2"}
        else:
            assert verb == "servoj"
            now += float(rest.split(",")[2])
            t.append(now)
    return np.array(t), np.array(places).T


READERS: dict[str, Callable[[bytes], tuple[Array, Array]]] = {
    "m.csv": lambda content: of_table(pl.read_csv(content, comment_prefix="#")),
    "m.parquet": lambda content: of_table(pl.read_parquet(content)),
    "m.yaml": of_yaml,
    "m.script": of_script,
}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "rate"), {"m.csv": None, "m.parquet": None, "m.yaml": 25.0, "m.script": None}.items())
def test_what_is_written_is_the_motion(name: str, rate: float | None) -> None:
    found = tx40()
    content = export_motion(name, found.motions[0], found.rules[0], rate, found.remarks(0)).files[name]
    t, q = READERS[name](content)
    assert len(t) == {"m.script": 5001, "m.yaml": 251}.get(name, 1001)
    np.testing.assert_allclose(q, found.motions[0].at(t)[0], atol=1e-8)
    assert content == export_motion(name, found.motions[0], found.rules[0], rate, found.remarks(0)).files[name]
    assert FORMATS[".yml"] is FORMATS[".yaml"]


@pytest.mark.slow
def test_names_of_joints_are_as_in_the_robot() -> None:
    """Whatever is in them: quotes, colons, brackets."""
    rules, names = rules_of(), ('a "b": [c]', "d, #e")
    robot = pendulum().robot
    joints = tuple(replace(joint, name=name) for joint, name in zip(robot.joints, names, strict=True))
    renamed = Model(replace(robot, joints=joints), pendulum().terms)
    content = export_motion("m.yaml", wave(), MotionRules(renamed, rules.limits)).files["m.yaml"]
    assert YAML(typ="safe").load(content)["joint_names"] == list(names)
    content = export_motion("m.csv", wave(), MotionRules(renamed, rules.limits)).files["m.csv"]
    table = (line for line in io.StringIO(content.decode()) if not line.startswith("#"))
    assert next(csv.reader(table))[1:3] == [f"q_{name}" for name in names]


def test_urscript_is_for_six_joints_that_turn() -> None:
    with pytest.raises(OutputError, match=r"six joints that turn, and 'pendulum' has 2"):
        export_motion("m.script", wave(), rules_of())
    with pytest.raises(OutputError, match=r"500 Hz .*125 Hz.* not 100"):
        export_motion("m.script", tx40().motions[0], tx40().rules[0], 100.0)


def test_files_are_written_together_or_not_at_all(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"does not exist"):
        write_files({tmp_path / "a.csv": b"1", tmp_path / "missing" / "b.csv": b"2"})
    assert not list(tmp_path.iterdir())
    write_files({tmp_path / "a.csv": b"1"})
    write_files({tmp_path / "a.csv": b"2", tmp_path / "b.csv": b"3"})
    assert {entry.name: entry.read_bytes() for entry in tmp_path.iterdir()} == {"a.csv": b"2", "b.csv": b"3"}


# --- The limits file --------------------------------------------------------------------------------------------------


def limits_of(text: str, place: Path) -> Any:
    (place / "limits.toml").write_text(text, "utf-8")
    return read_limits(place / "limits.toml", read_robot("pendulum.toml"), "pendulum.toml")


def test_limits_are_shares_of_the_robot_files_own_until_stated(place: Path) -> None:
    allowed = limits_of(
        'share = 0.5\nvelocity = 3.0\n[joint.joint2]\nupper = "pi/4"\nacceleration = 7.0\njerk = 90.0\n', place
    )
    limits = allowed.limits
    np.testing.assert_allclose(limits.lower, [-1.0, -1.0])
    np.testing.assert_allclose(limits.upper, [1.0, np.pi / 4])
    np.testing.assert_allclose(limits.velocity, [3.0, 3.0])
    np.testing.assert_allclose(limits.acceleration, [3.0 / SPEED_UP_S, 7.0])
    np.testing.assert_allclose(limits.jerk, [np.inf, 90.0])
    assert allowed.surroundings is None
    assert len(allowed.notes) == 1
    assert "joint1 6 rad/s²" in allowed.notes[0]
    assert "joint2" not in allowed.notes[0]


def test_what_is_in_the_way_is_read(place: Path) -> None:
    allowed = limits_of(
        '[[plane]]\nname = "floor"\nnormal = [0, 0, 2]\noffset = -1.0\n'
        '[[box]]\nname = "post"\ncentre = [1, 0, 0]\nsize = [0.1, 0.2, 0.3]\nrpy = [0, 0, "pi/2"]\n'
        '[[capsule]]\nlink = "link2"\nstart = [0, 0, 0]\nend = [0.4, 0, 0]\nradius = 0.05\n'
        '[collision]\nmargin = 0.02\nignore = [["link2", "floor"]]\n',
        place,
    )
    found = allowed.surroundings
    assert found is not None
    # the capsule stands for its own link; the others get a skeleton
    assert [one.link for one in found.capsules] == ["base", "link1", "link2"]
    assert found.capsules[2].radius == 0.05
    assert "1 capsule of 'limits.toml'; a skeleton of" in allowed.notes[1]
    assert "for base, link1, which have none." in allowed.notes[1]
    assert found.margin == 0.02
    np.testing.assert_allclose(found.boxes[0].rotation @ [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], atol=1e-12)
    names = Clearance.of(read_robot("pendulum.toml"), found).names
    assert {"link1 - floor", "link1 - post", "link2 - post"} <= set(names)
    assert "link2 - floor" not in names


def test_a_skeleton_stands_in_for_shapes(place: Path) -> None:
    allowed = limits_of("[collision]\nradius = 0.07\n", place)
    assert {one.radius for one in allowed.surroundings.capsules} == {0.07}
    shapes, margin = allowed.notes[-2:]
    assert "skeleton of 0.07 m radius (stated)" in shapes
    assert "ends at the frame of link2" in shapes
    assert margin == "Margin kept to all shapes: 0.02 m, the default."
    assert allowed.surroundings.margin == MARGIN == 0.02


def test_a_skeleton_is_as_thick_as_suits_the_robot(place: Path) -> None:
    """KUKA's KR300 is a third of a metre thick, a TX40 six centimetres."""
    for name, least, most in (("tx40", 0.06, 0.06), ("ur10e", 0.09, 0.13), ("kr300", 0.2, 0.3)):
        (place / "limits.toml").write_text("[collision]\n", "utf-8")
        allowed = read_limits(place / "limits.toml", read_robot(name), name)
        assert allowed.surroundings is not None
        (radius,) = {one.radius for one in allowed.surroundings.capsules}
        assert least <= radius <= most
        assert f"{radius:.3g} m radius (the default" in allowed.notes[-2]


PEDESTAL = """\
<robot name="arm"><link name="world"/><link name="pedestal"/><link name="base_link"/><link name="upper"/>
<link name="tool"/>
<joint name="down" type="fixed"><parent link="world"/><child link="pedestal"/><origin xyz="0 0 0.4"/></joint>
<joint name="seat" type="fixed"><parent link="pedestal"/><child link="base_link"/>
 <origin xyz="0.1 0 0.1" rpy="0 0 1.5707963267948966"/></joint>
<joint name="swing" type="revolute"><parent link="base_link"/><child link="upper"/><axis xyz="0 1 0"/>
 <limit lower="-1" upper="1" velocity="2" effort="30"/></joint>
<joint name="flange" type="fixed"><parent link="upper"/><child link="tool"/><origin xyz="0.4 0 0"/></joint></robot>
"""
OBSTACLES = (
    '[[plane]]\nname = "floor"\nnormal = [0, 0, 1]\noffset = -0.2\n'
    '[[plane]]\nname = "wall"\nnormal = [2, 0, 0]\noffset = -0.3\n'
    '[[box]]\nname = "post"\ncentre = [0.6, 0, 0]\nsize = [0.1, 0.2, 0.3]\n[collision]\n'
)


def obstacles(place: Path, frame: str, robot: str = "arm.urdf") -> tuple[Any, str]:
    (place / "limits.toml").write_text(OBSTACLES + frame, "utf-8")
    allowed = read_limits(place / "limits.toml", read_robot(robot), robot)
    return allowed.surroundings, "\n".join(allowed.notes)


def test_obstacles_are_seen_from_the_root_or_from_a_link_that_is_named(place: Path) -> None:
    (place / "arm.urdf").write_text(PEDESTAL, "utf-8")
    for frame in ("", 'frame = "world"\n'):
        around, said = obstacles(place, frame)
        assert "Obstacles are given in the frame of 'world', the root of 'arm.urdf'." in said
        assert [plane.offset for plane in around.planes] == [-0.2, -0.3]
    around, said = obstacles(place, 'frame = "base_link"\n')
    assert "of 'base_link', which is at (0.1, 0, 0.5) m and rotated in the frame of 'world', the root of" in said
    # base_link looks along the world's y, 0.1 m beside its origin and 0.5 m above it
    floor, wall = around.planes
    np.testing.assert_allclose([*floor.normal, floor.offset], [0.0, 0.0, 1.0, 0.3], atol=1e-12)
    np.testing.assert_allclose([*wall.normal, wall.offset], [0.0, 1.0, 0.0, -0.3], atol=1e-12)
    np.testing.assert_allclose(around.boxes[0].centre, [0.1, 0.6, 0.5], atol=1e-12)
    np.testing.assert_allclose(around.boxes[0].rotation[:, 0], [0.0, 1.0, 0.0], atol=1e-12)
    for frame, message in (
        ("upper", r"frame 'upper' moves with the robot.* Valid: world, pedestal, base_link"),
        ("tool", r"frame 'tool' moves with the robot"),
        ("base_lnk", r"\[collision\]: Unknown frame 'base_lnk'. Did you mean 'base_link'"),
    ):
        with pytest.raises(RobotError, match=message):
            obstacles(place, f'frame = "{frame}"\n')


def test_a_table_that_places_its_base_tells_the_world_from_it(place: Path) -> None:
    (place / "high.toml").write_text(PENDULUM.replace("[[joint]]", "base_xyz = [0, 0, 0.5]\n[[joint]]", 1), "utf-8")
    around, said = obstacles(place, "", "high.toml")
    assert "the world of 'high.toml', in which 'base' is at (0, 0, 0.5) m." in said
    assert around.planes[0].offset == -0.2
    around, said = obstacles(place, 'frame = "base"\n', "high.toml")
    assert "the frame of 'base', which is at (0, 0, 0.5) m in the world of 'high.toml'." in said
    assert around.planes[0].offset == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("accelleration = 3.0\n", r"Unknown key 'accelleration'. Did you mean 'acceleration'"),
        ("[joint.joint3]\nupper = 1.0\n", r"Unknown joint of robot 'pendulum' 'joint3'. Did you mean"),
        ("[joint.joint1]\nuper = 1.0\n", r"\[joint.joint1\]: Unknown key 'uper'. Did you mean 'upper'"),
        ("velocity = 4.5\n", r"velocity limit of joint1, 4.5, is 0.5 beyond the 4 of the robot file"),
        ("[joint.joint2]\nlower = -2.25\n", r"lower limit of joint2, -2.25, is 0.25 beyond the -2"),
        ("share = 1.5\n", r"above 0 and at most 1"),
        ("velocity = 'fast'\n", r"limits.toml': .*velocity"),
        ("acceleration = inf\n", r"not a finite number"),
        ("velocity =\n", r"not valid TOML"),
        ('[[box]]\nname = "post"\ncentre = [0, 0, 0]\nsice = [1, 1, 1]\n', r"box 'post': Unknown key 'sice'"),
        (
            '[[box]]\nname = "post"\ncentre = [0, 0, 0]\nsize = [1, 1, 0]\n',
            r"size of box 'post' must be three positive",
        ),
        ('[[plane]]\nname = "floor"\nnormal = [0, 0, 0]\n', r"normal of plane 'floor' is zero"),
        ("[collision]\nmargins = 1\n", r"\[collision\]: Unknown key 'margins'"),
    ],
)
def test_mistakes_in_a_limits_file(text: str, message: str, place: Path) -> None:
    with pytest.raises((RobotError, DataError), match=message):
        limits_of(text, place)


# --- The command ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_command_on_the_tx40(steelyard: Run, place: Path) -> None:
    start = [0.0, -1.5, 1.5, 0.0, 0.0, 0.0]
    asked = ("excite", "tx40", *QUICK, "--noise", 0.5, "--start", ",".join(map(str, start)), "--json")
    told = steelyard(*asked, "--out", "m.csv", "--preview", "p.html")
    assert told.code == 0, told.err
    document = told.document
    assert document["schema"] == "steelyard.excite/1"
    assert document["criterion"] == "d-optimal"
    (motion,) = document["motions"]
    assert motion["file"] == "m.csv"
    np.testing.assert_allclose(motion["ends"], [start, start], atol=1e-12)
    assert all(row["beyond"] <= 1e-9 for row in motion["limits"])
    assert {row["quantity"] for row in motion["limits"] if not row["proven"]} == {"torque"}
    assert len(document["parameters"]) == 60
    assert all(row["std"] > 0.0 for row in document["parameters"])
    assert "link1.M" in document["never"]
    assert document["unseen"] == []
    frame = pl.read_csv("m.csv", comment_prefix="#")
    np.testing.assert_allclose(frame.row(0)[1:7], start, atol=1e-12)
    np.testing.assert_allclose(frame.row(-1)[1:7], start, atol=1e-12)
    for word in (
        "acceleration is given; assumed",
        "for all t",
        "Not identifiable with any motion",
        "search 1 of 1",
        "m.csv",
    ):
        assert word in told.err, word
    page = Path("p.html").read_text("utf-8")
    assert document["preview"] == "p.html"
    again = steelyard(*asked, "--out", "n.csv", "--preview", "o.html")
    assert again.code == 0
    assert Path("n.csv").read_bytes() == Path("m.csv").read_bytes()
    assert Path("o.html").read_text("utf-8") == page
    assert left_behind(place) == ["m.csv", "n.csv", "o.html", "p.html"]


def test_without_out_everything_is_told_and_nothing_written(steelyard: Run, place: Path) -> None:
    told = steelyard("excite", "pendulum.toml", *QUICK, "--family", "b-spline", "--criterion", "condition")
    assert told.code == 0, told.err
    assert "σ to expect" in told.err
    assert "No motion file was written" in told.err
    assert told.out == ""
    assert left_behind(place) == []


def test_a_duration_between_samples_is_rounded_up_so_that_jerks_hold(steelyard: Run, place: Path) -> None:
    (place / "limits.toml").write_text("jerk = 40.0\n", "utf-8")
    told = steelyard(
        "excite", "pendulum.toml", "--limits", "limits.toml", *QUICK, "--duration", 5.0033, "--start", "0.5,0.5",
        "--out", "m.csv", "--json",
    )  # fmt: skip
    assert told.code == 0, told.err
    t = pl.read_csv("m.csv", comment_prefix="#")["t"].to_numpy()
    assert told.document["motions"][0]["duration_s"] == pytest.approx(t[-1], abs=1e-9)
    assert 5.01 + 0.1 < t[-1] < 20.0


def test_a_file_that_exists_is_replaced(steelyard: Run, place: Path) -> None:
    Path("m.yaml").write_text("old", "utf-8")
    assert steelyard("excite", "pendulum.toml", *QUICK, "--duration", 4, "--rate", 50, "--out", "m.yaml").code == 0
    assert len(YAML(typ="safe").load(Path("m.yaml").read_text("utf-8"))["points"]) == 201
    assert left_behind(place) == ["m.yaml"]


def test_the_page_is_whole_and_needs_no_network(steelyard: Run, place: Path) -> None:
    told = steelyard(
        "excite", "pendulum.toml", *QUICK, "--start", "0.4,-0.2", "--target", "joint1.Fv=5%", "--preview", "p.html",
        "--json",
    )  # fmt: skip
    assert told.code == 0, told.err
    assert told.document["criterion"] == "targets"
    # the library that draws the robot in 3D names addresses but loads none
    page = without_plotly(Path("p.html").read_text("utf-8"))
    assert "http://" not in page and "https://" not in page  # noqa: PT018
    assert "default-src 'none'" in page
    pictures = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    # four of each joint and the trace
    assert len(pictures) == 9
    for picture in pictures:
        root = ElementTree.fromstring(picture)
        width, height = (float(x) for x in root.attrib["viewBox"].split()[2:])
        for line in root.iter("polyline"):
            points = np.array([[float(x) for x in pair.split(",")] for pair in line.attrib["points"].split()])
            assert np.all(points >= 0.0)
            assert np.all(points <= [width, height])
    assert pictures[0].count('class="mark"') == 2
    for row in told.document["parameters"]:
        assert f"<code>{row['name']}</code>" in page


def test_in_a_terminal_the_search_is_live(monkeypatch: pytest.MonkeyPatch) -> None:
    heard = io.StringIO()
    monkeypatch.setattr(command, "people", Console(file=heard, force_terminal=True, width=120))
    with command._searching(2, "d-optimal") as (progress, step):
        for search, values in enumerate(((3.0, 1.0, 0.5), (2.0, 0.25))):
            for value in values:
                step(search, value)
            progress("designing", search + 1, 2)
    assert "search 2 of 2" in heard.getvalue()
    assert "best 0.25" in heard.getvalue()


def test_bars_go_down_with_the_objective() -> None:
    drawn = command._bars([float(x) for x in range(100, 0, -1)], width=8)
    assert len(drawn) == 8
    assert list(drawn) == sorted(drawn, reverse=True)
    assert command._bars([1.0, 1.0]) == command.BLOCKS[0] * 2


@pytest.fixture
def project(place: Path) -> Path:
    """An identified pendulum: project.toml and its run folder."""
    columns = log_of(pendulum(), count=2400)
    rows = np.column_stack(list(columns.values()))
    text = "\n".join([",".join(columns), *(",".join(map(repr, row)) for row in rows.tolist())]) + "\n"
    (place / "log.csv").write_text(text, "utf-8")
    (place / "project.toml").write_text(PROJECT.format(terms='"plain"'), "utf-8")
    return place


def test_what_next_given_a_result(steelyard: Run, project: Path) -> None:
    assert steelyard("identify", "project.toml").code == 0
    told = steelyard("excite", "--given", "project-run", *QUICK, "--duration", 6, "--json")
    assert told.code == 0, told.err
    document = told.document
    assert document["criterion"] == "targets"
    assert document["rows_hz"] == 20.0
    assert document["worst"]["after"]["std_over_scale"] < document["worst"]["before"]["std_over_scale"]
    assert all(row["std"] <= row["std_before"] * (1 + 1e-9) for row in document["parameters"])
    result = json.loads((project / "project-run" / "result.json").read_text("utf-8"))
    for row, known in zip(document["parameters"], result["parameters"], strict=True):
        assert row["name"] == known["name"]
        assert row["std_before"] >= known["std_classical"] * (1 - 1e-9)
    assert re.search(r"Worst σ / scale .* now, .* after this motion, lowered \d+\.\dx", told.err)
    same = steelyard("excite", "pendulum.toml", "--given", "project-run", *QUICK, "--duration", 6, "--json")
    assert same.document == document
    for extra, message in (
        (("tx40",), "is of robot 'pendulum.toml', not of 'tx40'"),
        (("--terms", "rotor"), "leave out --terms"),
    ):
        refused = steelyard("excite", *extra, "--given", "project-run", *QUICK)
        assert refused.code == 2
        assert message in refused.err


def test_terms_without_a_gradient_are_left_out_and_said(steelyard: Run, project: Path) -> None:
    terms = '["rotor", "viscous", "coulomb", "offset", "dahl"]'
    (project / "project.toml").write_text(PROJECT.format(terms=terms), "utf-8")
    assert steelyard("identify", "project.toml").code == 0
    told = steelyard("excite", "--given", "project-run", *QUICK, "--duration", 6, "--json")
    assert told.code == 0, told.err
    assert told.document["terms"] == ["rotor", "viscous", "coulomb", "offset"]
    assert "Designed without dahl" in told.err
    assert not [row for row in told.document["parameters"] if row["std_before"] is None]


def test_two_loads_make_two_files(steelyard: Run, place: Path) -> None:
    (place / "project.toml").write_text(PROJECT.format(terms='"plain"') + LOADED, "utf-8")
    told = steelyard(
        "excite", "project.toml", *QUICK, "--load", "none", "--load", "weight", "--out", "m.csv", "--json"
    )  # fmt: skip
    assert told.code == 0, told.err
    assert [one["file"] for one in told.document["motions"]] == ["m-none.csv", "m-weight.csv"]
    assert left_behind(place) == ["m-none.csv", "m-weight.csv", "project.toml"]
    assert Path("m-none.csv").read_bytes() != Path("m-weight.csv").read_bytes()


def test_torques_with_a_load_need_its_mass(steelyard: Run, place: Path) -> None:
    unknown = PROJECT.format(terms='"plain"') + LOADED.replace("known = { M = 2.0 }\n", "")
    (place / "project.toml").write_text(unknown, "utf-8")
    (place / "limits.toml").write_text("torque = 40.0\n", "utf-8")
    asked = ("excite", "project.toml", *QUICK, "--limits", "limits.toml", "--load", "none", "--out", "m.csv", "--json")
    told = steelyard(*asked, "--load", "weight")
    assert told.code == 2
    assert re.search(r"the mass of the payload 'weight' is unknown.*--load weight=2\.5", told.err)
    told = steelyard(*asked, "--load", "weight=2")
    assert told.code == 0, told.err
    point = "Torques treat the payload 'weight' as a point mass of 2 kg at the origin of its frame on link2"
    assert [line for line in told.document["unbounded"] if line.startswith(point)]
    assert point in Path("m-weight.csv").read_text("utf-8")
    frame = pl.read_csv("m-weight.csv", comment_prefix="#")
    q, v, a = (frame.select([f"{symbol}_joint1", f"{symbol}_joint2"]).to_numpy().T for symbol in "qva")
    loaded = Model(pendulum().robot, pendulum().terms, payloads=[Payload("weight", known={"M": 2.0})])
    assert loaded.layout.nominal is not None
    tau = np.abs(loaded.torque(q, v, a, loaded.layout.nominal, load="weight")).max(axis=1)
    rows = [row["value"] for row in told.document["motions"][1]["limits"] if row["quantity"] == "torque"]
    np.testing.assert_allclose(rows, tau, rtol=2e-2)
    for load, message in (
        ("weight=much", r"--load takes NAME or NAME=KG"),
        ("weight=-1", r"the mass must be a positive number"),
        ("wait=2", r"Unknown load case 'wait'. Did you mean 'weight'"),
    ):
        told = steelyard(*asked, "--load", load)
        assert told.code == 2
        assert re.search(message, told.err), told.err
    (place / "project.toml").write_text(unknown.replace('"weight"', '"a/b"'), "utf-8")
    told = steelyard(*asked, "--load", "a/b=2")
    assert told.code == 2
    assert "the name becomes part of a file name, m-a/b.csv" in told.err


def test_rows_a_second_are_those_of_the_runs_that_were_fitted(steelyard: Run, project: Path) -> None:
    """A slow log to validate on says nothing about them."""
    lines = (project / "log.csv").read_text("utf-8").splitlines()
    (project / "slow.csv").write_text("\n".join([lines[0], *lines[1::8]]) + "\n", "utf-8")
    text = PROJECT.format(terms='"plain"').replace("rate_hz = 200.0\n", "")
    text = text.replace(
        "cutoff_hz = 20.0\nlowpass_hz = 8.0\ndecimate = 10", "cutoff_hz = 8.0\nlowpass_hz = 8.0\ndecimate = 10"
    )
    (project / "project.toml").write_text(text + '\n[[run]]\nlog = "slow.csv"\nrole = "validate"\n', "utf-8")
    told = steelyard("identify", "project.toml")
    assert told.code == 0, told.err
    told = steelyard("excite", "--given", "project-run", *QUICK, "--duration", 6, "--json")
    assert told.code == 0, told.err
    assert told.document["rows_hz"] == pytest.approx(20.0)


def test_torques_say_which_friction_they_exclude() -> None:
    model, theta, limits = pendulum(), pendulum().layout.nominal, rules_of(50.0).limits
    assert theta is not None
    assert torque_caveats(model, theta, limits, ("none",)) == ()
    for bare, of in (({"joint2"}, " of joint2"), ({"joint1", "joint2"}, "")):
        still = [c.owner in bare and c.symbol in ("Fv", "Fc") for c in model.layout.columns]
        (told,) = torque_caveats(model, np.where(still, 0.0, theta), limits, ("none",))
        assert told.startswith(f"Torques exclude friction{of}, for which the model has no values")
    assert torque_caveats(model, np.zeros_like(theta), rules_of().limits, ("none",)) == ()


def test_a_place_that_takes_no_file_is_found_before_the_search(steelyard: Run, place: Path) -> None:
    Path("m.csv").symlink_to("missing/m.csv")
    told = steelyard("excite", "pendulum.toml", *QUICK, "--out", "m.csv")
    assert told.code == 2
    assert "Cannot write 'm.csv': No such file or directory" in told.err
    assert "search" not in told.err


FLOOR = '[[plane]]\nname = "floor"\nnormal = [0, 0, 1]\noffset = {}\n[collision]\nradius = 0.05\n'


@pytest.mark.parametrize(
    ("arguments", "limits", "message"),
    [
        (["--start", "2.5,0"], "", r"joint1.*2\.5.*(beyond|outside|above)"),
        (["--start", "0"], "", r"--start takes 2 finite numbers"),
        (["--start", "0,x"], "", r"--start takes numbers"),
        (["--start=-1.2,0"], FLOOR.format("-0.2"), r"link\d - floor"),
        ([], FLOOR.format("5.0"), r"link\d - floor"),
        (["--duration", "0.02"], "", r"0.02 s gives 2 rows at 50 Hz for 16 base parameters, 14 too few"),
        (["--duration", "0.3"], "acceleration = 0.1\n", r"lets it reach 0.0075 rad/s in 0.3 s"),
        ([], "[joint.joint1]\nlower = 0.1\nupper = 0.1001\n", r"Position limits of joint1"),
        ([], "acceleration = 0.001\n", r"Acceleration limit of joint1: 0.001 rad/s²"),
        ([], "velocity = 0.0001\n", r"Velocity limit of joint1"),
        ([], "torque = 0.5\n", r"Torque limit of joint\d: 0.5 N·m"),
        (["--criterion", "e-optimal"], "", r"Unknown criterion 'e-optimal'"),
        (["--criterion", "targets"], "", r"needs --target NAME=SHARE"),
        (["--family", "bspline"], "", r"Unknown family 'bspline'. Did you mean 'b-spline'"),
        (["--parameters", "link9.M"], "", r"Unknown base parameter 'link9.M'"),
        (["--target", "joint1.Fv"], "", r"--target takes NAME=SHARE"),
        (["--target", "joint1.Fv=-1"], "", r"share must be positive"),
        (["--target", "joint1.Fv=0.1", "--criterion", "condition"], "", r"--target applies to --criterion targets"),
        (["--parameters", "joint1.Fv", "--criterion", "condition"], "", r"--parameters applies to"),
        (["--load", "box"], "", r"Unknown load case 'box'"),
        (["--noise", "0"], "", r"positive σ"),
        (["--noise", "1,2,3"], "", r"one for each of 2 joints"),
        (["--row-rate", "0"], "", r"rate of rows \(rate_hz, --row-rate\) \[Hz\] must be positive, not 0"),
        (["--row-rate", "1e12"], "", r"1e\+12 rows per second gives 1e\+13 samples.*lower --row-rate"),
        (["--duration", "1e12"], "", r"A duration of 1e\+12 s .* shorter --duration"),
        (["--duration=-1"], "", r"duration of a motion \(--duration\) \[s\] must be positive, not -1"),
        ([], "acceleration = 0.0\n", r"friction is sliding: give a limit above zero"),
        (["--rate", "0.1"], "", r"between 1 and 100000 Hz"),
        (["--out", "missing/m.csv"], "", r"folder 'missing'.* does not exist"),
        (["--out", "m.txt"], "", r"Unknown kind of motion file '.txt'"),
        (["--out", "m.script"], "", r"six joints that turn"),
        (["--preview", "p.csv"], "", r"name it 'p.html'"),
        (["--limits", "missing.toml"], "", r"limits file 'missing.toml' does not exist"),
        (["--given", "missing"], "", r"No result at 'missing'"),
    ],
)  # fmt: skip
def test_bad_input_is_told_and_nothing_is_written(
    arguments: list[str], limits: str, message: str, steelyard: Run, place: Path
) -> None:
    stated = []
    if limits:
        (place / "limits.toml").write_text(limits, "utf-8")
        stated = ["--limits", "limits.toml"]
    written = [] if "--out" in arguments else ["--out", "m.csv"]
    told = steelyard("excite", "pendulum.toml", *QUICK, *stated, *written, *arguments)
    assert told.code == 2, told.err
    assert re.search(message, told.err), told.err
    assert left_behind(place) == (["limits.toml"] if limits else [])


def test_torques_without_inertias_are_free_unless_a_file_limits_them(steelyard: Run, place: Path) -> None:
    bare = re.sub(r"inertia = .*", "effort = 50.0", PENDULUM)
    (place / "pendulum.toml").write_text(bare, "utf-8")
    (place / "limits.toml").write_text("acceleration = 6.0\n", "utf-8")
    for extra in ((), ("--limits", "limits.toml")):
        told = steelyard("excite", "pendulum.toml", *QUICK, *extra, "--rate", 0, "--json")
        assert told.code == 0, told.err
        assert "Torques are not limited: the robot file gives no inertias" in told.err
        assert "torque" not in {row["quantity"] for row in told.document["motions"][0]["limits"]}
        assert {row["value"] for row in told.document["parameters"]} == {None}
    (place / "limits.toml").write_text("[joint.joint2]\ntorque = 6.0\n", "utf-8")
    told = steelyard("excite", "pendulum.toml", *QUICK, "--limits", "limits.toml")
    assert told.code == 2
    assert "'limits.toml' limits torques, and the file of 'pendulum' gives no inertias" in told.err


def test_what_is_not_a_number_does_not_hold() -> None:
    rules = replace(rules_of(50.0), theta=np.full(len(pendulum().layout), np.nan))
    rows = rules.limit_use(wave())
    assert {row.quantity for row in broken(rows)} == {"torque"}
    with pytest.raises(DataError, match=r"The motion exceeds its limits: torque of joint1 is nan"):
        check_rows(rows, "The motion")
    with pytest.raises(OutputError, match=r"torque of joint1"):
        export_motion("m.csv", wave(), rules)


def test_a_robot_is_needed(steelyard: Run) -> None:
    told = steelyard("excite")
    assert told.code == 2
    assert "Give a robot" in told.err


def test_surroundings_are_kept_clear_by_the_motion_and_its_ramps(steelyard: Run, place: Path) -> None:
    (place / "limits.toml").write_text(FLOOR.format("-0.3") + "margin = 0.02\n", "utf-8")
    told = steelyard(
        "excite", "pendulum.toml", "--limits", "limits.toml", *QUICK, "--start", "0.2,0.2", "--out", "m.csv", "--json"
    )  # fmt: skip
    assert told.code == 0, told.err
    rows = [row for row in told.document["motions"][0]["limits"] if row["quantity"] == "clearance"]
    assert rows
    assert all(row["value"] >= 0.02 for row in rows)
    q = pl.read_csv("m.csv", comment_prefix="#").select(["q_joint1", "q_joint2"]).to_numpy().T
    allowed = read_limits("limits.toml", read_robot("pendulum.toml"), "pendulum.toml")
    assert allowed.surroundings is not None
    distance = Clearance.of(read_robot("pendulum.toml"), allowed.surroundings).distances(q)
    assert distance.min() >= 0.02 - 1e-9


# --- What is said -----------------------------------------------------------------------------------------------------

FREE = "Torques are not limited: neither the robot file"
UNCHECKED = "Collisions are not checked: no [[plane]], [[box]] or [collision] in the limits."


@pytest.mark.slow
def test_what_is_not_bounded_is_said_everywhere(steelyard: Run, place: Path) -> None:
    for name in ("m.csv", "m.parquet", "m.yaml"):
        told = steelyard("excite", "pendulum.toml", *QUICK, "--out", name, "--preview", "p.html", "--json")
        assert told.code == 0, told.err
        free, unchecked = told.document["unbounded"]
        assert free.startswith(FREE)
        peaks = {joint: float(peak) for joint, peak in re.findall(r"(joint\d) ([\d.]+) N·m", free)}
        q, v, a = tx_free(name)
        reached = np.abs(pendulum().torque(q, v, a, pendulum().layout.nominal)).max(axis=1)  # type: ignore[arg-type]
        np.testing.assert_allclose([peaks["joint1"], peaks["joint2"]], reached, rtol=0.02)
        assert unchecked == UNCHECKED
        metadata = pl.read_parquet_metadata(name)["steelyard"] if name == "m.parquet" else Path(name).read_text("utf-8")
        for line in (free, unchecked):
            assert line in told.err
            assert line in metadata
            assert line in Path("p.html").read_text("utf-8")


def tx_free(name: str) -> tuple[Array, Array, Array]:
    """Positions, velocities and accelerations in a motion file of the pendulum."""
    if name == "m.yaml":
        points = YAML(typ="safe").load(Path(name).read_text("utf-8"))["points"]
        q, v, a = (np.array([p[key] for p in points]).T for key in ("positions", "velocities", "accelerations"))
        return q, v, a
    frame = pl.read_parquet(name) if name == "m.parquet" else pl.read_csv(name, comment_prefix="#")
    q, v, a = (frame.select([f"{symbol}_joint1", f"{symbol}_joint2"]).to_numpy().T for symbol in "qva")
    return q, v, a


def test_what_is_bounded_is_not_said_to_be_free(steelyard: Run, place: Path) -> None:
    (place / "limits.toml").write_text("[joint.joint1]\ntorque = 60.0\n[collision]\n", "utf-8")
    said = steelyard("excite", "pendulum.toml", *QUICK, "--limits", "limits.toml", "--json").document["unbounded"]
    assert re.fullmatch(FREE + r".* reach joint2 [\d.]+ N·m\.", said[0])
    assert said[1:] == ["Collisions with surroundings are not checked: no [[plane]] or [[box]] in the limits."]
    (place / "limits.toml").write_text("torque = 60.0\n" + FLOOR.format("-1.5"), "utf-8")
    told = steelyard("excite", "pendulum.toml", *QUICK, "--limits", "limits.toml", "--json")
    assert told.document["unbounded"] == []
    assert "not limited" not in told.err
    (place / "limits.toml").write_text("torque = 60.0\n" + FLOOR.format("-1.5") + "self_collision = false\n", "utf-8")
    told = steelyard("excite", "pendulum.toml", *QUICK, "--limits", "limits.toml", "--json")
    assert told.document["unbounded"] == [
        "Collisions of the robot with itself are not checked: self_collision = false in the limits."
    ]


def test_where_no_pair_is_left_it_stands_out(steelyard: Run, place: Path) -> None:
    none = "No clearance is checked: there is no pair of shapes."
    one = 'self_collision = false\nignore = [["link1", "floor"]]\n'
    for text, pairs in (("[collision]\nself_collision = false\n", "0 pairs"), (FLOOR.format("-1.5") + one, "1 pair")):
        (place / "limits.toml").write_text(text, "utf-8")
        told = steelyard("excite", "pendulum.toml", *QUICK, "--limits", "limits.toml", "--json")
        assert told.code == 0, told.err
        assert any(line.startswith(f"{pairs} kept at least 0.02 m apart") for line in told.document["history"])
        assert any(line.startswith(none) for line in told.document["unbounded"]) == (pairs == "0 pairs")


def test_a_script_says_it_in_ascii() -> None:
    found = tx40()
    content = export_motion("m.script", found.motions[0], found.rules[0], None, ["It takes 3 N·m."]).files["m.script"]
    assert content.startswith(b"# It takes 3 N.m.\n")


def test_targets_are_told_met_or_missed(steelyard: Run, place: Path) -> None:
    asked = ("--target", "link2.MX=90%", "--target", "link1.ZZ=0.0001%")
    told = steelyard("excite", "pendulum.toml", *QUICK, *asked, "--preview", "p.html", "--json")
    assert told.code == 0, told.err
    met, missed = told.document["targets"]
    assert (met["name"], met["wanted"], met["met"]) == ("link2.MX", 0.9, True)
    assert (missed["name"], missed["met"]) == ("link1.ZZ", False)
    shares = {row["name"]: row["relative"] for row in told.document["parameters"]}
    assert met["reached"] == shares["link2.MX"] <= 0.9
    for text in (told.err, Path("p.html").read_text("utf-8")):
        assert re.search(r"Target link2\.MX: σ wanted 90\.0% of its value, to expect [\d.]+%: met", text)
        assert re.search(r"Target link1\.ZZ: σ wanted .* to expect [\d.]+%: missed", text)


@pytest.mark.parametrize("criterion", ["condition", "d-optimal"])
def test_the_criterion_is_printed_once(criterion: str, steelyard: Run, place: Path) -> None:
    told = steelyard("excite", "pendulum.toml", *QUICK, "--criterion", criterion, "--json")
    verdict = next(line for line in told.err.splitlines() if line.startswith("Identifies "))
    assert verdict.count("condition") == 1
    assert f"{told.document['value']:.4g}" in verdict
    assert "objective" not in told.err
    # the search tells about the same number, not its logarithm
    (about,) = re.findall(rf"search 1 of 1: {criterion} about (\S+) after", told.err)
    assert float(about) == pytest.approx(told.document["value"], rel=0.5)


def test_parameters_whose_value_is_zero_have_no_share(steelyard: Run, place: Path) -> None:
    told = steelyard("excite", "pendulum.toml", *QUICK, "--preview", "p.html", "--json")
    zero = [row for row in told.document["parameters"] if row["value"] == 0.0]
    assert zero
    page = Path("p.html").read_text("utf-8")
    for row in zero:
        assert row["relative"] is None
        (cells,) = re.findall(rf"<code>{re.escape(row['name'])}</code></th>(.*?)</tr>", page, re.DOTALL)
        assert re.findall(r"<td[^>]*>(.*?)</td>", cells)[2] == "—"


def test_minus_zero_is_zero_in_the_header() -> None:
    ends = np.zeros((6, 2))
    ends[4, 1] = -1e-9
    found = replace(tx40(), motions=(Quintic(ends, np.array([0.0, 1.0])),))
    assert "and ends at rest there." in found.remarks(0)[1]


def test_only_fitted_runs_are_what_is_known(steelyard: Run, project: Path) -> None:
    lines = (project / "log.csv").read_text("utf-8").splitlines(keepends=True)
    (project / "check.csv").write_text("".join([lines[0], *lines[1200:]]), "utf-8")
    (project / "log.csv").write_text("".join(lines[:1200]), "utf-8")
    text = (project / "project.toml").read_text("utf-8") + '\n[[run]]\nlog = "check.csv"\nrole = "validate"\n'
    (project / "project.toml").write_text(text, "utf-8")
    assert steelyard("identify", "project.toml").code == 0
    told = steelyard("excite", "--given", "project-run", *QUICK, "--duration", 6)
    assert told.code == 0, told.err
    assert re.search(r"knowledge from result of log\S* by", told.err)
    assert "check.csv" not in told.err
    assert "The scale of a parameter is its value" in told.err


def test_help_keeps_its_units(steelyard: Run) -> None:
    """Brackets would be taken for markup and left out."""
    told = " ".join(re.sub(r"[│\s]+", " ", steelyard("excite", "--help").out).split())
    for words in ("without ramps [s]; rounded", "Effort noise σ [N·m or N]:", "return to [rad or m],"):
        assert words in told
