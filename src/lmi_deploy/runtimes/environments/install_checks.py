"""Checks and messages before and during the installation of an environment: builds of torch, disk space, progress."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from lmi_deploy.domain.events import Event, Line, Progress
from lmi_deploy.domain.number_text import size_text
from lmi_deploy.errors import DeployFailed
from lmi_deploy.errors.url_redaction import mask_urls
from lmi_deploy.host.disk import free_space, nearest
from lmi_deploy.host.process_output import ProcessOutput
from lmi_deploy.runtimes.environments.uv import Uv

# Measured on Linux x86-64 with torch 2.13, transformers 4.57 and their dependencies, 2026-11.
_CUDA_BUILD, _CPU_BUILD = 5_000_000_000, 1_000_000_000
_LEAST = 50_000_000
_TORCH = re.compile(r"^\s*(torch|torchvision|torchaudio|accelerate|peft)\b", re.MULTILINE | re.IGNORECASE)
_RESOLVED = re.compile(r"Resolved (\d+) packages?")
_INSTALLED = re.compile(r"Installed (\d+) packages?")
_TICK = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchBuild:
    """`expected` in bytes; `words` is the origin of torch, for the Notice before the first build."""

    backend: str = ""
    expected: int = _LEAST
    words: str = ""


def choose(
    packages: tuple[str, ...], requirements: str, environ: Mapping[str, str], uv: Uv, *, size: int = 0
) -> TorchBuild:
    """The builds of torch: CPU ones if there is no NVIDIA device and PyTorch's own index responds.

    With a measured `size` they are those of the package registry, for which the other packages were built.
    """
    if size:
        words = "all from the package registry; this takes minutes, depending on the network"
        return TorchBuild(expected=size, words=words)
    if not _TORCH.search("\n".join((*packages, requirements))):
        return TorchBuild()
    if environ.get("UV_TORCH_BACKEND"):
        return TorchBuild(expected=_CPU_BUILD, words="torch as set by UV_TORCH_BACKEND")
    device = shutil.which("nvidia-smi", path=environ.get("PATH")) is not None
    if uv.is_torch_index_reachable("auto" if device else "cpu"):
        if device:
            return TorchBuild(
                backend="auto", expected=_CUDA_BUILD, words="torch for the NVIDIA device of this machine"
            )
        return TorchBuild(
            backend="cpu", expected=_CPU_BUILD, words="torch built for CPU, from PyTorch's own index"
        )
    if sys.platform == "darwin":
        return TorchBuild(expected=_CPU_BUILD, words="torch from the package registry")
    return TorchBuild(
        expected=_CUDA_BUILD,
        words="torch built for CUDA, which also runs on CPU, from the package registry; PyTorch's own index with "
        "the CPU build of about 200 MB does not respond",
    )


def smallest(packages: tuple[str, ...], requirements: str) -> int:
    """Bytes that any build takes, without a look at the network."""
    return _CPU_BUILD if _TORCH.search("\n".join((*packages, requirements))) else _LEAST


def from_wheelhouse(wheelhouse: Path) -> TorchBuild:
    """Unpacked wheels take about three times their size."""
    if not wheelhouse.is_dir():
        raise DeployFailed(
            f"{wheelhouse}: no such folder", hint="LMI_WHEELHOUSE names the folder with the wheels"
        )
    size = sum(wheel.stat().st_size for wheel in wheelhouse.glob("*.whl"))
    return TorchBuild(expected=max(3 * size, _LEAST), words=f"wheels only from {wheelhouse}")


def require_space(expected: int, *places: Path, linked: Callable[[], bool]) -> None:
    """Refuse to start without enough disk space; `linked` says whether the files are on that disk already."""
    for place in places:
        if (free := free_space(place)) < expected and not linked():
            raise DeployFailed(
                f"{nearest(place)}: {size_text(free)} free, the serving environment needs about {size_text(expected)}",
                hint="free some space (`lmi cache ls` lists the cache of lmi, `uv cache clean` clears that of uv), "
                "or set LMI_CACHE_HOME to a folder on a larger disk",
            )


def on_one_disk(first: Path, second: Path) -> bool:
    return nearest(first).stat().st_dev == nearest(second).stat().st_dev


@dataclass(slots=True, kw_only=True)
class EnvironmentInstall:
    """One run of the installer, as events; its output is in `lines` and in the log."""

    key: str
    expected: int
    log: IO[str]
    lines: list[str] = field(default_factory=list)
    packages: int = 0

    def follow(self, running: ProcessOutput) -> Generator[Event, None, int]:
        resolved = "resolving"
        for text in running.lines(tick=_TICK):
            if text is None:
                if (written := running.written()) is not None:
                    # Files in uv's cache are not written again: this is the maximum.
                    is_known = written <= self.expected and self.expected > _LEAST
                    total = float(self.expected) if is_known else None
                    yield Progress(
                        key=self.key, done=float(written), total=total, unit="bytes", note=resolved
                    )
            elif text:
                line = mask_urls(text)
                self.log.write(f"{line}\n")
                self.lines.append(line)
                if found := _RESOLVED.match(line):
                    resolved = f"{found[1]} packages"
                if found := _INSTALLED.match(line):
                    self.packages = int(found[1])
                yield Line(key=self.key, text=line)
        return running.exit_code()

    def last_words(self) -> list[str]:
        return self.lines[-20:]

    def failure(self, environment: str, log: Path) -> DeployFailed:
        """The error for an installer that failed; `log` contains the whole output."""
        output = " ".join(
            line.strip() for line in self.lines if line.startswith(("error:", "  cause:", "  ×", "  ╰─▶"))
        )
        unreachable = any("dns error" in line or "error sending request" in line for line in self.lines)
        remedy = (
            "check that the package registry is reachable (uv's settings and PIP_INDEX_URL apply), or set "
            "LMI_WHEELHOUSE to a folder with the wheels"
            if unreachable
            else "correct the recipe's requirements"
        )
        return DeployFailed(
            f"serving environment {environment}: the installation failed{': ' if output else ''}{output[:300]}",
            hint=f"{remedy}; the whole log is {log}",
            details=self.last_words(),
        )
