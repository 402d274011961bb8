"""The user's own folders, and what their names alone say. It loads nothing: shell completion reads it at a key
press.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

REMEMBERED = "elsewhere"
"""Below the state folder: the deployments in AWS, a file `<name>.<region>.<account>.json` each."""


def state_folder(environ: Mapping[str, str]) -> Path:
    """The folder of deployment records: LMI_STATE_HOME, else the XDG state folder."""
    return _home(environ, "LMI_STATE_HOME", "XDG_STATE_HOME", ".local/state")


def cache_folder(environ: Mapping[str, str]) -> Path:
    """The folder of files that can be created again: LMI_CACHE_HOME, else the XDG cache folder."""
    return _home(environ, "LMI_CACHE_HOME", "XDG_CACHE_HOME", ".cache")


def known_names(environ: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """Deployments that were made from this machine: cheap, without the network, and silent about trouble."""
    state = state_folder(environ)
    return tuple(sorted({*_names(state / "deployments"), *(_names(state / REMEMBERED, suffix=".json"))}))


def _names(folder: Path, *, suffix: str = "") -> tuple[str, ...]:
    try:
        with os.scandir(folder) as found:
            return tuple(
                entry.name.partition(".")[0]
                for entry in found
                if (entry.name.endswith(suffix) if suffix else entry.is_dir())
                and not entry.name.startswith(".")
            )
    except OSError:
        return ()


def _home(environ: Mapping[str, str], own: str, xdg: str, fallback: str) -> Path:
    if environ.get(own):
        return Path(environ[own])
    base = environ.get(xdg) or str(Path(environ.get("HOME") or Path.home(), fallback))
    return Path(base, "lmi")
