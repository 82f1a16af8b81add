"""One read: a command reads the robot file, every log and result.json once, and builds each model once.

Calls are counted where they cannot be renamed away: files by Python's audit events, rows by the opener of the log's
format, robots by the parser, models by their constructor.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

import steelyard.formats.robots as robot_files
import steelyard.model.base_parameters as base_module
from steelyard.formats.logs import read_recording
from steelyard.formats.logs.csv import DelimitedRows
from steelyard.formats.robots import read_robot
from steelyard.model.model import Model
from steelyard.model.robot import STANDARD_GRAVITY
from steelyard.project.opened import KEPT_CELLS
from steelyard.project.project import TermSpec, read_project
from steelyard.signals.recording import SMALL_CELLS, LogFile
from testbed.command import Run
from testbed.pendulum import csv
from testbed.simulated import PENDULUM, log_of, model_of

ROBOT, IDENTIFY, VALIDATE = "pendulum.toml", "identify.csv", "validate.csv"
# z of the pendulum's gravity [m/s²]; the gravity that efforts show takes a model without and one along each axis
STATED, MOUNTINGS = STANDARD_GRAVITY[2], 4
EXPLICIT = """\
cutoff_hz = 20.0
lowpass_hz = 8.0
decimate = 6
derivatives = "differences"
delay = "none"
"""
AUTO = """\
cutoff_hz = "auto"
lowpass_hz = "auto"
derivatives = "auto"
delay = "auto"
"""
CHANNELS = f"""
[channels]
time = {{ column = "t", unit = "s" }}
q = {{ columns = ["q_joint1", "q_joint2"], unit = "rad" }}
effort = {{ columns = ["tau_joint1", "tau_joint2"], unit = "N.m" }}

[[run]]
log = "{IDENTIFY}"

[[run]]
log = "{VALIDATE}"
role = "validate"
"""


def as_stated(model: Model) -> bool:
    """Whether the gravity is that of the file."""
    return bool(model.robot.gravity[2] == STATED)


class Trace:
    """What a command did, by file name: files opened, logs opened, passes over their rows, robots parsed; the models
    that were built, and those whose base parameters were computed."""

    def __init__(self) -> None:
        self.opened: Counter[str] = Counter()
        self.logs: Counter[str] = Counter()
        self.passes: Counter[str] = Counter()
        self.parsed: Counter[str] = Counter()
        self.models: list[Model] = []
        self.bases: list[Model] = []

    def models_of(self, robot: str) -> int:
        """The models of a robot in its stated gravity."""
        return sum(model.robot.name == robot and as_stated(model) for model in self.models)

    def otherwise_mounted(self, robot: str) -> int:
        """The models of a robot in another gravity."""
        return sum(model.robot.name == robot and not as_stated(model) for model in self.models)


# An audit hook stays until the process ends: it counts for the trace that runs, if one does.
_running: list[Trace] = []


def _count_opened(event: str, arguments: tuple[Any, ...]) -> None:
    if _running and event == "open" and isinstance(arguments[0], str | bytes):
        _running[-1].opened[os.path.basename(os.fsdecode(arguments[0]))] += 1


sys.addaudithook(_count_opened)


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch) -> Callable[[], Any]:
    @contextmanager
    def trace() -> Iterator[Trace]:
        found = Trace()
        made, blocks = DelimitedRows.__init__, DelimitedRows.blocks
        built, ordered = Model.__post_init__, base_module.elimination_order
        parsers = {name: getattr(robot_files, name) for name in ("read_table", "read_urdf", "read_mjcf")}

        def counted_log(self: DelimitedRows, file: LogFile, *rest: Any, **more: Any) -> None:
            found.logs[file.path.name] += 1
            made(self, file, *rest, **more)

        def counted_blocks(self: DelimitedRows, columns: Any) -> Any:
            found.passes[self.file.path.name] += 1
            return blocks(self, columns)

        def counted_model(self: Model) -> None:
            found.models.append(self)
            built(self)

        def counted_base(model: Model) -> list[int]:
            found.bases.append(model)
            return ordered(model)

        def counted(parse: Callable[..., Any]) -> Callable[..., Any]:
            def parsed(source: Any, *name: str) -> Any:
                found.parsed[Path(name[0] if name else source).name] += 1
                return parse(source, *name)

            return parsed

        with monkeypatch.context() as patch:
            patch.setattr(DelimitedRows, "__init__", counted_log)
            patch.setattr(DelimitedRows, "blocks", counted_blocks)
            patch.setattr(Model, "__post_init__", counted_model)
            patch.setattr(base_module, "elimination_order", counted_base)
            for name, parse in parsers.items():
                patch.setattr(robot_files, name, counted(parse))
            _running.append(found)
            try:
                yield found
            finally:
                _running.pop()

    return trace


def written(folder: Path, prepare: str, top: str = "") -> Path:
    """A robot that states its inertias, two logs of it and a project of both."""
    (folder / ROBOT).write_text(PENDULUM, "utf-8")
    robot = read_robot(folder / ROBOT)
    for seed, log in enumerate((IDENTIFY, VALIDATE)):
        (folder / log).write_text(csv(log_of(model_of(robot), 2400, noise=0.3, seed=seed)), "utf-8")
    project = folder / "project.toml"
    project.write_text(f'robot = "{ROBOT}"\n{top}\n[prepare]\n{prepare}{CHANNELS}', "utf-8")
    return project


def fitted(steelyard: Run, folder: Path) -> Path:
    """A run folder."""
    assert steelyard("identify", written(folder, EXPLICIT, 'terms = "plain"')).code == 0
    return folder / "project-run"


def once_each(models: list[Model]) -> bool:
    return len({id(model) for model in models}) == len(models)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("prepare", "top", "models"),
    [(EXPLICIT, 'terms = "plain"', 1), (EXPLICIT, "", 2), (AUTO, 'terms = "plain"', 1), (AUTO, "", 2)],
    ids=["explicit-plain", "explicit-default", "auto-plain", "auto-default"],
)
def test_identify(steelyard: Run, traced: Any, tmp_path: Path, prepare: str, top: str, models: int) -> None:
    """Report and search for faults included. A second model is the plain one that derivatives are chosen with and that
    the search tries its suspicions on; those of other gravity have no base parameters."""
    project = written(tmp_path, prepare, top)
    with traced() as trace:
        told = steelyard("identify", project, "--json")
    assert told.code == 0
    assert (tmp_path / "project-run" / "report.html").is_file()
    assert trace.parsed == {ROBOT: 1}
    assert trace.opened[ROBOT] == trace.opened["project.toml"] == 1
    assert trace.logs == {IDENTIFY: 1, VALIDATE: 1}
    assert max(trace.passes.values()) <= 2
    assert trace.models_of("pendulum") == models
    assert trace.otherwise_mounted("pendulum") == MOUNTINGS
    assert len(trace.models) == models + MOUNTINGS
    assert all(as_stated(model) for model in trace.bases)
    assert once_each(trace.bases)


@pytest.mark.slow
@pytest.mark.parametrize("command", ["crossvalidate", "delays"])
def test_commands_that_choose_settings(steelyard: Run, traced: Any, tmp_path: Path, command: str) -> None:
    project = written(tmp_path, AUTO)
    with traced() as trace:
        assert steelyard(command, project, "--json").code == 0
    assert trace.parsed == {ROBOT: 1}
    assert trace.logs == {IDENTIFY: 1}
    assert max(trace.passes.values()) <= 2
    assert len(trace.models) <= 2
    assert once_each(trace.bases)


@pytest.mark.slow
@pytest.mark.parametrize(("top", "models"), [('terms = "plain"', 2), ("", 3)], ids=["plain", "default"])
def test_check(steelyard: Run, traced: Any, tmp_path: Path, top: str, models: int) -> None:
    """The models are that of the project, that of the trial (the same if its terms are plain), and one with late
    friction. Other robots, which the log might be of, are parsed once."""
    project = written(tmp_path, AUTO, top)
    with traced() as trace:
        told = steelyard("check", project, "--json")
    assert told.code == 0
    assert trace.parsed[ROBOT] == trace.opened[ROBOT] == trace.opened["project.toml"] == 1
    assert max(trace.parsed.values()) == 1
    assert max(trace.opened[robot] for robot in trace.parsed) == 1
    assert trace.logs == {IDENTIFY: 1, VALIDATE: 1}
    assert max(trace.passes.values()) <= 2
    assert trace.models_of("pendulum") == models
    assert trace.otherwise_mounted("pendulum") == MOUNTINGS
    assert once_each(trace.bases)


@pytest.mark.slow
@pytest.mark.parametrize("to", ["c", "python", "latex", "urdf"])
def test_export(steelyard: Run, traced: Any, tmp_path: Path, to: str) -> None:
    result = fitted(steelyard, tmp_path)
    with traced() as trace:
        assert steelyard("export", result, "--to", to, "--out", tmp_path / "made", "--json").code == 0
    assert trace.opened["result.json"] == 1
    assert trace.opened[ROBOT] == trace.parsed[ROBOT] == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "logs"),
    [
        (["validate", VALIDATE], {VALIDATE: 1}),
        (["payload", VALIDATE], {VALIDATE: 1}),
        (["twin", "--runs", "5"], {IDENTIFY: 1}),
    ],
)
def test_commands_on_a_result(
    steelyard: Run, traced: Any, tmp_path: Path, command: list[str], logs: dict[str, int]
) -> None:
    result = fitted(steelyard, tmp_path)
    name, *rest = (tmp_path / word if word == VALIDATE else word for word in command)
    with traced() as trace:
        told = steelyard(name, result, *rest, "--json")
    assert told.code == 0
    assert trace.opened["result.json"] == 1
    assert trace.parsed == {ROBOT: 1}
    assert trace.logs == logs
    assert max(trace.passes.values()) <= 2


def test_excite_from_a_result(steelyard: Run, traced: Any, tmp_path: Path) -> None:
    result = fitted(steelyard, tmp_path)
    with traced() as trace:
        told = steelyard("excite", "--given", result, "--starts", "1", "--iterations", "2", "--json")
    assert told.code == 0, told.err
    assert trace.opened["result.json"] == 1
    assert trace.parsed == {ROBOT: 1}
    assert once_each(trace.bases)


@pytest.mark.slow
def test_watch_computes_base_parameters_once(steelyard: Run, traced: Any, tmp_path: Path) -> None:
    """However often the estimate is renewed; settings come from the other log."""
    project = written(tmp_path, AUTO, 'terms = "plain"')
    with traced() as trace:
        told = steelyard("watch", project, "--until-idle", "0", "--refresh", "1", "--json")
    assert told.code == 0, told.err
    assert len(told.out.splitlines()) > 5
    assert once_each(trace.bases)
    assert trace.parsed == {ROBOT: 1}


# --- What is kept -----------------------------------------------------------------------------------------------------


def test_a_changed_project_shares_its_files(tmp_path: Path) -> None:
    project = read_project(written(tmp_path, EXPLICIT))
    (run, _) = project.spec.run
    changed = project.with_spec(terms="plain").with_prepare(cutoff_hz=15.0)
    assert changed.robot() is project.robot()
    assert changed.recording(run) is project.recording(run)
    assert changed.model() is not project.model()
    assert changed.with_spec(terms=[TermSpec.of(term) for term in project.model().terms]).model() is project.model()
    assert project.with_estimator("ls").estimator() is project.with_estimator("ls").estimator()
    # what is another thing is another thing
    assert project.with_estimator("ls").estimator() != project.estimator()
    heavy = project.with_spec(gravity=[0.0, 0.0, -20.0]).robot()
    assert heavy.gravity.tolist() == [0.0, 0.0, -20.0]
    assert heavy.name == project.robot().name
    assert project.with_spec(sign_width=0.1, terms="plain").model() is not changed.model()


def test_a_robot_is_built_in_or_a_file_beside_the_project(tmp_path: Path) -> None:
    project = read_project(written(tmp_path, EXPLICIT))
    built_in, file = project.with_spec(robot="tx40"), project.with_spec(robot=f"./{ROBOT}")
    assert (built_in.robot_file, built_in.robot_source) == (None, "tx40")
    assert file.robot_file == file.robot_source == tmp_path / ROBOT
    assert (built_in.robot().dof, file.robot().dof) == (6, 2)


def test_logs_share_the_memory_they_are_kept_in(tmp_path: Path) -> None:
    """Two logs of a project may keep half of it each, and one of very many as much as a log alone."""
    project = read_project(written(tmp_path, EXPLICIT))
    assert project.recording(project.spec.run[0]).kept_cells == KEPT_CELLS // 2
    first = project.spec.run[0]
    others = [msgspec.structs.replace(first, log=f"{k}.csv") for k in range(100)]
    many = read_project(project.path).with_spec(run=[first, *others])
    assert many.recording(many.spec.run[0]).kept_cells == SMALL_CELLS


@pytest.mark.parametrize(("kept", "passes"), [(99, 3), (100, 1)])
def test_a_pass_is_kept_up_to_so_many_numbers(traced: Any, tmp_path: Path, kept: int, passes: int) -> None:
    (tmp_path / "log.csv").write_text("a,b\n" + "1,2\n" * 50, "utf-8")
    with traced() as trace:
        recording = replace(read_recording(tmp_path / "log.csv"), kept_cells=kept)
        for _ in range(3):
            assert sum(chunk["a"].size for chunk in recording.chunks(["a", "b"])) == 50
    assert trace.passes == {"log.csv": passes}
