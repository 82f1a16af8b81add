"""Springs and balancers: geometry against energy, closed forms and MuJoCo; their files; what `check` says of them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard._arrays import Array
from steelyard.errors import ModelError, RobotError
from steelyard.findings import Finding
from steelyard.formats.robots import read_robot
from steelyard.formats.robots.assembly import lumped
from steelyard.formats.robots.toml import read_table
from steelyard.formats.robots.toml_springs import SpringTable, with_springs
from steelyard.identification.identify import identify
from steelyard.model.base_parameters import base_parameters
from steelyard.model.model import Model
from steelyard.model.pose import Pose
from steelyard.model.robot import Limits, Lump, Robot
from steelyard.model.springs import Anchor, ConstantForceSpring, CrankSpring, JointSpring, Spring, TensionSpring
from steelyard.model.terms import DEFAULT_TERMS, Motion, Springs, named_term, named_terms, plain_terms
from steelyard.model.terms.compensator import compensator_torque
from steelyard.model.terms.laws import crank
from steelyard.model.terms.springs import nominal_spring_torque
from steelyard.motion.random import random_fourier
from steelyard.project.checks import check
from steelyard.project.checks.channel_map.trial import Trial
from steelyard.project.checks.springs import spring_findings
from steelyard.project.checks.tracks import Trace
from steelyard.project.checks.wrong_robot import check_terms
from steelyard.project.project import read_project
from steelyard.regression.problem import Problem
from steelyard.signals.samples import Samples
from testbed.trees import KINDS, link_poses, mjcf_text, random_state, random_tree

ROOT = Path(__file__).resolve().parents[2]
seeds = st.integers(0, 2**32 - 1)
sizes = st.integers(1, 7)


def random_ends(rng: np.random.Generator, robot: Robot) -> tuple[Anchor, Anchor]:
    names = [robot.base, *(link.name for link in robot.links)]
    first, second = (names[k] for k in rng.permutation(len(names))[:2])
    return Anchor(first, rng.uniform(-0.5, 0.5, 3)), Anchor(second, rng.uniform(-0.5, 0.5, 3))


def random_springs(rng: np.random.Generator, robot: Robot) -> tuple[Spring, ...]:
    """One of every kind, with and without what is free; a crank only where a joint turns."""
    turning = [joint.name for joint in robot.joints if not joint.is_prismatic]
    joint = robot.joint_names[rng.integers(robot.dof)]
    springs: list[Spring] = [
        JointSpring("a", joint),
        JointSpring("b", joint, 0.3),
        TensionSpring("c", random_ends(rng, robot)),
        TensionSpring("d", random_ends(rng, robot), 0.2),
        ConstantForceSpring("e", random_ends(rng, robot)),
    ]
    if turning:
        springs += [CrankSpring("f", turning[0], 0.7, 0.2, 0.4), CrankSpring("g", turning[0], 0.7, 0.2, 0.4, 0.1)]
    return tuple(springs)


def sprung(seed: int, joints: int, *, off_axis: bool = True) -> tuple[Robot, np.random.Generator]:
    rng = np.random.default_rng(seed)
    robot = random_tree(rng, joints, off_axis=off_axis)
    return replace(robot, springs=random_springs(rng, robot)), rng


def spring_model(robot: Robot) -> Model:
    return Model(robot, [Springs()])


def energies(robot: Robot, q: Array) -> dict[str, float]:
    """What a unit of every column stores at one q (n,), from the poses of the links alone."""
    places = {robot.base: Pose()} | {k.name: p for k, p in zip(robot.links, link_poses(robot, q), strict=True)}
    out: dict[str, float] = {}

    def pulls(name: str, length: float, free: float | None) -> None:
        if free is None:
            out.update({f"{name}.Kr": length**2 / 2, f"{name}.K0": length})
        else:
            out[f"{name}.Kr"] = (length - free) ** 2 / 2

    for spring in robot.springs:
        if isinstance(spring, JointSpring):
            x = q[robot.joint_index(spring.joint)]
            out[f"{spring.name}.K"] = (x - (spring.free or 0.0)) ** 2 / 2
            if spring.free is None:
                out[f"{spring.name}.K0"] = x
        elif isinstance(spring, CrankSpring):
            delta = q[robot.joint_index(spring.joint)] + spring.angle
            below = np.array([spring.anchor_below, 0.0])
            above = spring.anchor_above * np.array([np.cos(delta), np.sin(delta)])
            pulls(spring.name, float(np.linalg.norm(above - below)), spring.free)
        else:
            first, second = (places[e.link].rotation @ e.point + places[e.link].position for e in spring.ends)
            length = float(np.linalg.norm(second - first))
            if isinstance(spring, ConstantForceSpring):
                out[f"{spring.name}.F"] = length
            else:
                pulls(spring.name, length, spring.free)
    return out


# --- Geometry ---------------------------------------------------------------------------------------------------------


@given(seeds, sizes)
def test_every_column_is_the_derivative_of_its_energy(seed: int, joints: int) -> None:
    robot, rng = sprung(seed, joints)
    model = spring_model(robot)
    state = random_state(rng, robot, 1)
    w = model.regressor(*state)[:, :, 0]
    q, h = state.q[:, 0], 1e-5
    for j in range(robot.dof):
        step = h * np.eye(robot.dof)[j]
        above, below = energies(robot, q + step), energies(robot, q - step)
        for name in above:
            slope = (above[name] - below[name]) / (2 * h)
            assert w[j, model.layout.index(name)] == pytest.approx(slope, rel=1e-6, abs=1e-6), name
    assert sum(c.kind == "spring" for c in model.layout.columns) == len(energies(robot, q))


@given(seeds)
def test_a_two_point_spring_at_the_right_anchors_is_the_crank(seed: int) -> None:
    rng = np.random.default_rng(seed)
    robot = read_robot("kr270")
    [balancer] = robot.springs
    assert isinstance(balancer, CrankSpring)
    # with the crank along x of link 2, the other end stands at δ = q + angle before it in the frame of link 1
    row = robot.joint_index(balancer.joint)
    here = robot.joints[row].pose
    back = here.rotation @ np.array([np.cos(balancer.angle), -np.sin(balancer.angle), 0.0])
    ends = (
        Anchor("link1", here.position + balancer.anchor_below * back),
        Anchor("link2", np.array([balancer.anchor_above, 0.0, 0.0])),
    )
    q = rng.uniform(-np.pi, np.pi, (robot.dof, 20))
    for free in (None, 0.4):
        closed = replace(robot, springs=(replace(balancer, free=free),))
        geometric = replace(robot, springs=(TensionSpring("spring", ends, free),))
        first, second = (Springs().fill(r, Motion(q, q, q)) for r in (closed, geometric))
        assert [e.row for e in Springs().entries(geometric)] == [row] * len(first)
        assert np.abs(first - second).max() < 1e-12


def test_the_gas_cylinder_has_the_same_triangle() -> None:
    cylinder = read_robot(ROOT / "examples/real/robots/kr300-150kg.toml").compensator
    assert cylinder is not None
    q = np.linspace(-2.2, 0.0, 30)
    below, above, delta = cylinder.anchor_below, cylinder.anchor_above, q + cylinder.angle
    length, stretch = crank(below, above, delta)
    np.testing.assert_allclose(length**2, below**2 + above**2 - 2 * below * above * np.cos(delta), rtol=1e-13)
    area = math.pi / 4 * (cylinder.piston_diameter**2 - cylinder.rod_diameter**2)
    gas = cylinder.compressibility * cylinder.gas_constant * cylinder.temperature * cylinder.gas_mass
    pressure = gas / (cylinder.gas_volume - (length - (below - above)) * area)
    np.testing.assert_allclose(compensator_torque(cylinder, q), stretch / length * pressure * area, rtol=1e-13)


def test_a_spring_of_no_length_gives_numbers() -> None:
    robot = read_robot("planar2r")
    reach = robot.joints[1].pose.position[0]
    ends = (Anchor("base", np.array([2.0 * reach, 0.0, 0.0])), Anchor("link2", np.array([reach, 0.0, 0.0])))
    robot = replace(
        robot,
        springs=(
            TensionSpring("t", ends), TensionSpring("u", ends, 0.1), ConstantForceSpring("c", ends),
            CrankSpring("k", "joint1", 0.3, 0.3, 0.0),
        ),
    )  # fmt: skip
    q = np.array([[0.0, 1e-9, 0.2], [0.0, 0.0, 0.1]])
    values = Springs().fill(robot, Motion(q, q, q))
    assert np.isfinite(values).all()
    assert np.all(values[:, 0] == 0.0)
    assert np.abs(values[:, 2]).min() > 0.0


def test_joints_that_carry_both_ends_feel_nothing() -> None:
    """Links 3 and 4 hang on link 2 (joint 2 on joint 1): only joints 3 and 4 change what is between them."""
    rng = np.random.default_rng(2)
    robot = random_tree(rng, 4, chain=True)
    joints = tuple(replace(joint, parent=parent) for joint, parent in zip(robot.joints, (-1, 0, 1, 1), strict=True))
    ends = (Anchor("link3", rng.normal(size=3)), Anchor("link4", rng.normal(size=3)))
    robot = replace(robot, joints=joints, springs=(TensionSpring("spring", ends),))
    assert {entry.row for entry in Springs().entries(robot)} == {2, 3}
    w = spring_model(robot).regressor(*random_state(rng, robot, 5))
    assert np.all(w[:2, -2:] == 0.0)
    assert np.abs(w[2:, -2:]).min() > 0.0


def test_forward_dynamics_undoes_the_torque() -> None:
    robot, rng = sprung(3, 5)
    model = Model(robot, named_terms(("rotor", "springs")))
    theta = np.array([1.0 if c.nominal is None else c.nominal for c in model.layout.columns])
    state = random_state(rng, robot, 8)
    given_back = model.forward(state.q, state.v, model.torque(*state, theta), theta)
    assert np.abs(given_back - state.a).max() < 1e-8 * np.abs(state.a).max()


def test_nominal_torque_is_that_of_the_stated_columns() -> None:
    robot, rng = sprung(5, 4)
    model = spring_model(robot)
    stated = {c.name: float(rng.normal()) for c in model.layout.columns if c.kind == "term" and c.symbol != "K0"}
    robot = replace(robot, nominal=stated)
    q = rng.normal(size=(4, 6))
    w = spring_model(robot).regressor(q, 0 * q, 0 * q)
    wanted = sum(x * w[:, model.layout.index(name)] for name, x in stated.items())
    np.testing.assert_allclose(nominal_spring_torque(robot, q), wanted, atol=1e-12)
    assert np.all(nominal_spring_torque(replace(robot, nominal={}), q) == 0.0)


# --- MuJoCo -----------------------------------------------------------------------------------------------------------


def sprung_mjcf(robot: Robot, stiffness: float) -> str:
    """MJCF of a robot whose tension springs are tendons and whose joint springs are stiffnesses."""

    def numbers(values: Any) -> str:
        return " ".join(repr(float(x)) for x in values)

    text, tendons = mjcf_text(robot), ""
    for spring in robot.springs:
        if isinstance(spring, TensionSpring):
            for k, end in enumerate(spring.ends):
                site = f'<site name="{spring.name}{k}" pos="{numbers(end.point)}"/>'
                opening = "<worldbody>" if end.link == robot.base else rf'<body name="{end.link}"[^>]*>'
                text = re.sub(f"({opening})", lambda found, site=site: found.group(1) + site, text, count=1)
            sites = "".join(f'<site site="{spring.name}{k}"/>' for k in (0, 1))
            free = "" if spring.free is None else f' springlength="{spring.free!r}"'
            tendons += f'<spatial name="{spring.name}" stiffness="{stiffness!r}"{free}>{sites}</spatial>'
        elif isinstance(spring, JointSpring):
            pattern = rf'(<joint name="{spring.joint}"[^>]*) stiffness="0"'
            text = re.sub(pattern, rf'\1 stiffness="{stiffness!r}" springref="{spring.free!r}"', text)
    return text.replace("</mujoco>", f"<tendon>{tendons}</tendon></mujoco>" if tendons else "</mujoco>")


@pytest.mark.parametrize("seed", range(30))
def test_two_points_equal_a_tendon_of_mujoco(seed: int, tmp_path: Path) -> None:
    mujoco = pytest.importorskip("mujoco")
    rng = np.random.default_rng(seed)
    robot = replace(random_tree(rng, 1 + seed % 8, off_axis=seed % 2 == 1), base="world")
    ends = random_ends(rng, robot)
    robot = replace(robot, springs=(TensionSpring("rope", ends, 0.3), ConstantForceSpring("force", ends)))
    path = tmp_path / "robot.xml"
    path.write_text(sprung_mjcf(robot, 70.0))
    oracle = mujoco.MjModel.from_xml_path(str(path))
    data = mujoco.MjData(oracle)
    read = read_robot(path)
    [rope] = read.springs
    assert isinstance(rope, TensionSpring)
    assert rope.free == 0.3
    assert read.nominal == {"rope.Kr": 70.0}
    order = [robot.joint_index(name) for name in read.joint_names]
    model = spring_model(robot)
    q = rng.uniform(-np.pi, np.pi, (robot.dof, 5))
    w = model.regressor(q, 0 * q, 0 * q)
    for s in range(q.shape[1]):
        data.qpos[:] = q[order, s]
        mujoco.mj_forward(oracle, data)
        jacobian = np.zeros(robot.dof)
        first, count = int(oracle.ten_J_rowadr[0]), int(oracle.ten_J_rownnz[0])
        places = [order[k] for k in oracle.ten_J_colind[first : first + count]]
        jacobian[places] = np.ravel(data.ten_J)[first : first + count]
        force = np.zeros(robot.dof)
        force[order] = data.qfrc_passive
        size = max(np.abs(force).max(), 1.0)
        assert energies(robot, q[:, s])["force.F"] == pytest.approx(data.ten_length[0], abs=1e-10)
        assert np.abs(w[:, model.layout.index("force.F"), s] - jacobian).max() < 1e-10
        assert np.abs(70.0 * w[:, model.layout.index("rope.Kr"), s] + force).max() < 1e-10 * size
        given_torque = nominal_spring_torque(read, q[order, s : s + 1])[:, 0]
        assert np.abs(given_torque + data.qfrc_passive).max() < 1e-10 * size


@pytest.mark.parametrize("kind", KINDS)
def test_joint_springs_equal_mujoco(kind: str, tmp_path: Path) -> None:
    mujoco = pytest.importorskip("mujoco")
    rng = np.random.default_rng(1)
    robot = random_tree(rng, 4, off_axis=True)
    number = next((k for k, joint in enumerate(robot.joints) if joint.kind == kind), 0)
    joints = tuple(replace(j, kind=kind) if k == number else j for k, j in enumerate(robot.joints))
    name = robot.joint_names[number]
    robot = replace(robot, joints=joints, springs=(JointSpring("s", name, 0.4),))
    path = tmp_path / "robot.xml"
    path.write_text(sprung_mjcf(robot, 12.0))
    read = read_robot(path)
    assert read.springs == (JointSpring(f"{name}_spring", name, 0.4),)
    assert read.nominal == {f"{name}_spring.K": 12.0}
    assert plain_terms(read) == (*DEFAULT_TERMS, "springs")
    model = spring_model(read)
    column = model.layout.columns[model.layout.index(f"{name}_spring.K")]
    assert (column.unit, column.nominal) == ("N/m" if kind == "prismatic" else "N.m/rad", 12.0)
    assert column.width == pytest.approx(0.2 * 12.0)
    oracle = mujoco.MjModel.from_xml_path(str(path))
    data = mujoco.MjData(oracle)
    for q in rng.uniform(-2.0, 2.0, (5, 4)):
        data.qpos[:] = q
        mujoco.mj_forward(oracle, data)
        assert np.abs(nominal_spring_torque(read, q[:, None])[:, 0] + data.qfrc_passive).max() < 1e-12


BODY = '<body name="b"><joint name="j"/><geom size="0.1"/><site name="t" pos="0.2 0.1 0.3"/>{}</body>'
ROPE = '<tendon><spatial name="rope" {}><site site="w"/><site site="t"/></spatial></tendon>'


def cell(tendon: str, body: str = "", joint: str = "", option: str = "") -> str:
    inside = BODY.format(body).replace('name="j"', f'name="j" {joint}')
    return f'<mujoco>{option}<worldbody><site name="w" pos="0 0 1"/>{inside}</worldbody>{tendon}</mujoco>'


@pytest.mark.parametrize(
    "tendon",
    [
        ROPE.format('stiffness="5" damping="1"'),
        ROPE.format('stiffness="5" springlength="0.1 0.4"'),
        ROPE.format('stiffness="5"').replace("</spatial>", '<site site="w"/></spatial>'),
        '<tendon><fixed name="rope" stiffness="5"><joint joint="j" coef="1"/></fixed></tendon>',
    ],
)
def test_tendons_that_are_more_than_springs_are_refused(tendon: str, tmp_path: Path) -> None:
    pytest.importorskip("mujoco")
    path = tmp_path / "cell.xml"
    path.write_text(cell(tendon))
    with pytest.raises(RobotError, match=r"a tendon \(rope\) with stiffness.*: only a <spatial> tendon"):
        read_robot(path)


def test_limits_of_a_tendon_do_not_change_its_spring(tmp_path: Path) -> None:
    pytest.importorskip("mujoco")
    path = tmp_path / "cell.xml"
    springs = []
    for limits in ("", 'range="0 2" limited="true"'):
        path.write_text(cell(ROPE.format(f'stiffness="5" springlength="0.4" {limits}')))
        springs.append(read_robot(path).springs[0])
    assert repr(springs[0]) == repr(springs[1])


def test_tendons_on_bodies_without_joints_are_carried_by_the_moving_one(tmp_path: Path) -> None:
    pytest.importorskip("mujoco")
    flange = '<body name="f" pos="0 0 0.5" euler="0 0 90"><geom size="0.1"/><site name="u" pos="0.1 0 0"/></body>'
    path = tmp_path / "cell.xml"
    path.write_text(cell(ROPE.format('stiffness="5" springlength="0.4"').replace('"t"', '"u"'), flange))
    [rope] = read_robot(path).springs
    assert isinstance(rope, TensionSpring)
    assert [end.link for end in rope.ends] == ["world", "b"]
    np.testing.assert_allclose(rope.ends[1].point, [0.0, 0.1, 0.5], atol=1e-12)
    path.write_text(cell(ROPE.format('stiffness="5"'), option='<option><flag spring="disable"/></option>'))
    assert read_robot(path).springs == ()


# --- Robot files ------------------------------------------------------------------------------------------------------

ARM = b"""
name = "arm"
convention = "mdh"
[[joint]]
name = "turn"
[[joint]]
name = "slide"
kind = "prismatic"
alpha = "pi/2"
[[joint]]
name = "flange"
kind = "fixed"
r = 0.1
"""


def arm(*tables: str) -> Robot:
    return read_table(ARM + "".join(f"\n[[spring]]\n{table}\n" for table in tables).encode(), "arm.toml")


def test_every_kind_can_be_written_in_a_robot_file() -> None:
    robot = arm(
        'kind = "joint"\njoint = "turn"\nname = "coil"\nfree = "pi/2"',
        'kind = "crank"\njoint = "turn"\nanchor_below = 0.7\nanchor_above = 0.2\nangle = "-pi/2"\nname = "crank"',
        'kind = "tension"\nlinks = ["base", "link2"]\npoints = [[0, 0, 1], [0.1, 0, 0]]\nfree = 0.5',
        'kind = "constant-force"\nname = "reel"\nlinks = ["link3", "link1"]\npoints = [[1, 0, 0], [0, 0, 0]]',
    )
    coil, crank_spring, tension, reel = robot.springs
    assert coil == JointSpring("coil", "turn", math.pi / 2)
    assert crank_spring == CrankSpring("crank", "turn", 0.7, 0.2, -math.pi / 2)
    assert isinstance(tension, TensionSpring)
    assert isinstance(reel, ConstantForceSpring)
    assert (tension.name, tension.free, tension.ends[0].link) == ("spring", 0.5, "base")
    # link 3 is fixed to link 2, 0.1 m along its z
    assert reel.ends[0].link == "link2"
    np.testing.assert_allclose(reel.ends[0].point, [1.0, 0.0, 0.1])
    assert [c.name for c in spring_model(robot).layout.columns[-5:]] == [
        "coil.K", "crank.Kr", "crank.K0", "spring.Kr", "reel.F",
    ]  # fmt: skip
    assert plain_terms(robot) == (*DEFAULT_TERMS, "springs")


TWO = 'links = ["base", "link2"]\npoints = [[0, 0, 1], [0.1, 0, 0]]'


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        (['kind = "cranck"'], r"spring 'spring': Unknown kind 'cranck'. Did you mean 'crank'\? Valid: joint, cr"),
        (["name = 'x'"], r"spring 'x': .*`kind`"),
        (['kind = "joint"'], "spring 'spring' of kind 'joint' lacks joint"),
        (['kind = "joint"\njoint = "trun"'], r"Spring 'spring': Unknown joint 'trun'. Did you mean 'turn'\?"),
        (['kind = "joint"\njoint = "turn"\nangle = 1.0'], r"Unknown key 'angle'. Valid: name, joint, free"),
        (['kind = "joint"\njoint = "turn"\nfrei = 1.0'], r"Unknown key 'frei'. Did you mean 'free'\?"),
        (['kind = "joint"\njoint = "turn"\nfree = "half"'], "'half' is not an angle"),
        (['kind = "joint"\njoint = "turn"\nfree = inf'], "inf is not a finite number"),
        (['kind = "crank"\njoint = "turn"\nangle = 0'], "of kind 'crank' lacks anchor_below, anchor_above"),
        (['kind = "crank"\njoint = "turn"\nangle = 0\nanchor_below = -1\nanchor_above = 1'], "positive lengths"),
        (['kind = "crank"\njoint = "slide"\nangle = 0\nanchor_below = 1\nanchor_above = 1'], "Use kind 'tension'"),
        ([f'kind = "tension"\n{TWO}\nfree = "pi"'], "free is a length in metres"),
        (['kind = "tension"\nlinks = ["base", "link2"]'], "of kind 'tension' lacks points"),
        ([f'kind = "tension"\n{TWO}'.replace("link2", "link9")], r"Unknown link 'link9'.*Valid: base, link1, link2"),
        ([f'kind = "tension"\n{TWO}'.replace("base", "link3")], "both ends are on 'link2', so no joint moves it"),
        ([f'kind = "tension"\n{TWO}'.replace("[0, 0, 1]", "[0, 1]")], "spring number 1: .*length 3"),
        ([f'kind = "constant-force"\n{TWO}\nfree = 1.0'], "of kind 'constant-force': Unknown key 'free'"),
        ([f'kind = "tension"\n{TWO}'] * 2, "Two springs of 'arm' are named 'spring'"),
        ([f'kind = "tension"\nname = "link1"\n{TWO}'], "cannot be named 'link1'.*that no link and no joint has"),
    ],
)  # fmt: skip
def test_errors_in_spring_tables(tables: list[str], said: str) -> None:
    with pytest.raises(RobotError, match=said):
        arm(*tables)


def test_springs_of_a_project_are_added_to_any_robot() -> None:
    robot = read_robot("tx40")
    table = SpringTable(kind="joint", joint="joint2", free=0.1)
    more = with_springs(robot, [table])
    assert more.springs == (JointSpring("spring", "joint2", 0.1),)
    assert more.terms == (*(robot.terms or ()), "springs")
    assert with_springs(more, []) is more
    with pytest.raises(RobotError, match="Two springs of 'tx40' are named 'spring'"):
        with_springs(more, [table])
    with pytest.raises(RobotError, match=r"spring 'spring': Unknown kind 'coil'. Valid: joint, crank, tension, con"):
        with_springs(robot, [SpringTable(kind="coil", joint="joint2")])
    with pytest.raises(RobotError, match="a number is not finite"):
        with_springs(robot, [SpringTable(kind="joint", joint="joint2", free=math.nan)])
    # "base" is the base whatever its name, unless a link is called so
    ends = {"links": ("base", robot.links[1].name), "points": ((0.0, 0.0, 0.0), (0.1, 0.0, 0.0))}
    named = with_springs(replace(robot, base="pedestal"), [SpringTable(kind="tension", **ends)])
    [spring] = named.springs
    assert isinstance(spring, TensionSpring)
    assert spring.ends[0].link == "pedestal"
    ends["links"] = ("base_link", robot.links[1].name)
    said = "Unknown link 'base_link'. Did you mean 'base'\\? Valid: base, pedestal, link1, .* 'base' is the fixed"
    with pytest.raises(RobotError, match=said):
        with_springs(replace(robot, base="pedestal"), [SpringTable(kind="tension", **ends)])
    link = replace(robot.links[2], lumps=())
    tool = Lump("tool", Pose(np.diag([1.0, -1.0, -1.0]), np.array([0.0, 0.0, 0.2])), None, "tool_joint")
    tooled = replace(robot, links=(*robot.links[:2], lumped(link, [tool]), *robot.links[3:]))
    ends = {"links": ("base", "tool"), "points": ((0.0, 0.0, 0.0), (0.0, 0.1, 0.1))}
    [spring] = with_springs(tooled, [SpringTable(kind="tension", **ends)]).springs
    assert isinstance(spring, TensionSpring)
    assert spring.ends[1].link == link.name
    np.testing.assert_allclose(spring.ends[1].point, [0.0, -0.1, 0.1])


def test_the_term_needs_springs_and_a_sensible_width() -> None:
    with pytest.raises(ModelError, match=r"needs a robot with springs, and 'tx40' has none.*\[\[spring\]\]"):
        spring_model(read_robot("tx40"))
    with pytest.raises(ModelError, match="must be a positive share, not 0"):
        named_term("springs", {"width": 0.0})
    assert named_term("springs", sign_width=0.01) == Springs()


# --- Identified -------------------------------------------------------------------------------------------------------


def simulated(model: Model, theta: Array, rng: np.random.Generator, noise: float, seconds: float = 40.0) -> Samples:
    t = np.arange(0.0, seconds, 0.01)
    q, v, a = random_fourier(model.robot, 5, 0.1, seconds, rng).at(t)
    tau = model.torque(q, v, a, theta)
    tau = tau + noise * np.sqrt(np.mean(tau**2, axis=1, keepdims=True)) * rng.standard_normal(tau.shape)
    return Samples.from_arrays("run", model.robot.joint_names, 100.0, q, v, a, tau)


def springy_tx40() -> tuple[Model, Array, dict[str, float]]:
    """A TX-40 with a spring of three kinds, its nominal parameters and the springs' own."""
    robot = read_robot("tx40")
    ends = (Anchor("base", np.array([0.3, 0.1, 0.2])), Anchor(robot.links[2].name, np.array([0.1, 0.2, 0.0])))
    reel = (
        Anchor(robot.links[1].name, np.array([0.2, 0.1, 0.1])),
        Anchor(robot.links[3].name, np.array([0.1, 0, 0.1])),
    )
    values = {"coil.K": 9.0, "rope.Kr": 150.0, "rope.K0": -40.0, "reel.F": 25.0}
    springs = (JointSpring("coil", "joint4", 0.2), TensionSpring("rope", ends), ConstantForceSpring("reel", reel))
    robot = replace(robot, springs=springs, nominal=dict(robot.nominal) | values)
    model = Model(robot, named_terms((*DEFAULT_TERMS, "springs")))
    theta = model.layout.nominal
    assert theta is not None
    return model, theta, values


def test_springs_are_recovered_without_noise() -> None:
    model, theta, values = springy_tx40()
    result = identify(Problem(model, [simulated(model, theta, np.random.default_rng(1), 0.0)]))
    for name, value in values.items():
        assert result.value[result.base.names.index(name)] == pytest.approx(value, rel=1e-6)


def test_springs_are_recovered_within_their_error_bars() -> None:
    model, theta, values = springy_tx40()
    result = identify(Problem(model, [simulated(model, theta, np.random.default_rng(1), 0.02)]))
    for name, value in values.items():
        k = result.base.names.index(name)
        assert abs(result.value[k] - value) < 3.5 * result.std[k] < abs(value), name


def test_an_unknown_free_position_is_one_with_the_offset() -> None:
    robot = with_springs(read_robot("planar2r"), [SpringTable(kind="joint", joint="joint2")])
    base = base_parameters(Model(robot, named_terms(("offset", "springs"))))
    assert base.regroupings["joint2.off"] == {"joint2.off": 1.0, "spring.K0": 1.0}
    assert "spring.K" in base.names
    assert "spring.K0" in base_parameters(Model(robot, named_terms(("springs",)))).names


# --- check ------------------------------------------------------------------------------------------------------------


def told(model: Model, theta: Array, rng: np.random.Generator, noise: float, slow: float = 1.0) -> dict[str, Finding]:
    """What is said of a log of `model`, by column; `slow` stretches the time of its motion."""
    t = np.arange(0.0, 40.0, 0.02)
    q, v, a = random_fourier(model.robot, 5, 0.1, 40.0, rng).at(t)
    v, a = v / slow, a / slow**2
    tau = model.torque(q, v, a, theta)
    tau = tau + noise * np.sqrt(np.mean(tau**2, axis=1, keepdims=True)) * rng.standard_normal(tau.shape)
    trial = Trial(model, None, [Trace(50.0, q, v, a, tau)], 10.0)  # type: ignore[arg-type]
    return {finding.where: finding for finding in spring_findings(trial)}


def balanced_kr270() -> tuple[Model, Array]:
    """The KR270 with heavy links, the paper's range of joint 2 and its balancer, K0 a tenth of the printed one."""
    robot = read_robot("kr270")
    within = replace(robot.joints[1], limits=Limits(math.radians(-140.0), math.radians(-5.0)))
    robot = replace(robot, joints=(robot.joints[0], within, *robot.joints[2:]))
    model = Model(robot, check_terms(robot))
    theta = np.zeros(len(model.layout))
    for k in range(6):
        mass, centre = 400.0 / (k + 1), 0.4 / (k + 1)
        for symbol, value in (("M", mass), ("MX", mass * centre), ("MY", 0.2 * mass * centre)):
            theta[model.layout.index(f"link{k + 1}.{symbol}")] = value
        for symbol in ("XX", "YY", "ZZ"):
            theta[model.layout.index(f"link{k + 1}.{symbol}")] = 1.3 * mass * centre**2
        theta[model.layout.index(f"joint{k + 1}.Fc")] = 50.0
    theta[[model.layout.index("spring.Kr"), model.layout.index("spring.K0")]] = 5.04e4, -7.85e3
    return model, theta


def test_check_says_that_a_balancer_is_told_from_gravity() -> None:
    model, theta = balanced_kr270()
    found = told(model, theta, np.random.default_rng(3), 0.01)
    assert list(found) == ["spring.Kr", "spring.K0"]
    for name, finding in found.items():
        assert (finding.code, finding.severity) == ("spring-separability", "info")
        assert finding.message.startswith(f"this log separates {name} from gravity")
        value = float(re.findall(r": (-?[\d.e+]+) ±", finding.message)[0])
        assert value == pytest.approx(theta[model.layout.index(name)], rel=0.2)
    assert "spring.K0 (correlation -0.9" in found["spring.Kr"].message


def test_check_says_that_a_slow_log_does_not_tell_the_stiffness() -> None:
    """Without inertial torques the stiffness is one with gravity: in the limit of rest exactly."""
    model, theta = balanced_kr270()
    found = told(model, theta, np.random.default_rng(3), 0.03, slow=50.0)
    kr = found["spring.Kr"]
    assert kr.severity == "warning"
    assert "cannot separate spring.Kr from gravity" in kr.message
    assert "link2.M" in kr.message
    assert "move joint2 over more of the range" in kr.fix
    assert "give a nominal value" in kr.fix


def test_check_names_what_no_motion_can_tell() -> None:
    tables = [
        SpringTable(kind="joint", joint="joint2"),
        SpringTable(kind="joint", joint="joint1", name="other", free=0.0),
    ]
    robot = with_springs(read_robot("tx40"), tables)
    model = Model(robot, check_terms(robot))
    nominal = model.layout.nominal
    assert nominal is not None
    theta = nominal.copy()
    theta[model.layout.index("spring.K")] = 60.0
    found = told(model, theta, np.random.default_rng(1), 0.01)
    assert found["spring.K"].severity == "info"
    # there is no such spring: nothing can be told apart from a value that is zero
    assert found["other.K"].severity == "warning"
    merged = found["spring.K0"]
    assert merged.severity == "warning"
    assert "no motion can separate spring.K0" in merged.message
    assert "joint2.off + spring.K0" in merged.message


def test_check_says_when_a_spring_has_no_effect() -> None:
    """Both ends on the axis of the only joint between them."""
    robot = read_robot("planar2r")
    ends = (Anchor("base", np.array([0.0, 0.0, 1.0])), Anchor("link1", np.zeros(3)))
    robot = replace(robot, springs=(TensionSpring("spring", ends, 0.2),))
    model = Model(robot, check_terms(robot))
    found = told(model, np.ones(len(model.layout)), np.random.default_rng(1), 0.01)
    assert "spring.Kr has no effect on any joint" in found["spring.Kr"].message


def test_check_of_too_short_a_log_says_that_it_cannot_say() -> None:
    model, theta = balanced_kr270()

    def found(seconds: float) -> list[Finding]:
        times = np.arange(0.0, seconds, 0.02)
        q, v, a = random_fourier(model.robot, 5, 0.1, 40.0, np.random.default_rng(1)).at(times)
        trace = Trace(50.0, q, v, a, model.torque(q, v, a, theta))
        return list(spring_findings(Trial(model, None, [trace], 10.0)))  # type: ignore[arg-type]

    # some joints can be fitted
    short = found(0.9)
    assert [(one.where, one.severity) for one in short] == [("spring.Kr", "warning"), ("spring.K0", "warning")]
    assert all(f"this log does not determine {one.where} separately" in one.message for one in short)
    # none can
    [finding] = found(0.6)
    assert finding.severity == "warning"
    assert "whether spring.Kr, spring.K0 can be separated from gravity" in finding.message


def test_robots_without_springs_hear_nothing_of_them() -> None:
    model = Model(read_robot("tx40"), check_terms(read_robot("tx40")))
    nominal = model.layout.nominal
    assert nominal is not None
    assert not told(model, nominal, np.random.default_rng(1), 0.01)


@pytest.mark.slow
def test_check_of_the_kr300_says_that_its_compensator_is_not_separable(
    shared_data: Callable[..., Path],
) -> None:
    shared_data("kuka_kr300", "ident_A.parquet")
    found = check(read_project(ROOT / "examples/real/kr300.toml"))
    [finding] = [f for f in found.findings if f.code == "spring-separability"]
    assert (finding.severity, finding.where) == ("warning", "compensator.scale")
    assert "link2.MX (correlation +1.000)" in finding.message
    assert "use its nominal value" in finding.fix
    assert not found.failed
