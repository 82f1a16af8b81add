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

from conftest import Run
from simulated import PENDULUM, log_of
from steelyard.clearance import Clearance
from steelyard.cli import excite as command
from steelyard.errors import DataError, OutputError, RobotError
from steelyard.excite import Excitation, allowed_of, excite, subject_of
from steelyard.export.playback import Written, check_playback
from steelyard.export.trajectories import FORMATS, LEAD_IN_S, export_motion
from steelyard.formats.limits import read_limits
from steelyard.formats.robots import read_robot
from steelyard.formats.tables import read_table
from steelyard.limit_proofs import proven_bounds
from steelyard.model import Model
from steelyard.motion_limits import SPEED_UP_S, MotionLimits
from steelyard.motion_rules import MotionRules, broken, check_rows
from steelyard.parameters import Array
from steelyard.ramps import USED, ramped, shortest
from steelyard.results import write_files
from steelyard.surroundings import Box, Capsule, Surroundings
from steelyard.terms import DEFAULT_TERMS, named_terms
from steelyard.trajectory import Fourier, Quintic

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
    assert not broken(rules.reached(whole))
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
    peak = max(row.value for row in rules_of(200.0).reached(fast) if row.quantity == "torque")
    tight = rules_of(0.6 * peak, acceleration=500.0, velocity=50.0, jerk=np.inf)
    slow = ramped(wave(), start, tight)
    assert slow.parts[0].duration > 1.2 * shortest(np.abs(start - wave().at([0.0])[0][:, 0]), tight.limits)
    assert not [row for row in broken(tight.reached(slow)) if row.quantity == "torque"]


def test_a_ramp_that_gravity_forbids_names_the_torque() -> None:
    with pytest.raises(DataError, match=r"from the start posture .* blocked: torque of joint1 is .* however slowly"):
        ramped(wave(0.1), np.array([1.5, 1.5]), rules_of(6.0))


def test_a_ramp_that_is_blocked_names_the_pair() -> None:
    robot = pendulum().robot
    arm = Capsule("link1", np.zeros(3), np.array([0.4, 0.0, 0.0]), 0.02)
    tip = 0.4 * np.array([np.cos(0.9), 0.0, np.sin(0.9)])
    clearance = Clearance.of(robot, Surroundings((arm,), boxes=(Box("post", tip, np.full(3, 0.1)),)))
    free = rules_of(clearance=clearance)
    assert not broken(free.reached(wave(0.1)))
    with pytest.raises(DataError, match=r"blocked: clearance of link1 - post"):
        ramped(wave(0.1), np.array([1.6, -0.2]), free)


def test_a_motion_that_starts_there_needs_no_ramp() -> None:
    motion = wave()
    assert ramped(motion, motion.at([0.0])[0][:, 0], rules_of()) is motion


# --- What a controller makes of the samples ---------------------------------------------------------------------------


@given(
    q=st.lists(st.floats(-1.0, 1.0), min_size=4, max_size=4),
    v=st.lists(st.floats(-2.0, 2.0), min_size=4, max_size=4),
    a=st.lists(st.floats(-9.0, 9.0), min_size=4, max_size=4),
    h=st.floats(0.05, 0.5),
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
    "m.csv": lambda content: of_table(pl.read_csv(content)),
    "m.parquet": lambda content: of_table(pl.read_parquet(content)),
    "m.yaml": of_yaml,
    "m.script": of_script,
}


@pytest.mark.parametrize(("name", "rate"), {"m.csv": None, "m.parquet": None, "m.yaml": 25.0, "m.script": None}.items())
def test_what_is_written_is_the_motion(name: str, rate: float | None) -> None:
    found = tx40()
    content = export_motion(name, found.motions[0], found.rules[0], rate, found.remarks(0)).files[name]
    t, q = READERS[name](content)
    assert len(t) == {"m.script": 5001, "m.yaml": 251}.get(name, 1001)
    np.testing.assert_allclose(q, found.motions[0].at(t)[0], atol=1e-8)
    assert content == export_motion(name, found.motions[0], found.rules[0], rate, found.remarks(0)).files[name]
    assert FORMATS[".yml"] is FORMATS[".yaml"]


def test_names_of_joints_are_as_in_the_robot() -> None:
    """Whatever is in them: quotes, colons, brackets."""
    rules, names = rules_of(), ('a "b": [c]', "d, #e")
    robot = pendulum().robot
    joints = tuple(replace(joint, name=name) for joint, name in zip(robot.joints, names, strict=True))
    renamed = Model(replace(robot, joints=joints), pendulum().terms)
    content = export_motion("m.yaml", wave(), MotionRules(renamed, rules.limits)).files["m.yaml"]
    assert YAML(typ="safe").load(content)["joint_names"] == list(names)
    content = export_motion("m.csv", wave(), MotionRules(renamed, rules.limits)).files["m.csv"]
    assert next(csv.reader(io.StringIO(content.decode())))[1:3] == [f"q_{name}" for name in names]


def test_urscript_is_for_six_joints_that_turn() -> None:
    with pytest.raises(OutputError, match=r"six joints that turn, and 'pendulum' has 2"):
        export_motion("m.script", wave(), rules_of())
    with pytest.raises(OutputError, match=r"500 Hz .*125 Hz.* not 100"):
        export_motion("m.script", tx40().motions[0], tx40().rules[0], 100.0)


def test_files_are_written_together_or_not_at_all(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"no folder"):
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
    assert len(allowed.said) == 1
    assert "joint1 6 rad/s²" in allowed.said[0]
    assert "joint2" not in allowed.said[0]


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
    assert [one.link for one in found.capsules] == ["link2"]
    assert found.margin == 0.02
    np.testing.assert_allclose(found.boxes[0].rotation @ [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], atol=1e-12)
    assert Clearance.of(read_robot("pendulum.toml"), found).names == ("link2 - post",)


def test_a_skeleton_stands_in_for_shapes(place: Path) -> None:
    allowed = limits_of("[collision]\nradius = 0.07\n", place)
    assert {one.radius for one in allowed.surroundings.capsules} == {0.07}
    assert "skeleton of 0.07 m" in allowed.said[-1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("accelleration = 3.0\n", r"Unknown key 'accelleration'. Did you mean 'acceleration'"),
        ("[joint.joint3]\nupper = 1.0\n", r"Unknown joint of robot 'pendulum' 'joint3'. Did you mean"),
        ("[joint.joint1]\nuper = 1.0\n", r"\[joint.joint1\]: Unknown key 'uper'. Did you mean 'upper'"),
        ("velocity = 4.5\n", r"velocity limit of joint1, 4.5, is 0.5 beyond the 4 of the robot file"),
        ("[joint.joint2]\nlower = -2.25\n", r"lower limit of joint2, -2.25, is 0.25 beyond the -2"),
        ("share = 1.5\n", r"above 0 and up to 1"),
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
    frame = pl.read_csv("m.csv")
    np.testing.assert_allclose(frame.row(0)[1:7], start, atol=1e-12)
    np.testing.assert_allclose(frame.row(-1)[1:7], start, atol=1e-12)
    for word in (
        "acceleration is stated; taken",
        "proven",
        "Not identifiable however you move",
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
    t = pl.read_csv("m.csv")["t"].to_numpy()
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
    page = Path("p.html").read_text("utf-8")
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
    with command._searching(2) as (progress, step):
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
    assert document["worst"]["after"]["relative"] < document["worst"]["before"]["relative"]
    assert all(row["std"] <= row["std_before"] * (1 + 1e-9) for row in document["parameters"])
    result = json.loads((project / "project-run" / "result.json").read_text("utf-8"))
    for row, known in zip(document["parameters"], result["parameters"], strict=True):
        assert row["name"] == known["name"]
        assert row["std_before"] >= known["std_classical"] * (1 - 1e-9)
    assert re.search(r"Worst relative σ .* now, .* after this motion, lowered \d+\.\dx", told.err)
    same = steelyard("excite", "pendulum.toml", "--given", "project-run", *QUICK, "--duration", 6, "--json")
    assert same.document == document
    for extra, message in (
        (("tx40",), "is of 'pendulum.toml', not of 'tx40'"),
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
        (["--target", "joint1.Fv=0.1", "--criterion", "condition"], "", r"--target belongs to --criterion targets"),
        (["--parameters", "joint1.Fv", "--criterion", "condition"], "", r"--parameters belongs to"),
        (["--load", "box"], "", r"Unknown load case 'box'"),
        (["--noise", "0"], "", r"positive σ"),
        (["--noise", "1,2,3"], "", r"one for each of 2 joints"),
        (["--rows", "0"], "", r"rate \[Hz\] must be positive"),
        (["--rate", "0.1"], "", r"between 1 and 100000 Hz"),
        (["--out", "missing/m.csv"], "", r"no folder 'missing'"),
        (["--out", "m.txt"], "", r"Unknown kind of motion file '.txt'"),
        (["--out", "m.script"], "", r"six joints that turn"),
        (["--preview", "p.csv"], "", r"name it 'p.html'"),
        (["--limits", "missing.toml"], "", r"no limits file 'missing.toml'"),
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
        assert "Torques are not bounded" in told.err
        assert "torque" not in {row["quantity"] for row in told.document["motions"][0]["limits"]}
        assert {row["value"] for row in told.document["parameters"]} == {None}
    (place / "limits.toml").write_text("[joint.joint2]\ntorque = 6.0\n", "utf-8")
    told = steelyard("excite", "pendulum.toml", *QUICK, "--limits", "limits.toml")
    assert told.code == 2
    assert "'limits.toml' limits torques, and the file of 'pendulum' gives no inertias" in told.err


def test_what_is_not_a_number_does_not_hold() -> None:
    rules = replace(rules_of(50.0), theta=np.full(len(pendulum().layout), np.nan))
    rows = rules.reached(wave())
    assert {row.quantity for row in broken(rows)} == {"torque"}
    with pytest.raises(DataError, match=r"The motion does not keep to its limits: torque of joint1 is nan"):
        check_rows(rows, "The motion")
    with pytest.raises(OutputError, match=r"torque of joint1"):
        export_motion("m.csv", wave(), rules)


def test_a_robot_is_needed(steelyard: Run) -> None:
    told = steelyard("excite")
    assert told.code == 2
    assert "Name a robot" in told.err


def test_surroundings_are_kept_clear_by_the_motion_and_its_ramps(steelyard: Run, place: Path) -> None:
    (place / "limits.toml").write_text(FLOOR.format("-0.3") + "margin = 0.02\n", "utf-8")
    told = steelyard(
        "excite", "pendulum.toml", "--limits", "limits.toml", *QUICK, "--start", "0.2,0.2", "--out", "m.csv", "--json"
    )  # fmt: skip
    assert told.code == 0, told.err
    rows = [row for row in told.document["motions"][0]["limits"] if row["quantity"] == "clearance"]
    assert rows
    assert all(row["value"] >= 0.02 for row in rows)
    q = pl.read_csv("m.csv").select(["q_joint1", "q_joint2"]).to_numpy().T
    allowed = read_limits("limits.toml", read_robot("pendulum.toml"), "pendulum.toml")
    assert allowed.surroundings is not None
    distance = Clearance.of(read_robot("pendulum.toml"), allowed.surroundings).distances(q)
    assert distance.min() >= 0.02 - 1e-9
