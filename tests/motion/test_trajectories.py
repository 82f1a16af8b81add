"""Trajectories: the derivatives are derivatives, the knots are smooth, the limits hold between samples too."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.errors import DataError
from steelyard.model.pose import Pose
from steelyard.model.robot import Joint, JointKind, Limits, Link, Robot
from steelyard.motion.random import limit_findings, random_fourier, random_points
from steelyard.motion.trajectory import Chain, Fourier, Quintic, Trajectory, TrapezoidalAcceleration, chain, dwell

POINTS = np.array([[0.0, 1.0, -0.5, -0.5], [0.2, 0.1, 0.1, 1.2], [0.0, -2.0, 0.01, 0.0]])


def robot_with(*limits: Limits, kind: JointKind = "revolute") -> Robot:
    joints = tuple(
        Joint(f"joint{i + 1}", kind, i - 1, Pose(), np.array([0.0, 0.0, 1.0]), limits=limit)
        for i, limit in enumerate(limits)
    )
    return Robot("arm", tuple(Link(f"link{i + 1}") for i in range(len(limits))), joints)


def fourier(blend: float = 0.0, seed: int = 0) -> Fourier:
    sine, cosine = np.random.default_rng(seed).standard_normal((2, 3, 4))
    return Fourier(np.array([0.1, -0.2, 0.3]), sine, cosine, 0.2, 7.3, blend)


def trapezoidal() -> TrapezoidalAcceleration:
    return TrapezoidalAcceleration(POINTS, np.array([1.0, 2.0, 0.5]), np.array([4.0, 3.0, 5.0]), 0.1)


KINDS: dict[str, Callable[[], Trajectory]] = {
    "quintic": lambda: Quintic(POINTS, np.array([0.0, 1.0, 2.5, 3.0])),
    "trapezoidal": trapezoidal,
    "fourier": fourier,
    "fourier-blended": lambda: fourier(1.0),
    "fourier-all-blend": lambda: fourier(7.3 / 2),
    "chain": lambda: chain([trapezoidal(), Quintic(POINTS[:, ::-1], np.array([0.0, 1.0, 2.0, 3.0]))], rest=0.5),
}
RESTING = [name for name in KINDS if name != "fourier"]


@pytest.fixture(params=KINDS)
def trajectory(request: pytest.FixtureRequest) -> Trajectory:
    return KINDS[request.param]()


def test_shapes(trajectory: Trajectory) -> None:
    assert isinstance(trajectory, Trajectory)
    for size in (0, 1, 5):
        for part in trajectory.at(np.linspace(0.0, trajectory.duration, size)):
            assert part.shape == (trajectory.dof, size) == (3, size)


def test_derivatives_agree_with_differences(trajectory: Trajectory) -> None:
    step = 1e-5
    t = np.random.default_rng(1).uniform(2 * step, trajectory.duration - 2 * step, 2000)
    before, now, after = (trajectory.at(t + k * step) for k in (-1, 0, 1))
    np.testing.assert_allclose(now[1], (after[0] - before[0]) / (2 * step), atol=1e-7)
    # Jerk jumps at knots: there a difference of velocities is off by step/4 times the jump.
    np.testing.assert_allclose(now[2], (after[1] - before[1]) / (2 * step), atol=1e-3)


def test_integrals_agree(trajectory: Trajectory) -> None:
    t = np.linspace(0.0, trajectory.duration, 200_001)
    q, v, a = trajectory.at(t)
    for integral, derivative in ((q, v), (v, a)):
        mean = (derivative[:, 1:] + derivative[:, :-1]) / 2
        summed = np.cumsum(mean * np.diff(t), axis=1)
        np.testing.assert_allclose(summed, integral[:, 1:] - integral[:, :1], atol=1e-6)


def test_motion_is_continuous(trajectory: Trajectory) -> None:
    t = np.linspace(0.0, trajectory.duration, 400_001)
    q, v, a = trajectory.at(t)
    step = t[1]
    assert np.abs(np.diff(q)).max() <= np.abs(v).max() * step * 1.001
    assert np.abs(np.diff(v)).max() <= np.abs(a).max() * step * 1.001
    assert np.abs(np.diff(a)).max() <= 1e-3 * np.abs(a).max()


@pytest.mark.parametrize("name", RESTING)
def test_rest_at_both_ends(name: str) -> None:
    trajectory = KINDS[name]()
    _, v, a = trajectory.at([0.0, trajectory.duration])
    np.testing.assert_allclose(v, 0.0, atol=1e-13)
    np.testing.assert_allclose(a, 0.0, atol=1e-12)


def test_outside_the_joints_stand_still_at_the_ends(trajectory: Trajectory) -> None:
    end = trajectory.duration
    q, v, a = trajectory.at([-1.0, 0.0, end, end + 1.0])
    np.testing.assert_array_equal(q[:, 0], q[:, 1])
    np.testing.assert_array_equal(q[:, 3], q[:, 2])
    assert not v[:, [0, 3]].any()
    assert not a[:, [0, 3]].any()


def test_extremes_bound_a_dense_grid_closely(trajectory: Trajectory) -> None:
    q, v, _ = trajectory.at(np.linspace(0.0, trajectory.duration, 300_001))
    seen = trajectory.extremes()
    for bound, dense, sign in (
        (seen.upper, q.max(axis=1), 1),
        (seen.lower, q.min(axis=1), -1),
        (seen.speed, np.abs(v).max(axis=1), 1),
    ):
        excess = sign * (bound - dense)
        assert (excess >= -1e-12).all()
        assert (excess <= 1e-8 + 1e-4 * np.abs(dense)).all()


def test_a_short_blend_is_seen_by_the_extremes() -> None:
    trajectory = fourier(0.01)
    _, v, _ = trajectory.at(np.linspace(0.0, 0.02, 100_001))
    assert (trajectory.extremes().speed >= np.abs(v).max(axis=1) - 1e-12).all()


# --- each kind --------------------------------------------------------------------------------------------------------


def test_quintic_passes_its_points_at_rest() -> None:
    times = np.array([0.0, 1.0, 2.5, 3.0])
    q, v, a = Quintic(POINTS, times).at(times)
    np.testing.assert_allclose(q, POINTS, atol=1e-15)
    assert not v.any()
    np.testing.assert_allclose(a, 0.0, atol=1e-12)


def test_trapezoidal_passes_its_points_at_rest() -> None:
    trajectory = trapezoidal()
    q, v, a = trajectory.at(trajectory.times)
    np.testing.assert_allclose(q, POINTS, atol=1e-13)
    np.testing.assert_allclose(v, 0.0, atol=1e-13)
    np.testing.assert_allclose(a, 0.0, atol=1e-12)


def test_trapezoidal_of_one_joint_by_hand() -> None:
    # Ramp 0.1 s, hold 0.4 s at 2 rad/s² reach 1 rad/s in 0.6 s; 2 rad at 1 rad/s then take 2 + 0.6 s.
    trajectory = TrapezoidalAcceleration(np.array([[0.0, 2.0]]), np.array([1.0]), np.array([2.0]), 0.1)
    assert trajectory.duration == pytest.approx(2.6)
    _, v, a = trajectory.at([0.05, 0.1, 0.3, 0.6, 1.3, 2.3])
    np.testing.assert_allclose(a[0], [1.0, 2.0, 2.0, 0.0, 0.0, -2.0], atol=1e-12)
    np.testing.assert_allclose(v[0], [0.025, 0.1, 0.5, 1.0, 1.0, 0.5], atol=1e-12)


@pytest.mark.parametrize(
    ("distance", "velocity", "speed", "acceleration", "duration"),
    [
        (0.6, 9.0, 1.0, 2.0, 1.2),  # too short to cruise: A (r + h)(2 r + h) = 0.6 gives h = 0.4
        (0.02, 9.0, 0.1, 1.0, 0.4),  # too short to hold: A falls to d / (2 r²)
        (0.2, 0.1, 0.1, 1.0, 2.2),  # too slow to hold: A falls to v / r, then 1.8 s of cruise
    ],
)
def test_trapezoidal_is_the_fastest_of_its_shape(
    distance: float, velocity: float, speed: float, acceleration: float, duration: float
) -> None:
    trajectory = TrapezoidalAcceleration(np.array([[0.0, distance]]), np.array([velocity]), np.array([2.0]), 0.1)
    assert trajectory.duration == pytest.approx(duration)
    assert trajectory.at([0.1])[2][0, 0] == pytest.approx(acceleration)
    assert trajectory.extremes().speed[0] == pytest.approx(speed)


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.floats(-3, 3).filter(lambda x: abs(x) > 1e-6), min_size=2, max_size=4),
    st.floats(0.05, 5.0),
    st.floats(0.05, 50.0),
    st.floats(0.001, 0.5),
)
def test_trapezoidal_respects_limits_and_the_slowest_joint_sets_the_pace(
    moves: list[float], velocity: float, acceleration: float, ramp: float
) -> None:
    n = len(moves)
    fast, strong = np.linspace(velocity, n * velocity, n), np.linspace(n * acceleration, acceleration, n)
    points = np.column_stack([np.zeros(n), moves])
    together = TrapezoidalAcceleration(points, fast, strong, ramp)
    alone = [
        TrapezoidalAcceleration(points[i : i + 1], fast[i : i + 1], strong[i : i + 1], ramp).duration for i in range(n)
    ]
    assert together.duration == pytest.approx(max(alone))
    q, v, a = together.at(np.linspace(0.0, together.duration, 4001))
    assert (np.abs(v) <= fast[:, None] * (1 + 1e-9)).all()
    assert (np.abs(a) <= strong[:, None] * (1 + 1e-9)).all()
    np.testing.assert_allclose(q[:, -1], moves, atol=1e-12)
    assert (np.diff(q) * np.sign(moves)[:, None] >= -1e-12).all()


def test_fourier_is_the_series_of_its_docstring() -> None:
    trajectory, t = fourier(), np.linspace(0.0, 7.3, 50)
    omega = 2 * np.pi * 0.2
    expected = np.repeat(trajectory.offset[:, None], t.size, axis=1)
    for k in range(4):
        w = omega * (k + 1)
        expected += trajectory.sine[:, [k]] / w * np.sin(w * t) - trajectory.cosine[:, [k]] / w * np.cos(w * t)
    np.testing.assert_allclose(trajectory.at(t)[0], expected, atol=1e-13)
    inner = (t > 1.0) & (t < 6.3)
    np.testing.assert_allclose(fourier(1.0).at(t)[0][:, inner], expected[:, inner], atol=1e-13)


def test_chain_rests_between_its_parts() -> None:
    first, second = trapezoidal(), Quintic(POINTS[:, ::-1], np.array([0.0, 1.0, 2.0, 3.0]))
    whole = chain([first, second], rest=0.5)
    assert whole.duration == pytest.approx(first.duration + 0.5 + 3.0)
    q, v, a = whole.at(first.duration + np.array([0.1, 0.4]))
    np.testing.assert_allclose(q, POINTS[:, [-1, -1]])
    assert not v.any()
    assert not a.any()
    np.testing.assert_allclose(whole.at([first.duration + 0.5 + 1.3])[0], second.at([1.3])[0], atol=1e-12)


# --- limits and random motion -----------------------------------------------------------------------------------------


def test_limits_name_joint_value_and_limit() -> None:
    robot = robot_with(Limits(-0.4, 1.0, 10.0), Limits(), Limits(-3.0, 3.0, 1.0))
    found = limit_findings(Quintic(POINTS, np.array([0.0, 1.0, 2.5, 3.0])), robot)
    assert [(f.code, f.where) for f in found] == [
        ("trajectory-position-limit", "joint1"),
        ("trajectory-velocity-limit", "joint3"),
    ]
    assert "-0.5 rad" in found[0].message
    assert "-0.4 rad" in found[0].message
    assert "3.75 rad/s" in found[1].message
    assert all(f.severity == "error" and f.fix for f in found)


def test_limits_are_exact_between_samples() -> None:
    peak = fourier(1.0).extremes()
    exact = [Limits(lo, hi, v) for lo, hi, v in zip(peak.lower, peak.upper, peak.speed, strict=True)]
    assert limit_findings(fourier(1.0), robot_with(*exact)) == ()
    tighter = [Limits(x.lower + 1e-6, x.upper - 1e-6, x.velocity - 1e-6) for x in exact]
    assert len(limit_findings(fourier(1.0), robot_with(*tighter))) == 9


def test_limits_need_as_many_joints() -> None:
    with pytest.raises(DataError, match="moves 3 joints"):
        limit_findings(fourier(), robot_with(Limits()))


ROBOTS = {
    "limited": robot_with(Limits(-1.0, 2.0, 0.5), Limits(0.0, 0.1, 3.0)),
    "unlimited": robot_with(Limits(), Limits()),
    "half-limited": robot_with(Limits(lower=2.0), Limits(upper=-1.0, velocity=0.1)),
    "prismatic": robot_with(Limits(), Limits(0.0, 1.0, 0.2), kind="prismatic"),
    "locked": robot_with(Limits(0.5, 0.5, 1.0), Limits(-1.0, 1.0, 1.0)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ROBOTS)
@pytest.mark.parametrize("margin", [0.0, 0.1])
def test_random_motion_keeps_the_limits_and_is_seeded(name: str, margin: float) -> None:
    robot = ROBOTS[name]
    for seed in range(5):
        one, same = (random_fourier(robot, 3, 0.25, 8.0, np.random.default_rng(seed), margin) for _ in range(2))
        np.testing.assert_array_equal(one.sine, same.sine)
        assert limit_findings(one, robot) == ()
        _, v, a = one.at([0.0, one.duration])
        np.testing.assert_allclose([v, a], 0.0, atol=1e-10)
        points, again = (random_points(robot, 20, np.random.default_rng(seed), margin) for _ in range(2))
        np.testing.assert_array_equal(points, again)
        assert points.shape == (2, 20)
        assert all(limit_findings(dwell(p, 1.0), robot) == () for p in points.T)


def test_random_fourier_fills_its_room() -> None:
    robot = robot_with(Limits(-1.0, 2.0, 100.0), Limits(-1.0, 1.0, 0.01), Limits())
    seen = random_fourier(robot, 3, 0.25, 8.0, np.random.default_rng(3), 0.0).extremes()
    assert max(seen.upper[0] - 0.5, 0.5 - seen.lower[0]) == pytest.approx(1.5)
    assert seen.speed[1] == pytest.approx(0.01)
    assert np.abs([seen.lower[2], seen.upper[2]]).max() <= np.pi / 2 + 1e-9
    assert seen.speed[2] <= np.pi + 1e-9


# --- bad input --------------------------------------------------------------------------------------------------------

ONE = np.ones(1)
RNG = np.random.default_rng(0)
BAD: dict[str, tuple[Callable[[], object], str]] = {
    "one point": (lambda: Quintic(np.zeros((2, 1)), np.zeros(1)), "at least two points"),
    "flat points": (lambda: Quintic(np.zeros(3), np.arange(3.0)), "2 dimension"),
    "ragged points": (lambda: Quintic([[0.0, 1.0], [0.0]], np.arange(2.0)), "equal row lengths"),  # type: ignore[arg-type]
    "nan point": (lambda: Quintic(np.array([[0.0, np.nan]]), np.arange(2.0)), "finite"),
    "times stall": (lambda: Quintic(np.zeros((1, 3)), np.array([0.0, 1.0, 1.0])), "increase"),
    "times late": (lambda: Quintic(np.zeros((1, 2)), np.array([1.0, 2.0])), "start at 0"),
    "times short": (lambda: Quintic(np.zeros((1, 3)), np.arange(2.0)), "the same number of times"),
    "no velocity": (lambda: TrapezoidalAcceleration(POINTS, np.zeros(3), np.ones(3)), "velocity limit"),
    "few limits": (lambda: TrapezoidalAcceleration(POINTS, np.ones(3), np.ones(2)), "acceleration limit"),
    "no ramp": (lambda: TrapezoidalAcceleration(POINTS, ONE, ONE, 0.0), "jerk time"),
    "no move": (lambda: TrapezoidalAcceleration(np.zeros((2, 2)), ONE, ONE), "are equal"),
    "shapes": (lambda: Fourier(np.zeros(2), np.zeros((2, 3)), np.zeros((2, 4)), 1.0, 1.0), "one shape"),
    "joints": (lambda: Fourier(np.zeros(3), np.zeros((2, 3)), np.zeros((2, 3)), 1.0, 1.0), "one shape"),
    "frequency": (lambda: replace(fourier(), frequency_hz=-1.0), "frequency"),
    "duration": (lambda: replace(fourier(), duration=0.0), "duration"),
    "nan duration": (lambda: replace(fourier(), duration=np.nan), "duration"),
    "long blend": (lambda: fourier(4.0), "half the duration"),
    "nan time": (lambda: fourier().at([0.0, np.nan]), "finite"),
    "scalar time": (lambda: fourier().at(0.0), "1 dimension"),
    "dwell": (lambda: dwell([0.0], 0.0), "positive"),
    "empty chain": (lambda: Chain(()), "at least one"),
    "chain not at rest": (
        lambda: chain([fourier(), Quintic(np.stack([fourier().at([7.3])[0][:, 0]] * 2, axis=1), np.array([0.0, 1.0]))]),
        "Part 1 does not end at rest where part 2 begins: set `blend` of the Fourier series",
    ),
    "chain gap": (lambda: chain([trapezoidal(), trapezoidal()]), "does not start where"),
    "chain moving": (lambda: Chain((fourier(), dwell(fourier().at([7.3])[0][:, 0], 1.0))), "at rest"),
    "chain joints": (lambda: Chain((fourier(1.0), dwell([0.0], 1.0))), "moves 3 joints"),
    "margin": (lambda: random_points(ROBOTS["limited"], 2, RNG, 0.5), "margin"),
    "no points": (lambda: random_points(ROBOTS["limited"], 0, RNG), "at least 1"),
    "no harmonic": (lambda: random_fourier(ROBOTS["limited"], 0, 1.0, 1.0, RNG), "harmonic"),
    "no speed": (lambda: random_points(robot_with(Limits(velocity=0.0)), 2, RNG), "joint1 leave no range"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_explained(case: str) -> None:
    make, message = BAD[case]
    with pytest.raises(DataError, match=message):
        make()


def test_trajectories_keep_their_values() -> None:
    points = POINTS.copy()
    trajectory = Quintic(points, np.array([0.0, 1.0, 2.5, 3.0]))
    points[:] = 9.0
    np.testing.assert_array_equal(trajectory.points, POINTS)
    with pytest.raises(ValueError, match="read-only"):
        trajectory.points[0, 0] = 1.0
