"""The actions of a model on a shared endpoint: each concrete, the first field names its object."""

from __future__ import annotations

from dataclasses import dataclass, field

from lmi_deploy.domain.action import ActionBase, Phase
from lmi_deploy.domain.number_text import counted
from lmi_deploy.domain.recipe_keys import Pairs
from lmi_deploy.domain.sagemaker.adapter_actions import AdapterAction
from lmi_deploy.domain.sagemaker.component_settings import ComponentSettings
from lmi_deploy.domain.sagemaker.resource_settings import EndpointConfigSettings
from lmi_deploy.domain.settings_digest import ADDED


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateSharedEndpoint(ActionBase):
    """The endpoint and its config, and the wait until it is in service: before that it takes no model. From here on it
    costs money. Another deployment may create the same one at the same time.
    """

    phase = Phase.START
    binding = True
    endpoint: str
    config: str
    settings: EndpointConfigSettings
    tags: Pairs
    """The user's own; ours are added."""
    timeout: int
    """Seconds."""

    @property
    def title(self) -> str:
        instances = f"{self.settings.count} x {self.settings.instance}"
        return f"create the shared endpoint {self.endpoint} ({instances}), and wait until it is in service"


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateInferenceComponent(ActionBase):
    phase = Phase.START
    binding = True
    component: str
    settings: ComponentSettings
    tags: Pairs
    """The user's own; ours are added."""

    @property
    def title(self) -> str:
        place = self.settings.place
        return f"add the model {self.component} to the shared endpoint {place.endpoint} ({_copies(self.settings)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateInferenceComponent(ActionBase):
    """The other models of the endpoint are not touched."""

    phase = Phase.START
    binding = True
    component: str
    settings: ComponentSettings
    least: int = field(default=0, metadata=ADDED)
    """While autoscaling sets the number of copies, it stays, within `least` and `most`, but never none: the probe needs
    one.
    """
    most: int = field(default=0, metadata=ADDED)
    """0: the number of `settings`."""

    def settings_at(self, copies: int) -> ComponentSettings:
        """With so many that are requested now."""
        return (
            self.settings.with_copies(max(1, self.least, min(copies, self.most)))
            if self.most
            else self.settings
        )

    @property
    def title(self) -> str:
        place = self.settings.place
        copies = f"its copies of {place.words}" if self.most else _copies(self.settings)
        return f"update the model {self.component} on {place.endpoint} alone ({copies})"


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitInferenceComponent(ActionBase):
    """InService with exactly these settings."""

    phase = Phase.WAIT
    component: str
    config: str
    """The name of the generation."""
    timeout: int
    """Seconds."""
    copies: int = field(default=0, metadata=ADDED)
    """Of the generation, where any number may serve, because autoscaling sets it; 0: exactly its own number."""

    @property
    def title(self) -> str:
        return f"wait until the model {self.component} is in service"


@dataclass(frozen=True, slots=True, kw_only=True)
class SetCopyCount(ActionBase):
    """Set the number of copies, and wait until so many serve. SageMaker starts or stops only the difference."""

    phase = Phase.CONFIGURE
    binding = True
    component: str
    copies: int
    timeout: int
    """Seconds."""

    @property
    def title(self) -> str:
        return f"set {self.component} to {counted(self.copies, 'copy', 'copies')}, and wait for it"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteInferenceComponent(ActionBase):
    """Delete it and wait until it is gone."""

    phase = Phase.STOP
    binding = True
    component: str

    @property
    def title(self) -> str:
        return f"remove the model {self.component} from its shared endpoint, and wait until it is gone"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteSharedEndpoint(ActionBase):
    """With its configs, if no model is on it any more. From then on it costs nothing."""

    phase = Phase.STOP
    binding = True
    endpoint: str
    configs: tuple[str, ...]

    @property
    def title(self) -> str:
        return (
            f"delete the shared endpoint {self.endpoint} if no model is left on it, and wait until it is gone"
        )


def _copies(settings: ComponentSettings) -> str:
    count = settings.place.copies
    return f"{count} cop{'ies' if count > 1 else 'y'} of {settings.place.words}"


ComponentAction = (
    CreateSharedEndpoint
    | CreateInferenceComponent
    | UpdateInferenceComponent
    | AwaitInferenceComponent
    | SetCopyCount
    | DeleteInferenceComponent
    | DeleteSharedEndpoint
    | AdapterAction
)
