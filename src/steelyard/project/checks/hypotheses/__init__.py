"""Faults that add unknowns to the fit of a log: mounting, joint zeros, drifts, loads of single runs."""
