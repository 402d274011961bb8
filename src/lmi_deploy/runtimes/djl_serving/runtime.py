"""Runtime `djl-serving`: an installed DJLServing, with a separate configuration, temporary folder and log."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from lmi_deploy.errors import DeployFailed
from lmi_deploy.ports.model_server import Launch
from lmi_deploy.runtimes.djl_serving.installation import DjlInstallation, settings_file, variables
from lmi_deploy.runtimes.program_server import ListeningAddress, ProgramCommand
from lmi_deploy.runtimes.server_dirs import run_folder
from lmi_deploy.runtimes.server_health import Health, health


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
