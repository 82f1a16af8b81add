"""Pages of log sources: `steelyard init` on a file as that source writes it makes the project that the page shows."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from rosbags.rosbag2 import StoragePlugin, Writer
from rosbags.typesys import Stores, get_typestore

from steelyard import read_project, read_robot
from steelyard._arrays import Array
from steelyard.signals.channels import resolve
from testbed.command import Run
from testbed.simulated import model_of, motion_of, truth_of

PAGES = Path(__file__).resolve().parents[2] / "docs" / "sources"
DEG = 180.0 / np.pi


class Log(NamedTuple):
    """A simulated motion: time [s], then q, v and effort on the joint side in SI units, each (n, N)."""

    t: Array
    q: Array
    v: Array
    tau: Array


def simulated(robot: str, rate: float, seconds: float = 10.0) -> Log:
    """The robot's nominal torques with 5 % viscous and 5 % dry friction, which some files do not state, and noise."""
    model = model_of(read_robot(robot))
    q, v, a = motion_of(model.robot, round(seconds * rate), rate, 1)[:3]
    tau = model.torque(q, v, a, truth_of(model))
    size = np.std(tau, axis=1, keepdims=True)
    friction = 0.05 * size * (v / np.std(v, axis=1, keepdims=True) + np.sign(v))
    noise = 0.02 * size * np.random.default_rng(1).standard_normal(tau.shape)
    return Log(np.arange(tau.shape[1]) / rate, q, v, tau + friction + noise)


def numbered(pattern: str, values: Array, start: int) -> dict[str, Array]:
    return {pattern.format(k): x for k, x in enumerate(values, start)}


def written(path: Path, columns: Mapping[str, Array], separator: str = ",", after: str = "") -> Path:
    """A text log; `after` follows the separator in the header alone, as libfranka writes it."""
    with path.open("w", encoding="utf-8") as file:
        file.write((separator + after).join(columns) + "\n")
        np.savetxt(file, np.column_stack(list(columns.values())), delimiter=separator, fmt="%.10g")
    return path


def rtde(folder: Path) -> Path:
    log = simulated("ur10e", 500.0)
    columns = {"timestamp": log.t + 5031.2, **numbered("actual_q_{}", log.q, 0), **numbered("actual_qd_{}", log.v, 0)}
    columns |= numbered("actual_current_{}", log.tau / 11.0, 0)
    columns |= numbered("target_q_{}", log.q, 0) | numbered("target_current_{}", log.tau / 11.0, 0)
    return written(folder / "monday.csv", columns | numbered("target_moment_{}", log.tau, 0), " ")


def libfranka(folder: Path) -> Path:
    log = simulated("panda", 1000.0)
    columns = {"time": np.round(log.t * 1e3), "success_rate": np.ones_like(log.t)}
    columns |= numbered("state.q[{}]", log.q, 0) | numbered("state.q_d[{}]", log.q, 0)
    columns |= numbered("state.dq[{}]", log.v, 0) | numbered("state.dq_d[{}]", log.v, 0)
    columns |= numbered("state.tau_J[{}]", log.tau, 0)
    columns |= numbered("state.tau_ext_hat_filtered[{}]", 0.01 * log.tau, 0)
    columns |= numbered("cmd.q_d[{}]", log.q, 0) | numbered("cmd.dq_d[{}]", log.v, 0)
    columns |= numbered("cmd.O_T_EE_d[{}]", np.tile(log.t, (16, 1)), 0) | numbered("cmd.O_dP_EE_d[{}]", log.q[:6], 0)
    return written(folder / "monday.csv", columns | numbered("cmd.tau_J_d[{}]", 0.1 * log.tau, 0), after=" ")


def kuka_rsi(folder: Path) -> Path:
    log = simulated("kr300", 250.0)
    columns = {"t_ms": np.round(4_208_163_634 + log.t * 1e3)}
    columns |= numbered("q{}_deg", log.q * DEG, 1) | numbered("q_ref{}_deg", log.q * DEG, 1)
    return written(folder / "monday.csv", columns | numbered("i{}_A", log.tau / 200.0, 1))


def abb_test_signals(folder: Path) -> Path:
    log = simulated("tx40", 250.0)
    columns = {"time_ms": log.t * 1e3, **numbered("position{}_deg", log.q * DEG, 1)}
    return written(folder / "monday.csv", columns | numbered("torque{}_Nm", log.tau, 1))


def ros2_bag(folder: Path) -> Path:
    log = simulated("ur10e", 100.0)
    joints = list(read_robot("ur10e").joint_names)
    order = [2, 1, 0, 3, 4, 5]
    names = [*(joints[k] for k in order), "finger_joint"]
    store = get_typestore(Stores.ROS2_HUMBLE)
    kind = "sensor_msgs/msg/JointState"
    time, header, state = (store.types[name] for name in ("builtin_interfaces/msg/Time", "std_msgs/msg/Header", kind))
    with Writer(folder / "monday", version=9, storage_plugin=StoragePlugin.MCAP) as writer:
        topic = writer.add_connection("/joint_states", kind, typestore=store)
        for k, t in enumerate(log.t):
            stamp = 1_700_000_000 * 10**9 + round(t * 1e9)
            values = [np.append(x[order, k], 0.02) for x in (log.q, log.v, log.tau)]
            message: Any = state(header(time(stamp // 10**9, stamp % 10**9), "base"), names, *values)
            writer.write(topic, stamp + 250_000, store.serialize_cdr(message, kind))
    return folder / "monday"


# page: how the file is written, the built-in robot that stands for the page's, what `init` says
SOURCES: dict[str, tuple[Callable[[Path], Path], str, set[tuple[str, str]]]] = {
    "ur-rtde": (rtde, "ur10e", {("missing-value", "effort.gain")}),
    "franka": (libfranka, "panda", set()),
    "kuka-rsi": (kuka_rsi, "kr300", {("missing-value", "effort.gain")}),
    "abb-egm": (abb_test_signals, "tx40", set()),
    "ros2": (ros2_bag, "ur10e", {("uncertain-guess", "effort.unit")}),
}


@pytest.mark.parametrize("page", SOURCES)
def test_init_makes_the_project_of_the_page(page: str, tmp_path: Path, steelyard: Run) -> None:
    write, robot, questions = SOURCES[page]
    log = write(tmp_path)
    told = steelyard("init", robot, log, "--out", tmp_path / "drafted.toml", "--json")
    assert {(one["code"], one["where"]) for one in told.document["questions"]} == questions
    assert told.code == (4 if any(code == "missing-value" for code, _ in questions) else 0)

    (shown,) = re.findall(r"```toml\n(.*?)```", (PAGES / f"{page}.md").read_text("utf-8"), re.DOTALL)
    shown = re.sub(r'^robot = ".*"$', f'robot = "{robot}"', shown, flags=re.MULTILINE)
    (tmp_path / "shown.toml").write_text(shown, "utf-8")
    drafted = (tmp_path / "drafted.toml").read_text("utf-8")
    gain = re.search(r"^gain = .*$", shown, re.MULTILINE)
    if gain:  # the one thing that is filled in by hand
        drafted = re.sub(r"^gain = \[\].*$", gain.group(), drafted, flags=re.MULTILINE)
        (tmp_path / "drafted.toml").write_text(drafted, "utf-8")

    one, other = (read_project(tmp_path / name) for name in ("drafted.toml", "shown.toml"))
    assert [run.log for run in one.spec.run] == [run.log for run in other.spec.run]
    assert repr(resolve(one.spec.channels.channel_map(), one.robot())) == repr(
        resolve(other.spec.channels.channel_map(), other.robot())
    )


def test_every_source_has_a_page_and_a_test() -> None:
    assert {page.stem for page in PAGES.glob("*.md")} - {"index"} == set(SOURCES)
