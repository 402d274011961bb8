"""YAML text to a tree of nodes: composed, never constructed."""
