"""Steelyard: weigh a robot by its own motion."""

from __future__ import annotations

from steelyard.base_parameters import BaseParameters, base_parameters
from steelyard.channels import ChannelMap, Signal
from steelyard.errors import SteelyardError
from steelyard.estimators import LS, WLS
from steelyard.findings import Finding
from steelyard.formats.logs import read_recording
from steelyard.formats.robots import builtin_robots, read_robot
from steelyard.identification import Identification
from steelyard.identify import identify
from steelyard.information import Information
from steelyard.model import Model
from steelyard.observe import observe
from steelyard.prediction import predict
from steelyard.prepare import Preparation, prepare
from steelyard.problem import Problem
from steelyard.project import read_project, run
from steelyard.recording import Recording
from steelyard.results import read_result
from steelyard.robot import Robot
from steelyard.samples import Samples
from steelyard.terms import AsymmetricCoulomb, Coulomb, Coupling, Offset, Rotor, Viscous
from steelyard.trajectory import Fourier, Quintic, TrapezoidalAcceleration

__all__ = [
    "LS",
    "WLS",
    "AsymmetricCoulomb",
    "BaseParameters",
    "ChannelMap",
    "Coulomb",
    "Coupling",
    "Finding",
    "Fourier",
    "Identification",
    "Information",
    "Model",
    "Offset",
    "Preparation",
    "Problem",
    "Quintic",
    "Recording",
    "Robot",
    "Rotor",
    "Samples",
    "Signal",
    "SteelyardError",
    "TrapezoidalAcceleration",
    "Viscous",
    "base_parameters",
    "builtin_robots",
    "identify",
    "observe",
    "predict",
    "prepare",
    "read_project",
    "read_recording",
    "read_result",
    "read_robot",
    "run",
]
