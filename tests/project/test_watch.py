"""A log followed while it is written: the same rows and estimates as from the finished file, changes told, mistakes
named; and the command that shows it."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from steelyard._arrays import Array
from steelyard.cli.watch import BLOCKS, screen, sparkline
from steelyard.errors import DataError, EstimationError, ProjectError
from steelyard.estimators import RLS
from steelyard.formats.logs import read_recording
from steelyard.formats.logs.csv_growing import GrowingLog
from steelyard.formats.robots import read_robot
from steelyard.model.model import Model
from steelyard.model.payload import Payload
from steelyard.model.terms import named_terms
from steelyard.motion.random import random_fourier
from steelyard.online.history import KEPT, Curve, History
from steelyard.online.online import ChangeDetection
from steelyard.project.output_folder import REPORT, RESULT
from steelyard.project.project import read_project
from steelyard.project.result_file import read_document, read_result
from steelyard.project.watch import CONVERGENCE, Follower, Options, Refresh, plan
from steelyard.report.figures.history import history_figure, moved, scale
from steelyard.report.pages.watched import watched_page
from testbed.command import Run
from testbed.pages import Outline
from testbed.simulated import PENDULUM as ROBOT
from testbed.simulated import log_of

PROJECT = """\
robot = "pendulum.toml"
terms = "plain"

[prepare]
cutoff_hz = 20.0
lowpass_hz = 8.0
decimate = 6
derivatives = "differences"
delay = "none"
rate_hz = 200.0
rest = [0.05, 0.05]

[channels]
time = { column = "t", unit = "s" }
q = { columns = ["q_joint1", "q_joint2"], unit = "rad" }
effort = { columns = ["tau_joint1", "tau_joint2"], unit = "N.m" }

[[run]]
log = "log.csv"
"""
COUNT = 2400


def csv(columns: Mapping[str, Array]) -> bytes:
    rows = np.column_stack(list(columns.values()))
    return ("\n".join([",".join(columns), *(",".join(map(repr, row)) for row in rows.tolist())]) + "\n").encode()


@cache
def logged() -> bytes:
    with TemporaryDirectory() as folder:
        file = Path(folder) / "pendulum.toml"
        file.write_text(ROBOT, "utf-8")
        robot = read_robot(file)
    model = Model(robot, named_terms(("rotor", "viscous", "coulomb", "offset")))
    return csv(log_of(model, COUNT, noise=0.3))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with a robot, a log and a project file that leaves nothing to the data."""
    (tmp_path / "pendulum.toml").write_text(ROBOT, "utf-8")
    (tmp_path / "project.toml").write_text(PROJECT, "utf-8")
    (tmp_path / "log.csv").write_bytes(logged())
    return tmp_path / "project.toml"


def edited(project: Path, old: str, new: str) -> Path:
    text = project.read_text("utf-8")
    assert old in text
    project.write_text(text.replace(old, new), "utf-8")
    return project


def lines(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]


def followed(project: Path, options: Options | None = None) -> tuple[Follower, list[Refresh]]:
    """A finished log, followed to its end."""
    planned = plan(read_project(project))
    with planned.open() as log:
        follower = Follower(planned, log, options or Options(watch=None, refresh_s=1.0))
        seen = []
        while True:
            before = log.offset
            seen += list(follower.poll())
            if log.offset == before:
                break
        return follower, [*seen, follower.end()]


@contextlib.contextmanager
def written(path: Path, parts: list[bytes], pause: float = 0.02) -> Iterator[None]:
    """Something that appends to a file meanwhile."""

    def write() -> None:
        for part in parts:
            with path.open("ab") as stream:
                stream.write(part)
            time.sleep(pause)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        writer.join()


# --- Reading a log that grows -----------------------------------------------------------------------------------------


def table(head: str, row: Callable[[int], str], rows: int) -> str:
    return head + "".join(map(row, range(rows)))


TABLES = {
    "comma": table("t,a,b\n", lambda k: f"{k},{0.1 * k:.3f},{k:.2e}\n", 260).encode(),
    "preamble and units": table("Robot log\n# 5 3\nt;a;b\n[s];[rad];[N.m]\n", lambda k: f"{k};{k},5;2\n", 250).encode(),
    "spaces, CRLF, commented header": table("# t a b\r\n", lambda k: f" {k}   {k:.2f}  7\r\n", 240).encode(),
    "comments among the rows": table("t,a,b\n", lambda k: f"{k},1,\n" + "# remark\n" * (k % 50 == 9), 220).encode(),
    "byte order mark": table("t,a,b\n", lambda k: f"{k},1,2\n", 30).encode("utf-8-sig"),
    "UTF-16": table("t\ta\tb µ\n", lambda k: f"{k}\t{k / 7}\t0\n", 210).encode("utf-16"),
}


@pytest.mark.slow
@given(kind=st.sampled_from(sorted(TABLES)), cuts=st.lists(st.floats(0.0, 1.0), max_size=6))
@settings(max_examples=60, deadline=None)
def test_rows_are_those_of_the_finished_file_however_it_was_written(kind: str, cuts: list[float]) -> None:
    content = TABLES[kind]
    bounds = [0, *sorted(int(cut * len(content)) for cut in cuts), len(content)]
    with TemporaryDirectory() as folder:
        path = Path(folder) / "log.csv"
        path.write_bytes(content)
        whole = read_recording(path)
        (wanted,), digest = whole.chunks(whole.columns), whole.sha256
        path.write_bytes(b"")
        with GrowingLog(path, whole.columns) as log:
            got = []
            for first, stop in pairwise(bounds):
                with path.open("ab") as stream:
                    stream.write(content[first:stop])
                got.append(log.read())
            got.append(log.end())
            assert log.rows == len(wanted[whole.columns[0]])
            assert log.sha256 == digest
            assert not log.unfinished
        for name in whole.columns:
            np.testing.assert_array_equal(np.concatenate([part[name] for part in got]), wanted[name])


def test_half_a_line_waits_for_its_rest(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    start = b"t,a\n" + b"".join(b"%d,1\n" % k for k in range(200))
    path.write_bytes(start + b"200,3.1")
    with GrowingLog(path, ["t", "a"]) as log:
        assert log.read()["t"].size == 200
        assert log.read()["t"].size == 0
        assert log.unfinished
        with path.open("ab") as stream:
            stream.write(b"4\n201,")
        assert log.read()["a"].tolist() == [3.14]
        # half a row is no row, even at the end
        assert log.end()["t"].size == 0
        assert log.rows == 201


def test_header_may_come_late(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes(b"")
    with GrowingLog(path, ["a"]) as log:
        assert log.read()["a"].size == 0
        with path.open("ab") as stream:
            stream.write(b"# made by a logger\nt,a\n")
        assert log.read()["a"].size == 0
        with path.open("ab") as stream:
            stream.write(b"0,5\n1,6\n")
        assert log.read()["a"].size == 0
        assert log.end()["a"].tolist() == [5.0, 6.0]


def test_a_log_without_rows_says_so_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes(b"")
    with GrowingLog(path, ["a"]) as log, pytest.raises(DataError, match="no complete line"):
        log.end()
    path.write_bytes(b"t,a\n")
    with GrowingLog(path, ["a"]) as log:
        assert log.read()["a"].size == 0
        with pytest.raises(DataError, match="no rows"):
            log.end()


def test_a_wrong_line_ends_the_log_after_the_rows_before_it(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes(b"t,a\n" + b"".join(b"%d,1\n" % k for k in range(200)) + b"200,1,7,8\n201,1\n")
    with GrowingLog(path, ["t", "a"]) as log:
        assert log.read()["t"].size == 200
        with pytest.raises(DataError, match=r"Line 202 .* 4 cells"):
            log.read()


def _cut(path: Path) -> None:
    os.truncate(path, 100)


def _written_anew(path: Path) -> None:
    old = path.read_bytes()
    with path.open("r+b") as stream:
        stream.write(old.replace(b",1\n", b",2\n") * 2)


def _replaced(path: Path) -> None:
    other = path.with_suffix(".new")
    other.write_bytes(path.read_bytes() + b"1,1\n")
    path.rename(path.with_suffix(".1"))
    other.rename(path)


@pytest.mark.parametrize(
    ("harm", "said"),
    [(_cut, "became shorter"), (_written_anew, "overwritten"), (_replaced, "replaced"), (os.remove, "is gone")],
    ids=["truncated", "overwritten", "rotated", "deleted"],
)
def test_a_log_that_is_no_longer_the_same_is_refused(harm: Callable[[Path], None], said: str, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes(b"t,a\n" + b"".join(b"%d,1\n" % k for k in range(300)))
    with GrowingLog(path, ["t", "a"]) as log:
        assert log.read()["t"].size == 300
        harm(path)
        with pytest.raises(DataError, match=said):
            log.read()


@pytest.mark.parametrize(
    ("name", "content"),
    [("log.parquet", b"PAR1 and so on"), ("log.csv", b"PAR1 and so on"), ("log.mcap", b""), ("log.mat", b"MATLAB 5.0")],
)
def test_logs_that_cannot_grow_are_refused(name: str, content: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=r"only text logs .*steelyard identify"):
        GrowingLog(tmp_path / name, ["t"])


def test_a_log_that_is_not_there_is_named(tmp_path: Path) -> None:
    (tmp_path / "other.csv").write_bytes(b"")
    (tmp_path / "steelyard-defect-20260101-000000-000000.txt").write_bytes(b"")
    with pytest.raises(DataError, match=r"does not exist.*Logs in that folder: other\.csv\."):
        GrowingLog(tmp_path / "log.csv", ["t"])


# --- The command ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_finished_log_gives_what_identify_gives(project: Path, steelyard: Run, tmp_path: Path) -> None:
    told = steelyard("watch", project, "--until-idle", 0, "--json", "--refresh", 1, "--out", tmp_path / "seen")
    assert told.code == 0, told.err
    assert steelyard("identify", project, "--estimator", "rls", "--out", tmp_path / "read").code == 0
    seen, read = read_result(tmp_path / "seen"), read_result(tmp_path / "read")
    # rows look ahead by four periods of the cut-off, and those of the finished file by fifteen
    assert np.max(np.abs(seen.value - read.value) / read.std) < 0.01
    np.testing.assert_allclose(seen.std_classical, read.std_classical, rtol=1e-2)
    rows = zip(seen.relative_error.rows.values(), read.relative_error.rows.values(), strict=True)
    assert all(abs(a - b) <= 1 for a, b in rows)
    assert [run.sha256 for run in seen.runs] == [run.sha256 for run in read.runs]
    documents = lines(told.out)
    assert {one["schema"] for one in documents} == {"steelyard.watch/2"}
    assert [one["last"] for one in documents] == [False] * (len(documents) - 1) + [True]
    assert len(documents) > 8
    times = [one["t"] for one in documents]
    assert times == sorted(times)
    last = documents[-1]
    assert last["samples"] == COUNT
    assert last["rate_hz"] == 200.0
    assert 0.2 < last["delay_s"] < 0.6
    assert last["change"] is None
    assert [one["value"] for one in last["parameters"]] == seen.value.tolist()
    assert [one["std"] for one in last["parameters"]] == seen.std.tolist()
    assert seen.verdict in told.err


@pytest.mark.parametrize("delay", [0.0125, -0.0125])
def test_a_stream_may_be_late_by_more_than_a_sample(project: Path, delay: float) -> None:
    """The clock of the positions is early or late by as much as the effort is read later or earlier."""
    prompt = followed(project)[1][-1]
    edited(project, 'delay = "none"', f"delay = {delay}")
    late = followed(project)[1][-1]
    assert prompt.result.relative_error.total < late.result.relative_error.total < 0.5


def test_a_log_without_a_clock_is_followed_at_its_rate(project: Path) -> None:
    clocked = followed(project)[1][-1]
    rows = [line.split(b",", 1)[1] for line in logged().splitlines()]
    (project.parent / "log.csv").write_bytes(b"\n".join(rows) + b"\n")
    edited(project, 'time = { column = "t", unit = "s" }', "time = { rate_hz = 200.0 }")
    counted = followed(project)[1][-1]
    assert counted.samples == clocked.samples
    assert counted.t == pytest.approx((COUNT - 1) / 200.0)
    np.testing.assert_allclose(counted.result.value, clocked.result.value, rtol=1e-6)


@pytest.mark.slow
def test_estimates_do_not_depend_on_how_the_log_grew(project: Path, steelyard: Run, tmp_path: Path) -> None:
    out, log = tmp_path / "grown", tmp_path / "grown.csv"
    content = logged()
    log.write_bytes(content[:11])  # not even the header is whole
    rng = np.random.default_rng(3)
    cuts = np.sort(rng.integers(11, len(content), 25)).tolist()
    parts = [content[a:b] for a, b in zip([11, *cuts], [*cuts, len(content)], strict=True)]
    with written(log, parts):
        told = steelyard("watch", project, "--follow", log, "--until-idle", 1.0, "--learn", 0, "--out", out)
    assert told.code == 0, told.err
    assert told.out == ""
    _, refreshes = followed(project)
    grown = read_result(out)
    np.testing.assert_allclose(grown.value, refreshes[-1].result.value, rtol=1e-9)
    assert grown.runs[0].name == "grown.csv"
    # the result's project names the log that was followed: it can be scored on another
    scored = steelyard("validate", out, tmp_path / "log.csv", "--json")
    assert scored.code == 0, scored.err


@pytest.mark.slow
def test_the_folder_holds_the_course_too(project: Path, steelyard: Run, tmp_path: Path) -> None:
    out = tmp_path / "out"
    for _ in range(2):  # its own files are replaced
        assert steelyard("watch", project, "--until-idle", 0, "--refresh", 1, "--out", out).code == 0
    assert sorted(file.name for file in out.iterdir()) == sorted((RESULT, REPORT, CONVERGENCE))
    page = (out / CONVERGENCE).read_text("utf-8")
    for name in read_result(out).base.names:
        assert f"<code>{name}</code>" in page
    assert read_document(out)["rest_speeds"] == [0.05, 0.05]
    (out / "mine.txt").write_text("mine", "utf-8")
    told = steelyard("watch", project, "--until-idle", 0, "--out", out)
    assert told.code == 2
    assert "mine.txt" in told.err


@pytest.mark.parametrize(
    ("options", "estimator"),
    [
        ((), {"forgetting": "none", "memory": None}),
        (("--memory", 3), {"forgetting": "exponential", "memory": 100.0}),
        (("--memory", 6, "--forgetting", "directional"), {"forgetting": "directional", "memory": 200.0}),
    ],
)
def test_memory_is_in_seconds(
    options: tuple[Any, ...], estimator: dict[str, Any], project: Path, steelyard: Run
) -> None:
    out = project.parent / "out"
    assert steelyard("watch", project, "--until-idle", 0, "--out", out, *options).code == 0
    used = read_result(out).estimator_options
    assert used["forgetting"] == estimator["forgetting"]
    # 200 samples a second, one row of six
    assert used["memory"] == (None if estimator["memory"] is None else pytest.approx(estimator["memory"]))


def test_the_project_may_state_how_to_forget(project: Path) -> None:
    stated = 'terms = "plain"\nestimator = { name = "rls", options = { forgetting = "exponential", memory = 77 } }\n'
    planned = plan(read_project(edited(project, 'terms = "plain"\n', stated)))
    assert Options().estimator(planned.estimator, 50.0) == RLS("exponential", 77)
    assert Options(memory_s=2.0).estimator(planned.estimator, 50.0) == RLS("exponential", 100.0)
    assert Options("directional").estimator(planned.estimator, 50.0) == RLS("directional", 77)
    assert Options("none").estimator(planned.estimator, 50.0) == RLS()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--forgetting", "sudden"), "Valid: none, exponential, directional"),
        (("--forgetting", "exponential"), "--memory SECONDS"),
        (("--forgetting", "none", "--memory", "3"), "keeps all rows"),
        (("--memory", "-3"), "positive number of seconds"),
        (("--refresh", "0"), "positive number of seconds"),
        (("--false-alarms", "0"), "must be positive"),
        (("--follow", "none.csv"), "does not exist"),
    ],
)
def test_mistakes_are_one_sentence(options: tuple[str, ...], said: str, project: Path, steelyard: Run) -> None:
    told = steelyard("watch", project, "--until-idle", 0, "--json", *options)
    assert told.code == 2
    assert told.document["schema"] == "steelyard.error/1"
    assert said in told.document["error"]
    assert len(told.out.splitlines()) == 1


def test_missing_columns_are_named(project: Path, steelyard: Run) -> None:
    log = project.parent / "log.csv"
    log.write_bytes(logged().replace(b"tau_joint2", b"current2", 1))
    told = steelyard("watch", project, "--until-idle", 0)
    assert told.code == 2
    assert "lacks the columns tau_joint2" in told.err
    assert "current2" in told.err


def test_rows_that_cannot_be_used_are_named(project: Path, steelyard: Run) -> None:
    content = logged().split(b"\n")
    content[1001] = content[900]
    (project.parent / "log.csv").write_bytes(b"\n".join(content))
    told = steelyard("watch", project, "--until-idle", 0, "--refresh", 1)
    assert told.code == 4
    assert "data rows 1001 to 1100: Time goes backwards" in told.err.replace("\n", " ")


@pytest.mark.slow
def test_what_was_learnt_before_the_log_broke_is_kept(project: Path, steelyard: Run) -> None:
    log, out = project.parent / "live.csv", project.parent / "out"
    content = logged()
    log.write_bytes(content)

    def cut() -> None:
        time.sleep(1.5)
        os.truncate(log, 1000)

    cutter = threading.Thread(target=cut)
    cutter.start()
    told = steelyard("watch", project, "--follow", log, "--until-idle", 30, "--json", "--out", out)
    cutter.join()
    assert told.code == 4
    *documents, error = lines(told.out)
    assert documents[-1]["last"]
    assert documents[-1]["samples"] == COUNT
    assert "became shorter" in error["error"]
    assert error["code"] == 4
    assert read_result(out).value.tolist() == [one["value"] for one in documents[-1]["parameters"]]


def test_an_unfinished_last_line_is_left_out_and_told(project: Path, steelyard: Run) -> None:
    (project.parent / "log.csv").write_bytes(logged()[:-9])
    told = steelyard("watch", project, "--until-idle", 0, "--json")
    assert told.code == 0
    assert lines(told.out)[-1]["samples"] == COUNT - 1
    assert "does not end in a newline and was not used" in told.err


def test_too_short_a_log_says_so(project: Path, steelyard: Run) -> None:
    (project.parent / "log.csv").write_bytes(b"\n".join(logged().split(b"\n")[:40]) + b"\n")
    told = steelyard("watch", project, "--until-idle", 0)
    assert told.code == 2
    assert "No rows of 'log.csv' yet" in told.err


@pytest.mark.slow
def test_interrupts_end_it_with_the_last_estimate(project: Path) -> None:
    out = project.parent / "out"
    command = [sys.executable, "-m", "steelyard", "watch", project, "--json", "--refresh", "1", "--out", out]
    with subprocess.Popen(
        list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        first = json.loads(process.stdout.readline())
        process.send_signal(signal.SIGINT)
        rest, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert not first["last"]
    assert lines(rest)[-1]["last"]
    assert read_result(out).verdict in err


@pytest.mark.slow
def test_nobody_reading_is_no_failure(project: Path) -> None:
    command = [sys.executable, "-m", "steelyard", "watch", project, "--json", "--until-idle", "0"]
    nobody, pipe = os.pipe()
    os.close(nobody)
    told = subprocess.run(list(map(str, command)), stdout=pipe, stderr=subprocess.PIPE, text=True, timeout=120)
    os.close(pipe)
    assert told.returncode == 0, told.stderr
    assert "Traceback" not in told.stderr
    assert "Exception ignored" not in told.stderr


# --- What a project leaves to the data --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('log = "log.csv"\n', 'log = "log.csv"\nload = "box"\n[[payload]]\nname = "box"\n', "payloads"),
        ('unit = "N.m" }', 'unit = "A", gain = "unknown" }', "drive gains cannot be identified"),
        ("cutoff_hz = 20.0\n", "", "leaves cutoff_hz"),
        ("rest = [0.05, 0.05]", "rest = 0.05", "leaves rest"),
        ('log = "log.csv"\n', 'log = "log.csv"\nseconds = [1.0, 5.0]\n', "--follow log.csv"),
    ],
    ids=["payloads", "gains", "cut-offs", "rest", "part of a log"],
)  # fmt: skip
def test_projects_that_cannot_be_followed_are_refused(old: str, new: str, said: str, project: Path) -> None:
    with pytest.raises(ProjectError, match=said):
        plan(read_project(edited(project, old, new)))


def test_what_needs_no_run_is_decided_and_told(project: Path) -> None:
    edited(project, 'derivatives = "differences"\ndelay = "none"\nrate_hz = 200.0\nrest = [0.05, 0.05]\n', "")
    follower, refreshes = followed(project)
    assert {finding.code for finding in follower.plan.findings} == {"derivatives", "delays"}
    assert {"derivatives", "delays"} <= {finding.code for finding in follower.result().findings}
    assert follower.online is not None
    assert follower.online.rate == pytest.approx(200.0, rel=1e-9)
    assert follower.plan.rest == (0.02, 0.02)
    assert len(refreshes) > 3


def test_a_joint_that_never_moved_is_at_rest_all_the_same(project: Path, steelyard: Run) -> None:
    """A fraction of no speed would let every row of it through, and noise would tell its parameters."""
    rows = [line.split(",") for line in logged().decode().splitlines()]
    still = rows[0].index("q_joint2")
    stopped = [rows[0], *([*row[:still], "0.3", *row[still + 1 :]] for row in rows[1:])]
    project.with_name("log.csv").write_text("\n".join(map(",".join, stopped)) + "\n", "utf-8")
    planned = plan(read_project(edited(project, "rest = [0.05, 0.05]", "rest = 0.05")), finished=True)
    assert planned.rest[0] > 0.02
    assert planned.rest[1] == 0.02
    told = steelyard("watch", str(project), "--until-idle", "0", "--json")
    values = {one["name"]: one["value"] for one in lines(told.out)[-1]["parameters"]}
    assert values["joint2.Fv"] is None


def test_earlier_runs_settle_the_rest(project: Path) -> None:
    (project.parent / "live.csv").write_bytes(logged())
    edited(project, "cutoff_hz = 20.0\nlowpass_hz = 8.0\n", "")
    edited(project, "rest = [0.05, 0.05]\n", "rest = 0.02\n")
    planned = plan(read_project(project), project.parent / "live.csv")
    assert isinstance(planned.project.spec.prepare.cutoff_hz, float)
    assert "cutoffs" in {finding.code for finding in planned.findings}
    assert [run.log for run in planned.project.spec.run] == ["live.csv"]
    # 0.02 of the top speeds of the earlier run
    assert all(0.0 < speed < 0.2 for speed in planned.rest)
    assert planned.rest != (0.02, 0.02)
    assert planned.rate == 200.0


def test_a_finished_log_settles_itself(project: Path) -> None:
    edited(project, "cutoff_hz = 20.0\nlowpass_hz = 8.0\n", "")
    edited(project, "rate_hz = 200.0\n", "")
    with pytest.raises(ProjectError, match="--until-idle 0"):
        plan(read_project(project))
    planned = plan(read_project(project), finished=True)
    assert planned.rate == pytest.approx(200.0)
    assert isinstance(planned.project.spec.prepare.lowpass_hz, float)


def test_options_are_checked() -> None:
    with pytest.raises(EstimationError, match="keeps all rows"):
        Options("none", 3.0)


# --- A change ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pickup(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A TX-40 that picks up 1.5 kg after 40 s."""
    folder = tmp_path_factory.mktemp("pickup")
    robot = read_robot("tx40")
    model = Model(robot, named_terms(("rotor", "viscous", "coulomb", "offset")))
    loaded = Model(robot, model.terms, payloads=[Payload("box")])
    rng = np.random.default_rng(1)
    t = np.arange(10_000) / 200.0
    q, v, a = random_fourier(robot, 5, 0.1, 50.0, rng).at(t)
    theta = model.layout.nominal
    assert theta is not None
    body = np.zeros(10)
    body[8:] = 0.15, 1.5
    tau = model.torque(q, v, a, theta)
    noise = 0.03 * tau.std(axis=1, keepdims=True) * rng.standard_normal(tau.shape)
    effort = np.where(t < 40.0, tau, loaded.torque(q, v, a, np.concatenate([theta, body]), load="box")) + noise
    names = [f"{kind}{j}" for kind in ("q", "e") for j in range(6)]
    (folder / "log.csv").write_bytes(csv({"t": t, **dict(zip(names, [*q, *effort], strict=True))}))
    (folder / "project.toml").write_text(
        'robot = "tx40"\nterms = ["rotor", "viscous", "coulomb", "offset"]\n'
        '[prepare]\ncutoff_hz = 20.0\nlowpass_hz = 10.0\ndecimate = 4\nderivatives = "differences"\ndelay = "none"\n'
        '[channels]\ntime = { column = "t" }\n'
        f'q = {{ columns = {json.dumps(names[:6])}, unit = "rad" }}\n'
        f'effort = {{ columns = {json.dumps(names[6:])}, unit = "N.m" }}\n'
        '[[run]]\nlog = "log.csv"\n',
        "utf-8",
    )
    return folder / "project.toml"


@pytest.mark.slow
def test_a_body_that_is_picked_up_is_told_and_weighed(pickup: Path, steelyard: Run) -> None:
    out = pickup.parent / "out"
    # the log is finished, but a project that leaves nothing open needs no second look at it
    told = steelyard("watch", pickup, "--until-idle", 0, "--json", "--out", out)
    assert told.code == 0, told.err
    documents = lines(told.out)
    phases = [one["phase"] for one in documents]
    assert list(dict.fromkeys(phases)) == ["learning", "watching", "changed"]
    change = documents[-1]["change"]
    assert change["kind"] == "payload"
    assert change["t"] == pytest.approx(40.0, abs=0.3)
    assert change["body"]["mass"]["value"] == pytest.approx(1.5, abs=0.05)
    assert 0.0 < change["body"]["mass"]["std"] < 0.05
    assert change["verdict"] in told.err
    assert "change-detected" in {finding.code for finding in read_result(out).findings}
    # the parameters come from the rows before it, and so says the result
    assert read_document(out)["project"]["run"][0]["seconds"] == [0.0, change["t"]]
    # the last rows are weighed too
    masses = [one["change"]["body"]["mass"]["std"] for one in documents if one["change"] and one["change"]["body"]]
    assert masses[-1] <= masses[0]
    page = (out / CONVERGENCE).read_text("utf-8")
    assert "mass picked up" in page
    assert "The dotted line marks the change" in page


@pytest.mark.slow
def test_the_screen_shows_state_change_and_parameters(pickup: Path) -> None:
    follower, refreshes = followed(pickup, Options(watch=ChangeDetection()))
    sheet = io.StringIO()
    Console(file=sheet, width=180).print(screen(follower, "Fv", 30))
    shown = sheet.getvalue()
    change = refreshes[-1].change
    assert change is not None
    assert change.verdict in " ".join(shown.split())
    assert "changed; relative error" in shown
    assert "rows 0.4" in shown
    assert all(f"joint{j}.Fv" in shown for j in range(1, 7))
    assert "joint1.Fc" not in shown
    assert any(block in shown for block in BLOCKS)
    small = io.StringIO()
    Console(file=small, width=180).print(screen(follower, "", 20))
    assert len(small.getvalue().splitlines()) <= 20
    assert "more: --show" in small.getvalue()


@pytest.mark.slow
def test_nothing_is_looked_for_when_told_so(pickup: Path, steelyard: Run) -> None:
    told = steelyard("watch", pickup, "--until-idle", 0, "--json", "--learn", 0, "--refresh", 10)
    assert {one["phase"] for one in lines(told.out)} == {"not watched"}
    assert all(one["change"] is None for one in lines(told.out))


# --- The history ------------------------------------------------------------------------------------------------------


def test_the_course_keeps_its_ends_in_flat_memory(project: Path) -> None:
    _, refreshes = followed(project)
    history = History()
    for k in range(5 * KEPT + 3):
        history.add(float(k), replace(refreshes[-1].result, value=refreshes[-1].result.value + k))
        assert len(history.points) < 2 * KEPT
    curves = history.curves(refreshes[-1].result)
    for curve in curves:
        assert curve.t[0] == 0.0
        assert curve.t[-1] == 5 * KEPT + 2
        assert np.all(np.diff(curve.t) > 0.0)
    first = next(curve for curve in curves if curve.name == refreshes[-1].result.base.names[0])
    np.testing.assert_allclose(first.y - first.y[0], first.t)
    np.testing.assert_allclose(first.half, 2.0 * refreshes[-1].result.std[0])


def test_sparklines_do_not_magnify_noise(project: Path) -> None:
    _, refreshes = followed(project)
    result, history = refreshes[-1].result, History()
    for k in range(10):
        wiggle = result.value + 1e-3 * result.std * (-1) ** k
        wiggle[1] = result.value[1] + 100.0 * result.std[1] * k
        wiggle[2] = np.nan
        history.add(float(k), replace(result, value=wiggle))
    assert len(set(sparkline(history, 0))) == 1
    assert sparkline(history, 1)[0] == BLOCKS[0]
    assert sparkline(history, 1)[-1] == BLOCKS[-1]
    assert sparkline(history, 2) == ""


def test_scales_are_those_of_the_later_refreshes_and_unknown_values_are_left_out() -> None:
    t = np.arange(8.0)
    y = np.array([1e9, np.nan, 2.0, 2.1, 2.0, 1.9, 2.0, 2.0])
    curve = Curve("a", "kg.m2", t, y, np.where(t > 3, 0.1, np.nan))
    low, high = scale(curve.y, np.nan_to_num(curve.half))
    assert 1.5 < low < 1.8
    assert 2.1 < high < 2.5
    figure = history_figure(curve, change=4.0)
    assert figure["layout"]["yaxis"]["title"]["text"] == "[kg·m²]"
    assert [shape["x0"] for shape in figure["layout"]["shapes"]] == [4.0]
    assert not history_figure(curve, change=40.0)["layout"]["shapes"]
    assert moved(curve) == pytest.approx(0.2 / (0.05 * 4 / 6))
    unknown = Curve("b", "1", t, np.full(8, np.nan), np.full(8, np.nan))
    assert len(history_figure(unknown)["data"]) == 1
    assert moved(unknown) == 0.0


def test_the_page_ranks_parameters_by_change_and_escapes_names(project: Path) -> None:
    follower, refreshes = followed(project)
    result = refreshes[-1].result
    curves = list(follower.history.curves(result))
    first = curves[-1]
    curves[-1] = replace(first, y=first.y + np.linspace(0.0, 1e3, len(first.y)) * first.half)
    page = watched_page(result, curves, "<b>mine</b> & more")
    assert "<b>mine" not in page
    assert "nan" not in Outline(page).text.split()
    (body,) = re.findall(r'<table class="changes".*?</table>', page, re.DOTALL)
    names = re.findall(r'<th scope="row"><code>(.*?)</code>', body)
    assert next(name for name in names if name in result.base.names) == first.name
    assert body.count("<tr") == len(curves) + 1
    assert page.count("* plotly.js v") == 1
