"""Experiment: how runs were driven (references, controller, loop), so that they can be simulated."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from operator import attrgetter
from typing import Any, Literal

import numpy as np

from steelyard._arrays import Array
from steelyard.errors import DataError
from steelyard.model.model import Model
from steelyard.signals.samples import Samples
from steelyard.simulation.closed_loop import IDEAL, Loop, Reference, simulate
from steelyard.simulation.controllers import Controller, controller_from
from steelyard.simulation.plant import Plant


@dataclass(frozen=True, eq=False)
class Experiment:
    """References, controller and loop of the runs of a problem.

    references   by run, one per gap-free stretch, on its samples
    control      the controller for a plant: the same for every plant where its gains are known, or tuned to a
                 bandwidth, which is then kept as the parameters change (P4 §III)
    loop         encoders and drives between controller and plant
    approximate  why the references are not the commanded ones, as text; empty where they are
    """

    references: Mapping[str, Sequence[Reference]]
    control: Callable[[Plant], Controller]
    loop: Loop = IDEAL
    approximate: str = ""


Source = Literal["commanded", "measured"]
SOURCES: tuple[Source, ...] = ("commanded", "measured")
MEASURED = (
    "no commanded motion was used: the reference is the filtered measured motion, so the simulated motion lags behind "
    "it"
)
INTEGRATED = (
    "only velocities were commanded: the reference positions are their integral from the start of each stretch, and "
    "may drift from those of the controller"
)
# A reference this far [rad | m] from the measured position has another zero, sign, unit or joint.
_ASTRAY = 0.3
# Number of positions of the motion over which a controller's inertias are averaged.
_POSITIONS = 256
# The inertias that a plant needs to have a mass matrix.
_MASSES = ("XX", "YY", "ZZ", "M", "Ia")


@dataclass(frozen=True, eq=False)
class RunReferences(Mapping[str, Sequence[Reference]]):
    """References by run, read on first use."""

    runs: tuple[Samples, ...]
    read: Callable[[Samples], Sequence[Reference]]

    @cached_property
    def _found(self) -> dict[str, Sequence[Reference]]:
        return {}

    def __getitem__(self, name: str) -> Sequence[Reference]:
        if name not in self._found:
            self._found[name] = self.read({run.name: run for run in self.runs}[name])
        return self._found[name]

    def __iter__(self) -> Iterator[str]:
        return iter(run.name for run in self.runs)

    def __len__(self) -> int:
        return len(self.runs)

    @cached_property
    def positions(self) -> Array:
        """Reference positions (n, m) spread over all runs."""
        q = np.concatenate([one.q for name in self for one in self[name]], axis=1)
        return q[:, :: max(1, q.shape[1] // _POSITIONS)]


def measured_references(runs: Sequence[Samples]) -> RunReferences:
    """The filtered measured motion instead of the commanded one."""
    return RunReferences(tuple(runs), _measured)


def commanded_references(runs: Sequence[Samples]) -> RunReferences:
    """The commanded motion; raises an error for a run whose log does not hold it."""
    for run in runs:
        if run.reference is None:
            raise DataError(
                f"Run '{run.name}' has no commanded motion: set reference in [channels], or use the measured one "
                'with reference = "measured" in [experiment].'
            )
    return RunReferences(tuple(runs), _commanded)


def experiment_of(
    model: Model,
    runs: Sequence[Samples],
    controller: Mapping[str, Any],
    loop: Loop = IDEAL,
    reference: Source = "commanded",
) -> Experiment:
    """The experiment of the runs: `controller` is a table for `controller_from`, with gains, which are then the same
    for every plant, or with bandwidths, to which it is tuned for every plant over the positions of the references."""
    references = measured_references(runs) if reference == "measured" else commanded_references(runs)
    controller_from(controller, _stand_in(model), side=loop.side)

    def control(plant: Plant) -> Any:
        return controller_from(controller, plant, references.positions, loop.side)

    return Experiment(references, control, loop, MEASURED if reference == "measured" else "")


def with_runs(experiment: Experiment, runs: Sequence[Samples]) -> Experiment:
    """The same controller and loop for other runs, whose references are read in the same way."""
    before = experiment.references
    if not isinstance(before, RunReferences):
        return experiment
    return replace(experiment, references=RunReferences(tuple(runs), before.read))


def rehearse(model: Model, runs: Sequence[Samples], controller: Mapping[str, Any], loop: Loop) -> None:
    """Simulate two samples at every run's rate with substitute inertias, so that terms, gains or a loop that cannot be
    simulated are reported before any fit, separately from parameters that cannot."""
    still, plant = np.zeros((model.robot.dof, 2)), _stand_in(model)
    tuned = controller_from(controller, plant, side=loop.side)
    for rate in sorted({run.rate for run in runs}):
        simulate(plant, tuned, Reference(still, still, still), rate, loop)


def _stand_in(model: Model) -> Plant:
    return Plant(model, np.array([float(column.symbol in _MASSES) for column in model.layout.columns]))


def _commanded(run: Samples) -> tuple[Reference, ...]:
    assert run.reference is not None
    found = tuple(Reference(*one) for one in run.reference())
    for piece in run.open():
        inside = slice(piece.first, piece.first + piece.q.shape[1])
        apart = np.median(np.abs(found[piece.stretch].q[:, inside] - piece.q), axis=1)
        j = int(np.argmax(apart))
        if apart[j] > _ASTRAY:
            raise DataError(
                f"The reference of {run.joints[j]} differs by {apart[j]:.3g} rad (m) from the measured position in run "
                f"'{run.name}'. Check columns, unit, sign, side, ratio and offset of [channels] reference."
            )
    return found


def _measured(run: Samples) -> tuple[Reference, ...]:
    out = []
    for _, pieces in groupby(run.open(), key=attrgetter("stretch")):
        parts = [(piece.q, piece.v, piece.a) for piece in pieces]
        out.append(Reference(*(np.concatenate(x, axis=1) for x in zip(*parts, strict=True))))
    return tuple(out)
