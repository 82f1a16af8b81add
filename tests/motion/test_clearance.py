"""Clearances: distances that other libraries confirm, exact gradients, proofs for all t, capsules that hold shapes, and
designs that stay clear."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from steelyard._arrays import Array
from steelyard.design import objective as planning
from steelyard.design.criteria import DOptimal
from steelyard.design.design import SPARE, Design, design_excitation
from steelyard.design.families import BSplineFamily, FourierFamily
from steelyard.design.feasibility import check_posture
from steelyard.design.objective import REACH, DesignObjective, barrier
from steelyard.errors import DataError, EstimationError, ModelError, RobotError
from steelyard.formats.motion_limits import read_limits
from steelyard.formats.robots import read_robot
from steelyard.formats.robots.shapes import read_capsules
from steelyard.model.base_parameters import base_parameters
from steelyard.model.loops import JointLoop
from steelyard.model.model import Model
from steelyard.model.pose import Pose
from steelyard.model.robot import BASE, Limits, Robot
from steelyard.model.terms import named_terms
from steelyard.motion import clearance as clearance_module
from steelyard.motion.bounds import LimitUse, MotionLimits
from steelyard.motion.bspline import BSpline
from steelyard.motion.capsules import enclosing_capsule, skeleton, skeleton_length
from steelyard.motion.clearance import Clearance, proven_clearance
from steelyard.motion.obstacles import Box, Capsule, Plane, Surroundings
from steelyard.motion.trajectory import Quintic, Trajectory, chain
from testbed.simulated import arm, forked, model_of, slider

ROBOTS: dict[str, Callable[[], Robot]] = {"arm": lambda: arm(4), "forked": forked, "slider": slider}
FLOOR = Plane("floor", np.array([0.0, 0.0, 1.0]), -0.15)


def scene(seed: int, robot: Robot, **options: object) -> Surroundings:
    """Random capsules on the base and every link, some of them balls, and a few planes and boxes about the robot."""
    rng = np.random.default_rng(seed)
    capsules = []
    for link in ("base", *(link.name for link in robot.links)):
        start, end = rng.normal(scale=0.2, size=(2, 3))
        capsules.append(Capsule(link, start, start if rng.random() < 0.2 else end, rng.uniform(0.01, 0.05)))
    planes = [Plane(f"wall{k}", rng.normal(size=3), rng.normal(scale=0.5)) for k in range(2)]
    boxes = [
        Box(f"box{k}", rng.normal(scale=0.6, size=3), rng.uniform(0.1, 0.6, 3), Rotation.random(rng=rng).as_matrix())
        for k in range(2)
    ]
    return Surroundings(tuple(capsules), tuple(planes), tuple(boxes), **options)  # type: ignore[arg-type]


def frames(robot: Robot, q: Array) -> list[Pose]:
    """Every link seen from the base, the base last, by rotation vectors."""
    out: list[Pose] = []
    for joint, at in zip(robot.joints, q, strict=True):
        if joint.is_prismatic:
            moved = Pose(position=joint.axis * at)
        else:
            turn = Rotation.from_rotvec(joint.axis * at).as_matrix()
            moved = Pose(turn, joint.point - turn @ joint.point)
        out.append((Pose() if joint.parent == BASE else out[joint.parent]) @ joint.pose @ moved)
    return [*out, Pose()]


def ends(robot: Robot, capsule: Capsule, q: Array) -> tuple[Array, Array]:
    frame = frames(robot, q)[robot.link_index(capsule.link)]
    return frame.rotation @ capsule.start + frame.position, frame.rotation @ capsule.end + frame.position


def to_box(points: Array, box: Box) -> Array:
    """Signed distance of points (N, 3), the textbook formula."""
    out = np.abs((points - box.centre) @ box.rotation) - 0.5 * box.size
    return np.linalg.norm(np.maximum(out, 0.0), axis=1) + np.minimum(out.max(axis=1), 0.0)


def inside(points: Array, capsule: Capsule) -> Array:
    """By how much points (N, 3) are outside a capsule; negative inside."""
    along = capsule.end - capsule.start
    s = np.clip((points - capsule.start) @ along / max(float(along @ along), 1e-300), 0.0, 1.0)
    return np.linalg.norm(points - capsule.start - s[:, None] * along, axis=1) - capsule.radius


# --- Distances --------------------------------------------------------------------------------------------------------


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=25)
def test_obstacles_stated_in_a_frame_stay_where_they_are(seed: int) -> None:
    rng = np.random.default_rng(seed)
    frame = Pose(Rotation.random(rng=rng).as_matrix(), rng.normal(size=3))
    plane = Plane("wall", rng.normal(size=3), rng.normal())
    box = Box("box", rng.normal(size=3), rng.uniform(0.1, 1.0, 3), Rotation.random(rng=rng).as_matrix())
    x = rng.normal(size=(20, 3))
    seen = x @ frame.rotation.T + frame.position
    placed = plane.placed(frame)
    np.testing.assert_allclose(seen @ placed.normal - placed.offset, x @ plane.normal - plane.offset, atol=1e-12)
    np.testing.assert_allclose(to_box(seen, box.placed(frame)), to_box(x, box), atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("name", ROBOTS)
def test_distances_are_those_of_coal(name: str) -> None:
    """Capsules that overlap too, but for those whose axis enters a box: there coal tells another depth."""
    coal = pytest.importorskip("coal")
    robot = ROBOTS[name]()
    surroundings = scene(1, robot)
    clearance = Clearance.of(robot, surroundings)
    rng = np.random.default_rng(2)
    q = rng.uniform(-2.0, 2.0, (robot.dof, 40))
    found = clearance.distances(q)
    seen = set()
    for s in range(q.shape[1]):
        placed = []
        for capsule in surroundings.capsules:
            a, b = ends(robot, capsule, q[:, s])
            length = float(np.linalg.norm(b - a))
            turn = Rotation.align_vectors([b - a], [[0.0, 0.0, 1.0]])[0].as_matrix() if length else np.eye(3)
            placed.append((coal.Capsule(capsule.radius, length), coal.Transform3s(turn, 0.5 * (a + b))))
        others = (
            # solid where n·x < d
            [(coal.Halfspace(p.normal, p.offset), coal.Transform3s()) for p in surroundings.planes],
            [(coal.Box(*box.size), coal.Transform3s(box.rotation, box.centre)) for box in surroundings.boxes],
            placed,
        )
        for row, (kind, one, two) in zip(found, clearance.pairs, strict=True):
            if kind == 1 and row[s] < -surroundings.capsules[one].radius:
                continue
            request, result = coal.DistanceRequest(), coal.DistanceResult()
            wanted = coal.distance(*placed[one], *others[kind][two], request, result)
            assert row[s] == pytest.approx(wanted, abs=1e-5)
            seen.add((kind, wanted < 0.0))
    assert seen >= {(0, True), (0, False), (1, False), (2, False)}


@pytest.mark.slow
@settings(max_examples=40)
@given(seed=st.integers(0, 10**6))
def test_boxes_are_left_by_the_shortest_way(seed: int) -> None:
    """The least signed distance of any point of the axis, against many points of it."""
    robot = arm(2)
    surroundings = scene(seed, robot, self_collision=False)
    clearance = Clearance.of(robot, surroundings)
    q = np.random.default_rng(seed).uniform(-3.0, 3.0, (2, 3))
    for row, (kind, one, two) in zip(clearance.distances(q), clearance.pairs, strict=True):
        if kind != 1:
            continue
        capsule, box = surroundings.capsules[one], surroundings.boxes[two]
        for s in range(q.shape[1]):
            a, b = ends(robot, capsule, q[:, s])
            along = np.linspace(0.0, 1.0, 4001)[:, None]
            dense = to_box(a + along * (b - a), box).min() - capsule.radius
            slack = float(np.linalg.norm(b - a)) / 4000
            assert dense - slack - 1e-12 <= row[s] <= dense + 1e-12


@settings(max_examples=40)
@given(seed=st.integers(0, 10**6))
def test_distances_do_not_depend_on_where_the_base_stands(seed: int) -> None:
    robot, rng = arm(3), np.random.default_rng(seed)
    surroundings = scene(seed, robot)
    base = Pose(Rotation.random(rng=rng).as_matrix(), rng.normal(size=3))
    moved_robot = replace(
        robot, joints=tuple(replace(j, pose=base @ j.pose) if j.parent == BASE else j for j in robot.joints)
    )
    on_base = surroundings.capsules[0]
    moved = Surroundings(
        (
            Capsule(
                "base",
                base.rotation @ on_base.start + base.position,
                base.rotation @ on_base.end + base.position,
                on_base.radius,
            ),
            *surroundings.capsules[1:],
        ),
        tuple(
            Plane(p.name, base.rotation @ p.normal, p.offset + float(base.rotation @ p.normal @ base.position))
            for p in surroundings.planes
        ),
        tuple(
            Box(b.name, base.rotation @ b.centre + base.position, b.size, base.rotation @ b.rotation)
            for b in surroundings.boxes
        ),
    )
    q = rng.uniform(-2.0, 2.0, (3, 20))
    one, two = Clearance.of(robot, surroundings), Clearance.of(moved_robot, moved)
    assert one.names == two.names
    np.testing.assert_allclose(one.distances(q), two.distances(q), atol=1e-9)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), name=st.sampled_from(sorted(ROBOTS)))
def test_gradients_are_central_differences(seed: int, name: str) -> None:
    """Wherever the distance is smooth, told by differences to both sides that agree, and the axis outside the box."""
    robot = ROBOTS[name]()
    clearance = Clearance.of(robot, scene(seed, robot))
    rng, step = np.random.default_rng(seed), 1e-6
    q = rng.uniform(-2.0, 2.0, (robot.dof, 7))
    here = clearance.distances(q)
    compared = 0
    for p in range(len(clearance)):
        weights = np.zeros_like(here)
        weights[p] = rng.normal(size=7)
        found = clearance.back(q, weights)
        outside = here[p] + clearance.radii[p] > 1e-3
        for j in range(robot.dof):
            shift = step * np.eye(robot.dof)[j][:, None]
            right, left = clearance.distances(q + shift)[p] - here[p], here[p] - clearance.distances(q - shift)[p]
            smooth = outside & (np.abs(right - left) < 1e-4 * step)
            wanted = weights[p] * (right + left) / (2 * step)
            np.testing.assert_allclose(found[j][smooth], wanted[smooth], atol=1e-6)
            compared += np.count_nonzero(smooth)
    assert compared > 0.8 * here.size * robot.dof * np.mean(here + clearance.radii[:, None] > 1e-3)


def test_degenerate_pairs_have_finite_gradients() -> None:
    """Parallel axes, a ball on a ball, crossing axes, a capsule flat on a face and one that lies on the plane."""
    robot = arm(3)
    capsules = tuple(
        Capsule(link, np.array(a, float), np.array(b, float), 0.05)
        for link, a, b in (
            ("base", (0, 0, 0), (0, 0, 1)),
            ("link2", (0, 0, 0), (0, 0, 1)),
            ("link2", (0, 0, 0), (0, 0, 0)),
            ("link3", (0, 0, 0), (0, 0, 1)),
            ("link3", (0, 0, 0), (0, 0, 0)),
        )
    )
    box = Box("box", np.array([0.0, 0.0, -1.0]), np.array([2.0, 2.0, 2.0]))
    plane = Plane("plane", np.array([0.0, 1.0, 0.0]), 0.0)
    robot = replace(robot, joints=tuple(replace(joint, pose=Pose()) for joint in robot.joints))
    clearance = Clearance.of(robot, Surroundings(capsules, (plane,), (box,)))
    q = np.zeros((3, 2))
    distance = clearance.distances(q)
    assert np.all(np.isfinite(distance))
    assert np.all(np.isfinite(clearance.back(q, np.ones_like(distance))))


# --- Pairs ------------------------------------------------------------------------------------------------------------


@cache
def tx40() -> Model:
    robot = read_robot("tx40")
    return Model(robot, named_terms(robot.terms or ()))


def test_neighbours_and_wrists_are_left_out() -> None:
    clearance = Clearance.of(tx40().robot, Surroundings(skeleton(tx40().robot, 0.06), (FLOOR,)))
    for one, two in (("base", "link1"), ("link3", "link4"), ("link5", "link6")):
        assert f"{one} - {two}" not in clearance.names
    neighbours, others = clearance.left_out
    assert "base - link1, link1 - link2, " in neighbours
    assert neighbours.endswith("link5 - link6: neighbours that touch in every posture")
    assert others.endswith("link4 - link6: touch in every posture")
    assert {"link2 - link5", "link3 - floor", "base - link6"} <= set(clearance.names)
    # the base does not move against the floor
    assert "base - floor" not in clearance.names


def test_pairs_are_ignored_as_asked_and_capsules_numbered() -> None:
    robot = arm(3)
    long = [Capsule(link.name, np.zeros(3), np.array([0.0, 0.0, 0.3]), 0.01) for link in robot.links]
    twice = (*long, Capsule("link3", np.zeros(3), np.array([0.1, 0.0, 0.0]), 0.01))
    names = Clearance.of(robot, Surroundings(twice, (FLOOR,))).names
    assert {"link3/1 - floor", "link3/2 - floor", "link1 - link3/2"} <= set(names)
    less = Clearance.of(robot, Surroundings(twice, (FLOOR,), ignored=(("floor", "link3"), ("link1", "link3"))))
    assert set(names) - set(less.names) == {
        "link3/1 - floor",
        "link3/2 - floor",
        "link1 - link3/1",
        "link1 - link3/2",
    }
    assert "link3/1 - floor, link3/2 - floor, link1 - link3/1, link1 - link3/2: ignored on request" in less.left_out
    assert Clearance.of(robot, Surroundings(twice, self_collision=False)).names == ()
    assert "link2: no capsule" in Clearance.of(robot, Surroundings((long[0], long[2]))).left_out


def test_links_at_both_ends_of_a_fork_are_neighbours_of_the_trunk_alone() -> None:
    capsules = tuple(Capsule(f"link{k}", np.zeros(3), np.array([0.1, 0.05, 0.4]), 0.01) for k in (1, 2, 4))
    clearance = Clearance.of(forked(), Surroundings(capsules, margin=0.005))
    # both begin at the end of the trunk, where they always meet
    assert clearance.names == ()
    assert clearance.left_out[0] == "link1 - link2, link1 - link4: neighbours that touch in every posture"
    apart = replace(capsules[2], start=np.array([0.3, 0.0, 0.0]), end=np.array([0.4, 0.0, 0.0]))
    assert Clearance.of(forked(), Surroundings((*capsules[:2], apart))).names == ("link1 - link4", "link2 - link4")


POST = """<robot name="post">
  <link name="ground"><collision><geometry><box size="0.1 0.1 0.1"/></geometry></collision></link>
  <link name="post"><collision><geometry><cylinder radius="0.05" length="1"/></geometry></collision></link>
  <link name="upper"><collision><origin xyz="0.25 0 0" rpy="0 1.5707963267948966 0"/>
    <geometry><cylinder radius="0.05" length="0.5"/></geometry></collision></link>
  <joint name="stand" type="fixed"><origin xyz="0.4 0 0"/><parent link="ground"/><child link="post"/></joint>
  <joint name="turn" type="revolute"><parent link="ground"/><child link="upper"/>
    <axis xyz="0 0 1"/><limit lower="-2" upper="2" effort="1" velocity="1"/></joint>
</robot>
"""


def test_the_first_link_is_kept_from_what_stands_on_the_base(tmp_path: Path) -> None:
    """A post 0.4 m beside the joint is no neighbour of the link, though both hang on the base."""
    (tmp_path / "post.urdf").write_text(POST)
    robot, capsules = read_robot(tmp_path / "post.urdf"), read_capsules(tmp_path / "post.urdf")
    clearance = Clearance.of(robot, Surroundings(capsules))
    assert clearance.names == ("base/2 - upper",)
    assert clearance.left_out == ("base/1 - upper: neighbours that touch in every posture",)
    q = np.linspace(-1.5, 1.5, 31)[None]
    # the post's axis from that of the link, along x turned by q; the link reaches beyond
    radii = capsules[1].radius + capsules[2].radius
    np.testing.assert_allclose(clearance.distances(q)[0], np.abs(0.4 * np.sin(q[0])) - radii, atol=1e-9)


@pytest.mark.parametrize(("margin", "counts"), [(0.0, True), (0.02, True), (0.04, False)])
def test_a_gap_that_neighbours_are_built_with_counts_only_where_it_can_be_kept(margin: float, counts: bool) -> None:
    """Two balls on the joint's axis, 0.03 m apart however it turns."""
    gap = (Capsule("link1", np.zeros(3), np.zeros(3), 0.1), Capsule("base", [0, 0, 0.23], [0, 0, 0.23], 0.1))  # type: ignore[arg-type]
    clearance = Clearance.of(arm(1), Surroundings(gap, margin=margin))
    assert clearance.names == (("link1 - base",) if counts else ())
    told = ("link1 - base: neighbours that are closer than the margin in every posture",)
    assert clearance.left_out == (() if counts else told)


BALL = Capsule("link1", np.zeros(3), np.zeros(3), 0.1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Capsule("link1", np.zeros(3), np.zeros(3), 0.0), r"radius of the capsule of link1 must be a positive"),
        (lambda: Capsule("link1", np.zeros(2), np.zeros(3), 0.1), r"start of the capsule of link1 must be three"),
        (lambda: Plane("floor", np.zeros(3), 0.0), r"normal of plane 'floor' is zero"),
        (lambda: Plane("floor", np.eye(3)[2], np.inf), r"offset of plane 'floor' must be finite"),
        (lambda: Box("crate", np.zeros(3), np.array([1.0, 0.0, 1.0])), r"size of box 'crate' must be three positive"),
        (lambda: Box("crate", np.zeros(3), np.ones(3), np.ones((3, 3))), r"rotation of box 'crate'"),
        (lambda: Surroundings(()), r"need at least one capsule"),
        (lambda: Surroundings((BALL,), margin=-0.1), r"margin must be zero or positive"),
        (lambda: Surroundings((BALL,), (FLOOR, FLOOR)), r"unique name.*'floor'"),
        (lambda: Clearance.of(arm(2), Surroundings((replace(BALL, link="link9"),))), r"Unknown link 'link9'.*link1"),
        (
            lambda: Clearance.of(arm(2), Surroundings((BALL,), (FLOOR,), ignored=(("link1", "flor"),))),
            r"Unknown link, plane or box 'flor'. Did you mean 'floor'",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(make: Callable[[], object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        make()


def test_the_length_of_a_normal_does_not_matter() -> None:
    q = np.zeros((2, 1))
    found = [
        Clearance.of(
            arm(2), Surroundings((BALL,), (Plane("wall", scale * np.array([0.0, 1.0, 1.0]), -2.0),))
        ).distances(q)
        for scale in (1.0, 1e200, 1e-200)
    ]
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


def test_loops_are_refused() -> None:
    robot = arm(3)
    looped = replace(robot, loops=(JointLoop("tied", "joint3", "joint2", (0.0, 1.0)),), actuated=("joint1", "joint2"))
    with pytest.raises(ModelError, match="has loops"):
        Clearance.of(looped, Surroundings((BALL,), (FLOOR,)))


# --- Proofs -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@settings(max_examples=60)
@given(seed=st.integers(0, 10**6), name=st.sampled_from(sorted(ROBOTS)), size=st.floats(1e-3, 3.0))
def test_levers_bound_how_fast_distances_change(seed: int, name: str, size: float) -> None:
    robot, rng = ROBOTS[name](), np.random.default_rng(seed)
    clearance = Clearance.of(robot, scene(seed, robot))
    one = rng.uniform(-2.0, 2.0, (robot.dof, 30))
    two = np.clip(one + size * rng.normal(size=one.shape), -2.0, 2.0)
    levers = clearance.levers(np.full(robot.dof, -2.0), np.full(robot.dof, 2.0))
    change = np.abs(clearance.distances(two) - clearance.distances(one))
    assert np.all(change <= levers @ np.abs(two - one) + 1e-12)


def test_levers_are_those_of_a_straight_arm() -> None:
    """One joint: exactly the distance of the capsule's far end; none that carry both sides of a pair."""
    robot = arm(1)
    capsule = Capsule("link1", np.zeros(3), np.array([0.3, 0.4, 0.7]), 0.1)
    levers = Clearance.of(robot, Surroundings((capsule,), (FLOOR,))).levers(np.zeros(1), np.zeros(1))
    np.testing.assert_allclose(levers, [[np.linalg.norm(np.cross(robot.joints[0].axis, capsule.end))]])
    clearance = Clearance.of(forked(), scene(3, forked()))
    levers = clearance.levers(np.full(4, -2.0), np.full(4, 2.0))
    k = clearance.names.index("link2 - link4")
    assert levers[k, 0] == 0.0
    assert np.all(levers[k, [1, 3]] > 0.0)


POINTS = np.random.default_rng(5).uniform(-1.5, 1.5, (4, 5))
MOTIONS: dict[str, Callable[[], Trajectory]] = {
    "fourier": lambda: FourierFamily(4).trajectory(0.5 * np.random.default_rng(2).normal(size=(4, 7)), 6.0),
    "b-spline": lambda: BSpline(POINTS, 4.0),
    "chain": lambda: chain([Quintic(POINTS, np.arange(5.0)), Quintic(POINTS[:, ::-1], np.arange(5.0))], rest=0.2),
}


@pytest.mark.parametrize("name", MOTIONS)
@pytest.mark.parametrize("margin", [0.0, 0.05])
def test_proofs_hold_and_are_tight(name: str, margin: float) -> None:
    """Never above what dense samples see; below by a tenth of what is left above the margin, or a millimetre."""
    motion, robot = MOTIONS[name](), arm(4)
    clearance = Clearance.of(robot, scene(4, robot, margin=margin))
    seen = clearance.distances(motion.at(np.linspace(0.0, motion.duration, 40_003))[0]).min(axis=1)
    rows = proven_clearance(motion, clearance)
    assert [row.joint for row in rows] == list(clearance.names)
    value = np.array([row.value for row in rows])
    assert np.all(value <= seen)
    assert np.all(seen - value <= np.maximum(1e-3, 0.1 * (seen - margin)) + 1e-4)
    # the verdict is that of the samples: no margin is met so narrowly here
    holds = np.array([row.beyond <= 0.0 for row in rows])
    np.testing.assert_array_equal(holds, seen >= margin)
    assert holds.any()
    assert not holds.all()
    assert all(row.proven and row.quantity == "clearance" and row.limit == margin for row in rows)


def test_a_proof_that_runs_out_of_looks_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    motion, robot = MOTIONS["b-spline"](), arm(4)
    clearance = Clearance.of(robot, scene(4, robot))
    full = proven_clearance(motion, clearance)
    monkeypatch.setattr(clearance_module, "_LOOKS", 600)
    rows = proven_clearance(motion, clearance)
    assert not all(row.proven for row in rows)
    assert all(row.samples <= 600 for row in rows)
    # what it tells is still true for all t
    assert all(row.value <= best.value + 2e-3 for row, best in zip(rows, full, strict=True) if not row.proven)


def test_a_narrow_passage_between_samples_is_seen() -> None:
    """A joint that sweeps past a thin post between two samples of a coarse grid: the proof finds it."""
    robot = arm(1)
    post = Box("post", np.array([0.5, 0.0, 0.0]), np.array([0.01, 0.01, 4.0]))
    tip = Capsule("link1", np.zeros(3), np.array([0.6, 0.0, 0.0]), 0.005)
    robot = replace(robot, joints=(replace(robot.joints[0], pose=Pose(), axis=np.array([0.0, 0.0, 1.0])),))
    clearance = Clearance.of(robot, Surroundings((tip,), boxes=(post,)))
    motion = Quintic(np.array([[-0.5, 0.5]]), np.array([0.0, 1.0]))
    coarse = clearance.distances(motion.at(np.linspace(0.0, 1.0, 10))[0])
    assert coarse.min() > 0.02
    assert proven_clearance(motion, clearance)[0].beyond > 0.0


def test_a_clearance_is_passed_from_above() -> None:
    assert LimitUse("a - b", "clearance", 0.03, 0.02, proven=True).beyond == pytest.approx(-0.01)
    assert LimitUse("a - b", "clearance", 0.01, 0.02, proven=True).beyond == pytest.approx(0.01)
    assert LimitUse("a - b", "clearance", 0.04, 0.02, proven=True).share == pytest.approx(0.5)
    assert LimitUse("a - b", "clearance", -0.01, 0.02, proven=True).share == np.inf


# --- Capsules ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@settings(max_examples=100)
@given(seed=st.integers(0, 10**6), count=st.integers(1, 200), rank=st.integers(0, 3))
def test_capsules_enclose_their_points(seed: int, count: int, rank: int) -> None:
    """Clouds, and points in a plane, on a line and at one place."""
    rng = np.random.default_rng(seed)
    spread = np.exp(rng.normal(size=3)) * (np.arange(3) < rank)
    points = rng.normal(size=(count, 3)) * spread @ Rotation.random(rng=rng).as_matrix() + rng.normal(size=3)
    capsule = enclosing_capsule(points, "link1")
    assert np.all(inside(points, capsule) <= 0.0)
    # and no ball about the middle of their range is smaller
    ball = np.linalg.norm(points - 0.5 * (points.min(axis=0) + points.max(axis=0)), axis=1).max()
    assert capsule.radius <= max(ball, 1e-4) * (1.0 + 1e-6)


def test_a_capsule_is_found_again() -> None:
    rng = np.random.default_rng(0)
    way = rng.normal(size=(4000, 3))
    points = 0.1 * way / np.linalg.norm(way, axis=1)[:, None]
    points[:, 0] += np.where(points[:, 0] > 0.0, 0.3, -0.3)
    turn = Rotation.random(rng=rng).as_matrix()
    capsule = enclosing_capsule(points @ turn.T + [1.0, 2.0, 3.0], "link1")
    assert capsule.radius == pytest.approx(0.1, rel=0.02)
    assert np.linalg.norm(capsule.end - capsule.start) == pytest.approx(0.6, rel=0.03)
    np.testing.assert_allclose(0.5 * (capsule.start + capsule.end), [1.0, 2.0, 3.0], atol=0.01)


@pytest.mark.parametrize("points", [np.zeros((0, 3)), np.zeros(3), np.full((2, 3), np.nan)])
def test_points_that_are_none_are_refused(points: Array) -> None:
    with pytest.raises(DataError, match="capsule of link1"):
        enclosing_capsule(points, "link1")


def test_a_skeleton_reaches_from_joint_to_joint() -> None:
    """At any posture the capsules of links that a joint connects meet in a point of its axis, tools included."""
    robot = tx40().robot
    q = np.random.default_rng(0).uniform(-1.0, 1.0, robot.dof)
    at = {c.link: ends(robot, c, q) for c in skeleton(robot, 0.05)}
    for one, two in (("base", "link1"), ("link1", "link2"), ("link2", "link3"), ("link3", "link4"), ("link5", "link6")):
        assert min(np.linalg.norm(a - b) for a in at[one] for b in at[two]) < 1e-12
    assert np.linalg.norm(at["link2"][1] - at["link2"][0]) == pytest.approx(np.hypot(0.225, 0.035))


@pytest.mark.parametrize("convention", ["dh", "mdh", "urdf"])
def test_a_skeleton_reaches_the_tip_of_a_planar_arm(tmp_path: Path, convention: str) -> None:
    """However frames are placed: how near two links of 1 m come to a wall, in closed form."""
    if convention == "urdf":
        fixed = '<joint name="tip" type="fixed"><origin xyz="1 0 0"/><parent link="b"/><child link="tool0"/></joint>'
        turning = (
            '<joint name="{0}" type="continuous">{3}<parent link="{1}"/><child link="{2}"/><axis xyz="0 0 1"/></joint>'
        )
        (tmp_path / "r.urdf").write_text(
            '<robot name="planar"><link name="base"/><link name="a"/><link name="b"/><link name="tool0"/>'
            + turning.format("one", "base", "a", "")
            + turning.format("two", "a", "b", '<origin xyz="1 0 0"/>')
            + fixed
            + "</robot>"
        )
        robot = read_robot(tmp_path / "r.urdf")
    elif convention == "dh":
        robot = read_robot("planar2r")
    else:
        (tmp_path / "r.toml").write_text(
            'name = "planar"\nconvention = "mdh"\n[[joint]]\nname = "one"\n[[joint]]\nname = "two"\nd = 1.0\n'
        )
        robot = read_robot(tmp_path / "r.toml")
    radius, tip = 0.05, 0.0 if convention == "mdh" else 1.0
    wall = Plane("wall", np.array([0.0, 1.0, 0.0]), -1.3)
    clearance = Clearance.of(robot, Surroundings(skeleton(robot, radius), (wall,)))
    q = np.random.default_rng(0).uniform(-np.pi, np.pi, (2, 200))
    elbow = np.sin(q[0])
    lowest = np.minimum(np.minimum(elbow, elbow + tip * np.sin(q[0] + q[1])), 0.0)
    of_wall = [k for k, name in enumerate(clearance.names) if name.endswith("wall")]
    np.testing.assert_allclose(clearance.distances(q)[of_wall].min(axis=0), lowest + 1.3 - radius, atol=1e-9)
    assert skeleton_length(robot) == pytest.approx(1.0 + tip)


def test_the_base_of_a_skeleton_begins_where_it_stands(tmp_path: Path) -> None:
    (tmp_path / "r.toml").write_text(
        'name = "hung"\nconvention = "mdh"\nbase_xyz = [0, 1, 2]\n[[joint]]\nname = "one"\nr = 0.3\n'
    )
    base = skeleton(read_robot(tmp_path / "r.toml"), 0.05)[0]
    np.testing.assert_allclose([base.start, base.end], [[0.0, 1.0, 2.0], [0.0, 1.0, 2.3]], atol=1e-12)


def test_a_slide_has_a_rail_on_the_link_that_carries_it() -> None:
    robot = slider()
    first = replace(robot.joints[0], limits=Limits(-0.4, 0.6))
    robot = replace(robot, joints=(first, robot.joints[1]))
    rail = next(c for c in skeleton(robot, 0.05) if c.link == "base" and np.linalg.norm(c.end - c.start) > 0.99)
    for at in (-0.4, 0.1, 0.6):
        origin = frames(robot, np.array([at, 0.3]))[0].position
        assert inside(origin[None], rail)[0] < -0.049


# --- Shapes in robot files --------------------------------------------------------------------------------------------

CORNERS = np.array([[0.0, 0.0, 0.0], [0.2, 0.0, 0.1], [0.0, 0.3, 0.0], [0.1, 0.1, 0.4]])
FACES = ((0, 1, 2), (0, 1, 3), (0, 2, 3), (1, 2, 3))


def write_meshes(folder: Path) -> None:
    folder.mkdir(parents=True)
    triangles = [CORNERS[list(face)].astype("<f4") for face in FACES]
    binary = b"solid trap".ljust(80) + struct.pack("<I", len(triangles))
    (folder / "binary.stl").write_bytes(binary + b"".join(bytes(12) + t.tobytes() + bytes(2) for t in triangles))
    text = ["solid tetrahedron"]
    for triangle in triangles:
        text += ["facet normal 0 0 0", "outer loop", *("vertex {} {} {}".format(*c) for c in triangle), "endloop"]
        text += ["endfacet"]
    (folder / "text.stl").write_text("\n".join([*text, "endsolid"]))
    lines = [f"v {x} {y} {z}" for x, y, z in CORNERS] + [f"f {a + 1} {b + 1} {c + 1}" for a, b, c in FACES]
    (folder / "solid.obj").write_text("\n".join(["# a tetrahedron", *lines]))


SHAPES = """
<robot name="r">
  <link name="ground"/>
  <link name="column">
    <visual><geometry><box size="9 9 9"/></geometry></visual>
    <collision><origin xyz="0 0 0.2"/><geometry><box size="0.1 0.2 0.4"/></geometry></collision>
  </link>
  <link name="upper">
    <collision><origin xyz="0.1 0 0" rpy="0 1.5707963 0"/>
      <geometry><cylinder radius="0.05" length="0.3"/></geometry></collision>
    <collision><geometry><sphere radius="0.07"/></geometry></collision>
  </link>
  <link name="tool">
    <visual><origin xyz="0 0 0.05" rpy="0.3 0.2 0.1"/>
      <geometry><mesh filename="MESH" scale="1 2 1"/></geometry></visual>
  </link>
  <joint name="stand" type="fixed"><origin xyz="0 0 0.1"/><parent link="ground"/><child link="column"/></joint>
  <joint name="turn" type="revolute"><origin xyz="0 0 0.5" rpy="0 0.4 0"/><parent link="column"/><child link="upper"/>
    <axis xyz="0 0 1"/><limit lower="-1" upper="1" effort="1" velocity="1"/></joint>
  <joint name="flange" type="fixed"><origin xyz="0.25 0 0" rpy="0 0 1"/><parent link="upper"/><child link="tool"/>
  </joint>
</robot>
"""


@pytest.mark.parametrize("mesh", ["binary.stl", "text.stl", "solid.obj"])
@pytest.mark.parametrize("address", ["meshes/{}", "package://tools/meshes/{}", "package://pack/meshes/{}", "file://{}"])
def test_shapes_of_a_urdf_are_enclosed(tmp_path: Path, mesh: str, address: str) -> None:
    folder = tmp_path / "pack" / "urdf"
    meshes = {"meshes/{}": folder / "meshes", "package://tools/meshes/{}": tmp_path / "tools" / "meshes"}
    where = meshes.get(address, tmp_path / "pack" / "meshes")
    write_meshes(where)
    folder.mkdir(parents=True, exist_ok=True)
    name = address.format(where / mesh if address.startswith("file") else mesh)
    (folder / "r.urdf").write_text(SHAPES.replace("MESH", name))
    box, cylinder, sphere, tool = read_capsules(folder / "r.urdf")
    # lumps sit on the moving link or the base; visuals count only where there is no collision
    assert [c.link for c in (box, cylinder, sphere, tool)] == ["base", "upper", "upper", "upper"]
    corners = np.array(np.meshgrid([-0.05, 0.05], [-0.1, 0.1], [0.1, 0.5])).reshape(3, -1).T
    assert np.all(inside(corners, box) <= 0.0)
    angle = np.linspace(0.0, 2 * np.pi, 100)
    rims = np.concatenate(
        [np.stack([np.full(100, 0.1 + e), 0.05 * np.cos(angle), 0.05 * np.sin(angle)], axis=1) for e in (-0.15, 0.15)]
    )
    assert np.all(inside(rims, cylinder) <= 1e-8)
    np.testing.assert_array_equal(sphere.start, np.zeros(3))
    assert sphere.radius == 0.07
    turn = Rotation.from_euler("xyz", [0.3, 0.2, 0.1]).as_matrix()
    on_tool = (CORNERS * [1.0, 2.0, 1.0]) @ turn.T + [0.0, 0.0, 0.05]
    on_upper = on_tool @ Rotation.from_euler("z", 1.0).as_matrix().T + [0.25, 0.0, 0.0]
    assert np.all(inside(on_upper, tool) <= 1e-7)
    robot = read_robot(folder / "r.urdf")
    clearance = Clearance.of(robot, Surroundings((box, cylinder, sphere, tool), (FLOOR,)))
    # the column carries the joint, which the tool is far from
    assert clearance.names == ("upper/1 - floor", "upper/2 - floor", "upper/3 - floor", "base - upper/3")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("MESH", "meshes/lost.stl", r"link 'tool' <visual> <mesh>: the mesh 'meshes/lost.stl' was not found"),
        ("MESH", "package://other/a.stl", r"the mesh 'package://other/a.stl' was not found"),
        ("MESH", "meshes/shape.dae", r"shape.dae' has an unsupported format. Valid: .stl, .obj"),
        ("MESH", "meshes/empty.obj", r"empty.obj' contains no readable vertices"),
        ("MESH", "meshes/torn.stl", r"torn.stl' contains no readable vertices"),
        ('<sphere radius="0.07"/>', '<cone radius="1"/>', r"Unknown shape 'cone'"),
        ('<sphere radius="0.07"/>', "", r"has no <geometry> with a shape"),
        ('<sphere radius="0.07"/>', "<sphere/>", r"<sphere> has no radius"),
    ],
)
def test_shapes_that_cannot_be_read_are_named(tmp_path: Path, old: str, new: str, message: str) -> None:
    write_meshes(tmp_path / "meshes")
    (tmp_path / "meshes" / "shape.dae").write_text("<COLLADA/>")
    (tmp_path / "meshes" / "empty.obj").write_text("# nothing\n")
    (tmp_path / "meshes" / "torn.stl").write_bytes((tmp_path / "meshes" / "binary.stl").read_bytes()[:-7])
    (tmp_path / "r.urdf").write_text(SHAPES.replace(old, new).replace("MESH", "meshes/solid.obj"))
    with pytest.raises(RobotError, match=message):
        read_capsules(tmp_path / "r.urdf")


BARE = """<robot name="bare">
  <link name="ground"><collision><geometry><box size="0.2 0.2 0.2"/></geometry></collision></link>
  <link name="upper"><visual><geometry><mesh filename="lost.stl"/></geometry></visual></link>
  <link name="fore"/>
  <link name="tool0"/>
  <joint name="one" type="revolute"><parent link="ground"/><child link="upper"/>
    <axis xyz="0 0 1"/><limit lower="-2" upper="2" effort="1" velocity="1"/></joint>
  <joint name="two" type="revolute"><origin xyz="0.5 0 0"/><parent link="upper"/><child link="fore"/>
    <axis xyz="0 1 0"/><limit lower="-2" upper="2" effort="1" velocity="1"/></joint>
  <joint name="tip" type="fixed"><origin xyz="0.4 0 0"/><parent link="fore"/><child link="tool0"/></joint>
</robot>
"""


def test_links_of_which_nobody_states_shapes_get_a_skeleton(tmp_path: Path) -> None:
    """A stated capsule stands for its own link alone, whose mesh need not be there; the file's shapes for theirs."""
    (tmp_path / "r.urdf").write_text(BARE)
    (tmp_path / "limits.toml").write_text(
        'acceleration = 5.0\n[[plane]]\nname = "floor"\nnormal = [0, 0, 1]\noffset = -0.4\n[collision]\nradius = 0.03\n'
        '[[capsule]]\nlink = "upper"\nstart = [0, 0, 0]\nend = [0.5, 0, 0]\nradius = 0.05\n'
    )
    robot = read_robot(tmp_path / "r.urdf")
    allowed = read_limits(tmp_path / "limits.toml", robot, tmp_path / "r.urdf")
    assert allowed.surroundings is not None
    told = next(line for line in allowed.notes if line.startswith("Shapes of the links"))
    assert "1 capsule of 'limits.toml'; 1 capsule enclosing those of 'r.urdf'; a skeleton of 0.03 m radius" in told
    assert "for fore, which have none. It ends at the frame of fore" in told
    base, upper, fore = allowed.surroundings.capsules
    assert (base.link, upper.link, fore.link) == ("base", "upper", "fore")
    assert (upper.radius, fore.radius) == (0.05, 0.03)
    clearance = Clearance.of(robot, allowed.surroundings)
    q = np.stack([np.zeros(50), np.linspace(-1.5, 1.5, 50)])
    found = clearance.distances(q)[clearance.names.index("fore - floor")]
    np.testing.assert_allclose(found, 0.4 - 0.03 + np.minimum(0.0, -0.4 * np.sin(q[1])), atol=1e-12)


def test_tables_have_no_shapes(tmp_path: Path) -> None:
    assert read_capsules("tx40") == ()
    assert read_capsules(tmp_path / "any.toml") == ()
    with pytest.raises(RobotError, match="Cannot read the robot file"):
        read_capsules(tmp_path / "absent.urdf")


GEOMS = """
<mujoco>
  <asset><mesh name="m" vertex="0 0 0  0.2 0 0.1  0 0.3 0  0.1 0.1 0.4"/></asset>
  <worldbody>
    <geom type="plane" size="1 1 1"/>
    <geom type="cylinder" size="0.1 0.2"/>
    <body name="one" pos="0 0 0.4" euler="10 20 30">
      <joint name="a" axis="0 1 0" range="-60 60"/>
      <geom type="box" size="0.05 0.1 0.2" pos="0 0 0.2" euler="30 0 0"/>
      <geom type="sphere" size="5" contype="0" conaffinity="0"/>
      <body name="lump" pos="0.1 0 0.4" euler="0 45 0">
        <geom type="ellipsoid" size="0.05 0.2 0.1" euler="10 50 0"/>
        <body name="two" pos="0 0 0.2">
          <joint name="b" type="slide" axis="1 0 0" range="-1 1"/>
          <geom type="capsule" size="0.04 0.3" euler="0 90 0"/>
          <geom type="mesh" mesh="m" pos="0 0.1 0" euler="90 0 0"/>
        </body>
      </body>
    </body>
  </worldbody>
</mujoco>
"""


def surface(mujoco: object, model: object, geom: int, rng: np.random.Generator) -> Array:
    """Points on or in a geom, in its own frame."""
    kind, size = int(model.geom_type[geom]), np.array(model.geom_size[geom])  # type: ignore[attr-defined]
    kinds = mujoco.mjtGeom  # type: ignore[attr-defined]
    way = rng.normal(size=(500, 3))
    ball = way / np.linalg.norm(way, axis=1)[:, None]
    if kind == int(kinds.mjGEOM_BOX):
        return np.sign(way) * size
    if kind == int(kinds.mjGEOM_ELLIPSOID):
        return ball * size
    if kind == int(kinds.mjGEOM_CAPSULE):
        return ball * size[0] + np.sign(way[:, 2:]) * [0.0, 0.0, size[1]]
    if kind == int(kinds.mjGEOM_CYLINDER):
        ring = way[:, :2] / np.linalg.norm(way[:, :2], axis=1)[:, None] * size[0]
        return np.column_stack([ring, np.sign(way[:, 2]) * size[1]])
    return np.array(model.mesh_vert)  # type: ignore[attr-defined]


def test_geoms_of_an_mjcf_are_enclosed_as_mujoco_places_them(tmp_path: Path) -> None:
    mujoco = pytest.importorskip("mujoco")
    path = tmp_path / "r.xml"
    path.write_text(GEOMS)
    robot, capsules = read_robot(path), read_capsules(path)
    assert [c.link for c in capsules] == ["base", "one", "one", "two", "two"]
    model = mujoco.MjModel.from_xml_path(str(path))
    data, rng = mujoco.MjData(model), np.random.default_rng(0)
    data.qpos[:] = q = np.array([0.3, -0.4])
    mujoco.mj_kinematics(model, data)
    solid = [g for g in range(model.ngeom) if model.geom_contype[g] and model.geom_type[g] != 0]
    for geom, capsule in zip(solid, capsules, strict=True):
        world = surface(mujoco, model, geom, rng) @ data.geom_xmat[geom].reshape(3, 3).T + data.geom_xpos[geom]
        start, end = ends(robot, capsule, q)
        placed = replace(capsule, start=start, end=end)
        assert np.all(inside(world, placed) <= 1e-8)
        # and it fits: something of the shape is near the surface
        assert inside(world, placed).max() > -0.02


# --- Designs ----------------------------------------------------------------------------------------------------------

TABLE = Box("table", np.array([0.45, 0.0, 0.1]), np.array([0.2, 0.5, 0.3]))
MARGIN = 0.02


def around_tx40() -> Surroundings:
    """A skeleton with a tool of 15 cm over a floor and beside a table."""
    links = [capsule for capsule in skeleton(tx40().robot, 0.06) if capsule.link != "link6"]
    tool = Capsule("link6", np.zeros(3), np.array([0.0, 0.0, 0.15]), 0.04)
    return Surroundings((*links, tool), (FLOOR,), (TABLE,), margin=MARGIN)


@cache
def designed(clear: bool) -> Design:
    limits = MotionLimits.of(tx40().robot, 10.0, torque_share=0.6)
    surroundings = around_tx40() if clear else None
    return design_excitation(
        tx40(), limits, 10.0, noise=0.5, starts=1, iterations=120, seed=2, surroundings=surroundings
    )


@pytest.mark.slow
def test_tx40_stays_clear_at_a_hundred_times_finer_sampling() -> None:
    """Floor, table and itself; the design without them, from the same seed, runs into all three."""
    clearance = Clearance.of(tx40().robot, around_tx40())
    t = np.linspace(0.0, 10.0, 50_001)
    design = designed(clear=True)
    distance = clearance.distances(design.trajectory.at(t)[0]).min(axis=1)
    assert np.all(distance >= MARGIN)
    assert design.holds
    told = {row.joint: row for row in design.limits if row.quantity == "clearance"}
    assert tuple(told) == clearance.names
    assert all(row.proven and MARGIN <= row.value <= seen for row, seen in zip(told.values(), distance, strict=True))
    # it uses the room there is, and still shows everything
    assert distance.min() < MARGIN + 2 * SPARE
    assert not design.forecast.unseen
    assert any("23 pairs kept at least 0.02 m apart" in line and "link4 - link6" in line for line in design.history)
    free = clearance.distances(designed(clear=False).trajectory.at(t)[0]).min(axis=1)
    passed = {name for name, seen in zip(clearance.names, free, strict=True) if seen < MARGIN}
    assert {"link6 - floor", "link6 - table", "link2 - link6"} <= passed


def test_without_surroundings_nothing_changes() -> None:
    assert "clearance" not in {row.quantity for row in designed(clear=False).limits}


def wall_of(model: Model, offset: float = 0.0) -> Surroundings:
    """A wall beside an arm that it can reach with its last links."""
    return Surroundings(skeleton(model.robot, 0.03), (Plane("wall", np.array([-1.0, 0.3, 0.2]), offset),), margin=0.01)


@pytest.mark.slow
def test_same_seed_same_motion_beside_a_wall() -> None:
    model = model_of(arm(3))
    surroundings = wall_of(model, -0.35)
    free, one, two = (
        design_excitation(
            model,
            MotionLimits.of(model.robot, 20.0),
            5.0,
            family=BSplineFamily(9),
            noise=0.5,
            starts=2,
            iterations=60,
            surroundings=what,
        )
        for what in (None, surroundings, surroundings)
    )
    assert one.trace == two.trace
    assert one.holds
    # the wall is in the way of what would be done without it
    clearance = Clearance.of(model.robot, surroundings)
    t = np.linspace(0.0, 5.0, 10_001)
    assert clearance.distances(free.trajectory.at(t)[0]).min() < 0.0
    assert clearance.distances(one.trajectory.at(t)[0]).min() >= surroundings.margin


def beside_a_post(rate_hz: float) -> Design:
    """One joint, and a thin post in the way of its link."""
    model = model_of(arm(1))
    joint = model.robot.joints[0]
    at = (
        joint.pose @ Pose(Rotation.from_rotvec(0.3 * joint.axis).as_matrix()) @ Pose(position=np.array([0.5, 0.0, 0.0]))
    )
    link = Capsule("link1", np.zeros(3), np.array([0.6, 0.0, 0.0]), 0.005)
    post = Box("post", at.position, np.full(3, 0.01))
    return design_excitation(
        model,
        MotionLimits.of(model.robot, 20.0),
        10.0,
        noise=0.5,
        starts=1,
        rate_hz=rate_hz,
        surroundings=Surroundings((link,), boxes=(post,)),
    )


def test_few_rows_do_not_let_a_thin_post_through() -> None:
    assert beside_a_post(3.0).holds


def test_what_slips_through_between_samples_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The proof has the last word: a search that looks too seldom ends with an error, not with a motion."""
    monkeypatch.setattr(planning, "CLEAR_RATE_HZ", 3.0)
    with pytest.raises(EstimationError, match=r"link1 - post are 0\.\d+ m closer than 0 m, even .* faster than 3 Hz"):
        beside_a_post(3.0)


def test_the_objective_has_an_exact_gradient() -> None:
    """Criterion and barrier together, near a wall, against central differences."""
    model = model_of(arm(3))
    base, family = base_parameters(model), FourierFamily(3)
    x = 0.05 * np.random.default_rng(0).normal(size=3 * family.size)

    def plan_with(surroundings: Surroundings) -> DesignObjective:
        return DesignObjective(
            model=model,
            base=base,
            loads=("none",),
            family=family,
            duration=3.0,
            rate_hz=50.0,
            noise=np.ones(3),
            limits=MotionLimits.of(model.robot, 20.0),
            score=DOptimal().bound(base, None),
            clearance=Clearance.of(model.robot, surroundings),
            spare=0.005,
        )

    far = wall_of(model, -5.0)
    nearest = Clearance.of(model.robot, far).distances(plan_with(far).motions(x)[0].q)[:3].min()
    plan = plan_with(wall_of(model, -5.0 + float(nearest) - 0.03))
    assert plan.room(x) == pytest.approx(0.015)
    found, step = plan.objective(x, 0.1).gradient, 1e-5

    def slope(e: Array, h: float) -> float:
        return (plan.objective(x + h * e, 0.1).value - plan.objective(x - h * e, 0.1).value) / (2 * h)

    # extrapolated from two steps: with one step small enough for 1e-6, rounding is as large
    wanted = [(4.0 * slope(e, step) - slope(e, 2.0 * step)) / 3.0 for e in np.eye(len(x))]
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6 * np.abs(found).max())
    # and the barrier is part of it
    assert np.abs(found - plan.objective(x, 0.0).gradient).max() > 1e-3


@settings(max_examples=20)
@given(room=st.floats(1e-6, 2 * REACH))
def test_the_barrier_ends_smoothly(room: float) -> None:
    """Zero from `REACH` on, falling before, its slope that of its height."""
    step = 1e-6 * room
    height, slope = barrier(np.array([room - step, room, room + step]))
    assert slope[1] == pytest.approx((height[2] - height[0]) / (2 * step), rel=1e-5, abs=1e-4)
    assert height[1] >= 0.0 >= slope[1]
    if room > REACH + step:
        assert height[1] == slope[1] == 0.0


def test_where_nothing_is_clear_the_pair_is_named() -> None:
    model = model_of(arm(3))
    limits = MotionLimits.of(model.robot, 20.0)
    ceiling = Plane("ceiling", np.array([0.0, 0.0, -1.0]), 0.3)
    surroundings = Surroundings(skeleton(model.robot, 0.03), (ceiling,))
    with pytest.raises(DataError, match=r"None of 2000 postures.*link\d - ceiling are -?0\.\d+ m apart.*less than"):
        design_excitation(model, limits, 5.0, surroundings=surroundings)


def test_a_posture_is_refused_by_joint_or_pair_and_by_how_much() -> None:
    robot = tx40().robot
    limits, clearance = MotionLimits.of(robot, 10.0), Clearance.of(robot, around_tx40())
    t = np.linspace(0.0, 10.0, 101)
    good = designed(clear=True).trajectory.at(t)[0][:, 0]
    check_posture(clearance, limits, good, "The start", robot)
    check_posture(None, limits, good, "The start", robot)
    far = good.copy()
    far[2] = limits.upper[2] + 0.25
    with pytest.raises(DataError, match=r"The start has joint3 at .* rad, 0.25 rad above the upper limit"):
        check_posture(clearance, limits, far, "The start", robot)
    free = designed(clear=False).trajectory.at(t)[0]
    worst = free[:, int(np.argmin(clearance.distances(free).min(axis=0)))]
    with pytest.raises(DataError, match=r"The start: link\d - \w+ overlap by 0.\d+ m, 0.\d+ m short of the margin"):
        check_posture(clearance, limits, worst, "The start", robot)
    with pytest.raises(DataError, match=r"The start must be 6 finite numbers, for joint1, joint2"):
        check_posture(clearance, limits, good[:3], "The start", robot)
