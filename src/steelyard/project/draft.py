"""A project file drafted from a robot and logs: the guessed channel map, the reasons, and further keys as comments."""

from __future__ import annotations

import json
import os
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import wrap

from steelyard.errors import OutputError
from steelyard.estimators import ESTIMATORS
from steelyard.findings import Finding
from steelyard.formats.logs import read_recording
from steelyard.formats.logs.known_loggers import EARLY_LIBFRANKA, LIBFRANKA, RTDE
from steelyard.formats.robots import builtin_robots, read_robot
from steelyard.formats.robots.bases import Base
from steelyard.formats.robots.holding import bolted, held_positions, hold
from steelyard.model.robot import Robot
from steelyard.project.output_folder import write_files
from steelyard.signals.channels import GAIN_PER
from steelyard.signals.guess import Guess, GuessedRuns, GuessedSignal, guess_channels, guess_runs
from steelyard.signals.guess.absent_joints import absence_finding, absent_joints
from steelyard.signals.guess.base import GuessedBase, guess_base
from steelyard.signals.guess.choose import COMMANDED
from steelyard.signals.guess.names import range_of

HEADERS = (RTDE, LIBFRANKA, EARLY_LIBFRANKA)
_WIDTH = 118


@dataclass(frozen=True)
class Draft:
    """A project file that is not written yet, and the guess in it."""

    path: Path
    text: str
    guess: Guess
    runs: GuessedRuns
    robot: Robot


def draft_project(
    robot: str,
    logs: Sequence[Path],
    path: Path,
    *,
    topic: str | None = None,
    episode: int | None = None,
    time: str | None = None,
    rate_hz: float | None = None,
    held: Sequence[str] = (),
    base: Base | None = None,
) -> Draft:
    """The project file for these logs; paths in it are relative to `path`.

    `time` names the column of the clock, `rate_hz` is the rate of the rows of logs without a clock. `held` are joints
    that do not move ("finger*=0.02"); joints that the logs do not have are held too. `base` is fixed or floats.
    """
    described = read_robot(robot, held=held, base=base)
    recordings = [read_recording(log, topic=topic, episode=episode, every_episode=episode is None) for log in logs]
    absent = absent_joints(recordings[0].columns, described)
    if absent:
        whole, described = described, hold(described, absent)
        listed = held_positions(whole, {name: described.held[name] for name in absent})
        described = replace(described, findings=(*whole.findings, absence_finding(listed)))
    guess = guess_channels(recordings, bolted(described), HEADERS, time=time, rate_hz=rate_hz)
    moving = None
    if described.floats:
        taken = [guess.time.column, *(column for one in guess.signals.values() for column in one.columns)]
        moving = guess_base(recordings[0], described, taken)
        if moving is None:
            guess = replace(guess, findings=(*guess.findings, _BASE_MISSING))
    runs = guess_runs(recordings, guess.time, split=episode is None)
    lines = [
        *_top(guess, logs),
        "",
        *_settings(stated_robot(robot, path), described, (*held, *absent), base, guess),
        "",
        *_channels(guess, runs, described),
        *(_base(moving) if described.floats else ()),
        *_runs(runs, logs, path, topic, episode),
    ]
    return Draft(path, "\n".join(lines) + "\n", guess, runs, described)


_BASE_MISSING = Finding(
    "missing-value",
    "error",
    "the base floats, and no columns were found that look like a gyroscope and an accelerometer, or like a unit "
    "quaternion and a position, in x, y, z",
    "base",
    'name the columns in [channels.base], or state base = "fixed" if the base did not move',
)


def stated_robot(robot: str, project: Path) -> str:
    """A built-in name or a robot file in the form used in the project file."""
    if robot in builtin_robots():
        return robot
    file = _relative(Path(robot), project)
    return f"./{file}" if file in builtin_robots() else file  # a file of that name, not the built-in robot


def refuse_existing(path: Path, force: bool = False) -> None:
    """Raises an error if a project file exists and may not be replaced: called before any log is read too."""
    place = Path(os.path.realpath(path))
    if place.exists() and (not force or not place.is_file()):
        raise OutputError(f"'{path}' exists. Choose another file with --out, or replace it with --force.")


def write_draft(draft: Draft, force: bool = False) -> None:
    """Write the file completely or not at all; an existing one is replaced only with force."""
    refuse_existing(draft.path, force)
    place = Path(os.path.realpath(draft.path))
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        raise OutputError(f"Cannot write '{draft.path}': {error}. Choose another path with --out.") from None
    write_files({draft.path: draft.text.encode("utf-8")})


# --- The parts of the file --------------------------------------------------------------------------------------------


def _top(guess: Guess, logs: Sequence[Path]) -> Iterator[str]:
    """The decisions and their reasons, as comments."""
    named = ", ".join(log.name for log in logs)
    logger = f" (as {guess.logger} writes them)" if guess.logger else ""
    yield from _comment(f"Written by `steelyard init` from the columns{logger} and first rows of {named}.")
    yield from _comment("Assignment of the columns, with reasons:")
    yield from _comment(f"time: {guess.time.column} [{guess.time.unit}]: {'; '.join(guess.time.why)}", "  ")
    for label, signal in guess.signals.items():
        yield from _comment(f"{label}: {range_of(signal.columns)}: {'; '.join(signal.why)}", "  ")
    if guess.left_out:
        yield from _comment(f"v: not used, positions are differentiated: {guess.left_out}", "  ")
    for code, heading in (("uncertain-guess", "Check:"), ("missing-value", "Fill in before `steelyard identify`:")):
        found = [one for one in guess.findings if one.code == code]
        if found:
            yield from _comment(heading)
        for one in found:
            yield from _comment(f"{one.where}: {one.message}. {one.fix}", "  ")


def _settings(source: str, robot: Robot, held: Sequence[str], base: Base | None, guess: Guess) -> Iterator[str]:
    gravity = ", ".join(f"{x:g}" if x % 1 else f"{x:.1f}" for x in robot.gravity.tolist())
    yield f"robot = {_quoted(source)}"
    yield f"# gravity = [{gravity}]   # m/s², in the world frame"
    doubted = any(one.code == "base-assumed-fixed" for one in robot.findings)
    if base is not None or doubted:
        yield f"base = {_quoted(base)}" if base else '# base = "floating"   # or "fixed" if it did not move'
    if held:
        for one in robot.findings:
            if one.code == "joints-held":
                yield from _comment(f"{one.message}; {one.fix}" if one.fix else one.message)
        yield f"hold = [{', '.join(map(_quoted, held))}]"
    else:
        yield '# hold = ["finger*"]   # joints that do not move; "finger*=0.02" [rad | m] if not at zero'
    yield '# terms = "default"   # the robot\'s own, root and load friction, pre-sliding; or "plain", or a list'
    yield '# estimator = "auto"'
    others = ", ".join(name for name in ESTIMATORS if name != "auto")
    yield from wrap(f"or {others}", 118, initial_indent="#   ", subsequent_indent="#   ")
    yield ""
    yield "[prepare]"
    yield '# cutoff_hz = "auto"     # low-pass of positions [Hz]; "auto" chooses it from the spectrum of the motion'
    yield '# lowpass_hz = "auto"    # parallel filter of effort and model [Hz], likewise'
    yield '# derivatives = "auto"   # or "differences", "smoother"'
    yield '# delay = "auto"         # of efforts [s]'
    rate = f"# rate_hz = {float(f'{guess.time.rate_hz:.4g}')}"
    yield f"{rate:<24} # uniform rate for a log with jitter; default: the usual rate of the log"
    yield "# rest = 0.02            # example, not the default: leaves out rows below 0.02 of the top speed;"
    yield "#                        # 0.0 keeps all. Default: the smaller of 0.02 rad/s or m/s and 0.05 of top speed"
    if guess.has_empty_cells:
        yield 'missing = "drop"         # rows with an empty cell, which the log has; or "error"'
    else:
        yield '# missing = "error"      # or "drop": rows with an empty cell'


def _channels(guess: Guess, runs: GuessedRuns, robot: Robot) -> Iterator[str]:
    yield "[channels]"
    for other in guess.time.others:
        yield from _comment(f"not used: {range_of(other.columns)} ({other.why})")
    yield from _checks(guess, "time")
    if guess.time.is_stated:
        yield f"time = {{ rate_hz = {guess.time.rate_hz!r} }}   # the rows per second of a log without a clock"
    else:
        yield f"time = {{ column = {_quoted(guess.time.column)}, unit = {_quoted(guess.time.unit)} }}"
    if runs.episode is not None:
        yield f"episode = {_quoted(runs.episode)}   # the column that numbers the episodes of a log"
    for label, signal in guess.signals.items():
        yield ""
        yield f"[channels.{label}]"
        yield from _checks(guess, label)
        yield f"unit = {_one_or_list(signal.units)}"
        yield from _side(signal)
        if signal.signs:
            yield f"sign = [{', '.join(f'{sign:g}.0' for sign in signal.signs)}]"
        else:
            yield "# sign = 1.0   # -1.0 for the opposite direction; one value, a list, or a table by joint"
        if label == "q":
            yield "# offset = 0.0   # rad or m, added after conversion, if the log has another zero"
        for other in signal.others:
            yield from _comment(f"not used: {range_of(other.columns)} ({other.why})")
        yield f"[channels.{label}.columns]"
        for joint, column in zip(robot.axis_names, signal.columns, strict=True):
            yield f"{_key(joint)} = {_quoted(column)}"
    for other in guess.q.others:
        if other.why == COMMANDED:
            said = "[channels.reference] is for commanded positions, for estimators that simulate"
            yield from _comment(f"{said}: {range_of(other.columns)}")


def _base(moving: GuessedBase | None) -> Iterator[str]:
    """[channels.base]: the motion of a floating base."""
    yield ""
    yield "[channels.base]"
    if moving is None:
        yield "# FILL IN: an IMU on the base, or its pose, each with columns in the order x, y, z (x, y, z, w):"
        yield '# gyroscope = { columns = [ … ], unit = "rad/s" }       # or "deg/s"'
        yield '# accelerometer = { columns = [ … ], unit = "m/s2" }    # or "g"'
        yield '# orientation = { columns = [ … ], unit = "xyzw" }      # or "wxyz"'
        yield '# position = { columns = [ … ], unit = "m" }            # or "mm"'
        return
    for kind, reason in moving.why.items():
        signal = getattr(moving.channels, kind)
        yield from _comment(f"{kind}: {reason}")
        yield f"{kind} = {{ columns = [{', '.join(map(_quoted, signal.columns))}], unit = {_quoted(signal.unit)} }}"
    if moving.channels.link:
        yield f"link = {_quoted(moving.channels.link)}   # the frame of the sensor, in the robot file"
    else:
        yield "# xyz = [0.0, 0.0, 0.0]   # place of that frame on the base [m], rpy its rotation [rad], link its body"


def _side(signal: GuessedSignal) -> Iterator[str]:
    if signal.side == "motor":
        yield 'side = "motor"'
        # an empty list raises an error that names the key, so that a forgotten ratio is never taken as 1
        yield "ratio = []   # FILL IN: motor turns per joint turn, one number per joint"
    else:
        yield '# side = "joint"   # or "motor" with ratio = [ … ], motor turns per joint turn'
    if "gain" in signal.to_fill_in:
        per = " and ".join(dict.fromkeys(GAIN_PER.get(unit, unit) for unit in signal.units))
        yield f"gain = []   # FILL IN: N.m (prismatic joint: N) at the joint per {per}, one number per joint,"
        yield from _comment('or gain = "unknown" to identify them too, with a [[payload]] of known mass on some run')


def _checks(guess: Guess, label: str) -> Iterator[str]:
    for one in guess.findings:
        if one.code == "uncertain-guess" and one.where.partition(".")[0] == label:
            yield from _comment(f"{one.where.partition('.')[2]}: {one.message}; {one.fix}")


def _runs(
    guessed: GuessedRuns, logs: Sequence[Path], path: Path, topic: str | None, episode: int | None
) -> Iterator[str]:
    twice = len({log.name for log in logs}) < len(logs)
    yield ""
    for note in guessed.notes:
        yield from _comment(note)
    if len(guessed.runs) < 2:
        yield from _comment('Keep one motion for validation: a run with role = "validate" is scored, not fitted.')
    for k, run in enumerate(guessed.runs):
        if k:
            yield ""
        files = [_relative(logs[log], path) for log in run.logs]
        number = episode if run.episode is None else run.episode
        yield "[[run]]"
        yield f"log = {_quoted(files[0]) if len(files) == 1 else '[' + ', '.join(map(_quoted, files)) + ']'}"
        if twice or run.episode is not None:
            first = files[0] if twice else logs[run.logs[0]].name
            yield f"name = {_quoted(first if run.episode is None else f'{first} {run.episode}')}"
        if run.role != "identify":
            yield f"role = {_quoted(run.role)}   # scored, not fitted"
        if topic is not None:
            yield f"topic = {_quoted(topic)}"
        if number is not None:
            yield f"episode = {number}"
        if k == 0:
            yield from ('# role = "identify"       # or "validate"',) if run.role == "identify" else ()
            yield "# seconds = [0.0, 10.0]   # the part to use, in log time; or rows = [1, 1000]"
            yield '# load = "none"           # or the name of the [[payload]] it carries'


# --- TOML -------------------------------------------------------------------------------------------------------------


def _comment(text: str, indent: str = "") -> list[str]:
    plain = re.sub(r"\s+", " ", text)
    return textwrap.wrap(plain, _WIDTH, initial_indent=f"# {indent}", subsequent_indent=f"# {indent}    ")


def _quoted(text: str) -> str:
    # JSON's escapes are valid in TOML, except for the one control character that JSON does not escape
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _quoted(name)


def _one_or_list(units: Sequence[str]) -> str:
    return _quoted(units[0]) if len(set(units)) == 1 else f"[{', '.join(map(_quoted, units))}]"


def _relative(file: Path, project: Path) -> str:
    """The file relative to the project's folder; absolute if there is no relative path."""
    try:
        return Path(os.path.relpath(file, project.parent)).as_posix()
    except ValueError:
        return file.resolve().as_posix()
