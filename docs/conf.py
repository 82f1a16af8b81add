"""Sphinx configuration: MyST pages with mathematics, Furo theme, no network needed to build."""

from importlib.metadata import version as installed_version

project = "Steelyard"
author = "The Steelyard developers"
copyright = "The Steelyard developers, Apache-2.0"
release = version = installed_version("steelyard")

extensions = ["myst_parser", "sphinx.ext.mathjax", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]

autodoc_typehints = "description"
autodoc_member_order = "bysource"

html_theme = "furo"
html_title = f"Steelyard {release}"
