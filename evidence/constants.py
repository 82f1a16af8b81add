"""Constants of the automatic settings: what each would be if one robot had not been there to choose it.

For every constant, a few candidates around its value are tried with all others as they are. For each robot, the
candidate with the lowest geometric mean of the ratios (error over the oracle's best filters, common band) on all other
robots is taken, and its ratio on the robot that was left out is reported. Simulated cases of one robot file are one
robot; so are the transfers of one real set.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
from transfer import Transfer, trained

from steelyard.errors import SteelyardError
from steelyard.estimators import auto
from steelyard.estimators.regularised import evidence
from steelyard.identification import delays, filter_choice
from steelyard.project import cutoffs
from steelyard.project.automatic import resolve_auto
from steelyard.signals import spectrum

NEAR = 1.10


class Constant(NamedTuple):
    """A constant of a module, and other values that it might have."""

    module: ModuleType
    name: str
    others: tuple[Any, ...]

    @property
    def value(self) -> Any:
        return getattr(self.module, self.name)

    @property
    def candidates(self) -> tuple[Any, ...]:
        return (self.value, *(other for other in self.others if other != self.value))

    @property
    def label(self) -> str:
        return f"{self.module.__name__.rpartition('.')[2]}.{self.name}"


CONSTANTS = (
    Constant(spectrum, "VELOCITY_POWER", (0.9, 0.98)),
    Constant(spectrum, "MOTION_FACTOR", (1.5, 3.0)),
    Constant(spectrum, "LARGEST_OVER_MEDIAN", (1.5, 4.0)),
    Constant(spectrum, "RISE_LEVEL", (2.0, 8.0)),
    Constant(spectrum, "RISE", (0.003, 0.03)),
    Constant(spectrum, "SMOOTHING", (0.08, 0.3)),
    Constant(spectrum, "BELOW_RISE", (0.5, 0.85, 1.0)),
    Constant(spectrum, "POSITION_FACTOR", (1.25, 2.5)),
    Constant(spectrum, "ABOVE_MOTION", (5.0, 16.0)),
    Constant(spectrum, "LEAST_PERIODS", (14.0, 50.0)),
    Constant(cutoffs, "ENOUGH_ROWS", (200, 1000)),
    Constant(cutoffs, "SPARE_ROWS", (0, 20)),
    Constant(filter_choice, "FOLDS", (5, 12)),
    Constant(filter_choice, "LEAST_GAIN", (0.01, 0.1)),
    Constant(filter_choice, "STEP", (1.1, 1.5)),
    Constant(filter_choice, "HIGHER", (1.5, 3.0)),
    Constant(delays, "CLOSE_S", (1e-3, 6e-3)),
    Constant(evidence, "REPEATED", (1.0, 2.0, 10.0)),
    Constant(auto, "COSTLY", (0.1, 0.5)),
)


def check_names() -> None:
    """Every constant is still there: a rule that has gone needs no figures."""
    gone = [f"{c.module.__name__}.{c.name}" for c in CONSTANTS if not hasattr(c.module, c.name)]
    if gone:
        raise SystemExit(f"evidence/constants.py lists constants that no longer exist: {', '.join(gone)}.")


def errors_by_constant(transfer: Transfer) -> dict[str, tuple[float, ...]]:
    """Error in the common band of the defaults with every candidate of every constant, in the order of `candidates`.

    Candidates that lead to the same settings are fitted once.
    """
    seen: dict[str, float] = {}
    present = _error(transfer, seen)
    out = {}
    for constant in CONSTANTS:
        found = [present]
        for value in constant.candidates[1:]:
            with patch.object(constant.module, constant.name, value):
                found.append(_error(transfer, seen))
        out[constant.label] = tuple(found)
    return out


def _error(transfer: Transfer, seen: dict[str, float]) -> float:
    """Error of the defaults as the constants are now; `seen` holds those of settings that were fitted before."""
    try:
        resolved = resolve_auto(transfer.project)
        key = repr((resolved.project.spec.prepare, evidence.REPEATED, auto.COSTLY))
        if key not in seen:
            seen[key] = transfer.squares(trained(resolved).fit).relative
        return seen[key]
    except SteelyardError:
        return np.inf


@dataclass(frozen=True)
class LeftOut:
    """A constant, its candidates, and for every robot: the candidate chosen by the others, and the ratios of its cases
    with that candidate and with the present value."""

    constant: str
    candidates: tuple[Any, ...]
    chosen: Mapping[str, int]
    ratios: Mapping[str, tuple[float, ...]]
    present: Mapping[str, tuple[float, ...]]

    def summary(self) -> dict[str, str]:
        counts = Counter(self.chosen.values())
        return {
            "constant": self.constant,
            "value": shown(self.candidates[0]),
            "others": ", ".join(shown(x) for x in self.candidates[1:]),
            "chosen by the others": ", ".join(f"{shown(self.candidates[k])} ({n})" for k, n in counts.most_common()),
            "left-out robots": _ratios(self.ratios),
            "present value": _ratios(self.present),
        }


def shown(value: Any) -> str:
    return "–".join(f"{x:g}" for x in value) if isinstance(value, Sequence) else f"{value:g}"


def _ratios(by_robot: Mapping[str, Sequence[float]]) -> str:
    every = np.concatenate([np.asarray(ratios) for ratios in by_robot.values()])
    worst = max(by_robot, key=lambda robot: max(by_robot[robot]))
    return (
        f"median {np.median(every):.2f}, {np.mean(every <= NEAR):.0%} within {NEAR:g}, largest {every.max():.2f} "
        f"({worst})"
    )


class Tried(NamedTuple):
    """Errors of a case for every candidate of every constant, and the oracle's."""

    robot: str
    oracle: float
    errors: Mapping[str, Sequence[float]]


def leave_one_robot_out(cases: Sequence[Tried]) -> Iterator[LeftOut]:
    robots = list(dict.fromkeys(case.robot for case in cases))
    for constant in CONSTANTS:
        ratios = {
            robot: np.array([np.array(c.errors[constant.label]) / c.oracle for c in cases if c.robot == robot])
            for robot in robots
        }
        chosen: dict[str, int] = {}
        for robot in robots:
            others = np.concatenate([own for name, own in ratios.items() if name != robot])
            chosen[robot] = int(np.argmin(np.mean(np.log(others), axis=0)))
        yield LeftOut(
            constant.label,
            constant.candidates,
            chosen,
            {robot: tuple(ratios[robot][:, chosen[robot]].tolist()) for robot in robots},
            {robot: tuple(ratios[robot][:, 0].tolist()) for robot in robots},
        )
