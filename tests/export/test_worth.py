"""What an exported file is worth: fitted over what it holds, scored as Pinocchio, MuJoCo and cvxpy see it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from steelyard._arrays import Array
from steelyard.export.robot_files.urdf_new import generated_urdf
from steelyard.formats.robots import read_robot
from steelyard.model.model import Model
from testbed.command import Run
from testbed.places import SHARED_ZOO
from testbed.worth_case import WorthCase, pinocchio_torque, worth_case
from testbed.worth_oracle import error, independent_error


class Exported(NamedTuple):
    case: WorthCase
    text: str
    file: Path
    document: dict[str, Any]
    told: str


@pytest.fixture(scope="module")
def arm(tmp_path_factory: pytest.TempPathFactory) -> WorthCase:
    """A UR5-like arm with a URDF of its own: the UR5e of the collection where it is, else the built-in UR10e."""
    pytest.importorskip("pinocchio")
    folder = tmp_path_factory.mktemp("arm")
    zoo = SHARED_ZOO / "universal_robots_ur5e" / "ur5e.xml"
    bare = Model(read_robot(zoo if zoo.is_file() else "ur10e"))
    assert bare.layout.nominal is not None
    source = folder / "arm.urdf"
    (content,) = generated_urdf(bare, bare.layout.nominal).files.values()
    source.write_bytes(content)
    return worth_case(folder, source, lambda robot: pinocchio_torque(source.read_text("utf-8"), robot))


@pytest.fixture
def exported(arm: WorthCase, steelyard: Run, tmp_path: Path) -> Any:
    """`exported("urdf", …)` is the export of the arm."""

    def export(to: str, *options: object) -> Exported:
        run = arm.project.parent / "project-run"
        if not run.exists():
            assert steelyard("identify", arm.project).code == 0
        file = tmp_path / f"out.{to}"
        told = steelyard("export", run, "--to", to, "--out", file, "--json", *options)
        assert told.code == 0, told.err
        return Exported(arm, file.read_text("utf-8") if file.is_file() else "", file, told.document, told.err)

    return export


def urdf_torque(text: str, case: WorthCase) -> Array:
    """The effort of the unseen motion as a reader of the URDF computes it: Pinocchio, damping and friction."""
    q, v, a = case.unseen[0]
    drives = {
        name: {key: float(value) for key, value in re.findall(r'(damping|friction)="([^"]+)"', inside)}
        for name, inside in re.findall(r'<joint name="([^"]+)" type="revolute">(.*?)</joint>', text, re.DOTALL)
    }
    own = [drives[name] for name in case.robot.joint_names]
    damping, friction = (np.array([one.get(key, 0.0) for one in own])[:, None] for key in ("damping", "friction"))
    return pinocchio_torque(text, case.robot)(q, v, a) + damping * v + friction * np.sign(v)


# --- The tests --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_urdf_is_the_best_of_its_kind(exported: Any, arm: WorthCase) -> None:
    made = exported("urdf")
    own = error(urdf_torque(made.text, arm), arm.unseen[1])
    printed = 100.0 * made.document["scores"]["unseen"]["file"]["total"]
    assert own < 3.2
    assert abs(printed - own) < 0.3
    assert own < 1.15 * independent_error(arm, arm.source.read_text("utf-8"))
    truncated = exported("urdf", "--exact")
    assert "--exact keeps them" in truncated.told
    worst = error(urdf_torque(truncated.text, arm), arm.unseen[1])
    assert worst > 2.0 * own
    assert abs(100.0 * truncated.document["scores"]["unseen"]["file"]["total"] - worst) < 0.3
