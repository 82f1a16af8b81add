"""Steelyard: weigh a robot by its own motion."""

from __future__ import annotations

from steelyard.design.criteria import ConditionNumber, DeviationTargets, DOptimal
from steelyard.design.design import Design, design_excitation
from steelyard.design.families import BSplineFamily, FourierFamily
from steelyard.design.forecast import Forecast, forecast, planned
from steelyard.errors import SteelyardError
from steelyard.estimators import LS, MAP, RLS, TLS, WLS, Consistent, Essential, Gains, Huber, Ridge, TLSMixed
from steelyard.export.code.c import c_files
from steelyard.export.code.python import python_file
from steelyard.export.export import Export
from steelyard.export.latex import latex_table
from steelyard.export.parameter_set import IdentifiedModel, identified_model
from steelyard.export.robot_files.mjcf import edited_mjcf
from steelyard.export.robot_files.mjcf_new import new_mjcf
from steelyard.export.robot_files.urdf import edited_urdf
from steelyard.export.robot_files.urdf_new import new_urdf
from steelyard.findings import Finding
from steelyard.formats.logs import read_recording
from steelyard.formats.robots import builtin_robots, read_robot
from steelyard.identification.delays import Delays, estimate_delays
from steelyard.identification.first_fit import with_load
from steelyard.identification.identify import identify
from steelyard.identification.prediction import predict
from steelyard.identification.result import Identification
from steelyard.identification.term_selection import Selection, candidate_terms, select_terms
from steelyard.identification.weighing import PayloadResult, weigh_payload
from steelyard.model.base_parameters import BaseParameters, base_parameters
from steelyard.model.model import Model
from steelyard.model.parameters import Column
from steelyard.model.payload import Payload
from steelyard.model.robot import Robot
from steelyard.model.terms import (
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
from steelyard.motion.limits import MotionLimits
from steelyard.motion.obstacles import Box, Capsule, Plane, Surroundings
from steelyard.motion.random import limits_of, random_fourier, random_points
from steelyard.motion.trajectory import Fourier, Quintic, TrapezoidalAcceleration
from steelyard.online.causal_filter import Chunk
from steelyard.online.online import ChangeDetection, Online
from steelyard.physical.constraints import Constraints
from steelyard.project.project import read_project
from steelyard.project.result_file import read_result
from steelyard.project.run import run
from steelyard.regression.information import Information
from steelyard.regression.observe import observe
from steelyard.regression.problem import Problem
from steelyard.signals.channels import ChannelMap, Signal
from steelyard.signals.prepare import Preparation, prepare
from steelyard.signals.recording import Recording
from steelyard.signals.samples import Samples
from steelyard.simulation.closed_loop import Loop, Reference, Simulated, simulate
from steelyard.simulation.controllers import PD, PID, Cascade, ComputedTorque
from steelyard.simulation.experiment import Experiment
from steelyard.simulation.plant import Plant
from steelyard.validation import Comparison, CrossValidation, Validation, compare, cross_validate, validate

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
    "ChangeDetection",
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
    "IdentifiedModel",
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
    "base_parameters",
    "builtin_robots",
    "c_files",
    "candidate_terms",
    "compare",
    "cross_validate",
    "design_excitation",
    "edited_mjcf",
    "edited_urdf",
    "estimate_delays",
    "forecast",
    "identified_model",
    "identify",
    "latex_table",
    "limits_of",
    "new_mjcf",
    "new_urdf",
    "observe",
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
    "select_terms",
    "simulate",
    "validate",
    "weigh_payload",
    "with_load",
]
