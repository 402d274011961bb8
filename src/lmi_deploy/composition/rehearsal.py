"""The part of the composition root that opens the private place of a rehearsal."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import sys
import tempfile
import urllib.request
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lmi_deploy.errors import EXTRAS, DeployFailed, Interrupted, LmiError, NotInstalled

if TYPE_CHECKING:
    from lmi_deploy.aws.rehearsal_account import RehearsalAccount
    from lmi_deploy.domain.deployment_artifact import Artifact
    from lmi_deploy.domain.deployment_spec import Spec
    from lmi_deploy.domain.gathered_facts import ModelListing
    from lmi_deploy.domain.rehearsal_report import StandInModel
    from lmi_deploy.ports.hub import Hub
    from lmi_deploy.ports.message_callback import Notify
    from lmi_deploy.ports.processes import Process, Processes, Release
    from lmi_deploy.workflows.dependencies import Dependencies

SPEED: Final = 600
"""Emulated seconds in a real one, while something waits."""
KEPT: Final = 8 * 3600
"""Seconds after which a kept emulator ends, so that a forgotten one does not run for ever."""
_START_TIMEOUT: Final = 60.0
_GRACE: Final = 20.0
_STATE: Final = "LMI_STATE_HOME"


@dataclass(slots=True)
class PrivateSite:
    """A `RehearsalSite`. `environ` is this process's own environment: boto3 reads it, so it is changed here, and
    restored by `rehearsal_site`.
    """

    folder: Path
    environ: MutableMapping[str, str]
    mark: str
    is_kept: bool
    processes: Processes
    wait: Callable[[float], None]
    emulator: Process | None = None
    _root: dict[str, str] = field(default_factory=dict)
    _account: RehearsalAccount | None = None

    def write_model(
        self, listing: ModelListing, model: StandInModel, copied: Mapping[str, Path]
    ) -> tuple[Hub, ModelListing]:
        from lmi_deploy.sources.stand_in_folder import StandInSource, write_stand_in

        folder = self.folder / "model"
        write_stand_in(folder, model, copied)
        source = StandInSource(folder)
        return source, source.stand_in_listing(listing)

    def compiled_source(self, folder: Path) -> Hub:
        from lmi_deploy.sources.stand_in_folder import StandInSource

        return StandInSource(folder)

    def start_emulator(self, python: Path, region: str) -> None:
        for package, extra in EXTRAS.items():
            if extra in ("emulator", "local") and find_spec(package) is None:
                raise NotInstalled(package, extra="emulator")
        log = self.folder / "emulator.log"
        argv = [sys.executable, "-m", "lmi_deploy.emulator", "--port", "0", "--python", str(python)]
        argv += ["--speed", str(SPEED), "--enforce-iam", "--json"]
        limit = ("--stop-after", str(KEPT)) if self.is_kept else ("--parent-pid", str(os.getpid()))
        argv += limit
        environment = {key: value for key, value in self.environ.items() if not key.startswith("AWS_")}
        self.emulator = self.processes.start(
            argv, log=log, cwd=self.folder, environment={**environment, self.mark: "1"}
        )
        self._root = self._listening(log)
        for key in [key for key in self.environ if key.startswith("AWS_")]:
            del self.environ[key]
        nothing = str(self.folder / "no-such-file")
        self.environ.update({**self._root, "AWS_REGION": region, "AWS_DEFAULT_REGION": region})
        self.environ.update({"AWS_CONFIG_FILE": nothing, "AWS_SHARED_CREDENTIALS_FILE": nothing})
        self.environ["AWS_EC2_METADATA_DISABLED"] = "true"

    def grant(self, spec: Spec) -> bool:
        if self.emulator is None:
            return False
        from lmi_deploy.aws.rehearsal_account import RehearsalAccount
        from lmi_deploy.composition.weights import session_at
        from lmi_deploy.domain.default_bucket import default_bucket
        from lmi_deploy.targets.sagemaker.permissions import policies

        place, granted = spec.cloud, policies(spec)
        self._account = account = RehearsalAccount(session_at(place.region, self.environ))
        account.create_role(place.role, granted.trust, granted.execution.document)
        if place.bucket != default_bucket(place.account, place.region):
            account.create_bucket(place.bucket)
        ident, secret = account.create_user(granted.deployer.document)
        self.environ.update({"AWS_ACCESS_KEY_ID": ident, "AWS_SECRET_ACCESS_KEY": secret.value})
        return True

    def artifact_differences(self, spec: Spec, artifact: Artifact) -> tuple[str, ...]:
        if self._account is None:
            return ()
        from lmi_deploy.domain.sagemaker.s3_layout import (
            artifact_id,
            artifact_prefix,
            draft_location,
            weights_placeholder_value,
        )

        prefix = artifact_prefix(spec.name, artifact_id(spec, artifact))
        files = artifact.filled(weights_placeholder_value(spec), draft=draft_location(spec))
        stored = self._account.read_objects(spec.cloud.bucket, [prefix + file.path for file in files])
        return tuple(file.path for file in files if stored.get(prefix + file.path) != file.content)

    def emulated_seconds(self) -> float:
        if not self._root:
            return 0.0
        pair = f"{self._root['AWS_ACCESS_KEY_ID']}:{self._root['AWS_SECRET_ACCESS_KEY']}"
        headers = {"Authorization": f"Basic {b64encode(pair.encode()).decode()}"}
        request = urllib.request.Request(f"{self._root['AWS_ENDPOINT_URL']}/_clock", headers=headers)
        with urllib.request.urlopen(request, timeout=_START_TIMEOUT) as response:
            return float(json.load(response)["now"])

    @property
    def emulator_pid(self) -> int:
        """The number of its process; 0 without one."""
        return self.emulator.pid if self.emulator is not None else 0

    def variables(self) -> Mapping[str, str]:
        names = (_STATE, "AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION")
        return {name: self.environ[name] for name in names if name in self.environ}

    def close(self) -> None:
        if self.emulator is not None:
            self.processes.end(self.emulator, grace=_GRACE)

    def _listening(self, log: Path) -> dict[str, str]:
        """The variables that the emulator prints once it listens; DeployFailed, with its last lines, otherwise."""
        waited, step = 0.0, 0.05
        while waited < _START_TIMEOUT:
            lines = log.read_text("utf-8", "replace").splitlines() if log.exists() else []
            for line in lines:
                if line.startswith('{"event": "listening"'):
                    found: dict[str, str] = json.loads(line)["environment"]
                    return found
            assert self.emulator is not None
            if not self.processes.alive(self.emulator):
                break
            self.wait(step)
            waited += step
        raise DeployFailed(
            "the emulator did not start",
            hint="run `lmi emulator` to see why",
            details=log.read_text("utf-8", "replace").splitlines()[-10:],
        )


@contextmanager
def rehearsal_site(
    *, keep: bool, notify: Notify
) -> Iterator[tuple[PrivateSite, Dependencies, Callable[[], Dependencies]]]:
    """The site, the user's own Dependencies, and those of the site, which are opened again after each change.

    Everything ends with it, and after a kill of this process. With `keep` it stays, unless Ctrl-C or a kill comes
    first; the emulator then ends after KEPT.
    """
    from lmi_deploy.composition.local import wire
    from lmi_deploy.host.background_processes import LocalProcesses
    from lmi_deploy.host.clock import SystemClock
    from lmi_deploy.host.processes import end_marked

    clock, before = SystemClock(), dict(os.environ)
    user = wire(before, notify=notify)
    processes, mark = LocalProcesses(clock), f"LMI_REHEARSAL_{secrets.token_hex(8)}"
    folder = Path(tempfile.mkdtemp(prefix="lmi-rehearsal-"))
    os.environ.update({_STATE: str(folder / "state"), mark: "1"})
    site = PrivateSite(folder, os.environ, mark, keep, processes, clock.sleep)
    with ExitStack() as ends:
        ends.callback(_restore, before)
        release = ends.enter_context(processes.cleanup_on_exit(mark, folders=(folder,)))
        if not keep:
            ends.callback(shutil.rmtree, folder, ignore_errors=True)
            ends.callback(site.close)
        try:
            yield site, user, lambda: wire(os.environ, notify=notify)
        except (KeyboardInterrupt, Interrupted):
            site.close()
            end_marked(mark, clock)
            shutil.rmtree(folder, ignore_errors=True)
            raise
        except LmiError as error:
            _keep(folder, release if keep else None, error)
            raise
        _keep(folder, release if keep else None)


def _keep(folder: Path, release: Release | None, error: LmiError | None = None) -> None:
    if release is None:
        return
    release()
    if error is not None:
        error.hint = "; ".join(filter(None, (error.hint, f"everything is kept in {folder}")))


def _restore(before: Mapping[str, str]) -> None:
    os.environ.clear()
    os.environ.update(before)
