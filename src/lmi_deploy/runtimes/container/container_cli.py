"""docker, podman or finch: which one is installed, where their arguments differ, and their output."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from lmi_deploy.domain.image_build import is_local_image
from lmi_deploy.errors import DeployFailed
from lmi_deploy.ports.processes import Processes

DEVICES: Final[Mapping[str, tuple[str, ...]]] = {
    "docker": ("--gpus", "all"),
    "podman": ("--device", "nvidia.com/gpu=all"),
    "finch": ("--gpus", "all"),
}
"""Engines, first choice first, and how each gives a container all accelerators (podman: by CDI names)."""
CHOICE = "LMI_CONTAINER_ENGINE"
FLAGS = "LMI_CONTAINER_FLAGS"
_RESPONSE_TIMEOUT = 30.0
_PULL_TIMEOUT = 1800.0
_NEEDS_GPU = ("NVIDIA_REQUIRE_CUDA=", "CUDA_VERSION=")
"""Variables of images that are built on CUDA, LMI's among them."""
_CUDA_LABEL = "com.amazonaws.sagemaker.inference.cuda.verified_versions"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerEngine:
    """`flags` are the user's own, for every `run`."""

    kind: str
    program: str
    flags: tuple[str, ...]

    @property
    def on_host_network(self) -> bool:
        """Then nothing is published: the server itself listens at the address."""
        return any(
            flag in ("--network=host", "--net=host")
            or (flag in ("--network", "--net") and self.flags[n + 1 : n + 2] == ("host",))
            for n, flag in enumerate(self.flags)
        )


def find_engine(environ: Mapping[str, str]) -> ContainerEngine | str:
    """The first of docker, podman and finch, or the named one; else the reason why there is none."""
    named = environ.get(CHOICE)
    flags = tuple(shlex.split(environ.get(FLAGS, "")))
    for name in (named,) if named else DEVICES:
        if program := shutil.which(name, path=environ.get("PATH", "")):
            kind = Path(name).name
            return ContainerEngine(kind=kind if kind in DEVICES else "docker", program=program, flags=flags)
    if named:
        return f"{CHOICE} is {named}, but this program does not exist"
    return f"none of {', '.join(DEVICES)} is on PATH"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerState:
    """A container as `inspect` shows it."""

    status: str
    exit_code: int
    out_of_memory: bool
    pid: int
    since: str
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerCli:
    """Short questions to one engine."""

    processes: Processes
    engine: ContainerEngine
    environment: Mapping[str, str]

    def lacking(self, image: str, *, devices: int) -> str:
        """Why the image cannot be run here, in words; empty when it can, and for one that lmi builds."""
        response = self._inspected("image", image)
        if response is None and is_local_image(image):
            return ""
        if response is None:
            return f"{self.engine.kind} has no image {image}; run `{self.engine.kind} pull {image}` (lmi never pulls)"
        settings = response.get("Config") or {}
        cuda = _CUDA_LABEL in (settings.get("Labels") or {}) or any(
            str(line).startswith(_NEEDS_GPU) for line in settings.get("Env") or ()
        )
        return f"image {image} needs CUDA, but this machine has no GPU" if cuda and not devices else ""

    def platform(self, image: str) -> str:
        """`linux/amd64`; empty if there is no such image."""
        found = self._inspected("image", image)
        return f"{found.get('Os', '')}/{found.get('Architecture', '')}" if found else ""

    def container(self, name: str) -> ContainerState | None:
        """None if there is no container of this name."""
        response = self._inspected("container", name)
        if response is None:
            return None
        state = response.get("State") or {}
        return ContainerState(
            status=str(state.get("Status", "")),
            exit_code=int(state.get("ExitCode") or 0),
            out_of_memory=bool(state.get("OOMKilled")),
            pid=int(state.get("Pid") or 0),
            since=str(state.get("StartedAt") or ""),
            labels=(response.get("Config") or {}).get("Labels") or {},
        )

    def stop(self, name: str, *, grace: float) -> None:
        """SIGTERM, `grace` seconds, SIGKILL."""
        self._run("stop", "-t", str(max(1, round(grace))), name, timeout=grace)

    def remove(self, name: str) -> None:
        """Remove the container in any state. DeployFailed if it remains."""
        text = self._run("rm", "-f", name)
        if text and self.container(name) is not None:
            raise DeployFailed(
                f"{self.engine.kind} did not remove {name}: {text}", hint="run the command again"
            )

    def tag(self, image: str, other: str) -> str:
        """Give the image another name, too; why not, else empty."""
        return self._run("tag", image, other)

    def pull(self, name: str, image: str, *, insecure: bool) -> str:
        """Get it from its registry and name it `image`; why not, else empty."""
        flags = ["--tls-verify=false"] if insecure and self.engine.kind == "podman" else []
        return self._run("pull", *flags, name, timeout=_PULL_TIMEOUT) or self.tag(name, image)

    def remove_image(self, image: str) -> None:
        """The name, and the image if it has no other; nothing if it does not exist, or is used."""
        self._run("rmi", image)

    def _inspected(self, what: str, name: str) -> dict[str, Any] | None:
        argv = [self.engine.program, what, "inspect", name]
        result = self.processes.run(argv, environment=self.environment, timeout=_RESPONSE_TIMEOUT)
        if result.code in (124, 127):
            raise DeployFailed(
                f"{self.engine.kind} does not answer: {result.err}", hint="check that its service is running"
            )
        try:
            fields = json.loads(result.out)
        except ValueError:
            fields = []
        first = fields[0] if isinstance(fields, list) and fields else None
        if first is None and not _absent(result.err):
            raise DeployFailed(
                f"{self.engine.kind} could not inspect {name}: {result.err.strip()[-300:]}",
                hint="check that its service is running",
            )
        return first if isinstance(first, dict) else None

    def _run(self, *words: str, timeout: float = 0.0) -> str:
        """Its error output; empty on success."""
        argv = [self.engine.program, *words]
        result = self.processes.run(argv, environment=self.environment, timeout=_RESPONSE_TIMEOUT + timeout)
        return "" if result.code == 0 else (result.err.strip() or f"exit code {result.code}")


def _absent(message: str) -> bool:
    text = message.lower()
    return any(words in text for words in ("no such", "not found", "not known", "no container", "no image"))
