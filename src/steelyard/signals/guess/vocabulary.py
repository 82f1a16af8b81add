"""The words and units in names of columns, English and German. They are compared in lower case."""

from __future__ import annotations

from typing import Literal

Kind = Literal["time", "position", "velocity", "acceleration", "torque", "current"]
Place = Literal["joint", "link", "motor"]

# Meaning of a word in a column's name; the first line that applies is used.
WORDS: tuple[tuple[Kind, frozenset[str]], ...] = (
    ("acceleration", frozenset({"ddq", "qdd", "qddot", "qpp", "acc", "accel", "acceleration", "accelerations",
                                "beschleunigung"})),
    ("velocity", frozenset({"dq", "qd", "qdot", "qp", "dot", "vel", "velocity", "velocities", "speed", "speeds",
                            "omega", "dtheta", "thetadot", "geschwindigkeit", "drehzahl"})),
    ("torque", frozenset({"tau", "torque", "torques", "effort", "efforts", "eff", "moment", "moments", "trq", "tq",
                          "force", "forces", "drehmoment", "kraft"})),
    ("position", frozenset({"q", "pos", "position", "positions", "theta", "th", "angle", "angles", "ang", "jpos",
                            "winkel", "lage"})),
    ("current", frozenset({"i", "iq", "cur", "curr", "current", "currents", "amp", "amps", "strom"})),
    ("time", frozenset({"t", "time", "timestamp", "timestamps", "stamp", "ts", "clock", "duration", "receive"})),
)  # fmt: skip
QUANTITIES = frozenset[str]().union(*(words for _, words in WORDS))
# A column with one of these words is neither the motion nor the effort of a joint.
FOREIGN = frozenset({
    "tcp", "ee", "pose", "cartesian", "cart", "tool", "flange", "wrench", "imu", "temp", "temperature", "temperatures",
    "voltage", "voltages", "mode", "status", "err", "error", "e", "ext", "external", "hat", "est", "estimated",
    "residual", "gravity", "grav", "coriolis", "friction", "disturbance", "limit", "max", "min", "std", "var", "window",
    "scaling", "execution", "cycle", "dt", "index", "frame", "episode", "reward", "success", "payload", "inertia",
    "cog", "temperatur", "spannung", "fehler", "schleppfehler", "schleppabstand", "abweichung",
})  # fmt: skip
MEASURED = frozenset({
    "actual", "act", "meas", "measured", "msr", "state", "observation", "fb", "feedback", "real", "present", "ist",
})  # fmt: skip
COMMANDED = frozenset({
    "target", "des", "desired", "d", "ref", "reference", "cmd", "command", "commanded", "goal", "set", "setpoint", "sp",
    "plan", "planned", "action", "ff", "feedforward", "model", "sim", "nominal", "c", "soll",
})  # fmt: skip
MOTOR = frozenset({"motor", "mot", "m", "drive", "rotor", "antrieb"})
LINK = frozenset({"link", "load", "secondary"})
PROCESSED = frozenset({"filt", "filtered", "smooth", "smoothed", "raw"})
NEUTRAL = frozenset({"joint", "joints", "j", "axis", "axes", "data", "achs", "achse", "gelenk", "wert"})
# Parts of German compounds: `Istposition`, `Sollwert`, `Motorstrom`; an s may join them.
PARTS = frozenset({
    "ist", "soll", "wert", "position", "lage", "winkel", "geschwindigkeit", "drehzahl", "beschleunigung", "drehmoment",
    "moment", "kraft", "strom", "motor", "antrieb", "achs", "achse", "gelenk",
})  # fmt: skip

# Units as the last words of a name, by the quantity they measure; the value is the spelling used in channel maps.
UNITS: dict[Kind, dict[tuple[str, ...], str]] = {
    "time": {
        ("s",): "s", ("sec",): "s", ("secs",): "s", ("second",): "s", ("seconds",): "s",
        ("ms",): "ms", ("msec",): "ms", ("millis",): "ms", ("milliseconds",): "ms",
        ("us",): "us", ("usec",): "us", ("micros",): "us", ("microseconds",): "us",
        ("ns",): "ns", ("nsec",): "ns", ("nanosec",): "ns", ("nanos",): "ns", ("nanoseconds",): "ns",
    },
    "position": {
        ("rad",): "rad", ("radian",): "rad", ("radians",): "rad", ("mrad",): "mrad", ("deg",): "deg", ("degs",): "deg",
        ("degree",): "deg", ("degrees",): "deg", ("grad",): "deg", ("rev",): "rev", ("revs",): "rev", ("turns",): "rev",
        ("m",): "m", ("mm",): "mm",
    },
    "velocity": {
        ("rad", "s"): "rad/s", ("rads",): "rad/s", ("mrad", "s"): "mrad/s", ("deg", "s"): "deg/s", ("dps",): "deg/s",
        ("grad", "s"): "deg/s", ("u", "min"): "rpm",
        ("rev", "s"): "rev/s", ("rps",): "rev/s", ("rpm",): "rpm", ("m", "s"): "m/s", ("mm", "s"): "mm/s",
    },
    "acceleration": {
        ("rad", "s", "2"): "rad/s2", ("deg", "s", "2"): "deg/s2",
        ("grad", "s", "2"): "deg/s2", ("m", "s", "2"): "m/s2", ("mm", "s", "2"): "mm/s2",
    },
    "torque": {
        ("nm",): "N.m", ("n", "m"): "N.m", ("mnm",): "mN.m", ("m", "nm"): "mN.m", ("m", "n", "m"): "mN.m",
        ("knm",): "kN.m", ("k", "nm"): "kN.m", ("k", "n", "m"): "kN.m", ("n",): "N", ("kn",): "kN", ("k", "n"): "kN",
        ("raw",): "raw", ("count",): "raw", ("counts",): "raw", ("percent",): "raw",
    },
    "current": {
        ("a",): "A", ("amp",): "A", ("amps",): "A", ("ampere",): "A", ("amperes",): "A",
        ("ma",): "mA", ("m", "a"): "mA",
        ("raw",): "raw", ("count",): "raw", ("counts",): "raw", ("percent",): "raw",
    },
}  # fmt: skip
LINEAR = frozenset({"m", "mm", "m/s", "mm/s", "N", "kN"})
TORQUES = frozenset(UNITS["torque"].values()) - {"raw"}
