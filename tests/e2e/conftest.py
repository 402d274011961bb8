"""The wheel, built once and installed into an environment of its own; the real model behind a local Hub."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.json_output import require_described
from tools.quickstart import sample_hub

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Installed:
    """The `lmi` of the wheel."""

    lmi: Path
    environment: dict[str, str] = field(default_factory=dict)

    def run(
        self, *arguments: str, env: dict[str, str] | None = None, **more: object
    ) -> subprocess.CompletedProcess[str]:
        environment = {**self.environment, **(env or {})}
        done: subprocess.CompletedProcess[str] = subprocess.run(
            [str(self.lmi), *arguments], env=environment, capture_output=True, text=True, check=False, **more
        )  # type: ignore[call-overload]
        require_described(arguments, done.stdout)
        return done


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    return next(out.glob("*.whl"))


@pytest.fixture(scope="session")
def lmi_of_the_wheel(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    venv = tmp_path_factory.mktemp("venv") / "venv"
    uv = [sys.executable, "-m", "uv"]
    wheelhouse = os.environ.get("LMI_WHEELHOUSE")
    source = ["--no-index", "--find-links", wheelhouse] if wheelhouse else []
    subprocess.run([*uv, "venv", "-q", "--python", sys.executable, str(venv)], check=True)
    pins = ["--constraint", str(ROOT / "requirements" / "dev.txt")]
    install = [*uv, "pip", "install", "-q", "--python", str(venv / "bin" / "python"), *source, *pins]
    subprocess.run([*install, f"{wheel}[emulator,bench]"], check=True)
    return venv / "bin" / "lmi"


@pytest.fixture(scope="session")
def hub_address() -> Iterator[str]:
    with sample_hub() as address:
        yield address


@pytest.fixture(scope="module")
def installed(
    lmi_of_the_wheel: Path, hub_address: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installed]:
    """With its own state and Hub cache; the caches of environments and engine are the user's."""
    home = tmp_path_factory.mktemp("home")
    environment = {
        **os.environ,
        "HF_ENDPOINT": hub_address,
        "HF_HOME": str(home / "hf"),
        "LMI_STATE_HOME": str(home / "state"),
        "COLUMNS": "118",
        "HF_TOKEN": "hf_canary_that_must_not_be_seen",
    }
    it = Installed(lmi_of_the_wheel, environment)
    yield it
    for deployment in it.run("ls", "--json").stdout.splitlines():
        if '"name": "' in deployment:
            it.run("down", "--yes", deployment.split('"name": "')[1].split('"')[0])
