"""The port ImageBuilder: images by docker, podman or finch, as SageMaker accepts them.

SageMaker accepts a single image with a manifest of Docker's version 2, schema 2. By default BuildKit adds an
attestation, which makes an index of the image, and podman writes an OCI manifest: flags prevent both.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import Final, Literal
from urllib.parse import urlsplit

from lmi_deploy.domain.events import Event, Line, Progress
from lmi_deploy.domain.image_build import BuildContext, ImageBuild
from lmi_deploy.domain.number_text import size_text
from lmi_deploy.errors import AccessError, DeployFailed
from lmi_deploy.host.disk import free_space
from lmi_deploy.host.process_output import ProcessOutput
from lmi_deploy.ports.image_registry import RegistryLogin
from lmi_deploy.ports.processes import Processes
from lmi_deploy.runtimes.container.build_context import copy_context, read_context
from lmi_deploy.runtimes.container.container_cli import ContainerCli, ContainerEngine
from lmi_deploy.runtimes.container.registry_login import logged_in

BUILD_FLAGS: Final = "LMI_BUILD_FLAGS"
"""The user's own, for every `build`."""
_BUILD: Final[Mapping[str, tuple[str, ...]]] = {
    "docker": ("--progress=plain", "--provenance=false", "--output=type=docker"),
    "podman": ("--format=docker",),
    "finch": ("--progress=plain", "--provenance=false"),
}
_PUSH: Final[Mapping[str, tuple[str, ...]]] = {"podman": ("--format=v2s2",)}
_STEP: Final = re.compile(r"(?:STEP |#\d+ \[(?:\S+ )?)(\d+)/(\d+)[\]:]")
_LAYER: Final = re.compile(
    r"Copying blob|: (?:Pushed|Layer already exists|Mounted from)|layer-sha256:\S+:\s+done"
)
_TICK: Final = 5.0
_KEPT_LINES: Final = 20
_REMEDIES: Final[Mapping[str, str]] = {
    "no space left on device": "the disk of the container CLI is full: remove images that are not needed "
    "(`{program} system prune`)",
    "exec format error": "a step ran a program of another platform: build on a machine of that platform, or install "
    "its emulation (`{program} run --privileged --rm tonistiigi/binfmt --install all`)",
    "no image found in": "the base image does not exist for this platform: name another one in FROM",
    "no match for platform": "the base image does not exist for this platform: name another one in FROM",
    "unknown flag: --provenance": "install docker's BuildKit plugin (buildx), 0.10 or newer",
    "unknown flag: --progress": "install docker's BuildKit plugin (buildx), 0.10 or newer",
    "no such host": "a registry cannot be reached: check the network and the proxy settings of the container CLI",
    "connection refused": "a registry or the service of the container CLI cannot be reached: check that it runs",
    "cannot connect to the docker daemon": "start the service of the container CLI",
}
"""Parts of the output, in lower case, and what to do."""
_DENIED: Final = ("denied", "unauthorized", "403 forbidden", "not authorized", "no basic auth credentials")
_RESERVE: Final = 100_000_000


@dataclass(frozen=True, slots=True)
class _Command:
    argv: list[str]
    program: str
    what: str
    unit: Literal["steps", "layers"]

    def failure(self, code: int, last: list[str]) -> DeployFailed | AccessError:
        """What its last lines say, and what to do."""
        output = "\n".join(last).lower()
        why = next((line for line in reversed(last) if "error" in line.lower()), last[-1] if last else "")
        message = f"{self.what} failed with exit code {code}: {why.strip()[-300:]}"
        if self.unit == "layers" and any(words in output for words in _DENIED):
            hint = "`lmi iam RECIPE` prints the policy: pushing needs its statement PushImage"
            return AccessError(message, hint=hint, details=last)
        known = (remedy for words, remedy in _REMEDIES.items() if words in output)
        correct = "correct the Dockerfile" if self.unit == "steps" else "check the network"
        hint = next(known, f"{correct}, then run the same command again").format(program=self.program)
        return DeployFailed(message, hint=hint, details=last)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerImageBuilder:
    processes: Processes
    environment: Mapping[str, str]
    find: Callable[[], ContainerEngine | str]

    def context(self, folder: Path, dockerfile: str) -> BuildContext:
        return read_context(folder, dockerfile)

    def lacking(self) -> str:
        found = self.find()
        return found if isinstance(found, str) else ""

    def exists(self, image: str) -> bool:
        found = self.find()
        return not isinstance(found, str) and bool(self._cli(found).platform(image))

    def build(self, build: ImageBuild, image: str, *, key: str) -> Generator[Event, None, str]:
        engine = self._engine()
        _require_space(build)
        with TemporaryDirectory(prefix="lmi-build-") as scratch:
            try:
                copy_context(build.context, build.dockerfile, Path(scratch))
            except OSError as reason:
                raise DeployFailed(
                    f"{build.context.folder}: cannot be copied for the build: {reason}",
                    hint="correct what the message names, or set TMPDIR to a folder on a larger disk",
                ) from None
            argv = [engine.program, "build", *_BUILD[engine.kind]]
            argv += ["--platform", build.platform] if build.platform else []
            argv += [word for name, value in build.arguments for word in ("--build-arg", f"{name}={value}")]
            argv += shlex.split(self.environment.get(BUILD_FLAGS, ""))
            argv += ["--tag", image, "--file", str(Path(scratch, build.dockerfile)), scratch]
            yield from self._run(
                _Command(argv, engine.program, f"{image}: the build", "steps"), scratch, key=key
            )
        cli = self._cli(engine)
        if build.platform and (found := cli.platform(image)) != build.platform:
            cli.remove_image(image)
            raise DeployFailed(
                f"{image}: the build made an image for {found or 'no platform'}, but the instance needs "
                f"{build.platform}",
                hint="remove --platform from the FROM lines of the Dockerfile, or name a base image for this platform",
            )
        return f"{build.context.files} files, {cli.platform(image)}"

    def push(self, image: str, name: str, login: RegistryLogin, *, key: str) -> Generator[Event, None, str]:
        engine = self._engine()
        address = urlsplit(login.address)
        pushed = f"{address.netloc}/{name}"
        insecure = address.scheme == "http"
        with TemporaryDirectory(prefix="lmi-push-") as scratch:
            environment = logged_in(engine, login, Path(scratch), self.processes, self.environment)
            with _named(self._cli(engine), image, pushed):
                argv = [engine.program, "push", *_PUSH.get(engine.kind, ())]
                argv += ["--tls-verify=false"] * (insecure and engine.kind == "podman")
                argv += ["--insecure-registry"] * (insecure and engine.kind == "finch")
                command = _Command([*argv, pushed], engine.program, f"{name}: the push", "layers")
                layers = yield from self._run(command, scratch, key=key, environment=environment)
        return f"{layers} layers" if layers else "pushed"

    def _run(
        self, command: _Command, folder: str, *, key: str, environment: Mapping[str, str] | None = None
    ) -> Generator[Event, None, int]:
        """Its count of steps or layers. Ended with this process, and when the user interrupts it."""
        last: list[str] = []
        count = 0
        with ProcessOutput(
            command.argv, environ=environment or self.environment, cwd=Path(folder)
        ) as running:
            for text in running.lines(tick=_TICK):
                if not text:
                    continue
                last = [*last, text][-_KEPT_LINES:]
                yield Line(key=key, text=text)
                if command.unit == "steps" and (step := _STEP.match(text)):
                    count = int(step[1])
                    yield Progress(key=key, done=count, total=int(step[2]), unit="steps", note=text)
                elif command.unit == "layers" and _LAYER.search(text):
                    count += 1
                    yield Progress(key=key, done=count, total=None, unit="layers", note=text)
            if code := running.exit_code():
                raise command.failure(code, last)
        return count

    def _engine(self) -> ContainerEngine:
        found = self.find()
        if isinstance(found, str):
            raise DeployFailed(
                f"no container CLI on this machine: {found}", hint="install docker, podman or finch"
            )
        return found

    def _cli(self, engine: ContainerEngine) -> ContainerCli:
        return ContainerCli(processes=self.processes, engine=engine, environment=self.environment)


def _require_space(build: ImageBuild) -> None:
    """For the copy of the folder; how much the image itself takes, only its build shows."""
    folder = Path(gettempdir())
    if (free := free_space(folder)) < build.context.size + _RESERVE:
        raise DeployFailed(
            f"{folder}: {size_text(free)} free, the copy of {build.context.folder} needs "
            f"{size_text(build.context.size)}",
            hint="free some space, name large files in .dockerignore, or set TMPDIR to a folder on a larger disk",
        )


@contextmanager
def _named(cli: ContainerCli, image: str, other: str) -> Iterator[None]:
    """The image under another name, as long as the context lasts."""
    if why := cli.tag(image, other):
        raise DeployFailed(f"{image}: cannot be named {other}: {why}", hint="run the same command again")
    try:
        yield
    finally:
        cli.remove_image(other)
