"""Names that command a terminal, a browser or a program: none of them is obeyed, by any output."""

from __future__ import annotations

import ast
import csv
import json
import os
import re
import shlex
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
from testbed.browser import browser, need_browser, opened
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


# All ten in the name of the robot, of each joint and of the run; "=1+1" first, where a spreadsheet would calculate it.
JOINTS = ("".join(MARKUP), "".join(sorted(MARKUP, key=lambda name: name != "=1+1")))
COLUMNS = [MARKUP[8], MARKUP[7], MARKUP[9], MARKUP[5]]


def steelyard_in(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The program in a process of its own: what it prints is what a terminal gets."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(
        [sys.executable, "-m", "steelyard", *arguments],
        cwd=folder, env=environment, timeout=300, capture_output=True, text=True,
    )  # fmt: skip


@pytest.fixture(scope="module")
def hostile_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A result whose robot, joints, columns and run are named after `MARKUP`."""
    folder = tmp_path_factory.mktemp("hostile")
    assert steelyard_in(folder, "demo", "planar2r", "--out", "d").returncode == 0
    log = (folder / "d" / "identify.csv").read_text().splitlines(keepends=True)
    named = [json.dumps(name) for name in ("".join(MARKUP), *JOINTS)]
    (folder / "arm.toml").write_text(TABLE.format(robot=named[0], one=named[1], other=named[2]))
    header = ",".join(["t", *(f'"{name}"' for name in COLUMNS)]) + "\n"
    (folder / "log.csv").write_text(header + "".join(log[1:8001]))
    q, tau = json.dumps(COLUMNS[:2]), json.dumps(COLUMNS[2:])
    (folder / "p.toml").write_text(
        f'robot = "arm.toml"\nterms = ["viscous"]\n[prepare]\ncutoff_hz = 25\nlowpass_hz = 10\n'
        f"decimate = 40\nrest = 0.02\n"
        f'[channels]\ntime = {{ column = "t" }}\nq = {{ columns = {q}, unit = "rad" }}\n'
        f'effort = {{ columns = {tau}, unit = "N.m" }}\n[[run]]\nlog = "log.csv"\nname = {named[0]}\n'
    )
    made = steelyard_in(folder, "identify", "p.toml", "--out", "run", "--tables", "csv,tex,json,html")
    assert made.returncode in (0, 4), made.stderr
    (folder / "said.txt").write_text(made.stderr)
    return folder


@pytest.fixture(scope="module")
def pages(hostile_run: Path) -> list[Path]:
    """The pages of the commands that write one."""
    for name, *arguments in (
        ("validate", "run", "log.csv", "--report", "validate.html"),
        ("crossvalidate", "p.toml", "--report", "folds.html"),
        ("compare", "run", "run", "--report", "compare.html"),
        ("control", "run", "--seconds", "0.5", "--out", "control"),
    ):
        told = steelyard_in(hostile_run, name, *arguments)
        assert told.returncode in (0, 1, 4), told.stderr
        assert not COMMANDS.search((told.stdout + told.stderr).replace("\n", ""))
    found = [*hostile_run.glob("*.html"), *hostile_run.glob("run/*.html"), *hostile_run.glob("control/*.html")]
    assert len(found) >= 6
    return found


@pytest.mark.slow
def test_pages_run_nothing(hostile_run: Path, pages: list[Path]) -> None:
    page, plain = _Scripts(), _Scripts()
    page.feed((hostile_run / "run" / "report.html").read_text())
    plain.feed((hostile_run / "d" / "project-run" / "report.html").read_text())
    assert page.found == plain.found
    for file in pages:
        page = _Scripts()
        page.feed(file.read_text())
        assert all(tag == "script" and not dict(attrs).get("src") for tag, attrs in page.found), (file, page.found)


@pytest.mark.slow
def test_a_browser_runs_nothing(pages: list[Path]) -> None:
    need_browser()
    shown = 0
    with browser() as launched:
        for file in pages:
            seen = opened(launched, file)
            dialogs: list[str] = []
            seen.page.on("dialog", lambda one, dialogs=dialogs: dialogs.append(one.message))
            seen.page.reload()
            seen.scroll()
            assert (dialogs, seen.errors, seen.requests) == ([], [], []), file
            assert seen.page.evaluate("document.querySelectorAll('img').length") == 0
            shown += seen.page.evaluate("document.body.innerText.includes('alert(1)')")
    assert shown >= 5, "the names are shown as text"


@pytest.mark.slow
def test_terminal_shows_the_names_as_they_are(hostile_run: Path) -> None:
    said = (hostile_run / "said.txt").read_text()
    assert MARKUP[6] in said
    assert not COMMANDS.search(said.replace("\n", ""))


# What our tables are made of.
LATEX = {
    "begin", "bottomrule", "caption", "centering", "cdot", "cmidrule", "end", "footnotesize", "ge", "infty", "le",
    "linewidth", "mathit", "mathrm", "midrule", "multicolumn", "mu", "par", "pm", "quad", "sigma", "Sigma", "text",
    "textasciicircum", "textasciitilde", "textbackslash", "theta", "times", "to", "toprule", "usepackage",
}  # fmt: skip
# Colours, and what draws a bar of progress: no titles, no clipboards, no answers of the terminal, no clearing.
DRAWN = re.compile(r"\x1b\[[0-9;]*m|\x1b\[\?25[lh]|\x1b\[2K|\x1b\[1A|[\r\n]")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("script") is None, reason="no `script` to record a terminal (util-linux)")
def test_a_recorded_terminal_gets_no_commands(hostile_run: Path) -> None:
    """Columns of a log, and paths, with names that command a terminal; every command prints them."""
    folder = hostile_run / "terminal"
    folder.mkdir()
    names = [name for name in CONTROLS if not set(name) & {"\x00", "\r", "\n"}]
    rows = (hostile_run / "log.csv").read_text().splitlines(keepends=True)[1:3001]
    header = ",".join(["t", names[0], names[1], names[2] + MARKUP[8], names[3]])
    for name in names:
        (folder / f"{name}.csv").write_text(f"{header}\n{''.join(rows)}")
    (folder / "commands").write_text(
        "\n".join(
            shlex.join([sys.executable, "-m", "steelyard", *one])
            for one in (
                ("init", "planar2r", *(f"{name}.csv" for name in names)),
                *(("identify", name) for name in names[:2]),
                ("validate", str(hostile_run / "run"), f"{names[0]}.csv"),
                ("identify", str(hostile_run / "p.toml"), "--out", "run"),
            )
        )
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "TERM": "xterm-256color"}
    subprocess.run(
        ["script", "-qec", "bash commands", "typescript"],
        cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=300,
    )  # fmt: skip
    recorded = (folder / "typescript").read_text("utf-8")
    first, _, recorded = recorded.partition("\n")  # the line of `script` itself
    assert first.startswith("Script started")
    assert "alert(1)" in recorded
    assert r"\x1b]0;title" in recorded
    assert not COMMANDS.search(DRAWN.sub("", recorded)), COMMANDS.findall(DRAWN.sub("", recorded))


@pytest.fixture(scope="module")
def exported(hostile_run: Path) -> Path:
    """What `export` and `predict` write of that result."""
    for to, out in (("c", "code"), ("python", "model.py"), ("casadi", "symbols.py"), ("latex", "t.tex")):
        physical = ["--allow-infeasible"] if to != "latex" else []
        told = steelyard_in(hostile_run, "export", "run", "--to", to, "--out", out, *physical)
        assert told.returncode == 0, told.stderr
    told = steelyard_in(hostile_run, "predict", "run", "log.csv", "--out", "torque.csv")
    assert told.returncode in (0, 4), told.stderr
    return hostile_run


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler")
def test_code_compiles_and_does_only_its_work(exported: Path) -> None:
    sources = sorted(str(file) for file in (exported / "code").glob("*.c"))
    assert len(sources) == 2
    subprocess.run(["gcc", "-std=c99", "-Wall", "-Werror", "-o", "test", *sources, "-lm"], cwd=exported, check=True)
    subprocess.run(["./test"], cwd=exported, check=True)
    for name in ("model.py", "symbols.py"):
        tree = ast.parse((exported / name).read_text())
        called = {ast.unparse(one.func) for one in ast.walk(tree) if isinstance(one, ast.Call)}
        assert not called & {"alert", "system", "os.system", "eval", "exec"}
    assert not (exported / "ran").exists()


@pytest.mark.slow
def test_latex_escapes_every_name(exported: Path) -> None:
    """No LaTeX is needed for this: a name is text, so none of its characters may be one of LaTeX's own."""
    files = [exported / "t.tex", *sorted((exported / "run").rglob("*.tex"))]
    assert any(r"\textbackslash{}input\{/etc/passwd\}" in file.read_text() for file in files)
    for file in files:
        text = file.read_text()
        commands = set(re.findall(r"\\([a-zA-Z]+)", text))
        assert commands <= LATEX, (file, commands - LATEX)
        for line in text.splitlines():
            if "alert" in line:
                assert not re.search(r"(?<!\\)[$#%_]\(?(touch|etc)", line), line


@pytest.mark.slow
def test_no_spreadsheet_calculates_a_name(exported: Path) -> None:
    tables = [exported / "torque.csv", *sorted((exported / "run").rglob("*.csv"))]
    assert len(tables) > 2
    for file in tables:
        with file.open(newline="") as stream:
            cells = [cell for row in csv.reader(stream) for cell in row]
        texts = [cell for cell in cells if cell[:1] in ("=", "+", "-", "@", "\t") and not _is_number(cell)]
        assert not texts, (file, texts[:3])


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


@pytest.mark.slow
def test_files_have_tame_names(hostile_run: Path, exported: Path) -> None:
    """Where a name gives the name of a file, it stays in its folder."""
    before = set(hostile_run.parent.iterdir())
    for to in ("c", "python", "latex"):
        told = steelyard_in(exported, "export", "run", "--to", to, *(["--allow-infeasible"] if to != "latex" else []))
        assert told.returncode == 0, told.stderr
    assert set(hostile_run.parent.iterdir()) == before
    for path in exported.rglob("*"):
        assert not COMMANDS.search(str(path.relative_to(exported))) or "terminal" in path.parts
