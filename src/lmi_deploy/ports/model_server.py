"""A program on this machine that serves a model folder: the embedded one, an installed DJLServing, a container."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from lmi_deploy.domain.observed_state import ObservedServer
from lmi_deploy.ports.processes import Report


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """All that a server is started with. `home` is its own folder: log, notes about the process."""

    model_folder: Path
    home: Path
    python: Path
    engine: Path
    host: str
    port: int
    """0: any free one."""
    environment: Mapping[str, str]
    """Variables; they replace those of the user's own environment."""
    labels: Mapping[str, str]
    defaults: Mapping[str, str] = field(default_factory=dict)
    """Variables that the user's own environment replaces (a container has none of it, and gets none of these)."""
    image: str = ""
    """Of a container; the emulator chooses the program by it. Other runtimes have none."""
    weights: Path | None = None
    """The folder outside of `model_folder` that `option.model_id` names; None if there is none."""
    draft: Path | None = None
    """The folder of the draft model, outside of `model_folder`; None if there is none."""
    devices: int = 0
    """Accelerators of this machine that the server is to have."""
    model_name: str = "model"
    """The name for clients; the model in /opt/ml/model has this name. Empty: the name of its folder, as in
    DJLServing.
    """
    settings: Path | None = None
    """A config.properties of the user's."""
    log_format: str = "lmi"
    """`djl`: lines as DJLServing writes them (embedded only; the others ignore it)."""
    managed_by_clients: bool = False
    """Whether clients may register and remove models over HTTP (embedded only; the others ignore it)."""


class ModelServer(Protocol):
    def start(self, launch: Launch) -> ObservedServer:
        """Start the program and return immediately; it outlives this process."""

    def status(self, home: Path) -> ObservedServer:
        """The status of the server that was started with this home."""

    def take_over(self, home: Path, previous: Path, *, host: str, port: int) -> None:
        """Accept at `host:port` from now on, without a refused request; the previous server drains and exits.

        DeployFailed, and nothing changed, if that is impossible: a plan that knows this (`loads_again`) does not try.
        """

    def stop(self, home: Path, *, grace: float) -> None:
        """End the server, its workers and its sockets; `grace` seconds for requests in flight."""

    def failure(self, home: Path) -> str:
        """Why it did not start, with the worker's own last lines; empty if it gave no reason."""

    def foreground(self, launch: Launch, *, report: Report | None = None) -> int:
        """Serve until it exits or is interrupted; returns its exit code. Its log goes to this terminal, or line by
        line to `report`. `home` is cleaned up.
        """

    def log(self, home: Path) -> Path:
        """The file of its output."""
