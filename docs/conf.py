"""Sphinx configuration of extarray's documentation.

    sphinx-build -W --keep-going -b html docs docs/_build/html

A build reads nothing from the network: formulas become MathML (``_ext/mathml.py``), and links into
the documentation of Python and NumPy are made only when ``EXTARRAY_DOCS_INTERSPHINX=1`` asks.
"""

import os
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

import extarray

project = "extarray"
author = "the extarray developers"
copyright = "the extarray developers"  # noqa: A001 (Sphinx's name)
version = release = extarray.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "mathml",
    "pictures",
]
exclude_patterns = ["_build", "_ext", "changes"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
root_doc = "index"
nitpicky = False
default_role = "code"
# A paper of the list need not be cited by a docstring.
suppress_warnings = ["ref.citation"]

# MyST: formulas between dollars, lists of definitions; anchors for links between pages.
myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 4
html_math_renderer = "mathml"

# The pages of the reference name what they document; nothing is generated into the source tree.
autosummary_generate = False
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False
add_module_names = False
toc_object_entries_show_parents = "hide"

if os.environ.get("EXTARRAY_DOCS_INTERSPHINX") == "1":
    extensions.append("sphinx.ext.intersphinx")
    intersphinx_mapping = {
        "python": ("https://docs.python.org/3", None),
        "numpy": ("https://numpy.org/doc/stable", None),
    }

html_theme = "pydata_sphinx_theme"
html_title = f"extarray {release}"
html_static_path = ["_static"]
html_css_files = ["extarray.css"]
html_show_sourcelink = False
html_search_scorer = str(Path(__file__).parent / "_ext" / "scorer.js")
# Pages without neighbours need no list of them.
_ALONE = ["changelog", "design", "gallery", "glossary", "references", "stability"]
html_sidebars = {name: [] for name in _ALONE}
html_theme_options = {
    "logo": {"text": "extarray"},
    "show_nav_level": 2,
    "header_links_before_dropdown": 6,
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_prev_next": True,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}


def strip_self(app, what, name, obj, options, signature, return_annotation):
    """Compiled methods show `self` in their signatures, Python's do not: drop it everywhere."""
    stripped = re.sub(r"^\(self(?:, |(?=\)))", "(", signature or "")
    return (stripped, return_annotation) if stripped != (signature or "") else None


def setup(app):
    # Before numpydoc, which has signatures of its own: the first answer counts.
    app.connect("autodoc-process-signature", strip_self, priority=100)
