"""Dahl's pre-sliding state along a run of positions."""

from __future__ import annotations

import numpy as np
from numba import njit

from steelyard._kernels.spatial import OPTIONS


@njit(**OPTIONS)
def dahl_states(q, length, carried, out):
    """z (n, B) of positions q (n, B): z ← s + (z − s) exp(−|Δq| / length), s = sign(Δq), exact for any step.

    `carried` (2, n) holds the position and state before the first sample, and is left with those of the last.
    """
    for j in range(q.shape[0]):
        last, z = carried[0, j], carried[1, j]
        for b in range(q.shape[1]):
            step = q[j, b] - last
            last = q[j, b]
            s = np.sign(step)
            z = s + (z - s) * np.exp(-abs(step) / length)
            out[j, b] = z
        carried[0, j] = last
        carried[1, j] = z
