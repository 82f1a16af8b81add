"""What the survey of a log gives away: jumps, repeated and stale rows, clipped efforts, gaps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from steelyard.findings import Finding
from steelyard.signals.clock import Survey
from steelyard.signals.recording import Recording

# No joint moves this far [rad | m] from one row of a log to the next, where rows are less than `_CLOSE` [s] apart.
_LEAP, _CLOSE = 1.0, 0.05
# Repeated rows are reported above this part of all.
_REPEATED = 0.01


def log_findings(
    recording: Recording,
    joints: Sequence[str],
    survey: Survey,
    gap: float,
    unfiltered: bool,
    rounding: Sequence[Finding],
) -> tuple[Finding, ...]:
    """Findings on a log split at steps longer than `gap` [s]; `unfiltered` positions are differentiated twice as they
    are; `rounding` are the findings on its digits."""
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
        "positions were differentiated twice without a low-pass: noise and rounding bias the inertias",
        log,
        "set cutoff_hz under [prepare], about five times the highest frequency of the motion",
    )


def _jumps(joints: Sequence[str], survey: Survey) -> Iterator[Finding]:
    """Steps that no motor makes in one sample: an angle that wraps, a sample that was lost, a frozen logger."""
    for name, leap in zip(joints, survey.largest_step, strict=True):
        if leap > _LEAP and survey.step < _CLOSE:
            yield Finding(
                "position-jump",
                "error",
                f"the position of {name} jumps by {leap:.4g} from one row to the next",
                name,
                "unwrap angles that turn over at a full turn, and cut the log at lost samples",
            )


def _repeats(log: str, survey: Survey) -> Iterator[Finding]:
    if survey.repeated_times > _REPEATED * survey.rows:
        yield Finding(
            "repeated-times",
            "warning",
            f"{survey.repeated_times} of {survey.rows} rows repeat the time of the row before and were dropped",
            log,
            "log the clock with more digits",
        )
    if survey.stale > _REPEATED * survey.rows:
        yield Finding(
            "stale-rows",
            "info",
            f"{survey.stale} of {survey.rows} rows repeat the row before and were dropped: the log outruns the robot",
            log,
            f"the real rate is about {1 / survey.step:.4g} Hz",
        )


def _clipped(joints: Sequence[str], survey: Survey) -> Iterator[Finding]:
    for name, fraction, limit in zip(joints, survey.saturation, survey.limit, strict=True):
        if fraction > 0.0:
            yield Finding(
                "saturated-effort",
                "warning",
                f"the effort of {name} is clipped: in {fraction:.2%} of the rows it sits at {limit:.6g}, as logged",
                name,
                "record a slower motion, or keep the clipped time out with 'seconds' or 'rows'",
            )


def _gaps(log: str, survey: Survey, gap: float) -> Iterator[Finding]:
    if len(survey.spans) > 1:
        yield Finding("gaps", "info", f"{len(survey.spans) - 1} gaps longer than {gap:.4g} s", log)
