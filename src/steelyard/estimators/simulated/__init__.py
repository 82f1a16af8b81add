"""Estimators that simulate the closed loop: `iv`, `didim`, `output-error`."""
