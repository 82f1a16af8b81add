"""A sampled controller with a plant that moves between the samples, one state after another."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from steelyard._kernels.dynamics import DRIVE, factorise, substitute
from steelyard._kernels.equations import (
    BEFORE,
    DAMPING,
    DONE,
    EFFORT,
    INDEFINITE,
    LAGGED,
    LOAD,
    MASS,
    NOW,
    SPARE,
    STIFFNESS,
)
from steelyard._kernels.laws import ALONG, LINEAR, chord, slope_at, steepest
from steelyard._kernels.plant import (
    PIVOT,
    accelerate,
    add_damping,
    command_torque,
    joint_accelerations,
    joint_rows,
    rates,
    remember,
    times,
)
from steelyard._kernels.spatial import OPTIONS

# Codes in addition to those of `kernels.equations`: a state diverged; springs or pre-sliding too stiff for any step.
DIVERGED, TOO_STIFF = 3, 4
# Explicit steps are used while rate · h stays below this: the fourth-order method is unstable from 2.8 on.
STABLE = 2.0
# More explicit steps per sample than this are replaced by as many implicit ones.
MOST_STEPS = 16
# Largest plausible speed [rad/s | m/s].
FASTEST = 1e3
# The parameter of the implicit method with which no speed overshoots zero by more than a sixth.
_GAMMA = 1.0 + 0.5**0.5

# Rows of the scratch memory: the plant's state, its acceleration, and the stages of a step.
Q, V, A, Q_, V_, A_, WAY, GAIN, RHS = tuple(SPARE + k for k in range(9))
# Rows of the state that is carried from sample to sample.
READING, SPEED, INTEGRAL = 2, 3, 4
# Rows of the controller's gains and of the encoders and drives.
KP, KD, KI, KIV, SPEED_SHARE, ACCELERATION_SHARE, OFFSET, STEP, LIMIT = 0, 1, 2, 3, 4, 5, 6, 7, 8
ENCODER, TORQUE = 0, 1


class Wiring(NamedTuple):
    """Controller, encoders and amplifiers of n axes or motors.

    values (9, n)      Kp, Kd, Ki, Kiv, factors of reference speed and acceleration; encoder offset and step (0: no
                       rounding); limit of a command
    maps (2, n, n)     reading = maps[0] · q + offset, joint torque = maps[1] · command
    delay              samples from a command to its torque
    tachometer         speeds are the true ones, not differences of readings
    smoothing          weight of a new speed in the filtered one
    """

    values: np.ndarray
    maps: np.ndarray
    delay: int
    tachometer: bool
    smoothing: float
    rate: float


class RunSignals(NamedTuple):
    """Signals of a run, one column per sample (n, N); noise and disturbance are one column of zeros if there are none.

    `steps` (N,) counts the plant's steps, negative where implicit.
    """

    q_r: np.ndarray
    v_r: np.ndarray
    a_r: np.ndarray
    noise: np.ndarray
    disturbance: np.ndarray
    q: np.ndarray
    v: np.ndarray
    a: np.ndarray
    reading: np.ndarray
    command: np.ndarray
    tau: np.ndarray
    steps: np.ndarray


# --- Steps ------------------------------------------------------------------------------------------------------------


@njit(**OPTIONS)
def _rates(joints, laws, loads, loops, matrices, rows, chains, memory):
    """Bounds of the fastest decay [1/s] and vibration [rad/s] that friction, pre-sliding and springs cause.

    With D ⪰ ∂drive/∂q̇ diagonal, no eigenvalue of M⁻¹GᵀDG exceeds its trace Σ_j D_j (G M⁻¹ Gᵀ)_jj; G is the identity
    without loops. M is that of the last state.
    """
    own = joint_rows(loops, rows, chains)
    n = own.shape[1]
    for j in range(n):
        own[DAMPING, j] = own[STIFFNESS, j] = 0.0
        for k in range(n):
            own[DAMPING, j] += abs(joints[j + 1, DRIVE + n + k])
    for e in range(laws.shape[0]):
        slope = 0.0
        for j in range(n):
            slope += abs(laws[e, ALONG + j])
        slope *= steepest(laws, e, memory[NOW, e])
        into = STIFFNESS if laws[e, 0] >= LINEAR else DAMPING
        for j in range(n):
            own[into, j] += abs(laws[e, ALONG + n + j]) * slope
    for k in range(loads.shape[0]):
        load = abs(rows[LOAD, int(loads[k, 5])]) ** loads[k, 3]
        own[DAMPING, int(loads[k, 4])] += abs(loads[k, 1]) * load / loads[k, 2]
    decay, stiffness = rates(loops, matrices, rows, chains, RHS)
    return decay, np.sqrt(stiffness)


@njit(**OPTIONS)
def _explicit_step(parent, joints, laws, loads, loops, work, matrices, rows, chains, memory, h):
    """The classical fourth-order Runge–Kutta step of rows[Q] and rows[V]; rows[A] is the acceleration at its start."""
    n = rows.shape[1]
    for j in range(n):
        rows[WAY, j] = rows[V, j]
        rows[GAIN, j] = rows[A, j]
        rows[Q_, j] = rows[Q, j] + 0.5 * h * rows[V, j]
        rows[V_, j] = rows[V, j] + 0.5 * h * rows[A, j]
    for stage in range(3):
        code, axis = accelerate(parent, joints, laws, loads, loops, work, matrices, rows, chains, memory, Q_, V_, A_)
        if code != DONE:
            return code, axis
        weight = 1.0 if stage == 2 else 2.0
        ahead = h if stage == 1 else 0.5 * h
        for j in range(n):
            rows[WAY, j] += weight * rows[V_, j]
            rows[GAIN, j] += weight * rows[A_, j]
            rows[Q_, j] = rows[Q, j] + ahead * rows[V_, j]
            rows[V_, j] = rows[V, j] + ahead * rows[A_, j]
    for j in range(n):
        rows[Q, j] += h / 6.0 * rows[WAY, j]
        rows[V, j] += h / 6.0 * rows[GAIN, j]
    return DONE, 0


@njit(**OPTIONS)
def _turns(speed, change):
    """Whether a change removes more than half of a speed."""
    return speed * (2.0 * change + speed) <= 0.0


@njit(**OPTIONS)
def _dampers(joints, laws, loads, loops, rows, chains, memory, h):
    """Row DAMPING of all joints: slopes of the velocity laws; where an explicit step would reverse a speed, their
    chords f(x)/x, which no step can overshoot."""
    own = joint_rows(loops, rows, chains)
    speeding = joint_accelerations(loops, rows, chains, A)
    n = own.shape[1]
    for j in range(n):
        own[DAMPING, j] = 0.0
        for k in range(n):
            own[DAMPING, j] += abs(joints[j + 1, DRIVE + n + k])
    for e in range(laws.shape[0]):
        if laws[e, 0] < LINEAR:
            parts, change, x = 0.0, 0.0, memory[NOW, e]
            for j in range(n):
                parts += abs(laws[e, ALONG + j])
                change += laws[e, ALONG + j] * h * own[speeding, j]
            slope = parts * (chord(laws, e, x) if _turns(x, change) else slope_at(laws, e, x))
            for j in range(n):
                own[DAMPING, j] += abs(laws[e, ALONG + n + j]) * slope
    for k in range(loads.shape[0]):
        axis, width = int(loads[k, 0]), loads[k, 2]
        speed, load = rows[V, axis], abs(rows[LOAD, int(loads[k, 5])]) ** loads[k, 3]
        x = speed / width
        sign = np.tanh(x)
        if _turns(speed, h * rows[A, axis]) and abs(x) > 1e-6:
            slope = sign / x
        else:
            slope = 1.0 - sign * sign
        own[DAMPING, int(loads[k, 4])] += abs(loads[k, 1]) * slope / width * load


@njit(**OPTIONS)
def _implicit_step(parent, joints, laws, loads, loops, work, matrices, rows, chains, memory, h):
    """A Rosenbrock step of two stages with friction implicit: second order for any D, and no speed is reversed.

        (M + γhGᵀDG) k₁ = M q̈(q, v),   (M + γhGᵀDG) k₂ = M [q̈(q + hv, v + hk₁) − 2k₁],   v += h (3k₁ + k₂)/2

    with the diagonal D of `_dampers`, and G the identity without loops.
    """
    n = rows.shape[1]
    _dampers(joints, laws, loads, loops, rows, chains, memory, h)
    for j in range(n):
        for k in range(j + 1):
            matrices[BEFORE, j, k] = matrices[LAGGED, j, k] = matrices[MASS, j, k]
    add_damping(loops, matrices, rows, chains, _GAMMA * h, LAGGED)
    bad = factorise(matrices, LAGGED, PIVOT)
    if bad >= 0:
        return INDEFINITE, bad
    times(matrices, BEFORE, rows, A, WAY)
    substitute(matrices, LAGGED, rows, WAY)
    for j in range(n):
        rows[Q_, j] = rows[Q, j] + h * rows[V, j]
        rows[V_, j] = rows[V, j] + h * rows[WAY, j]
    code, axis = accelerate(parent, joints, laws, loads, loops, work, matrices, rows, chains, memory, Q_, V_, A_)
    if code != DONE:
        return code, axis
    for j in range(n):
        rows[RHS, j] = rows[A_, j] - 2.0 * rows[WAY, j]
    times(matrices, BEFORE, rows, RHS, GAIN)
    substitute(matrices, LAGGED, rows, GAIN)
    for j in range(n):
        rows[Q, j] += 0.5 * h * (rows[V, j] + rows[V_, j])
        rows[V, j] += 0.5 * h * (3.0 * rows[WAY, j] + rows[GAIN, j])
    return DONE, 0


@njit(**OPTIONS)
def _lost(rows, q, v):
    """The first axis that is faster than the largest plausible speed or not finite, −1 if there is none."""
    for j in range(rows.shape[1]):
        # written so that a NaN is detected too
        if not (abs(rows[v, j]) < FASTEST and abs(rows[q, j]) < np.inf):
            return j
    return -1


@njit(**OPTIONS)
def _advance(parent, joints, laws, loads, loops, work, matrices, rows, chains, memory, span):
    """rows[Q] and rows[V] `span` later under a constant rows[EFFORT], starting from the acceleration rows[A]; returns a
    code, the axis at fault (a joint if it is too stiff) and the number of steps, negative where they were implicit."""
    decay, vibration = _rates(joints, laws, loads, loops, matrices, rows, chains, memory)
    needed = max(1.0, np.ceil(span * max(decay, vibration) / STABLE))
    if span * vibration > STABLE * MOST_STEPS:
        return TOO_STIFF, int(np.argmax(joint_rows(loops, rows, chains)[STIFFNESS])), 0
    implicit = needed > MOST_STEPS
    steps = MOST_STEPS if implicit else int(needed)
    h = span / steps
    for k in range(steps):
        if k > 0:
            code, axis = accelerate(parent, joints, laws, loads, loops, work, matrices, rows, chains, memory, Q, V, A)
            if code != DONE:
                return code, axis, 0
        if implicit:
            code, axis = _implicit_step(parent, joints, laws, loads, loops, work, matrices, rows, chains, memory, h)
        else:
            code, axis = _explicit_step(parent, joints, laws, loads, loops, work, matrices, rows, chains, memory, h)
        if code != DONE:
            lost = _lost(rows, Q_, V_)
            return (DIVERGED, lost, 0) if lost >= 0 else (code, axis, 0)
    lost = _lost(rows, Q, V)
    if lost >= 0:
        return DIVERGED, lost, 0
    return DONE, 0, -steps if implicit else steps


# --- Loop -------------------------------------------------------------------------------------------------------------


@njit(**OPTIONS)
def _read(values, maps, tachometer, smoothing, rate, rows, noise, noisy, first, state):
    """Encoder readings: positions into state[READING], speeds by differences or a tachometer into state[SPEED]."""
    n = values.shape[1]
    for j in range(n):
        x, speed = values[OFFSET, j] + noise[j, noisy], 0.0
        for i in range(n):
            x += maps[ENCODER, j, i] * rows[Q, i]
            speed += maps[ENCODER, j, i] * rows[V, i]
        if values[STEP, j] > 0.0:
            x = values[STEP, j] * np.rint(x / values[STEP, j])
        if not tachometer:
            speed = state[SPEED, j] if first else (x - state[READING, j]) * rate
        state[READING, j] = x
        state[SPEED, j] += smoothing * (speed - state[SPEED, j])


@njit(**OPTIONS)
def _limit(values, rate, q_r, v_r, k, state, command):
    """Commands within their limits. An integral is held while it would move a limited command further out."""
    for j in range(values.shape[1]):
        wanted = command[j, k]
        command[j, k] = min(max(wanted, -values[LIMIT, j]), values[LIMIT, j])
        slip = values[SPEED_SHARE, j] * v_r[j, k] - state[SPEED, j]
        more = (values[KI, j] * (q_r[j, k] - state[READING, j]) + values[KIV, j] * slip) / rate
        if wanted == command[j, k] or more * wanted < 0.0:
            state[INTEGRAL, j] += more


@njit(**OPTIONS)
def run(plant, space, memory, model, model_space, model_memory, inverts, wiring, state, track, first, stop):
    """Samples first … stop − 1 of a closed loop, from `state` (5, n), spaces and memories on; returns a code, the
    sample and the axis. The code is negative if the controller's model fails.

    At a sample the encoders are read, the controller commands, and the command of `delay` samples ago is applied until
    the next one. q, v, a and tau of a sample belong together: a is caused by tau. The command is
        w = γ q̈_r + Kp e + Kd (β q̇_r − q̇) + x,   ẋ = Ki e + Kiv (β q̇_r − q̇)
    or, if the controller inverts a model, the torque of that model at the acceleration w.
    """
    values, maps, delay, tachometer, smoothing, rate = wiring
    q_r, v_r, a_r, noise, disturbance, q, v, a, reading, command, tau, counts = track
    parent, joints, laws, loads, loops = plant
    work, matrices, rows, chains = space
    parent_c, joints_c, laws_c, loads_c, loops_c = model
    work_c, matrices_c, rows_c, chains_c = model_space
    n = rows.shape[1]
    for j in range(n):
        rows[Q, j], rows[V, j] = state[0, j], state[1, j]
    for k in range(first, stop):
        _read(values, maps, tachometer, smoothing, rate, rows, noise, k if noise.shape[1] > 1 else 0, k == 0, state)
        for j in range(n):
            slip = values[SPEED_SHARE, j] * v_r[j, k] - state[SPEED, j]
            w = values[KP, j] * (q_r[j, k] - state[READING, j]) + values[KD, j] * slip + state[INTEGRAL, j]
            command[j, k] = w + values[ACCELERATION_SHARE, j] * a_r[j, k]
        if inverts:
            for j in range(n):
                rows_c[Q, j], rows_c[V, j], rows_c[A, j] = state[READING, j], state[SPEED, j], command[j, k]
            code = command_torque(
                parent_c, joints_c, laws_c, loads_c, loops_c, work_c, matrices_c, rows_c, chains_c, model_memory,
                Q, V, A, GAIN,
            )  # fmt: skip
            if code != DONE:
                return -code, k, 0
            remember(laws_c, model_memory)
            for j in range(n):
                command[j, k] = rows_c[GAIN, j]
        _limit(values, rate, q_r, v_r, k, state, command)
        applied, disturbed = max(k - delay, 0), k if disturbance.shape[1] > 1 else 0
        for j in range(n):
            tau[j, k] = 0.0
            for i in range(n):
                tau[j, k] += maps[TORQUE, j, i] * command[i, applied]
            rows[EFFORT, j] = tau[j, k] + disturbance[j, disturbed]
        code, axis = accelerate(parent, joints, laws, loads, loops, work, matrices, rows, chains, memory, Q, V, A)
        if code != DONE:
            return code, k, axis
        # only here: the motion within a sample is monotone, as for a regressor that knows only samples
        remember(laws, memory)
        for j in range(n):
            q[j, k], v[j, k], a[j, k], reading[j, k] = rows[Q, j], rows[V, j], rows[A, j], state[READING, j]
        code, axis, counts[k] = _advance(
            parent, joints, laws, loads, loops, work, matrices, rows, chains, memory, 1.0 / rate
        )
        if code != DONE:
            return code, k, axis
    for j in range(n):
        state[0, j], state[1, j] = rows[Q, j], rows[V, j]
    return DONE, 0, 0
