"""Findings: what a run reports, and the table of their codes."""

from steelyard.findings.finding import Finding
from steelyard.findings.registry import CODES, FindingCode, Severity, Stage, register, unregister

__all__ = ["CODES", "Finding", "FindingCode", "Severity", "Stage", "register", "unregister"]
