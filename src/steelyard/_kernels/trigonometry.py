"""Sine and cosine of a row of angles at once.

LLVM cannot vectorise calls into libm, and twelve scalar calls per sample took a third of the time of a six-axis
regressor. This is the classic reduction by π/2 in three parts (Cody and Waite) with the minimax kernels of fdlibm,
written without branches: within 2 ulp of libm for |x| <= 2¹⁷ rad; beyond that libm itself is called.
"""

from __future__ import annotations

import numpy as np
from numba import njit

_LARGEST = 2.0**17
_TWO_OVER_PI = 0.6366197723675814
# π/2 = _P1 + _P2 + _P3; the first two have 33 significant bits, so k·_P1 and k·_P2 are exact for k < 2²⁰.
_P1, _P2, _P3 = 1.57079632673412561417e00, 6.07710050630396597660e-11, 2.02226624879595063154e-21
_S1, _S2, _S3 = -1.66666666666666324348e-01, 8.33333333332248946124e-03, -1.98412698298579493134e-04
_S4, _S5, _S6 = 2.75573137070700676789e-06, -2.50507602534068634195e-08, 1.58969099521155010221e-10
_C1, _C2, _C3 = 4.16666666666666019037e-02, -1.38888888888741095749e-03, 2.48015872894767294178e-05
_C4, _C5, _C6 = -2.75573143513906633035e-07, 2.08757232129817482790e-09, -1.13596475577881948265e-11


# No `reassoc` here: the reduction must not add up the three parts of π/2 first.
@njit(cache=True, fastmath={"contract", "nsz"}, nogil=True, error_model="numpy", forceinline=True)
def sine_cosine(x, sine, cosine):
    """sin and cos of x (m,) [rad] into the first m entries of `sine` and `cosine`; NaN gives NaN."""
    largest = 0.0
    for b in range(x.shape[0]):
        largest = max(largest, abs(x[b]))
    if largest > _LARGEST:
        for b in range(x.shape[0]):
            sine[b], cosine[b] = np.sin(x[b]), np.cos(x[b])
        return
    for b in range(x.shape[0]):
        k = np.rint(x[b] * _TWO_OVER_PI)
        r = ((x[b] - k * _P1) - k * _P2) - k * _P3
        z = r * r
        s = r + r * z * (_S1 + z * (_S2 + z * (_S3 + z * (_S4 + z * (_S5 + z * _S6)))))
        c = 1.0 - 0.5 * z + z * z * (_C1 + z * (_C2 + z * (_C3 + z * (_C4 + z * (_C5 + z * _C6)))))
        quadrant = k - 4.0 * np.floor(0.25 * k)
        swapped = (quadrant == 1.0) | (quadrant == 3.0)
        first, second = (c, s) if swapped else (s, c)
        sine[b] = -first if quadrant >= 2.0 else first
        cosine[b] = -second if (quadrant == 1.0) | (quadrant == 2.0) else second
