"""The actions that take over what another tool made: tag it, and end what scales it."""

from __future__ import annotations

from dataclasses import dataclass

from lmi_deploy.domain.action import ActionBase, Phase
from lmi_deploy.domain.recipe_keys import Pairs
from lmi_deploy.domain.sagemaker.resource_settings import ResourceKind


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptResource(ActionBase):
    """Tag a model, an endpoint config or an endpoint as lmi's. From then on `down` deletes it."""

    phase = Phase.CONFIGURE
    binding = True
    resource: str
    of: ResourceKind
    arn: str
    tags: Pairs

    @property
    def title(self) -> str:
        return f"tag the {self.of.replace('-', ' ')} {self.resource} as lmi's"

    @property
    def key(self) -> str:
        """A model and a config may have the same name."""
        return f"{self.kind}:{self.of}/{self.resource}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveForeignScaling(ActionBase):
    """Of a variant that another tool made: SageMaker removes no variant that is a scalable target."""

    phase = Phase.CONFIGURE
    endpoint: str
    variant: str

    @property
    def title(self) -> str:
        return f"stop the automatic scaling of {self.endpoint}'s variant {self.variant}, if there is any"
