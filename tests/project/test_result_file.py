"""result.json of other versions: read where it can be, else refused with a sentence that says what to do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steelyard.errors import SteelyardError
from steelyard.project.project import read_project
from steelyard.project.reopen import reopen
from steelyard.project.result_file import SCHEMA, identification, read_result
from steelyard.project.run import run
from testbed.command import Run


@pytest.fixture
def result(project: Path) -> Path:
    """The result.json of a run."""
    return run(read_project(project)).folder / "result.json"


def edited(result: Path, **changes: Any) -> Path:
    result.write_text(json.dumps(json.loads(result.read_text("utf-8")) | changes), "utf-8")
    return result


@pytest.mark.slow
@pytest.mark.parametrize("command", [["validate", "log.csv"], ["export", "--to", "latex"], ["compare"], ["twin"]])
def test_an_older_result_is_refused_with_what_to_do(steelyard: Run, result: Path, command: list[str]) -> None:
    edited(result, schema="steelyard.result/1")
    name, *rest = command
    folder = result.parent
    more = [folder.parent / "log.csv"] if name == "validate" else [folder] if name == "compare" else rest
    told = steelyard(name, folder, *more)
    assert (told.code, told.out) == (2, "")
    said = " ".join(told.err.split())
    assert f"'{result}' was written by an older version of Steelyard (schema 'steelyard.result/1'" in said
    assert said.endswith("Run `steelyard identify` again on its project file.")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ("steelyard.result/3", "was written by a newer version of Steelyard .* Upgrade Steelyard, or run"),
        (
            "steelyard.validation/1",
            r"is no result of `steelyard identify`: its schema is 'steelyard.validation/1', not",
        ),
        (
            None,
            "is no result of `steelyard identify`: its schema is None, .* Name a run folder, or the",
        ),
        (2, "is no result of `steelyard identify`: its schema is 2, not"),
    ],
)
def test_any_other_schema_is_refused_by_name(result: Path, schema: object, said: str) -> None:
    edited(result, schema=schema)
    with pytest.raises(SteelyardError, match=said) as told:
        read_result(result)
    assert str(result) in str(told.value)
    with pytest.raises(SteelyardError, match=f"^This document {said}"):
        identification(json.loads(result.read_text("utf-8")))


@pytest.mark.slow
def test_keys_that_came_later_may_be_missing(result: Path, project: Path) -> None:
    """A result of the same schema from before they were written: the rest mask is read from its words."""
    whole = read_result(result)
    speeds = reopen(result, [project.parent / "log.csv"]).project.spec.prepare.rest
    data = json.loads(result.read_text("utf-8"))
    assert data["schema"] == SCHEMA
    for key in ("carried", "certificate", "legs", "rest_speeds", "project_folder", "robot_sha256", "selection"):
        del data[key]
    result.write_text(json.dumps(data), "utf-8")
    np.testing.assert_array_equal(read_result(result).value, whole.value)
    again = reopen(result, [project.parent / "log.csv"])
    np.testing.assert_allclose(again.project.spec.prepare.rest, speeds, rtol=1e-3)  # type: ignore[arg-type]
    assert again.project.robot_file == project.parent / "pendulum.toml"
