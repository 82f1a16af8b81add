"""Documents hold every kind of value that results have."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import pytest

from steelyard._arrays import Array
from steelyard.project.documents import plain, record, restored, text


class Pair(NamedTuple):
    a: int
    b: float


@dataclass(frozen=True)
class Inner:
    name: str
    sigma: float = np.nan
    spread: tuple[float, ...] = ()
    point: tuple[float, float] | None = None


@dataclass(frozen=True)
class Outer:
    values: Array
    inner: Inner
    by_name: dict[str, Inner] = field(default_factory=dict)
    limit: float | None = None
    listed: tuple[Inner, ...] = ()

    @cached_property
    def derived(self) -> int:
        return len(self.values)


def test_a_dataclass_comes_back_to_the_same_bits() -> None:
    inner = Inner("a", 1 / 3, (np.nan, 5e-324, -0.0), (1.0, np.nan))
    made = Outer(np.array([[1e-300, np.nan], [np.pi, -0.0]]), inner, {"x": Inner("b")}, None, (inner, Inner("c")))
    assert made.derived == 2
    data = json.loads(text(made))
    assert set(data) == {"values", "inner", "by_name", "limit", "listed"}
    assert data["inner"] == {"name": "a", "sigma": 1 / 3, "spread": [None, 5e-324, -0.0], "point": [1.0, None]}
    again = restored(data, Outer)
    assert repr(again) == repr(made)
    assert np.signbit(again.values[1, 1])


def test_numpy_paths_and_mappings_are_plain() -> None:
    given = {
        "number": np.float64(0.1), "count": np.int64(3), "flag": np.bool_(True), "path": Path("a") / "b",
        "table": MappingProxyType({"x": np.inf}), "pair": Pair(1, np.nan), "array": np.arange(2), "large": 2**70,
    }  # fmt: skip
    assert plain(given) == {
        "number": 0.1, "count": 3, "flag": True, "path": "a/b", "table": {"x": None}, "pair": [1, None],
        "array": [0, 1], "large": 2**70,
    }  # fmt: skip


def test_a_record_has_its_schema_first_and_more_at_the_end() -> None:
    made = record("steelyard.test/1", Inner("a"), verdict="good")
    assert list(made) == ["schema", "name", "sigma", "spread", "point", "verdict"]


def test_names_of_files_that_are_not_utf8_are_spelt_out() -> None:
    assert plain({"log": "a\udc80.csv", "runs": (Inner("b\udcff"),)})["log"] == "a\\udc80.csv"
    assert json.loads(text({"log": "a\udc80.csv"})) == {"log": "a\\udc80.csv"}


def test_what_no_document_can_hold_is_named() -> None:
    with pytest.raises(TypeError, match="A document cannot hold object"):
        plain({"x": object()})
