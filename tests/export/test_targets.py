"""Export targets: a format that a user registers works as a built-in one does, from Python and the command line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import FrozenInstanceError, replace
from pathlib import Path
from typing import Any, cast

import pytest

import steelyard as sy
from steelyard.errors import OutputError
from steelyard.export import TARGETS, Export, ExportRequest, ExportTarget, named_target, register, unregister
from steelyard.project.reopen import reopen
from testbed.command import Run


def masses(request: ExportRequest) -> Export:
    """The mass of every link [kg] as JSON."""
    chosen = request.identified
    columns = zip(chosen.model.layout.columns, chosen.bearing.tolist(), strict=True)
    found = {column.name: value for column, value in columns if column.symbol == "M"}
    return Export("masses", {"masses.json": json.dumps(found).encode()}, left_out=("Inertias.",))


MASSES = ExportTarget("masses", masses, ".json", frozenset({"load", "name"}))
VALUES = ExportTarget(
    "values",
    lambda request: Export("values", {f"{n}.txt": b"%g" % x for n, x in zip("ab", request.result.value, strict=False)}),
    options=frozenset(),
    standard=False,
)


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    register(MASSES)
    register(VALUES)
    yield
    for name in {"masses", "values"} & set(TARGETS):
        unregister(name)


@pytest.fixture
def result(project: Path, steelyard: Run, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run folder, seen from an empty folder."""
    assert steelyard("identify", project, "--estimator", "consistent").code == 0
    (project.parent / "here").mkdir()
    monkeypatch.chdir(project.parent / "here")
    return project.parent / "project-run"


# --- From the command line --------------------------------------------------------------------------------------------


def test_the_command_line_writes_its_file(steelyard: Run, result: Path) -> None:
    told = steelyard("export", result, "--to", "masses", "--json")
    assert told.code == 0, told.err
    place = Path.cwd() / "pendulum.json"
    assert told.document["format"] == "masses"
    assert told.document["files"] == [str(place)]
    assert told.document["parity"] is None
    assert "Left out: Inertias." in told.err
    assert "Certified" in told.err
    assert "Not read back: target 'masses'" in told.err
    written, values = json.loads(place.read_text("utf-8")), told.document["standard"]["values"]
    assert written == {name: value for name, value in values.items() if name.endswith(".M")}
    assert steelyard("export", result, "--to", "masses").code == 2
    assert steelyard("export", result, "--to", "masses", "--name", "other").code == 0
    assert (Path.cwd() / "other.json").read_bytes() == place.read_bytes()


def test_a_target_without_an_ending_writes_a_folder(steelyard: Run, result: Path) -> None:
    told = steelyard("export", result, "--to", "values", "--json")
    assert told.code == 0, told.err
    assert sorted(path.name for path in (Path.cwd() / "project-run-values").iterdir()) == ["a.txt", "b.txt"]
    assert told.document["standard"] is None
    assert "Certified" not in told.err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("masses", "--regroupings"), "Export target 'masses' does not take the option 'regroupings': leave it out. "
                                      "It takes: load, name."),
        (("masses", "--source", "x.urdf"), "does not take the option 'source'"),
        (("values", "--name", "x"), "does not take the option 'name': leave it out. It takes: no options."),
        (("latex", "--load", "box"), "load 'box'"),
        (("mases",), "Unknown export target 'mases'. Did you mean 'masses'? Valid: urdf, mjcf, sdf, c, python, "
                     "casadi, latex, masses, values."),
    ],
)  # fmt: skip
def test_options_that_it_does_not_take_are_refused(
    options: tuple[str, ...], said: str, steelyard: Run, result: Path
) -> None:
    told = steelyard("export", result, "--to", *options)
    assert told.code == 2
    assert said in told.err
    assert not list(Path.cwd().iterdir())


def test_a_target_that_breaks_its_promise_is_reported(steelyard: Run, result: Path) -> None:
    register(replace(VALUES, ending=".txt"))
    told = steelyard("export", result, "--to", "values")
    assert told.code == 2
    assert "Export target 'values' made 2 files; a target with an ending makes one." in told.err
    register(ExportTarget("values", lambda request: "text"))  # type: ignore[arg-type,return-value]
    told = steelyard("export", result, "--to", "values")
    assert told.code == 2
    assert "`make` returned str, not an Export" in told.err
    assert not list(Path.cwd().iterdir())


@pytest.mark.parametrize("name", ["../x", "/tmp/x", "a/b", "..", "", "a\0b", "a\\b", "a\nb"])
def test_a_target_cannot_write_outside_its_folder(name: str, steelyard: Run, result: Path) -> None:
    register(ExportTarget("values", lambda request: Export("values", {"a.txt": b"1", name: b"2"})))
    before = sorted(result.parent.rglob("*"))
    told = steelyard("export", result, "--to", "values", "--out", "made")
    assert told.code == 2
    assert f"Export target 'values' made a file called {name!r}, which is not a plain file name" in told.err
    assert sorted(result.parent.rglob("*")) == before


def test_a_target_without_files_is_refused(steelyard: Run, result: Path) -> None:
    register(ExportTarget("values", lambda request: Export("values", {})))
    told = steelyard("export", result, "--to", "values")
    assert (told.code, "Export target 'values' made no files." in told.err) == (2, True)
    assert not list(Path.cwd().iterdir())


def _stops(request: ExportRequest) -> Export:
    raise SystemExit(7)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda request: Export("values", cast(Any, {"a": "text"})), "TypeError: the content of 'a' is str, not bytes"),
        (lambda request: Export("values", cast(Any, {3: b"text"})), "TypeError: the file name 3 is not a text"),
        (lambda request: 1 / 0, "ZeroDivisionError: division by zero"),
        (_stops, "SystemExit: 7"),
    ],
)
def test_a_target_that_fails_is_named(make: Any, said: str, steelyard: Run, result: Path) -> None:
    register(ExportTarget("values", make))
    told = steelyard("export", result, "--to", "values")
    (report,) = Path.cwd().iterdir()
    assert told.code == 3
    assert f"error: The export target 'values' failed: {said}. The report '{report}' shows where." in told.err


# --- From Python ------------------------------------------------------------------------------------------------------


def test_python_has_the_same_registry(result: Path) -> None:
    reopened = reopen(result, [])
    target = sy.export.named_target("masses")
    made = target.export(target.request(reopened.model, reopened.result))
    assert set(json.loads(made.files["masses.json"])) == {"link1.M", "link2.M"}
    python = named_target("python")
    request = python.request(reopened.model, reopened.result, name="arm")
    assert python.export(request).files == sy.export.python(request.identified, "arm").files
    with pytest.raises(OutputError, match="does not take the option 'source'"):
        python.request(reopened.model, reopened.result, source=Path("arm.urdf"))
    with pytest.raises(OutputError, match=r"Unknown option 'nme'\. Did you mean 'name'"):
        python.request(reopened.model, reopened.result, nme="arm")


def test_built_in_targets_stay() -> None:
    with pytest.raises(OutputError, match="'urdf' is built in: give yours another name"):
        register(replace(MASSES, name="urdf"))
    with pytest.raises(OutputError, match="'urdf' is built in and cannot be removed"):
        unregister("urdf")
    with pytest.raises(OutputError, match="Unknown export target 'mine'"):
        unregister("mine")
    with pytest.raises(FrozenInstanceError):
        TARGETS["urdf"].name = "other"  # type: ignore[misc]
    assert register(replace(MASSES, ending=".yaml")) is TARGETS["masses"]


@pytest.mark.parametrize(
    ("target", "said"),
    [
        (masses, r"make it an ExportTarget\(name, make\)"),
        (replace(MASSES, name="my masses"), "`name` must be one word"),
        (replace(MASSES, make=None), "`make` must be a function"),  # type: ignore[arg-type]
        (replace(MASSES, ending="json"), "`ending` is a suffix such as '.json', or empty for a folder, not 'json'"),
        (replace(MASSES, options=frozenset({"colour"})), "Unknown option 'colour'"),
        (replace(MASSES, name="../a"), "`name` must be one word"),
        (replace(MASSES, name=None), "`name` must be one word"),  # type: ignore[arg-type]
        (replace(MASSES, ending="./../../x"), "`ending` is a suffix"),
        (replace(MASSES, ending=3), "`ending` is a suffix"),  # type: ignore[arg-type]
        (replace(MASSES, options=None), "`options` must be a set of names out of load, source"),  # type: ignore[arg-type]
        (replace(MASSES, root="robot"), "states both `root` and the option 'source'"),
    ],
)
def test_what_is_no_target_is_refused(target: Any, said: str) -> None:
    with pytest.raises(OutputError, match=said):
        register(target)
