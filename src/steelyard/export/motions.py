"""A motion as a file that a robot can play: CSV, Parquet, ROS 2 JointTrajectory (YAML), URScript.

Every file is read back from its bytes, compared with the motion, and checked against every limit, between the samples
too, before it is returned: a file that would exceed a limit is never written.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import final

import numpy as np
import polars as pl

from steelyard._arrays import Array
from steelyard.design.constraints import TORQUE_SLACK, MotionRules, broken
from steelyard.errors import OutputError, choices
from steelyard.export.export import Export
from steelyard.export.motion_check import Interpolation, QuinticPlayback, Written, check_playback
from steelyard.model.robot import Robot
from steelyard.motion.trajectory import Trajectory

# Decimals of positions, velocities and accelerations: as many as a double has. Their rounding appears as jerk at high
# rates.
_DECIMALS, _SCRIPT_DECIMALS = 15, 9
# Time of the first point of a JointTrajectory [s]: a robot that is not exactly there moves to it smoothly. A first
# point at t = 0 would make it jump.
LEAD_IN_S = 1.0
# Rates at which Universal Robots' controllers take positions (e-Series, CB3) [Hz], and the speed of the move to the
# first.
UR_RATES = (500.0, 125.0)
_MOVEJ, _SERVOJ = "a=0.3, v=0.2", "0, 0, {step:g}, 0.1, 300"
# What a file states about the motion between its samples.
_ASSUMED: dict[Interpolation, str] = {
    "quintic": "Between samples it was checked as the quintics through position, velocity and acceleration at both "
    "ends, as ROS 2's joint trajectory controller plays them. Played by other curves it may pass a limit.",
    "linear": "Between samples it was checked as straight lines, as servoj plays them.",
}
# Largest reduction of a distance by straight lines between samples, compared with the motion itself [m].
NEARER_M = 1e-3
MOST_SAMPLES = 1_000_000


@final
@dataclass(frozen=True, eq=False)
class Played:
    """A motion to be written: samples at `rate_hz`, t (N,) and q, v, a (n, N), and remarks for those who read it."""

    robot: Robot
    rate_hz: float
    t: Array
    q: Array
    v: Array
    a: Array
    remarks: tuple[str, ...]


@dataclass(frozen=True)
class Format:
    """How one kind of file is written and read back, its default rate [Hz], and how it is played."""

    name: str
    rate_hz: float
    interpolation: Interpolation
    write: Callable[[Played], bytes]
    read: Callable[[bytes], Written]


def export_motion(
    name: str,
    trajectory: Trajectory,
    rules: MotionRules,
    rate_hz: float | None = None,
    remarks: Sequence[str] = (),
) -> Export:
    """The file `name`, whose suffix is its format; an error if it would differ from the motion or exceed a limit."""
    form = format_of(name)
    robot, rate = rules.model.robot, checked_rate(form, rate_hz)
    if form.name == "urscript":
        check_ur(robot)
    played = _sampled(robot, trajectory, rate, (*remarks, _ASSUMED[form.interpolation]))
    content = form.write(played)
    written = form.read(content)
    _compare(name, written, played)
    check_playback(written, rules.limits, form.interpolation)
    if form.interpolation == "quintic":
        _check_quintics(name, written, rules)
    else:
        _check_lines(name, played, rules)
    return Export(form.name, {name: content})


def read_motion(path: Path) -> Written:
    """A motion file, as `export_motion` writes it, with positions, velocities and accelerations."""
    form = format_of(path.name)
    try:
        found = form.read(path.read_bytes())
    except OSError as error:
        raise OutputError(f"Cannot read '{path}': {error.strerror}.") from None
    except Exception as error:  # a file of another kind may break its parser anywhere
        raise OutputError(
            f"'{path}' is not a motion file of `steelyard excite`: {type(error).__name__}. It needs the columns t, "
            "q_JOINT, v_JOINT and a_JOINT of every joint (.csv, .parquet), or a JointTrajectory (.yaml)."
        ) from None
    if found.v is None or found.a is None:
        raise OutputError(f"'{path}' holds positions only: write the motion as .csv, .parquet or .yaml.")
    if len(found.t) < 2 or not np.all(found.step > 0.0):
        raise OutputError(f"'{path}': the times of a motion must increase, over two samples or more.")
    return found


def format_of(name: str) -> Format:
    suffix = PurePath(name).suffix.lower()
    if suffix not in FORMATS:
        raise OutputError(f"'{name}': " + choices("kind of motion file", suffix, FORMATS))
    return FORMATS[suffix]


def checked_rate(form: Format, rate_hz: float | None) -> float:
    """The requested rate, or the default of the format."""
    if rate_hz is None:
        return form.rate_hz
    if form.name == "urscript" and rate_hz not in UR_RATES:
        raise OutputError(
            f"URScript takes positions at {UR_RATES[0]:g} Hz (e-Series) or {UR_RATES[1]:g} Hz (CB3), not {rate_hz:g}."
        )
    if not 1.0 <= rate_hz <= 1e5:
        raise OutputError(f"The rate of a motion file lies between 1 and 100000 Hz, not {rate_hz:g}.")
    return rate_hz


def check_ur(robot: Robot) -> None:
    """Refuse robots other than those with six revolute joints, which URScript is for."""
    if robot.dof != 6 or any(joint.is_prismatic for joint in robot.axes):
        raise OutputError(
            f"URScript is for six joints that turn, and '{robot.name}' has {robot.dof}. Write .csv, .parquet or .yaml."
        )


def _sampled(robot: Robot, trajectory: Trajectory, rate_hz: float, remarks: Sequence[str]) -> Played:
    """Samples from the start to the first one after the end of the motion, at whole nanoseconds."""
    count = int(np.ceil(trajectory.duration * rate_hz * (1.0 - 1e-12)))
    if count >= MOST_SAMPLES:
        raise OutputError(f"{trajectory.duration:g} s at {rate_hz:g} Hz are more than {MOST_SAMPLES} samples.")
    t = np.round(np.arange(count + 1) / rate_hz, 9)
    return Played(robot, rate_hz, t, *trajectory.at(t), tuple(" ".join(remark.split()) for remark in remarks))


def _compare(name: str, written: Written, played: Played) -> None:
    """Check that every number of the file equals the motion's to the last decimal written."""
    pairs = [("time", written.t, played.t), ("position", written.q, played.q)]
    pairs += [("velocity", written.v, played.v)] if written.v is not None else []
    pairs += [("acceleration", written.a, played.a)] if written.a is not None else []
    same = written.joints == played.robot.axis_names and all(
        one.shape == two.shape and np.all(np.abs(one - two) <= 0.5001 * written.digit + 1e-12) for _, one, two in pairs
    )
    if not same:
        raise OutputError(f"'{name}' does not read back as it was written. Nothing was kept; please report this.")


def _check_quintics(name: str, written: Written, rules: MotionRules) -> None:
    """Check torques and distances of the motion as played; `check_playback` checks positions and their derivatives."""
    for row in broken(rules.forces_and_distances(QuinticPlayback(written)))[:1]:
        near = row.quantity == "clearance"
        what = (
            f"{row.joint} would come {row.beyond:.4g} m too near"
            if near
            else f"torque of {row.joint} would reach {row.value:.6g}, limit {row.limit:.6g}"
        )
        raise OutputError(
            f"'{name}': {what}, played as quintics through samples at {1.0 / written.step.min():g} Hz. Write at a "
            "higher --rate. Not written."
        )


def _check_lines(name: str, played: Played, rules: MotionRules) -> None:
    """Check torques and distances at the written samples; `check_playback` checks positions and their derivatives.

    A straight line differs from the motion by at most h² a / 8, which changes a distance by at most that times its
    levers.
    """
    robot, limits, clearance = played.robot, rules.limits, rules.clearance
    tau = rules.torque(played.q, played.v, played.a)
    if tau is not None:
        for joint, peak, limit in zip(robot.axis_names, np.abs(tau).max(axis=1), limits.torque, strict=True):
            if not peak <= limit * (1.0 + TORQUE_SLACK):
                raise OutputError(
                    f"'{name}': torque of {joint} would reach {peak:.6g}, limit {limit:.6g}. Not written."
                )
    if clearance is None:
        return
    for pair, distance in zip(clearance.names, clearance.distances(played.q).min(axis=1), strict=True):
        if not distance >= clearance.margin - 1e-9:
            raise OutputError(f"'{name}': {pair} would come {clearance.margin - distance:.4g} m too near. Not written.")
    if len(clearance):
        aside = clearance.levers(limits.lower, limits.upper) @ (limits.acceleration / played.rate_hz**2 / 8)
        if aside.max() > NEARER_M:
            raise OutputError(
                f"'{name}': straight lines between samples at {played.rate_hz:g} Hz would bring "
                f"{clearance.names[int(np.argmax(aside))]} up to {aside.max():.2g} m nearer than was proven. Write at "
                "a higher --rate. Not written."
            )


# --- Tables -----------------------------------------------------------------------------------------------------------


def _frame(played: Played) -> pl.DataFrame:
    columns = {"t": played.t}
    for symbol, values in (("q", played.q), ("v", played.v), ("a", played.a)):
        columns |= {f"{symbol}_{joint}": row for joint, row in zip(played.robot.axis_names, values, strict=True)}
    return pl.DataFrame(columns)


def _of_frame(frame: pl.DataFrame, digit: float) -> Written:
    joints = tuple(name[2:] for name in frame.columns if name.startswith("q_"))
    q, v, a = (frame.select([f"{symbol}_{joint}" for joint in joints]).to_numpy().T for symbol in "qva")
    return Written(joints, frame["t"].to_numpy(), q, v, a, digit)


def _write_csv(played: Played) -> bytes:
    # rounded here, and zero added, so that no zero is written as -0.000
    q, v, a = (np.round(x, _DECIMALS) + 0.0 for x in (played.q, played.v, played.a))
    table = _frame(replace(played, q=q, v=v, a=a)).write_csv(float_precision=_DECIMALS)
    return "".join([*(f"# {remark}\n" for remark in played.remarks), table]).encode()


def _read_csv(content: bytes) -> Written:
    lines = content.decode().splitlines()
    remarks = sum(line.startswith("# ") for line in lines)
    # names with quotation marks are read as the CSV standard defines
    names = next(csv.reader(lines[remarks:]))
    frame = pl.read_csv(content, has_header=False, skip_rows=remarks + 1, new_columns=names, infer_schema_length=None)
    return _of_frame(frame.cast(pl.Float64), 10.0**-_DECIMALS)


def _write_parquet(played: Played) -> bytes:
    out = io.BytesIO()
    _frame(played).write_parquet(out, metadata={"steelyard": "\n".join(played.remarks)})
    return out.getvalue()


def _read_parquet(content: bytes) -> Written:
    return _of_frame(pl.read_parquet(content), 0.0)


# --- ROS 2 trajectory_msgs/msg/JointTrajectory ------------------------------------------------------------------------


def _write_yaml(played: Played) -> bytes:
    lines = [f"# {remark}" for remark in played.remarks]
    lines += [
        f"# The first point is due {LEAD_IN_S:g} s after the start: the robot must stand there, or next to it.",
        "header: {stamp: {sec: 0, nanosec: 0}, frame_id: ''}",
        # JSON strings are YAML strings, whatever is in a joint's name
        f"joint_names: [{', '.join(json.dumps(name) for name in played.robot.axis_names)}]",
        "points:",
    ]
    for k, t in enumerate(played.t):
        sec, nanosec = divmod(round((t + LEAD_IN_S) * 1e9), 1_000_000_000)
        lines += [
            f"- positions: {_numbers(played.q[:, k], _DECIMALS)}",
            f"  velocities: {_numbers(played.v[:, k], _DECIMALS)}",
            f"  accelerations: {_numbers(played.a[:, k], _DECIMALS)}",
            f"  time_from_start: {{sec: {sec}, nanosec: {nanosec}}}",
        ]
    return ("\n".join(lines) + "\n").encode()


def _read_yaml(content: bytes) -> Written:
    text = content.decode()
    names = re.search(r"^joint_names: (\[.*\])$", text, re.MULTILINE)
    assert names is not None
    q, v, a = (
        np.array([json.loads(row) for row in re.findall(rf"^[- ] {key}: (\[.*\])$", text, re.MULTILINE)]).T
        for key in ("positions", "velocities", "accelerations")
    )
    due = re.findall(r"^  time_from_start: \{sec: (\d+), nanosec: (\d+)\}$", text, re.MULTILINE)
    t = np.array([int(sec) + 1e-9 * int(nanosec) for sec, nanosec in due]) - LEAD_IN_S
    return Written(tuple(json.loads(names[1])), t, q, v, a, 10.0**-_DECIMALS)


def _numbers(values: Array, decimals: int) -> str:
    return f"[{', '.join(f'{x:z.{decimals}f}' for x in values)}]"


# --- URScript ---------------------------------------------------------------------------------------------------------


def _write_script(played: Played) -> bytes:
    step = 1.0 / played.rate_hz
    servo = _SERVOJ.format(step=step)
    lines = [
        *(f"# {remark}" for remark in played.remarks),
        "# The way to the first posture is the controller's own (movej) and unchecked: clear it, or start near it.",
        f"# joints: {json.dumps(list(played.robot.axis_names))}",
        "def steelyard_excitation():",
        f"  movej({_numbers(played.q[:, 0], _SCRIPT_DECIMALS)}, {_MOVEJ})",
        "  sleep(1.0)",
        *(f"  servoj({_numbers(played.q[:, k], _SCRIPT_DECIMALS)}, {servo})" for k in range(1, len(played.t))),
        "  stopj(0.5)",
        "end",
    ]
    # controllers accept ASCII only, and a remark may contain any character
    return ("\n".join(lines) + "\n").replace("N·m", "N.m").encode("ascii", "replace")


def _read_script(content: bytes) -> Written:
    text = content.decode()
    joints = re.search(r"^# joints: (\[.*\])$", text, re.MULTILINE)
    found = re.findall(r"^  (?:movej|servoj)\((\[[^\]]*\]), (.*)\)$", text, re.MULTILINE)
    assert joints is not None
    step = float(found[-1][1].split(", ")[2])
    q = np.array([json.loads(row) for row, _ in found]).T
    return Written(tuple(json.loads(joints[1])), np.arange(q.shape[1]) * step, q, None, None, 10.0**-_SCRIPT_DECIMALS)


_YAML = Format("ros2", 100.0, "quintic", _write_yaml, _read_yaml)
FORMATS = {
    ".csv": Format("csv", 100.0, "quintic", _write_csv, _read_csv),
    ".parquet": Format("parquet", 100.0, "quintic", _write_parquet, _read_parquet),
    ".yaml": _YAML,
    ".yml": _YAML,
    ".script": Format("urscript", UR_RATES[0], "linear", _write_script, _read_script),
}
