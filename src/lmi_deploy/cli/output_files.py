"""Files that the user named for a command's result."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike

from lmi_deploy.errors import UsageRefused


@contextmanager
def writing(path: str | PathLike[str]) -> Iterator[None]:
    """A place that cannot be written is the user's to mend: which file, why, and what next."""
    try:
        yield
    except OSError as reason:
        place = reason.filename or path
        hint = "name an existing folder that has free space and that you may write to"
        raise UsageRefused(f"{place}: {reason.strerror or reason}", hint=hint) from None
