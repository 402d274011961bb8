"""How the emulator starts containers: with the model servers and the cached environments of the local target."""

from __future__ import annotations

import re
import secrets
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from lmi_deploy.catalog.stand_ins import read_stand_ins
from lmi_deploy.domain.settings_digest import digest
from lmi_deploy.emulator.container_programs import ContainerPrograms, adapt_repository
from lmi_deploy.emulator.custom_images import OwnImages
from lmi_deploy.emulator.hosting.instances import ContainerRuntime
from lmi_deploy.emulator.hosting.network_access import NetworkAccess
from lmi_deploy.emulator.hosting.stand_ins import ContainerServers, ServersWithStandIns
from lmi_deploy.emulator.jobs.image_environment import JobImage
from lmi_deploy.errors import LmiError, UsageRefused

if TYPE_CHECKING:
    from lmi_deploy.ports.environments import Environments
    from lmi_deploy.ports.processes import Processes

ENGINE_VERSION: Final = "0.34.0"
WORKERS: Final = "emulator-workers"
WORKER_PACKAGES: Final = ("numpy==2.4.6",)
"""What DJL's Python engine imports, the same as for engine `custom` of a recipe."""
_SECRET: Final = re.compile(
    r"(^|_)(TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?|APIKEY|API_KEY|ACCESS_KEY(_ID)?)(_|$)"
)
_OF_A_USER: Final = ("XDG_", "HF_HOME", "HF_HUB_CACHE", "LMI_CACHE", "LMI_STATE")
_NEVER: Final = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PYTHONDONTWRITEBYTECODE")


def container_runtime(
    environ: Mapping[str, str],
    *,
    python: Path | None = None,
    engine: Path | None = None,
    s3: str = "",
    registry: str = "",
) -> ContainerRuntime:
    """Containers of DJLServing are embedded model servers, their workers in `python`, by default the newest cached
    environment.
    """
    from lmi_deploy.host.background_processes import LocalProcesses
    from lmi_deploy.host.clock import SystemClock
    from lmi_deploy.runtimes.container.container_cli import find_engine
    from lmi_deploy.runtimes.container.runtime import ContainerServer
    from lmi_deploy.runtimes.embedded import Embedded

    environ = {**environ, (mark := _mark()): "1"}
    environments = _cached_environments(environ)
    network = NetworkAccess(s3, environ.get("HF_ENDPOINT", ""))
    clock = SystemClock()
    processes = LocalProcesses(clock)
    inherited = container_environment(environ)
    return ContainerRuntime(
        servers=ServersWithStandIns(
            servers=ContainerPrograms(
                OwnImages(
                    Embedded(processes, clock, inherited),
                    ContainerServer(processes, inherited, lambda: find_engine(environ)),
                    lambda image: _lacking(image, processes, environ, registry),
                ),
                programs(processes, inherited, environments),
            ),
            stand_ins=read_stand_ins(),
            imports=cache(_imports),
            install=partial(_installed_for, environments),
            processes=processes,
            environment=inherited,
        ),
        python=worker_python(environments, python),
        engine=(lambda: engine) if engine is not None else _installed(environments),
        reach=network,
        image=job_image(environ, python, network),
        processes=processes,
        process_mark=mark,
    )


def _cached_environments(environ: Mapping[str, str]) -> Environments:
    """Those of the local target."""
    from lmi_deploy.runtimes.environments.environment_builder import LocalEnvironments

    wheelhouse = environ.get("LMI_WHEELHOUSE")
    base = environ.get("XDG_CACHE_HOME") or Path(environ.get("HOME") or Path.home(), ".cache")
    folder = Path(environ.get("LMI_CACHE_HOME") or Path(base, "lmi"))
    return LocalEnvironments(folder, environ, Path(wheelhouse) if wheelhouse else None)


def _lacking(image: str, processes: Processes, environ: Mapping[str, str], registry: str) -> str:
    """Why no container CLI of this machine can run the image; empty if one can. It is pulled from the registry if
    there is one.
    """
    from lmi_deploy.runtimes.container.container_cli import ContainerCli, find_engine

    engine = find_engine(environ)
    if isinstance(engine, str):
        return engine
    cli = ContainerCli(processes=processes, engine=engine, environment=environ)
    try:
        if registry and not cli.platform(image):
            address = urlsplit(registry)
            name = f"{address.netloc}/{image.partition('/')[2]}"
            if why := cli.pull(name, image, insecure=address.scheme == "http"):
                return why
        return cli.lacking(image, devices=1)
    except LmiError as unknown:
        return unknown.message


def programs(
    processes: Processes, environment: Mapping[str, str], environments: Environments
) -> dict[str, ContainerServers]:
    """The programs for images that are not DJLServing's, by a pattern of the repository.

    `environment` is what a container inherits from this machine. Each keeps its output in `server.log` of its home.
    """
    from lmi_deploy.runtimes.server_process import ProgramServer
    from lmi_deploy.runtimes.triton.runtime import triton_program

    triton = triton_program(
        environment,
        python=lambda launch: _with_triton(environments) or launch.python,
        adapt=adapt_repository,
    )
    return {"sagemaker-tritonserver": ProgramServer(processes, triton)}


def _with_triton(environments: Environments) -> Path | None:
    """The interpreter of the newest cached environment that has Triton's server."""
    from lmi_deploy.runtimes.triton.runtime import find_triton

    kept = [entry for entry in environments.entries() if entry.kind == "environment"]
    pythons = [environments.python(entry.name) for entry in kept if environments.ready(entry.name)]
    able = (python for python in pythons if find_triton(python))
    return max(able, key=lambda python: python.parent.stat().st_mtime, default=None)


def worker_python(environments: Environments, given: Path | None) -> Path:
    """The interpreter of the handlers: the given one, the newest cached environment, or one that is built now.

    UsageRefused for one without the packages that DJL's Python engine imports; nothing could run in it.
    """
    if given is not None:
        if not _imports(given, "numpy"):
            raise UsageRefused(
                f"--python {given}: it has no numpy, which DJL's Python engine imports",
                hint=f"run {given} -m pip install numpy, or name another interpreter",
            )
        return given
    python = _newest(environments)
    if not _imports(python, "numpy"):
        python = _built(environments)
    if not _imports(python, "torch"):
        sys.stderr.write(
            f"handlers run in {python}, which has no torch, so a recipe that needs torch fails to start; "
            "to avoid this, name an interpreter with torch: --python PATH\n"
        )
    return python


def _built(environments: Environments) -> Path:
    """Built as by the local target; it takes seconds, and is cached."""
    if not environments.ready(WORKERS):
        sys.stderr.write(
            f"building the environment for handlers ({', '.join(WORKER_PACKAGES)}); this is done once ...\n"
        )
        try:
            for _ in environments.build(WORKERS, WORKER_PACKAGES, "", key="workers"):
                pass
        except LmiError as exc:
            raise UsageRefused(
                f"handlers need a Python with numpy, but lmi could not install it: {exc.message}",
                hint="name an interpreter with numpy (--python PATH), or run without handlers (--no-containers)",
            ) from exc
    return environments.python(WORKERS)


def _imports(python: Path, module: str) -> bool:
    """Whether the interpreter finds the module; it is not imported (torch takes seconds)."""
    find = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({module!r}) is None)"
    try:
        done = subprocess.run([str(python), "-c", find], capture_output=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _installed_for(environments: Environments, python: Path, packages: tuple[str, ...]) -> Path:
    """The folder of packages for an interpreter, in an environment of its version that is built once."""
    from lmi_deploy.domain.environment_setup import EnvironmentSetup

    ask = "import sys; print('.'.join(map(str, sys.version_info[:2])))"
    done = subprocess.run([str(python), "-c", ask], capture_output=True, text=True, timeout=60, check=True)
    version = done.stdout.strip()
    own = version == ".".join(map(str, sys.version_info[:2]))
    name = f"stand-in-{digest([version, *packages])[:12]}"
    if not environments.ready(name):
        sys.stderr.write(f"installing {', '.join(packages)} for a stand-in; this is done once ...\n")
        setup = EnvironmentSetup(python="" if own else version)
        for _ in environments.build(name, packages, "", setup, key="stand-in"):
            pass
    return environments.python(name).parents[1] / "lib" / f"python{version}" / "site-packages"


def job_image(environ: Mapping[str, str], python: Path | None, network: NetworkAccess) -> JobImage:
    """Jobs run in `python`; without it in our own interpreter, of which they get the standard library only."""
    kept = {key: value for key, value in _inherited(environ).items() if not key.startswith(_OF_A_USER)}
    return JobImage(python or Path(sys.executable), python is None, kept, network, read_stand_ins())


def without_containers() -> ContainerRuntime:
    from lmi_deploy.host.background_processes import LocalProcesses
    from lmi_deploy.host.clock import SystemClock

    processes = LocalProcesses(SystemClock())
    return ContainerRuntime(
        servers=None, python=Path(sys.executable), engine=Path, processes=processes, process_mark=_mark()
    )


def _mark() -> str:
    """One mark for each emulator: it must not kill processes that another emulator started."""
    return f"LMI_EMULATOR_{secrets.token_hex(8)}"


def container_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that a container inherits from this machine: no secrets, nothing of AWS, no direct access to the
    Hub.
    """
    offline = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    return {**_inherited(environ), **offline}


def _inherited(environ: Mapping[str, str]) -> dict[str, str]:
    return {
        key: value
        for key, value in environ.items()
        if not _SECRET.search(key.upper()) and not key.startswith("AWS_") and key not in _NEVER
    }


def _newest(environments: Environments) -> Path:
    """The newest environment, of those with torch if there are any: an LMI image contains it.

    Without any, our own interpreter, for handlers that need no torch.
    """
    torch = "lib/python*/site-packages/torch/__init__.py"
    kept = [entry for entry in environments.entries() if entry.kind == "environment"]
    kept = [entry for entry in kept if environments.ready(entry.name)]
    newest = max(kept, key=lambda one: (any(one.path.glob(torch)), one.path.stat().st_mtime), default=None)
    return environments.python(newest.name) if newest is not None else Path(sys.executable)


def _installed(environments: Environments) -> Callable[[], Path]:
    def engine() -> Path:
        if not environments.engine_ready(ENGINE_VERSION):
            for _ in environments.install_engine(ENGINE_VERSION, key="engine"):
                pass
        return environments.engine(ENGINE_VERSION)

    return engine
