"""Stand-ins for inference engines that do not run on this machine: the folders of `stand_ins/`.

Each folder has a `stand_in.toml`: `summary`, the `images` (patterns of repository:tag) and, for a DJLServing, the
`entry_points` that need it, then either `packages` (import names in the folder, first on the worker's path; a package
that the worker's Python has itself is used instead) or `server` (a program that takes the place of the image's
server: `--model-dir DIR --port PORT`, GET /ping, POST /invocations on 127.0.0.1). `settings` (patterns of lines of
serving.properties, of which one must match) narrows the choice further. `compiler` is a program that takes the
place of the partition and compile programs of these images (`/opt/djl/partition/`). `compiler_packages` is a folder
whose packages (of a vendor's compiler that no package index offers) come first on the path of a recipe's compile
script, in a job and in a rehearsal. The table `replaced` has such patterns with the lines that the container gets
instead, for what DJL's Python engine here does not have: the names of old engines, and handlers that a module of the
folder replaces.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Final

from lmi_deploy.catalog import package_files
from lmi_deploy.domain.settings_digest import digest

DECLARATION: Final = "stand_in.toml"
STAND_IN_NOTICE: Final = "lmi emulator: stand-in for"
"""The first words of the log line in which a container names its stand-in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StandIn:
    """One folder of `stand_ins/`, as its declaration describes it."""

    folder: Path
    summary: str
    images: tuple[str, ...]
    entry_points: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    replaced: Mapping[str, str] = field(default_factory=dict)
    packages: tuple[str, ...] = ()
    requires: Mapping[str, str] = field(default_factory=dict)
    """By module that it or DJL's service imports, the package (`name==version`), which an image with the engine has."""
    instead: Mapping[str, str] = field(default_factory=dict)
    """By module, the folder that is put on the path where it is not installed."""
    server: str = ""
    compiler: str = ""
    compiler_packages: str = ""

    def compiles_in(self, image: str) -> bool:
        """Whether it has a compiler for jobs of this image (a whole address)."""
        return bool(self.compiler) and any(fnmatch(image.rpartition("/")[2], each) for each in self.images)

    @property
    def compiler_folder(self) -> Path:
        return self.folder / self.compiler_packages

    @property
    def compiler_digest(self) -> str:
        """Of the files that a compile script may import; empty if there are none."""
        files = sorted(self.compiler_folder.rglob("*.py")) if self.compiler_packages else []
        return digest([(path.name, path.read_bytes()) for path in files]) if files else ""

    @property
    def replaces_engine(self) -> bool:
        """Whether the engine itself does not run; else only its compiler, or a part of it, is replaced."""
        return bool(self.packages or self.server or self.entry_points)

    def replaces(self, image: str, entry_point: str, properties: Mapping[str, str]) -> bool:
        """Whether a container of this image (a whole address) with this handler and serving.properties needs it."""
        named = any(fnmatch(image.rpartition("/")[2], pattern) for pattern in self.images)
        handler = not self.entry_points or any(fnmatch(entry_point, each) for each in self.entry_points)
        return named and handler and (not self.settings or any(map(self._is_set, properties.items())))

    def has_packages_for(self, image: str) -> bool:
        """Whether a compile script in a container of this image gets its packages."""
        named = any(fnmatch(image.rpartition("/")[2], each) for each in self.images)
        return bool(self.compiler_packages) and named

    def _is_set(self, pair: tuple[str, str]) -> bool:
        return any(fnmatch("=".join(pair), pattern) for pattern in self.settings)

    def instead_of(self, key: str, value: str) -> tuple[str, str]:
        """The line that the container gets."""
        found = next((new for old, new in self.replaced.items() if fnmatch(f"{key}={value}", old)), "")
        return (found.partition("=")[0], found.partition("=")[2]) if found else (key, value)


def read_stand_ins(root: Path | None = None) -> tuple[StandIn, ...]:
    """All of them, by default those of the package. TypeError for a declaration with other keys, which only a
    developer sees."""
    folder = root or package_files.stand_ins()
    return tuple(_read(path) for path in sorted(folder.glob(f"*/{DECLARATION}")))


def stand_in_for(
    stand_ins: Sequence[StandIn], image: str, entry_point: str, properties: Mapping[str, str]
) -> StandIn | None:
    """The first that replaces something in such a container."""
    return next((one for one in stand_ins if one.replaces(image, entry_point, properties)), None)


def _read(path: Path) -> StandIn:
    fields: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    typed: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in fields.items()
    }
    return StandIn(folder=path.parent, **typed)
