"""Images of the user's own, whose server is not DJLServing: run by the container CLI, if this machine has them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from lmi_deploy.domain.deployment_artifact import MARKER
from lmi_deploy.domain.observed_state import ObservedServer
from lmi_deploy.domain.settings_digest import digest, short
from lmi_deploy.emulator.hosting.stand_ins import ContainerServers, ServersByHome
from lmi_deploy.errors import DeployFailed
from lmi_deploy.ports.model_server import Launch

_STARTED = "container.json"
"""The note that runtime `container` keeps in the home of its server."""
_WEIGHTS = "LMI_MODEL_PATH"


@dataclass(frozen=True, slots=True)
class OwnImages(ServersByHome):
    """`djl` for model folders of DJLServing, `containers` for the others.

    `lacking` says why an image cannot be run here; empty if it can.
    """

    djl: ContainerServers
    containers: ContainerServers
    lacking: Callable[[str], str]

    def start(self, launch: Launch) -> ObservedServer:
        """DeployFailed if this machine cannot run the image."""
        if not (launch.model_folder / MARKER).is_file():
            return self.djl.start(launch)
        if why := self.lacking(launch.image):
            raise DeployFailed(
                f"the emulator has no program for the image {launch.image}: {why}",
                hint="build the image on this machine under this name, or add a stand-in (`lmi docs emulator`)",
            )
        weights = launch.environment.get(_WEIGHTS, "")
        outside = weights and not Path(weights).is_relative_to(launch.model_folder)
        # A container has the name of its home: during an update two of one endpoint run beside each other.
        labels = {**launch.labels, "deployment": "emulator", "server": short(digest(str(launch.home)))}
        launch = replace(launch, labels=labels, weights=Path(weights) if outside else None)
        return self.containers.start(launch)

    def _of(self, home: Path) -> ContainerServers:
        return self.containers if (home / _STARTED).exists() else self.djl
