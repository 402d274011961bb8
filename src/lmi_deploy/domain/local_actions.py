"""The actions of a plan for target local; SageMaker's plans use some of them, too."""

from __future__ import annotations

from dataclasses import dataclass, field

from lmi_deploy.domain.action import ActionBase, Phase, in_brackets
from lmi_deploy.domain.environment_setup import PLAIN, EnvironmentSetup
from lmi_deploy.domain.gathered_facts import FileEntry
from lmi_deploy.domain.inference_http import ProbeSpec
from lmi_deploy.domain.number_text import seconds_text, size_text
from lmi_deploy.domain.settings_digest import ADDED


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallEngine(ActionBase):
    """DJL's Python engine, from Maven Central, into the cache."""

    phase = Phase.STORE
    verb = "install DJL's Python engine"
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildEnvironment(ActionBase):
    """The worker's Python environment, into the cache."""

    phase = Phase.STORE
    environment: str
    packages: tuple[str, ...]
    requirements: str
    setup: EnvironmentSetup = PLAIN

    @property
    def title(self) -> str:
        size = f", about {size_text(self.setup.size)}" if self.setup.size else ""
        return f"build the serving environment {self.environment}{size}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildImage(ActionBase):
    """The user's own image, by the container CLI of this machine, under its name here."""

    phase = Phase.STORE
    image: str
    size: int
    """Bytes of the folder."""

    @property
    def title(self) -> str:
        return f"build the image {self.image} from {size_text(self.size)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchWeights(ActionBase):
    """The chosen files of one commit, into the user's own Hub cache."""

    phase = Phase.STORE
    model_id: str
    commit: str
    files: tuple[FileEntry, ...]
    missing: int
    """Bytes that are not in the cache yet."""
    what: str = field(default="", metadata=ADDED)
    """Of an additional model: its role and its name."""

    @property
    def title(self) -> str:
        what = f"the {self.what}, " * bool(self.what)
        return f"download {what}{self.model_id} at {self.commit[:8]}"

    @property
    def subject(self) -> str:
        return f"{self.model_id} ({self.what})" if self.what else self.model_id


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileModel(ActionBase):
    """The recipe's script, once; its result goes into the cache."""

    phase = Phase.STORE
    starts_code = True
    result: str
    """The identity of the compile."""
    environment: str
    timeout: int
    """Seconds."""

    @property
    def title(self) -> str:
        return f"run the compile script on this machine, at most {seconds_text(self.timeout)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PutArtifact(ActionBase):
    phase = Phase.STORE
    starts_code = True
    artifact: str
    files: tuple[str, ...]
    variant: str = field(default="", metadata=ADDED)
    """Of a deployment with a candidate: the version that it is of, or both."""
    digest: str = field(default="", metadata=ADDED)
    """Of its files, if `artifact` is another name."""

    @property
    def title(self) -> str:
        folder, _, stored = self.artifact.rpartition("/")
        what = f"the {folder} artifact" if folder else "the artifact"
        return f"write {what} {(self.digest or stored)[:10]}{in_brackets(self.variant)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StartServer(ActionBase):
    """A model server for one generation: at the address itself, or beside the current server at that address."""

    phase = Phase.START
    binding = True
    starts_code = True
    server: str
    artifact: str
    environment: str
    engine: str
    """Version of DJL's Python engine."""
    runtime: str
    host: str
    port: int
    """0: any free one, until the deployment's address is taken over."""

    @property
    def title(self) -> str:
        return f"start the model server {self.server} ({self.runtime})"


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitReady(ActionBase):
    phase = Phase.WAIT
    server: str
    timeout: int

    @property
    def title(self) -> str:
        return f"wait until {self.server} has loaded the model"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeServer(ActionBase):
    phase = Phase.PROBE
    verb = "send a probe to"
    server: str
    probe: ProbeSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeAddress(ActionBase):
    """The server accepts on the deployment's address from now on, and `previous` no longer."""

    phase = Phase.SWITCH
    binding = True
    server: str
    host: str
    port: int
    previous: str
    loads_again: bool = False
    """No listening socket can be handed over: `previous` stops, then `server` starts again, at the address."""

    @property
    def title(self) -> str:
        reload = " (requests are refused while the model loads again)" * self.loads_again
        return f"switch the address {self.host}:{self.port} to the new server{reload}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StopServer(ActionBase):
    phase = Phase.STOP
    verb = "stop the model server"
    binding = True
    server: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveArtifact(ActionBase):
    phase = Phase.CLEANUP
    artifact: str
    digest: str = field(default="", metadata=ADDED)
    """Of its files, if `artifact` is another name and a record has it."""

    @property
    def title(self) -> str:
        return f"remove the artifact {(self.digest or self.artifact)[:10]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveDeployment(ActionBase):
    """The record, the lock and the folder of a deployment: the last of it."""

    phase = Phase.CLEANUP
    verb = "remove the record of"
    name: str


LocalAction = (
    InstallEngine
    | BuildEnvironment
    | BuildImage
    | FetchWeights
    | CompileModel
    | PutArtifact
    | StartServer
    | AwaitReady
    | ProbeServer
    | TakeAddress
    | StopServer
    | RemoveArtifact
    | RemoveDeployment
)
"""The last three, BuildImage and PutArtifact are SageMaker's too."""
