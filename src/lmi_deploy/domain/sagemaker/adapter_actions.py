"""The actions of LoRA adapters on a shared endpoint: each is an inference component of its own, and changes alone.

They wait until they are done: a server loads an adapter in seconds.
"""

from __future__ import annotations

from dataclasses import dataclass

from lmi_deploy.domain.action import ActionBase, Phase
from lmi_deploy.domain.recipe_keys import Pairs


@dataclass(frozen=True, slots=True, kw_only=True)
class PackAdapter(ActionBase):
    """The stored files of an adapter as one tar.gz, in the bucket: an adapter component takes no folder."""

    phase = Phase.STORE
    artifact: str
    adapter: str
    """Its name in requests."""
    weights: str
    """Its name in the bucket."""

    @property
    def title(self) -> str:
        return f"pack the adapter {self.adapter} as the artifact {self.artifact[:10]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateAdapterComponent(ActionBase):
    phase = Phase.START
    binding = True
    component: str
    base: str
    endpoint: str
    artifact: str
    """The s3:// address of its tar.gz."""
    tags: Pairs

    @property
    def title(self) -> str:
        return f"add the adapter {self.component} to the model {self.base}, and wait until it is in service"


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateAdapterComponent(ActionBase):
    """Neither its model nor another adapter is touched."""

    phase = Phase.START
    binding = True
    component: str
    base: str
    artifact: str

    @property
    def title(self) -> str:
        return f"update the adapter {self.component} of {self.base} alone, and wait until it is in service"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteAdapterComponent(ActionBase):
    """SageMaker deletes no model that still has adapters."""

    phase = Phase.STOP
    binding = True
    component: str

    @property
    def title(self) -> str:
        return f"remove the adapter {self.component}, and wait until it is gone"


AdapterAction = PackAdapter | CreateAdapterComponent | UpdateAdapterComponent | DeleteAdapterComponent
