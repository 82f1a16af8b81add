"""Opened: the files of a project, each read once and shared by all users."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from steelyard.estimators import Estimator, named_estimator
from steelyard.formats.logs import read_recording
from steelyard.formats.robots import read_robot
from steelyard.formats.robots.bases import Base
from steelyard.formats.robots.holding import hold
from steelyard.formats.robots.toml_springs import SpringTable, with_springs
from steelyard.model.model import Model
from steelyard.model.robot import Robot
from steelyard.model.terms import Term
from steelyard.project.spec import ChannelsSpec, EstimatorSpec, PayloadSpec, RunSpec, TermSpec
from steelyard.signals.composed import joined, with_rate
from steelyard.signals.episodes import one_episode
from steelyard.signals.recording import SMALL_CELLS, Progress, Recording

# Numbers that the logs of a project may keep in memory after their first pass: 128 MB of them, in equal shares. A log
# larger than its share is read again for every pass.
KEPT_CELLS = 16_000_000

_T = TypeVar("_T")


@dataclass(frozen=True, eq=False)
class Opened:
    """The contents of a project's files, read on first use and then kept: robots, recordings, and the models and
    estimators built from a spec.

    A project and all that are made from it (`Project.with_spec`) share one, so that a robot file is parsed once and a
    log opened once, also when settings change from "auto" to numbers. All kept objects are frozen. Later changes of a
    file are not seen: read the project again for that.
    """

    _kept: dict[str, Any] = field(default_factory=dict, repr=False)

    def _once(self, key: Sequence[Any], make: Callable[[], _T]) -> _T:
        """The result of `make`, called once for every key. Specs are mutable and have no hash: their text, which holds
        all their fields, is used as the key."""
        text = repr(key)
        if text not in self._kept:
            self._kept[text] = make()
        return self._kept[text]

    def robot(
        self,
        source: str | Path,
        gravity: Sequence[float] | None,
        springs: Sequence[SpringTable],
        held: Sequence[str] = (),
        base: Base | None = None,
    ) -> Robot:
        """The robot of a built-in name or a file, optionally with another gravity [m/s²], more springs, joints held
        ("finger*=0.02" [rad | m]), and a base that is fixed or floats."""

        def as_described() -> Robot:
            return read_robot(source, base=base)

        def as_mounted() -> Robot:
            described = self._once(("robot file", *_place(source), base), as_described)
            mounted = described if gravity is None else described.with_gravity(gravity)
            return hold(with_springs(mounted, springs), held)

        return self._once(("robot", *_place(source), gravity, springs, held, base), as_mounted)

    def recording(
        self, logs: Sequence[Path], run: RunSpec, channels: ChannelsSpec, count: int, progress: Progress | None = None
    ) -> Recording:
        """The recording in the logs of a run; `count` logs share the memory."""
        rate_hz, rule = channels.time.rate_hz, channels.episodes
        kept_cells = max(SMALL_CELLS, KEPT_CELLS // max(1, count))

        def whole(log: Path) -> Recording:
            found = read_recording(
                log, run.delimiter, topic=run.topic, every_episode=True, salvage=run.salvage, progress=progress
            )
            return replace(found, kept_cells=kept_cells)

        def one(log: Path) -> Recording:
            # the runs of one log share its rows in memory
            read = self._once(("log", str(log), run.delimiter, run.topic, run.salvage), lambda: whole(log))
            return one_episode(read, run.episode, rule)

        def as_run() -> Recording:
            found = one(logs[0]) if len(logs) == 1 else joined([one(log) for log in logs])
            found = found if rate_hz is None else with_rate(found, rate_hz)
            return replace(found, kept_cells=kept_cells)

        made_from = (run.delimiter, run.topic, run.episode, run.salvage, rate_hz, rule)
        return self._once(("run", *map(str, logs), *made_from), as_run)

    def model(self, robot: Robot, terms: Sequence[Term], payloads: Sequence[PayloadSpec]) -> Model:
        """The model of a robot given by `robot`, with these terms and payloads."""
        # the id of a robot that is kept here stays valid for the lifetime of this object
        key = ("model", id(robot), [TermSpec.of(term) for term in terms], payloads)
        return self._once(key, lambda: Model(robot, terms, payloads=[one.payload() for one in payloads]))

    def estimator(self, asked: str | EstimatorSpec) -> Estimator:
        """The estimator of a name, or with options."""
        spec = EstimatorSpec(asked) if isinstance(asked, str) else asked
        return self._once(("estimator", spec), lambda: named_estimator(spec.name, spec.options))


def _place(source: str | Path) -> tuple[str, bool]:
    """The key of a source: a built-in robot `tx40` and a file of that name are different."""
    return str(source), isinstance(source, Path)
