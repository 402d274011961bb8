"""Files that the user named for a command's result."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path

from lmi_deploy.errors import Refused, UsageRefused


def require_absent(paths: Iterable[Path], *, force: bool, instead: str) -> None:
    """Refused if a file exists, unless `force`; `instead` is what else the user may do."""
    existing = next((path for path in paths if path.exists()), None)
    if existing is not None and not force:
        raise Refused(f"{existing}: the file exists", hint=f"{instead}, or add --force")


@contextmanager
def writing(path: str | PathLike[str]) -> Iterator[None]:
    """A place that cannot be written is the user's to mend: which file, why, and what next."""
    try:
        yield
    except OSError as reason:
        place = reason.filename or path
        hint = "name an existing folder that has free space and that you may write to"
        raise UsageRefused(f"{place}: {reason.strerror or reason}", hint=hint) from None
