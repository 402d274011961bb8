"""YAML text to a tree of what was written: composed, never constructed."""
