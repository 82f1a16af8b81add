"""Command that says whether this machine is ready: `doctor`."""

from __future__ import annotations

import platform
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from steelyard.cli.console import JsonFlag, emit, say
from steelyard.cli.door.exit_codes import ExitCode
from steelyard.cli.tables import show
from steelyard.report.table import Emphasis, TableColumn, table

# Extra → a module that it brings, and what needs it.
EXTRAS = {
    "mjcf": ("mujoco", "robots in MJCF"),
    "bags": ("rosbags", "ROS bags and MCAP"),
    "hdf5": ("h5py", "HDF5 and MATLAB 7.3"),
    "zstd": ("backports.zstd", "logs packed as .zst"),
}
# Time on the machine of the documentation (docs/getting-started.md, two shared cores), and the multiple that is slow.
TORQUE_US, SIMULATION, SLOW = 0.08, 70.0, 4.0


@dataclass(frozen=True)
class Checked:
    """One thing that was looked at: what was found, and what to do where it is not well."""

    what: str
    state: Literal["ok", "missing", "slow", "fault"]
    found: str
    fix: str = ""


def doctor(as_json: JsonFlag = False) -> ExitCode | None:
    from steelyard.project.documents import record

    found = [_versions(), _kernels(), *_extras(), _writing(), *_speeds()]
    bad = any(one.state == "fault" for one in found)
    if as_json:
        emit(record("steelyard.doctor/1", {"checks": found}, ready=not bad))
    columns = (
        TableColumn("what", "What"),
        TableColumn("state", "State"),
        TableColumn("found", "Found"),
        TableColumn("fix", "What to do"),
    )
    emphasis: dict[str, Emphasis] = {"ok": "", "missing": "", "slow": "warning", "fault": "bad"}
    rows = [(one.what, one.state, one.found, one.fix) for one in found]
    show(table("doctor", "", columns, rows, [emphasis[one.state] for one in found]))
    say("Not ready: see the faults above." if bad else "Ready. Next:\n  steelyard demo", "bold red" if bad else "bold")
    return ExitCode.JUDGED if bad else None


def _versions() -> Checked:
    packages = ("steelyard", "numpy", "numba", "polars", "plotly")
    return Checked("versions", "ok", f"Python {platform.python_version()}, " + ", ".join(map(_version, packages)))


def _version(package: str) -> str:
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:
        return f"{package} not installed"


def _kernels() -> Checked:
    """Loads the kernels; compiling them takes minutes, loading them seconds."""
    from steelyard.cli.identify import load_kernels

    try:
        seconds = load_kernels()
    except Exception as error:
        return Checked("kernels", "fault", f"{type(error).__name__}: {error}", "install again, or report this")
    said = f"loaded in {seconds:.1f} s"
    if seconds > 20.0:
        return Checked("kernels", "ok", f"{said}: they were compiled just now, and later runs load them")
    return Checked("kernels", "ok", said)


def _extras() -> list[Checked]:
    out = []
    for name, (module, use) in EXTRAS.items():
        try:
            there = find_spec(module) is not None
        except ModuleNotFoundError:
            there = False
        what = f"extra {name}"
        install = f'only for {use}: pip install "steelyard[{name}]"'
        out.append(Checked(what, "ok", use) if there else Checked(what, "missing", "not installed", install))
    return out


def _writing() -> Checked:
    """Whether files can be written here and next to the kernels, where compiled code is kept."""
    from steelyard import _kernels as kernels

    cache = Path(kernels.__file__).parent
    for folder, use in ((Path.cwd(), "results"), (cache, "compiled kernels")):
        try:
            with tempfile.NamedTemporaryFile(dir=folder):
                pass
        except OSError as error:
            if folder == cache:
                fix = "set NUMBA_CACHE_DIR to a folder of yours"
                return Checked("writing", "slow", f"'{folder}' cannot be written: kernels compile in every run", fix)
            return Checked("writing", "fault", f"'{folder}': {error.strerror}", f"go to a folder that can hold {use}")
    return Checked("writing", "ok", "here, and the cache of compiled kernels")


def _speeds() -> list[Checked]:
    import numpy as np

    from steelyard.formats.robots import read_robot
    from steelyard.model.model import Model
    from steelyard.model.terms import named_terms
    from steelyard.motion.random import random_fourier
    from steelyard.simulation.closed_loop import simulate
    from steelyard.simulation.controllers import Cascade
    from steelyard.simulation.plant import Plant

    robot = read_robot("ur10e")
    rng = np.random.default_rng(1)
    model = Model(robot, named_terms(["viscous"]))
    theta = model.layout.nominal
    assert theta is not None
    q, v, a = rng.normal(size=(3, robot.dof, 512))
    plant = Plant(model, theta)
    control, motion = Cascade.tuned(plant), random_fourier(robot, 3, 0.5, 2.0, rng)
    torque = 1e6 * _best(lambda: model.torque(q, v, a, theta)) / q.shape[1]
    loop = 2.0 / _best(lambda: simulate(plant, control, motion, 1000.0))
    told = (
        ("inverse dynamics", torque / TORQUE_US, f"{torque:.2f} µs per sample of a six-axis arm"),
        ("simulation", SIMULATION / loop, f"{loop:.0f} times real time (closed loop at 1 kHz)"),
    )
    fix = "close other programs; the numbers of the documentation are in docs/getting-started.md"
    return [
        Checked(what, "slow", f"{found}, {ratio:.1f} times the documented time", fix)
        if ratio > SLOW
        else Checked(what, "ok", found)
        for what, ratio, found in told
    ]


def _best(work: Callable[[], object]) -> float:
    """Seconds of the fastest of five calls, after one that warms up."""
    work()
    times = []
    for _ in range(5):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)
