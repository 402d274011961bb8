"""The actions on the image that lmi builds, in the account's registry (ECR)."""

from __future__ import annotations

from dataclasses import dataclass

from lmi_deploy.domain.action import ActionBase, Phase


@dataclass(frozen=True, slots=True, kw_only=True)
class MakeRepository(ActionBase):
    """In ECR, tagged as lmi's own; an image in it cannot be replaced by another one of its tag."""

    phase = Phase.STORE
    verb = "create the repository"
    repository: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PushImage(ActionBase):
    phase = Phase.STORE
    verb = "push the image"
    image: str
    """Its address in ECR."""
    local: str
    """Its name on this machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteImage(ActionBase):
    """One that lmi built, and that no kept generation uses."""

    phase = Phase.CLEANUP
    verb = "delete the image"
    image: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRepository(ActionBase):
    """With the images that lmi built; only with `down --purge`."""

    phase = Phase.CLEANUP
    verb = "delete the image repository"
    binding = True
    repository: str
