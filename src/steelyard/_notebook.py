"""Displayed: how an object shows itself in a notebook, and as a data frame."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class Displayed:
    """Adds a notebook's HTML and data frames to a type; what they hold is in `steelyard.report.notebook`.

    That room lies above the types, so it is named here and imported when something is shown.
    """

    def _repr_html_(self) -> str:
        return import_module("steelyard.report.notebook").html_of(self)

    def to_polars(self) -> Any:
        """The main table of the object as a Polars frame, with numbers as computed."""
        return import_module("steelyard.report.notebook").frame_of(self)

    def to_pandas(self) -> Any:
        """The same as a pandas frame; needs pandas."""
        return import_module("steelyard.report.notebook").pandas_of(self)
