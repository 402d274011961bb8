"""What every call of the Python API opens: ports with the variables of this moment, and errors with a remedy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

from lmi_deploy.errors import LmiError, NotInstalled

if TYPE_CHECKING:  # `lmi validate` has no use for the ports
    from lmi_deploy.workflows.dependencies import Dependencies

LOGGER: Final = "lmi_deploy"
"""The logger that gets what no event carries: retries, and warnings of a service."""
GIVEN: Final[ContextVar[Callable[[], Dependencies] | None]] = ContextVar("GIVEN", default=None)
"""Tests set one in place of `composition`."""


def dependencies() -> Dependencies:
    """Opened again by each call: a notebook may change its credentials or its region."""
    if (given := GIVEN.get()) is not None:
        return given()
    import logging

    from lmi_deploy.composition.local import wire

    return wire(notify=logging.getLogger(LOGGER).warning)


@contextmanager
def explained() -> Iterator[None]:
    """A traceback ends with the remedy of its error; a missing optional package is a NotInstalled."""
    try:
        yield
    except ModuleNotFoundError as missing:
        error = NotInstalled.of(missing)
        if error is None:
            raise
        raise _noted(error) from missing
    except LmiError as error:
        _noted(error)
        raise


def _noted(error: LmiError) -> LmiError:
    """With its notes, once: an error may pass through several calls."""
    if not getattr(error, "__notes__", None):
        for line in error.details:
            error.add_note(f"  {line}")
        if error.hint:
            error.add_note(f"  next: {error.hint}")
    return error
