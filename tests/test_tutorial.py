"""The tutorial, followed literally from an empty folder: its files, its commands, and what they print."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "tutorial.md"
NUMBER = re.compile(r"\d+\.\d+")
FILES = {"xml": "arm.urdf", "python": "logger.py"}


def steps() -> list[tuple[str, str]]:
    """("file", NAME\\nTEXT) or ("console", TEXT) in the order of the page."""
    found = re.findall(r"```(\w+)\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    return [("console", text) if kind == "console" else ("file", f"{FILES[kind]}\n{text}") for kind, text in found]


def shape(text: str) -> str:
    """The words of an output; numbers with decimals may differ from machine to machine."""
    return NUMBER.sub("#", " ".join(text.split()))


@pytest.mark.slow
def test_the_tutorial_does_what_it_shows(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / "steelyard"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m steelyard "$@"\n', "utf-8")
    command.chmod(0o755)
    work = tmp_path / "work"
    work.mkdir()
    path = os.pathsep.join((str(tmp_path / "bin"), str(Path(sys.executable).parent), os.environ.get("PATH", "")))
    environment = os.environ | {"PATH": path, "PYTHONPATH": str(ROOT / "src")}
    ran = 0
    for kind, text in steps():
        if kind == "file":
            name, _, content = text.partition("\n")
            (work / name).write_text(content, "utf-8")
            continue
        for block in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
            typed, *shown = block.strip().splitlines()
            wanted = next((int(line.split()[-1]) for line in shown if line.startswith("exit code")), 0)
            if typed.startswith("python "):
                typed = typed.replace("python", f'"{sys.executable}"', 1)
            done = subprocess.run(typed, shell=True, capture_output=True, text=True, env=environment, cwd=work)
            said = shape(done.stdout + done.stderr)
            assert done.returncode == wanted, f"{typed}: {done.stderr}"
            for line in shown:
                if not line.startswith("exit code"):
                    assert shape(line) in said, f"{typed} prints {said}"
            ran += 1
    assert ran == 11
    for name in ("arm-run/report.html", "shared.html", "tuesday.html", "arm-identified.urdf"):
        assert (work / name).stat().st_size > 1000
