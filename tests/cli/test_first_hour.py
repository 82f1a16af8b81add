"""The commands of the first hour: is this machine ready, and a log of any robot file without a robot."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from steelyard.cli.start import doctor
from steelyard.formats.robots import read_robot
from steelyard.model.model import Model
from testbed.command import Run


@pytest.mark.slow
def test_doctor_says_what_works(steelyard: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    told = steelyard("doctor", "--json")
    assert told.code == 0
    document = told.document
    assert document["schema"] == "steelyard.doctor/1"
    assert document["ready"] is True
    found = {one["what"]: one for one in document["checks"]}
    assert set(found) >= {"versions", "kernels", "extra mjcf", "writing", "inverse dynamics", "simulation"}
    assert "numpy" in found["versions"]["found"]
    assert not list(tmp_path.iterdir())


def test_doctor_names_a_missing_extra_and_a_folder_that_cannot_be_written(
    steelyard: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "find_spec", lambda name: None)
    monkeypatch.setattr(doctor, "_speeds", list)

    def refused(**options: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(doctor.tempfile, "NamedTemporaryFile", refused)
    told = steelyard("doctor")
    assert told.code == 1
    text = " ".join(told.err.split())
    assert 'pip install "steelyard[hdf5]"' in text
    assert "Read-only file system" in text
    assert "Not ready" in text


@pytest.mark.slow
@pytest.mark.parametrize("controller", ["cascade", "computed-torque"])
def test_a_simulated_log_obeys_the_robot_file(steelyard: Run, tmp_path: Path, controller: str) -> None:
    out = tmp_path / "log.csv"
    told = steelyard(
        "simulate", "ur10e", "--out", out, "--duration", "4", "--rate", "500", "--noise", "0",
        "--controller", controller, "--terms", "rotor,viscous", "--json",
    )  # fmt: skip
    assert told.code == 0
    document = told.document
    robot = read_robot("ur10e")
    log = pl.read_csv(out)
    assert log.columns == ["t", *(f"{s}_{j}" for s in ("q", "tau") for j in robot.axis_names)]
    assert document["rows"] == log.height == 2000
    assert max(document["tracking"].values()) < 0.05
    # the invented friction and the bodies of the file explain the efforts in the middle of the log
    q = log.select([f"q_{j}" for j in robot.axis_names]).to_numpy().T
    v = np.gradient(q, 1 / 500.0, axis=1)
    a = np.gradient(v, 1 / 500.0, axis=1)
    from steelyard.model.terms import named_terms

    model = Model(robot, named_terms(["rotor", "viscous"]))
    theta = np.array([document["truth"][name] for name in model.layout.names])
    smooth = np.ones(25) / 25.0
    wanted, got = (
        np.stack([np.convolve(x, smooth, "valid")[50:-50] for x in rows])
        for rows in (model.torque(q, v, a, theta), log.select([f"tau_{j}" for j in robot.axis_names]).to_numpy().T)
    )
    assert np.linalg.norm(wanted - got) < 0.05 * np.linalg.norm(wanted)


@pytest.mark.slow
def test_a_motion_of_a_file_is_followed(steelyard: Run, tmp_path: Path) -> None:
    t = np.arange(0.0, 3.0, 0.01)
    motion, out = tmp_path / "motion.csv", tmp_path / "log.parquet"
    wanted = pl.DataFrame({"t": t, "q_joint1": 0.5 * np.sin(2 * t), "q_joint2": 0.3 * np.sin(3 * t)})
    wanted.write_csv(motion)
    told = steelyard(
        "simulate",
        "planar2r",
        "--motion",
        motion,
        "--out",
        out,
        "--rate",
        "500",
        "--gain",
        "position_hz=2",
        "--gain",
        "velocity_hz=8",
    )
    assert told.code == 0
    log = pl.read_parquet(out)
    at = log["t"].to_numpy()
    error = log["q_joint1"].to_numpy() - 0.5 * np.sin(2 * at)
    assert np.abs(error[at < 2.9]).max() < 0.1
    assert "steelyard init planar2r" in told.err
    again = steelyard("simulate", "planar2r", "--motion", motion, "--out", tmp_path / "two.parquet", "--rate", "500",
                      "--gain", "position_hz=2", "--gain", "velocity_hz=8")  # fmt: skip
    assert again.code == 0
    assert pl.read_parquet(tmp_path / "two.parquet").equals(log)


def test_another_seed_is_another_motion_of_the_same_robot(steelyard: Run, tmp_path: Path) -> None:
    def simulated(*options: str) -> tuple[dict[str, float], pl.DataFrame]:
        out = tmp_path / "log.csv"
        told = steelyard("simulate", "kr270", "--duration", "1", "--rate", "100", "--out", out, "--json", *options)
        assert told.code in (0, 1), told.err
        return told.document["truth"], pl.read_csv(out)

    first, other, robot, quiet = (
        simulated(*options) for options in ((), ("--seed", "2"), ("--robot-seed", "2"), ("--noise", "0"))
    )
    assert other[0] == first[0]
    assert not other[1].equals(first[1])
    assert robot[0] != first[0]
    # less noise leaves the motion as it is
    positions = [name for name in first[1].columns if name.startswith("q_")]
    assert quiet[1].select(positions).equals(first[1].select(positions))


def test_no_terms_are_none(steelyard: Run, tmp_path: Path) -> None:
    told = steelyard("simulate", "planar2r", "--duration", "1", "--rate", "100", "--out", tmp_path / "log.csv",
                     "--terms", "", "--json")  # fmt: skip
    assert told.code == 0, told.err
    assert {name.partition(".")[0] for name in told.document["truth"]} == {"link1", "link2"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--controller", "cascad"], "Did you mean 'cascade'"),
        (["--gain", "position_hz"], "--gain takes KEY=VALUE with numbers"),
        (["--gain", "kq=3"], "kq"),
        (["--terms", "viscos"], "Did you mean 'viscous'"),
        (["--out", "log.xlsx"], "Unknown log format '.xlsx'"),
        (["--out", "missing/log.csv"], "The folder 'missing' for 'log.csv' does not exist"),
    ],
)
def test_mistakes_are_one_sentence(
    steelyard: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    told = steelyard("simulate", "planar2r", "--duration", "1", "--rate", "100", *options)
    assert told.code == 2
    assert message in told.err
    assert len(told.err.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_a_motion_without_its_columns_is_named(steelyard: Run, tmp_path: Path) -> None:
    motion = tmp_path / "motion.csv"
    pl.DataFrame({"t": [0.0, 1.0], "q_joint1": [0.0, 1.0]}).write_csv(motion)
    told = steelyard("simulate", "planar2r", "--motion", motion, "--out", tmp_path / "log.csv")
    assert told.code == 2
    assert "lacks the columns q_joint2" in told.err
