"""Sphinx's settings for the site: `make docs`."""

project = "lmi"
author = "the lmi authors"
copyright = "the lmi authors"
extensions = ["myst_parser"]
html_theme = "furo"
html_title = "lmi"
html_copy_source = False
html_static_path = ["_static"]
html_css_files = ["lmi.css"]
html_theme_options = {"navigation_with_keys": True}
exclude_patterns = ["quickstart.txt"]
# Anchors as GitHub makes them, so that a link works in the repository and on the site.
myst_heading_anchors = 3
myst_enable_extensions = ["tasklist"]
# No highlighter can read transcripts and files with comments in place of values.
suppress_warnings = ["misc.highlighting_failure"]
