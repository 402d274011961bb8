"""The login of a container CLI at a registry, in a folder of its own: the user's logins stay as they are."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from lmi_deploy.errors import AccessError
from lmi_deploy.ports.image_registry import RegistryLogin
from lmi_deploy.ports.processes import Processes
from lmi_deploy.runtimes.container.container_cli import ContainerEngine

_CREDENTIALS = ("auths", "credHelpers", "credsStore")
_TIMEOUT = 60.0


def logged_in(
    engine: ContainerEngine,
    login: RegistryLogin,
    folder: Path,
    processes: Processes,
    environment: Mapping[str, str],
) -> dict[str, str]:
    """The variables with which the CLI is logged in; `folder` then contains the password. AccessError if refused.

    The password is passed by standard input: command lines can be read by every user of the machine.
    """
    variables = {**environment, **_variables(engine, folder, environment)}
    address = urlsplit(login.address)
    argv = [engine.program, "login", "--username", login.user, "--password-stdin"]
    argv += ["--tls-verify=false"] * (address.scheme == "http" and engine.kind == "podman")
    result = processes.run(
        [*argv, address.netloc], environment=variables, timeout=_TIMEOUT, stdin=login.password.value
    )
    if result.code != 0:
        raise AccessError(
            f"{engine.kind} cannot log in at {address.netloc}: {result.err.strip()[-300:]}",
            hint="check the network and the proxy settings of the container CLI, then run the same command again",
        )
    return variables


def _variables(engine: ContainerEngine, folder: Path, environment: Mapping[str, str]) -> dict[str, str]:
    if engine.kind == "podman":
        return {"REGISTRY_AUTH_FILE": str(folder / "auth.json")}
    if engine.kind == "docker":
        _copy_docker_settings(folder, environment)
        return {"DOCKER_CONFIG": str(folder)}
    return {}  # finch has its own folder, inside its virtual machine


def _copy_docker_settings(folder: Path, environment: Mapping[str, str]) -> None:
    """The chosen context and the plug-ins stay; credentials do not."""
    own = Path(environment.get("DOCKER_CONFIG") or Path(environment.get("HOME") or Path.home(), ".docker"))
    settings: dict[str, object] = {}
    with suppress(OSError, ValueError):
        settings = json.loads((own / "config.json").read_text(encoding="utf-8"))
    kept = {key: value for key, value in settings.items() if key not in _CREDENTIALS}
    (folder / "config.json").write_text(json.dumps(kept), encoding="utf-8")
    for name in ("contexts", "cli-plugins"):
        if (own / name).is_dir():
            (folder / name).symlink_to(own / name)
