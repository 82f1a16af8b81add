"""Surroundings that are not the usual ones: signals, pipes, locales, no home, no cache, warnings as errors."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from steelyard.__main__ import STOPPED

IDENTIFY = ("identify", "project.toml", "--out", "run")


def program(
    *arguments: str, python: tuple[str, ...] = (), cwd: Path, **environment: str | None
) -> subprocess.CompletedProcess[str]:
    full = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)} | environment
    return subprocess.run(
        [sys.executable, *python, "-m", "steelyard", *arguments],
        cwd=cwd, capture_output=True, text=True, timeout=300, encoding="utf-8",
        env={name: value for name, value in full.items() if value is not None},
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("python", "environment"),
    [
        (("-W", "error"), {}),
        ((), {"HOME": None, "XDG_CACHE_HOME": None}),
        ((), {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}),
        (("-O",), {"PYTHONDONTWRITEBYTECODE": "1"}),
    ],
    ids=["warnings are errors", "no home", "C locale", "no assertions"],
)
def test_a_fit(project: Path, python: tuple[str, ...], environment: dict[str, str | None]) -> None:
    told = program(*IDENTIFY, "--json", python=python, cwd=project.parent, **environment)
    assert told.returncode == 0, told.stderr
    assert "Traceback" not in told.stderr
    assert sorted(path.name for path in (project.parent / "run").iterdir()) == ["report.html", "result.json"]


@pytest.mark.slow
@pytest.mark.parametrize("command", [("--help",), ("identify", "--help"), ("params", "planar2r"), ("estimators",)])
def test_without_docstrings(tmp_path: Path, command: tuple[str, ...]) -> None:
    """A fit would compile its kernels again, whose code has other numbers of constants: half a minute."""
    told = program(*command, python=("-OO",), cwd=tmp_path, PYTHONDONTWRITEBYTECODE="1")
    assert told.returncode == 0, told.stderr
    assert "None" not in told.stdout


@pytest.mark.slow
def test_no_folder_for_the_cache_of_kernels_is_writable(tmp_path: Path) -> None:
    """As on a read-only installation of a user without a home; the cache of this process ends with it."""
    script = (
        "import tempfile\n"
        "usual = tempfile.TemporaryFile\n"
        "def sealed(*given, dir=None, **options):\n"
        "    if 'steelyard-kernels-' in str(dir):\n"
        "        return usual(dir=dir)\n"
        "    raise OSError(30, 'Read-only file system')\n"
        "tempfile.TemporaryFile = sealed\n"
        "import steelyard._kernels\n"
        "from numba.core import config\n"
        "from steelyard._kernels.trigonometry import sine_cosine\n"
        "print(config.CACHE_DIR)\n"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(tmp_path)}
    told = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=120)
    assert told.stdout.startswith(str(tmp_path / "steelyard-kernels-")), told.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "after"), [("SIGINT", 0.05), ("SIGINT", 0.5), ("SIGTERM", 0.05), ("SIGTERM", 1.5), ("SIGHUP", 0.5)]
)
def test_signals_end_any_command_alike(project: Path, name: str, after: float) -> None:
    code = (
        "import sys, threading, os, signal, time\n"
        "from steelyard.__main__ import main\n"
        f"threading.Timer({after}, lambda: os.kill(os.getpid(), signal.{name})).start()\n"
        f"sys.argv = ['steelyard', *{IDENTIFY!r}]\n"
        "main()\n"
    )
    told = subprocess.run(
        [sys.executable, "-c", code], cwd=project.parent, capture_output=True, text=True, timeout=300,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert (told.returncode, told.stderr) in ((2, STOPPED), (0, told.stderr)), told.stderr
    assert sorted(path.name for path in project.parent.iterdir() if path.name != "run") == [
        "log.csv", "pendulum.toml", "project.toml",
    ]  # fmt: skip
    if told.returncode == 2:
        assert not (project.parent / "run").exists()


@pytest.mark.slow
def test_a_second_signal_ends_at_once(tmp_path: Path) -> None:
    """A command that holds the first request back, as a library does in a callback."""
    code = (
        "import time\n"
        "from steelyard.__main__ import stop_on_signals\n"
        "stop_on_signals()\n"
        "while True:\n"
        "    try:\n"
        "        print('ready', flush=True)\n"
        "        time.sleep(60)\n"
        "    except KeyboardInterrupt:\n"
        "        print('held', flush=True)\n"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline() == "held\n"
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (2, STOPPED)


@pytest.mark.slow
@pytest.mark.parametrize("command", ["robots --json", "--help", "identify project.toml --out run --json", "robots"])
def test_a_reader_that_leaves(project: Path, command: str) -> None:
    stream = "2>&1" if command == "robots" else ""
    line = f"{sys.executable} -m steelyard {command} {stream} | head -c 1 >/dev/null; exit ${{PIPESTATUS[0]}}"
    told = subprocess.run(
        ["bash", "-c", line], cwd=project.parent, capture_output=True, text=True, timeout=300,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert told.returncode == 0, told.stderr
    assert "Traceback" not in told.stderr


@pytest.mark.slow
def test_two_processes_on_one_folder(project: Path) -> None:
    command = [sys.executable, "-m", "steelyard", *IDENTIFY]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    both = [subprocess.Popen(command, cwd=project.parent, env=environment, stderr=subprocess.PIPE) for _ in range(2)]
    said = [one.communicate(timeout=300)[1].decode() for one in both]
    assert [one.returncode for one in both] == [0, 0], said
    assert sorted(path.name for path in (project.parent / "run").iterdir()) == ["report.html", "result.json"]
    assert not [path for path in project.parent.iterdir() if path.name.startswith(".")]
