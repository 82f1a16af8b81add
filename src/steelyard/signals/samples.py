"""Samples: uniform t, q, v, a and effort in joint order, as a source of pieces, with their processing history."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from steelyard._arrays import Array
from steelyard._notebook import Displayed
from steelyard.errors import DataError
from steelyard.findings import Finding
from steelyard.model.floating.base_motion import ROWS
from steelyard.signals.channels import Drives
from steelyard.signals.recording import FILE_SEPARATOR


class Stretch(NamedTuple):
    """A gap-free run of uniform samples.

    `clean` = [first, stop) excludes samples affected by the edges of the position filter; `window` = [first, stop) is
    the part requested by the user. A row of the estimation has its filter's support inside `clean` and its centre
    inside `window`.
    """

    start: float
    length: int
    clean: tuple[int, int]
    window: tuple[int, int]


class Piece(NamedTuple):
    """Consecutive samples `first`, `first + 1`, … of stretch number `stretch`; q v a effort are (n, B), base is (9, B),
    the motion of a floating base, or None."""

    stretch: int
    first: int
    q: Array
    v: Array
    a: Array
    effort: Array
    base: Array | None = None

    def part(self, low: int, high: int) -> Piece:
        """Its samples [low, high)."""
        q, v, a, effort = (x[:, low:high] for x in self[2:6])
        base = None if self.base is None else self.base[:, low:high]
        return Piece(self.stretch, self.first + low, q, v, a, effort, base)


def joined(pieces: Sequence[Piece]) -> Piece:
    """Pieces of one stretch that follow each other, as one, in memory of its own."""
    q, v, a, effort = (np.concatenate(parts, axis=1) for parts in zip(*(piece[2:6] for piece in pieces), strict=True))
    bases = [piece.base for piece in pieces if piece.base is not None]
    return Piece(pieces[0].stretch, pieces[0].first, q, v, a, effort, np.concatenate(bases, axis=1) if bases else None)


class Commanded(NamedTuple):
    """The commanded motion on the samples of a stretch: q v a are (n, N)."""

    q: Array
    v: Array
    a: Array


@dataclass(frozen=True)
class Samples(Displayed):
    """One run, ready for a regressor. Pieces come in order and are the same each time they are read.

    `top_speed` (n,) [rad/s | m/s], `lowest` and `highest` (n,) [rad | m] describe the motion of each joint; `effort` is
    a torque [N·m] or a force [N] at the joint; `constant_effort` (n,) marks joints whose effort never changes.
    `position_step` and `effort_step` (n,) are the rounding of the log (zero where none is found), `saturation` (n,) the
    fraction of the rows with a clipped effort; all three are empty if the samples do not come from a log. `part` names
    the episode or topic of a file. `drives` holds the gains and ratios that convert the logged values to efforts.
    `reference` reads the commanded motion, one per stretch; None where none was logged. `position_noise` and
    `velocity_noise` (n,) are the white noise and rounding of the log [rad | m, /s], empty if the samples do not come
    from a log or no velocity was logged. `derive` computes q, v and a (n, N) of a whole stretch from positions, and
    velocities or None, as was done here; None where derivatives were given. `resampled` says that the log's clock was
    uneven or had another rate, `floats` that the pieces have the motion of a floating base.
    """

    name: str
    joints: tuple[str, ...]
    rate: float
    stretches: tuple[Stretch, ...]
    top_speed: Array
    lowest: Array
    highest: Array
    constant_effort: NDArray[np.bool_]
    open: Callable[[], Iterator[Piece]]
    load: str = "none"
    role: str = "identify"
    source: str = "memory"
    sha256: str = ""
    part: str = ""
    history: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = field(default=())
    position_step: Array = field(default_factory=lambda: np.empty(0))
    effort_step: Array = field(default_factory=lambda: np.empty(0))
    saturation: Array = field(default_factory=lambda: np.empty(0))
    drives: Drives | None = None
    reference: Callable[[], tuple[Commanded, ...]] | None = None
    position_noise: Array = field(default_factory=lambda: np.empty(0))
    velocity_noise: Array = field(default_factory=lambda: np.empty(0))
    derive: Callable[[Array, Array | None], tuple[Array, Array, Array]] | None = None
    resampled: bool = False
    floats: bool = False

    @property
    def used(self) -> tuple[float, float]:
        """First and last time [s] of the log that may contribute rows."""
        ends = [(s.start + s.window[0] / self.rate, s.start + s.window[1] / self.rate) for s in self.stretches]
        return min(a for a, _ in ends), max(b for _, b in ends)

    @property
    def travel(self) -> Array:
        """Travel of each joint, (n,) [rad | m]."""
        return np.maximum(self.highest - self.lowest, 0.0)

    @property
    def count(self) -> int:
        return sum(stretch.length for stretch in self.stretches)

    def cut_to(self, other: Samples) -> Samples:
        """These samples, `clean` only where `other`, the same log with another preparation, is clean too."""
        if [(s.start, s.length) for s in self.stretches] != [(s.start, s.length) for s in other.stretches]:
            raise DataError(f"Samples '{self.name}' and '{other.name}' do not have the same stretches of one log.")
        pairs = zip(self.stretches, other.stretches, strict=True)
        both = [s._replace(clean=(max(s.clean[0], o.clean[0]), min(s.clean[1], o.clean[1]))) for s, o in pairs]
        return replace(self, stretches=tuple(both))

    @staticmethod
    def from_arrays(
        name: str,
        joints: Sequence[str],
        rate: float,
        q: Array,
        v: Array,
        a: Array,
        effort: Array,
        load: str = "none",
        base: Array | None = None,
    ) -> Samples:
        """Samples whose derivatives are known, e.g. simulated ones: arrays (n, N), rate in Hz; base (9, N) is the
        motion of a floating base."""
        arrays = [np.ascontiguousarray(x, dtype=float) for x in (q, v, a, effort)]
        shape = (len(joints), arrays[0].shape[-1])
        for label, x in zip(("q", "v", "a", "effort"), arrays, strict=True):
            if x.shape != shape:
                raise DataError(f"Samples '{name}': {label} has shape {x.shape}, expected {shape} (joints, samples).")
            if not np.all(np.isfinite(x)):
                joint, sample = np.argwhere(~np.isfinite(x))[0]
                raise DataError(f"Samples '{name}': {label} of {joints[joint]} is not finite at sample {sample}.")
        if base is not None and (base.shape != (ROWS, shape[1]) or not np.all(np.isfinite(base))):
            raise DataError(f"Samples '{name}': the motion of the base must be finite and ({ROWS}, {shape[1]}).")
        if not rate > 0:
            raise DataError(f"Samples '{name}': the rate must be positive [Hz], not {rate}.")
        count = shape[1]
        return Samples(
            name=name,
            joints=tuple(joints),
            rate=float(rate),
            stretches=(Stretch(0.0, count, (0, count), (0, count)),),
            top_speed=np.max(np.abs(arrays[1]), axis=1, initial=0.0),
            lowest=np.min(arrays[0], axis=1, initial=np.inf),
            highest=np.max(arrays[0], axis=1, initial=-np.inf),
            constant_effort=np.ptp(arrays[3], axis=1) == 0.0 if count else np.ones(len(joints), bool),
            open=lambda: iter([Piece(0, 0, *arrays, base=base)]),
            floats=base is not None,
            load=load,
            history=("given with exact derivatives",),
        )


class Logged(Protocol):
    """A run with the hash of its log and the part of it that it uses: a topic, an episode, or "" for all."""

    @property
    def sha256(self) -> str: ...

    @property
    def part(self) -> str: ...


def same_log(one: Logged, other: Logged) -> bool:
    """True if two runs come from the same part of the same log, or have a file in common where files were joined."""
    if not one.sha256 or one.part != other.part:
        return False
    return not set(one.sha256.split(FILE_SEPARATOR)).isdisjoint(other.sha256.split(FILE_SEPARATOR))
