"""What every test shares: the seeded profile of Hypothesis and the folder of recorded data."""

from __future__ import annotations

import os
from pathlib import Path

# two test processes on two cores: BLAS threads would only get in each other's way
for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

import pytest
from hypothesis import HealthCheck, settings

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
