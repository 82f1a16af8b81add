"""result.json: every field comes back to the same bits; other versions and damaged files are refused."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steelyard._arrays import Array
from steelyard.errors import SteelyardError
from steelyard.identification.result import Identification
from steelyard.project.documents import text
from steelyard.project.project import read_project
from steelyard.project.reopen import reopen
from steelyard.project.result_file import SCHEMA, document, identification, read_result
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
    edited(result, schema="steelyard.result/2")
    name, *rest = command
    folder = result.parent
    more = [folder.parent / "log.csv"] if name == "validate" else [folder] if name == "compare" else rest
    told = steelyard(name, folder, *more)
    assert (told.code, told.out) == (2, "")
    said = " ".join(told.err.split())
    assert f"'{result}' was written by an older version of Steelyard (schema 'steelyard.result/2'" in said
    assert said.endswith("Run `steelyard identify` again on its project file.")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ("steelyard.result/4", "was written by a newer version of Steelyard .* Upgrade Steelyard, or run"),
        (
            "steelyard.validation/1",
            r"is not a result of `steelyard identify`: its schema is 'steelyard.validation/1', not",
        ),
        (
            None,
            "is not a result of `steelyard identify`: its schema is None, .* Name a run folder, or the",
        ),
        (2, "is not a result of `steelyard identify`: its schema is 2, not"),
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
def test_fields_with_a_default_and_what_is_not_read_may_be_missing(result: Path) -> None:
    """Entries for people are not read back; a field that a later version adds has a default in older documents."""
    whole = read_result(result)
    data = json.loads(result.read_text("utf-8"))
    assert data["schema"] == SCHEMA
    for key in ("verdict", "counts", "parameters", "strong_correlations", "regroupings", "standard_values"):
        del data[key]
    for key in ("carried", "certificate", "legs", "gains", "cancelled"):
        del data[key]
    assert_equal(identification(data), whole)


@dataclass(frozen=True)
class Wear:
    """A part of a result that this file adds."""

    gears: tuple[str, ...]
    hours: float
    play: Array


@dataclass(frozen=True)
class Extended(Identification):
    """A result with more in it; a field is one line."""

    wear: Wear | None = None
    temperature: Array | None = None


@pytest.mark.slow
def test_a_field_of_a_result_is_one_line(result: Path) -> None:
    """It is written, read back to the same bits, and missing in older documents, without a line anywhere else."""
    found = read_result(result)
    own = {field.name: getattr(found, field.name) for field in fields(found)}
    wear = Wear(("harmonic", "belt"), np.nan, np.array([[0.1, np.nan], [1e-300, -0.0]]))
    more = Extended(**own, wear=wear, temperature=np.array([20.0, 1 / 3]))
    data = json.loads(text(document(more)))
    assert data["wear"] == {"gears": ["harmonic", "belt"], "hours": None, "play": [[0.1, None], [1e-300, -0.0]]}
    assert_equal(identification(data, kind=Extended), more)
    assert_equal(identification(data), found)
    older = identification(json.loads(result.read_text("utf-8")), kind=Extended)
    assert isinstance(older, Extended)
    assert older.wear is None


def assert_equal(one: Any, other: Any) -> None:
    """The same fields with the same bits, NaN equal to NaN."""
    assert type(one) is type(other)
    if is_dataclass(one):
        for field in fields(one):
            assert_equal(getattr(one, field.name), getattr(other, field.name))
    elif isinstance(one, np.ndarray):
        assert one.dtype == other.dtype
        assert one.shape == other.shape
        np.testing.assert_array_equal(one, other)
        known = np.isfinite(one)
        np.testing.assert_array_equal(np.signbit(one[known]), np.signbit(other[known]))
    elif isinstance(one, dict):
        assert list(one) == list(other)
        for key in one:
            assert_equal(one[key], other[key])
    elif isinstance(one, list | tuple):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            assert_equal(a, b)
    else:
        assert one == other or (one != one and other != other)


def broken(data: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """The document with another value at a path like `base.layout`; `...` removes the entry."""
    *places, last = path.split(".")
    place: Any = data
    for key in places:
        place = place[int(key) if isinstance(place, list) else key]
    if value is ...:
        del place[last]
    else:
        place[int(last) if isinstance(place, list) else last] = value
    return data


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("value", ..., r"Object missing required field `value`"),
        ("value", "1 2 3", r"Expected a list of numbers - at `\$.value`"),
        ("value", [], r"`value` has the shape \(0,\)"),
        ("value.0", "0.5", r"Expected `float \| null`, got `str` in entry \[0\] - at `\$.value`"),
        ("covariance", [[1.0], [1.0, 2.0]], r"inhomogeneous.*`\$.covariance`"),
        ("covariance_classical", [[1.0]], r"`covariance_classical` has the shape \(1, 1\)"),
        ("covariance", [[[[[[[1.0]]]]]]], r"at `\$.covariance"),
        ("clusters", "many", r"Expected `int`, got `str` - at `\$.clusters`"),
        ("relative_error.total", "small", r"Expected `float`, got `str` - at `\$.relative_error.total`"),
        ("relative_error.joints", [0.1], r"Expected `object`, got `array` - at `\$.relative_error.joints`"),
        ("base.layout.columns.0.kind", "planet", r"Invalid enum value 'planet' - at .*columns\[0\].kind`"),
        ("base.layout.columns.1.symbol", "XX", "Two columns have the same name"),
        ("base.kept.0", 100, "`base.kept` names columns beyond"),
        ("base.map", None, r"at `\$.base.map`"),
        ("findings.0", "careful", r"Expected `object`, got `str` - at `\$.findings\[0\]`"),
        ("runs.0.history", "none", r"Expected `array`, got `str` - at `\$.runs\[0\].history`"),
    ],
)
def test_a_damaged_result_is_refused_by_the_entry_at_fault(result: Path, path: str, value: Any, said: str) -> None:
    result.write_text(json.dumps(broken(json.loads(result.read_text("utf-8")), path, value)), "utf-8")
    with pytest.raises(SteelyardError, match=said) as told:
        read_result(result)
    assert str(told.value).startswith(f"'{result}' is not a complete Steelyard result: ")
    assert str(told.value).endswith(". Run identify again.")


@pytest.mark.parametrize("content", [b"", b"{", b"[" * 200_000, b'{"a": ' * 50_000, b"\xff", b"[]", b"null", b"1e999"])
def test_a_file_that_is_no_document_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "result.json").write_bytes(content)
    with pytest.raises(SteelyardError, match="is not a complete Steelyard result") as told:
        read_result(tmp_path)
    assert "\n" not in str(told.value)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("rest_speeds", "slow", r"Expected `array \| null`, got `str` - at `\$.rest_speeds`"),
        ("project_folder", 3, r"got `int` - at `\$.project_folder`"),
        ("project.run", None, r"at `\$.project.run`"),
        ("rest_speeds", None, "does not say at which speeds rows were masked"),
    ],
)
def test_a_damaged_project_is_refused(result: Path, path: str, value: Any, said: str) -> None:
    result.write_text(json.dumps(broken(json.loads(result.read_text("utf-8")), path, value)), "utf-8")
    with pytest.raises(SteelyardError, match=said):
        reopen(result, [])
