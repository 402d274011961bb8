"""Which models a folder holds: itself one, or one in each of its folders."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from lmi_deploy.server.naming import name_of


def models_in(folder: Path, name: str, keys: Mapping[str, str]) -> list[tuple[str, Path]]:
    """Name and folder of every model to load at the start.

    A folder with files of its own is one model; one that holds folders alone is a store of them, from which
    `load_models` may choose.
    """
    found = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    if any(path.is_file() for path in found):
        return [(name, folder)]
    wanted = keys.get("load_models", "ALL")
    chosen = {part.strip() for part in wanted.split(",")}
    return [(name_of(path), path) for path in found if wanted == "ALL" or path.name in chosen]
