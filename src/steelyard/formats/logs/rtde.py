"""Header of UR's real-time data exchange (RTDE) as its clients log it: `timestamp`, then fields numbered from 0."""

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
        # controllers from 5.23 on: the measured current times the maker's own gain
        "actual_current_as_torque_#": Meaning("torque", "N.m", measured=True),
        "target_q_#": Meaning("position", "rad", commanded=True),
        "target_qd_#": Meaning("velocity", "rad/s", commanded=True),
        "target_qdd_#": Meaning("acceleration", "rad/s2", commanded=True),
        "target_current_#": Meaning("current", "A", commanded=True),
        "target_moment_#": Meaning("torque", "N.m", commanded=True),
        "joint_control_output_#": Meaning("current", "A", commanded=True),
    },
)
