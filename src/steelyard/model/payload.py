"""Payload: a body fixed to a link in the runs of one load case."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from steelyard._arrays import Array
from steelyard.errors import ModelError, check_name, choices
from steelyard.model.parameters import INERTIAL, Column, inertial_columns, transformed_inertia
from steelyard.model.pose import Pose

# The load case of runs without a payload.
UNLOADED = "none"


@dataclass(frozen=True)
class Payload:
    """A body fixed to `link` in every run whose load case is `name` (P2 eqs 9–10, P3 eq. 18).

    Its ten inertial parameters are about its own frame, `pose` = ˡⁱⁿᵏT_payload. `known` gives some, all or none of them
    [kg, kg·m, kg·m²]; the others are identified. `std` is the standard deviation of the weighed mass. An empty `link`
    is the robot's last one.
    """

    name: str
    link: str = ""
    pose: Pose = field(default_factory=Pose)
    known: Mapping[str, float] = field(default_factory=dict)
    std: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_name("payload", self.name)
        if not self.name or self.name == UNLOADED:
            raise ModelError(
                f"The name of a payload is the load case of its runs: it cannot be '{self.name}', which means no load."
            )
        for what, values in (("known", self.known), ("std", self.std)):
            for symbol, value in values.items():
                if symbol not in INERTIAL:
                    raise ModelError(f"Payload '{self.name}', {what}: " + choices("parameter", symbol, INERTIAL))
                if not np.isfinite(value) or (value < 0.0 and (what == "std" or symbol == "M")):
                    raise ModelError(f"Payload '{self.name}': {what} {symbol} = {value!r} is not a possible value.")
        if set(self.std) - {"M"}:
            raise ModelError(
                f"Payload '{self.name}': std is supported for the mass M only. Remove parameters that are not known "
                "exactly from known, and they are identified."
            )
        loose = [symbol for symbol in self.std if symbol not in self.known]
        if loose:
            raise ModelError(
                f"Payload '{self.name}': std is given for {', '.join(loose)}, which known does not contain."
            )

    @property
    def columns(self) -> tuple[Column, ...]:
        """Ten columns `name.XX` … `name.M`; those of `known` are fixed at their value."""
        return tuple(
            replace(c, nominal=self.known.get(c.symbol), width=self.std.get(c.symbol), known=c.symbol in self.known)
            for c in inertial_columns(self.name, None, "payload")
        )

    @cached_property
    def on_link(self) -> Array:
        """T (10, 10): the parameters about the link's frame are T times those about the payload's own."""
        unit = np.eye(10)
        return np.stack([transformed_inertia(e, self.pose.rotation, self.pose.position) for e in unit], axis=1)
