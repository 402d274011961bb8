"""Which models are loaded at the start: `load_models` of config.properties, else the content of the model folder."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lmi_deploy.server.models.property_values import InvalidSettings
from lmi_deploy.server.models.registration_request import Overrides, name_in, name_of

_ARCHIVE = re.compile(r"\.(tar|tar\.gz|tar\.bz2|tar\.z|tgz|zip|gz)$", re.IGNORECASE)
_ENTRY = re.compile(
    r"(?:\[?([^?]+?)]?=)?(.+)"
)  # [name:version:engine:device]=url, as the real server's ModelStore


@dataclass(frozen=True, slots=True)
class StartupModel:
    """A model to load at the start."""

    name: str
    folder: Path
    overrides: Overrides = field(default_factory=Overrides)


def startup_models(folder: Path, name: str, keys: Mapping[str, str]) -> list[StartupModel]:
    """`InvalidSettings` if `load_models` names a missing folder."""
    stated = keys.get("load_models", "") or "ALL"
    match stated.upper():
        case "NONE":
            return []
        case "ALL":
            return list(_found(folder, name))
        case _:
            return [_entry(folder, text) for text in re.split("[, ]+", stated) if text]


def _found(folder: Path, name: str) -> Iterator[StartupModel]:
    """A folder that contains files is one model; a folder of folders is a model store."""
    found = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    # Archives do not make it a model; the real server finds no model in them at the start.
    if any(path.is_file() and not _ARCHIVE.search(path.name) for path in found):
        yield StartupModel(name, folder)
        return
    for path in found:
        if path.is_dir() and any(path.iterdir()):
            yield StartupModel(name_of(path), path)


def _entry(store: Path, text: str) -> StartupModel:
    """One entry of `load_models`: the address of a model, before it name, version, engine and devices if stated."""
    found = _ENTRY.fullmatch(text)
    assert found is not None  # the pattern takes every text that is not empty
    stated, url = found[1], found[2]
    path = Path(url.removeprefix("file://").removeprefix("file:"))
    folder = next((at for at in (store / path, path) if at.is_dir()), None)
    if folder is None:
        raise InvalidSettings(f"load_models={text}: no folder {path} in {store}")
    parts: list[str] = (stated or "").split(":")
    name, version, engine, devices = (parts + [""] * 3)[:4]
    keys = {key: value for key, value in (("engine", engine), ("load_on_devices", devices)) if value}
    return StartupModel(name or name_in(url), folder, Overrides(version=version or None, keys=keys))
