"""Names that command a terminal, a browser or a program: none of them is obeyed, by any output."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.io import savemat

from steelyard.cli.console import people, say
from steelyard.errors import SteelyardError, check_name, printable
from steelyard.formats.logs import read_recording
from steelyard.formats.robots import read_robot
from steelyard.project.documents import text
from steelyard.report.templates import fragment
from testbed.command import Run

# What a name may do: colour, title and clear a terminal (7 and 8 bits), turn writing round, end a line, a tag, a
# comment, a string, a cell; call a program of a spreadsheet; leave a folder; be code of LaTeX.
CONTROLS = [
    "q\x1b[31mred", "q\x1b]0;title\x07", "q\x9b2J", "q\u202egnp.exe", "q\r\nsecond", "q\x00end", "q\u2028line",
    "q\x7f\x08",
]  # fmt: skip
MARKUP = [
    "</script><script>alert(1)</script>", "<img src=x onerror=alert(1)>", '"; system("x"); /*', "*/ int x; /*",
    "../../escape", "$(touch ran)", r"\input{/etc/passwd}", "=1+1", "[red]bold[/red]", "{{ 7 * 7 }}",
]  # fmt: skip
COMMANDS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
TABLE = """
name = {robot}
convention = "mdh"
[[joint]]
name = {one}
alpha = "-pi/2"
a = 0
d = 0
theta = 0
[[joint]]
name = {other}
alpha = 0
a = 0.4
d = 0
theta = 0
"""


@pytest.mark.parametrize("name", CONTROLS)
def test_a_name_with_a_control_character_is_written_out_or_refused(name: str) -> None:
    assert not COMMANDS.search(printable(name).replace("\n", "\x00"))
    with pytest.raises(SteelyardError, match="control character"):
        check_name("joint", name)


@pytest.mark.parametrize("name", CONTROLS)
@pytest.mark.parametrize("where", ["robot", "one"])
def test_robot_files(tmp_path: Path, name: str, where: str) -> None:
    quoted = {"robot": '"arm"', "one": '"j1"', "other": '"j2"'} | {where: json.dumps(name)}
    (tmp_path / "arm.toml").write_text(TABLE.format(**quoted).replace("\x7f", "\\u007f"), "utf-8")
    with pytest.raises(SteelyardError) as caught:
        read_robot(tmp_path / "arm.toml")
    assert "control character" in str(caught.value)
    assert not COMMANDS.search(str(caught.value))


def test_urdf_names(tmp_path: Path) -> None:
    (tmp_path / "arm.urdf").write_text(
        '<robot name="a"><link name="b"/><link name="l&#x9b;2J"/><joint name="j" type="continuous"><parent link="b"/>'
        '<child link="l&#x9b;2J"/></joint></robot>'
    )
    with pytest.raises(SteelyardError, match=r"'l\\x9b2J' of a link contains a control character"):
        read_robot(tmp_path / "arm.urdf")


def test_columns_of_logs_are_written_out(tmp_path: Path) -> None:
    rows = "".join(f"{k},{k}\n" for k in range(9))
    (tmp_path / "a.csv").write_text(f"t,q\x1b[31m\n{rows}")
    recording = read_recording(tmp_path / "a.csv")
    assert recording.columns == ("t", r"q\x1b[31m")
    (block,) = recording.chunks((r"q\x1b[31m",))
    assert block[r"q\x1b[31m"].tolist() == list(range(9))
    savemat(tmp_path / "b.mat", {"t": np.arange(9.0), "s": {"q": np.arange(9.0)}})
    assert read_recording(tmp_path / "b.mat").columns == ("t", "s.q")


@pytest.mark.parametrize("name", CONTROLS)
def test_printers_write_them_out(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert not COMMANDS.search(text({"name": name}).replace("\n", ""))
    assert json.loads(text({"name": name})) == {"name": name}
    shown = str(fragment("sections/findings.html", findings=[_finding(name)]))
    assert not COMMANDS.search(shown)
    with people.capture() as captured:
        say(f"file {name}")
    assert not COMMANDS.search(captured.get())


def _finding(name: str) -> dict[str, Any]:
    return {"severity": "info", "code": "delays", "where": name, "message": name, "fix": name}


def test_paths_and_projects(steelyard: Run, tmp_path: Path) -> None:
    for name in (*CONTROLS, *MARKUP):
        if "\x00" in name:
            continue
        told = steelyard("identify", tmp_path / name.replace("/", "_"))
        assert told.code == 2
        assert not COMMANDS.search(told.err.replace("\n", "")), name
        told = steelyard("identify", tmp_path / name.replace("/", "_"), "--json")
        assert not COMMANDS.search(told.out.replace("\n", "")), name
    (tmp_path / "p.toml").write_text('robot = "planar2r"\nterms = ["\\u001b[31m"]\n')
    told = steelyard("identify", tmp_path / "p.toml")
    assert r"'\x1b[31m' contains a control character" in told.err


class _Scripts(HTMLParser):
    """The elements of a page that could run something."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, list[tuple[str, str | None]]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("script", "img", "iframe", "object") or any(name.startswith("on") for name, _ in attrs):
            self.found.append((tag, attrs))


@pytest.fixture(scope="module")
def hostile_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A result whose robot, joints and columns are named after `MARKUP`."""
    folder = tmp_path_factory.mktemp("hostile")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    run = [sys.executable, "-m", "steelyard"]
    subprocess.run([*run, "demo", "planar2r", "--out", "d"], cwd=folder, env=environment, check=True, timeout=300)
    log = (folder / "d" / "identify.csv").read_text().splitlines(keepends=True)
    named = [json.dumps(name) for name in (MARKUP[0], MARKUP[2] + MARKUP[3], MARKUP[6] + MARKUP[1])]
    (folder / "arm.toml").write_text(TABLE.format(robot=named[0], one=named[1], other=named[2]))
    columns = [MARKUP[8], MARKUP[7], MARKUP[9], MARKUP[5]]
    header = ",".join(["t", *(f'"{name}"' for name in columns)]) + "\n"
    (folder / "log.csv").write_text(header + "".join(log[1:8001]))
    q, tau = json.dumps(columns[:2]), json.dumps(columns[2:])
    (folder / "p.toml").write_text(
        f'robot = "arm.toml"\nterms = ["viscous"]\n[prepare]\ncutoff_hz = 25\nlowpass_hz = 10\n'
        f"decimate = 40\nrest = 0.02\n"
        f'[channels]\ntime = {{ column = "t" }}\nq = {{ columns = {q}, unit = "rad" }}\n'
        f'effort = {{ columns = {tau}, unit = "N.m" }}\n[[run]]\nlog = "log.csv"\nname = {json.dumps(MARKUP[0])}\n'
    )
    made = subprocess.run(
        [*run, "identify", "p.toml", "--out", "run", "--tables", "csv,tex"], cwd=folder, env=environment, timeout=300,
        capture_output=True, text=True,
    )  # fmt: skip
    assert made.returncode in (0, 4), made.stderr
    (folder / "said.txt").write_text(made.stderr)
    return folder


@pytest.mark.slow
def test_pages_run_nothing(hostile_run: Path) -> None:
    page = _Scripts()
    page.feed((hostile_run / "run" / "report.html").read_text())
    assert all(tag == "script" and not dict(attrs).get("src") for tag, attrs in page.found), page.found
    plain = _Scripts()
    plain.feed((hostile_run / "d" / "project-run" / "report.html").read_text())
    assert page.found == plain.found


@pytest.mark.slow
def test_terminal_shows_the_names_as_they_are(hostile_run: Path) -> None:
    said = (hostile_run / "said.txt").read_text()
    assert MARKUP[6] + MARKUP[1] in said  # the joint that is not explained
    assert not COMMANDS.search(said.replace("\n", ""))


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler")
def test_code_compiles_and_does_only_its_work(hostile_run: Path) -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    run = [sys.executable, "-m", "steelyard", "export", "run"]
    for to, out in (("c", "code"), ("python", "model.py"), ("latex", "t.tex"), ("urdf", "new.urdf")):
        told = subprocess.run(
            [*run, "--to", to, "--out", out, *(["--allow-infeasible"] if to in ("c", "python") else [])],
            cwd=hostile_run, env=environment, capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        assert told.returncode in (0, 2), told.stderr
        assert (hostile_run / out).exists() or told.returncode == 2, told.stderr
    sources = sorted(str(file) for file in (hostile_run / "code").glob("*.c"))
    assert len(sources) == 2
    subprocess.run(["gcc", "-std=c99", "-Wall", "-Werror", "-o", "test", *sources, "-lm"], cwd=hostile_run, check=True)
    subprocess.run(["./test"], cwd=hostile_run, check=True)
    compile((hostile_run / "model.py").read_text(), "model.py", "exec")
    assert "\\input" not in (hostile_run / "t.tex").read_text()
    assert not (hostile_run / "ran").exists()
