"""The commands as a list: groups, sentences, examples, completion, commands of the user; and the exit codes of all."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer

from steelyard.cli import COMMANDS, Command, ExitCode, load_command, register, unregister
from steelyard.cli.door import commands as table
from steelyard.cli.door import defect
from steelyard.errors import DataError, SteelyardError
from testbed.command import Run


def words(text: str) -> str:
    """A help text without the lines of its boxes, on one line."""
    return " ".join(re.sub(r"[│╭╮╰╯─]+", " ", text).split())


def weigh(
    robot: Annotated[str, typer.Argument(help="Robot to weigh.")],
    limit: Annotated[float, typer.Option(help="Largest mass [kg].")] = 10.0,
) -> ExitCode:
    """Adds the masses of all links."""
    if robot == "wrong":
        raise DataError("There is no robot 'wrong'.")
    if robot == "broken":
        raise ZeroDivisionError("no links.")
    if robot == "missing":
        raise FileNotFoundError(2, "No such file or directory", "arm.toml")
    if robot == "stopped":
        raise KeyboardInterrupt
    if robot == "large":
        raise MemoryError
    print(robot, limit)
    return ExitCode.JUDGED if limit < 5.0 else ExitCode.DONE


WEIGH = Command("weigh", weigh, "Add up masses [kg].", "steelyard weigh tx40 --limit 50", judged="it is too heavy")


@pytest.fixture
def _registered() -> Iterator[None]:
    register(WEIGH)
    yield
    unregister("weigh")


# --- What is listed ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_a_sentence_and_an_example_that_it_takes(name: str, steelyard: Run) -> None:
    one = COMMANDS[name]
    assert one.sentence.endswith(".")
    assert ". " not in one.sentence
    program, called, *arguments = shlex.split(one.example)
    assert (program, called) == ("steelyard", name)
    loaded = load_command(name)
    loaded.make_context(name, arguments)  # parses them, and runs nothing
    told = words(steelyard(name, "--help").out)
    assert one.sentence in told
    assert f"Example: {one.example}" in told
    assert (f"Exit code 1: {words(one.judged).replace('`', '')}." in told) == bool(one.judged)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_shows_every_word_of_the_help_texts(name: str, steelyard: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Units in brackets are text, not markup that vanishes; so are names with stars or underscores."""
    monkeypatch.setenv("COLUMNS", "1000")
    monkeypatch.setenv("TERMINAL_WIDTH", "1000")
    told = words(steelyard(name, "--help").out)
    for parameter in load_command(name).params:
        assert words(parameter.help).replace("`", "") in told  # type: ignore[attr-defined]


def test_headings_name_options_that_exist() -> None:
    for name, one in COMMANDS.items():
        options = [parameter.name for parameter in load_command(name).params]
        named = [option for names in one.headings.values() for option in names]
        assert len(set(named)) == len(named)
        assert set(named) <= set(options)


def test_help_lists_the_commands_by_what_a_user_wants(steelyard: Run) -> None:
    told = steelyard("--help")
    assert told.code == 0
    lines = told.out.splitlines()
    found: dict[str, list[str]] = {}
    for line in lines:
        if panel := re.match(r"╭─ (\w+) ─", line):
            found[panel[1]] = []
        elif found and (listed := re.match(r"│ ([a-z-]+) ", line)):
            found[list(found)[-1]].append(listed[1])
    found.pop("Options")
    wanted: dict[str, list[str]] = {}
    for name, one in COMMANDS.items():
        wanted.setdefault(one.group, []).append(name)
    assert found == wanted
    assert list(found) == ["Start", "Identify", "Judge", "Design", "Use", "Study"]
    assert all(one.sentence in words(told.out) for one in COMMANDS.values())
    assert "Exit codes: 0 done; 1 negative verdict; 2 cannot be done" in words(told.out)


# --- Completion -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("steelyard cr", ["crossvalidate"]),
        ("steelyard export --to m", ["mjcf"]),
        ("steelyard identify project.toml --estimator consistent", ["consistent", "consistent-gains"]),
        ("steelyard params tx", ["tx40"]),
        ("steelyard params tx40 --terms rotor,vi", ["rotor,viscous"]),
        ("steelyard identify project.toml --es", ["--estimator"]),
        ("steelyard identify proj", []),  # where the shell completes file names
    ],
)
def test_the_shell_completes(typed: str, completed: list[str], steelyard: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMP_WORDS", typed)
    monkeypatch.setenv("COMP_CWORD", str(len(typed.split()) - 1))
    monkeypatch.setenv("_STEELYARD_COMPLETE", "complete_bash")
    told = steelyard()
    assert told.code == 0
    assert told.out.split() == completed


def test_the_completion_script_can_be_shown(steelyard: Run) -> None:
    told = steelyard("--show-completion", "bash")
    assert told.code == 0
    assert "_STEELYARD_COMPLETE" in told.out


# --- Commands of the user ---------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("_registered")
def test_a_registered_command_works_as_a_built_in_one(steelyard: Run) -> None:
    told = steelyard("weigh", "tx40", "--limit", 7)
    assert (told.code, told.out) == (0, "tx40 7.0\n")
    assert steelyard("weigh", "tx40", "--limit", 1).code == 1
    listed = words(steelyard("--help").out)
    assert "Plug-ins weigh Add up masses [kg]." in listed
    told = steelyard("weigh", "--help")
    shown = "Add up masses [kg]. Adds the masses of all links.", "Largest mass [kg].", "Exit code 1: it is too heavy."
    assert all(text in words(told.out) for text in shown)
    told = steelyard("weigh", "tx40", "--colour")
    assert told.code == 2
    assert "See: steelyard weigh --help" in told.err


def test_built_in_commands_stay(steelyard: Run) -> None:
    with pytest.raises(SteelyardError, match="'robots' is built in: give yours another name"):
        register(Command("robots", weigh, "Mine."))
    with pytest.raises(SteelyardError, match="'robots' is built in and cannot be removed"):
        unregister("robots")
    with pytest.raises(SteelyardError, match="Unknown command 'weigh'"):
        unregister("weigh")
    assert steelyard("weigh", "tx40").code == 2


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (weigh, r"make it a Command\(name, function, sentence\)"),
        (Command("Weigh it", weigh, "Weighs."), "`name` must be one word"),
        (Command("weigh", "mine", "Weighs."), "`function` must be a function or 'package.module:function'"),
        (Command(None, weigh, "Weighs."), "`name` must be one word"),  # type: ignore[arg-type]
        (Command("weigh", weigh, None), "`sentence` must say what it does"),  # type: ignore[arg-type]
        (Command("weigh", weigh, " "), "`sentence` must say what it does"),
    ],
)
def test_what_is_no_command_is_refused(command: Any, said: str) -> None:
    with pytest.raises(SteelyardError, match=said):
        register(command)


@pytest.fixture
def _installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """A package with three commands: a good one, one of a built-in name and one that cannot be imported."""
    (tmp_path / "weighing_plug_in.py").write_text("def weigh(robot: str) -> None:\n    print('mine', robot)\n", "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    points = {"weigh": "weighing_plug_in:weigh", "robots": "weighing_plug_in:weigh", "lost": "nowhere_at_all:weigh"}
    group = table.ENTRY_POINTS
    found = [EntryPoint(name, place, group) for name, place in points.items()]
    monkeypatch.setattr(table, "entry_points", lambda group: found)
    table._plug_ins.cache_clear()
    yield
    table._plug_ins.cache_clear()
    sys.modules.pop("weighing_plug_in", None)


@pytest.mark.usefixtures("_installed")
def test_installed_packages_bring_commands_that_load_when_called(steelyard: Run) -> None:
    listed = steelyard("--help").out
    assert "Plug-ins" in listed
    assert "weighing_plug_in" not in sys.modules
    assert steelyard("weigh", "tx40").out == "mine tx40\n"
    assert steelyard("robots", "--json").document["schema"] == "steelyard.robots/1"
    told = steelyard("lost", "tx40")
    assert told.code == 2
    assert "Command 'lost' cannot be loaded from 'nowhere_at_all:weigh': No module named" in told.err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def weigh(:", "SyntaxError: "),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("raise SystemExit(0)", "SystemExit: 0"),
        ("weigh = 3", "3 is not a function"),
    ],
)
def test_a_command_that_cannot_be_loaded_is_named(
    text: str, said: str, steelyard: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "broken_plug_in.py").write_text(f"{text}\n", "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    register(Command("weigh", "broken_plug_in:weigh", "Weighs."))
    told = steelyard("weigh")
    unregister("weigh")
    sys.modules.pop("broken_plug_in", None)
    assert told.code == 2
    assert f"Command 'weigh' cannot be loaded from 'broken_plug_in:weigh': {said}" in told.err


# --- Exit codes -------------------------------------------------------------------------------------------------------


def test_the_table() -> None:
    assert {code.name: int(code) for code in ExitCode} == {
        "DONE": 0, "JUDGED": 1, "REFUSED": 2, "DEFECT": 3, "PARTIAL": 4,
    }  # fmt: skip


@pytest.mark.usefixtures("_registered")
@pytest.mark.parametrize(
    ("robot", "code", "said"),
    [
        ("wrong", 2, "There is no robot 'wrong'."),
        ("missing", 2, "The operating system reports: [Errno 2] No such file or directory: 'arm.toml'."),
        ("stopped", 2, "Stopped by the user; no incomplete file was left."),
        ("large", 2, "Out of memory."),
        (
            "broken",
            3,
            "The command 'weigh' (a plug-in) failed: ZeroDivisionError: no links. Please report it to its author",
        ),
    ],
)
def test_every_failure_is_one_sentence_with_its_code(
    robot: str, code: int, said: str, steelyard: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    told = steelyard("weigh", robot)
    assert (told.code, told.out) == (code, "")
    assert told.err.startswith(f"error: {said}")
    assert len(told.err.splitlines()) == 1


def test_a_defect_of_a_built_in_command_is_one_of_steelyard(
    steelyard: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def broken() -> None:
        raise ZeroDivisionError("no links.")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(COMMANDS, "robots", replace(COMMANDS["robots"], function=broken))
    told = steelyard("robots")
    assert told.code == 3
    said = "error: This is a defect of Steelyard (ZeroDivisionError: no links). Please report it and attach '"
    assert told.err.startswith(said)


@pytest.mark.parametrize(
    ("returned", "code"), [(None, 0), (ExitCode.JUDGED, 1), (4, 4), (77, 3), (True, 3), (False, 3), ("hello", 3)]
)
@pytest.mark.parametrize("how", ["returns", "exits", "leaves"])
def test_only_the_codes_of_the_table_are_returned(how: str, returned: Any, code: int, steelyard: Run) -> None:
    def weigh() -> Any:
        if how == "exits":
            sys.exit(returned)
        if how == "leaves" and returned is not None:
            raise typer.Exit(returned)
        return returned

    register(Command("weigh", weigh, "Weighs."))
    told = steelyard("weigh")
    unregister("weigh")
    assert told.code == code
    wrong = f"error: Command 'weigh' returned {returned!r}, not an exit code: return None or one of 0, 1, 2, 3, 4.\n"
    assert told.err == (wrong if code == 3 else "")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        ("params planar2r --json >&-", 0, None),
        ("params planar2r --json 2>&- | grep -q steelyard.params", 0, ""),
        ("params planar2r --json >/dev/full", 2, "error: Cannot write to stdout: No space left on device.\n"),
        ("--version >/dev/full", 2, "error: Cannot write to stdout: No space left on device.\n"),
        ("params nope 2>/dev/full", 2, ""),
        ("params nope --json | head -c 0", 2, None),
        ("nope >&- 2>&-", 2, ""),
        ("--help | true", 0, ""),
        ("params --help | true", 0, ""),
    ],
)
def test_closed_and_full_streams_keep_the_meaning(command: str, code: int, said: str | None) -> None:
    arguments, _, rest = command.partition(" | ")
    pipe = f" | {rest}" if rest else ""
    script = f"{shlex.quote(sys.executable)} -m steelyard {arguments}{pipe}; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=120)
    assert done.returncode == code
    assert "Traceback" not in done.stderr
    assert said is None or done.stderr == said


@pytest.mark.slow
@pytest.mark.parametrize("module", ["steelyard.cli.console", "steelyard.cli.robots", "steelyard.model.base_parameters"])
def test_a_stop_during_imports_is_one_sentence(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = f"""
import importlib.abc, sys
class Stop(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == {module!r}:
            raise KeyboardInterrupt
sys.meta_path.insert(0, Stop())
from steelyard.__main__ import main
main()
"""
    done = subprocess.run(
        [sys.executable, "-c", program, "params", "planar2r"], capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stderr) == (2, "error: Stopped by the user; no incomplete file was left.\n")


def test_json_errors_carry_the_code(steelyard: Run) -> None:
    told = steelyard("params", "tx41", "--json")
    assert told.document["schema"] == "steelyard.error/1"
    assert told.document["code"] == told.code == 2
    assert told.document["error"] in told.err


@pytest.mark.usefixtures("_registered")
def test_a_defect_leaves_a_report_to_attach(steelyard: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(Path(__file__).parents[1]))
    monkeypatch.setenv("SECRET_TOKEN", "hunter2")
    told = steelyard("weigh", "broken")
    (report,) = tmp_path.iterdir()
    assert f"'{report}'" in told.err
    text = report.read_text("utf-8")
    assert "Command: steelyard weigh broken" in text
    assert "ZeroDivisionError: no links." in text
    assert re.search(r"Steelyard \d+\.\d+.*, Python 3\.", text)
    assert "numpy 2" in text
    assert "hunter2" not in text
    # the home folder names its user
    assert '"~/cli/test_commands.py"' in text
    assert str(Path(__file__).parents[1]) not in text


@pytest.mark.usefixtures("_registered")
def test_the_report_goes_elsewhere_if_the_folder_takes_none(
    steelyard: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    monkeypatch.setattr(defect.tempfile, "gettempdir", lambda: str(tmp_path / "other"))
    monkeypatch.setattr(defect.Path, "cwd", lambda: tmp_path / "nowhere")
    told = steelyard("weigh", "broken")
    (report,) = (tmp_path / "other").iterdir()
    assert f"'{report}'" in told.err
    report.unlink()
    (tmp_path / "other").rmdir()
    told = steelyard("weigh", "broken")
    assert told.code == 3
    assert "attach the command and its output" in told.err


def test_ctrl_c_while_a_command_loads(steelyard: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(name: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(table, "import_module", interrupted)
    told = steelyard("robots")
    assert told.code == 2
    assert told.err.strip() == "error: Stopped by the user; no incomplete file was left."


@pytest.mark.slow
def test_ctrl_c_in_a_process_of_its_own(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "steelyard", "demo", "--out", str(tmp_path / "demo"), "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("Simulating")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert json.loads(out)["error"] == "Stopped by the user; no incomplete file was left."
    assert err.splitlines()[-1] == "error: Stopped by the user; no incomplete file was left."
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_nobody_reading_is_no_failure() -> None:
    nobody, pipe = os.pipe()
    os.close(nobody)
    command = [sys.executable, "-m", "steelyard", "robots", "--json"]
    told = subprocess.run(command, stdout=pipe, stderr=subprocess.PIPE, text=True, timeout=120)
    os.close(pipe)
    assert (told.returncode, told.stderr) == (0, "")
