"""The name of a model, derived from its location."""

from __future__ import annotations

import re
from pathlib import Path

_NO_WORD = re.compile(r"\W|^_")
_ARCHIVE = re.compile(r"\.(tar\.gz|tar\.bz2|tar\.z|tgz|[^.]*)$", re.IGNORECASE)


def name_of(folder: Path) -> str:
    return _NO_WORD.sub("_", folder.name)


def name_in(url: str) -> str:
    """The last part of its path, without an archive's ending, in letters, digits and underlines."""
    path = url.partition(":")[2] or url
    last = path.rstrip("/").rpartition("/")[2]
    return _NO_WORD.sub("_", last if path.endswith("/") else _ARCHIVE.sub("", last))
