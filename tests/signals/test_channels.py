"""Channel maps: every unit, sign, ratio, side and table against its definition, and every mistake refused by name."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from steelyard.errors import DataError
from steelyard.model.robot import Robot
from steelyard.signals.channels import (
    EFFORT_UNITS,
    POSITION_UNITS,
    TIME_UNITS,
    VELOCITY_UNITS,
    ChannelMap,
    Drives,
    Linear,
    Signal,
    resolve,
)
from testbed.simulated import arm, channels_of, slider

RAW = np.array([[1.0, -2.0], [0.5, 3.0], [-0.25, 4.0]])
SI = {
    "rad": 1.0, "mrad": 1e-3, "deg": np.pi / 180, "rev": 2 * np.pi, "m": 1.0, "mm": 1e-3,
    "rad/s": 1.0, "mrad/s": 1e-3, "deg/s": np.pi / 180, "rev/s": 2 * np.pi, "rpm": np.pi / 30, "m/s": 1.0, "mm/s": 1e-3,
    "N.m": 1.0, "Nm": 1.0, "mN.m": 1e-3, "kN.m": 1e3, "N": 1.0, "kN": 1e3, "A": 1.0, "mA": 1e-3, "raw": 1.0,
    "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9,
}  # fmt: skip


def signal(prefix: str, unit: str, count: int = 3, **options) -> Signal:
    return Signal([f"{prefix}{i + 1}" for i in range(count)], unit, **options)


def channels(**changes) -> ChannelMap:
    return replace(ChannelMap("t", signal("q", "rad"), signal("tau", "N.m")), **changes)


def coupled() -> Robot:
    """Motor 3 turns with joints 2 and 3."""
    return replace(arm(3), coupling=np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 1.0, 1.0]]))


# --- Units, signs, offsets, gains -------------------------------------------------------------------------------------


@pytest.mark.parametrize("unit", TIME_UNITS)
def test_time_units(unit: str) -> None:
    assert resolve(channels(time_unit=unit), arm()).time_factor == SI[unit]


@pytest.mark.parametrize("unit", [unit for unit, (kind, _) in POSITION_UNITS.items() if kind == "rotary"])
def test_rotary_position_units(unit: str) -> None:
    q = resolve(channels(q=signal("q", unit)), arm()).q(RAW)
    np.testing.assert_allclose(q, SI[unit] * RAW, rtol=1e-15)


@pytest.mark.parametrize("unit", [unit for unit, (kind, _) in VELOCITY_UNITS.items() if kind == "rotary"])
def test_rotary_velocity_units(unit: str) -> None:
    v = resolve(channels(v=signal("v", unit)), arm()).v
    assert v is not None
    np.testing.assert_allclose(v(RAW), SI[unit] * RAW, rtol=1e-15)


@pytest.mark.parametrize("unit", [unit for unit, (kind, _) in EFFORT_UNITS.items() if kind == "rotary"])
def test_torque_units(unit: str) -> None:
    np.testing.assert_allclose(resolve(channels(effort=signal("i", unit)), arm()).effort(RAW), SI[unit] * RAW)


@pytest.mark.parametrize("unit", [unit for unit, (kind, _) in EFFORT_UNITS.items() if kind == "needs gain"])
def test_currents_take_a_gain(unit: str) -> None:
    gain = [11.0, 12.0, -13.0]
    effort = resolve(channels(effort=signal("i", unit, gain=gain)), arm()).effort
    np.testing.assert_allclose(effort(RAW), SI[unit] * np.array(gain)[:, None] * RAW)


def test_unknown_gains_count_as_one() -> None:
    resolved = resolve(channels(effort=signal("i", "A", gain="unknown")), arm())
    np.testing.assert_array_equal(resolved.effort(RAW), RAW)
    assert resolved.drives == Drives(("A",) * 3, None, (1.0,) * 3, "joint", ("N.m/A",) * 3)


def test_what_was_stated_of_the_drives_is_kept() -> None:
    """Gains, ratios and sides as written, so that identified factors can be told in the same words."""
    gains, ratios = [11.0, 12.0, -13.0], [100.0, 50.0, -80.0]
    effort = Signal(["i1", "i2", "i3"], ["A", "mA", "raw"], "motor", ratio=ratios, gain=gains)
    stated = resolve(channels(effort=effort), arm()).drives
    assert stated.gain == (11.0, 12.0, -13.0)
    assert stated.ratio == (100.0, 50.0, -80.0)
    assert (stated.side, stated.gain_unit) == ("motor", ("N.m/A", "N.m/A", "N.m/raw"))
    assert stated == resolve(channels(effort=effort), arm()).drives
    assert stated != resolve(channels(effort=replace(effort, gain=11.0)), arm()).drives
    # torques have a gain of one, and no unit for it
    torque = resolve(channels(), arm()).drives
    assert (torque.gain, torque.gain_unit, torque.side) == ((1.0, 1.0, 1.0), ("1", "1", "1"), "joint")


def test_gains_of_a_slide_are_forces_at_the_joint_and_torques_at_the_motor() -> None:
    log = ChannelMap("t", Signal(["q1", "q2"], ["m", "rad"]), Signal(["i1", "i2"], "A", gain="unknown"))
    assert resolve(log, slider()).drives.gain_unit == ("N/A", "N.m/A")
    motor = replace(log, effort=replace(log.effort, side="motor", ratio=[628.0, 100.0]))
    assert resolve(motor, slider()).drives.gain_unit == ("N.m/A", "N.m/A")


def test_unknown_gains_of_coupled_motors_stay_apart_from_gears_and_coupling() -> None:
    effort = signal("i", "A", gain="unknown", side="motor", ratio=[100.0, 50.0, 80.0])
    resolved = resolve(channels(effort=effort), coupled())
    np.testing.assert_allclose(resolved.effort.matrix, coupled().motor_map.T @ np.diag([100.0, 50.0, 80.0]))
    assert resolved.drives.gain is None
    with pytest.raises(DataError, match=r'is identified per motor.* set side = "motor"'):
        resolve(channels(effort=signal("i", "A", gain="unknown")), coupled())


def test_unknown_is_the_only_word_for_gains() -> None:
    with pytest.raises(DataError, match="numbers or the word \"unknown\", not 'auto'"):
        resolve(channels(effort=signal("i", "A", gain="auto")), arm())
    with pytest.raises(DataError, match="'gain' belongs to the effort channel"):
        resolve(channels(q=signal("q", "rad", gain="unknown")), arm())


@pytest.mark.parametrize("length", ["m", "mm"])
@pytest.mark.parametrize("force", ["N", "kN"])
def test_linear_joints_take_linear_units(length: str, force: str) -> None:
    table = ChannelMap(
        "t",
        Signal(["q1", "q2"], [length, "deg"]),
        Signal(["tau1", "tau2"], {"joint1": force, "joint2": "N.m"}),
        v=Signal(["v1", "v2"], [f"{length}/s", "rpm"]),
    )
    resolved = resolve(table, slider())
    np.testing.assert_allclose(np.diagonal(resolved.q.matrix), [SI[length], np.pi / 180])
    np.testing.assert_allclose(np.diagonal(resolved.effort.matrix), [SI[force], 1.0])
    assert resolved.v is not None
    np.testing.assert_allclose(np.diagonal(resolved.v.matrix), [SI[length], np.pi / 30])


def test_sign_and_offset() -> None:
    q = resolve(channels(q=signal("q", "deg", sign=[1, -1, 1], offset=[0.0, np.pi / 2, -0.1])), arm()).q(RAW)
    wanted = np.deg2rad(RAW) * np.array([[1], [-1], [1]]) + np.array([[0.0], [np.pi / 2], [-0.1]])
    np.testing.assert_allclose(q, wanted, rtol=1e-15)


def test_tables_by_joint_name_equal_lists_in_joint_order() -> None:
    robot = coupled()
    names = robot.joint_names
    lists: dict[str, Any] = {"sign": [1.0, -1.0, 1.0], "ratio": [30.0, 40.0, -50.0], "offset": [0.1, 0.2, 0.3]}
    columns, units = ["qa", "qb", "qc"], ["deg", "rad", "rev"]
    shuffled = (2, 0, 1)

    def table(values: list) -> dict:
        return {names[k]: values[k] for k in shuffled}

    tables: dict[str, Any] = {key: table(x) for key, x in lists.items()}
    listed = Signal(columns, units, "motor", **lists)
    named = Signal(table(columns), table(units), "motor", **tables)
    one, other = (resolve(channels(q=q), robot).q for q in (listed, named))
    assert one.columns == other.columns == ("qa", "qb", "qc")
    np.testing.assert_array_equal(one.matrix, other.matrix)
    np.testing.assert_array_equal(one.offset, other.offset)


def test_columns_are_read_once_with_the_clock_first() -> None:
    resolved = resolve(channels(v=signal("v", "rad/s")), arm())
    assert resolved.columns == ("t", "q1", "q2", "q3", "v1", "v2", "v3", "tau1", "tau2", "tau3")


# --- Motor side -------------------------------------------------------------------------------------------------------


def test_motor_side_with_coupling() -> None:
    robot = coupled()
    c, ratio, sign = robot.motor_map, np.array([32.0, -45.0, 48.0]), np.array([1.0, 1.0, -1.0])
    options = {"side": "motor", "ratio": ratio.tolist(), "sign": sign.tolist()}
    resolved = resolve(
        channels(
            q=signal("q", "rad", offset=[0.0, 0.5, 0.0], **options),
            v=signal("v", "rpm", **options),
            effort=signal("i", "A", gain=2.0, **options),
        ),
        robot,
    )
    q = np.linalg.inv(c) @ (RAW * (sign / ratio)[:, None]) + np.array([[0.0], [0.5], [0.0]])
    np.testing.assert_allclose(resolved.q(RAW), q, rtol=1e-14)
    np.testing.assert_allclose(resolved.effort(RAW), c.T @ (RAW * (2.0 * sign * ratio)[:, None]), rtol=1e-14)
    assert resolved.v is not None
    speed = resolved.v(RAW)
    # what enters at the motors leaves at the joints: q̇·τ = q̇_m·τ_m
    power = np.sum(speed * resolved.effort(RAW), axis=0)
    np.testing.assert_allclose(power, np.sum(np.pi / 30 * RAW * 2.0 * RAW, axis=0), rtol=1e-13)


def test_a_slide_may_be_driven_by_a_rotary_motor() -> None:
    ratio = [2 * np.pi / 0.01, 50.0]  # a screw of 10 mm a turn: rad per m
    resolved = resolve(
        ChannelMap(
            "t",
            Signal(["q1", "q2"], "rev", "motor", ratio=ratio),
            Signal(["tau1", "tau2"], "N.m", "motor", ratio=ratio),
        ),
        slider(),
    )
    np.testing.assert_allclose(resolved.q(np.array([[1.0], [1.0]])), [[0.01], [2 * np.pi / 50]])
    np.testing.assert_allclose(resolved.effort(np.array([[1.0], [1.0]])), [[2 * np.pi / 0.01], [50.0]])


@pytest.mark.parametrize("joints", [3, 9])
@pytest.mark.parametrize("width", [1, 2, 7, 1000])
def test_the_width_of_a_chunk_leaves_no_trace(joints: int, width: int) -> None:
    rng = np.random.default_rng(3)
    linear = Linear(tuple(map(str, range(joints))), rng.normal(size=(joints, joints)), rng.normal(size=joints))
    raw = rng.normal(size=(joints, 2000))
    parts = [linear(raw[:, i : i + width]) for i in range(0, 2000, width)]
    np.testing.assert_array_equal(np.concatenate(parts, axis=1), linear(raw))


# --- Mistakes ---------------------------------------------------------------------------------------------------------

Q3 = ["q1", "q2", "q3"]
MISTAKES = {
    "unknown joint": (
        channels(q=Signal({"joint1": "q1", "joint2": "q2", "joint33": "q3"}, "rad")),
        "Channel 'q', columns: Unknown joint 'joint33'. Did you mean 'joint3'? Valid: joint1, joint2, joint3",
    ),
    "unknown joint in a factor": (
        channels(effort=signal("i", "A", gain={"joint1": 1.0, "elbow": 1.0})),
        "Channel 'effort', gain: Unknown joint 'elbow'",
    ),
    "missing joint": (
        channels(q=Signal({"joint1": "q1", "joint3": "q3"}, "rad")),
        "Channel 'q': columns is missing for joint joint2",
    ),
    "list of another length": (channels(q=Signal(["q1", "q2"], "rad")), "columns lists 2 entries for the 3 joints"),
    "unknown unit": (channels(q=signal("q", "grad")), "Channel 'q': Unknown unit 'grad'. Did you mean 'rad'?"),
    "unit of another signal": (channels(v=signal("v", "rad")), "Channel 'v': Unknown unit 'rad'"),
    "unknown time unit": (channels(time_unit="min"), "Channel 'time': Unknown unit 'min'"),
    "linear unit on a rotary joint": (
        channels(q=signal("q", "mm")),
        "unit 'mm' does not fit the revolute joint 'joint1'. Valid: rad, mrad, deg, rev",
    ),
    "force on a rotary joint": (
        channels(effort=signal("f", "N")),
        "unit 'N' does not fit the revolute joint 'joint1'. Valid: N.m, Nm, mN.m, kN.m",
    ),
    "current without gain": (channels(effort=signal("i", "A")), "unit 'A' needs a 'gain'"),
    "gain on positions": (channels(q=signal("q", "rad", gain=2.0)), "Channel 'q': 'gain' belongs to the effort"),
    "motor without ratio": (channels(q=signal("q", "rad", side="motor")), "side = \"motor\" needs 'ratio'"),
    "ratio on the joint side": (
        channels(effort=signal("i", "N.m", ratio=10.0)),
        "Channel 'effort': 'ratio' applies only with side = \"motor\"",
    ),
    "unknown side": (channels(q=signal("q", "rad", side="moter")), "Unknown side 'moter'. Did you mean 'motor'?"),
    "column twice": (channels(q=Signal(["q1", "q1", "q3"], "rad")), "column q1 is used by more than one joint"),
    "column of two signals": (channels(effort=Signal(Q3, "N.m")), "Column q1, q2, q3 is used by more than one signal"),
    "clock as a position": (channels(q=Signal(["t", "q2", "q3"], "rad")), "Column t is used by more than one signal"),
    "zero ratio": (
        channels(q=signal("q", "rad", side="motor", ratio=[1.0, 0.0, 2.0])),
        "Channel 'q': ratio must be finite and not zero",
    ),
    "zero sign": (channels(q=signal("q", "rad", sign=0.0)), "sign must be finite and not zero"),
    "infinite gain": (channels(effort=signal("i", "A", gain=np.inf)), "gain must be finite"),
    "offset that is no number": (channels(q=signal("q", "rad", offset=np.nan)), "offset must be finite"),
    "offset of velocities": (channels(v=signal("v", "rad/s", offset=1.0)), "'offset' applies to positions only"),
    "offset of efforts": (channels(effort=signal("i", "N.m", offset=1.0)), "'offset' applies to positions only"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_refused_by_name(mistake: str) -> None:
    table, message = MISTAKES[mistake]
    with pytest.raises(DataError, match=re.escape(message)):
        resolve(table, arm())


def test_rotary_unit_on_a_slide() -> None:
    table = channels_of(slider())
    with pytest.raises(
        DataError, match=re.escape("unit 'rad' does not fit the prismatic joint 'joint1'. Valid: m, mm")
    ):
        resolve(replace(table, q=replace(table.q, unit="rad")), slider())
