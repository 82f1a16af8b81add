"""What a controller makes of written samples: bounds of the motion it interpolates between them, for all t.

Two ways are common. `servoj` follows positions, straight from one to the next. ROS 2's joint trajectory controller,
given velocities and accelerations too, lays the quintic through both ends of every step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, final

import numpy as np

from steelyard.errors import OutputError
from steelyard.motion_limits import MotionLimits
from steelyard.parameters import Array

Interpolation = Literal["linear", "quintic"]
# What rounding of the arithmetic may add to a bound, as a share of the limit.
_ROUNDING = 1e-9


@final
@dataclass(frozen=True, eq=False)
class Written:
    """Samples as a file holds them: t (N,) [s], and q, v, a (n, N); v and a None where only positions are written.

    `digit` is the last decimal of its numbers, 0 where it holds every bit.
    """

    joints: tuple[str, ...]
    t: Array
    q: Array
    v: Array | None
    a: Array | None
    digit: float


def check_playback(written: Written, limits: MotionLimits, interpolation: Interpolation) -> None:
    """An error that names the joint and the limit where the interpolated motion passes one."""
    step = np.diff(written.t)
    control = _linear(written.q, step) if interpolation == "linear" else _quintic(written, step)
    # what the last decimal of the samples may add to derivatives of order 0 … 3
    finest = float(step.min())
    slack = [0.5 * written.digit * factor / finest**k for k, factor in enumerate((1.0, 2.0, 4.0, 8.0))]
    if interpolation == "quintic":
        slack = [0.5 * written.digit * factor / finest**k for k, factor in enumerate((2.0, 20.0, 160.0, 960.0))]
    q, *rates = control
    rows = (
        ("lower position", limits.lower - q.min(axis=1), limits.lower, slack[0]),
        ("upper position", q.max(axis=1) - limits.upper, limits.upper, slack[0]),
        *(
            (what, np.abs(rate).max(axis=1) - limit, limit, more)
            for what, rate, limit, more in zip(
                ("velocity", "acceleration", "jerk"),
                rates,
                (limits.velocity, limits.acceleration, limits.jerk),
                slack[1:],
                strict=True,
            )
        ),
    )
    for what, beyond, limit, more in rows:
        for joint, by, top in zip(written.joints, beyond.tolist(), limit.tolist(), strict=True):
            if np.isfinite(top) and by > more + _ROUNDING * max(1.0, abs(top)):
                raise OutputError(
                    f"Between the samples of the file ({interpolation} interpolation) {what} of {joint} would pass its "
                    f"limit of {top:.6g} by {by:.4g}. Write at a higher --rate, choose a --duration that is a whole "
                    "number of samples, or lower the limit a little. Nothing was written."
                )


def _linear(q: Array, step: Array) -> tuple[Array, Array, Array, Array]:
    """Positions, and their divided differences of order 1 to 3: means of the derivatives of what was sampled."""
    v = np.diff(q, axis=1) / step
    a = np.diff(v, axis=1) / (0.5 * (step[1:] + step[:-1]))
    return q, v, a, np.diff(a, axis=1) / step[1:-1]


def _quintic(written: Written, step: Array) -> tuple[Array, Array, Array, Array]:
    """Bernstein coefficients of q, v, a and jerk of every step: each lies within the hull of its own.

    b_0 … b_5 = q₀,  q₀ + h v₀/5,  q₀ + 2h v₀/5 + h² a₀/20,  and the mirror image at the end
    """
    q, v, a = written.q, written.v, written.a
    assert v is not None
    assert a is not None
    q0, v0, a0, q1, v1, a1 = (x[:, part] for part in (slice(None, -1), slice(1, None)) for x in (q, v, a))
    points = np.stack(
        [
            q0,
            q0 + step * v0 / 5,
            q0 + 2 * step * v0 / 5 + step**2 * a0 / 20,
            q1 - 2 * step * v1 / 5 + step**2 * a1 / 20,
            q1 - step * v1 / 5,
            q1,
        ],
        axis=-1,
    )
    out = [points]
    for factor in (5, 4, 3):
        out.append(factor * np.diff(out[-1], axis=-1) / step[:, None])
    q_, v_, a_, jerk = (x.reshape(len(q), -1) for x in out)
    return q_, v_, a_, jerk
