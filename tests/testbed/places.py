"""Where the repository lies, and the recorded data and robot files beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SHARED_DATA = ROOT.parent / "shared" / "data"
SHARED_ZOO = ROOT.parent / "shared" / "zoo" / "mjcf"


def shared_data(*parts: str) -> Path:
    """A file or folder of the recorded data beside the repository; the test is skipped where it is absent."""
    path = SHARED_DATA.joinpath(*parts)
    if not path.exists():
        where = Path("..", "shared", "data", *parts)
        pytest.skip(f"No recorded data: '{where}' (seen from the repository) does not exist.")
    return path
