"""Robot files as people have them: how many are read, and whether their torques and base parameters are right.

`make zoo` runs it on two public collections: the URDFs of `example-robot-data` (its own environment, .venv-zoo) and
the MJCF files of MuJoCo Menagerie without meshes (../shared/zoo/mjcf). A file counts if it is a robot on its own: it
has bodies and a joint that moves, and no free (floating, planar) joint. For every file that is read,

    torques   τ(q, v, a) at random states, compared with Pinocchio (URDF) or MuJoCo (MJCF; the same file with its mesh
              geoms removed): max |Δτ| / max |τ|. Loops are compared twice: the tree, and the efforts Gᵀτ of the axes
              with G from MuJoCo's own constraint Jacobian
    base      the number of base parameters, compared with the rank, by SVD, of a stacked regressor at random states;
              for URDF the regressor is Pinocchio's. Where singular values fall without a gap down to rounding, the rank
              is a range, and the count must lie in it: columns of a gripper of one freedom are functions of one angle
              over less than a radian, which no computation in double precision can separate

--quick: every eighth file. --only TEXT: files whose path contains it. --json: outcomes on stdout. --fill: write the
summary into docs/figures.json and the pages.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from steelyard._arrays import Array, single_threaded
from steelyard.errors import SteelyardError
from steelyard.formats.robots import read_robot
from steelyard.model.base_parameters import base_parameters
from steelyard.model.loops import JointLoop
from steelyard.model.model import Model
from steelyard.model.robot import Robot
from steelyard.model.terms import Rotor, Springs, Term, Viscous

ROOT = Path(__file__).resolve().parent.parent
URDF, MJCF = "URDF", "MJCF"
TORQUE = 1e-12  # largest relative difference of torques
SHARE = 0.95  # smallest share of the files that count to be read
STATES, RANK = 16, 1e-9  # states per robot; singular values above RANK times the largest are not zero
ROUNDING = 1e-13  # singular values below this times the largest are rounding errors
# What may be refused, and the words by which the refusal is recognised.
REFUSABLE = {"muscles": "muscle", "flexible bodies": "<flex>", "tendons that pull": "tendon"}
# A body whose inertia is unknown: the same ten numbers are given to both sides.
PLACEHOLDER = np.array([0.02, 0.0, 0.0, 0.02, 0.0, 0.02, 0.0, 0.0, 0.0, 1.0])


@dataclass(frozen=True)
class Outcome:
    """A file. `state` is "left out" (does not count), "refused", "read" or "wrong"; `why` says it in words."""

    kind: str
    file: str
    state: str
    why: str = ""
    joints: int = 0
    torque: float = 0.0
    base: int = 0
    rank: tuple[int, int] = (0, 0)
    seconds: float = 0.0

    @property
    def counts(self) -> bool:
        return self.state != "left out"

    @property
    def refusable(self) -> bool:
        return self.state == "refused" and any(word in self.why for word in REFUSABLE.values())


# --- Files ------------------------------------------------------------------------------------------------------------


def urdf_folder() -> Path:
    found = sorted((ROOT / ".venv-zoo").glob("**/example-robot-data/robots"))
    if not found:
        sys.exit("The URDF collection is not installed: make zoo")
    return found[0]


def mjcf_folder() -> Path:
    folder = ROOT.parent / "shared" / "zoo" / "mjcf"
    if not folder.is_dir():
        sys.exit(f"No folder {folder}: put the files of MuJoCo Menagerie there.")
    return folder


def files() -> Iterator[tuple[str, Path, Path]]:
    """Kind, path, and the folder that its name in the table starts from."""
    for kind, folder, pattern in ((URDF, urdf_folder(), "*.urdf"), (MJCF, mjcf_folder(), "*.xml")):
        for path in sorted(folder.rglob(pattern)):
            yield kind, path, folder


def left_out(kind: str, path: Path) -> str:
    """Why a file does not count; empty if it does."""
    if not path.read_bytes().strip():
        return "empty file"
    try:
        root = ElementTree.parse(path).getroot()
    except ElementTree.ParseError as problem:
        return f"not well-formed XML: {problem}"
    return _urdf_left_out(root) if kind == URDF else _mjcf_left_out(root, path)


def _urdf_left_out(root: ElementTree.Element) -> str:
    kinds = {joint.get("type") for joint in root.findall("joint")}
    if kinds & {"floating", "planar"}:
        return "free joint"
    return "" if kinds - {"fixed"} else "no joint that moves"


def _mjcf_left_out(root: ElementTree.Element, path: Path) -> str:
    import mujoco

    if root.tag != "mujoco" or (root.find("worldbody") is None and root.find("include") is None):
        return "part of another file"
    try:
        spec = mujoco.MjSpec.from_file(str(path))
    except ValueError as problem:
        return f"not complete: {str(problem).splitlines()[0]}"
    kinds = [joint.type for joint in spec.joints]
    if mujoco.mjtJoint.mjJNT_FREE in kinds:
        return "free joint"
    if len(spec.bodies) < 2 or not kinds:
        return "no joint that moves"
    return ""


# --- Oracles ----------------------------------------------------------------------------------------------------------


class Pinocchio:
    """Torques and regressor of a URDF; a joint that follows another is projected on it, τ = Gᵀτ_tree."""

    def __init__(self, path: Path, robot: Robot) -> None:
        import pinocchio

        self.pin, self.robot = pinocchio, robot
        self.model = pinocchio.buildModelFromUrdf(str(path))
        self.model.gravity.linear = robot.gravity
        self.data = self.model.createData()
        self.own = [self.model.getJointId(name) for name in robot.joint_names]
        self.map, self.shift = np.eye(len(robot.joints)), np.zeros(len(robot.joints))
        for loop in _in_order(robot):
            j, k = robot.joint_index(loop.joint), robot.joint_index(loop.other)
            offset, slope = (*loop.polynomial, 0.0, 0.0)[:2]
            self.map[j] = slope * self.map[k]
            self.shift[j] = offset + slope * self.shift[k]
        self.map = self.map[:, robot.axis_index]

    def _state(self, q: Array, v: Array, a: Array) -> tuple[Array, Array, Array]:
        where, speed, acceleration = np.zeros(self.model.nq), np.zeros(self.model.nv), np.zeros(self.model.nv)
        q, v, a = self.map @ q + self.shift, self.map @ v, self.map @ a
        for j, own in enumerate(self.own):
            i, count = self.model.joints[own].idx_q, self.model.joints[own].nq
            where[i : i + count] = q[j] if count == 1 else (np.cos(q[j]), np.sin(q[j]))
            speed[self.model.joints[own].idx_v], acceleration[self.model.joints[own].idx_v] = v[j], a[j]
        return where, speed, acceleration

    def _rows(self) -> list[int]:
        return [self.model.joints[own].idx_v for own in self.own]

    def torque(self, q: Array, v: Array, a: Array) -> Array:
        tau = self.pin.rnea(self.model, self.data, *self._state(q, v, a))
        return self.map.T @ tau[self._rows()]

    def regressor(self, q: Array, v: Array, a: Array) -> Array:
        w = self.pin.computeJointTorqueRegressor(self.model, self.data, *self._state(q, v, a))
        return self.map.T @ w[self._rows()]


def _in_order(robot: Robot) -> list[JointLoop]:
    """The followers of a URDF, each after the joint that it follows."""
    waiting = [loop for loop in robot.loops if isinstance(loop, JointLoop)]
    done: list[JointLoop] = []
    while waiting:
        names = {loop.joint for loop in waiting}
        done += [loop for loop in waiting if loop.other not in names]
        waiting = [loop for loop in waiting if loop.other in names]
    return done


class Mujoco:
    """Torques of an MJCF without its mesh geoms: mj_inverse without contacts, limits, friction loss and equalities.

    Tendons stay as they are: one that pulls would show. What the reader states that it does not read is set to zero:
    gravity compensation, a fluid around the bodies, armature and damping of actuators.
    """

    def __init__(self, path: Path, robot: Robot) -> None:
        import mujoco

        self.mujoco, self.robot = mujoco, robot
        self.model = without_meshes(path).compile()
        self.data = mujoco.MjData(self.model)
        model = self.model
        for name in ("actuator_armature", "actuator_damping", "actuator_dampingpoly", "body_gravcomp"):
            if hasattr(model, name):
                getattr(model, name)[:] = 0.0
        model.opt.density = model.opt.viscosity = 0.0
        for flag in ("CONTACT", "LIMIT", "FRICTIONLOSS"):
            model.opt.disableflags |= int(getattr(mujoco.mjtDisableBit, f"mjDSBL_{flag}"))
        self._weigh_unknown()
        names = [model.joint(k).name or f"joint{k}" for k in range(model.njnt)]
        for name, value in robot.held.items():
            self.data.qpos[model.jnt_qposadr[names.index(name)]] = value
        self.place = [names.index(name) for name in robot.joint_names]
        self.rows = model.jnt_qposadr[self.place], model.jnt_dofadr[self.place]

    def _weigh_unknown(self) -> None:
        """`PLACEHOLDER` for the links whose inertia the reader does not know, bodies fixed to them included."""
        model, names = self.model, [self.model.body(b).name or f"body{b}" for b in range(self.model.nbody)]
        for link in self.robot.links:
            if link.inertia is not None:
                continue
            carrier = names.index(link.name)
            for b in np.flatnonzero(model.body_weldid == carrier):
                mine = b == carrier
                model.body_mass[b], model.body_inertia[b] = float(mine), 0.02 * mine
                model.body_ipos[b], model.body_iquat[b] = 0.0, (1.0, 0.0, 0.0, 0.0)
        model.body_sameframe[:] = 0  # no short cuts for frames that were equal before
        self.mujoco.mj_setConst(model, self.data)

    def tree_torque(self, q: Array, v: Array, a: Array) -> Array:
        """Joint efforts (joints,) with the loops cut."""
        flags = self.model.opt.disableflags
        self.model.opt.disableflags |= int(self.mujoco.mjtDisableBit.mjDSBL_EQUALITY)
        self._set(q, v, a)
        self.mujoco.mj_inverse(self.model, self.data)
        self.model.opt.disableflags = flags
        return np.array(self.data.qfrc_inverse)[self.rows[1]]

    def constraint(self, q: Array) -> tuple[Array, Array]:
        """Residual of the equalities at a posture, and their Jacobian (rows, joints)."""
        self._set(q, np.zeros_like(q), np.zeros_like(q))
        self.mujoco.mj_fwdPosition(self.model, self.data)
        dense = np.zeros((self.data.nefc, self.model.nv))
        if self.mujoco.mj_isSparse(self.model):
            self.mujoco.mju_sparse2dense(
                dense, self.data.efc_J, self.data.efc_J_rownnz, self.data.efc_J_rowadr, self.data.efc_J_colind
            )
        else:
            dense[:] = np.reshape(self.data.efc_J[: dense.size], dense.shape)
        return np.array(self.data.efc_pos), dense[:, self.rows[1]]

    def _set(self, q: Array, v: Array, a: Array) -> None:
        self.data.qpos[self.rows[0]], self.data.qvel[self.rows[1]], self.data.qacc[self.rows[1]] = q, v, a


def without_meshes(path: Path) -> Any:
    """The file with its mesh geoms, meshes and images removed; a body that then has no inertia gets a sphere."""
    import mujoco

    spec = mujoco.MjSpec.from_file(str(path))
    for one in (*spec.pairs, *spec.sensors, *spec.tuples, *spec.keys, *spec.skins):
        spec.delete(one)
    for body in spec.bodies[1:]:
        meshes = [geom for geom in body.geoms if geom.meshname]
        for geom in meshes:
            spec.delete(geom)
        if meshes and not body.explicitinertial:
            body.add_geom(type=mujoco.mjtGeom.mjGEOM_SPHERE, size=[0.01, 0, 0], mass=1e-3)
    for geom in [geom for geom in spec.geoms if geom.meshname]:
        spec.delete(geom)
    for material in spec.materials:
        material.textures = [""] * len(material.textures)
    for asset in (*spec.meshes, *spec.textures):
        spec.delete(asset)
    return spec


# --- One file ---------------------------------------------------------------------------------------------------------


@single_threaded
def outcome(kind: str, path: Path, folder: Path) -> Outcome:
    name, start = path.relative_to(folder).as_posix(), time.perf_counter()
    why = left_out(kind, path)
    if why:
        return Outcome(kind, name, "left out", why)
    try:
        robot = read_robot(path)
        compared = _urdf_outcome if kind == URDF else _mjcf_outcome
        torque, base, rank = compared(path, robot)
    except SteelyardError as refusal:
        said = str(refusal).replace(f"{path}: ", "").replace(str(path), path.name)
        return Outcome(kind, name, "refused", said, seconds=time.perf_counter() - start)
    right = torque <= TORQUE and rank[0] <= base <= rank[1]
    return Outcome(
        kind, name, "read" if right else "wrong", _assumed(robot), robot.dof, torque, base, rank,
        time.perf_counter() - start,
    )  # fmt: skip


def _assumed(robot: Robot) -> str:
    return "; ".join(f"{one.code}: {one.message}" for one in robot.findings if one.severity != "info")


def _known(robot: Robot) -> Robot:
    links = [link if link.inertia is not None else replace(link, inertia=PLACEHOLDER) for link in robot.links]
    return replace(robot, links=tuple(links))


def _states(model: Model) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(len(model.robot.joints))
    q = model.random_positions(rng, STATES)
    return q, rng.normal(size=q.shape), rng.normal(size=q.shape)


def _theta(model: Model) -> Array:
    assert model.layout.nominal is not None
    return model.layout.nominal


def _difference(ours: Array, theirs: Array) -> float:
    return float(np.max(np.abs(ours - theirs)) / max(np.max(np.abs(theirs)), 1e-9))


def _rank(stacked: Array) -> tuple[int, int]:
    """The number of singular values that are not zero: twice the same where rounding errors follow, else a range."""
    norms = np.linalg.norm(stacked, axis=0)
    live = stacked[:, norms > 1e-9 * norms.max()]
    sizes = np.linalg.svd(np.linalg.qr(live / np.linalg.norm(live, axis=0), mode="r"), compute_uv=False)
    rank = int(np.sum(sizes > RANK * sizes[0]))
    if rank == len(sizes) or sizes[rank] < ROUNDING * sizes[0]:
        return rank, rank
    return rank, int(np.sum(sizes > len(sizes) * np.finfo(float).eps * sizes[0]))


def _urdf_outcome(path: Path, robot: Robot) -> tuple[float, int, tuple[int, int]]:
    model = Model(_known(robot), ())
    oracle = Pinocchio(path, model.robot)
    states = _states(model)
    theirs = np.stack([oracle.torque(*state) for state in zip(*(x.T for x in states), strict=True)], axis=1)
    # a file without any <inertial> weighs nothing for Pinocchio; its base parameters are compared all the same
    unknown = any(link.inertia is None for link in robot.links)
    torque = 0.0 if unknown else _difference(model.torque(*states, _theta(model)), theirs)
    count = max(64, 4 * len(model.layout) // robot.dof)
    rng = np.random.default_rng(7)
    q = model.random_positions(rng, count)
    many = zip(q.T, rng.normal(size=q.T.shape), rng.normal(size=q.T.shape), strict=True)
    stacked = np.concatenate([oracle.regressor(*state) for state in many])
    return torque, len(base_parameters(model)), _rank(stacked)


def _mjcf_outcome(path: Path, robot: Robot) -> tuple[float, int, tuple[int, int]]:
    springs: tuple[Term, ...] = (Springs(),) if robot.springs else ()
    model = Model(_known(robot), (Rotor(), Viscous(), *springs))
    oracle = Mujoco(path, robot)
    torque = _tree_difference(model, oracle)
    if robot.loops:
        torque = max(torque, _loop_difference(model, oracle))
    bodies = Model(_known(robot), ())
    count = max(64, 4 * len(bodies.layout) // robot.dof)
    stacked = bodies.random_regressor(np.random.default_rng(7), count)
    rows = stacked.transpose(0, 2, 1).reshape(-1, len(bodies.layout))
    return torque, len(base_parameters(bodies)), _rank(rows)


def _tree_difference(model: Model, oracle: Mujoco) -> float:
    """Joint efforts with the loops cut, at random states of all joints."""
    rng, n = np.random.default_rng(3), len(model.robot.joints)
    q = rng.uniform(-1.0, 1.0, (n, STATES))
    v, a = rng.normal(size=q.shape), rng.normal(size=q.shape)
    theirs = np.stack([oracle.tree_torque(*state) for state in zip(q.T, v.T, a.T, strict=True)], axis=1)
    return _difference(model.tree.torque(q, v, a, _theta(model.tree)), theirs)


def _loop_difference(model: Model, oracle: Mujoco) -> float:
    """Efforts of the axes at closed states: τ_a = Gᵀτ with G from MuJoCo's Jacobian, J G = 0 and G the identity in the
    rows of the axes. The loops must be closed for MuJoCo too, in position and velocity."""
    robot = model.robot
    q, v, a = _states(model)
    assert model.looped is not None
    closed = model.looped.closure.close(q, v, a)
    passive = np.setdiff1d(np.arange(len(robot.joints)), robot.axis_index)
    worst, theirs = 0.0, []
    for k in range(q.shape[1]):
        opening, jacobian = oracle.constraint(closed.q[:, k])
        speed = jacobian @ closed.v[:, k]
        worst = max(worst, float(np.abs(opening).max()), float(np.abs(speed).max()))
        follow = np.zeros((len(robot.joints), robot.dof))
        follow[robot.axis_index] = np.eye(robot.dof)
        follow[passive] = np.linalg.lstsq(jacobian[:, passive], -jacobian[:, robot.axis_index], rcond=None)[0]
        theirs.append(follow.T @ oracle.tree_torque(closed.q[:, k], closed.v[:, k], closed.a[:, k]))
    ours = model.torque(q, v, a, _theta(model))
    return max(_difference(ours, np.stack(theirs, axis=1)), 0.0 if worst < 1e-9 else worst)


# --- The run ----------------------------------------------------------------------------------------------------------


def outcomes(only: str, quick: bool, console: Console) -> list[Outcome]:
    chosen = [one for one in files() if only in str(one[1])]
    chosen = chosen[::8] if quick else chosen
    with ProcessPoolExecutor(2) as pool:
        waiting = [pool.submit(outcome, *one) for one in chosen]
        return [one.result() for one in track(waiting, "Robot files", console=console, transient=True)]


def summary(found: list[Outcome]) -> dict[str, Any]:
    """What the documentation quotes."""
    out: dict[str, Any] = {}
    for kind in (URDF, MJCF):
        own = [one for one in found if one.kind == kind]
        read = [one for one in own if one.state == "read"]
        refused = [one for one in own if one.state == "refused"]
        groups = Counter(_group(one) for one in refused)
        out[kind] = {
            "files": len(own),
            "count": sum(one.counts for one in own),
            "read": len(read),
            "refused": dict(sorted(groups.items())),
            "left_out": dict(sorted(Counter(one.why.partition(":")[0] for one in own if not one.counts).items())),
            "torque": max((one.torque for one in read), default=0.0),
            "joints": max((one.joints for one in read), default=0),
            "rank_open": sum(one.rank[0] != one.rank[1] for one in read),
        }
    return out


def _range(rank: tuple[int, int]) -> str:
    return str(rank[0]) if rank[0] == rank[1] else f"{rank[0]}–{rank[1]}"


def _group(one: Outcome) -> str:
    return next((label for label, word in REFUSABLE.items() if word in one.why), "other")


def show(found: list[Outcome], console: Console) -> None:
    for one in found:
        if one.state == "left out":
            console.print(f"left out  {one.kind} {one.file}: {one.why}", highlight=False, markup=False)
    for one in found:
        if one.state == "refused":
            console.print(f"refused   {one.kind} {one.file}: {one.why}", highlight=False, markup=False)
    table = Table("file", "axes", "torque", "base", "rank", "s", "")
    for one in sorted(found, key=lambda one: (one.kind, one.file)):
        if one.state in ("read", "wrong"):
            numbers = str(one.joints), f"{one.torque:.0e}", str(one.base), _range(one.rank), f"{one.seconds:.1f}"
            table.add_row(
                f"{one.kind} {one.file}", *numbers, one.why.partition(":")[0] if one.state == "read" else "WRONG"
            )
    console.print(table)
    for kind, own in summary(found).items():
        refused = ", ".join(f"{count} {label}" for label, count in own["refused"].items()) or "none"
        share = 100.0 * own["read"] / max(own["count"], 1)
        console.print(
            f"{kind}: {own['read']} of {own['count']} read ({share:.1f} %), largest torque difference "
            f"{own['torque']:.1e}; refused: {refused}; {own['files'] - own['count']} files left out"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="", metavar="TEXT")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--fill", action="store_true", help="write the summary into the documentation")
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    found = outcomes(options.only, options.quick, Console(stderr=True))
    if options.json:
        print(json.dumps([asdict(one) for one in found], indent=1))
    else:
        show(found, Console(width=max(100, Console().width)))
    if options.fill:
        import quoted

        quoted.keep("zoo", summary(found))
    counted = [one for one in found if one.counts]
    bad = [one for one in counted if one.state == "wrong" or (one.state == "refused" and not one.refusable)]
    for one in bad:
        print(f"Not as it should be: {one.kind} {one.file}: {one.state} {one.why}", file=sys.stderr)
    enough = sum(one.state == "read" for one in counted) >= SHARE * len(counted)
    sys.exit(0 if enough and not bad else 1)


if __name__ == "__main__":
    main()
