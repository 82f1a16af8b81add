"""Loop closure: passive joints of looped robots against plain NumPy, against finite differences and at their limits."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from steelyard._arrays import Array
from steelyard._kernels.loops import elimination as elimination_kernels
from steelyard._kernels.loops import newton as kernels
from steelyard._kernels.packs import WIDTH, larger, load, root, smaller, spread, store, with_sign
from steelyard._kernels.spatial import OPTIONS
from steelyard.errors import RobotError
from steelyard.model.elimination import elimination
from steelyard.model.loop_closure import Closed, Closure
from steelyard.model.loops import AXIS, COMPONENTS, POINT, Attachment, FrameLoop, JointLoop
from steelyard.model.pose import Pose
from steelyard.model.robot import BASE, Joint, JointKind, Link, Robot

X, Y, Z = np.eye(3)
SINGULAR, LOST = 1, 2


# --- Robots -----------------------------------------------------------------------------------------------------------


def at(*position: float, rotation: Array | None = None) -> Pose:
    return Pose(np.eye(3) if rotation is None else rotation, np.array(position, float))


def turn(axis: Array, angle: float) -> Array:
    """Rodrigues' rotation."""
    k = np.cross(np.eye(3), axis)
    return np.eye(3) - np.sin(angle) * k + (1.0 - np.cos(angle)) * k @ k


class Part(NamedTuple):
    """A joint and its link, of the same name."""

    name: str
    kind: JointKind
    parent: str
    pose: Pose
    axis: Array
    bare: bool = False


def assembled(name: str, parts: list[Part], loops: list[Any], actuated: str, home: Array | None = None) -> Robot:
    names = [part.name for part in parts]
    joints = tuple(
        Joint(p.name, p.kind, names.index(p.parent) if p.parent in names else BASE, p.pose, p.axis, bare=p.bare)
        for p in parts
    )
    links = tuple(Link(p.name, virtual=p.bare and p.name != "platform") for p in parts)
    return Robot(name, links, joints, loops=tuple(loops), actuated=tuple(actuated.split()), home=home)


def five_bar(near: float = 0.5, far: float = 0.7, base: float = 0.6, where: Pose | None = None) -> Robot:
    """Two driven cranks, `base` apart, whose forearms meet in a point; the third component of the loop is redundant."""
    where = Pose() if where is None else where
    parts = [
        Part("left", "revolute", "base", where, Z),
        Part("left.arm", "revolute", "left", at(near, 0, 0), Z),
        Part("right", "revolute", "base", where @ at(base, 0, 0), Z),
        Part("right.arm", "revolute", "right", at(near, 0, 0), Z),
    ]
    tip = FrameLoop("tip", (Attachment("left.arm", at(far, 0, 0)), Attachment("right.arm", at(far, 0, 0))), POINT)
    # elbows at (0, near) and (base, near): the forearms make a roof over them
    inward = np.arccos(0.5 * base / far)
    home = np.array([np.pi / 2, inward - np.pi / 2, np.pi / 2, np.pi / 2 - inward])
    return assembled("five-bar", parts, [tip], "left right", home)


def parallelogram() -> Robot:
    """Two equal cranks and a coupler, closed by a cut revolute joint: five equations for two passive joints."""
    parts = [
        Part("crank", "revolute", "base", at(0, 0, 0), Z),
        Part("coupler", "revolute", "crank", at(0.3, 0, 0), Z),
        Part("follower", "revolute", "base", at(0.5, 0, 0), Z),
    ]
    pin = FrameLoop("pin", (Attachment("coupler", at(0.5, 0, 0)), Attachment("follower", at(0.3, 0, 0))), AXIS)
    return assembled("parallelogram", parts, [pin], "crank", np.array([1.0, -1.0, 1.0]))


def slider_crank() -> Robot:
    """A crank on a tilted base, a rod and a slider that is moved by them."""
    tilt = Pose(turn(np.array([0.6, 0.0, 0.8]), 0.7), np.array([0.1, -0.2, 0.3]))
    parts = [
        Part("crank", "revolute", "base", tilt, Z),
        Part("rod", "revolute", "crank", at(0.1, 0, 0), Z),
        Part("slider", "prismatic", "base", tilt @ at(0.2, 0.02, 0), X),
    ]
    pin = FrameLoop("pin", (Attachment("rod", at(0.35, 0, 0)), Attachment("slider")), ("x", "y"))
    return assembled("slider-crank", parts, [pin], "crank", np.array([0.8, -1.0, 0.2]))


def free_body(name: str) -> list[Part]:
    """Six bare joints in a row."""
    coordinates: list[tuple[str, JointKind, Array]] = [
        ("x", "prismatic", X),
        ("y", "prismatic", Y),
        ("z", "prismatic", Z),
        ("rx", "revolute", X),
        ("ry", "revolute", Y),
        ("rz", "revolute", Z),
    ]
    names = [*(f"{name}.{c}" for c, _, _ in coordinates[:-1]), name]
    parents = ["base", *names[:-1]]
    return [Part(n, k, p, Pose(), x, True) for n, p, (_, k, x) in zip(names, parents, coordinates, strict=True)]


def stewart() -> Robot:
    """6-UPS: legs of a universal joint and a driven slide, and a free platform on their six points."""
    parts, loops, home = [], [], []
    for i in range(6):
        low = (i // 2) * 2.1 + (0.3 if i % 2 else -0.3)
        high = (i // 2) * 2.1 + (0.7 if i % 2 else -0.7)
        foot, ball = 0.5 * np.array([np.cos(low), np.sin(low), 0.0]), 0.25 * np.array([np.cos(high), np.sin(high), 0.0])
        leg = ball + np.array([0.03, -0.02, 0.6]) - foot
        # z of the leg along it: Ry(b) after Rx(a) turns z to (sin b, −sin a cos b, cos a cos b)
        home += [np.arctan2(-leg[1], leg[2]), np.arcsin(leg[0] / np.linalg.norm(leg)), np.linalg.norm(leg)]
        parts += [
            Part(f"u{i}", "revolute", "base", at(*foot), X),
            Part(f"w{i}", "revolute", f"u{i}", Pose(), Y),
            Part(f"p{i}", "prismatic", f"w{i}", Pose(), Z),
        ]
        loops.append(FrameLoop(f"ball{i}", (Attachment(f"p{i}"), Attachment("platform", at(*ball))), POINT))
    parts += free_body("platform")
    home += [0.03, -0.02, 0.6, 0.0, 0.0, 0.0]
    return assembled("stewart", parts, loops, " ".join(f"p{i}" for i in range(6)), np.array(home))


def geared() -> Robot:
    """A joint that follows a cubic of the driven one, and a slide that follows a square of that."""
    parts = [
        Part("drive", "revolute", "base", Pose(), Z),
        Part("hand", "revolute", "drive", at(0.2, 0, 0), X),
        Part("nail", "prismatic", "hand", at(0, 0.1, 0), Y),
    ]
    loops = [
        JointLoop("gear", "hand", "drive", (0.1, -0.8, 0.3, 0.5)),
        JointLoop("cam", "nail", "hand", (0.02, 0, 0.1)),
    ]
    return assembled("geared", parts, loops, "drive")


def twisted() -> Robot:
    """A spatial four-bar RSSR-like loop: every component of the kinds rx, ry, rz and x is used somewhere."""
    rng = np.random.default_rng(5)

    def any_pose() -> Pose:
        return Pose(turn(*_unit_and_angle(rng)), rng.uniform(-0.3, 0.3, 3))

    parts = [Part(f"j{k}", "revolute", f"j{k - 1}" if k else "base", any_pose(), Z) for k in range(7)]
    home = rng.uniform(-0.5, 0.5, 7)
    poses = link_poses(assembled("open", parts, [JointLoop("none", "j1", "j0")], "j0"), home)
    frame = any_pose()
    ends = Attachment("base", poses[-1] @ frame), Attachment("j6", frame)
    return assembled("twisted", parts, [FrameLoop("rigid", ends, tuple(COMPONENTS))], "j3", home)


def _unit_and_angle(rng: np.random.Generator) -> tuple[Array, float]:
    axis = rng.normal(size=3)
    return axis / np.linalg.norm(axis), float(rng.uniform(-2, 2))


ROBOTS = {
    "five-bar": five_bar,
    "parallelogram": parallelogram,
    "slider-crank": slider_crank,
    "stewart": stewart,
    "geared": geared,
    "twisted": twisted,
}
# How far the axes swing about home, and how fast
SWING = {"five-bar": 0.35, "parallelogram": 0.5, "slider-crank": 2.5, "stewart": 0.06, "geared": 0.8, "twisted": 0.15}


@pytest.fixture(params=sorted(ROBOTS), name="robot")
def _robot(request: pytest.FixtureRequest) -> Robot:
    return ROBOTS[request.param]()


class Swing(NamedTuple):
    t: Array
    q: Array
    v: Array
    a: Array


def swing(robot: Robot, samples: int, rate: float = 1000.0, scale: float = 1.0) -> Swing:
    """Every axis swings about home with two sines of its own."""
    rng = np.random.default_rng(3)
    start = np.zeros(len(robot.joints)) if robot.home is None else robot.home
    t, shape = np.arange(samples) / rate, (robot.dof, 1)
    q = np.repeat(start[robot.axis_index][:, None], samples, axis=1)
    v, a = np.zeros_like(q), np.zeros_like(q)
    for share in (0.7, 0.3):
        w, phase = rng.uniform(2, 7, shape), rng.uniform(0, 6, shape)
        x = 0.5 * share * scale * SWING[robot.name]
        q += x * (np.sin(w * t + phase) - np.sin(phase))
        v += x * w * np.cos(w * t + phase)
        a -= x * w**2 * np.sin(w * t + phase)
    return Swing(t, q, v, a)


# --- The same in plain NumPy, without any kernel ----------------------------------------------------------------------


def link_poses(robot: Robot, q: Array) -> list[Pose]:
    """Poses of all links; q may be complex."""
    out: list[Pose] = []
    for joint, x in zip(robot.joints, q, strict=True):
        p0, p1, p2, p3 = joint.placement
        here = p0 + np.sin(x) * p1 + (1 - np.cos(x)) * p2 + x * p3
        own = Pose(here[:, :3], here[:, 3])
        out.append(own if joint.parent == BASE else out[joint.parent] @ own)
    return out


def constraints(robot: Robot, q: Array) -> Array:
    """c(q) straight from the definitions of the loops."""
    poses = {link.name: pose for link, pose in zip(robot.links, link_poses(robot, q), strict=True)}
    poses[robot.base] = Pose()
    rows = []
    for loop in robot.loops:
        if isinstance(loop, JointLoop):
            x = q[robot.joint_index(loop.other)]
            rows.append(q[robot.joint_index(loop.joint)] - sum(c * x**k for k, c in enumerate(loop.polynomial)))
            continue
        one, two = (poses[end.link] @ end.pose for end in loop.ends)
        a, b = one.rotation, two.rotation
        value = dict(zip("xyz", a.T @ (two.position - one.position), strict=True))
        value |= {"rx": -a[:, 1] @ b[:, 2], "ry": a[:, 0] @ b[:, 2], "rz": -a[:, 0] @ b[:, 1]}
        rows += [value[component] for component in loop.components]
    return np.array(rows)


def jacobian(robot: Robot, q: Array) -> Array:
    """∂c/∂q by complex steps: exact to rounding."""
    steps = np.eye(len(q)) * 1e-30j
    return np.stack([constraints(robot, q + step).imag / 1e-30 for step in steps], axis=1)


class Reference(NamedTuple):
    q: Array
    map: Array
    v: Array
    a: Array


def reference(robot: Robot, q_a: Array, v_a: Array, a_a: Array, guess: Array) -> Reference:
    """One sample by Newton's method with least squares from a guess nearby."""
    axes = robot.axis_index
    passive = np.setdiff1d(np.arange(len(guess)), axes)
    q = guess.copy()
    q[axes] = q_a
    for _ in range(20):
        q[passive] -= np.linalg.lstsq(jacobian(robot, q)[:, passive], constraints(robot, q))[0]
    j = jacobian(robot, q)
    g = np.zeros((len(q), len(axes)))
    g[axes] = np.eye(len(axes))
    g[passive] = -np.linalg.lstsq(j[:, passive], j[:, axes])[0]
    v, h = g @ v_a, 1e-5
    rate = (jacobian(robot, q + h * v) - jacobian(robot, q - h * v)) @ v / (2 * h)
    a = g @ a_a
    a[passive] -= np.linalg.lstsq(j[:, passive], rate)[0]
    return Reference(q, g, v, a)


# --- Right answers ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_closes_like_plain_numpy(robot: Robot) -> None:
    motion = swing(robot, 900)
    closed = Closure(robot).close(*motion[1:])
    assert not closed.fault.any()
    assert np.all(closed.margin > 1e-3)
    for i in range(0, 900, 90):
        true = reference(robot, motion.q[:, i], motion.v[:, i], motion.a[:, i], closed.q[:, i])
        np.testing.assert_allclose(closed.q[:, i], true.q, rtol=0, atol=2e-13)
        np.testing.assert_allclose(closed.map[:, :, i], true.map, rtol=0, atol=2e-11)
        np.testing.assert_allclose(closed.v[:, i], true.v, rtol=0, atol=2e-11)
        np.testing.assert_allclose(closed.a[:, i], true.a, rtol=1e-7, atol=1e-7)


def test_residuals_vanish_and_axes_are_kept(robot: Robot) -> None:
    motion = swing(robot, 500)
    closure = Closure(robot)
    closed = closure.close(*motion[1:])
    assert set(closure.residual(closed.q)) == {loop.name for loop in robot.loops}
    assert max(closure.residual(closed.q).values()) < 1e-12
    assert max(closure.residual(closure.home).values()) < 1e-12
    for given_, told in zip(motion[1:], closed[:3], strict=True):
        np.testing.assert_array_equal(told[robot.axis_index], given_)
    np.testing.assert_array_equal(closed.map[robot.axis_index], np.tile(np.eye(robot.dof)[..., None], 500))


def test_residual_says_how_far_a_loop_is_open() -> None:
    closure = Closure(geared())
    q = np.repeat(closure.home[:, None], 3, axis=1)
    q[2, 1] += 0.01
    assert closure.residual(q) == {"gear": pytest.approx(0.0, abs=1e-12), "cam": pytest.approx(0.01, abs=1e-12)}


def test_map_is_the_slope_of_the_closure(robot: Robot) -> None:
    closure, motion = Closure(robot), swing(robot, 300)
    closed, still = closure.close(*motion[1:]), np.zeros((robot.dof, 5))
    past, h, q = {"loops": closed.q[:, 200]}, 1e-4, motion.q[:, 200]
    for a in range(robot.dof):
        five = q[:, None] + h * np.eye(robot.dof)[a][:, None] * np.array([-2, -1, 0, 1, 2])
        near = closure.close(five, still, still, dict(past)).q
        slope = near @ np.array([1, -8, 0, 8, -1]) / (12 * h)
        np.testing.assert_allclose(closed.map[:, a, 200], slope, rtol=0, atol=2e-9)


def test_accelerations_are_second_differences_along_a_path(robot: Robot) -> None:
    motion = swing(robot, 400)
    closed = Closure(robot).close(*motion[1:])
    k, h = np.arange(4, 396), 1e-3
    first = (closed.q[:, k - 2] - 8 * closed.q[:, k - 1] + 8 * closed.q[:, k + 1] - closed.q[:, k + 2]) / (12 * h)
    second = (closed.q[:, k - 1] - 2 * closed.q[:, k] + closed.q[:, k + 1]) / h**2
    size = 1.0 + np.abs(closed.a).max()
    np.testing.assert_allclose(closed.v[:, k], first, rtol=0, atol=1e-7 * size)
    np.testing.assert_allclose(closed.a[:, k], second, rtol=0, atol=1e-3 * size)


@pytest.mark.slow
def test_one_state_like_a_run(robot: Robot) -> None:
    closure, motion = Closure(robot), swing(robot, 60)
    closed = closure.close(*motion[1:])
    scratch = kernels.closing_scratch(closure.loops)
    n, axes = len(robot.joints), robot.axis_index
    for i in (7, 58):
        q, v, g = closed.q[:, i - 5].copy(), np.zeros(n), np.full(n, np.nan)
        q[axes], v[axes], map_ = motion.q[:, i], motion.v[:, i], np.full((n, len(axes)), np.nan)
        assert kernels.close_one(closure.loops, scratch, q, v, map_, g) == 0
        np.testing.assert_allclose(q, closed.q[:, i], rtol=0, atol=1e-12)
        np.testing.assert_allclose(v, closed.v[:, i], rtol=0, atol=1e-11)
        np.testing.assert_allclose(map_, closed.map[:, :, i], rtol=0, atol=1e-11)
        np.testing.assert_allclose(map_ @ motion.a[:, i] + g, closed.a[:, i], rtol=0, atol=1e-9)


def test_one_state_out_of_reach_or_not_a_number() -> None:
    closure = Closure(five_bar())
    scratch, map_ = kernels.closing_scratch(closure.loops), np.zeros((4, 2))
    for left in (np.pi + 0.3, np.nan):
        q, v, g = closure.home.copy(), np.zeros(4), np.zeros(4)
        q[0], q[2] = left, -0.3
        assert kernels.close_one(closure.loops, scratch, q, v, map_, g) == LOST


# --- Invariance -------------------------------------------------------------------------------------------------------


def agree(one: Closed, two: Closed, tolerance: float = 1e-12) -> None:
    np.testing.assert_array_equal(one.fault, two.fault)
    for a, b in zip(one[:2], two[:2], strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(one.map, two.map, rtol=10 * tolerance, atol=10 * tolerance)
    np.testing.assert_allclose(one.a, two.a, rtol=100 * tolerance, atol=100 * tolerance)


def in_pieces(closure: Closure, motion: Swing, cuts: list[int]) -> Closed:
    past: dict[str, Any] = {}
    edges = [0, *sorted(cuts), motion.q.shape[1]]
    parts = [closure.close(motion.q[:, i:j], motion.v[:, i:j], motion.a[:, i:j], past) for i, j in pairwise(edges)]
    return Closed._make(np.concatenate(part, axis=-1) for part in zip(*parts, strict=True))


@pytest.mark.slow
@given(st.lists(st.integers(0, 400), max_size=4), st.sampled_from(["five-bar", "stewart"]), st.sampled_from([30, 1000]))
def test_cuts_do_not_matter(cuts: list[int], name: str, rate: float) -> None:
    robot = ROBOTS[name]()
    closure, motion = Closure(robot), swing(robot, 400, rate)
    agree(closure.close(*motion[1:]), in_pieces(closure, motion, cuts))


@pytest.mark.slow
@given(
    st.floats(0.4, 0.6),
    st.floats(0.6, 0.9),
    st.floats(0.3, 0.8),
    st.lists(st.floats(-1, 1), min_size=6, max_size=6),
)
def test_the_place_of_a_robot_does_not_matter(near: float, far: float, base: float, where: list[float]) -> None:
    axis = np.array([*where[:2], 1.1]) / np.linalg.norm([*where[:2], 1.1])
    pose = Pose(turn(axis, 3 * where[2]), np.array(where[3:]))
    motion = swing(five_bar(), 64, rate=50)
    one = Closure(five_bar(near, far, base)).close(*motion[1:])
    agree(one, Closure(five_bar(near, far, base, pose)).close(*motion[1:]), 1e-11)


@pytest.mark.parametrize("name", ["five-bar", "stewart", "slider-crank"])
def test_the_order_of_a_loops_ends_does_not_matter(name: str) -> None:
    robot = ROBOTS[name]()
    swapped = replace(
        robot,
        loops=tuple(replace(k, ends=k.ends[::-1]) for k in robot.loops[::-1] if isinstance(k, FrameLoop)),
    )
    motion = swing(robot, 100)
    agree(Closure(robot).close(*motion[1:]), Closure(swapped).close(*motion[1:]), 1e-11)


@pytest.mark.parametrize("name", sorted(ROBOTS))
def test_samples_in_any_order(name: str) -> None:
    robot = ROBOTS[name]()
    closure, motion = Closure(robot), swing(robot, 400, rate=100)
    order = np.random.default_rng(1).permutation(400)
    closed = closure.close(*motion[1:])
    mixed = closure.close(motion.q[:, order], motion.v[:, order], motion.a[:, order])
    agree(Closed._make(x[..., order] for x in closed), mixed)


def test_noise_does_not_matter() -> None:
    """Encoder noise is part of the posture: the map follows it, and no sample is lost."""
    robot = stewart()
    closure, motion = Closure(robot), swing(robot, 600)
    noisy = motion.q + np.random.default_rng(2).normal(0, 1e-5, motion.q.shape)
    closed = closure.close(noisy, motion.v, motion.a)
    assert not closed.fault.any()
    assert max(closure.residual(closed.q).values()) < 1e-12


# --- Limits -----------------------------------------------------------------------------------------------------------


def elbows(q: Array, near: float = 0.5, base: float = 0.6) -> Array:
    """Distance between the elbows of a five-bar."""
    left = near * np.array([np.cos(q[0]), np.sin(q[0])])
    right = near * np.array([np.cos(q[1]), np.sin(q[1])])
    return np.hypot(left[0] - right[0] - base, left[1] - right[1])


def spreading(samples: int, most: float) -> Array:
    """Both cranks of a five-bar lean outwards and come back."""
    lean = most * np.sin(np.linspace(0, np.pi, samples))
    return np.stack([np.pi / 2 + lean, np.pi / 2 - lean])


@pytest.mark.parametrize("samples", [40, 1500])
def test_out_of_reach_and_back(samples: int) -> None:
    robot = five_bar()
    closure, q = Closure(robot), spreading(samples, 1.2)
    closed = closure.close(q, 0 * q + 0.1, 0 * q)
    beyond = elbows(q) > 1.4
    assert 0.1 * samples < beyond.sum() < 0.9 * samples
    np.testing.assert_array_equal(closed.fault != 0, beyond)
    assert np.all(closed.fault[beyond] == LOST)
    for x in (closed.v, closed.a, closed.map, closed.q[[1, 3]]):
        assert np.all(np.isnan(x[..., beyond]))
        assert np.all(np.isfinite(x[..., ~beyond]))
    np.testing.assert_array_equal(closed.q[[0, 2]], q)
    # the roof is still above the elbows
    assert np.all(closed.q[1, ~beyond] + q[0, ~beyond] < np.pi / 2)
    np.testing.assert_allclose(closed.q[:, -1], closure.home, atol=1e-12)


def test_cuts_do_not_matter_where_samples_are_out_of_reach() -> None:
    closure, q = Closure(five_bar()), spreading(300, 1.2)
    motion = Swing(np.arange(300.0), q, 0 * q + 0.1, 0 * q)
    agree(closure.close(*motion[1:]), in_pieces(closure, motion, [77, 120, 121, 260]), 1e-10)


def test_a_singular_sample_is_one_with_its_forearms_in_line() -> None:
    closure = Closure(five_bar())
    stretched = np.arcsin((1.4 - 0.6) / (2 * 0.5))
    q = spreading(5, 0.3)
    q[:, 2] = np.pi / 2 + stretched, np.pi / 2 - stretched
    closed = closure.close(q, 0 * q, 0 * q)
    np.testing.assert_array_equal(closed.fault, [0, 0, SINGULAR, 0, 0])
    assert closed.margin[2] == 0.0
    assert np.isnan(closed.q[1, 2])
    assert closed.q[0, 2] == q[0, 2]


def test_the_margin_shrinks_towards_a_singularity() -> None:
    closure = Closure(five_bar())
    stretched = np.arcsin((1.4 - 0.6) / (2 * 0.5))
    q = np.stack(
        [np.pi / 2 + stretched - 10.0 ** np.arange(0, -7, -1), np.pi / 2 - stretched + 10.0 ** np.arange(0, -7, -1)]
    )
    closed = closure.close(q, 0 * q, 0 * q)
    assert not closed.fault.any()
    # a fold: the margin goes with the root of the distance
    np.testing.assert_allclose(closed.margin[3:-1] / closed.margin[4:], np.sqrt(10), rtol=0.02)


def test_a_turn_at_a_singularity_stays_in_its_assembly() -> None:
    """Cranks that touch the limit and turn back: going through would be the other assembly, with the same axes."""
    stretched = np.arcsin((1.4 - 0.6) / (2 * 0.5))
    lean = stretched - 0.3 * np.linspace(-1, 1, 801) ** 2 - 1e-7
    q = np.stack([np.pi / 2 + lean, np.pi / 2 - lean])
    closed = Closure(five_bar()).close(q, 0 * q, 0 * q)
    np.testing.assert_allclose(closed.q[:, :350], closed.q[:, :-351:-1], rtol=0, atol=1e-9)


@pytest.mark.parametrize("which", [0, 1, 2])
def test_samples_that_are_no_numbers(which: int) -> None:
    robot = five_bar()
    closure, motion = Closure(robot), swing(robot, 200)
    holes = np.array([0, 1, 50, 100, 101, 102, 199])
    q, v, a = broken = [x.copy() for x in motion[1:]]
    broken[which][1, holes] = np.nan
    broken[which][0, 60] = np.inf
    closed, whole = closure.close(q, v, a), closure.close(*motion[1:])
    bad = np.isin(np.arange(200), [*holes, 60])
    np.testing.assert_array_equal(closed.fault, np.where(bad, LOST, 0))
    np.testing.assert_allclose(closed.q[:, ~bad], whole.q[:, ~bad], rtol=0, atol=1e-12)
    assert np.all(np.isnan(closed.map[..., bad]))


def test_nothing_but_faults() -> None:
    closure, past = Closure(five_bar()), {}
    q = np.full((2, 100), np.nan)
    assert np.all(closure.close(q, q, q, past).fault == LOST)
    np.testing.assert_array_equal(past["loops"], closure.home)
    assert closure.close(q[:, :0], q[:, :0], q[:, :0]).map.shape == (4, 2, 0)


def test_wrong_shape_is_named() -> None:
    with pytest.raises(RobotError, match=r"\(2, N\)"):
        Closure(five_bar()).close(np.zeros((3, 5)), np.zeros((3, 5)), np.zeros((3, 5)))


# --- Robots that cannot be closed -------------------------------------------------------------------------------------


def test_a_robot_without_loops() -> None:
    with pytest.raises(RobotError, match="no loops"):
        Closure(five_bar().tree)


def test_loops_that_do_not_close_are_named_with_their_gap() -> None:
    robot = five_bar()
    # elbows 1.6 m apart, forearms of 0.7 m
    with pytest.raises(RobotError, match=r"'tip' by 0\.(198|199|2) .*home"):
        Closure(replace(robot, home=np.array([np.pi, np.pi - 0.3, 0.0, np.pi + 0.3])))


def test_too_few_axes() -> None:
    with pytest.raises(RobotError, match=r"2 degrees of freedom and 1 actuated.*left\.arm.*right.*right\.arm"):
        Closure(replace(five_bar(), actuated=("left",)))


def test_a_joint_that_spins_alone() -> None:
    robot = slider_crank()
    joints = (*robot.joints, Joint("spin", "revolute", 1, Pose(), X))
    with pytest.raises(RobotError, match=r"so spin can move without a motor"):
        Closure(replace(robot, joints=joints, links=(*robot.links, Link("spin")), home=None))


def test_too_many_axes() -> None:
    with pytest.raises(RobotError, match=r"3 actuated joints and 2 degrees.*List 2 joints"):
        Closure(replace(five_bar(), actuated=("left", "right", "right.arm")))


def test_a_singular_home() -> None:
    robot = parallelogram()
    with pytest.raises(RobotError, match="singular at home"):
        Closure(replace(robot, home=np.zeros(3)))


# --- The parts --------------------------------------------------------------------------------------------------------


@njit(**OPTIONS)
def _solved(like, plan, matrix, b, y, x, memory, inverse):
    elimination_kernels.factorise(like, plan, True, matrix, memory, inverse)
    elimination_kernels.solve(like, plan, matrix, memory, inverse, b, y)
    elimination_kernels.solve_right(like, plan, matrix, inverse, x)


@njit(**OPTIONS)
def _solved_packs(plan, matrix, b, y, x, memory, inverse):
    _solved(spread(0.0), plan, matrix, b, y, x, memory, inverse)


@pytest.mark.slow
@given(st.integers(0, 10**6), st.integers(1, 7), st.integers(0, 4), st.integers(1, 3), st.booleans())
def test_sparse_elimination_is_least_squares(seed: int, n: int, extra: int, right: int, packed: bool) -> None:
    rng = np.random.default_rng(seed)
    m, w = n + extra, WIDTH if packed else 1
    pattern, sides = rng.uniform(size=(m, n)) < 0.4, rng.uniform(size=(m, right)) < 0.4
    # a transversal makes the pattern regular
    pattern[rng.permutation(m)[:n], np.arange(n)] = True
    a = np.where(pattern[..., None], rng.normal(size=(m, n, w)), 0.0) + 3.0 * pattern[..., None]
    a = a * rng.choice([-1.0, 1.0], (m, n, 1))
    c, b = np.where(sides[..., None], rng.normal(size=(m, right, w)), 0.0), rng.normal(size=(m, w))
    sizes = np.linalg.svd(a.transpose(2, 0, 1), compute_uv=False)
    if np.any(sizes[:, -1] < 1e-3 * sizes[:, 0]):
        return
    plan, order, slot = elimination(pattern, sides)
    matrix = np.full(plan.slots * w, np.nan)
    for (r, column), k in slot.items():
        if column < n and pattern[r, column]:
            matrix[k * w : (k + 1) * w] = a[r, column]
        if column >= n and sides[r, column - n]:
            matrix[k * w : (k + 1) * w] = c[r, column - n]
    y, x, memory, inverse = np.empty(n * w), np.empty(n * right * w), np.empty((m + 1) * n * w), np.empty(n * w)
    arguments = plan, matrix, b.reshape(-1).copy(), y, x, memory, inverse
    _solved_packs(*arguments) if packed else _solved(0.0, *arguments)
    for lane in range(w):
        for found, given_ in ((y.reshape(n, 1, w), b[:, None]), (x.reshape(n, right, w), c)):
            true = np.linalg.lstsq(a[:, order, lane], given_[..., lane])[0]
            np.testing.assert_allclose(found[..., lane], true, rtol=0, atol=1e-9)


@njit(**OPTIONS)
def _packed(x, y, out):
    a, b = load(spread(0.0), x, 0), load(spread(0.0), y, 1)
    store(out, 0, a + b * 2.0 - 1.0 / a)
    store(out, WIDTH, with_sign(root(a), b))
    store(out, 2 * WIDTH, smaller(a, b))
    store(out, 3 * WIDTH, larger(a, -b))


def test_packs_compute_as_numbers_do() -> None:
    rng = np.random.default_rng(0)
    x, y, out = rng.uniform(0.1, 1, WIDTH), rng.normal(size=WIDTH + 1), np.empty(4 * WIDTH)
    _packed(x, y, out)
    b = y[1:]
    expected = [x + 2 * b - 1 / x, np.copysign(np.sqrt(x), b), np.minimum(x, b), np.maximum(x, -b)]
    np.testing.assert_allclose(out.reshape(4, WIDTH), expected, rtol=1e-14, atol=1e-14)


# --- The other assembly -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("samples", [2, 7, 30, 100, 1000])
def test_a_way_that_grazes_the_edge_of_the_workspace_does_not_change_the_assembly(samples: int) -> None:
    """Arms 0.22, forearms 0.25, 0.16 apart: a straight line of the axes that leaves reach by 9e-6 m and comes back."""
    robot = five_bar(0.22, 0.25, 0.16)
    closure = Closure(robot)
    ends = np.array([[2.6534, 2.285], [0.8734, 0.545]])
    q = ends[:, :1] + (ends[:, 1:] - ends[:, :1]) * np.linspace(0.0, 1.0, samples)
    closed = closure.close(q, np.zeros_like(q), np.zeros_like(q))
    good = closed.fault == 0
    # the forearms' tip stays on its side: the sine of the angle between them keeps its sign
    left, right = closed.q[0] + closed.q[1], closed.q[2] + closed.q[3]
    home = closure.home
    side = np.sign(np.sin(home[2] + home[3] - home[0] - home[1]))
    assert good[0]
    assert good[-1]
    assert np.all(np.sign(np.sin(right - left))[good] == side)


@pytest.mark.slow
def test_no_sample_of_wide_motions_is_on_the_other_side() -> None:
    """Sinusoids far beyond the reach of a five-bar: whatever is called good has the sign of det J_p of home."""
    closure = Closure(five_bar(0.22, 0.25, 0.16))
    home, t = closure.home[closure.robot.axis_index], np.arange(4000) / 1000.0
    rng, lost = np.random.default_rng(5), 0
    for _ in range(4):
        swing = rng.uniform(0.8, 1.6, (2, 1)) * np.sin(2.0 * np.pi * rng.uniform(0.3, 1.0, (2, 1)) * t)
        closed = closure.close(home[:, None] + swing, np.zeros_like(swing), np.zeros_like(swing))
        good = closed.fault == 0
        lost += int(np.sum(~good))
        sides = [kernels.side_at(closure.loops, q) for q in closed.q[:, good][:, ::50].T]
        assert set(sides) == {closure.loops.side}
    assert lost, "some of it is out of reach"


def test_too_many_motors_are_told_as_such_where_home_is_only_near() -> None:
    robot = five_bar()
    assert robot.home is not None
    near = replace(robot, home=robot.home + 1e-3, actuated=("left", "right", "left.arm"))
    with pytest.raises(RobotError, match="3 actuated joints and 2 degrees of freedom"):
        Closure(near)
