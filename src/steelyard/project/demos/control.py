"""Control laws with an identified model on a motion of the user's: tracking errors as in P3 Table 4, simulated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy.interpolate import CubicSpline

from steelyard._arrays import Array
from steelyard.errors import DataError, SimulationError
from steelyard.estimators.standard_set import closest
from steelyard.identification.result import Identification
from steelyard.model.model import Model
from steelyard.model.payload import UNLOADED
from steelyard.project.papers.page.curves import per_axis
from steelyard.project.reopen import Reopened, reopen
from steelyard.report.composed import ComposedPart
from steelyard.report.table import Table, TableColumn, table
from steelyard.signals.recording import Progress
from steelyard.signals.samples import Samples
from steelyard.simulation.closed_loop import Reference
from steelyard.simulation.plant import Plant
from steelyard.simulation.tracking import ControlLaw, TrackedMotion, computed_torque, followed, pid_laws

IDENTIFIED, NOMINAL = "computed torque, identified model", "computed torque, model of the robot file"
# sign(v) is smooth over this share of the top speed of the motion: the simulation needs a slope.
SMOOTH = 0.02


@dataclass(frozen=True, eq=False)
class ControlComparison:
    """Control laws on one motion: the run they follow, the rate of the controller [Hz], their bandwidth [Hz], σ of the
    true parameters' draw in units of the identified σ, and why laws are missing."""

    result: Identification
    motion: str
    axes: tuple[str, ...]
    units: tuple[str, ...]
    rate_hz: float
    bandwidth_hz: float
    sigmas: float
    runs: tuple[TrackedMotion, ...]
    failed: tuple[str, ...]

    @property
    def verdict(self) -> str:
        """One sentence: the mean rms error of the laws in turn, and which is best."""
        mean = {one.law: float(np.mean(one.tracking.rms)) for one in self.runs}
        best = min(mean, key=lambda law: mean[law])
        others = [f"{_times(x / mean[best])} times that by {law}" for law, x in mean.items() if law != best]
        unit = "/".join(sorted({f"m{unit}" for unit in self.units}))
        return f"Smallest mean rms error: {1e3 * mean[best]:.3g} {unit} by {best}; {', '.join(others)}."


def control(
    place: Path,
    log: Path | None = None,
    *,
    load: str = UNLOADED,
    seconds: float = 10.0,
    bandwidth_hz: float = 10.0,
    rate_hz: float = 1000.0,
    sigmas: float = 1.0,
    sign_width: float | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> ControlComparison:
    """PID, PID with the velocity of the reference, and computed torque on the motion of a log, or of the first run.

    The robot is simulated with parameters drawn around the identified ones within `sigmas` times their covariance, for
    no identified model is the truth. All laws have a triple pole at the bandwidth.
    """
    reopened = reopen(place, [] if log is None else [log], load=load)
    runs = reopened.fitted_samples("identify", progress) if log is None else reopened.problem(progress)[1]
    run, result = runs[0], reopened.result
    motion = reference_of(run, seconds, rate_hz)
    model = _smooth(reopened, motion, sign_width)
    theta = result.theta if result.standard is None else result.standard
    base, rng = result.base, np.random.default_rng(seed)
    apart = _drawn(result, rng) * sigmas
    true = Plant(model, closest(base, result.value + apart, theta), run.load)
    laws = list(_laws(model, theta, bandwidth_hz, run.load))
    made, failed = [], []
    for k, law in enumerate(laws):
        try:
            made.append(followed(true, law, run.name, motion, rate_hz))
        except SimulationError as error:
            failed.append(f"{law.name}: {error}")
        if progress is not None:
            progress("control laws", k + 1, len(laws))
    if not made:
        raise SimulationError(f"No control law follows this motion. {failed[0]}")
    units = tuple("m" if joint.is_prismatic else "rad" for joint in model.robot.axes)
    names = model.robot.axis_names
    return ControlComparison(result, run.name, names, units, rate_hz, bandwidth_hz, sigmas, tuple(made), tuple(failed))


def reference_of(run: Samples, seconds: float, rate_hz: float) -> Reference:
    """The first gap-free stretch of a run, at most `seconds` of it, at the rate of the controller."""
    parts, stretch = [], None
    for piece in run.open():
        if stretch not in (None, piece.stretch):
            break
        stretch = piece.stretch
        parts.append(piece.q)
    q = np.concatenate(parts, axis=1) if parts else np.zeros((len(run.joints), 0))
    q = q[:, : int(seconds * run.rate)]
    if q.shape[1] < 10:
        raise DataError(f"Run '{run.name}' has only {q.shape[1]} samples in {seconds:g} s: choose a longer motion.")
    spline = CubicSpline(np.arange(q.shape[1]) / run.rate, q, axis=1)
    t = np.arange(0.0, (q.shape[1] - 1) / run.rate, 1.0 / rate_hz)
    return Reference(spline(t), spline(t, 1), spline(t, 2))


def _smooth(reopened: Reopened, motion: Reference, width: float | None) -> Model:
    """The model of the result with a sign(v) that can be simulated."""
    stated = reopened.project.spec.sign_width
    top = float(np.median(np.abs(motion.v).max(axis=1)))
    chosen = width or stated or SMOOTH * top
    model = reopened.project.with_spec(sign_width=chosen).model()
    carried = reopened.result.carried
    return model if carried is None else replace(model, carried=carried)


def _drawn(result: Identification, rng: np.random.Generator) -> Array:
    """A draw (b,) of the error of the base values, zero for what is cancelled."""
    covariance = result.covariance if np.isfinite(result.std).any() else result.covariance_classical
    values, vectors = np.linalg.eigh(np.nan_to_num(covariance))
    return vectors @ (np.sqrt(np.maximum(values, 0.0)) * rng.standard_normal(len(values)))


def _laws(model: Model, theta: Array, hertz: float, load: str) -> Iterator[ControlLaw]:
    assumed = Plant(model, theta, load)
    yield from pid_laws(assumed, hertz)
    if model.layout.nominal is not None:
        yield computed_torque(NOMINAL, Plant(model, model.layout.nominal, load), hertz)
    yield computed_torque(IDENTIFIED, assumed, hertz)


def control_table(done: ControlComparison) -> Table:
    """Largest and rms error of every axis by every law, in thousandths of the axis' unit."""
    columns = [TableColumn("law", "Control law")]
    for key, group in (("largest", "Largest tracking error"), ("rms", "RMS tracking error")):
        columns += [
            TableColumn(f"{key}_{axis}", axis, "number", unit=f"m{unit}", group=group, digits=3)
            for axis, unit in zip(done.axes, done.units, strict=True)
        ]
    rows = [(x.law, *(1e3 * e for e in (*x.tracking.largest, *x.tracking.rms))) for x in done.runs]
    title = f"Motion of '{done.motion}', triple pole at {done.bandwidth_hz:g} Hz, controller at {done.rate_hz:g} Hz"
    note = (
        f"Simulated: the robot's parameters are drawn around the identified ones ({done.sigmas:g} times their "
        "covariance). What no model contains (elasticity, play, ripple) is missing, so a real robot errs more."
    )
    return table("control", title, columns, rows, notes=(note, *done.failed))


def control_parts(done: ControlComparison) -> Iterator[ComposedPart]:
    """The sections of its page."""
    first = done.runs[0]
    errors = {x.law: (x.t, 1e3 * x.error) for x in done.runs}
    caption = "A click on a law in the legend hides it."
    yield ComposedPart("table", "Tracking errors", (control_table(done),))
    yield ComposedPart("errors", "Errors over time", (per_axis(done.axes, errors, "t [s]", "error [10⁻³]", caption),))
    motion = per_axis(done.axes, {"reference": (first.t, first.reference)}, "t [s]", "q")
    yield ComposedPart("motion", "The motion", (motion,))


def _times(ratio: float) -> str:
    return f"{ratio:.3g}" if ratio < 1000.0 else f"{ratio:.0f}"
