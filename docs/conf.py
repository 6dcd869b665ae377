"""Sphinx configuration: `./run docs` builds into out/docs."""

import importlib.metadata
import importlib.util

project = "metalki"
author = "The metalki authors"
release = importlib.metadata.version("metalki")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
myst_heading_anchors = 3
exclude_patterns = ["_build"]
autodoc_member_order = "bysource"
autodoc_typehints = "description"
html_theme = "furo" if importlib.util.find_spec("furo") else "alabaster"
html_title = f"metalki {release}"
