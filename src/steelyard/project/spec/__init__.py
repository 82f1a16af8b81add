"""project.toml as typed specs: `channels` the meaning of a log's columns, `file` the whole file and its checks."""

from steelyard.project.spec.channels import ChannelsSpec, Numbers, SignalSpec, TimeSpec
from steelyard.project.spec.file import (
    AUTO,
    NONE,
    ControllerSpec,
    EstimatorSpec,
    ExperimentSpec,
    LoopSpec,
    PayloadSpec,
    PrepareSpec,
    ProjectSpec,
    RunSpec,
    TermSpec,
    checked_spec,
    per_joint,
)

__all__ = [
    "AUTO",
    "NONE",
    "ChannelsSpec",
    "ControllerSpec",
    "EstimatorSpec",
    "ExperimentSpec",
    "LoopSpec",
    "Numbers",
    "PayloadSpec",
    "PrepareSpec",
    "ProjectSpec",
    "RunSpec",
    "SignalSpec",
    "TermSpec",
    "TimeSpec",
    "checked_spec",
    "per_joint",
]
