"""Fixed-interval smoothing of a four-fold integrator: one sequence of gains for every joint of a block."""

from __future__ import annotations

import numpy as np
from numba import njit

from steelyard._kernels.spatial import OPTIONS

# Variance of the first state, in units of a position's noise. The rows of the first period outweigh it by eight digits,
# which leaves eight digits for them.
_DIFFUSE = 1e8
_STATES = 4


@njit(**OPTIONS)
def _advance(step, density, transition, driven):
    """Transition F over `step` of the integrator z' = N z + white snap, and the covariance Q that the snap adds.

    F_ij = step^(j−i)/(j−i)!,   Q_ij = density · step^(m+n+1) / (m! n! (m+n+1)),  m = 3−i, n = 3−j.
    """
    factorial = (1.0, 1.0, 2.0, 6.0)
    for i in range(_STATES):
        power = 1.0
        for j in range(_STATES):
            transition[i, j] = power / factorial[j - i] if j >= i else 0.0
            if j >= i:
                power *= step
    power = density * step
    for total in range(2 * _STATES - 1):
        for m in range(max(0, total - 3), min(total, 3) + 1):
            n = total - m
            driven[3 - m, 3 - n] = power / (factorial[m] * factorial[n] * (total + 1))
        power *= step


@njit(**OPTIONS)
def _predicted(covariance, transition, driven, work):
    """P ← F P Fᵀ + Q."""
    for i in range(_STATES):
        for j in range(_STATES):
            total = 0.0
            for k in range(i, _STATES):
                total += transition[i, k] * covariance[k, j]
            work[i, j] = total
    for i in range(_STATES):
        for j in range(i, _STATES):
            total = driven[i, j]
            for k in range(j, _STATES):
                total += work[i, k] * transition[j, k]
            covariance[i, j] = total
            covariance[j, i] = total


@njit(**OPTIONS)
def _measured(covariance, which, noise, gain):
    """Gain of a measurement of state `which` into `gain`, and P ← P − K S Kᵀ; returns the innovation's variance S."""
    spread = covariance[which, which] + noise
    for i in range(_STATES):
        gain[i] = covariance[i, which] / spread
    for i in range(_STATES):
        for j in range(i, _STATES):
            value = covariance[i, j] - gain[i] * spread * gain[j]
            covariance[i, j] = value
            covariance[j, i] = value
    return spread


@njit(**OPTIONS)
def smooth(step, row, sample, measured, ratio, density, motion):
    """Smoothed position, velocity and acceleration of every joint from positions and, where given, velocities.

    step (E,): time since the previous event. An event is a measured row, a requested sample or both: row and sample
    (E,) are their numbers, or −1. measured (1 or 2, n, rows): positions with noise of unit variance, velocities with
    noise `ratio`. density: spectral density of the white snap. motion (3, n, samples) is filled. Kalman filter
    forwards, then Bierman's adjoint backwards (λ ← Fᵀλ between events, λ_h ← λ_h − K·λ − e/S at a measurement of state
    h, z = z_f − P_f λ): no covariance is inverted. The gains do not depend on the data, so the joints share them.
    """
    events, kinds, n = len(step), measured.shape[0], measured.shape[1]
    transition, driven, work = np.empty((4, 4)), np.empty((4, 4)), np.empty((4, 4))
    covariance = _DIFFUSE * np.eye(_STATES)
    state = np.zeros((n, _STATES))
    gains = np.zeros((events, kinds, _STATES))
    innovations = np.zeros((events, kinds, n))
    spreads = np.zeros((events, 3, _STATES))
    started, last = False, -1.0
    for k in range(events):
        if step[k] != last:
            last = step[k]
            _advance(last, density, transition, driven)
        if started:
            _predicted(covariance, transition, driven, work)
            for j in range(n):
                for i in range(_STATES):
                    total = 0.0
                    for m in range(i, _STATES):
                        total += transition[i, m] * state[j, m]
                    state[j, i] = total
        if row[k] >= 0:
            if not started:
                started = True
                for j in range(n):
                    for h in range(kinds):
                        state[j, h] = measured[h, j, row[k]]
            for h in range(kinds):
                spread = _measured(covariance, h, 1.0 if h == 0 else ratio, gains[k, h])
                for j in range(n):
                    surprise = measured[h, j, row[k]] - state[j, h]
                    innovations[k, h, j] = surprise / spread
                    for i in range(_STATES):
                        state[j, i] += gains[k, h, i] * surprise
        if sample[k] >= 0:
            spreads[k] = covariance[:3]
            for j in range(n):
                for i in range(3):
                    motion[i, j, sample[k]] = state[j, i]
    adjoint = np.zeros((n, _STATES))
    for k in range(events - 1, -1, -1):
        if sample[k] >= 0:
            for j in range(n):
                for i in range(3):
                    total = 0.0
                    for m in range(_STATES):
                        total += spreads[k, i, m] * adjoint[j, m]
                    motion[i, j, sample[k]] -= total
        if row[k] >= 0:
            for h in range(kinds - 1, -1, -1):
                for j in range(n):
                    total = innovations[k, h, j]
                    for m in range(_STATES):
                        total += gains[k, h, m] * adjoint[j, m]
                    adjoint[j, h] -= total
        if step[k] != last:
            last = step[k]
            _advance(last, density, transition, driven)
        for j in range(n):
            for i in range(_STATES - 1, -1, -1):
                total = 0.0
                for m in range(i + 1):
                    total += transition[m, i] * adjoint[j, m]
                adjoint[j, i] = total
