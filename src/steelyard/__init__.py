"""Steelyard: weigh a robot by its own motion."""

from __future__ import annotations

from steelyard.base_parameters import BaseParameters, base_parameters
from steelyard.causal import Chunk
from steelyard.channels import ChannelMap, Signal
from steelyard.controllers import PD, PID, Cascade, ComputedTorque
from steelyard.delays import Delays, estimate_delays
from steelyard.errors import SteelyardError
from steelyard.estimators import LS, MAP, RLS, TLS, WLS, Essential, Gains, Huber, Ridge, TLSMixed
from steelyard.excitation import limits_of, random_fourier, random_points
from steelyard.experiment import Experiment
from steelyard.findings import Finding
from steelyard.formats.logs import read_recording
from steelyard.formats.robots import builtin_robots, read_robot
from steelyard.identification import Identification
from steelyard.identify import identify
from steelyard.information import Information
from steelyard.load import with_load
from steelyard.model import Model
from steelyard.observe import observe
from steelyard.online import Online, Watch
from steelyard.parameters import Column
from steelyard.payload import Payload
from steelyard.plant import Plant
from steelyard.prediction import predict
from steelyard.prepare import Preparation, prepare
from steelyard.problem import Problem
from steelyard.project import read_project
from steelyard.recording import Recording
from steelyard.results import read_result
from steelyard.robot import Robot
from steelyard.run import run
from steelyard.samples import Samples
from steelyard.selection import Selection, offers, select
from steelyard.simulate import Loop, Reference, Simulated, simulate
from steelyard.terms import (
    AsymmetricCoulomb,
    AsymmetricViscous,
    Compensator,
    Coulomb,
    Coupling,
    Dahl,
    Drift,
    Entry,
    LoadFriction,
    Motion,
    Offset,
    OnJoints,
    PowerLaw,
    Ripple,
    Rotor,
    Springs,
    Stribeck,
    Term,
    Viscous,
)
from steelyard.trajectory import Fourier, Quintic, TrapezoidalAcceleration
from steelyard.validation import Comparison, CrossValidation, Validation, compare, cross_validate, validate
from steelyard.weigh import PayloadResult, weigh_payload

__all__ = [
    "LS",
    "MAP",
    "PD",
    "PID",
    "RLS",
    "TLS",
    "WLS",
    "AsymmetricCoulomb",
    "AsymmetricViscous",
    "BaseParameters",
    "Cascade",
    "ChannelMap",
    "Chunk",
    "Column",
    "Comparison",
    "Compensator",
    "ComputedTorque",
    "Coulomb",
    "Coupling",
    "CrossValidation",
    "Dahl",
    "Delays",
    "Drift",
    "Entry",
    "Essential",
    "Experiment",
    "Finding",
    "Fourier",
    "Gains",
    "Huber",
    "Identification",
    "Information",
    "LoadFriction",
    "Loop",
    "Model",
    "Motion",
    "Offset",
    "OnJoints",
    "Online",
    "Payload",
    "PayloadResult",
    "Plant",
    "PowerLaw",
    "Preparation",
    "Problem",
    "Quintic",
    "Recording",
    "Reference",
    "Ridge",
    "Ripple",
    "Robot",
    "Rotor",
    "Samples",
    "Selection",
    "Signal",
    "Simulated",
    "Springs",
    "SteelyardError",
    "Stribeck",
    "TLSMixed",
    "Term",
    "TrapezoidalAcceleration",
    "Validation",
    "Viscous",
    "Watch",
    "base_parameters",
    "builtin_robots",
    "compare",
    "cross_validate",
    "estimate_delays",
    "identify",
    "limits_of",
    "observe",
    "offers",
    "predict",
    "prepare",
    "random_fourier",
    "random_points",
    "read_project",
    "read_recording",
    "read_result",
    "read_robot",
    "run",
    "select",
    "simulate",
    "validate",
    "weigh_payload",
    "with_load",
]
