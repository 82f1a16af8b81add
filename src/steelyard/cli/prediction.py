"""Command that predicts the torque of a motion, with a band: `predict`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from steelyard.cli import option_values
from steelyard.cli.console import (
    EpisodeOption,
    JsonFlag,
    RowsOption,
    SecondsOption,
    check_part,
    emit,
    progress_bar,
    say,
    say_findings,
)
from steelyard.cli.tables import show
from steelyard.errors import OutputError, SteelyardError, choices

if TYPE_CHECKING:
    import polars as pl

    from steelyard.export.motion_check import Written
    from steelyard.findings import Finding
    from steelyard.identification.prediction import Prediction
    from steelyard.identification.result import Identification
    from steelyard.regression.problem import Problem
    from steelyard.signals.samples import Samples

SCHEMA = "steelyard.prediction/1"
ENDINGS = (".csv", ".parquet")


def predict_command(
    result: Annotated[Path, typer.Argument(help="Run folder or its result.json.")],
    motion: Annotated[
        Path,
        typer.Argument(help="Motion file of `excite` (.csv, .parquet, .yaml), or a log with the columns of the fit."),
    ],
    out: Annotated[
        Path | None,
        typer.Option(help="File to write, .csv or .parquet; an existing one is replaced. Default: a new file."),
    ] = None,
    load: Annotated[
        str, typer.Option(help="Payload that the robot carries: a name of the project.")
    ] = option_values.UNLOADED,
    rows: RowsOption = None,
    seconds: SecondsOption = None,
    episode: EpisodeOption = None,
    as_json: JsonFlag = False,
) -> None:
    """One row per sample of a motion file; of a log, the rows of the fit (filtered and decimated), with the measured
    effort. The band is empty where a joint is at rest."""
    from steelyard.identification.prediction import band_of, predict
    from steelyard.project.documents import record
    from steelyard.project.output_folder import write_files
    from steelyard.project.reopen import reopen
    from steelyard.report.tables.prediction import prediction_table, torque_summary

    place = _place(motion, out)
    check_part([motion], rows, seconds, episode)
    planned = _planned(result, motion)
    logs = [] if planned is not None else [motion]
    reopened = reopen(result, logs, rows=rows, seconds=seconds, episode=episode, load=load)
    if band_of(reopened.result) is None:
        raise SteelyardError(
            f"'{reopened.file}' was written by a version without prediction bands: run `steelyard identify` again."
        )
    with progress_bar() as progress:
        if planned is None:
            problem, (run,) = reopened.problem(progress)
        else:
            problem, run = _as_problem(reopened.fit_problem(progress), planned, motion, load)
        found = predict(reopened.result, problem, run)
    findings = _doubts(reopened.result)
    frame = _frame(found, measured=planned is None)
    write_files({place: _content(frame, place.suffix.lower())})
    rows_of_summary = torque_summary(found, measured=planned is None)
    if as_json:
        emit(record(SCHEMA, {"robot": reopened.result.robot, "motion": motion, "rows": len(found.t), "file": place,
                             "level": 0.95, "joints": rows_of_summary, "findings": findings}))  # fmt: skip
    say_findings(findings)
    show(prediction_table(rows_of_summary, reopened.result.base.layout))
    say(f"Written: {place}")


def _place(motion: Path, out: Path | None) -> Path:
    """Where to write: `out`, or a new file in the current folder named after the motion."""
    from steelyard.project.output_folder import check_file

    place = Path(f"{motion.stem}-torque.csv") if out is None else out
    if place.suffix.lower() not in ENDINGS:
        raise OutputError(f"'{place}': " + choices("ending of a prediction", place.suffix, ENDINGS))
    if out is None and place.exists():
        raise OutputError(f"'{place}' exists already: name a file with --out.")
    if place.resolve() == motion.resolve():
        raise OutputError(f"'{place}' is the motion itself: name another file with --out.")
    check_file(place)
    return place


def _planned(result: Path, motion: Path) -> Written | None:
    """The motion file; None for a log, which has the columns that the project of the result maps."""
    from steelyard.export.motions import read_motion

    ending = motion.suffix.lower()
    if ending in (".yaml", ".yml", ".script"):
        return read_motion(motion)
    if ending not in ENDINGS:
        return None
    columns = _columns(motion)
    kinds = {kind: {name[2:] for name in columns if name.startswith(f"{kind}_")} for kind in "qva"}
    if "t" in columns and kinds["q"] and kinds["q"] == kinds["v"] == kinds["a"] and set(columns) == {
        "t", *(f"{kind}_{joint}" for kind in "qva" for joint in kinds["q"])
    }:  # fmt: skip
        return read_motion(motion)
    return None


def _columns(file: Path) -> list[str]:
    """The names of the columns; none where the file cannot be read, which `reopen` then says."""
    import csv

    import polars as pl

    try:
        if file.suffix.lower() == ".parquet":
            return list(pl.read_parquet_schema(file))
        with file.open(encoding="utf-8", newline="") as stream:
            return next(csv.reader(line for line in stream if not line.startswith("# ")), [])
    except (OSError, UnicodeDecodeError, csv.Error, pl.exceptions.PolarsError):
        return []


def _as_problem(fitted: Problem, planned: Written, motion: Path, load: str) -> tuple[Problem, Samples]:
    """The motion as a run without a filter, with the mask of the fit."""
    from dataclasses import replace

    from steelyard.signals.samples import Samples

    names = fitted.model.robot.axis_names
    if set(planned.joints) != set(names):
        raise SteelyardError(
            f"'{motion}' moves {', '.join(planned.joints)}; the robot of the result has {', '.join(names)}."
        )
    order = [planned.joints.index(name) for name in names]
    assert planned.v is not None
    assert planned.a is not None
    rate = 1.0 / float(np.median(planned.step))
    # no effort was measured; a ramp, because an effort that never changes is treated as a dead channel
    q, v, a = planned.q[order], planned.v[order], planned.a[order]
    run = Samples.from_arrays(motion.name, names, rate, q, v, a, np.tile(planned.t, (len(q), 1)), load)
    run = replace(run, drives=fitted.drives)
    return replace(fitted.with_runs([run]), lowpass_hz=None, decimate=None, delay=(), experiment=None), run


def _doubts(result: Identification) -> list[Finding]:
    """What the band does not contain."""
    from steelyard.findings import Finding

    lost = [name for name, seen in zip(result.base.names, result.excited, strict=True) if not seen]
    if not lost:
        return []
    message = f"the fit has no error bar for {', '.join(lost)}: the band does not contain their errors"
    return [Finding("band-incomplete", "warning", message, fix="identify with a motion that excites them")]


def _frame(found: Prediction, measured: bool) -> pl.DataFrame:
    """t, then per joint the torque and both ends of its band; of a log the measured effort too."""
    import polars as pl

    assert found.half is not None
    data: dict[str, Any] = {"t": found.t}
    for j, joint in enumerate(found.joints):
        torque, half = found.predicted[j], np.where(found.scored[j], found.half[j], np.nan)
        data |= {f"torque_{joint}": torque, f"low_{joint}": torque - half, f"high_{joint}": torque + half}
        data |= {f"measured_{joint}": found.measured[j]} if measured else {}
    return pl.DataFrame(data).with_columns(pl.all().fill_nan(None))


def _content(frame: pl.DataFrame, ending: str) -> bytes:
    import io

    out = io.BytesIO()
    if ending == ".parquet":
        frame.write_parquet(out)
    else:
        frame.write_csv(out)
    return out.getvalue()
