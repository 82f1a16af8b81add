"""`steelyard init`: the map of every logger we know and of every recorded log is guessed, or asked for by name."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
import pytest
from scipy.io import savemat

from steelyard._arrays import Array
from steelyard.errors import DataError
from steelyard.formats.logs import read_recording
from steelyard.formats.robots import read_robot
from steelyard.model.robot import Limits, Robot
from steelyard.project.draft import HEADERS
from steelyard.project.project import read_project
from steelyard.signals.channels import resolve
from steelyard.signals.guess import Guess, guess_channels
from steelyard.signals.guess.names import groups
from steelyard.signals.recording import Recording
from testbed import finger_arm
from testbed.command import Run
from testbed.places import shared_data
from testbed.simulated import PENDULUM as ROBOT
from testbed.simulated import arm, model_of, motion_of, slider, truth_of

DEG = 180.0 / np.pi
RATE = 200.0
REAL = Path(__file__).resolve().parents[2] / "examples" / "real"
ARM = ("shoulder_pan", "shoulder_lift", "elbow", "wrist_1", "wrist_2", "wrist_3")
ARM_JOINTS = tuple(f"{name}_joint" for name in ARM)


class Log(NamedTuple):
    """A motion and its efforts on the joint side in SI units, and the robot that made it."""

    robot: Robot
    t: Array
    q: Array
    v: Array
    tau: Array


def log_of(robot: Robot, count: int = 4000, seed: int = 1) -> Log:
    model = model_of(robot)
    q, v, a = motion_of(robot, count, RATE, seed)[:3]
    tau = model.torque(q, v, a, truth_of(model))
    tau = tau + 0.02 * np.random.default_rng(seed).standard_normal(tau.shape) * np.std(tau, axis=1, keepdims=True)
    return Log(robot, np.arange(count) / RATE, q, v, tau)


@pytest.fixture(scope="module")
def six() -> Log:
    """Six joints joint1 … joint6, each with a range of ±2 rad."""
    return log_of(arm(6))


@pytest.fixture(scope="module")
def named(six: Log) -> Log:
    """The same with names as URDF files have them."""
    joints = tuple(replace(j, name=name) for j, name in zip(six.robot.joints, ARM_JOINTS, strict=True))
    return six._replace(robot=replace(six.robot, joints=joints))


def numbered(pattern: str, values: Array, start: int = 0) -> dict[str, Array]:
    return {pattern.format(k): x for k, x in enumerate(values, start)}


def guessed(columns: Mapping[str, Array], robot: Robot) -> Guess:
    return guess_channels([Recording.from_arrays("log", columns)], robot, HEADERS)


def assert_maps_to(log: Log, guess: Guess, columns: Mapping[str, Array], **known: Sequence[float]) -> None:
    """The map makes of the columns what the log is."""
    channels = resolve(guess.channel_map(**known), log.robot)

    def read(names: Sequence[str]) -> Array:
        return np.stack([columns[name] for name in names])

    t = columns[channels.time] * channels.time_factor
    np.testing.assert_allclose(np.diff(t), np.diff(log.t), rtol=1e-6)
    np.testing.assert_allclose(channels.q(read(channels.q.columns)), log.q, rtol=1e-9)
    np.testing.assert_allclose(channels.effort(read(channels.effort.columns)), log.tau, rtol=1e-9)
    if channels.v is not None:
        np.testing.assert_allclose(channels.v(read(channels.v.columns)), log.v, rtol=1e-9)


def codes(guess: Guess) -> list[tuple[str, str]]:
    return [(one.code, one.where) for one in guess.findings]


# --- Loggers ----------------------------------------------------------------------------------------------------------


def rtde(log: Log) -> dict[str, Array]:
    other = log.q[::-1]
    return {
        "timestamp": log.t + 5031.2,
        **numbered("target_q_{}", other),
        **numbered("target_qd_{}", other),
        **numbered("target_moment_{}", other),
        **numbered("target_current_{}", other),
        **numbered("actual_q_{}", log.q),
        **numbered("actual_qd_{}", log.v),
        **numbered("actual_current_{}", log.tau / 10.0),
        **numbered("actual_TCP_pose_{}", other),
        **numbered("actual_TCP_speed_{}", other),
        **numbered("actual_TCP_force_{}", other),
        **numbered("joint_temperatures_{}", other),
        "actual_execution_time": log.t,
        "speed_scaling": log.t,
    }


def libfranka(log: Log) -> dict[str, Array]:
    other = log.q[::-1]
    return {
        "time": np.round(log.t * 1e3),
        "success_rate": np.ones_like(log.t),
        **numbered("state.q[{}]", log.q),
        **numbered("state.q_d[{}]", other),
        **numbered("state.dq[{}]", log.v),
        **numbered("state.dq_d[{}]", other),
        **numbered("state.tau_J[{}]", log.tau),
        **numbered("state.tau_ext_hat_filtered[{}]", other),
        **numbered("cmd.q_d[{}]", other),
        **numbered("cmd.dq_d[{}]", other),
        **numbered("cmd.O_T_EE_d[{}]", np.tile(log.t, (16, 1))),
        **numbered("cmd.O_dP_EE_d[{}]", other),
        **numbered("cmd.tau_J_d[{}]", other),
    }


def early_libfranka(log: Log) -> dict[str, Array]:
    new = libfranka(log)
    kept = {name.removeprefix("state."): x for name, x in new.items() if name.startswith("state.")}
    return {"duration": new["time"], "success rate": new["success_rate"], **kept}


def mat(log: Log) -> dict[str, Array]:
    return {
        "data.Time": log.t,
        **numbered("data.q[{}]", log.q),
        **numbered("data.qd[{}]", log.v),
        **numbered("data.qdd[{}]", log.q),
        **numbered("data.tau[{}]", log.tau),
    }


def vendor(log: Log) -> dict[str, Array]:
    return {
        "Time (ms)": log.t * 1e3,
        **numbered("Axis {} Set Position [deg]", log.q[::-1], 1),
        **numbered("Axis {} Position [deg]", log.q * DEG, 1),
        **numbered("Axis {} Velocity [°/s]", log.v * DEG, 1),
        **numbered("Axis {} Torque [Nm]", log.tau, 1),
        **numbered("Axis {} Temperature [C]", log.q, 1),
    }


def suffixed(log: Log) -> dict[str, Array]:
    return {
        "t_us": log.t * 1e6,
        **numbered("q{}_rad", log.q, 1),
        **numbered("dq{}_rad_s", log.v, 1),
        **numbered("ddq_plan{}_rad_s2", log.v, 1),
        **numbered("q_ref{}_rad", log.q[::-1], 1),
        **numbered("q_link{}_rad", log.q[:3], 1),
        **numbered("drive_tau{}_raw", log.tau * 77.0, 1),
        **numbered("tau{}_mNm", log.tau * 1e3, 1),
    }


@pytest.mark.parametrize(
    ("logger", "name"),
    [(libfranka, "libfranka"), (early_libfranka, "libfranka"), (mat, None), (vendor, None), (suffixed, None)],
    ids=lambda x: getattr(x, "__name__", x),
)
def test_a_logger_is_understood(logger: Callable[[Log], dict[str, Array]], name: str | None, six: Log) -> None:
    columns = logger(six)
    guess = guessed(columns, six.robot)
    assert guess.logger == name
    assert guess.v is not None
    assert_maps_to(six, guess, columns)
    assert codes(guess) == ([("uncertain-guess", "effort.unit")] if logger is mat else [])


@pytest.mark.slow
def test_loggers_are_understood_as_they_write(named: Log, tmp_path: Path) -> None:
    """Spaces between columns; a space after the header's commas alone; early names twice and an empty column."""
    six = libfranka(named)
    early = [
        ("duration, success rate", [six["time"], six["success_rate"]]),
        *((name.removeprefix("state."), [x]) for name, x in six.items() if name.startswith("state.")),
        ("sent commands", [np.full(len(named.t), np.nan)]),
        *((name.removeprefix("cmd."), [x]) for name, x in six.items() if name.startswith("cmd.")),
    ]
    files = {
        "rtde.csv": (" ".join(rtde(named)), " ", list(rtde(named).values()), "RTDE", "actual_q_0", "s"),
        "new.csv": (", ".join(six), ",", list(six.values()), "libfranka", "state.q[0]", "ms"),
        "early.csv": (
            ", ".join(n for n, _ in early),
            ",",
            [x for _, xs in early for x in xs],
            "libfranka",
            "q[0]",
            "ms",
        ),
    }
    for name, (header, mark, values, logger, first, unit) in files.items():
        rows = (mark.join("" if np.isnan(x) else repr(x) for x in row) for row in np.column_stack(values).tolist())
        (tmp_path / name).write_text("\n".join([header, *rows]) + "\n", "utf-8")
        guess = guess_channels([read_recording(tmp_path / name)], named.robot, HEADERS)
        assert (guess.logger, guess.q.columns[0], guess.time.unit) == (logger, first, unit)
        assert guess.v is not None


def test_matlab_and_lerobot_files_are_understood(named: Log, tmp_path: Path) -> None:
    savemat(tmp_path / "log.mat", {"Time": named.t, "q": named.q.T, "qd": named.v.T, "tau": named.tau.T})
    guess = guess_channels([read_recording(tmp_path / "log.mat")], named.robot, HEADERS)
    assert (guess.time.column, guess.q.columns[0], guess.effort.columns[5]) == ("Time", "q[0]", "tau[5]")
    assert guess.v is not None
    state, effort = ([*x.T.astype(np.float32)] for x in (named.q * DEG, named.tau))
    episode = {"timestamp": named.t, "episode_index": np.zeros(len(named.t), int)}
    frame = pl.DataFrame(episode | {"observation.state": state, "observation.effort": effort})
    frame.write_parquet(tmp_path / "episode_000000.parquet")
    guess = guess_channels([read_recording(tmp_path / "episode_000000.parquet")], named.robot, HEADERS)
    assert (guess.time.column, guess.q.columns[0], set(guess.q.units)) == ("timestamp", "observation.state[0]", {"deg"})


def test_rtde_needs_gains_and_nothing_else(named: Log) -> None:
    columns = rtde(named)
    guess = guessed(columns, named.robot)
    assert guess.logger == "RTDE"
    assert codes(guess) == [("missing-value", "effort.gain")]
    assert "'actual' in the name means measured" in guess.q.why
    assert {one.columns[0] for one in guess.effort.others} == {"target_moment_0", "target_current_0"}
    assert_maps_to(named, guess, columns, gain=[10.0] * 6)


def test_currents_as_torques_of_newer_controllers_need_no_gain(named: Log) -> None:
    columns = rtde(named) | numbered("actual_current_as_torque_{}", named.tau)
    guess = guessed(columns, named.robot)
    assert not guess.findings
    assert_maps_to(named, guess, columns)


def test_a_bag_is_mapped_by_joint_name(named: Log) -> None:
    order = [2, 1, 0, 3, 4, 5]
    columns = {"stamp": named.t, "receive": named.t + 1e-4}
    for suffix, values in (("position", named.q), ("velocity", named.v), ("effort", named.tau)):
        columns |= {f"{ARM_JOINTS[k]}.{suffix}": values[k] for k in order}
        columns[f"finger_joint.{suffix}"] = named.t
    guess = guessed(columns, named.robot)
    assert guess.time.column == "stamp"
    assert_maps_to(named, guess, columns)
    # some drivers publish currents there
    assert codes(guess) == [("uncertain-guess", "effort.unit")]


def test_numbers_of_joints_win_over_their_order(six: Log) -> None:
    order = [3, 0, 1, 2, 5, 4]
    joints = tuple(replace(six.robot.joints[k], parent=i - 1) for i, k in enumerate(order))
    robot = replace(six.robot, joints=joints, links=tuple(six.robot.links[k] for k in order))
    guess = guessed(suffixed(six), robot)
    assert guess.q.columns == tuple(f"q{k + 1}_rad" for k in order)


def test_lerobot_states_are_asked_about(named: Log) -> None:
    columns = {
        "timestamp": named.t,
        "frame_index": np.arange(len(named.t)),
        **numbered("observation.state[{}]", named.q * DEG),
        **numbered("action[{}]", named.q * DEG),
        **numbered("observation.effort[{}]", named.tau),
    }
    guess = guessed(columns, named.robot)
    assert_maps_to(named, guess, columns)
    assert {where for _, where in codes(guess)} == {"q.unit", "q.columns", "effort.unit"}
    columns = {"timestamp": named.t}
    columns |= {f"observation.state.{name}.pos": x for name, x in zip(ARM, named.q * DEG, strict=True)}
    columns |= {f"observation.state.{name}.torque": x for name, x in zip(ARM, named.tau, strict=True)}
    assert_maps_to(named, guessed(columns, named.robot), columns)


def test_slides_and_hinges_have_units_of_their_own() -> None:
    log = log_of(slider())
    columns = {"t": log.t, "q_joint1_mm": log.q[0] * 1e3, "q_joint2_deg": log.q[1] * DEG}
    columns |= {"tau_joint1_N": log.tau[0], "tau_joint2_Nm": log.tau[1]}
    guess = guessed(columns, log.robot)
    assert_maps_to(log, guess, columns)
    bare = {"t": log.t, **numbered("q{}", log.q, 1), **numbered("tau{}", log.tau, 1)}
    assert_maps_to(log, guessed(bare, log.robot), bare)


def test_units_that_do_not_fit_a_joint_are_refused() -> None:
    log = log_of(slider())
    columns = {"t": log.t, **numbered("q{}_rad", log.q, 1), **numbered("tau{}_Nm", log.tau, 1)}
    assert "unit 'rad' does not fit the prismatic joint 'joint1'" in refused(columns, log.robot)


def test_one_joint_needs_no_number() -> None:
    log = log_of(arm(1))
    columns = {"time": log.t, "position": log.q[0], "torque": log.tau[0]}
    assert_maps_to(log, guessed(columns, log.robot), columns)


# --- Values -----------------------------------------------------------------------------------------------------------


def plain(log: Log, **scales: float) -> dict[str, Array]:
    """A log whose names say nothing about units."""
    t, q, v, tau = (scales.get(name, 1.0) for name in ("t", "q", "v", "tau"))
    columns = {"time": log.t * t, **numbered("q{}", log.q * q, 1), **numbered("tau{}", log.tau * tau, 1)}
    return columns | (numbered("qd{}", log.v * v, 1) if v else {})


@pytest.mark.parametrize("time", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("angle", ["rad", "deg"])
@pytest.mark.parametrize("speed", ["", "rad/s", "deg/s", "rpm"])
def test_values_tell_units(time: str, angle: str, speed: str, six: Log) -> None:
    scale = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}[time]
    factor = {"": 0.0, "rad/s": 1.0, "deg/s": DEG, "rpm": 30.0 / np.pi}[speed]
    columns = plain(six, t=scale, q=DEG if angle == "deg" else 1.0, v=factor)
    guess = guessed(columns, six.robot)
    assert (guess.time.unit, set(guess.q.units)) == (time, {angle})
    assert (guess.v is not None) == bool(speed)
    assert_maps_to(six, guess, columns)
    assert ("uncertain-guess", "time.unit") not in codes(guess)


@pytest.mark.parametrize("angle", ["rad", "deg"])
def test_stated_velocities_settle_the_unit_of_positions(angle: str, six: Log) -> None:
    """Also of a joint that turns on and on, of which no range tells anything."""
    endless = tuple(replace(j, kind="continuous", limits=Limits()) for j in six.robot.joints)
    log = six._replace(robot=replace(six.robot, joints=endless), q=9.0 * six.q, v=9.0 * six.v)
    columns = plain(log, q=DEG if angle == "deg" else 1.0, v=0.0) | numbered("dq{}_rad_s", log.v, 1)
    guess = guessed(columns, log.robot)
    assert guess.v is not None
    assert_maps_to(log, guess, columns)
    assert codes(guess) == [("uncertain-guess", "effort.unit")]


def test_of_two_possible_clocks_the_likelier_is_taken_and_the_other_named(six: Log) -> None:
    robot = replace(six.robot, joints=tuple(replace(j, limits=Limits(-2.0, 2.0)) for j in six.robot.joints))
    # 5 kHz and 12 rad/s, or 5 Hz and 0.012 rad/s
    fast = six._replace(t=six.t / 25.0, q=six.q * 12.0 / 25.0 / np.abs(six.v).max())
    guess = guessed(plain(fast, t=1e3, v=0.0), robot)
    assert guess.time.unit == "ms"
    assert ("uncertain-guess", "time.unit") in codes(guess)
    assert [one.fix for one in guess.findings if one.where == "time.unit"] == ['check it; alternative: unit = "s"']


def test_a_doubt_about_positions_is_one_about_a_clock_that_speeds_decide(six: Log) -> None:
    """Motor angles without a word of it look like degrees; their speeds must rule out no clock."""
    fast = six._replace(t=six.t / 25.0, q=100.0 * six.q)
    where = {place for _, place in codes(guessed(plain(fast, t=1e6, v=0.0), six.robot))}
    assert {"q.unit", "time.unit"} <= where
    where = {place for _, place in codes(guessed(plain(six, q=DEG, v=DEG), six.robot))}
    assert {"q.unit", "v.unit"} <= where


def test_a_robot_at_rest_tells_nothing_and_that_is_said(six: Log) -> None:
    still = six._replace(q=np.tile(six.q[:, :1], 4000), v=np.zeros_like(six.v))
    guess = guessed(plain(still), six.robot)
    assert guess.v is None
    assert "no joint moves" in guess.left_out
    assert {"time.unit", "q.unit"} <= {where for _, where in codes(guess)}


def test_a_clock_of_whole_milliseconds_may_be_a_counter(six: Log) -> None:
    guess = guessed(plain(six, t=RATE, v=0.0), six.robot)
    assert ("uncertain-guess", "time.unit") in codes(guess)


def test_velocities_unmask_a_header_that_lies_about_time(six: Log) -> None:
    columns = plain(six)
    columns["time_ms"] = columns.pop("time")
    guess = guessed(columns, six.robot)
    assert guess.time.unit == "s"
    assert ("uncertain-guess", "time.unit") in codes(guess)


def test_degrees_that_hardly_move_are_asked_about(six: Log) -> None:
    columns = plain(six, v=0.0)
    for k in range(1, 7):
        columns[f"q{k}_deg"] = columns.pop(f"q{k}")
    assert ("uncertain-guess", "q.unit") in codes(guessed(columns, six.robot))


@pytest.mark.parametrize("what", ["desired", "reversed", "swapped"])
def test_velocities_that_are_none_are_left_out(what: str, six: Log) -> None:
    values = {"desired": six.q, "reversed": -six.v, "swapped": six.v[[1, 0, 2, 3, 4, 5]]}[what]
    guess = guessed(plain(six, v=0.0) | numbered("qd{}", values, 1), six.robot)
    assert guess.v is None
    assert "do not integrate" in guess.left_out


def test_velocities_that_tell_half_the_motion_are_left_out(six: Log) -> None:
    shaken = six._replace(q=0.5 * six.q + 0.3 * np.sin(10.0 * six.t), v=0.5 * six.v)
    assert guessed(plain(shaken), six.robot).v is None


def test_friction_tells_which_way_an_effort_counts(six: Log) -> None:
    assert not guessed(plain(six), six.robot).effort.signs
    columns = plain(log_of(arm(3), 8000))
    columns["tau2"] = -columns["tau2"]
    guess = guessed(columns, arm(3))
    assert guess.effort.signs == (1.0, -1.0, 1.0)
    assert ("uncertain-guess", "effort.sign") in codes(guess)


def test_without_friction_no_sign_is_called_wrong() -> None:
    for seed in range(6):
        robot = arm(3)
        smooth = tuple(replace(j, drive=replace(j.drive, viscous=0.0, coulomb=0.0)) for j in robot.joints)
        log = log_of(replace(robot, joints=smooth), seed=seed)
        assert not guessed(plain(log), log.robot).effort.signs, seed


def test_motor_side_wants_a_ratio(six: Log) -> None:
    said = {"t_s": six.t, **numbered("motor_pos{}_rad", six.q * 100.0, 1), **numbered("tau_m{}_Nm", six.tau / 100.0, 1)}
    guess = guessed(said, six.robot)
    assert codes(guess) == [("missing-value", "q.ratio"), ("missing-value", "effort.ratio")]
    assert_maps_to(six, guess, said, ratio=[100.0] * 6)
    # nothing says motor, but no joint turns that far
    told = {"t_s": six.t, **numbered("pos{}_rad", six.q * 100.0, 1), **numbered("tau{}_Nm", six.tau, 1)}
    guess = guessed(told, six.robot)
    assert guess.q.side == "motor"
    assert {where for _, where in codes(guess)} == {"q.side", "q.ratio"}
    guess = guessed(told | numbered("vel{}_rad_s", six.v * 100.0, 1), six.robot)
    assert guess.v is not None
    assert guess.v.to_fill_in == ("ratio",)


def test_joint_side_is_taken_before_motor_side(six: Log) -> None:
    columns = suffixed(six) | numbered("motor_pos{}_rad", six.q * 100.0, 1) | numbered("motor_tau{}_Nm", six.tau, 1)
    guess = guessed(columns, six.robot)
    assert not guess.findings
    assert "motor side" in {one.why for one in guess.q.others}


def test_positions_beyond_limits_and_efforts_beyond_size_are_asked_about(six: Log) -> None:
    assert ("uncertain-guess", "q.offset") in codes(guessed(suffixed(six._replace(q=six.q + 2.0)), six.robot))
    weak = replace(six.robot, joints=tuple(replace(j, limits=Limits(-2, 2, 4, 1.0)) for j in six.robot.joints))
    assert ("uncertain-guess", "effort.unit") in codes(guessed(suffixed(six), weak))
    strong = replace(six.robot, joints=tuple(replace(j, limits=Limits(-2, 2, 4, 1e5)) for j in six.robot.joints))
    assert ("uncertain-guess", "effort.side") in codes(guessed(suffixed(six), strong))


def test_rivals_are_asked_about(six: Log) -> None:
    columns = plain(six) | numbered("left_q{}", six.q, 1)
    assert ("uncertain-guess", "q.columns") not in codes(guessed(plain(six), six.robot))
    assert ("uncertain-guess", "q.columns") in codes(guessed(columns, six.robot))


def test_stale_rows_gaps_and_empty_cells_do_not_mislead(six: Log) -> None:
    held = {name: x[np.arange(len(x)) // 3 * 3] for name, x in plain(six).items() if name != "time"}
    columns = {"time": six.t + 3.0 * (six.t > 9.0), **held}
    columns["q2"] = np.where(np.arange(len(six.t)) % 50 == 7, np.nan, columns["q2"])
    guess = guessed(columns, six.robot)
    assert (guess.time.unit, set(guess.q.units)) == ("s", {"rad"})
    assert guess.v is not None


# --- What cannot be guessed -------------------------------------------------------------------------------------------


def refused(columns: Mapping[str, Array], robot: Robot) -> str:
    with pytest.raises(DataError) as caught:
        guessed(columns, robot)
    return str(caught.value)


def test_what_is_missing_is_named(six: Log) -> None:
    whole = plain(six, v=0.0)

    def without(prefix: str) -> dict[str, Array]:
        return {name: x for name, x in whole.items() if not name.startswith(prefix)}

    assert "No columns hold efforts" in refused(without("tau"), six.robot)
    assert refused(without("tau"), six.robot).endswith("write [channels] by hand: docs/project-file.md.")
    assert "No columns hold positions" in refused(without("q"), six.robot)
    assert "No column is a clock" in refused(without("time"), six.robot)
    assert "q1, q2" in refused(without("tau"), six.robot)  # the columns there are
    assert "7 columns hold positions (q1 … q7)" in refused(whole | {"q7": six.t}, six.robot)
    assert "nothing for joint6" in refused(without("tau6"), six.robot)
    assert "none are measured: tau_des1" in refused(without("tau") | numbered("tau_des{}", six.tau, 1), six.robot)
    assert "'time' is constant" in refused(whole | {"time": np.ones(len(six.t))}, six.robot)
    assert "'time' decreases" in refused(whole | {"time": np.sin(six.t)}, six.robot)


def test_all_problems_of_a_log_are_reported_at_once(six: Log) -> None:
    columns = {f"spalte {k}": x for k, x in enumerate(six.q**2)}
    told = refused(columns, six.robot)
    for problem in ("No column is a clock", "No columns hold positions", "No columns hold efforts"):
        assert problem in told
    assert told.count("Columns: ") == 1


def test_joints_without_a_column_may_be_held(six: Log) -> None:
    columns = {name: x for name, x in plain(six, v=0.0).items() if name not in ("q6", "tau6")}
    assert "or hold the joints that did not move: --hold joint6." in refused(columns, six.robot)


def german(log: Log) -> dict[str, Array]:
    return {
        "Zeit [ms]": log.t * 1e3,
        **numbered("Achse {} Istposition [Grad]", log.q * DEG, 1),
        **numbered("Achse {} Sollposition [Grad]", log.q[::-1] * DEG, 1),
        **numbered("Achse {} Geschwindigkeit [Grad/s]", log.v * DEG, 1),
        **numbered("Achse {} Schleppfehler [Grad]", log.v, 1),
        **numbered("Achse {} Drehmoment [Nm]", log.tau, 1),
        "Temperatur Schrank [°C]": log.v[0],
    }


def test_german_names_are_understood(six: Log) -> None:
    guess = guessed(german(six), six.robot)
    assert_maps_to(six, guess, german(six))
    assert codes(guess) == []
    assert guess.v is not None
    assert "'ist' in the name means measured" in guess.q.why
    assert [other.columns[0] for other in guess.q.others] == ["Achse 1 Sollposition [Grad]"]


@pytest.mark.parametrize(
    ("column", "kind", "unit", "commanded"),
    [
        ("Motorstrom {} [A]", "current", "A", False),
        ("Lagesollwert{} [rad]", "position", "rad", True),
        ("Drehzahl_{} [U/min]", "velocity", "rpm", False),
        ("Gelenkwinkel{} [°]", "position", "deg", False),
        ("Antriebsmoment_{}_Nm", "torque", "N.m", False),
    ],
)
def test_german_compounds(column: str, kind: str, unit: str, commanded: bool, six: Log) -> None:
    (group,) = groups([column.format(k) for k in range(1, 7)], six.robot, None)
    assert (group.meaning.kind, group.meaning.unit, group.meaning.commanded) == (kind, unit, commanded)
    assert group.is_complete


@pytest.mark.parametrize(
    ("unit", "kind"),
    [
        ("Nm", "torque"),
        ("N·m", "torque"),
        ("A", "current"),
        ("rad/s", "velocity"),
        ("deg", "position"),
        ("°", "position"),
    ],
)
def test_a_unit_in_brackets_is_enough(unit: str, kind: str, six: Log) -> None:
    """Names of the joint alone are sure; with words that are not understood the choice is one to check."""
    for column, by_unit in ((f"Axis {{}} [{unit}]", False), (f"Kupplung {{}} [{unit}]", True)):
        (group,) = groups([column.format(k) for k in range(1, 7)], six.robot, None)
        assert (group.meaning.kind, group.meaning.by_unit) == (kind, by_unit)


def test_columns_known_by_their_unit_alone_are_asked_about(six: Log) -> None:
    columns = {
        "t_s": six.t,
        **numbered("Axis {} [rad]", six.q, 1),
        **numbered("Axis {} [rad/s]", six.v, 1),
        **numbered("Kupplung {} [Nm]", six.tau, 1),
    }
    guess = guessed(columns, six.robot)
    assert_maps_to(six, guess, columns)
    assert codes(guess) == [("uncertain-guess", "effort.columns")]
    named = columns | numbered("Axis {} Torque [Nm]", 2.0 * six.tau, 1)  # a name is better than a unit
    assert guessed(named, six.robot).effort.columns[0] == "Axis 1 Torque [Nm]"


def test_logs_of_one_project_share_their_columns(six: Log) -> None:
    one, other = (Recording.from_arrays(name, columns) for name, columns in (("a", plain(six)), ("b", vendor(six))))
    with pytest.raises(DataError, match="'a' and 'b' have different headers"):
        guess_channels([one, other], six.robot)


def test_a_column_of_text_spoils_no_other(six: Log, tmp_path: Path) -> None:
    columns = {"stamp": six.t, **plain(six)}
    rows = np.column_stack(list(columns.values()))
    lines = [",".join(columns), *(",".join(["12:00:01", *map(repr, row[1:])]) for row in rows.tolist())]
    (tmp_path / "log.csv").write_text("\n".join(lines) + "\n", "utf-8")
    guess = guess_channels([read_recording(tmp_path / "log.csv")], six.robot)
    assert guess.time.column == "time"


# --- Recorded logs ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["tx40", "panda", "cobot6", "kr300", "ur10e", "ur10e-free"])
def test_recorded_logs_get_the_map_of_their_project(name: str) -> None:
    """Equal to the committed projects but for what a person decided: gains, ratios, offsets, and leaving out v."""
    shared_data()
    project = read_project(REAL / f"{name}.toml")
    robot = project.robot()
    guess = guess_channels([read_recording(REAL / log) for run in project.spec.run for log in run.logs], robot, HEADERS)
    by_hand = resolve(project.spec.channels.channel_map(), robot)
    known = project.spec.channels.effort.gain
    assert guess.effort.to_fill_in == {"kr300": ("ratio",), "ur10e": ("gain",), "ur10e-free": ("gain",)}.get(name, ())
    given = {blank: known for blank in guess.effort.to_fill_in if isinstance(known, list)}
    mine = resolve(guess.channel_map(**given), robot)
    assert (mine.time, mine.time_factor) == (by_hand.time, by_hand.time_factor)
    assert mine.q.columns == by_hand.q.columns
    np.testing.assert_array_equal(mine.q.matrix, by_hand.q.matrix)
    assert mine.effort.columns == by_hand.effort.columns
    np.testing.assert_array_equal(mine.effort.matrix, by_hand.effort.matrix)
    if by_hand.v is not None:
        assert mine.v is not None
        assert mine.v.columns == by_hand.v.columns
        np.testing.assert_array_equal(mine.v.matrix, by_hand.v.matrix)
    assert [one.code for one in guess.findings] == ["missing-value"] * len(guess.effort.to_fill_in)


@pytest.mark.slow
def test_every_recorded_run_of_the_ur10e_is_understood() -> None:
    robot = read_robot(shared_data("ur10e", "ur10e.urdf"))
    for log in sorted(shared_data("ur10e").glob("*.parquet")):
        guess = guess_channels([read_recording(log)], robot, HEADERS)
        assert guess.effort.columns == tuple(f"i{k}_A" for k in range(1, 7)), log.name
        assert not guess.effort.signs, log.name
        assert codes(guess) == [("missing-value", "effort.gain")], log.name


def test_commands_alone_are_refused() -> None:
    log = read_recording(shared_data("franka_panda", "command_first_two_thirds.parquet"))
    with pytest.raises(DataError, match="No columns hold positions"):
        guess_channels([log], read_robot("panda"), HEADERS)


def test_drive_counts_of_the_cobot_are_recognised_with_their_sign() -> None:
    """Its source reverses joint 3 by hand; friction tells as much."""
    robot = read_robot(REAL / "robots" / "cobot6.toml")
    logs = []
    for log in sorted(shared_data("se_cobot6").glob("*.parquet")):
        recording = read_recording(log)
        kept = [name for name in recording.columns if not name.startswith("tau")]
        logs.append(Recording.from_arrays(log.name, next(recording.chunks(kept))))
    guess = guess_channels(logs, robot, HEADERS)
    assert guess.effort.signs == (1.0, 1.0, -1.0, 1.0, 1.0, 1.0)
    assert guess.effort.to_fill_in == ("gain",)


def test_tiago_is_mapped_by_name_with_its_slide(tmp_path: Path) -> None:
    names = ["torso_lift_joint", *(f"arm_{k}_joint" for k in range(1, 8))]
    rows = [f'[[joint]]\nname = "{name}"\n' + ('kind = "prismatic"\n' if "lift" in name else "") for name in names]
    (tmp_path / "tiago.toml").write_text('name = "tiago"\nconvention = "mdh"\n' + "\n".join(rows), "utf-8")
    guess = guess_channels([read_recording(shared_data("tiago", "ident.parquet"))], read_robot(tmp_path / "tiago.toml"))
    assert guess.q.columns[:2] == ("q_torso_lift_m", "q_arm_1_rad")
    assert guess.q.units == ("m", *["rad"] * 7)
    assert guess.v is not None
    assert guess.v.units == ("m/s", *["rad/s"] * 7)
    assert guess.effort.columns[0] == "effort_torso_lift_raw"
    # the source's own motor constants are negative from arm 3 on; of arm 5 to 7 the log holds hardly any effort
    assert guess.effort.signs == (1.0, 1.0, 1.0, -1.0, -1.0, 1.0, 1.0, 1.0)
    assert guess.effort.to_fill_in == ("gain",)


# --- The command ------------------------------------------------------------------------------------------------------


NAMED = ROBOT.replace('"joint1"', '"swing arm"').replace('"joint2"', '"wrist"')


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a robot and two logs of it, as the current one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "logs").mkdir()
    (tmp_path / "pendulum.toml").write_text(NAMED, "utf-8")
    robot = read_robot(tmp_path / "pendulum.toml")
    for seed, name in enumerate(("monday.csv", "tuesday.csv"), 1):
        write_log(tmp_path / "logs" / name, vendor(log_of(robot, 3000, seed)))
    return tmp_path


def write_log(file: Path, columns: Mapping[str, Array]) -> None:
    rows = np.column_stack(list(columns.values())).tolist()
    file.write_text("\n".join([";".join(columns), *(";".join(map(repr, row)) for row in rows)]) + "\n", "utf-8")


@pytest.mark.slow
def test_the_project_is_written_explained_and_identified(workplace: Path, steelyard: Run) -> None:
    told = steelyard("init", "pendulum.toml", "logs/monday.csv", "logs/tuesday.csv", "--out", "here/arm.toml")
    assert told.code == 0, told.err
    assert told.out == ""
    assert "the header says deg" in told.err
    assert "not used for q: Axis 1 Set Position [deg]" in told.err
    text = (workplace / "here" / "arm.toml").read_text("utf-8")
    project = read_project(workplace / "here" / "arm.toml")
    assert project.spec.robot == "../pendulum.toml"
    assert [run.log for run in project.spec.run] == ["../logs/monday.csv", "../logs/tuesday.csv"]
    assert [run.role for run in project.spec.run] == ["identify", "validate"]
    for key in ("terms", "estimator", "cutoff_hz", "lowpass_hz", "rest", "rate_hz", "role", "sign", "offset", "side"):
        assert f"# {key} = " in text, key
    assert 'role = "validate"' in text
    assert max(map(len, text.splitlines())) <= 120
    identified = steelyard("identify", "here/arm.toml", "--json")
    assert identified.code == 0, identified.err
    assert identified.document["relative_error"]["total"] < 0.1
    assert [p.name for p in (workplace / "here").iterdir() if p.is_file()] == ["arm.toml"]


def test_commented_keys_are_valid_and_the_defaults(workplace: Path, steelyard: Run) -> None:
    assert steelyard("init", "pendulum.toml", "logs/monday.csv").code == 0
    text = (workplace / "project.toml").read_text("utf-8")
    before = read_project(workplace / "project.toml")
    keys = "terms|estimator|cutoff_hz|lowpass_hz|derivatives|delay|missing|side|sign|offset|role|load"
    shown, count = re.subn(rf"^# (({keys}) = )", r"\1", text, flags=re.MULTILINE)
    assert count == 7 + 3 * 2 + 1 + 2
    (workplace / "project.toml").write_text(shown, "utf-8")
    after = read_project(workplace / "project.toml")
    assert after.estimator() == before.estimator()
    assert after.spec == before.with_estimator("auto").spec
    # these have no default of their own, but are keys
    every = re.sub(r"^# ((gravity|rate_hz|rest|seconds) = )", r"\1", text, flags=re.MULTILINE)
    (workplace / "project.toml").write_text(every, "utf-8")
    spec = read_project(workplace / "project.toml").spec
    assert (spec.gravity, spec.prepare.rate_hz, spec.run[0].seconds) == ([0.0, 0.0, -9.80665], RATE, (0.0, 10.0))


def test_the_episode_is_kept_in_the_project(workplace: Path, steelyard: Run) -> None:
    log = log_of(read_robot("pendulum.toml"), 3000)
    one = {"timestamp": log.t, "observation.position": [*log.q.T], "observation.torque": [*log.tau.T]}
    frames = [pl.DataFrame({**one, "frame_index": np.arange(len(log.t)), "episode_index": k}) for k in range(2)]
    pl.concat(frames).write_parquet(workplace / "file-000.parquet")
    assert steelyard("init", "pendulum.toml", "file-000.parquet", "--episode", 1).code == 0
    assert [run.episode for run in read_project(workplace / "project.toml").spec.run] == [1]
    told = steelyard("init", "pendulum.toml", "file-000.parquet", "--out", "both.toml")
    assert "split into 2 episodes by the column 'episode_index'" in " ".join(told.err.split())
    runs = read_project(workplace / "both.toml").spec.run
    assert [(run.episode, run.role) for run in runs] == [(0, "identify"), (1, "validate")]


@pytest.mark.parametrize("pattern", ["{name} position", "q_{k}"])
def test_joints_that_the_log_does_not_have_are_held_and_said(workplace: Path, steelyard: Run, pattern: str) -> None:
    (workplace / "arm.urdf").write_text(finger_arm.ARM, "utf-8")
    log = log_of(read_robot("arm.urdf", held=["finger"]), 3000)
    columns = {"time": log.t}
    for k, name in enumerate(("j1", "j2")):
        columns[pattern.format(name=name, k=k + 1)] = log.q[k]
        columns[pattern.replace("position", "torque").replace("q_", "tau_").format(name=name, k=k + 1)] = log.tau[k]
    write_log(workplace / "log.csv", columns)
    done = steelyard("init", "arm.urdf", "log.csv")
    assert done.code == 0
    assert "not in the log, so held, as if fixed: finger at 0.01" in " ".join(done.err.split())
    assert read_project(workplace / "project.toml").spec.hold == ["finger"]
    assert read_project(workplace / "project.toml").robot().held == {"finger": 0.01}


def test_json_holds_guess_evidence_and_questions(workplace: Path, steelyard: Run) -> None:
    told = steelyard("init", "pendulum.toml", "logs/monday.csv", "--json")
    document = told.document
    assert (told.code, document["schema"], document["project"]) == (0, "steelyard.init/2", "project.toml")
    assert document["guess"]["q"]["columns"] == ["Axis 1 Position [deg]", "Axis 2 Position [deg]"]
    assert "the header says deg" in document["guess"]["q"]["why"]
    assert document["guess"]["time"]["unit"] == "ms"
    assert document["questions"] == []
    assert document["joints"] == ["swing arm", "wrist"]


@pytest.mark.slow
def test_a_missing_gain_is_left_blank_and_fails_loudly(workplace: Path, steelyard: Run) -> None:
    columns = vendor(log_of(read_robot("pendulum.toml"), 3000))
    currents = {name.replace("Torque [Nm]", "Current [A]"): x for name, x in columns.items()}
    write_log(workplace / "log.csv", currents)
    told = steelyard("init", "pendulum.toml", "log.csv", "--json")
    assert told.code == 4
    assert [(one["code"], one["where"]) for one in told.document["questions"]] == [("missing-value", "effort.gain")]
    text = (workplace / "project.toml").read_text("utf-8")
    assert "FILL IN" in text
    # what would make it unnecessary, and what that needs
    assert 'or gain = "unknown" to identify them too, with a [[payload]] of known mass' in text
    assert 'gain = "unknown"' in told.document["questions"][0]["fix"]
    told = steelyard("identify", "project.toml")
    assert told.code == 2
    told_once = " ".join(told.err.split())
    assert "gain is an empty list: fill in one value per joint" in told_once
    assert 'or set gain = "unknown" to identify them' in told_once
    text = (workplace / "project.toml").read_text("utf-8").replace("gain = []", "gain = [1.0, 1.0]")
    (workplace / "project.toml").write_text(text, "utf-8")
    assert steelyard("identify", "project.toml").code == 0


@pytest.mark.slow
def test_doubts_stand_beside_what_they_doubt(workplace: Path, steelyard: Run) -> None:
    log = log_of(read_robot("pendulum.toml"), 3000)
    write_log(workplace / "log.csv", plain(log, q=DEG, v=0.0))
    told = steelyard("init", "pendulum.toml", "log.csv")
    assert told.code == 0
    assert "uncertain-guess [q.unit]" in told.err
    channels = (
        (workplace / "project.toml").read_text("utf-8").split("[channels.q]\n")[1].split("[channels.q.columns]")[0]
    )
    assert 'unit = "rad", side = "motor"' in " ".join(channels.replace("\n#", "").split())
    assert tomllib.loads("[q]\n" + channels)["q"] == {"unit": "deg"}


def test_nothing_is_overwritten_or_written_in_vain(workplace: Path, steelyard: Run) -> None:
    (workplace / "project.toml").write_text("mine", "utf-8")
    told = steelyard("init", "pendulum.toml", "logs/monday.csv")
    assert told.code == 2
    assert "--force" in told.err
    assert (workplace / "project.toml").read_text("utf-8") == "mine"
    assert "--force" in steelyard("init", "pendulum.toml", "logs/nowhere.csv").err  # before any log is read
    assert steelyard("init", "pendulum.toml", "logs/monday.csv", "--force").code == 0
    assert "pendulum.toml" in (workplace / "project.toml").read_text("utf-8")
    told = steelyard("init", "tx40", "logs/monday.csv", "--out", "other.toml", "--json")
    assert told.code == 2
    assert told.document["schema"] == "steelyard.error/1"
    assert "2 columns hold positions" in told.document["error"]
    assert "Axis 1 Position [deg]" in told.document["error"]
    assert not (workplace / "other.toml").exists()
    assert steelyard("init", "pendulum.toml", "logs/monday.csv", "--out", "logs", "--force").code == 2
    assert sorted(p.name for p in workplace.iterdir()) == ["logs", "pendulum.toml", "project.toml"]


def test_logs_of_one_name_get_names(workplace: Path, steelyard: Run) -> None:
    (workplace / "more").mkdir()
    (workplace / "logs" / "tuesday.csv").rename(workplace / "more" / "monday.csv")
    assert steelyard("init", "pendulum.toml", "logs/monday.csv", "more/monday.csv").code == 0
    project = read_project(workplace / "project.toml")
    assert [run.name for run in project.spec.run] == ["logs/monday.csv", "more/monday.csv"]


def test_options_of_a_reader_reach_it(workplace: Path, steelyard: Run) -> None:
    told = steelyard("init", "pendulum.toml", "logs/monday.csv", "--topic", "/joint_states")
    assert told.code == 2
    assert "topic" in told.err
    told = steelyard("init", "pendulum.toml", "logs/monday.csv", "--episode", "3")
    assert told.code == 2
    assert "episode" in told.err


def test_a_file_called_like_a_built_in_robot_stays_the_file(workplace: Path, steelyard: Run) -> None:
    (workplace / "pendulum.toml").rename(workplace / "tx40")
    told = steelyard("init", "./tx40", "logs/monday.csv")
    if told.code == 0:  # a robot file without an extension may not be readable at all
        assert read_project(workplace / "project.toml").spec.robot == "./tx40"
