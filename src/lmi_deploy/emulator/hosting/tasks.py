"""The tasks behind resources."""

from __future__ import annotations

import asyncio
import logging


def report(task: asyncio.Task[None]) -> None:
    """What got stuck by a mistake of ours must not look like something that waits."""
    if not task.cancelled() and (error := task.exception()) is not None:
        logging.getLogger(__name__).error("%s: %r", task.get_name(), error, exc_info=error)
