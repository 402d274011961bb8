"""Serve a model folder in the foreground: for developers of a handler."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

from lmi_deploy.domain.deployment_spec import environment_name
from lmi_deploy.domain.djl_serving import ENGINE_VERSION, MODEL_PY, REQUIREMENTS_TXT, SERVING_PROPERTIES
from lmi_deploy.domain.environment_setup import LocalSetup
from lmi_deploy.domain.events import Event, Notice
from lmi_deploy.domain.local_runtimes import NEEDS
from lmi_deploy.errors import NotFound, UsageRefused
from lmi_deploy.planning.worker_packages import worker_setup
from lmi_deploy.ports.model_server import Launch, ModelServer
from lmi_deploy.ports.processes import Report
from lmi_deploy.workflows.dependencies import Dependencies

_NO_MODEL = (
    "{folder}: no serving.properties and no model.py in it or in its folders; the server reports itself as "
    "healthy, as DJLServing does, but serves no model"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """`python` is the workers' interpreter; None: create an environment with what the folder needs."""

    folder: Path
    host: str
    port: int
    settings: Path | None
    python: Path | None
    runtime: str = "embedded"
    image: str = ""
    log_format: str = "lmi"
    management: bool = False


def prepare(options: ServeOptions, deps: Dependencies) -> Generator[Event, None, Path]:
    """Check that the folder can be served, and create what is missing; returns the workers' interpreter."""
    if not options.folder.is_dir():
        raise NotFound(
            f"{options.folder}: no such folder",
            hint="create one from a recipe with `lmi render RECIPE -o DIR`",
        )
    if not any(_is_model(folder) for folder in (options.folder, *options.folder.iterdir())):
        yield Notice(text=_NO_MODEL.format(folder=options.folder))
    needs = _needs(options, deps)
    if "engine" in needs and not deps.environments.engine_ready(ENGINE_VERSION):
        yield from deps.environments.install_engine(ENGINE_VERSION, key="engine")
    if options.python is not None:
        return options.python
    if "environment" not in needs:
        return Path(sys.executable)
    needed = _worker_setup(options, deps)
    yield from (Notice(text=text) for text in needed.notices)
    contents = (
        needed.packages,
        _read(options.folder / REQUIREMENTS_TXT).decode("utf-8", "replace"),
        needed.setup,
    )
    name = environment_name(*contents)
    if not deps.environments.ready(name):
        deps.environments.require_space(name, *contents)
        yield from deps.environments.build(name, *contents, key="environment")
    return deps.environments.python(name)


def run(options: ServeOptions, python: Path, deps: Dependencies, *, report: Report | None = None) -> int:
    """Serve until it exits or is interrupted; returns the server's own exit code. `report` receives its log line by
    line.
    """
    server: ModelServer = deps.servers[options.runtime]
    with tempfile.TemporaryDirectory(prefix="lmi-serve-") as home:
        return server.foreground(launch_of(options, python, Path(home), deps), report=report)


def launch_of(options: ServeOptions, python: Path, home: Path, deps: Dependencies) -> Launch:
    """How the folder is started."""
    return Launch(
        model_folder=options.folder,
        home=home,
        python=python,
        engine=deps.environments.engine(ENGINE_VERSION),
        host=options.host,
        port=options.port,
        environment={},
        defaults={} if options.python else dict(_worker_setup(options, deps).variables),
        labels={},
        image=options.image,
        model_name="",
        settings=options.settings.absolute() if options.settings else None,
        devices=len(deps.machine().accelerators),
        managed_by_clients=options.management,
        log_format=options.log_format,
    )


def _worker_setup(options: ServeOptions, deps: Dependencies) -> LocalSetup:
    properties, model_py = _read(options.folder / SERVING_PROPERTIES), _read(options.folder / MODEL_PY)
    return worker_setup(properties, model_py, deps.machine())


def _needs(options: ServeOptions, deps: Dependencies) -> frozenset[str]:
    """What must be created on this machine first. Raises UsageRefused if the runtime is not available."""
    available = deps.runtimes(options.image or None)
    if options.runtime not in available.names:
        why = available.lacking.get(options.runtime, "it is not on this machine")
        image = (
            "name an image that is on this machine with --image; " if options.runtime == "container" else ""
        )
        raise UsageRefused(
            f"--runtime {options.runtime}: {why}", hint=f"{image}available: {', '.join(available.names)}"
        )
    return NEEDS[options.runtime]


def _is_model(folder: Path) -> bool:
    return any((folder / name).exists() for name in (SERVING_PROPERTIES, MODEL_PY, "config.json"))


def _read(path: Path) -> bytes:
    return path.read_bytes() if path.is_file() else b""
