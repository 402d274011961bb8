"""How long things may take where the recipe says nothing."""

from __future__ import annotations

STARTUP_TIMEOUT = 600
"""Seconds, where the recipe says nothing: the LMI deployment guide's own figure for the health check."""
