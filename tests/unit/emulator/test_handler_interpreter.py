"""The interpreter of handlers: found, built, or reported as missing before anything starts."""

from __future__ import annotations

import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from lmi_deploy.domain.events import Event
from lmi_deploy.emulator.container_runtime import WORKER_PACKAGES, WORKERS, worker_python
from lmi_deploy.engines.custom import engine as custom
from lmi_deploy.errors import DeployFailed, UsageRefused
from lmi_deploy.ports.environments import CacheEntry


class WorkerFiles:
    """`Environments` of a fresh install of [emulator]: the cache is empty, and there is a network or none
    (`has_network`)."""

    def __init__(self, folder: Path, *, has_network: bool) -> None:
        self._folder = folder
        self._has_network = has_network
        self.built: list[tuple[str, ...]] = []

    def entries(self) -> tuple[CacheEntry, ...]:
        path = self._folder / "old"
        path.mkdir(exist_ok=True)
        return (CacheEntry(kind="environment", name="old", path=path, size=0),)

    def ready(self, environment: str) -> bool:
        return environment == "old" or bool(self.built)

    def python(self, environment: str) -> Path:
        return Path(sys.executable) if environment == WORKERS else bare(self._folder)

    def build(
        self, environment: str, packages: tuple[str, ...], requirements: str, *, key: str
    ) -> Generator[Event, None, str]:
        if not self._has_network:
            raise DeployFailed("uv: no such package: numpy", hint="look")
        self.built.append(packages)
        yield from ()
        return "built"

    def engine_ready(self, version: str) -> bool:
        raise NotImplementedError

    engine = python

    def install_engine(self, version: str, *, key: str) -> Generator[Event, None, str]:
        raise NotImplementedError

    def remove(self, name: str) -> int:
        raise NotImplementedError


def bare(folder: Path) -> Path:
    """An interpreter without any package."""
    program = folder / "python"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    program.chmod(0o755)
    return program


def test_environment_is_built_when_no_python_has_numpy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    models = WorkerFiles(tmp_path, has_network=True)
    assert worker_python(models, None) == Path(sys.executable)
    assert models.built == [WORKER_PACKAGES]
    assert "building the environment for handlers (numpy" in capsys.readouterr().err


def test_failed_environment_build_is_reported_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(UsageRefused, match="handlers need a Python with numpy") as refused:
        worker_python(WorkerFiles(tmp_path, has_network=False), None)
    assert "--python" in refused.value.hint
    assert "--no-containers" in refused.value.hint


def test_python_without_numpy_is_refused_with_the_install_command(tmp_path: Path) -> None:
    python = bare(tmp_path)
    with pytest.raises(UsageRefused, match="it has no numpy") as refused:
        worker_python(WorkerFiles(tmp_path, has_network=True), python)
    assert f"{python} -m pip install numpy" in refused.value.hint


def test_worker_packages_are_those_of_engine_custom() -> None:
    from lmi_deploy.domain.deployment_spec import HandlerSpec

    assert custom.ENGINE.packages(HandlerSpec(entry_point="model.py", template=None)) == WORKER_PACKAGES
