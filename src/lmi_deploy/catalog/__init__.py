"""Packaged facts with look-ups."""
