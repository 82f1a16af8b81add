"""One self-contained HTML page about an identification: it opens offline, in any browser, years later."""

from steelyard.report.page import render

__all__ = ["render"]
