"""Headers of loggers with the same column names on every robot: UR's real-time data exchange (RTDE) as its clients log
it, and libfranka's `logToCSV`, whose early versions wrote no prefix."""

from __future__ import annotations

from steelyard.signals.guess import LoggerHeader, Meaning

RTDE = LoggerHeader(
    "RTDE",
    frozenset({"timestamp", "actual_q_0"}),
    {
        "timestamp": Meaning("time", "s"),
        "actual_q_#": Meaning("position", "rad", measured=True),
        "actual_qd_#": Meaning("velocity", "rad/s", measured=True),
        "actual_current_#": Meaning("current", "A", measured=True),
        # controllers from 5.23 on: the measured current multiplied by the maker's own gain
        "actual_current_as_torque_#": Meaning("torque", "N.m", measured=True),
        "target_q_#": Meaning("position", "rad", commanded=True),
        "target_qd_#": Meaning("velocity", "rad/s", commanded=True),
        "target_qdd_#": Meaning("acceleration", "rad/s2", commanded=True),
        "target_current_#": Meaning("current", "A", commanded=True),
        "target_moment_#": Meaning("torque", "N.m", commanded=True),
        "joint_control_output_#": Meaning("current", "A", commanded=True),
    },
)


_STATE = {
    "q[#]": Meaning("position", "rad", measured=True),
    "q_d[#]": Meaning("position", "rad", commanded=True),
    "dq[#]": Meaning("velocity", "rad/s", measured=True),
    "dq_d[#]": Meaning("velocity", "rad/s", commanded=True),
    "tau_J[#]": Meaning("torque", "N.m", measured=True),
}
_COMMAND = {
    "q_d[#]": Meaning("position", "rad", commanded=True),
    "dq_d[#]": Meaning("velocity", "rad/s", commanded=True),
    "tau_J_d[#]": Meaning("torque", "N.m", commanded=True),
}

LIBFRANKA = LoggerHeader(
    "libfranka",
    frozenset({"time", "success_rate", "state.q[0]"}),
    {
        "time": Meaning("time", "ms"),
        **{f"state.{name}": meaning for name, meaning in _STATE.items()},
        **{f"cmd.{name}": meaning for name, meaning in _COMMAND.items()},
    },
)
EARLY_LIBFRANKA = LoggerHeader(
    "libfranka",
    frozenset({"duration", "success rate", "q[0]"}),
    {"duration": Meaning("time", "ms"), **_STATE, **_COMMAND},
)
