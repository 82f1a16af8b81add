"""The report of a defect: what a maintainer needs to reproduce it. No environment variables, no values, no data."""

from __future__ import annotations

import platform
import shlex
import tempfile
import traceback
from collections.abc import Sequence
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

LIBRARIES = ("numpy", "scipy", "numba", "polars", "msgspec", "clarabel", "typer", "rich", "plotly", "mujoco")


def write_report(error: BaseException, arguments: Sequence[str]) -> Path | None:
    """Write steelyard-defect-TIME.txt to the current folder, or else to the temporary folder; None if neither works."""
    name = f"steelyard-defect-{datetime.now():%Y%m%d-%H%M%S-%f}.txt"
    for folder in (Path.cwd, tempfile.gettempdir):
        try:
            place = Path(folder()) / name
            place.write_text(report(error, arguments), "utf-8", "backslashreplace")
        except OSError:
            continue
        return place
    return None


def report(error: BaseException, arguments: Sequence[str]) -> str:
    """Versions, command line and traceback; the home folder is written as ~."""
    versions = ", ".join(f"{name} {found}" for name in LIBRARIES if (found := _version(name)))
    text = (
        f"Steelyard {_version('steelyard')}, Python {platform.python_version()}, {platform.platform()}\n"
        f"{versions}\n\n"
        f"Command: {shlex.join(['steelyard', *arguments])}\n\n"
        f"{''.join(traceback.format_exception(error))}"
    )
    home = str(Path.home())
    return text.replace(home, "~") if len(home) > 1 else text


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
