"""Headers of libfranka's `logToCSV`: time in ms, then state and command numbered from 0; early ones had no prefix."""

from __future__ import annotations

from steelyard.signals.guess import LoggerHeader, Meaning

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
