"""Files that are whole or not there: an earlier one stays until the new one is complete."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """The file to write in its place. It becomes `path` at the end; after an OSError nothing of it is left."""
    part = path.with_name(f".{path.name}.part")
    try:
        yield part
        part.replace(path)
    except OSError:
        part.unlink(missing_ok=True)
        raise
