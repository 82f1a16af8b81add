"""Findings from the survey of a log: jumps, repeated and stale rows, clipped efforts, gaps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from steelyard.findings import Finding
from steelyard.signals.clock import Survey
from steelyard.signals.recording import Recording

# Largest plausible step of a joint [rad | m] between two rows of a log less than `_CLOSE` [s] apart.
_LEAP, _CLOSE = 1.0, 0.05
# Repeated rows are reported above this fraction of all rows.
_REPEATED = 0.01


def log_findings(
    recording: Recording,
    joints: Sequence[str],
    survey: Survey,
    gap: float,
    unfiltered: bool,
    rounding: Sequence[Finding],
) -> tuple[Finding, ...]:
    """Findings on a log split at steps longer than `gap` [s]. `unfiltered` means that positions are differentiated
    twice without a filter; `rounding` are the findings on the log's resolution."""
    return (
        *(Finding("log-note", "warning", note, recording.name) for note in recording.notes),
        *(_unfiltered(recording.name) if unfiltered else ()),
        *_jumps(joints, survey),
        *_repeats(recording.name, survey),
        *_clipped(joints, survey),
        *rounding,
        *_gaps(recording.name, survey, gap),
    )


def _unfiltered(log: str) -> Iterator[Finding]:
    yield Finding(
        "unfiltered-derivatives",
        "warning",
        "positions were differentiated twice without a low-pass filter: noise and rounding bias the inertias",
        log,
        "set cutoff_hz in [prepare] to about five times the highest frequency of the motion",
    )


def _jumps(joints: Sequence[str], survey: Survey) -> Iterator[Finding]:
    """Steps that no motor can make in one sample: a wrapped angle, a lost sample, a logger that froze."""
    for name, leap in zip(joints, survey.largest_step, strict=True):
        if leap > _LEAP and survey.step < _CLOSE:
            yield Finding(
                "position-jump",
                "error",
                f"the position of {name} jumps by {leap:.4g} from one row to the next",
                name,
                "unwrap angles that wrap at a full turn, and split the log at lost samples",
            )


def _repeats(log: str, survey: Survey) -> Iterator[Finding]:
    if survey.late:
        yield Finding(
            "late-rows",
            "warning",
            f"{survey.late} of {survey.rows} rows have a time before that of an earlier row and were dropped",
            log,
            "log the time of the measurement, and write the rows in its order",
        )
    if survey.repeated_times > _REPEATED * survey.rows:
        yield Finding(
            "repeated-times",
            "warning",
            f"{survey.repeated_times} of {survey.rows} rows have the time of the previous row and were dropped",
            log,
            "log the clock with more digits",
        )
    if survey.stale > _REPEATED * survey.rows:
        yield Finding(
            "repeated-rows",
            "info",
            f"{survey.stale} of {survey.rows} rows are equal to the previous row and were dropped: the logger is "
            "faster than the robot",
            log,
            f"the actual rate is about {1 / survey.step:.4g} Hz",
        )


def _clipped(joints: Sequence[str], survey: Survey) -> Iterator[Finding]:
    for name, fraction, limit in zip(joints, survey.saturation, survey.limit, strict=True):
        if fraction > 0.0:
            yield Finding(
                "saturated-effort",
                "warning",
                f"the effort of {name} is clipped at {limit:.6g} (as logged) in {fraction:.2%} of the rows",
                name,
                "record a slower motion, or exclude the clipped time with 'seconds' or 'rows'",
            )


def _gaps(log: str, survey: Survey, gap: float) -> Iterator[Finding]:
    if len(survey.spans) > 1:
        yield Finding("gaps", "info", f"{len(survey.spans) - 1} gaps longer than {gap:.4g} s", log)
