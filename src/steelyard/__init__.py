"""Steelyard: weigh a robot by its own motion."""

from __future__ import annotations

from steelyard.base_parameters import BaseParameters, base_parameters
from steelyard.body_constraints import Constraints
from steelyard.causal import Chunk
from steelyard.channels import ChannelMap, Signal
from steelyard.controllers import PD, PID, Cascade, ComputedTorque
from steelyard.criteria import ConditionNumber, DeviationTargets, DOptimal
from steelyard.delays import Delays, estimate_delays
from steelyard.design import Design, design_excitation
from steelyard.errors import SteelyardError
from steelyard.estimators import LS, MAP, RLS, TLS, WLS, Consistent, Essential, Gains, Huber, Ridge, TLSMixed
from steelyard.excitation import limits_of, random_fourier, random_points
from steelyard.experiment import Experiment
from steelyard.export.c import c_files
from steelyard.export.export import Export
from steelyard.export.identified import Identified, identified
from steelyard.export.latex import latex_table
from steelyard.export.mjcf import edited_mjcf
from steelyard.export.new_mjcf import new_mjcf
from steelyard.export.new_urdf import new_urdf
from steelyard.export.python import python_file
from steelyard.export.urdf import edited_urdf
from steelyard.families import BSplineFamily, FourierFamily
from steelyard.findings import Finding
from steelyard.forecast import Forecast, forecast, planned
from steelyard.formats.logs import read_recording
from steelyard.formats.robots import builtin_robots, read_robot
from steelyard.identification import Identification
from steelyard.identify import identify
from steelyard.information import Information
from steelyard.load import with_load
from steelyard.model import Model
from steelyard.motion_limits import MotionLimits
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
from steelyard.surroundings import Box, Capsule, Plane, Surroundings
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
    "BSplineFamily",
    "BaseParameters",
    "Box",
    "Capsule",
    "Cascade",
    "ChannelMap",
    "Chunk",
    "Column",
    "Comparison",
    "Compensator",
    "ComputedTorque",
    "ConditionNumber",
    "Consistent",
    "Constraints",
    "Coulomb",
    "Coupling",
    "CrossValidation",
    "DOptimal",
    "Dahl",
    "Delays",
    "Design",
    "DeviationTargets",
    "Drift",
    "Entry",
    "Essential",
    "Experiment",
    "Export",
    "Finding",
    "Forecast",
    "Fourier",
    "FourierFamily",
    "Gains",
    "Huber",
    "Identification",
    "Identified",
    "Information",
    "LoadFriction",
    "Loop",
    "Model",
    "Motion",
    "MotionLimits",
    "Offset",
    "OnJoints",
    "Online",
    "Payload",
    "PayloadResult",
    "Plane",
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
    "Surroundings",
    "TLSMixed",
    "Term",
    "TrapezoidalAcceleration",
    "Validation",
    "Viscous",
    "Watch",
    "base_parameters",
    "builtin_robots",
    "c_files",
    "compare",
    "cross_validate",
    "design_excitation",
    "edited_mjcf",
    "edited_urdf",
    "estimate_delays",
    "forecast",
    "identified",
    "identify",
    "latex_table",
    "limits_of",
    "new_mjcf",
    "new_urdf",
    "observe",
    "offers",
    "planned",
    "predict",
    "prepare",
    "python_file",
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
