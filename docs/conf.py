"""The site: MyST pages, executed tutorials, the gallery of demos, and the reference from docstrings.

`containers/run docs` builds it into `out/docs`. Nothing on the site is loaded from elsewhere.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE)]

import site_pages  # noqa: E402

import cffem  # noqa: E402

project = "cffem"
author = "The cffem developers"
copyright = "the cffem developers; MIT licence"  # noqa: A001
version = release = cffem.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "site_math",
]
exclude_patterns = ["_build"]
source_suffix = {".md": "myst-nb", ".ipynb": "myst-nb", ".rst": "restructuredtext"}
root_doc = "index"

myst_enable_extensions = ["dollarmath", "deflist", "colon_fence"]
myst_heading_anchors = 3
nb_execution_mode = os.environ.get("CFFEM_DOCS_EXECUTE", "cache")
nb_execution_timeout = 900
nb_execution_raise_on_error = True
nb_execution_in_temp = True
nb_merge_streams = True
nb_execution_show_tb = True
# They fetch data or take many minutes; text and code are shown as they are.
nb_execution_excludepatterns = [f"gallery/{name}.ipynb" for name in site_pages.NOT_EXECUTED]

autodoc_typehints = "signature"
napoleon_use_ivar = True
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "exclude-members": "set_fit_request, set_score_request, sort_key"}
default_role = "code"
python_maximum_signature_line_length = 88

html_theme = "furo"
html_title = f"cffem {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"
html_show_sourcelink = False
html_theme_options = {"navigation_with_keys": True}

site_pages.write(HERE.parent, HERE)


def setup(app):
    """Docstrings are written in Markdown's way; what reStructuredText would stumble over is escaped."""
    app.connect("autodoc-process-docstring", site_pages.as_restructured, priority=100)
