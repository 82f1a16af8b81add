"""Logs as they come: no clock, an unknown clock, several motions in a file, a motion in several files, packed files.

The efforts come from Pinocchio.
"""

from __future__ import annotations

import gzip
import io
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pinocchio
import pytest

from steelyard._arrays import Array
from steelyard.errors import DataError
from steelyard.formats.robots.urdf import read_urdf
from steelyard.model.robot import Robot
from steelyard.project.draft import HEADERS, draft_project
from steelyard.project.project import Project, read_project
from steelyard.signals.composed import ROW_CLOCK, joined, with_rate
from steelyard.signals.episodes import Episode, Episodes, one_episode, restarts
from steelyard.signals.guess import guess_channels, guess_runs
from steelyard.signals.recording import Recording
from testbed.command import Run
from testbed.simulated import arm

RATE, ROWS = 100.0, 2400
LINK = """<link name="{0}"><inertial><origin xyz="0.2 0.03 0"/><mass value="{1}"/>
<inertia ixx="0.02" iyy="0.05" izz="0.06" ixy="0" ixz="0" iyz="0"/></inertial></link>"""
JOINT = """<joint name="{0}" type="revolute"><parent link="{1}"/><child link="{2}"/><origin xyz="{3} 0 0"/>
<axis xyz="0 1 0"/><limit lower="-3" upper="3" velocity="5" effort="200"/></joint>"""
URDF = f"""<robot name="lift"><link name="base"/>{LINK.format("upper", 3.0)}{LINK.format("lower", 2.0)}
{JOINT.format("hip", "base", "upper", 0.0)}{JOINT.format("knee", "upper", "lower", 0.4)}</robot>"""
BRICK_KG, BRICK_AT = 2.5, (0.3, 0.0, 0.05)
Columns = dict[str, Array]


def columns(seed: int = 0, rows: int = ROWS, brick_kg: float = 0.0) -> Columns:
    """Columns of one motion: inverse dynamics of Pinocchio, friction and noise; a brick may hang on the lower link."""
    model = pinocchio.buildModelFromXML(URDF)
    brick = pinocchio.Inertia(brick_kg, np.array(BRICK_AT), np.zeros((3, 3)))
    model.appendBodyToJoint(model.getJointId("knee"), brick, pinocchio.SE3.Identity())
    data, rng = model.createData(), np.random.default_rng(seed)
    t = np.arange(rows) / RATE
    w = 2.0 * np.pi * (0.2 + 0.3 * np.arange(1, 4))[:, None]
    size, phase = rng.uniform(0.1, 0.4, (2, 3, 1)), rng.uniform(0.0, 6.0, (2, 3, 1))
    q, v = np.sum(size * np.sin(w * t + phase), 1), np.sum(size * w * np.cos(w * t + phase), 1)
    a = np.sum(-size * w**2 * np.sin(w * t + phase), 1)
    tau = np.stack([pinocchio.rnea(model, data, q[:, k], v[:, k], a[:, k]) for k in range(rows)], 1)
    tau += 0.8 * v + 1.2 * np.sign(v) + 0.05 * rng.standard_normal(tau.shape)
    return {"t_s": t, "q_hip_rad": q[0], "q_knee_rad": q[1], "tau_hip_Nm": tau[0], "tau_knee_Nm": tau[1]}


def read_robot_text() -> Robot:
    return read_urdf(URDF.encode(), "lift.urdf")


def stacked(*parts: Mapping[str, Array]) -> Columns:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def without_clock(of: Mapping[str, Array]) -> Columns:
    return {name: x for name, x in of.items() if name != "t_s"}


def text(of: Mapping[str, Array]) -> str:
    rows = np.column_stack(list(of.values())).tolist()
    return "\n".join([",".join(of), *(",".join(map(repr, row)) for row in rows)]) + "\n"


@pytest.fixture(scope="module")
def one() -> Columns:
    return columns()


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with the robot."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lift.urdf").write_text(URDF, "utf-8")
    return tmp_path


def drafted(*logs: str, **options: object) -> Project:
    """The project that `init` writes for logs in the current folder."""
    draft = draft_project("lift.urdf", [Path(log) for log in logs], Path("project.toml"), **options)  # type: ignore[arg-type]
    Path("project.toml").write_text(draft.text, "utf-8")
    return read_project("project.toml")


def read_all(project: Project, run: int = 0) -> Columns:
    recording = project.recording(project.spec.run[run])
    return stacked(*recording.chunks(recording.columns))


# --- Clocks -----------------------------------------------------------------------------------------------------------


def test_a_log_without_a_clock_has_the_stated_rate(place: Path, one: Columns, steelyard: Run) -> None:
    Path("log.csv").write_text(text(without_clock(one)), "utf-8")
    told = steelyard("init", "lift.urdf", "log.csv")
    assert told.code == 2
    assert "No column is a clock" in told.err
    assert "--rate 100 [Hz]" in told.err
    assert steelyard("init", "lift.urdf", "log.csv", "--rate", 100).code == 0
    project = read_project("project.toml")
    assert "time = { rate_hz = 100.0 }" in Path("project.toml").read_text("utf-8")
    np.testing.assert_allclose(read_all(project)[ROW_CLOCK], one["t_s"], atol=1e-12)
    # the same samples as with the clock in the log
    Path("clocked.csv").write_text(text(one), "utf-8")
    known = drafted("clocked.csv")
    for settings in (project, known):
        (samples,) = settings.samples(settings.robot(), "identify")
        assert samples.rate == pytest.approx(RATE)
        piece = next(samples.open())
        np.testing.assert_allclose(piece.q[:, 500], [one["q_hip_rad"][500], one["q_knee_rad"][500]], atol=1e-3)


def test_with_rate_counts_rows_across_blocks() -> None:
    recording = with_rate(Recording.from_arrays("log", {"q1": np.zeros(10)}), 50.0)
    assert [c[ROW_CLOCK].tolist() for c in recording.chunks([ROW_CLOCK], 6)] == [
        [0.0, 0.02, 0.04, 0.06, 0.08, 0.1], [0.12, 0.14, 0.16, 0.18],
    ]  # fmt: skip
    with pytest.raises(DataError, match="rate_hz of the rows must be a positive number"):
        with_rate(recording, 0.0)


@pytest.mark.parametrize(
    ("name", "unit", "factor", "doubt"),
    [("Zeit [ms]", "ms", 1e3, False), ("horloge_us", "us", 1e6, False), ("czas", "s", 1.0, True)],
)
def test_a_clock_is_recognised_by_its_values(one: Columns, name: str, unit: str, factor: float, doubt: bool) -> None:
    robot = read_robot_text()
    log = {"counter": np.arange(ROWS) // 2, **without_clock(one), name: one["t_s"] * factor + 17.0}
    guess = guess_channels([Recording.from_arrays("log", log)], robot, HEADERS)
    assert (guess.time.column, guess.time.unit) == (name, unit)
    assert guess.time.rate_hz == pytest.approx(RATE)
    assert "it increases in nearly equal steps" in guess.time.why
    assert ("time.column" in [finding.where for finding in guess.findings]) == doubt


def test_a_clock_by_name_wins_and_positions_are_no_clock(one: Columns) -> None:
    robot = read_robot_text()
    ramp = {**one, "Zeit [ms]": 1e3 * one["t_s"]}
    assert guess_channels([Recording.from_arrays("log", ramp)], robot, HEADERS).time.column == "t_s"
    # jumps as large as the steps are not those of a clock
    rng = np.random.default_rng(1)
    steps = np.cumsum(rng.exponential(1.0, ROWS))
    with pytest.raises(DataError, match="No column is a clock"):
        guess_channels([Recording.from_arrays("log", {**without_clock(one), "Weg": steps})], robot, HEADERS)


def test_the_clock_can_be_named(place: Path, one: Columns, steelyard: Run) -> None:
    Path("log.csv").write_text(text({**one, "zyklus": 1e3 * one["t_s"]}), "utf-8")
    assert steelyard("init", "lift.urdf", "log.csv", "--time", "zyklus").code == 0
    assert read_project("project.toml").spec.channels.time.column == "zyklus"
    # a clock in the log that is not used is reported
    told = steelyard("init", "lift.urdf", "log.csv", "--time", "zyklus", "--force")
    assert "not used for time: t_s (another clock)" in told.err
    told = steelyard("init", "lift.urdf", "log.csv", "--rate", 100, "--force")
    assert "not used for time: t_s (another clock)" in told.err
    told = steelyard("init", "lift.urdf", "log.csv", "--time", "q_hip_rad", "--force")
    assert told.code == 2
    assert "named as the clock is not one ('q_hip_rad' decreases or repeats values). Name another column" in told.err
    told = steelyard("init", "lift.urdf", "log.csv", "--time", "zykus", "--force")
    assert "Unknown column for the time 'zykus'. Did you mean 'zyklus'?" in told.err
    told = steelyard("init", "lift.urdf", "log.csv", "--time", "zyklus", "--rate", 100, "--force")
    assert (told.code, "Give either" in told.err) == (2, True)
    told = steelyard("init", "lift.urdf", "log.csv", "--rate", -1, "--force")
    assert "must be a positive number [Hz], not -1" in told.err


@pytest.mark.parametrize(
    ("time", "message"),
    [
        ("{}", "needs either the 'column' of the clock or"),
        ('{ column = "t_s", rate_hz = 100 }', "needs either the 'column' of the clock or"),
        ("{ rate_hz = 0 }", "rate_hz of time in [channels] must be positive [Hz], not 0"),
    ],
)
def test_a_project_has_one_clock(place: Path, one: Columns, steelyard: Run, time: str, message: str) -> None:
    Path("log.csv").write_text(text(one), "utf-8")
    drafted("log.csv")
    written = Path("project.toml").read_text("utf-8").replace('time = { column = "t_s", unit = "s" }', f"time = {time}")
    Path("project.toml").write_text(written, "utf-8")
    told = steelyard("identify", "project.toml")
    assert (told.code, message in told.err) == (2, True)


# --- Names ------------------------------------------------------------------------------------------------------------

LEAP = (
    *(f"{finger}_{joint}" for finger in ("if", "mf", "rf") for joint in ("mcp", "rot", "pip", "dip")),
    *("th_cmc", "th_axl", "th_mcp", "th_ipl"),
)


@pytest.mark.parametrize(
    ("position", "effort"),
    [
        ("{}_pos", "{}_effort"),
        ("q_{}", "tau_{}"),
        ("th_{}_rad", "torque_{}_Nm"),
        ("joint_states/{}/position", "{} moment [Nm]"),
    ],
)
def test_joint_names_may_contain_words_for_positions(position: str, effort: str) -> None:
    robot = arm(16)
    robot = replace(robot, joints=tuple(replace(j, name=n) for j, n in zip(robot.joints, LEAP, strict=True)))
    t, rng = np.arange(2000) / 200.0, np.random.default_rng(3)
    shuffled = rng.permutation(16)
    log = {"time": t}
    log |= {position.format(LEAP[k]): np.sin((1 + 0.1 * k) * t) for k in shuffled}
    log |= {effort.format(LEAP[k]): np.cos((1 + 0.1 * k) * t) for k in shuffled}
    guess = guess_channels([Recording.from_arrays("log", log)], robot, HEADERS)
    assert guess.q.columns == tuple(position.format(name) for name in LEAP)
    assert guess.effort.columns == tuple(effort.format(name) for name in LEAP)


# --- Several motions in a file ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def three() -> tuple[Columns, ...]:
    """Three motions, each on a clock that starts at 0."""
    return tuple(columns(seed, rows) for seed, rows in ((0, 900), (1, 800), (2, 700)))


def test_a_clock_that_restarts_splits_a_file_into_runs(place: Path, three: tuple[Columns, ...], steelyard: Run) -> None:
    Path("log.csv").write_text(text(stacked(*three)), "utf-8")
    told = steelyard("init", "lift.urdf", "log.csv")
    assert told.code == 0, told.err
    assert "'log.csv' is split into 3 episodes where the clock 't_s' restarts, a run for each." in told.err
    assert 'Kept to validate (role = "validate"): log.csv, episode 2.' in told.err
    project = read_project("project.toml")
    assert [(run.episode, run.role) for run in project.spec.run] == [
        (0, "identify"), (1, "identify"), (2, "validate"),
    ]  # fmt: skip
    for k, part in enumerate(three):
        for name, values in read_all(project, k).items():
            np.testing.assert_array_equal(values, part[name])
    # a run without an episode names what is missing
    whole = "\n".join(x for x in Path("project.toml").read_text("utf-8").splitlines() if not x.startswith("episode"))
    Path("project.toml").write_text(whole.replace('role = "validate"', 'role = "identify"'), "utf-8")
    told = steelyard("identify", "project.toml")
    assert (told.code, "time goes backwards in row 901" in told.err) == (2, True)
    assert "a [[run]] with episode = 0, 1, …" in told.err


@pytest.mark.parametrize("name", ["pose", "episode", "Episode_Index", "trial no"])
def test_a_column_that_numbers_episodes_splits_a_file(place: Path, three: tuple[Columns, ...], name: str) -> None:
    numbers = np.repeat([4, 5, 9], [900, 800, 700])
    log = {**stacked(*three), "t_s": np.arange(2400) / RATE, name: numbers}
    Path("log.csv").write_text(text(log), "utf-8")
    project = drafted("log.csv")
    assert project.spec.channels.episode == name
    assert [(run.episode, run.role) for run in project.spec.run] == [
        (4, "identify"), (5, "identify"), (9, "validate"),
    ]  # fmt: skip
    np.testing.assert_array_equal(read_all(project, 1)["tau_knee_Nm"], three[1]["tau_knee_Nm"])
    # episodes are different runs although they lie in one file
    robot = project.robot()
    project.problem(project.model(), project.samples(robot, "identify"))


@pytest.mark.parametrize(
    "numbers",
    [
        np.repeat([0, 1, 0], 800),  # a number that comes back
        np.sin(np.arange(2400.0)),  # a quantity
        np.arange(2400.0),  # row numbers
        np.zeros(2400),
    ],
    ids=["comes back", "quantity", "rows", "constant"],
)
def test_a_column_that_does_not_separate_motions_splits_nothing(place: Path, one: Columns, numbers: Array) -> None:
    Path("log.csv").write_text(text({**one, "pose": numbers}), "utf-8")
    project = drafted("log.csv")
    assert project.spec.channels.episode is None
    assert [(run.episode, run.role) for run in project.spec.run] == [(None, "identify")]


def test_episodes_are_found_across_chunks_and_empty_cells() -> None:
    t = np.array([0.0, 1.0, np.nan, 2.0, 0.0, 1.0, np.nan, 0.5])
    log = Recording.from_arrays("log", {"t": t, "e": np.array([3, 3, 3, 3, 7, 7, 7, 7.0])})
    assert Episodes("e").found_in(log) == (Episode(3, range(4)), Episode(7, range(4, 8)))
    part = one_episode(log, 7, Episodes("e"))
    assert [c["t"].size for c in part.chunks(["t"], 3)] == [3, 1]
    assert one_episode(log, None, Episodes("t", restarts=True)) is log
    with pytest.raises(DataError, match=r"contains 2 episodes: 3, 7\. Choose one"):
        one_episode(log, None, Episodes("e"))
    with pytest.raises(DataError, match=r"no episode 5\. Valid: 3, 7"):
        one_episode(log, 5, Episodes("e"))
    with pytest.raises(DataError, match="does not number episodes"):
        Episodes("t").found_in(Recording.from_arrays("log", {"t": np.array([0.0, 0.5])}))


@pytest.mark.parametrize("block", [1, 7, 100])
def test_a_clock_restarts_where_many_rows_are_late(block: int) -> None:
    t = np.concatenate([np.arange(40.0), np.arange(3.0, 33.0), np.arange(20.0)])
    t[[10, 11, 50, 51]] = t[[11, 10, 51, 50]]  # swapped neighbours
    t[[40, 45]] = np.nan
    assert list(restarts(np.split(t, range(block, len(t), block)))) == [41, 70]


def test_rows_that_arrive_late_are_dropped_and_said(place: Path, one: Columns) -> None:
    rows = np.arange(ROWS)
    rows[150::300], rows[151::300] = rows[151::300].copy(), rows[150::300].copy()
    Path("log.csv").write_text(text({name: x[rows] for name, x in one.items()}), "utf-8")
    project = drafted("log.csv")
    assert [run.episode for run in project.spec.run] == [None]
    (samples,) = project.samples(project.robot(), "identify")
    assert "dropped 8 rows that arrived late (before the latest time)" in samples.history
    assert "late-rows" in [one.code for one in samples.findings]
    assert len(samples.stretches) == 1


def test_short_episodes_are_left_out_and_said(place: Path, three: tuple[Columns, ...], steelyard: Run) -> None:
    short = {name: x[:50] for name, x in three[2].items()}
    Path("log.csv").write_text(text(stacked(three[0], short, three[1])), "utf-8")
    told = steelyard("init", "lift.urdf", "log.csv")
    assert "1 episodes shorter than 1 s are left out" in told.err
    assert [run.episode for run in read_project("project.toml").spec.run] == [0, 2]


# --- A motion in several files ----------------------------------------------------------------------------------------


def cut(of: Mapping[str, Array], first: int, stop: int) -> Columns:
    return {name: x[first:stop] for name, x in of.items()}


@pytest.mark.slow
def test_files_that_continue_each_other_lose_no_filter_edge(place: Path, one: Columns, steelyard: Run) -> None:
    Path("whole.csv").write_text(text(one), "utf-8")
    for k, rows in enumerate(((0, 900), (900, 1000), (1000, ROWS))):
        Path(f"part{k}.csv").write_text(text(cut(one, *rows)), "utf-8")
    # in any order on the command line
    told = steelyard("init", "lift.urdf", "part2.csv", "part0.csv", "part1.csv", "--out", "parts.toml")
    assert "Joined to one run" in told.err
    parts = read_project("parts.toml")
    assert [run.log for run in parts.spec.run] == [["part0.csv", "part1.csv", "part2.csv"]]
    assert steelyard("init", "lift.urdf", "whole.csv", "--out", "whole.toml").code == 0
    found = [steelyard("identify", f"{name}.toml", "--json").document for name in ("parts", "whole")]
    assert found[0]["parameters"] == found[1]["parameters"]
    assert found[0]["relative_error"]["total"] == found[1]["relative_error"]["total"]
    # a file of the fit is not unseen
    told = steelyard("validate", "parts-run", "part2.csv")
    assert "the fit used part2.csv" in " ".join(told.err.split())


def test_files_that_do_not_continue_each_other_stay_runs(one: Columns) -> None:
    def runs(*parts: Columns) -> list[tuple[int, ...]]:
        logs = [Recording.from_arrays(f"{k}", part) for k, part in enumerate(parts)]
        clock = guess_channels(logs, read_robot_text(), HEADERS).time
        return [run.logs for run in guess_runs(logs, clock).runs]

    early, late = cut(one, 0, 1000), cut(one, 1000, ROWS)
    assert runs(late, early) == [(1, 0)]
    assert runs(early, cut(one, 1003, ROWS)) == [(0,), (1,)]
    # two that both continue a third: neither is joined, and none is lost
    assert runs(early, late, late) == [(0,), (1,), (2,)]


def test_joined_logs_have_shared_columns_and_every_hash() -> None:
    parts = [Recording.from_arrays(name, {"t": np.arange(3.0), name: np.ones(3)}) for name in "ab"]
    both = joined(parts)
    assert (both.columns, both.rows, both.name) == (("t",), 6, "a + b")
    assert both.sha256 == f"{parts[0].sha256} + {parts[1].sha256}"
    with pytest.raises(DataError, match="no column in common"):
        joined([Recording.from_arrays(name, {name: np.ones(3)}) for name in "ab"])


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("log = []", "empty list of logs"),
        ('log = ["log.csv", "log.csv"]\nepisode = 1', "an 'episode' and several logs"),
    ],
)
def test_a_run_names_logs_that_can_be_joined(
    place: Path, one: Columns, steelyard: Run, entry: str, message: str
) -> None:
    Path("log.csv").write_text(text(one), "utf-8")
    drafted("log.csv")
    written = Path("project.toml").read_text("utf-8").replace('log = "log.csv"', entry)
    Path("project.toml").write_text(written, "utf-8")
    told = steelyard("identify", "project.toml")
    assert (told.code, message in told.err) == (2, True)


# --- One run to validate ----------------------------------------------------------------------------------------------


def test_of_several_logs_one_is_kept_to_validate(three: tuple[Columns, ...]) -> None:
    def roles(*parts: Columns) -> list[str]:
        logs = [Recording.from_arrays(f"{k}", part) for k, part in enumerate(parts)]
        clock = guess_channels(logs, read_robot_text(), HEADERS).time
        return [run.role for run in guess_runs(logs, clock).runs]

    assert roles(three[0]) == ["identify"]
    assert roles(three[0], three[1]) == ["identify", "validate"]
    # most of the data is fitted: the last run with at most half of the rows is kept
    assert roles(three[1], three[0]) == ["validate", "identify"]
    assert roles(*three) == ["identify", "identify", "validate"]


# --- Packed -----------------------------------------------------------------------------------------------------------


def test_packed_logs_become_a_project(place: Path, three: tuple[Columns, ...], steelyard: Run) -> None:
    Path("a.csv.gz").write_bytes(gzip.compress(text(three[0]).encode()))
    with zipfile.ZipFile("week.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for k, part in enumerate(three[1:]):
            archive.writestr(f"logs/{k}.csv", text(part))
    told = steelyard("init", "lift.urdf", "a.csv.gz", "week.zip")
    assert told.code == 2
    assert "'week.zip' contains 2 logs: logs/0.csv, logs/1.csv. Give one or several" in told.err
    told = steelyard("init", "lift.urdf", "a.csv.gz", "week.zip/logs/0.csv", "week.zip/logs/1.csv")
    assert told.code == 0, told.err
    project = read_project("project.toml")
    assert [run.log for run in project.spec.run] == ["a.csv.gz", "week.zip/logs/0.csv", "week.zip/logs/1.csv"]
    for k, part in enumerate(three):
        np.testing.assert_array_equal(read_all(project, k)["q_knee_rad"], part["q_knee_rad"])


# --- Commands ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_part_of_a_log_is_validated_and_the_report_is_written_again(
    place: Path, three: tuple[Columns, ...], steelyard: Run
) -> None:
    for k, part in enumerate(three[:2]):
        Path(f"{k}.csv").write_text(text(part), "utf-8")
    Path("many.csv").write_text(text(stacked(*three)), "utf-8")
    assert steelyard("init", "lift.urdf", "0.csv", "1.csv", "--out", "lift.toml").code == 0
    assert steelyard("identify", "lift.toml").code == 0
    rows = steelyard("validate", "lift-run", "1.csv", "--rows", 201, 601, "--json").document
    seconds = steelyard("validate", "lift-run", "1.csv", "--seconds", 2.0, 6.0, "--json").document
    assert rows["filtered"] == seconds["filtered"]
    assert rows["filtered"] != steelyard("validate", "lift-run", "1.csv", "--json").document["filtered"]
    other = steelyard("validate", "lift-run", "many.csv", "--episode", 1, "--rows", 201, 601, "--json").document
    assert other["filtered"] == rows["filtered"]
    for options, message in (
        (("1.csv", "--rows", 1, 9, "--seconds", 0, 1), "give one of them"),
        (("1.csv", "0.csv", "--rows", 1, 9), "apply to one log"),
        (("1.csv", "--rows", 9, 1), "rows must be [first, last]"),
        (("many.csv", "--episode", 7), "no episode 7"),
        (("1.csv", "--load", "cup"), "Unknown load 'cup'"),
    ):
        told = steelyard("validate", "lift-run", *options)
        assert (told.code, message in told.err) == (2, True), told.err
    page = Path("lift-run/report.html").read_bytes()
    Path("lift-run/report.html").unlink()
    assert steelyard("report", "lift-run").code == 0
    assert Path("lift-run/report.html").read_bytes() == page
    assert steelyard("report", "lift-run/result.json", "--out", "bare.html", "--without-logs").code == 0
    assert len(Path("bare.html").read_bytes()) < len(page)
    told = steelyard("report", "lift-run", "--out", "lift.toml")
    assert (told.code, "ends in .html" in told.err) == (2, True)
    Path("0.csv").write_text(text(three[2]), "utf-8")
    told = steelyard("report", "lift-run")
    assert (told.code, "'0.csv' has changed since the fit" in told.err) == (2, True)
    assert "No result at 'nowhere'" in steelyard("report", "nowhere").err


@pytest.mark.slow
def test_a_log_with_a_load_is_validated_with_it(place: Path, steelyard: Run) -> None:
    for name, log in {
        "free": columns(0),
        "fitted": columns(1, brick_kg=BRICK_KG),
        "unseen": columns(2, brick_kg=BRICK_KG),
    }.items():
        Path(f"{name}.csv").write_text(text(log), "utf-8")
    drafted("free.csv")
    payload = f'[[payload]]\nname = "brick"\nlink = "lower"\nmass = {BRICK_KG}\ncom = {list(BRICK_AT)}\n'
    with Path("project.toml").open("a", encoding="utf-8") as file:
        file.write(f'\n[[run]]\nlog = "fitted.csv"\nload = "brick"\n\n{payload}')
    assert steelyard("identify", "project.toml").code == 0

    def error(*options: object) -> float:
        judged = steelyard("validate", "project-run", "unseen.csv", *options, "--json").document
        return judged["filtered"]["relative_error"]["total"]

    assert error("--load", "brick") < 0.02
    assert error() > 0.1
    # with a part of the log too
    assert error("--load", "brick", "--seconds", 3.0, 20.0) < 0.02


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("arm.urdf", "<robot/>", "is a robot, not a project file. Write a project file for it and its logs first: "
         "`steelyard init arm.urdf LOG …`."),
        ("arm.toml", 'name = "arm"\nconvention = "mdh"\n[[joint]]\nname = "a"\n', "`steelyard init arm.toml LOG …`"),
        ("tx40", None, "`steelyard init tx40 LOG …`"),
        ("log.csv", "t,q1\n0,1\n", "is a log, not a project file. Write a project file first: "
         "`steelyard init ROBOT log.csv`."),
        ("result.json", "{}", "is a result, not a project file. To write its page again: `steelyard report`."),
        ("project.toml", "robot =", "is not valid TOML"),
    ],
)  # fmt: skip
def test_what_is_no_project_is_named(place: Path, steelyard: Run, file: str, content: str | None, message: str) -> None:
    if content is not None:
        Path(file).write_text(content, "utf-8")
    for command in ("identify", "check", "crossvalidate"):
        told = steelyard(command, file)
        assert (told.code, message in told.err) == (2, True), told.err


def zipped(*names: str) -> bytes:
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w") as archive:
        for name in names:
            archive.writestr(name, "t,q1\n")
    return memory.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("robot.urdf", b"<!DOCTYPE html><html><body>Not found</body></html>", "'robot.urdf' is a web page, not a"),
        ("robot.urdf", b"\x89PNG\r\n", "is not well-formed XML"),
        ("robot.xml", b'<mujoco><include file="no.xml"/></mujoco>', "MuJoCo cannot compile 'robot.xml': XML Error"),
        ("log.csv", bytes(range(256)) * 4, "'log.csv' is not a text file"),
        ("log.csv", bytes(range(1, 256)) * 4, "'log.csv' is not a text file"),
        ("log.csv", b"", "'log.csv' is empty"),
        ("log.csv", b"t,q1\n", "has a header but no rows"),
        ("log.csv", b"".join(b"%g,1,2\n" % (0.01 * k) for k in range(99)), "The log has no header: write the names of"),
        ("log.xlsx", zipped("[Content_Types].xml", "xl/workbook.xml"), "is a workbook of a spreadsheet program"),
        ("log.zip", zipped("a.csv", "b.csv"), "contains 2 logs: a.csv, b.csv. Give one or several of them, each by"),
        ("log.csv.gz", b"no gzip", "is not a .gz file, in spite of its name"),
    ],
)  # fmt: skip
def test_bad_files_are_named_in_one_sentence(
    place: Path, one: Columns, steelyard: Run, name: str, content: bytes, message: str
) -> None:
    Path(name).write_bytes(content)
    robot, log = (name, "one.csv") if name.startswith("robot") else ("lift.urdf", name)
    Path("one.csv").write_text(text(one), "utf-8")
    told = steelyard("init", robot, log)
    assert (told.code, told.err.count("error:"), message in " ".join(told.err.split())) == (2, 1, True), told.err


def test_logs_with_different_columns_are_said_to_differ(place: Path, one: Columns, steelyard: Run) -> None:
    Path("a.csv").write_text(text(one), "utf-8")
    Path("b.csv").write_text(text({name.replace("q_", "wanted_"): x for name, x in one.items()}), "utf-8")
    told = steelyard("init", "lift.urdf", "a.csv", "b.csv")
    assert told.code == 2
    assert "The logs have different columns; in all of them are: " in " ".join(told.err.split())


def test_empty_cells_are_dropped_by_the_drafted_project(place: Path, one: Columns) -> None:
    empty = np.where(np.arange(ROWS) // 20 == 25, np.nan, one["tau_hip_Nm"])
    Path("log.csv").write_text(text({**one, "tau_hip_Nm": empty}), "utf-8")
    project = drafted("log.csv")
    assert project.spec.prepare.missing == "drop"
    (samples,) = project.samples(project.robot(), "identify")
    assert "dropped 20 rows with missing values" in samples.history


# --- Signs ------------------------------------------------------------------------------------------------------------


def test_a_long_log_of_a_repeated_motion_keeps_the_signs_of_its_efforts() -> None:
    """The motion repeats every 10 s, so parts of the time share the errors of the model that friction is judged by."""
    log = Recording.from_arrays("log", columns(seed=3, rows=65536))
    assert not guess_channels([log], read_robot_text(), HEADERS).effort.signs
