"""Kernels for robots with loops: closure and projected equations of motion."""
