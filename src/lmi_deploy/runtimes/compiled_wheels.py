"""The compiled packages of the load client as wheels for another machine's Python: Linux, x86_64.

The installed package is packed again where it fits. Else pip downloads the wheel of the same version by its name and
platform, with the user's own settings of pip (`PIP_INDEX_URL`, `PIP_FIND_LINKS`), and it is kept in lmi's cache.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Final

from lmi_deploy.errors import NotInstalled, TransferFailed
from lmi_deploy.host.disk import on_disk
from lmi_deploy.ports.processes import CommandResult, Processes

NEEDED: Final = "httptools"
WELCOME: Final = "uvloop"
"""The client is faster with it, and works without it."""
_PLATFORMS: Final = ("manylinux2014_x86_64", "manylinux_2_17_x86_64", "manylinux_2_28_x86_64")
"""The image of a job has glibc 2.35 (Ubuntu 22.04)."""
_DOWNLOAD_SECONDS: Final = 120.0


def compiled_wheels(
    pythons: tuple[str, ...],
    cache: Path,
    processes: Processes,
    environ: Mapping[str, str],
    *,
    needed: str,
) -> Iterator[Path]:
    """Of each package and Python (`3.11`); TransferFailed if NEEDED is not there for the `needed` Python."""
    for package in (NEEDED, WELCOME):
        try:
            version = metadata.version(package)
        except metadata.PackageNotFoundError:
            if package == NEEDED:
                raise NotInstalled(package, extra="bench") from None
            continue
        for python in pythons:
            name = f"{package}-{version}-cp{python.replace('.', '')}-*.whl"
            found = next(iter(sorted(cache.glob(name))), None)
            if found is not None:
                yield found
                continue
            done = _download(f"{package}=={version}", python, cache, processes, environ)
            found = next(iter(sorted(cache.glob(name))), None)
            if found is not None:
                yield found
            elif package == NEEDED and python == needed:
                raise _failure(f"{package}=={version}", python, done)


def _download(
    requirement: str, python: str, cache: Path, processes: Processes, environ: Mapping[str, str]
) -> CommandResult:
    with on_disk(cache):
        cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix=".unfinished-") as room:
        flags = ("--no-deps", "--only-binary=:all:", "--implementation", "cp", "--python-version", python)
        places = [part for one in _PLATFORMS for part in ("--platform", one)]
        quiet = ("--disable-pip-version-check", "--no-input", "--quiet")
        argv = ("download", *quiet, *flags, *places, "--dest", room, requirement)
        # An environment of pipx or uv has no pip of its own.
        for pip in ((sys.executable, "-m", "pip"), ("pip",)):
            done = processes.run((*pip, *argv), environment=environ, timeout=_DOWNLOAD_SECONDS)
            if done.code == 0:
                break
        for wheel in Path(room).glob("*.whl"):
            wheel.replace(cache / wheel.name)
    return done


def _failure(requirement: str, python: str, done: CommandResult) -> TransferFailed:
    return TransferFailed(
        f"{requirement} for Python {python} on Linux: pip did not download it, and the machines of a load job need it",
        hint="check that pip reaches your package registry, or put the wheel into a folder and set PIP_FIND_LINKS to "
        f"that folder: `pip download --no-deps --python-version {python} --platform {_PLATFORMS[0]} "
        f"--only-binary=:all: {requirement}` on a machine that reaches one",
        details=done.err.splitlines()[-5:],
    )
