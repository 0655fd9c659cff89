"""Sphinx configuration: `make docs`. Reference pages are generated from the code by _ext/reference.py."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent / "_ext"), str(Path(__file__).parents[1])]

from testbed import __version__  # noqa: E402  (after the path)

project = "testbed"
author = "the testbed developers"
copyright = author
release = version = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "reference", "architecture"]
source_suffix = {".md": "markdown"}
root_doc = "index"
exclude_patterns = ["_build"]
smartquotes = False  # an option is --json, not an en dash

myst_enable_extensions = ["deflist", "colon_fence", "attrs_inline"]
myst_heading_anchors = 4

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_mock_imports = ["iperf3"]

html_theme = "furo"
html_title = f"testbed {release}"
html_static_path: list[str] = []
html_copy_source = False
html_show_sphinx = False

man_pages = [("reference/commands", "testbed", "prove what a change to the Linux network stack does", [], 1)]
man_show_urls = False

# Links to other sites are shown, and checked only where a network is at hand.
linkcheck_ignore = [r"https?://"]
