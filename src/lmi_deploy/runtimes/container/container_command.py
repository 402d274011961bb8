"""How a container is started: mounts, variables and port as on SageMaker."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from lmi_deploy.ports.model_server import Launch
from lmi_deploy.runtimes.container.container_cli import DEVICES, ContainerEngine

MODEL_FOLDER = "/opt/ml/model"
PORT = 8080
"""The port that SageMaker uses; the image listens on it."""
_OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
"""Weights are on this machine; and no container is given a token to fetch any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerCommand:
    """`environment` is that of the CLI process: the container's variables are copied from it, not from the command
    line, which every user of the machine can read.
    """

    argv: list[str]
    environment: dict[str, str]


def container_name(launch: Launch) -> str:
    """`lmi-<deployment>-<server>`."""
    deployment = launch.labels.get("deployment", "serve")
    return f"lmi-{deployment}-{launch.labels.get('server', launch.home.name)}"


def command(
    launch: Launch,
    engine: ContainerEngine,
    port: int,
    *,
    client: Mapping[str, str],
    settings: Mapping[str, str] | None = None,
) -> ContainerCommand:
    """`run` as SageMaker does it, in the client's foreground. `settings` are keys of a config.properties."""
    labels = {**launch.labels, "home": str(launch.home.resolve())}
    inside = {**_OFFLINE, **launch.environment}
    inside |= {f"SERVING_{key.upper()}": value for key, value in (settings or {}).items()}
    if engine.on_host_network:
        address = f"http://{launch.host}:{port}"
        inside |= {"SERVING_INFERENCE_ADDRESS": address, "SERVING_MANAGEMENT_ADDRESS": address}
        # The variable by which SageMaker gives a server another port than 8080, with several containers on a host.
        inside["SAGEMAKER_BIND_TO_PORT"] = str(port)
        network: tuple[str, ...] = ()
    else:
        network = ("-p", f"{launch.host}:{port}:{PORT}")
    # Named alone, a variable is taken from the client; one that the client needs for itself is written out.
    variables = [key if key not in client else f"{key}={value}" for key, value in sorted(inside.items())]
    argv = [
        *(engine.program, "run", "--pull", "never", "--name", container_name(launch)),
        *("--cidfile", str(launch.home / "container.id")),
        *(part for key, value in labels.items() for part in ("--label", f"lmi.{key}={value}")),
        *(part for mount in _mounts(launch) for part in ("--mount", mount)),
        *(part for variable in variables for part in ("-e", variable)),
        *(DEVICES[engine.kind] if launch.devices else ()),
        *network,
        *engine.flags,
        *(launch.image, "serve"),
    ]
    return ContainerCommand(
        argv=argv, environment={key: value for key, value in inside.items() if key not in client}
    )


def _mounts(launch: Launch) -> Iterator[str]:
    yield _mount(launch.model_folder.resolve(), MODEL_FOLDER)
    outside = [weight_folders(folder) for folder in (launch.weights, launch.draft) if folder is not None]
    folders = sorted({folder for each in outside for folder in each})
    yield from (_mount(folder, str(folder)) for folder in folders)


def _mount(source: Path, target: str) -> str:
    return f"type=bind,source={source},target={target},readonly"


def weight_folders(weights: Path) -> tuple[Path, ...]:
    """The folder of the weights and the targets of its links: a snapshot of the Hub's cache consists of links."""
    # Not `resolve`: a link is followed inside by the names that it has outside.
    folders = {weights.absolute()}
    for at, _, files in os.walk(weights):
        for name in files:
            path = Path(at, name).absolute()
            if path.is_symlink():
                folders.add(Path(os.path.normpath(path.parent / path.readlink())).parent)
    return tuple(sorted(folder for folder in folders if not any(up in folders for up in folder.parents)))
