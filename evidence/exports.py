"""What an exported file is worth: ten robots, listed before the first of them was tried.

Two of Universal Robots, five redundant or research arms and three small ones, from MuJoCo Menagerie: all fixed arms
with one joint per body, as far as the collection has them, of different makers and from 4 kg to 40 kg. Logs of 40 s by
MuJoCo with rotors, friction and offsets added (tests/testbed/worth_case.py), identified with the default settings.

For URDF (new, as the source is MJCF) and MJCF (edited), the error on the unseen motion without noise [%]:

    printed     as the command prints it
    own         of the file read by Pinocchio (URDF) or MuJoCo (MJCF), with its damping, friction and armature
    cvxpy       of a fit by cvxpy on Pinocchio's regressor of the same rows (tests/testbed/worth_oracle.py)
    exact       own of the identified values without what the format lacks (--exact)

and of all bodies the smallest ratio of smallest over largest principal moment, relative to the file's own, and the
largest relative change of a mass.

--only K: one robot (0 to 9). --json: figures on stdout.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from steelyard._arrays import Array, single_threaded
from steelyard.export import Export, ExportRequest, named_target
from steelyard.export.file_fit.bodies import body_shapes
from steelyard.export.robot_files.urdf_new import generated_urdf
from steelyard.formats.robots.mjcf import read_mjcf_text
from steelyard.formats.robots.urdf import read_urdf
from steelyard.model.model import Model
from steelyard.model.robot import Robot
from steelyard.project.project import read_project
from steelyard.project.reopen import reopen
from steelyard.project.run import run
from testbed.places import SHARED_ZOO
from testbed.worth_case import WorthCase, mujoco_torque, pinocchio_torque, worth_case
from testbed.worth_oracle import error, independent_error

ROBOTS = (
    "universal_robots_ur5e",
    "universal_robots_ur10e",
    "kuka_iiwa_14",
    "franka_fr3",
    "kinova_gen3",
    "flexiv_rizon4",
    "rethink_robotics_sawyer",
    "ufactory_xarm7",
    "ufactory_lite6",
    "unitree_z1",
)
# The file of a robot that has several.
FILES = {"ufactory_xarm7": "xarm7_nohand", "ufactory_lite6": "lite6", "unitree_z1": "z1"}


@dataclass(frozen=True)
class Outcome:
    """A robot and a format: errors on the unseen motion [%], the least relative moment ratio, the largest change of a
    mass."""

    robot: str
    form: str
    identified: float
    before: float
    printed: float
    own: float
    cvxpy: float
    exact: float
    least_ratio: float
    mass_change: float


def _read_torque(form: str, content: str, case: WorthCase) -> Array:
    """The effort of the unseen motion as a reader of the file computes it."""
    q, v, a = case.unseen[0]
    if form == "urdf":
        robot, torque = read_urdf(content.encode(), "x.urdf"), pinocchio_torque(content, case.robot)
        rotor = np.zeros(case.robot.dof)
    else:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "x.xml"
            file.write_text(content, "utf-8")
            robot, torque = read_mjcf_text(content, file), mujoco_torque(file, case.robot)
        rotor = _drives(robot, case, "rotor")
    damping, friction = _drives(robot, case, "viscous"), _drives(robot, case, "coulomb")
    return torque(q, v, a) + rotor[:, None] * a + damping[:, None] * v + friction[:, None] * np.sign(v)


def _drives(robot: Robot, case: WorthCase, what: str) -> Array:
    joints = {joint.name: joint.drive for joint in robot.joints}
    return np.array([getattr(joints[name], what) or 0.0 for name in case.robot.joint_names])


def _text(made: Export) -> str:
    (content,) = made.files.values()
    return content.decode("utf-8")


@single_threaded
def outcomes(name: str, folder: Path) -> list[Outcome]:
    """Both formats of one robot."""
    source = next(path for path in sorted((SHARED_ZOO / name).glob("*.xml")) if path.stem == FILES.get(name, path.stem))
    case = worth_case(folder, source, lambda robot: mujoco_torque(source, robot))
    done = run(read_project(case.project))
    reopened = reopen(done.folder, [])
    bare = Model(case.robot)
    assert bare.layout.nominal is not None
    (urdf,) = generated_urdf(bare, bare.layout.nominal).files.values()
    rows, out = reopened.logged_rows(), []
    for form in ("urdf", "mjcf"):
        target = named_target(form)
        given = {} if form == "urdf" else {"source": source}

        def exported(target=target, given=given, **options: object) -> tuple[ExportRequest, Export]:
            request = target.request(reopened.model, reopened.result, lambda: rows, **given, **options)
            return request, target.export(request)

        request, made = exported()
        worth, written = made.worth, request.written
        assert worth is not None
        content, exact = _text(made), _text(exported(exact=True)[1])
        shapes = [shape for shape in body_shapes(written.model.layout, written.theta) if shape.filed_mass > 0.0]
        truth = case.unseen[1]
        out.append(
            Outcome(
                name,
                form,
                100.0 * worth.unseen["identified"].total,
                100.0 * worth.unseen["original"].total,
                100.0 * worth.unseen["file"].total,
                error(_read_torque(form, content, case), truth),
                independent_error(case, urdf.decode("utf-8"), rotors=form == "mjcf"),
                error(_read_torque(form, exact, case), truth),
                min(shape.ratio / shape.filed_ratio for shape in shapes if shape.filed_ratio > 0.0),
                max(abs(shape.mass / shape.filed_mass - 1.0) for shape in shapes),
            )
        )
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", type=int)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    chosen = ROBOTS if asked.only is None else (ROBOTS[asked.only],)
    found: list[Outcome] = []
    for name in chosen:
        with tempfile.TemporaryDirectory() as folder:
            found += outcomes(name, Path(folder))
        print(*found[-2:], sep="\n", file=sys.stderr, flush=True)
    if asked.json:
        print(json.dumps([asdict(one) for one in found], indent=1))
        return
    table = Table("robot", "file", "identified", "before", "printed", "own", "cvxpy", "exact", "ratio", "mass")
    for one in found:
        numbers = [f"{x:.2f}" for x in list(asdict(one).values())[2:]]
        table.add_row(one.robot, one.form, *numbers)
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
