"""A folder's files, with the attributes that show a change."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

FileSnapshot = Mapping[str, tuple[int, int]]
"""Path in the folder to time of change (nanoseconds) and size."""


def snapshot_files(folder: Path, *extra: Path) -> FileSnapshot:
    """Every file except hidden ones and Python's compiled ones; and the files `extra` outside of the folder."""
    found: dict[str, tuple[int, int]] = {}
    named = [(path.relative_to(folder).as_posix(), path) for path in sorted(folder.rglob("*"))]
    shown = [
        (name, path)
        for name, path in named
        if not any(part.startswith(".") or part == "__pycache__" for part in name.split("/"))
    ]
    for name, path in [*shown, *((str(path), path) for path in extra)]:
        try:
            if path.is_file():
                state = path.stat()
                found[name] = (state.st_mtime_ns, state.st_size)
        except FileNotFoundError:  # editors write beside and rename
            continue
    return found


def difference(before: FileSnapshot, after: FileSnapshot) -> str:
    """The changes, in a few words; empty if there are none."""
    kinds = [
        ("changed", [name for name in after if name in before and after[name] != before[name]]),
        ("is new", [name for name in after if name not in before]),
        ("is gone", [name for name in before if name not in after]),
    ]
    lines = [f"{name} {kind}" for kind, names in kinds for name in names]
    return ", ".join(lines[:3]) + (f" and {len(lines) - 3} more" if len(lines) > 3 else "")
