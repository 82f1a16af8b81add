"""P3 (Briot, Gautier): the Orthoglide by the paper's own route, in plain NumPy and with nothing of ours.

The platform is cut from three open legs (Tables 1 and 2, r_13 = q_13 − a as (40) and (41) demand). The loops are closed
by the paper's equations, (40) with the bar over δ_{i+2} that print has lost, and their Jacobians and rates are written
out. Legs and platform give their regressors, and (15) puts them together. Every sample stands alone.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from steelyard._arrays import Array
from testbed.trees import State

A, D4, D6 = 0.34, 0.31, 0.03
# g lies along +y0; its sign and value show in the printed 0.10197 = 1/g
GRAVITY = np.array([0.0, 9.80665, 0.0])
LEGS, JOINTS = (1, 2, 3), (1, 2, 3, 4, 5)
INERTIAL = ("XX", "XY", "XZ", "YY", "YZ", "ZZ", "MX", "MY", "MZ", "M")
DRIVE = ("Ia", "Fv", "Fc", "off")
NAMES = (
    *(
        name
        for i in LEGS
        for j in JOINTS
        for name in (*(f"link{j}{i}.{x}" for x in INERTIAL), *(f"joint{j}{i}.{x}" for x in DRIVE))
    ),
    *(f"link6.{x}" for x in INERTIAL),
)

# γ, b, α, d, θ, r of Table 1 by leg, and of Table 2 by joint; the joint's own variable is added to r (joint 1) or θ
FIRST = {1: (0, 0, 0, 0, 0, 0), 2: (np.pi / 2, A, np.pi / 2, 0, 0, -A), 3: (0, A, -np.pi / 2, 0, -np.pi / 2, -A)}
OTHER = {
    2: (0, 0, -np.pi / 2, 0, 0, 0),
    3: (0, 0, -np.pi / 2, 0, 0, 0),
    4: (0, 0, 0, D4, 0, 0),
    5: (0, 0, np.pi / 2, 0, 0, 0),
}


class Motion(NamedTuple):
    """Platform position, velocity, acceleration (3,); legs q_t, q̇_t, q̈_t (15,); J_p (3, 3) and J_t (15, 3)."""

    x: Array
    velocity: Array
    acceleration: Array
    q: Array
    v: Array
    a: Array
    platform_map: Array
    leg_map: Array


def solved(matrix: Array, wanted: Array) -> Array:
    return np.asarray(np.linalg.solve(matrix, wanted), float)


# --- Geometry ---------------------------------------------------------------------------------------------------------


def about_z(angle: float, shift: float) -> Array:
    c, s = np.cos(angle), np.sin(angle)
    return np.array([[c, -s, 0, 0], [s, c, 0, 0], [0, 0, 1, shift], [0, 0, 0, 1]], float)


def about_x(angle: float, shift: float) -> Array:
    c, s = np.cos(angle), np.sin(angle)
    return np.array([[1, 0, 0, shift], [0, c, -s, 0], [0, s, c, 0], [0, 0, 0, 1]], float)


def leg_frames(leg: int, q: Array) -> list[Array]:
    """⁰T_j (4, 4) of the five links of a leg at its q (5,), each step Rot_z(γ) Trans_z(b) Rot_x(α) Trans_x(d) Rot_z(θ)
    Trans_z(r)."""
    out, here = [], np.eye(4)
    for j, value in zip(JOINTS, q, strict=True):
        gamma, b, alpha, d, theta, r = FIRST[leg] if j == 1 else OTHER[j]
        slide, turn = (value, 0.0) if j == 1 else (0.0, value)
        here = here @ about_z(gamma, b) @ about_x(alpha, d) @ about_z(theta + turn, r + slide)
        out.append(here)
    return out


def leg_rotation(leg: int) -> Array:
    """R_0^i: the axes x, y, z of frame 1_i in the base frame; they do not turn."""
    return leg_frames(leg, np.zeros(5))[0][:3, :3]


def delta(i: int) -> float:
    """δ_i of (40): one for i = 3, else zero."""
    return 1.0 if i == 3 else 0.0


# --- Loop closure -----------------------------------------------------------------------------------------------------


def reduced_closure(x: Array, q: Array) -> Array:
    """f_p (3,) of (41)."""
    return np.sum(_rods(x, q) ** 2, axis=1) - D4**2


def _rods(x: Array, q: Array) -> Array:
    """The vectors whose squares (41) adds up, one row a leg."""
    tips = x - np.array([[0.0, 0.0, q[0] + D6], [q[1] + D6 - A, 0.0, A], [0.0, q[2] + D6 - A, A]])
    return np.asarray(tips)


def closure(x: Array, q: Array) -> Array:
    """f (15,) of (40), leg by leg: three rows of f_1i, two of f_2i; q (15,) are the joints of the legs."""
    out = []
    for i, (q1, q2, q3, q4, q5) in zip(LEGS, q.reshape(3, 5), strict=True):
        tip = [
            D4 * np.cos(q2) * np.cos(q3) + A * delta(i),
            -D4 * np.sin(q3) + A * delta(i + 1),
            q1 - A * (1.0 - delta(i + 2)) - D4 * np.sin(q2) * np.cos(q3) + D6,
        ]
        out += [*(x - leg_rotation(i) @ tip), q2 + q5, q3 + q4]
    return np.array(out)


def axes_of(x: Array) -> Array:
    """q (3,) of the actuators at a platform position x (3,): (41) solved on the regular branch."""
    square = x**2
    ahead = [
        np.sqrt(D4**2 - square[0] - square[1]),
        np.sqrt(D4**2 - square[1] - (x[2] - A) ** 2),
        np.sqrt(D4**2 - square[0] - (x[2] - A) ** 2),
    ]
    return np.array([x[2] - D6, x[0] + A - D6, x[1] + A - D6]) - ahead


def platform_position(q: Array) -> Array:
    """x (3,) at actuator positions q (3,), by Newton on (41) from the isotropic point."""
    x: Array = np.array([0.0, 0.0, A])
    for _ in range(50):
        step = solved(2.0 * _rods(x, q), reduced_closure(x, q))
        x = x - step
        if np.abs(step).max() < 1e-15:
            break
    assert np.abs(reduced_closure(x, q)).max() < 1e-15
    return x


def leg_positions(x: Array, q: Array) -> Array:
    """q_t (15,): (40) solved for the passive joints, on the branch q_2 ≈ −π/2, q_3 ≈ 0."""
    out = []
    for i, q1 in zip(LEGS, q, strict=True):
        across, down, along = (
            leg_rotation(i).T @ x - [A * delta(i), A * delta(i + 1), q1 - A * (1.0 - delta(i + 2)) + D6]
        ) / D4  # = cos q2 cos q3, −sin q3, −sin q2 cos q3
        q2, q3 = np.arctan2(-along, across), -np.arcsin(down)
        out += [q1, q2, q3, -q3, -q2]
    return np.array(out)


def motion(q: Array, v: Array, a: Array) -> Motion:
    """(5)–(9): platform and legs from the actuators' q, q̇, q̈ (3,)."""
    x = platform_position(q)
    along = np.array([[0, 0, 1], [1, 0, 0], [0, 1, 0]], float)  # the actuators' directions, one row a leg
    rods = _rods(x, q)
    a_p, b_p = 2.0 * rods, -2.0 * np.diag(np.sum(rods * along, axis=1))
    platform_map = -solved(a_p, b_p)
    velocity = platform_map @ v
    rods_rate = velocity - along * v[:, None]
    a_p_rate, b_p_rate = 2.0 * rods_rate, -2.0 * np.diag(np.sum(rods_rate * along, axis=1))
    acceleration = -solved(a_p, a_p_rate @ velocity + b_p @ a + b_p_rate @ v)

    positions = leg_positions(x, q)
    j_tk = np.concatenate([np.vstack([np.eye(3), np.zeros((2, 3))]) for _ in LEGS])
    j_k, _ = leg_jacobian(positions, np.zeros(15))
    leg_map = solved(j_k, j_tk) @ platform_map
    velocities = leg_map @ v
    _, j_k_rate = leg_jacobian(positions, velocities)
    accelerations = solved(j_k, j_tk @ acceleration - j_k_rate @ velocities)
    return Motion(x, velocity, acceleration, positions, velocities, accelerations, platform_map, leg_map)


def leg_jacobian(q: Array, v: Array) -> tuple[Array, Array]:
    """J_k = −∂f/∂q_t of (9) and its rate along v, both (15, 15)."""
    out, rate = np.zeros((15, 15)), np.zeros((15, 15))
    for i in LEGS:
        own = slice(5 * (i - 1), 5 * i)
        (_, q2, q3, _, _), (_, v2, v3, _, _) = q[own], v[own]
        s2, c2, s3, c3 = np.sin(q2), np.cos(q2), np.sin(q3), np.cos(q3)
        # columns: what q1, q2 and q3 do to the tip of (40), in the frame of the leg
        tip = np.array([[0, -D4 * s2 * c3, -D4 * c2 * s3], [0, 0, -D4 * c3], [1, -D4 * c2 * c3, D4 * s2 * s3]])
        cross = D4 * (-c2 * c3 * v2 + s2 * s3 * v3), D4 * (s2 * s3 * v2 - c2 * c3 * v3)
        fall = D4 * (s2 * c3 * v2 + c2 * s3 * v3), D4 * (c2 * s3 * v2 + s2 * c3 * v3)
        tip_rate = np.array([[0, *cross], [0, 0, D4 * s3 * v3], [0, *fall]])
        block, block_rate = np.zeros((5, 5)), np.zeros((5, 5))
        block[:3, :3], block_rate[:3, :3] = leg_rotation(i) @ tip, leg_rotation(i) @ tip_rate
        block[3, [1, 4]] = -1.0
        block[4, [2, 3]] = -1.0
        out[own, own], rate[own, own] = block, block_rate
    return out, rate


# --- Regressors -------------------------------------------------------------------------------------------------------


def wrench_of_a_body(spin: Array, turning: Array, pull: Array) -> Array:
    """Force and moment at its origin (6, 10) that a body needs, linear in its ten parameters; all in its own frame.

    f = m a' + ω̇ × ms + ω × (ω × ms),  n = I ω̇ + ω × I ω + ms × a',  a' = `pull` = acceleration of the origin − g.
    """
    out = np.zeros((6, 10))
    for k in range(6):
        unit = np.zeros((3, 3))
        i, j = [(0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2)][k]
        unit[i, j] = unit[j, i] = 1.0
        out[3:, k] = unit @ turning + np.cross(spin, unit @ spin)
    for k in range(3):
        unit = np.eye(3)[k]
        out[:3, 6 + k] = np.cross(turning, unit) + np.cross(spin, np.cross(spin, unit))
        out[3:, 6 + k] = np.cross(unit, pull)
    out[:3, 9] = pull
    return out


def leg_regressor(leg: int, q: Array, v: Array, a: Array) -> Array:
    """IDM_st of one leg as an open chain, (5, 70): fourteen columns a joint (1).

    Velocities and accelerations go outwards in the base frame; a body's wrench works on joint j with the joint's
    velocity of the body: τ_j = z_j · f for the slide, z_j · (n + (p − p_j) × f) for a turn.
    """
    frames = leg_frames(leg, q)
    out = np.zeros((5, 70))
    spin, turning, pull, point = np.zeros(3), np.zeros(3), -GRAVITY, np.zeros(3)
    for k, frame in enumerate(frames):
        rotation, here = frame[:3, :3], frame[:3, 3]
        axis, arm = rotation[:, 2], here - point
        # the frame before, carried to this origin; MDH joints turn and slide about their own z
        pull = pull + np.cross(turning, arm) + np.cross(spin, np.cross(spin, arm))
        if k == 0:  # the base stands still
            pull = pull + axis * a[0]
        else:
            turning = turning + axis * a[k] + np.cross(spin, axis * v[k])
            spin = spin + axis * v[k]
        point = here
        body = wrench_of_a_body(rotation.T @ spin, rotation.T @ turning, rotation.T @ pull)
        force, moment = rotation @ body[:3], rotation @ body[3:]
        for j, carrier in enumerate(frames[: k + 1]):
            z, lever = carrier[:3, 2], here - carrier[:3, 3]
            turned = moment + np.cross(lever, force, axisb=0, axisc=0)
            out[j, 14 * k : 14 * k + 10] = z @ force if j == 0 else z @ turned
        out[k, 14 * k + 10 : 14 * k + 14] = a[k], v[k], np.sign(v[k]), 1.0
    return out


def regressor(q: Array, v: Array, a: Array) -> Array:
    """W (3, 220) of (15) at one state of the actuators; columns are `NAMES`."""
    now = motion(q, v, a)
    legs = np.zeros((15, 210))
    for i in LEGS:
        own = slice(5 * (i - 1), 5 * i)
        legs[own, 70 * (i - 1) : 70 * i] = leg_regressor(i, now.q[own], now.v[own], now.a[own])
    # (10): the platform only translates, so D = [1; 0]
    platform = wrench_of_a_body(np.zeros(3), np.zeros(3), now.acceleration - GRAVITY)
    moves = np.vstack([np.eye(3), np.zeros((3, 3))])
    return np.hstack([now.leg_map.T @ legs, now.platform_map.T @ moves.T @ platform])


def regressors(state: State) -> Array:
    """W (3, 220, N) at many states."""
    return np.stack([regressor(q, v, a) for q, v, a in zip(state.q.T, state.v.T, state.a.T, strict=True)], axis=-1)


def random_states(rng: np.random.Generator, count: int, reach: float = 0.12) -> State:
    """States of the actuators (3, N) with the platform within `reach` [m] of the isotropic point in every direction."""
    q = np.stack([axes_of(np.array([0.0, 0.0, A]) + rng.uniform(-reach, reach, 3)) for _ in range(count)], axis=-1)
    return State(q, rng.normal(size=q.shape), rng.normal(size=q.shape))
