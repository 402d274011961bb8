"""Runtime `triton`: tritonserver of the environment's nvidia-pytriton, started as SageMaker's image starts it.

The image's `serve` (triton-inference-server/server, docker/sagemaker/serve, read 2026-11-23) decides: one model by
SAGEMAKER_TRITON_DEFAULT_MODEL_NAME, or the only folder; explicit model control; the SAGEMAKER_TRITON_* variables.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from lmi_deploy.errors import DeployFailed
from lmi_deploy.ports.model_server import Launch
from lmi_deploy.runtimes.server_dirs import chosen_port
from lmi_deploy.runtimes.server_process import HttpProgram, ProgramCommand

_PACKAGE: Final = "pytriton/tritonserver"
_BACKEND: Final = re.compile(r'^backend: *"([^"]+)"', re.MULTILINE)
_PACKED: Final = re.compile(r'^parameters \{ key: "EXECUTION_ENV_PATH" .*\n', re.MULTILINE)
_CONFIG: Final = "config.pbtxt"
_FLAGS: Final = {
    "SAGEMAKER_TRITON_BUFFER_MANAGER_THREAD_COUNT": "--buffer-manager-thread-count",
    "SAGEMAKER_TRITON_THREAD_COUNT": "--http-thread-count",
    "SAGEMAKER_TRITON_LOG_INFO": "--log-info",
    "SAGEMAKER_TRITON_LOG_WARNING": "--log-warning",
    "SAGEMAKER_TRITON_LOG_ERROR": "--log-error",
}
"""Of the container's variables; here the thread count is that of the HTTP server."""
Adapt = Callable[[Launch, Path], None]
"""Changes the private copy of the model repository before it is served."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TritonInstallation:
    """`site` is the environment's site-packages, `python` its interpreter."""

    site: Path
    python: Path

    @property
    def server(self) -> Path:
        return self.site / _PACKAGE

    @property
    def stub(self) -> Path:
        version = self.site.parent.name.removeprefix("python")
        return self.server / "python_backend_stubs" / version / "triton_python_backend_stub"

    @property
    def backends(self) -> frozenset[str]:
        return frozenset(path.name for path in (self.server / "backends").iterdir())


def triton_program(
    environment: Mapping[str, str],
    *,
    python: Callable[[Launch], Path] = lambda launch: launch.python,
    adapt: Adapt = lambda launch, repository: None,
) -> HttpProgram:
    """A `ServedProgram`. `environment` is that of every server, without secrets; `python` the interpreter whose
    environment has nvidia-pytriton.
    """
    return HttpProgram(
        runtime="triton",
        title="Triton",
        command=lambda launch, port: _command(
            replace(launch, python=python(launch)), port, environment, adapt
        ),
    )


def find_triton(python: Path) -> TritonInstallation | None:
    """In the environment of this interpreter."""
    found = next(python.parent.parent.glob(f"lib/python*/site-packages/{_PACKAGE}/bin/tritonserver"), None)
    return TritonInstallation(site=found.parents[3], python=python) if found else None


def unsupported_machine() -> str:
    """Why nvidia-pytriton has no package for this machine; empty if it has."""
    return "" if sys.platform == "linux" else f"nvidia-pytriton is for Linux only, this is {sys.platform}"


def _command(launch: Launch, port: int, environment: Mapping[str, str], adapt: Adapt) -> ProgramCommand:
    triton = find_triton(launch.python)
    if triton is None:
        raise DeployFailed(
            f"{launch.python}: this environment has no nvidia-pytriton, which contains Triton's server",
            hint="run `lmi up` of a recipe with engine: triton and target: local once, which builds the environment",
        )
    if not triton.stub.exists():
        raise DeployFailed(
            f"nvidia-pytriton has no Python backend for {triton.site.parent.name}",
            hint=f"run lmi with one of Python {', '.join(_versions(triton))}",
        )
    repository = _repository(launch, triton, adapt)
    variables = {**environment, **launch.environment}
    model, internal = served_model(repository, variables), chosen_port("127.0.0.1", 0)
    if internal == port:
        internal = chosen_port("127.0.0.1", 0)
    argv = (
        *(sys.executable, "-m", "lmi_deploy.runtimes.triton.front_end"),
        *("--host", launch.host, "--port", str(port), "--triton-port", str(internal), "--model", model, "--"),
        *(str(triton.server / "bin" / "tritonserver"), *_arguments(launch, repository, model, internal)),
        *_from_variables(variables),
    )
    return ProgramCommand(argv=argv, environment={**variables, **_paths(triton, variables)})


def _arguments(launch: Launch, repository: Path, model: str, port: int) -> tuple[str, ...]:
    return (
        *("--backend-directory", str(launch.home / "backends"), "--model-repository", str(repository)),
        *("--model-control-mode", "explicit", "--load-model", model),
        *("--http-address", "127.0.0.1", "--http-port", str(port)),
        *("--allow-grpc", "false", "--allow-metrics", "false", "--allow-sagemaker", "false"),
    )


def _from_variables(variables: Mapping[str, str]) -> list[str]:
    namespacing = variables.get("SAGEMAKER_TRITON_DISABLE_MODEL_NAMESPACING") or "true"
    default = variables.get("SAGEMAKER_TRITON_SHM_DEFAULT_BYTE_SIZE") or "16777216"
    growth = variables.get("SAGEMAKER_TRITON_SHM_GROWTH_BYTE_SIZE") or "1048576"
    verbose = variables.get("SAGEMAKER_TRITON_LOG_VERBOSE") or "true"
    more = [f"{flag}={variables[name]}" for name, flag in _FLAGS.items() if variables.get(name)]
    return [
        f"--model-namespacing={namespacing}",
        f"--backend-config=python,shm-default-byte-size={default}",
        f"--backend-config=python,shm-growth-byte-size={growth}",
        f"--log-verbose={verbose}",
        *more,
    ]


def _repository(launch: Launch, triton: TritonInstallation, adapt: Adapt) -> Path:
    """A private copy: on this machine the environment is that of `launch.python`, so that no packed one is unpacked."""
    repository = launch.home / "model-repository"
    shutil.rmtree(repository, ignore_errors=True)
    shutil.copytree(launch.model_folder, repository)
    adapt(launch, repository)
    for config in repository.glob(f"*/{_CONFIG}"):
        text = config.read_text(encoding="utf-8")
        config.write_text(_PACKED.sub("", text), encoding="utf-8")
        backend = _BACKEND.search(text)
        if backend and backend[1] not in triton.backends:
            raise DeployFailed(
                f"model {config.parent.name} needs Triton's backend {backend[1]}, but nvidia-pytriton contains "
                f"{', '.join(sorted(triton.backends))} alone",
                hint="on this machine add --set options.backend=python, which loads the checkpoint instead",
            )
    folder = launch.home / "backends" / "python"
    shutil.rmtree(folder.parent, ignore_errors=True)
    folder.mkdir(parents=True)
    for file in (triton.server / "backends" / "python").iterdir():
        (folder / file.name).symlink_to(file)
    (folder / triton.stub.name).unlink(missing_ok=True)
    (folder / triton.stub.name).symlink_to(triton.stub)
    return repository


def served_model(repository: Path, variables: Mapping[str, str]) -> str:
    """The name of the model that requests go to, by the rules of the image's `serve`, with its words."""
    if (repository / _CONFIG).exists():
        raise DeployFailed(
            "ERROR: Incorrect directory structure. Model directory needs to contain the top level folder",
            hint="put config.pbtxt into a folder with the model's name",
        )
    named = variables.get("SAGEMAKER_TRITON_DEFAULT_MODEL_NAME")
    folders = sorted(path.name for path in repository.iterdir() if path.is_dir())
    if named:
        if named in folders:
            return named
        raise DeployFailed(
            f"ERROR: Directory with provided SAGEMAKER_TRITON_DEFAULT_MODEL_NAME {named} does not exist",
            hint=f"use one of {', '.join(folders)}" if folders else "the artifact contains no model",
        )
    if len(folders) != 1:
        what = "More than 1 model directory" if folders else "No model"
        raise DeployFailed(
            f"ERROR: {what} found in model repository",
            hint="set SAGEMAKER_TRITON_DEFAULT_MODEL_NAME in container.environment",
        )
    return folders[0]


def _paths(triton: TritonInstallation, variables: Mapping[str, str]) -> dict[str, str]:
    """The stub takes the environment whose bin is first on PATH, and needs the folder of libpython."""
    base = Path(os.path.realpath(triton.python)).parent.parent / "lib"
    libraries = (str(triton.site / "nvidia_pytriton.libs"), str(base), variables.get("LD_LIBRARY_PATH", ""))
    return {
        "PATH": f"{triton.python.parent}{os.pathsep}{variables.get('PATH', os.defpath)}",
        "LD_LIBRARY_PATH": os.pathsep.join(filter(None, libraries)),
    }


def _versions(triton: TritonInstallation) -> list[str]:
    found = (path.name for path in (triton.server / "python_backend_stubs").iterdir())
    return sorted(found, key=lambda version: [int(part) for part in re.findall(r"\d+", version)])
