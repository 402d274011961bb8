"""Runtime `djl-serving`: an installed DJLServing, with a separate configuration, temporary folder and log."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from lmi_deploy.domain.java_properties import parse_properties, write_properties
from lmi_deploy.errors import DeployFailed
from lmi_deploy.ports.model_server import Launch
from lmi_deploy.runtimes.server_dirs import run_folder
from lmi_deploy.runtimes.server_health import MODEL_NAME, Health, health
from lmi_deploy.runtimes.server_process import ListeningAddress, ProgramCommand

_OURS = ("inference_address", "management_address", "model_store", "load_models")
"""Keys for its addresses and its models; as SERVING_* they would override the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DjlInstallation:
    """`home` is None for one that is only found on PATH: its start script knows its own."""

    program: Path
    home: Path | None


@dataclass(frozen=True, slots=True)
class DjlServing:
    """A `ServedProgram`. `environment` is that of every server, without secrets; `find` returns the installation, or
    the reason why there is none.
    """

    environment: Mapping[str, str]
    find: Callable[[], DjlInstallation | str]
    runtime: str = "djl-serving"
    title: str = "DJLServing"
    when_killed: str = "killed, out of memory or by SERVING_FAIL_FAST"

    def prepare(self, launch: Launch, port: int) -> ProgramCommand:
        found = self.find()
        if isinstance(found, str):
            raise DeployFailed(
                f"no DJLServing on this machine: {found}", hint="install one, or use runtime embedded"
            )
        file = launch.home / "config.properties"
        file.write_bytes(settings_file(launch, port, launch.settings))
        return ProgramCommand(
            argv=(str(found.program), "-f", str(file)),
            environment=variables(launch, found, self.environment, temporary=run_folder(launch.home)),
        )

    def health(self, address: ListeningAddress) -> Health:
        observed = health(address.host, address.port)
        if observed.folder and observed.folder != address.model_folder:
            # Another process took the port between our check and the end of loading: our server will fail because of
            # it.
            return Health(phase="starting", message=f"another server answers at port {address.port}")
        return observed


def find_installation(environ: Mapping[str, str]) -> DjlInstallation | str:
    """DJL_SERVING_HOME, else PATH; else the reason why there is none."""
    named = environ.get("DJL_SERVING_HOME")
    if not named:
        found = shutil.which("djl-serving", path=environ.get("PATH", ""))
        if found is None:
            return "DJL_SERVING_HOME is not set and djl-serving is not on PATH"
        return DjlInstallation(program=Path(found), home=None)
    program = Path(named, "bin", "serving")
    if not os.access(program, os.X_OK):
        return f"DJL_SERVING_HOME is {named}, but {program} does not exist"
    if _java(environ) is None:
        return "it needs Java, but JAVA_HOME is not set and java is not on PATH"
    return DjlInstallation(program=program, home=Path(named))


def settings_file(launch: Launch, port: int, other: Path | None) -> bytes:
    """config.properties: the user's own keys, then the address and the one model."""
    pairs = parse_properties(other.read_bytes()) if other else {}
    address = f"http://{launch.host}:{port}"
    pairs["inference_address"] = address
    pairs.setdefault("management_address", address)
    pairs["model_store"] = str(launch.model_folder.resolve())
    # The list is split at blanks and commas, which a file URL does not contain.
    pairs["load_models"] = f"{MODEL_NAME}={launch.model_folder.resolve().as_uri()}"
    return write_properties(pairs.items())


def variables(
    launch: Launch, installation: DjlInstallation, base: Mapping[str, str], *, temporary: Path
) -> dict[str, str]:
    """As the container would have them. `temporary` belongs to this server alone: if two servers share one, each
    treats the other's workers as left-overs and kills them.
    """
    kept = {**launch.defaults, **base, **launch.environment}
    for key in _OURS:
        kept.pop(f"SERVING_{key.upper()}", None)
    own = shlex.quote(f"-Djava.io.tmpdir={temporary}")
    kept["JAVA_OPTS"] = f"{kept.get('JAVA_OPTS', '')} {own}".strip()
    kept["PYTHON_EXECUTABLE"] = str(launch.python)
    kept["DJL_CACHE_DIR"] = str(launch.home / "djl-cache")
    if installation.home is not None:
        kept.setdefault("MODEL_SERVER_HOME", str(installation.home))
    return kept


def _java(environ: Mapping[str, str]) -> str | None:
    home = environ.get("JAVA_HOME")
    if home:
        return shutil.which("java", path=str(Path(home, "bin")))
    return shutil.which("java", path=environ.get("PATH", ""))
