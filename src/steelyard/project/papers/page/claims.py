"""A claim, its bar and what was measured: the text that a table shows, and the figures behind it in full precision."""

from __future__ import annotations

import math
from string import Formatter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike


class Claim(NamedTuple):
    """One line of a table of claims.

    `figures` are the numbers of `measured` in the order in which they are shown, percentages as fractions. `timed`:
    speed, memory or wall time, which differ from run to run.
    """

    claim: str
    bar: str
    measured: str
    holds: bool
    figures: tuple[float, ...] = ()
    timed: bool = False

    @classmethod
    def of(cls, claim: str, bar: str, holds: bool, shown: str, *values: ArrayLike, timed: bool = False) -> Claim:
        """The claim with `shown` as a template: values fill its places, and all but texts are figures.

        A place with a format shows every number of an array: "{:.1f}" and [1.0, 2.0] make "1.0, 2.0".
        """
        numbers = (np.ravel(value) for value in values if not isinstance(value, str))
        figures = tuple(float(x) for several in numbers for x in several)
        return cls(claim, bar, _EVERY.format(shown, *values), bool(holds), figures, timed)

    def document(self) -> dict[str, Any]:
        """For JSON, which has neither NaN nor infinity: such figures are null."""
        return self._asdict() | {"figures": [x if math.isfinite(x) else None for x in self.figures]}


class _Every(Formatter):
    """str.format with formats of sequences: each number by itself, commas between."""

    def format_field(self, value: object, format_spec: str) -> str:
        if format_spec and isinstance(value, (tuple, list, np.ndarray)):
            return ", ".join(format(x, format_spec) for x in value)
        return format(value, format_spec)


_EVERY = _Every()
