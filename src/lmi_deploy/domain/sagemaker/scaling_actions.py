"""How many instances an endpoint has, or copies a model on a shared one: the actions that change it, once or with the
load.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from lmi_deploy.domain.action import ActionBase, Phase
from lmi_deploy.domain.number_text import counted
from lmi_deploy.domain.sagemaker.scaling_settings import ScalableKind, Scaling
from lmi_deploy.domain.settings_digest import ADDED


@dataclass(frozen=True, slots=True, kw_only=True)
class CountChange:
    """What `lmi scale` changes: the number of instances of this type, or of copies on them."""

    types: tuple[str, ...]
    """The instance type, or those of its pools by priority; empty if it is unknown."""
    before: int
    after: int
    recorded: int
    """As the last `lmi up` set it."""
    scaling: Scaling | None
    """What may change it again."""
    of: ScalableKind = "variant"
    shared: str = ""
    """The endpoint whose instances the copies are on; empty for instances."""
    candidate: tuple[str, int] | None = None
    """The type and number of the candidate's instances, which stay; the type is empty if it is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetInstanceCount(ActionBase):
    """Set the number of instances, and wait until so many serve."""

    phase = Phase.CONFIGURE
    binding = True
    endpoint: str
    count: int
    timeout: int
    """Seconds."""

    @property
    def title(self) -> str:
        return f"set {self.endpoint} to {counted(self.count, 'instance')}, and wait for it"


@dataclass(frozen=True, slots=True, kw_only=True)
class SetScaling(ActionBase):
    phase = Phase.CONFIGURE
    binding = True
    endpoint: str
    """Or an inference component."""
    scaling: Scaling
    of: ScalableKind = field(default="variant", metadata=ADDED)

    @property
    def title(self) -> str:
        units = "copies" if self.of == "component" else "instances"
        return f"scale {self.endpoint} from {self.scaling.least} to {self.scaling.most} {units}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveScaling(ActionBase):
    phase = Phase.CONFIGURE
    verb = "stop scaling"
    endpoint: str
    """Or an inference component."""
    of: ScalableKind = field(default="variant", metadata=ADDED)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetTraffic(ActionBase):
    """Set the share of the requests that the candidate answers, and wait until it has it."""

    phase = Phase.CONFIGURE
    binding = True
    endpoint: str
    percent: int
    timeout: int
    """Seconds."""

    @property
    def title(self) -> str:
        return (
            f"let the candidate of {self.endpoint} answer {self.percent} % of the requests, and wait for it"
        )


ScalingAction = SetInstanceCount | SetTraffic | SetScaling | RemoveScaling
