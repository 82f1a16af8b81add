"""[channels] of a project file: the meaning of a log's columns."""

from __future__ import annotations

from typing import Literal, cast

import msgspec
import numpy as np

from steelyard.errors import ProjectError
from steelyard.formats.robots.assembly import pose_from_rpy
from steelyard.signals.base_channels import BaseChannels, BaseSignal
from steelyard.signals.channels import UNKNOWN, ChannelMap, Signal
from steelyard.signals.composed import ROW_CLOCK
from steelyard.signals.episodes import Episodes

Numbers = float | list[float] | dict[str, float]
Texts = str | list[str] | dict[str, str]
Vector = tuple[float, float, float]


class TimeSpec(msgspec.Struct, forbid_unknown_fields=True):
    """[channels] time: the clock's column and unit (s, ms, us, ns), or the rate of the rows of a log without a
    clock."""

    column: str | None = None
    unit: str = "s"
    rate_hz: float | None = None


class SignalSpec(msgspec.Struct, forbid_unknown_fields=True):
    """[channels] q, v, effort, reference or reference_v; see `steelyard.channels.Signal`."""

    columns: list[str] | dict[str, str]
    unit: Texts
    side: str = "joint"
    sign: Numbers = 1.0
    ratio: Numbers | None = None
    gain: Numbers | str | None = None
    offset: Numbers = 0.0
    gain_std: float | None = None

    def signal(self) -> Signal:
        if isinstance(self.gain, str) and self.gain != UNKNOWN:
            raise ProjectError(f"gain must be numbers or the word \"{UNKNOWN}\", not '{self.gain}'.")
        gain = cast("Numbers | Literal['unknown'] | None", self.gain)
        return Signal(self.columns, self.unit, self.side, self.sign, self.ratio, gain, self.offset, self.gain_std)


class BaseSignalSpec(msgspec.Struct, forbid_unknown_fields=True):
    """A signal of [channels.base]; see `steelyard.signals.base_channels.BaseSignal`."""

    columns: list[str]
    unit: str


class BaseSpec(msgspec.Struct, forbid_unknown_fields=True):
    """[channels.base]: motion of a floating base, of a frame at xyz [m], rpy [rad] on a body that is fixed to it."""

    gyroscope: BaseSignalSpec | None = None
    accelerometer: BaseSignalSpec | None = None
    orientation: BaseSignalSpec | None = None
    position: BaseSignalSpec | None = None
    link: str = ""
    xyz: Vector = (0.0, 0.0, 0.0)
    rpy: Vector = (0.0, 0.0, 0.0)

    def channels(self) -> BaseChannels:
        if not np.all(np.isfinite([*self.xyz, *self.rpy])):
            raise ProjectError("[channels.base]: xyz [m] and rpy [rad] must be finite.")
        stated = (self.gyroscope, self.accelerometer, self.orientation, self.position)
        signals = (None if one is None else BaseSignal(tuple(one.columns), one.unit) for one in stated)
        return BaseChannels(*signals, link=self.link, pose=pose_from_rpy(self.xyz, self.rpy))


class ChannelsSpec(msgspec.Struct, forbid_unknown_fields=True):
    """[channels]: the meaning of the log's columns."""

    time: TimeSpec
    q: SignalSpec
    effort: SignalSpec
    v: SignalSpec | None = None
    reference: SignalSpec | None = None
    reference_v: SignalSpec | None = None
    base: BaseSpec | None = None
    episode: str | None = None

    @property
    def episodes(self) -> Episodes | None:
        """How a log of several episodes is cut: by the column that numbers them, else where the clock restarts."""
        if self.episode is not None:
            return Episodes(self.episode)
        return None if self.time.column is None else Episodes(self.time.column, restarts=True)

    def channel_map(self) -> ChannelMap:
        optional = (self.v, self.reference, self.reference_v)
        return ChannelMap(
            ROW_CLOCK if self.time.column is None else self.time.column,
            self.q.signal(),
            self.effort.signal(),
            self.time.unit,
            *(None if spec is None else spec.signal() for spec in optional),
            base=None if self.base is None else self.base.channels(),
        )
