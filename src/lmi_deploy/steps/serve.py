"""A model folder in the foreground: for people who write a handler."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

from lmi_deploy.core.events import Event
from lmi_deploy.core.spec import environment_name
from lmi_deploy.decide.worker_packages import worker_packages
from lmi_deploy.engines.engine import ENGINE_PACKAGE_VERSION
from lmi_deploy.errors import NotFound
from lmi_deploy.ports.model_server import ModelServer
from lmi_deploy.steps.deps import Deps

_PROPERTIES = "serving.properties"
_MODEL = "model.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """`python` is the workers' interpreter; None: one with what the folder needs is made."""

    folder: Path
    host: str
    port: int
    settings: Path | None
    python: Path | None


def prepare(wanted: Wanted, deps: Deps) -> Generator[Event, None, Path]:
    """See that the folder can be served, and make what is missing; returns the workers' interpreter."""
    _require_folder(wanted)
    if not deps.environments.engine_ready(ENGINE_PACKAGE_VERSION):
        yield from deps.environments.install_engine(ENGINE_PACKAGE_VERSION, key="engine")
    if wanted.python is not None:
        return wanted.python
    packages = worker_packages(_read(wanted.folder / _PROPERTIES), _read(wanted.folder / _MODEL))
    requirements = _read(wanted.folder / "requirements.txt").decode("utf-8", "replace")
    name = environment_name(packages, requirements)
    if not deps.environments.ready(name):
        yield from deps.environments.build(name, packages, requirements, key="environment")
    return deps.environments.python(name)


def run(wanted: Wanted, python: Path, deps: Deps) -> int:
    """Serve until it ends or is interrupted; the server's own exit code."""
    server: ModelServer = deps.servers["embedded"]
    return server.foreground(
        wanted.folder,
        engine=deps.environments.engine(ENGINE_PACKAGE_VERSION),
        python=python,
        address=(wanted.host, wanted.port),
        settings=wanted.settings,
    )


def _require_folder(wanted: Wanted) -> None:
    if not wanted.folder.is_dir():
        raise NotFound(
            f"{wanted.folder}: no such folder", hint="`lmi render RECIPE -o DIR` makes one from a recipe"
        )
    if not any((wanted.folder / name).exists() for name in (_PROPERTIES, _MODEL, "config.json")):
        raise NotFound(
            f"{wanted.folder}: neither {_PROPERTIES} nor {_MODEL} is in it",
            hint="the server would start with no model, and be healthy; a folder with one of them is served",
        )


def _read(path: Path) -> bytes:
    return path.read_bytes() if path.is_file() else b""
