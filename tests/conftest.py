"""What every test shares: the seeded profile of Hypothesis and the folder of recorded data."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

# two test processes on two cores: BLAS threads would only get in each other's way
for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

import pytest
from hypothesis import HealthCheck, settings

from steelyard.cli import main

# Same examples on every run and every machine; no deadline, because the first call of a kernel compiles it.
settings.register_profile(
    "ci",
    deadline=None,
    derandomize=True,
    max_examples=50,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("ci")

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


def shared_data(*parts: str) -> Path:
    """A file or folder of the recorded data beside the repository; the test is skipped where it is absent."""
    path = SHARED_DATA.joinpath(*parts)
    if not path.exists():
        where = Path("..", "shared", "data", *parts)
        pytest.skip(f"No recorded data: '{where}' (seen from the repository) does not exist.")
    return path


@pytest.fixture(name="shared_data")
def _shared_data():
    """`shared_data("ur10e")` is the folder, or the test is skipped with a message that names it."""
    return shared_data


class Told(NamedTuple):
    """What a command did: exit code, stdout and stderr."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        """The one object on stdout; anything else there is a failure."""
        return json.loads(self.out, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


Run = Callable[..., Told]


@pytest.fixture
def steelyard(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """`steelyard("params", "tx40")` through the entry point, in this process."""

    def run(*arguments: object) -> Told:
        monkeypatch.setattr(sys, "argv", ["steelyard", *map(str, arguments)])
        code = 0
        try:
            main()
        except SystemExit as stop:
            code = int(stop.code or 0)
        captured = capsys.readouterr()
        return Told(code, captured.out, captured.err)

    return run
