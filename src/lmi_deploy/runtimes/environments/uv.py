"""uv: creates virtual environments and installs into them."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from lmi_deploy.errors import DeployFailed, LmiError, NotInstalled
from lmi_deploy.errors.url_redaction import mask_urls
from lmi_deploy.host.process_output import ProcessOutput

_PIP_NAMES = {
    "PIP_INDEX_URL": "UV_DEFAULT_INDEX",
    "PIP_EXTRA_INDEX_URL": "UV_INDEX",
    "PIP_CERT": "SSL_CERT_FILE",
}
_UV_OWN_NAMES = {"UV_DEFAULT_INDEX": "UV_INDEX_URL", "UV_INDEX": "UV_EXTRA_INDEX_URL"}
"""Older names that uv still reads: if the user set one of them, pip's setting does not replace it."""
_PROBE_SECONDS = "3"
_PYTHON_DOWNLOAD_SECONDS = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Install:
    """`backend` is uv's name for the builds of torch; empty for those of the registry."""

    requirements: Path
    overrides: Path | None = None
    """Requirements that replace those of the packages."""
    backend: str = ""
    wheelhouse: Path | None = None
    copy: bool = False
    """Copy out of uv's cache, which is on another disk, instead of linking."""


def written(
    folder: Path, requirements: Sequence[str], overrides: Sequence[str], wheelhouse: Path | None
) -> Install:
    """What to install, as files in the folder, which is that of the environment."""
    listed, replacing = folder / "requirements.txt", folder / "overrides.txt"
    listed.write_text("\n".join(requirements), encoding="utf-8")
    if overrides:
        replacing.write_text("\n".join(overrides), encoding="utf-8")
    return Install(requirements=listed, overrides=replacing if overrides else None, wheelhouse=wheelhouse)


class Uv:
    """`folder` is its working directory: one where only the user's settings apply, not those of a project."""

    def __init__(self, environ: Mapping[str, str], folder: Path) -> None:
        self._binary = _binary()
        self._environ = settings(environ)
        self._may_download_python = environ.get("UV_PYTHON_DOWNLOADS") != "never"
        self._folder = folder

    def version(self) -> str:
        return self._run_and_read("--version").removeprefix("uv ").split(" ")[0]

    def cache(self) -> Path:
        return Path(self._run_and_read("cache", "dir"))

    def create(self, venv: Path, python: Path) -> None:
        """An empty environment on an interpreter that is here."""
        done = self._run("venv", "--quiet", "--no-python-downloads", "--python", str(python), str(venv))
        if done.returncode:
            raise DeployFailed(
                f"{venv}: uv could not create an environment with {python}",
                hint="check the Python installation of lmi, which the worker uses",
                details=mask_urls(done.stderr).splitlines(),
            )

    def interpreter(self, version: str) -> Path | None:
        """An interpreter of this version (empty: that of lmi) that is on this machine; None: there is none."""
        if version in ("", f"{sys.version_info[0]}.{sys.version_info[1]}"):
            return Path(sys.executable)
        done = self._run("python", "find", "--no-project", version)
        if done.returncode == 0:
            return Path(done.stdout.strip())
        # uv looks no further than a shim of pyenv that refuses, though pyenv has the version.
        root = self._environ.get("PYENV_ROOT") or Path(self._environ.get("HOME", "~")).expanduser() / ".pyenv"
        found = sorted(Path(root, "versions").glob(f"{version}.*/bin/python{version}"))
        return next((python for python in reversed(found) if os.access(python, os.X_OK)), None)

    def download_interpreter(self, version: str) -> Path:
        """The same, fetched into uv's own folder. DeployFailed if it cannot be."""
        output = "UV_PYTHON_DOWNLOADS is never"
        if self._may_download_python:
            allowed = {"UV_PYTHON_DOWNLOADS": "manual"}
            argv = ("python", "install", "--quiet", "--no-bin", version)
            done = self._run(*argv, environ=allowed, limit=_PYTHON_DOWNLOAD_SECONDS)
            output = done.stderr
            if done.returncode == 0 and (found := self.interpreter(version)):
                return found
        raise DeployFailed(
            f"Python {version}: not on this machine, and uv did not download it",
            hint=f"install Python {version} so that `uv python find {version}` finds it, with the package manager of "
            "this system, with pyenv, or with `uv python install`",
            details=mask_urls(output).splitlines(),
        )

    def install(self, venv: Path, install: Install) -> ProcessOutput:
        """The running installation; it prints its progress, and its exit code is the result."""
        argv = [self._binary, *_install(venv, install), "--no-progress", "--color", "never"]
        return ProcessOutput(argv, environ=self._environ, cwd=self._folder)

    def has_all(self, venv: Path, install: Install) -> bool:
        """Whether uv's cache contains every file of it: nothing would be downloaded."""
        done = self._run(*_install(venv, install), "--dry-run")
        return done.returncode == 0 and "Would download" not in done.stderr

    def is_torch_index_reachable(self, backend: str) -> bool:
        """Whether PyTorch's own index can be reached: tested once, by uv itself, so that its proxies apply."""
        interval = {
            "UV_HTTP_TIMEOUT": _PROBE_SECONDS,
            "UV_HTTP_CONNECT_TIMEOUT": _PROBE_SECONDS,
            "UV_HTTP_RETRIES": "0",
        }
        argv = ["pip", "compile", "-", "--quiet", "--no-deps", "--torch-backend", backend]
        try:
            return (
                self._run(*argv, text="torch\n", environ=interval, limit=4 * float(_PROBE_SECONDS)).returncode
                == 0
            )
        except subprocess.TimeoutExpired:
            return False

    def sweep(self) -> None:
        """Remove partial downloads of a killed uv from its cache, unless another uv is using it."""
        cache = self.cache()
        # Every uv holds this lock, shared, while it uses the cache: if we get it alone, all temporary folders are
        # orphans.
        with suppress(OSError), (cache / ".lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for left in cache.glob(".tmp*/"):
                shutil.rmtree(left, ignore_errors=True)

    def _run_and_read(self, *argv: str) -> str:
        done = self._run(*argv)
        if done.returncode:
            raise LmiError(f"uv {' '.join(argv)} failed", hint=done.stderr.strip())
        return done.stdout.strip()

    def _run(
        self, *argv: str, text: str = "", environ: Mapping[str, str] | None = None, limit: float = 60.0
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self._binary, *argv],
            input=text,
            capture_output=True,
            text=True,
            timeout=limit,
            env={**self._environ, **(environ or {})},
            cwd=self._folder,
        )


def settings(environ: Mapping[str, str]) -> dict[str, str]:
    """The user's environment for uv: their own uv settings unchanged, pip's where uv has none."""
    own = {**environ, "UV_PYTHON_DOWNLOADS": "never"}
    for other, owned in _PIP_NAMES.items():
        if environ.get(other) and not environ.get(owned) and not environ.get(_UV_OWN_NAMES.get(owned, owned)):
            own[owned] = environ[other]
    return own


def _binary() -> str:
    try:
        from uv import find_uv_bin

        return str(find_uv_bin())
    except (ImportError, FileNotFoundError) as exc:
        raise NotInstalled("uv") from exc


def _install(venv: Path, install: Install) -> list[str]:
    argv = ["pip", "install", "--python", str(venv / "bin" / "python"), "-r", str(install.requirements)]
    argv += ["--override", str(install.overrides)] if install.overrides else []
    argv += ["--torch-backend", install.backend] if install.backend else []
    argv += ["--link-mode", "copy"] if install.copy else []
    if install.wheelhouse:
        argv += ["--no-index", "--find-links", str(install.wheelhouse), "--only-binary", ":all:"]
    return argv
