"""Read what is imported: a folder, an archive, a serving.properties, environment variables. Bounded, and read only."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import IO, Final

from lmi_deploy.domain.byte_units import GIB, MIB
from lmi_deploy.domain.djl_serving import MODEL_PY, REQUIREMENTS_TXT, SERVING_PROPERTIES
from lmi_deploy.domain.java_properties import parse_properties
from lmi_deploy.domain.tar_headers import BoundedHeaders
from lmi_deploy.errors import UsageRefused
from lmi_deploy.recipe.import_settings import ImportSource, parse_environment

SMALL: Final = MIB
"""Bytes of a settings file, a handler or a list of packages; none is larger."""
MEMBERS: Final = 10_000
UNPACKED: Final = 16 * GIB
"""Bytes that an archive may hold: what is behind them is not looked at."""
_ARCHIVES: Final = (".tar.gz", ".tgz", ".tar")
_WEIGHTS: Final = (".safetensors", ".bin", ".pt", ".pth")
_CODE: Final[tuple[str, ...]] = (MODEL_PY, REQUIREMENTS_TXT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """`files` belong beside the recipe, in a folder of its name: from an archive they come along."""

    source: ImportSource
    files: dict[str, bytes]


def read_source(path: str, stdin: IO[bytes] | None, recipe_folder: Path) -> Imported:
    """UsageRefused for what is none of the four. Paths in the result start at `recipe_folder`."""
    if path == "-" and stdin is not None:
        return _environment("standard input", stdin.read(SMALL + 1))
    place = Path(path)
    try:
        if place.is_dir():
            return _folder(place, recipe_folder)
        if path.endswith(_ARCHIVES):
            return _archive(place)
        with place.open("rb") as file:
            content = file.read(SMALL + 1)
    except OSError as reason:
        raise UsageRefused(
            f"{path}: {reason.strerror or reason}",
            hint="name a folder, a model.tar.gz, a serving.properties file, or a file of variables",
        ) from None
    if path.endswith(".properties"):
        _require_small(path, content)
        return Imported(
            source=ImportSource(origin=path, properties=parse_serving_properties(path, content)), files={}
        )
    return _environment(path, content)


def _environment(origin: str, content: bytes) -> Imported:
    _require_small(origin, content)
    try:
        variables = parse_environment(content.decode())
    except ValueError as reason:
        raise UsageRefused(
            f"{origin}: not a file of environment variables: {reason}",
            hint="give lines of NAME=VALUE, or the JSON of `docker inspect` or `aws sagemaker describe-model`",
        ) from None
    return Imported(source=ImportSource(origin=origin, environment=variables), files={})


def _folder(folder: Path, recipe_folder: Path) -> Imported:
    found = {path.name: path for path in sorted(folder.iterdir()) if path.is_file()}
    if not {SERVING_PROPERTIES, MODEL_PY} & {*found} and not any(name.endswith(_WEIGHTS) for name in found):
        raise UsageRefused(
            f"{folder}: has no {SERVING_PROPERTIES}, no model.py and no weights",
            hint="name the folder that the container has as /opt/ml/model",
        )
    content = found[SERVING_PROPERTIES].read_bytes()[: SMALL + 1] if SERVING_PROPERTIES in found else b""
    _require_small(str(folder / SERVING_PROPERTIES), content)
    source = ImportSource(
        origin=str(folder),
        name=folder.resolve().name,
        properties=parse_serving_properties(str(folder / SERVING_PROPERTIES), content),
        weights=_below(folder, recipe_folder) if any(name.endswith(_WEIGHTS) for name in found) else "",
        other_files=tuple(name for name in found if name.endswith(".py") and name not in _CODE),
    )
    code = {name: _below(found[name], recipe_folder) for name in _CODE if name in found}
    return Imported(source=_with_code(source, code), files={})


def _with_code(source: ImportSource, code: Mapping[str, str]) -> ImportSource:
    return replace(source, model_py=code.get(MODEL_PY, ""), requirements=code.get(REQUIREMENTS_TXT, ""))


def _below(path: Path, recipe_folder: Path) -> str:
    """A path that a recipe in that folder may have."""
    try:
        return f"./{path.resolve().relative_to(recipe_folder.resolve()).as_posix()}"
    except ValueError:
        return str(path.resolve())


def _archive(path: Path) -> Imported:
    """Members are read one after the other and none is written: the small files are kept, weights are counted."""
    small: dict[str, bytes] = {}
    weights = passed = 0
    others: list[str] = []
    for member, file in _members(path):
        name = PurePosixPath(member.name).name
        passed += member.size
        if name in (SERVING_PROPERTIES, *_CODE) and name not in small and file is not None:
            small[name] = file.read(SMALL + 1)
            _require_small(f"{path}: {member.name}", small[name])
        elif name.endswith(_WEIGHTS):
            weights += member.size
        elif name.endswith(".py"):
            others.append(member.name)
        if passed > UNPACKED:
            break
    if not small and not weights:
        raise UsageRefused(
            f"{path}: has no {SERVING_PROPERTIES}, no model.py and no weights", hint="name a model.tar.gz"
        )
    name = path.name.partition(".")[0]
    content = small.pop(SERVING_PROPERTIES, b"")
    source = ImportSource(
        origin=str(path),
        name=name,
        properties=parse_serving_properties(str(path), content),
        other_files=tuple(others),
    )
    if weights:
        more = f"{weights / 1e9:.2f} GB of weights (unpack the archive, and name the folder with --model)"
        source = replace(source, other_files=(*source.other_files, more))
    return Imported(source=_with_code(source, {file: f"./{name}/{file}" for file in small}), files=small)


def _members(path: Path) -> Iterator[tuple[tarfile.TarInfo, IO[bytes] | None]]:
    try:
        with tarfile.open(path, "r|*", tarinfo=BoundedHeaders) as archive:
            for number, member in enumerate(archive):
                if number >= MEMBERS:
                    raise UsageRefused(f"{path}: more than {MEMBERS} members", hint="name a model.tar.gz")
                yield member, archive.extractfile(member) if member.isfile() else None
    except (tarfile.TarError, EOFError, ValueError) as reason:
        raise UsageRefused(
            f"{path}: not a tar archive, or incomplete: {reason}", hint="create the archive again"
        ) from None


def parse_serving_properties(origin: str, content: bytes) -> dict[str, str]:
    try:
        return parse_properties(content)
    except ValueError as reason:
        raise UsageRefused(
            f"{origin}: {reason}", hint="correct the file: DJLServing cannot read it either"
        ) from None


def _require_small(origin: str, content: bytes) -> None:
    if len(content) > SMALL:
        raise UsageRefused(f"{origin}: more than {SMALL // MIB} MiB", hint="name a file of settings")
