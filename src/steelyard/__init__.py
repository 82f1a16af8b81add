"""Steelyard: weigh a robot by its own motion.

Names are loaded when they are first used (PEP 562), so that `import steelyard` costs nothing but this file. The verbs,
nouns, terms and estimators that most programs need are here; the rest is in namespaces: `steelyard.estimators`,
`steelyard.terms`, `steelyard.motion`, `steelyard.export` and others. docs/api.md lists them all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from steelyard import (
        design,
        errors,
        estimators,
        export,
        findings,
        identification,
        model,
        motion,
        online,
        physical,
        regression,
        signals,
        simulation,
        validation,
    )
    from steelyard.design import design_excitation
    from steelyard.errors import SteelyardError
    from steelyard.estimators import IV, LS, MAP, WLS, Consistent, Essential, Gains, Huber
    from steelyard.findings import Finding
    from steelyard.formats.logs import read_recording
    from steelyard.formats.robots import builtin_robots, read_robot
    from steelyard.identification import Identification, identify, predict, weigh_payload
    from steelyard.model import Payload, Robot, terms
    from steelyard.model.base_parameters import BaseParameters, base_parameters
    from steelyard.model.model import Model
    from steelyard.model.terms import Coulomb, Coupling, Offset, Rotor, Springs, Viscous
    from steelyard.motion import Fourier, MotionLimits
    from steelyard.online import Online
    from steelyard.project import checks
    from steelyard.project.project import read_project
    from steelyard.project.result_file import read_result
    from steelyard.project.run import run
    from steelyard.regression import Information, Problem, observe
    from steelyard.signals import ChannelMap, Preparation, Recording, Samples, Signal, prepare
    from steelyard.simulation import simulate
    from steelyard.validation import Validation, compare, cross_validate, validate

__all__ = [
    "IV",
    "LS",
    "MAP",
    "WLS",
    "BaseParameters",
    "ChannelMap",
    "Consistent",
    "Coulomb",
    "Coupling",
    "Essential",
    "Finding",
    "Fourier",
    "Gains",
    "Huber",
    "Identification",
    "Information",
    "Model",
    "MotionLimits",
    "Offset",
    "Online",
    "Payload",
    "Preparation",
    "Problem",
    "Recording",
    "Robot",
    "Rotor",
    "Samples",
    "Signal",
    "Springs",
    "SteelyardError",
    "Validation",
    "Viscous",
    "base_parameters",
    "builtin_robots",
    "checks",
    "compare",
    "cross_validate",
    "design",
    "design_excitation",
    "errors",
    "estimators",
    "export",
    "findings",
    "identification",
    "identify",
    "model",
    "motion",
    "observe",
    "online",
    "physical",
    "predict",
    "prepare",
    "read_project",
    "read_recording",
    "read_result",
    "read_robot",
    "regression",
    "run",
    "signals",
    "simulate",
    "simulation",
    "terms",
    "validate",
    "validation",
    "weigh_payload",
]

# Namespaces: attribute → module.
_NAMESPACES = {
    "checks": "steelyard.project.checks",
    "design": "steelyard.design",
    "errors": "steelyard.errors",
    "estimators": "steelyard.estimators",
    "export": "steelyard.export",
    "findings": "steelyard.findings",
    "identification": "steelyard.identification",
    "model": "steelyard.model",
    "motion": "steelyard.motion",
    "online": "steelyard.online",
    "physical": "steelyard.physical",
    "regression": "steelyard.regression",
    "signals": "steelyard.signals",
    "simulation": "steelyard.simulation",
    "terms": "steelyard.model.terms",
    "validation": "steelyard.validation",
}
# Names at the top: name → module.
_NAMES = {
    # verbs
    "read_robot": "steelyard.formats.robots",
    "builtin_robots": "steelyard.formats.robots",
    "read_recording": "steelyard.formats.logs",
    "prepare": "steelyard.signals",
    "observe": "steelyard.regression",
    "identify": "steelyard.identification",
    "validate": "steelyard.validation",
    "cross_validate": "steelyard.validation",
    "compare": "steelyard.validation",
    "weigh_payload": "steelyard.identification",
    "predict": "steelyard.identification",
    "simulate": "steelyard.simulation",
    "design_excitation": "steelyard.design",
    "read_project": "steelyard.project.project",
    "run": "steelyard.project.run",
    "read_result": "steelyard.project.result_file",
    # nouns
    "Robot": "steelyard.model",
    "Model": "steelyard.model.model",
    "Payload": "steelyard.model",
    "Recording": "steelyard.signals",
    "Signal": "steelyard.signals",
    "ChannelMap": "steelyard.signals",
    "Preparation": "steelyard.signals",
    "Samples": "steelyard.signals",
    "Problem": "steelyard.regression",
    "Information": "steelyard.regression",
    "BaseParameters": "steelyard.model.base_parameters",
    "base_parameters": "steelyard.model.base_parameters",
    "Identification": "steelyard.identification",
    "Validation": "steelyard.validation",
    "Online": "steelyard.online",
    "MotionLimits": "steelyard.motion",
    "Fourier": "steelyard.motion",
    "Finding": "steelyard.findings",
    "SteelyardError": "steelyard.errors",
    # terms
    "Rotor": "steelyard.model.terms",
    "Viscous": "steelyard.model.terms",
    "Coulomb": "steelyard.model.terms",
    "Offset": "steelyard.model.terms",
    "Coupling": "steelyard.model.terms",
    "Springs": "steelyard.model.terms",
    # estimators
    "LS": "steelyard.estimators",
    "WLS": "steelyard.estimators",
    "Consistent": "steelyard.estimators",
    "MAP": "steelyard.estimators",
    "Huber": "steelyard.estimators",
    "Essential": "steelyard.estimators",
    "Gains": "steelyard.estimators",
    "IV": "steelyard.estimators",
}
# Where names are that a program may look for at the top, as they once were there: name → namespace and name.
_ELSEWHERE = {
    "Identified": "export.IdentifiedModel",
    "OutputError": "estimators.OutputErrorMethod",
    "Watch": "online.ChangeDetection",
    "c_files": "export.c",
    "edited_mjcf": "export.mjcf",
    "edited_urdf": "export.urdf",
    "identified": "export.identified_model",
    "judge": "physical.check_links",
    "latex_table": "export.latex",
    "limits_of": "motion.limit_findings",
    "offers": "identification.candidate_terms",
    "python_file": "export.python",
    "select": "identification.select_terms",
} | {
    name: f"{namespace}.{name}"
    for namespace, names in {
        "checks": "check",
        "design": (
            "BSplineFamily ConditionNumber DOptimal Design DeviationTargets Forecast FourierFamily forecast planned"
        ),
        "estimators": "ConsistentGains DIDIM OutputErrorMethod RLS Recursive Ridge TLS TLSMixed named_estimator",
        "export": "Export new_mjcf new_urdf",
        "identification": "Delays PayloadResult Selection estimate_delays with_load",
        "motion": ("Box Capsule Plane Quintic Surroundings TrapezoidalAcceleration random_fourier random_points"),
        "online": "ChangeDetection Chunk",
        "physical": "Constraints check_links nearest_feasible",
        "simulation": "Cascade ComputedTorque Experiment Loop PD PID Plant Reference Simulated",
        "terms": (
            "AsymmetricCoulomb AsymmetricViscous BearingFriction Column Compensator Dahl Drift Entry LoadFriction "
            "Motion OnJoints PowerLaw Ripple Stribeck Term named_terms"
        ),
        "validation": "Comparison CrossValidation twin",
    }.items()
    for name in names.split()
}


# Not for type checkers: to them every name would exist.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        from importlib import import_module

        if name in _NAMESPACES:
            found = import_module(_NAMESPACES[name])
        elif name in _NAMES:
            found = getattr(import_module(_NAMES[name]), name)
        else:
            raise AttributeError(f"module 'steelyard' has no attribute '{name}'.{_hint(name)}")
        globals()[name] = found
        return found


def _hint(name: str) -> str:
    """Where the name is now, or the names that are close to it."""
    from difflib import get_close_matches

    if name in _ELSEWHERE:
        return f" It is steelyard.{_ELSEWHERE[name]}."
    near = get_close_matches(name, [*__all__, *_ELSEWHERE])
    close = ", ".join(f"steelyard.{_ELSEWHERE.get(one, one)}" for one in near)
    return f" Close names: {close}." if close else " docs/api.md lists the names."


def __dir__() -> list[str]:
    return sorted([*__all__, *(name for name in globals() if name.startswith("__"))])
