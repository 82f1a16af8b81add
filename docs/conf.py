"""Sphinx configuration: MyST pages with mathematics, Furo theme; neither the build nor the pages need a network."""

import sys
from importlib.metadata import distribution
from importlib.metadata import version as installed_version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "extensions"))

project = "Steelyard"
author = "The Steelyard developers"
copyright = "The Steelyard developers, Apache-2.0"
release = version = installed_version("steelyard")

extensions = ["myst_parser", "sphinx.ext.mathjax", "sphinx.ext.autodoc", "public_names"]
myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]

# The class signature stays short: fields and arguments are listed below it, with their types.
autodoc_typehints = "description"
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
autodoc_inherit_docstrings = False
autodoc_type_aliases = {"Array": "Array"}  # not NumPy's long name of it
python_use_unqualified_type_names = True
add_module_names = False

html_theme = "furo"
html_title = f"Steelyard {release}"

# MathJax from a package of the `docs` extra, as one file with all of TeX and with glyphs drawn as SVG: a page asks for
# nothing else. (The package used as an extension would copy 24 MB of variants and fonts.)
mathjax_path = "tex-svg-full.js"
html_static_path = [
    str(distribution("sphinx-mathjax-offline").locate_file(f"sphinx-mathjax-offline/static/mathjax/{mathjax_path}"))
]
