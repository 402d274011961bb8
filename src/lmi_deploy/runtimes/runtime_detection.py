"""Which runtimes this machine has: read when a plan is made, never changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from lmi_deploy.domain.gathered_facts import AvailableRuntimes
from lmi_deploy.errors import DeployFailed
from lmi_deploy.ports.processes import Processes
from lmi_deploy.runtimes.container.container_cli import ContainerCli, find_engine
from lmi_deploy.runtimes.djl_serving import find_installation
from lmi_deploy.runtimes.triton.runtime import unsupported_machine


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeDetector:
    """`environment` is passed to container CLIs; `devices` counts the accelerators."""

    processes: Processes
    environ: Mapping[str, str]
    environment: Mapping[str, str]
    devices: Callable[[], int]

    def at_hand(self, image: str | None) -> AvailableRuntimes:
        """Best first: the image that the recipe names, an installed DJLServing, our own server, which is always, and
        Triton, whose server is a package.
        """
        lacking = {"container": self._no_container(image)}
        installed = find_installation(self.environ)
        lacking["djl-serving"] = installed if isinstance(installed, str) else ""
        lacking["triton"] = unsupported_machine()
        able = (name for name in ("container", "djl-serving") if not lacking[name])
        return AvailableRuntimes(
            names=(*able, "embedded", *(() if lacking["triton"] else ("triton",))),
            lacking={name: why for name, why in lacking.items() if why},
        )

    def _no_container(self, image: str | None) -> str:
        # Without a named image no container CLI is queried: that may take a second.
        if not image:
            return "no image is named (container.image)"
        engine = find_engine(self.environ)
        if isinstance(engine, str):
            return engine
        cli = ContainerCli(processes=self.processes, engine=engine, environment=self.environment)
        try:
            return cli.lacking(image, devices=self.devices())
        except DeployFailed as unasked:
            return unasked.message
