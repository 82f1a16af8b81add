"""What an exported file is worth: fitted over what it holds, scored as Pinocchio, MuJoCo and cvxpy see it."""

from __future__ import annotations

import errno
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from steelyard._arrays import Array
from steelyard.export.file_fit.bodies import body_shapes, unlike_file
from steelyard.export.file_fit.rows import file_model
from steelyard.export.file_fit.worth import FILE, ORIGINAL, FileWorth
from steelyard.export.robot_files.mjcf_new import generated_mjcf
from steelyard.export.robot_files.urdf_new import generated_urdf
from steelyard.formats.robots import read_robot
from steelyard.model.model import Model
from steelyard.model.parameters import inertial_vector
from steelyard.model.robot import Drive
from steelyard.model.terms import Coulomb, Rotor, Viscous
from steelyard.physical.consistency import link_columns
from steelyard.regression.scores import Score, score_of
from testbed.command import Run
from testbed.pendulum import csv
from testbed.places import SHARED_ZOO
from testbed.simulated import log_of, model_of, motion_of
from testbed.worth_case import WorthCase, mujoco_torque, pinocchio_torque, worth_case
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


@pytest.mark.slow
def test_an_mjcf_holds_rotors_too(tmp_path: Path, steelyard: Run) -> None:
    """The user's MJCF with its own classes and shapes, read by MuJoCo."""
    pytest.importorskip("mujoco")
    source = SHARED_ZOO / "universal_robots_ur5e" / "ur5e.xml"
    if not source.is_file():
        pytest.skip("No collection of robot files beside the repository.")
    case = worth_case(tmp_path, source, lambda robot: mujoco_torque(source, robot))
    assert steelyard("identify", case.project).code == 0
    file = tmp_path / "out.xml"
    told = steelyard("export", tmp_path / "project-run", "--to", "mjcf", "--out", file, "--json")
    assert told.code == 0, told.err
    robot, (q, v, a) = read_robot(file), case.unseen[0]
    drives = {joint.name: joint.drive for joint in robot.joints}
    rotor, damping, friction = (
        np.array([getattr(drives[name], what) for name in case.robot.joint_names])[:, None]
        for what in ("rotor", "viscous", "coulomb")
    )
    own = error(
        mujoco_torque(file, case.robot)(q, v, a) + rotor * a + damping * v + friction * np.sign(v), case.unseen[1]
    )
    bare = Model(case.robot)
    assert bare.layout.nominal is not None
    (urdf,) = generated_urdf(bare, bare.layout.nominal).files.values()
    assert own < 1.5
    assert abs(100.0 * told.document["scores"]["unseen"]["file"]["total"] - own) < 0.3
    assert own < 1.15 * independent_error(case, urdf.decode("utf-8"), rotors=True)


# --- The command ------------------------------------------------------------------------------------------------------


@pytest.fixture
def result(project: Path, steelyard: Run) -> Path:
    """The pendulum with rotors, friction and offsets, identified with its own physical set."""
    assert steelyard("identify", project, "--estimator", "auto").code == 0
    return project.parent / "project-run"


def test_a_robot_file_states_its_worth(result: Path, steelyard: Run, tmp_path: Path) -> None:
    told = steelyard("export", result, "--to", "urdf", "--out", tmp_path / "a.urdf", "--json")
    assert told.code == 0, told.err
    found, text = told.document, (tmp_path / "a.urdf").read_text("utf-8")
    fitted = found["scores"]["fitted"]
    assert set(fitted) == {"file", "identified", "original"}
    assert fitted["identified"]["total"] < fitted["file"]["total"]
    # the table states the rotors that the log has: its reader computes them, which no URDF can
    assert fitted["original"]["total"] < 1.1 * fitted["identified"]["total"]
    assert found["fit"]["holds"] == ["viscous", "coulomb"]
    assert found["fit"]["share"] == 0.3
    assert min(found["scores"]["lacking"].values()) > 0.0
    assert f"{100.0 * fitted['file']['total']:.2f} % on the fitted rows" in " ".join(text.split())
    assert "rotor of joint1, joint2: URDF has no place for it here" in told.err
    # the comment is replaced by the next export of the file, not repeated
    again = steelyard("export", result, "--to", "urdf", "--source", tmp_path / "a.urdf", "--out", tmp_path / "b.urdf")
    assert again.code == 0, again.err
    assert (tmp_path / "b.urdf").read_text("utf-8").count("Written by Steelyard") == 1


def test_a_file_is_measured_by_the_limit_of_the_lamp(result: Path, steelyard: Run, tmp_path: Path) -> None:
    """The identified model is good enough for simulation, and its truncation is not."""
    own, exact = (
        steelyard("export", result, "--to", "urdf", "--out", tmp_path / "a.urdf", "--json", *options).document
        for options in ((), ("--exact",))
    )
    limit = 0.15
    for one in (own, exact):
        error = one["scores"]["fitted"]["file"]["total"]
        said = [note for note in one["notes"] if "not good enough for simulation" in note]
        assert bool(said) == (error > limit)
    assert exact["scores"]["fitted"]["file"]["total"] > limit > own["scores"]["fitted"]["file"]["total"]


def test_exact_keeps_the_identified_values(result: Path, steelyard: Run, tmp_path: Path) -> None:
    own, exact = (
        steelyard("export", result, "--to", "urdf", "--out", tmp_path / "a.urdf", "--json", *options).document
        for options in ((), ("--exact",))
    )
    assert exact["fit"] is None
    assert exact["scores"]["fitted"]["file"]["total"] > own["scores"]["fitted"]["file"]["total"]
    standard = steelyard("consistency", result, "--set", "own", "--json").document["feasibility"]["theta"]
    assert exact["standard"]["values"] == standard
    assert own["standard"]["values"] != {name: standard[name] for name in own["standard"]["values"]}


def test_a_file_without_the_logs_says_so(result: Path, steelyard: Run, tmp_path: Path) -> None:
    (result.parent / "log.csv").unlink()
    told = steelyard("export", result, "--to", "urdf", "--out", tmp_path / "a.urdf", "--json")
    assert told.code == 0, told.err
    assert told.document["scores"] is None
    assert "because the logs of the result cannot be read again" in told.err
    assert "The errors of this file are not known" in told.err


def test_code_holds_the_whole_model(result: Path, steelyard: Run, tmp_path: Path) -> None:
    (result.parent / "log.csv").unlink()  # not needed
    found = steelyard("export", result, "--to", "python", "--out", tmp_path / "a.py", "--json").document
    scores = found["scores"]["fitted"]
    assert scores["file"] == scores["identified"]
    assert f"{100.0 * scores['file']['total']:.2f} % on the" in (tmp_path / "a.py").read_text("utf-8")


@pytest.mark.parametrize("to", ["urdf", "mjcf", "sdf", "c", "python", "casadi", "latex"])
def test_nothing_is_lost_where_it_cannot_be_written(to: str, result: Path, steelyard: Run, tmp_path: Path) -> None:
    """A folder that does not exist, a file in the place of a folder, a project file, a folder of others."""
    pytest.importorskip("mujoco")
    (tmp_path / "file").write_text("mine", "utf-8")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine", "utf-8")
    places = [tmp_path / "file" / "out", result.parent / "project.toml", "/proc/out"]
    places += [tmp_path / "full", tmp_path / "file"] if to == "c" else [tmp_path / "none" / "out"]
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    for place in places:
        told = steelyard("export", result, "--to", to, "--out", place)
        assert told.code == 2, (place, told.err)
        assert len([line for line in told.err.splitlines() if line.startswith("error: ")]) == 1
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    ("function", "fault"),
    [
        ("os.replace", OSError(errno.ENOSPC, "No space left on device")),
        ("tempfile.TemporaryFile", OSError(errno.EROFS, "Read-only file system")),
        ("", OSError(errno.EACCES, "is write-protected and is not replaced")),
    ],
)
def test_a_file_that_cannot_be_replaced_stays(
    function: str, fault: OSError, result: Path, steelyard: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk, a read-only disk, a read-only file (also for root, who may write it)."""
    (tmp_path / "a.urdf").write_text("mine", "utf-8")

    def faulty(*_: object, **__: object) -> None:
        raise fault

    if function:
        monkeypatch.setattr(function, faulty)
    else:
        (tmp_path / "a.urdf").chmod(0o444)
    told = steelyard("export", result, "--to", "urdf", "--out", tmp_path / "a.urdf")
    assert (told.code, str(fault.strerror) in told.err) == (2, True), told.err
    assert len([line for line in told.err.splitlines() if line.startswith("error: ")]) == 1
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["a.urdf"]
    assert (tmp_path / "a.urdf").read_text("utf-8") == "mine"


def test_the_report_shows_what_robot_files_are_worth(result: Path, steelyard: Run, tmp_path: Path) -> None:
    found = steelyard("export", result, "--to", "urdf", "--out", tmp_path / "a.urdf", "--json").document["scores"]
    page = tmp_path / "page.html"
    assert steelyard("report", result, "--files", "urdf,mjcf", "--out", page).code == 0
    text = page.read_text("utf-8")
    assert "Torque error of a URDF file" in text
    assert "Torque error of a MJCF file" in text
    assert f"{100.0 * found['fitted']['file']['total']:.2f} % on the fitted rows" in text
    told = steelyard("report", result, "--files", "latex", "--out", page)
    assert (told.code, "Unknown robot file 'latex'. Valid: urdf, mjcf, sdf." in told.err) == (2, True)


def test_friction_of_the_robot_file_is_replaced_where_the_model_has_none() -> None:
    """An edited file would keep it, and its reader would add it to the identified torques."""
    robot = read_robot("planar2r")
    smooth = replace(robot, joints=tuple(replace(joint, drive=Drive()) for joint in robot.joints))
    sticky = replace(robot, joints=tuple(replace(joint, drive=Drive(viscous=20.0)) for joint in robot.joints))
    holds = ("viscous", "coulomb")
    assert not [column for column in file_model(Model(smooth, ()), holds).layout.columns if column.kind == "term"]
    held = file_model(Model(sticky, ()), holds).layout
    assert held.columns[held.index("joint2.Fv")].nominal == 20.0


def test_an_edited_file_does_not_keep_friction_that_was_not_identified(project: Path, steelyard: Run) -> None:
    model = Model(read_robot(project.parent / "pendulum.toml"))
    assert model.layout.nominal is not None
    (content,) = generated_urdf(model, model.layout.nominal).files.values()
    bare = re.sub(r"\s*<dynamics[^>]*/>", "", content.decode("utf-8"))
    sticky = bare.replace("</joint>", '  <dynamics damping="20.0" friction="30.0"/>\n  </joint>')
    (project.parent / "arm.urdf").write_text(sticky, "utf-8")
    text = project.read_text("utf-8").replace('robot = "pendulum.toml"\n', 'robot = "arm.urdf"\nterms = []\n')
    project.write_text(text, "utf-8")
    assert steelyard("identify", project, "--estimator", "auto").code == 0
    file = project.parent / "out.urdf"
    told = steelyard("export", project.parent / "project-run", "--to", "urdf", "--out", file, "--json")
    assert told.code == 0, told.err
    written = [float(x) for x in re.findall(r'(?:damping|friction)="([^"]+)"', file.read_text("utf-8"))]
    assert written
    assert max(written) < 15.0
    fitted = told.document["scores"]["fitted"]
    assert fitted["file"]["total"] < fitted["identified"]["total"] < fitted["original"]["total"]


def of_joints(*relative: float) -> Score:
    """A score of joints a, b, … with efforts of 1 N·m and these relative errors."""
    count = len(relative)
    return score_of("abc"[:count], np.square(relative), np.ones(count), np.full(count, 100), "")


def test_a_file_that_is_no_good_says_so() -> None:
    good = FileWorth({FILE: of_joints(0.1, 0.2), ORIGINAL: of_joints(0.3, 0.3)})
    assert good.doubts == ()
    worse = FileWorth({FILE: of_joints(0.1, 0.2), ORIGINAL: of_joints(0.1, 0.1)})
    assert "worse than the robot file before (15.81 % against 10.00 %)" in worse.doubts[0]
    fitted = {FILE: of_joints(0.1, 0.1), ORIGINAL: of_joints(0.9, 0.9)}
    part = FileWorth(fitted, {FILE: of_joints(0.1, 0.8), ORIGINAL: of_joints(0.9, 0.9)})
    assert part.doubts[0] == "The file does not explain these joints on unseen motion (relative error): b 80%."
    assert "--to c, python or casadi" in part.doubts[-1]


def test_needles_and_far_masses_are_reported_relative_to_the_file() -> None:
    model = Model(read_robot("ur10e"))
    theta = model.layout.nominal
    assert theta is not None
    assert unlike_file(model.layout, theta) == ()
    columns = [link_columns(model.layout)[link.name] for link in model.robot.links]
    changed = theta.copy()
    # a needle along z, a heavy body, and one twenty times as large
    mass = float(theta[columns[1][9]])
    changed[columns[1]] = inertial_vector(mass, np.array([0.0, 0.0, 0.1]), np.diag([0.3, 0.3, 1e-5]))
    changed[columns[3]] *= 2.5
    changed[columns[5][:6]] *= 20.0
    (said,) = unlike_file(model.layout, changed)
    names = [model.robot.links[k].name for k in (1, 3, 5)]
    filed = body_shapes(model.layout, theta)
    assert f"{names[0]}: smallest over largest principal moment 3.3e-05 (file {filed[1].filed_ratio:.2g})" in said
    assert f"{names[1]}: mass {2.5 * filed[3].mass:.3g} kg (file {filed[3].mass:.3g} kg)" in said
    assert f"{names[2]}: largest principal moment" in said
    assert model.robot.links[0].name not in said


# --- What is scored is what the file computes -------------------------------------------------------------------------


def urdf_of(place: Path, model: Model, scale: float = 1.0, dynamics: str = "") -> Path:
    """A URDF of the bodies of a model, all scaled, with the same <dynamics> for every joint."""
    assert model.layout.nominal is not None
    theta = model.layout.nominal.copy()
    theta[model.inertial_index] *= scale
    (content,) = generated_urdf(model, theta).files.values()
    text = re.sub(r"\s*<dynamics[^>]*/>", "", content.decode("utf-8"))
    place.write_text(text.replace("</joint>", f"  {dynamics}\n  </joint>") if dynamics else text, "utf-8")
    return place


def file_error(file: Path, log: Mapping[str, Array], load: Array | None = None) -> float:
    """‖τ − τ_file‖/‖τ‖ over the rows of a log at speed, by the reader of the file and differences of its positions."""
    robot, names = read_robot(file), ("joint1", "joint2")
    model = Model(robot, (Rotor(), Viscous(), Coulomb()))
    assert model.layout.nominal is not None
    rate = 1.0 / float(log["t"][1] - log["t"][0])
    q, tau = (np.stack([log[f"{what}_{name}"] for name in names]) for what in ("q", "tau"))
    v = np.gradient(q, 1.0 / rate, axis=1)
    apart = tau - model.torque(q, v, np.gradient(v, 1.0 / rate, axis=1), model.layout.nominal)
    kept = np.abs(v) > 0.1
    return float(np.linalg.norm(apart[kept]) / np.linalg.norm(tau[kept]))


def test_the_file_before_is_the_one_that_is_edited(
    project: Path, result: Path, steelyard: Run, tmp_path: Path, recorded: dict[str, Array]
) -> None:
    """Its score, the pull to its bodies, the bounds of its masses and the comparison of bodies all use --source."""
    model = Model(read_robot(project.parent / "pendulum.toml"))
    source, heavy = urdf_of(tmp_path / "source.urdf", model), urdf_of(tmp_path / "heavy.urdf", model, scale=10.0)
    own, far = (
        steelyard("export", result, "--to", "urdf", "--source", file, "--out", tmp_path / f"out-{k}.urdf", "--json")
        for k, file in enumerate((source, heavy))
    )
    assert (own.code, far.code) == (0, 0), own.err + far.err
    for told, file in ((own, source), (far, heavy)):
        printed = told.document["scores"]["fitted"]["original"]["total"]
        assert printed == pytest.approx(file_error(file, recorded), rel=0.05)
    assert "Bodies unlike" not in own.err
    assert "Bodies unlike those of the robot file" in far.err
    assert "masses within" in own.document["standard"]["rule"]


def mujoco_error(file: Path, log: Mapping[str, Array]) -> float:
    """The same by MuJoCo: under the gravity and the gravity compensation of the file, with its damping and friction."""
    import mujoco

    names = ("joint1", "joint2")
    model = mujoco.MjModel.from_xml_path(str(file))
    data, dofs = mujoco.MjData(model), [model.joint(name).dofadr[0] for name in names]
    friction = model.dof_frictionloss[dofs].copy()
    model.dof_frictionloss[:] = 0.0
    rate = 1.0 / float(log["t"][1] - log["t"][0])
    q, tau = (np.stack([log[f"{what}_{name}"] for name in names]) for what in ("q", "tau"))
    v = np.gradient(q, 1.0 / rate, axis=1)
    a, found = np.gradient(v, 1.0 / rate, axis=1), np.empty_like(q)
    for s in range(q.shape[1]):
        data.qpos[dofs], data.qvel[dofs], data.qacc[dofs] = q[:, s], v[:, s], a[:, s]
        mujoco.mj_inverse(model, data)
        found[:, s] = data.qfrc_inverse[dofs] + friction * np.sign(v[:, s])
    kept = np.abs(v) > 0.1
    return float(np.linalg.norm((tau - found)[kept]) / np.linalg.norm(tau[kept]))


@pytest.mark.parametrize("weightless", [False, True])
def test_an_mjcf_is_scored_as_mujoco_computes_it(
    weightless: bool, project: Path, steelyard: Run, tmp_path: Path
) -> None:
    """With a gravity in the file that is not the project's; with gravity compensation, for efforts without weight."""
    pytest.importorskip("mujoco")
    robot = read_robot(project.parent / "pendulum.toml")
    own = robot.with_gravity([0.0, 0.0, 0.0]) if weightless else robot
    log = log_of(model_of(own), 2400, noise=0.3)
    (project.parent / "log.csv").write_text(csv(log), "utf-8")
    text = project.read_text("utf-8")
    project.write_text(f"gravity = {own.gravity.tolist()}\n{text}", "utf-8")
    assert steelyard("identify", project, "--estimator", "auto").code == 0
    bare = Model(robot, (Rotor(),))
    assert bare.layout.nominal is not None
    (content,) = generated_mjcf(bare, bare.layout.nominal).files.values()
    stated = content.decode("utf-8")
    stated = stated.replace("<body ", '<body gravcomp="1" ') if weightless else re.sub(
        r'gravity="[^"]*"', 'gravity="0 0 -4"', stated
    )  # fmt: skip
    source, file = tmp_path / "source.xml", tmp_path / "out.xml"
    source.write_text(stated, "utf-8")
    told = steelyard(
        "export", project.parent / "project-run", "--to", "mjcf", "--source", source, "--out", file, "--json"
    )
    assert told.code == 0, told.err
    scores = told.document["scores"]["fitted"]
    assert scores["file"]["total"] == pytest.approx(mujoco_error(file, log), rel=0.05, abs=0.03)  # with noise
    assert scores["identified"]["total"] < 0.05
    assert (scores["file"]["total"] < 0.1) == weightless
    assert ("the file keeps its own (0 0 -4)" in " ".join(told.err.split())) != weightless
    assert ("Kept: gravcomp" in told.err) == weightless
    assert bool(told.document["scores"]["lacking"]) == weightless


def test_exact_is_scored_as_the_file_is_written(
    project: Path, steelyard: Run, tmp_path: Path, recorded: dict[str, Array]
) -> None:
    """Friction of a joint for which the model has none is not kept, and the printed error is that of the file."""
    model = Model(read_robot(project.parent / "pendulum.toml"))
    urdf_of(project.parent / "arm.urdf", model, dynamics='<dynamics damping="30.0" friction="40.0"/>')
    text = project.read_text("utf-8").replace('robot = "pendulum.toml"\n', 'robot = "arm.urdf"\n')
    terms = 'terms = [{ name = "viscous", joints = ["joint1"] }, { name = "coulomb", joints = ["joint1"] }]'
    project.write_text(text.replace('estimator = "wls"', f'estimator = "auto"\n{terms}'), "utf-8")
    told = steelyard("identify", project)
    assert told.code == 0, told.err
    file = tmp_path / "out.urdf"
    told = steelyard("export", project.parent / "project-run", "--to", "urdf", "--out", file, "--exact", "--json")
    assert told.code == 0, told.err
    printed = told.document["scores"]["fitted"]["file"]["total"]
    assert printed == pytest.approx(file_error(file, recorded), rel=0.05)
    drives = {joint.name: joint.drive for joint in read_robot(file).joints}
    assert (drives["joint2"].viscous, drives["joint2"].coulomb) == (0.0, 0.0)
    assert drives["joint1"].viscous
    assert ("joint2", "damping", 30.0, 0.0) in [
        (one["owner"], one["quantity"], one["before"], one["after"]) for one in told.document["changes"]
    ]


def test_friction_on_its_bound_is_zero_to_the_bit(project: Path, steelyard: Run, tmp_path: Path) -> None:
    """The solver stops at 1e-13, which a file must not state."""
    robot = project.parent / "pendulum.toml"
    stated = robot.read_text("utf-8")
    robot.write_text(stated.replace("viscous = 1.5\ncoulomb = 2.0", "viscous = 0.0\ncoulomb = 0.0"), "utf-8")
    write_log(project, "log.csv", 3)
    robot.write_text(stated, "utf-8")
    for estimator in ("auto", "consistent"):
        assert steelyard("identify", project, "--estimator", estimator).code == 0
        for options in ((), ("--exact",)):
            file = tmp_path / "a.urdf"
            told = steelyard("export", project.parent / "project-run", "--to", "urdf", "--out", file, *options)
            assert told.code == 0, told.err
            drive = read_robot(file).joints[1].drive
            assert all(x == 0.0 or (x or 0.0) > 1e-6 for x in (drive.viscous, drive.coulomb))
            assert 0.0 in (drive.viscous, drive.coulomb)


BRICK = inertial_vector(3.0, np.array([0.1, -0.05, 0.2]), np.diag([0.02, 0.03, 0.04]))


def write_log(project: Path, name: str, seed: int, brick: bool = False) -> None:
    """Another log of the pendulum, with or without the brick on its second link."""
    bare = Model(read_robot(project.parent / "pendulum.toml"), (Rotor(), Viscous(), Coulomb()))
    assert bare.layout.nominal is not None
    theta = bare.layout.nominal.copy()
    theta[bare.inertial_index[1]] += BRICK if brick else 0.0
    motion = motion_of(bare.robot, 2400, 200.0, seed=seed)
    tau = bare.torque(*motion[:3], theta) + 0.3 * np.random.default_rng(seed).standard_normal(motion.q.shape)
    columns = {"t": np.arange(2400) / 200.0}
    columns |= {f"{what}_joint{j + 1}": x for what, rows in (("q", motion.q), ("tau", tau)) for j, x in enumerate(rows)}
    (project.parent / name).write_text(csv(columns), "utf-8")


@pytest.fixture
def loaded(project: Path, steelyard: Run) -> Path:
    """The result of the pendulum with a run that carries a brick of known mass."""
    write_log(project, "brick.csv", 7, brick=True)
    text = project.read_text("utf-8").replace('"wls"', '"auto"')
    text += '\n[[run]]\nlog = "brick.csv"\nload = "brick"\n\n[[payload]]\nname = "brick"\nmass = 3.0\n'
    project.write_text(text, "utf-8")
    told = steelyard("identify", project)
    assert told.code == 0, told.err
    return project.parent / "project-run"


@pytest.mark.parametrize("to", ["urdf", "python"])
def test_a_file_is_scored_on_the_runs_that_carry_its_load(
    to: str, loaded: Path, steelyard: Run, tmp_path: Path
) -> None:
    bare, full = (
        steelyard("export", loaded, "--to", to, "--out", tmp_path / f"{load}.{to}", "--load", load, "--json")
        for load in ("none", "brick")
    )
    assert (bare.code, full.code) == (0, 0), bare.err + full.err
    for told, load in ((bare, "none"), (full, "brick")):
        scores = told.document["scores"]
        assert scores["load"] == load
        rows = scores["fitted"]["file"]["rows"]["joint1"]
        assert rows <= 2400 / 6  # one of two runs
        assert scores["fitted"]["file"]["total"] < 0.05
    assert "of runs with the load 'brick'" in " ".join((tmp_path / f"brick.{to}").read_text("utf-8").split())
    # the file before does not carry the brick
    if to == "urdf":
        log = np.genfromtxt(loaded.parent / "brick.csv", delimiter=",", names=True)
        printed = full.document["scores"]["fitted"]["file"]["total"]
        assert printed == pytest.approx(
            file_error(tmp_path / "brick.urdf", {x: log[x] for x in log.dtype.names or ()}), abs=0.01
        )
        assert full.document["scores"]["fitted"]["original"]["total"] > 0.2
        assert bare.document["scores"]["fitted"]["original"]["total"] < 0.05
        assert "Bodies unlike" not in full.err


def test_a_load_that_no_run_carries_is_not_scored(loaded: Path, steelyard: Run, tmp_path: Path) -> None:
    text = (loaded.parent / "project.toml").read_text("utf-8")
    text = text.replace('[[run]]\nlog = "log.csv"\n', "")
    (loaded.parent / "project.toml").write_text(text, "utf-8")
    assert steelyard("identify", loaded.parent / "project.toml").code == 0
    for to in ("urdf", "python"):
        told = steelyard("export", loaded, "--to", to, "--out", tmp_path / f"a.{to}", "--json")
        assert told.code == 0, told.err
        assert told.document["scores"] is None
        assert "every run of the result carries a payload ('brick'); see --load" in told.document["unscored"]
        assert "every run of the result carries" in " ".join((tmp_path / f"a.{to}").read_text("utf-8").split())


# --- Logs that are gone -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", ["changed", "gone"])
def test_an_unseen_log_that_cannot_be_read_costs_its_score_only(
    damage: str, project: Path, steelyard: Run, tmp_path: Path
) -> None:
    unseen = project.parent / "unseen.csv"
    write_log(project, unseen.name, 8)
    text = project.read_text("utf-8").replace('"wls"', '"auto"')
    project.write_text(text + '\n[[run]]\nlog = "unseen.csv"\nrole = "validate"\n', "utf-8")
    assert steelyard("identify", project).code == 0
    options = ("export", project.parent / "project-run", "--to", "urdf", "--json", "--out")
    whole = steelyard(*options, tmp_path / "a.urdf").document
    if damage == "gone":
        unseen.unlink()
    else:
        write_log(project, unseen.name, 9)
    told = steelyard(*options, tmp_path / "b.urdf")
    assert told.code == 0, told.err
    assert told.document["fit"] == whole["fit"]
    assert told.document["scores"]["fitted"] == whole["scores"]["fitted"]
    assert whole["scores"]["unseen"]
    assert told.document["scores"]["unseen"] == {}
    assert [note for note in told.document["notes"] if note.startswith("Not scored on unseen motion: ")]


def test_the_comment_of_a_file_says_what_it_lacks_and_whether_it_was_scored(
    result: Path, steelyard: Run, tmp_path: Path
) -> None:
    def comment(*options: str) -> str:
        told = steelyard("export", result, "--to", "urdf", "--out", tmp_path / "a.urdf", *options)
        assert told.code == 0, told.err
        (found,) = re.findall(r"<!--.*?-->", (tmp_path / "a.urdf").read_text("utf-8"), re.DOTALL)
        return " ".join(found.split())

    exact = comment("--exact")
    assert "Torque error of this file" in exact
    assert "The rotor inertia Ia of joint1, joint2: not written" in exact
    assert "because - -exact keeps them" in exact
    (result.parent / "log.csv").unlink()
    lost = comment()
    assert "The errors of this file are not known: the logs of the result cannot be read again" in lost
    assert "The rotor inertia Ia of joint1, joint2: not written" in lost
