"""The image that lmi builds: on this machine, then in the deployment's repository in ECR."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.events import Event
from lmi_deploy.domain.image_build import ACCEPTED_MANIFEST, repository_name, tag_of
from lmi_deploy.domain.local_actions import BuildImage
from lmi_deploy.domain.sagemaker.image_actions import DeleteImage, DeleteRepository, MakeRepository, PushImage
from lmi_deploy.domain.sagemaker.resource_settings import TAG
from lmi_deploy.errors import DeployFailed
from lmi_deploy.ports.image_builder import ImageBuilder
from lmi_deploy.ports.image_registry import ImageRegistry
from lmi_deploy.targets.sagemaker.plan.image_actions import has_image, require_own_repository
from lmi_deploy.targets.target import Outcome

Steps = Generator[Event, None, Outcome]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagePublisher:
    spec: Spec
    registry: ImageRegistry
    builder: ImageBuilder

    def build(self, action: BuildImage) -> Steps:
        build = self.spec.cloud.build
        assert build is not None
        return (yield from self.builder.build(build, action.image, key=action.key))

    def create(self, action: MakeRepository) -> Steps:
        yield from ()
        tags = {**dict(self.spec.cloud.tags), TAG: self.spec.name}
        self.registry.create(action.repository, tuple(sorted(tags.items())))
        return "made"

    def push(self, action: PushImage) -> Steps:
        """What an earlier attempt pushed is not pushed again; the result is read back from ECR."""
        name, tag = repository_name(self.spec.name), tag_of(action.image)
        repository = self.registry.repository(name)
        require_own_repository(self.spec.name, repository)
        if has_image(repository, action.image):
            return "there already"
        if repository is not None and tag in repository.images:
            self.registry.delete_image(name, tag)
        outcome = yield from self.builder.push(
            action.local, f"{name}:{tag}", self.registry.login(), key=action.key
        )
        self._verify(name, tag)
        return outcome

    def _verify(self, name: str, tag: str) -> None:
        repository = self.registry.repository(name)
        found = repository.images.get(tag) if repository else None
        if found is None:
            raise DeployFailed(
                f"{name}:{tag}: ECR does not have the image after the push", hint="run the same command again"
            )
        if found != ACCEPTED_MANIFEST:
            self.registry.delete_image(name, tag)
            raise DeployFailed(
                f"{name}:{tag}: its manifest is {found}; SageMaker accepts only {ACCEPTED_MANIFEST}. lmi deleted the "
                "image",
                hint="build with docker and BuildKit 0.10 or newer, or with podman (LMI_CONTAINER_ENGINE=podman)",
            )


def delete_image(registry: ImageRegistry, deployment: str, action: DeleteImage) -> Steps:
    yield from ()
    registry.delete_image(repository_name(deployment), tag_of(action.image))
    return "deleted"


def delete_repository(registry: ImageRegistry, deployment: str, action: DeleteRepository) -> Steps:
    """Refused if it is no longer lmi's own."""
    yield from ()
    repository = registry.repository(action.repository)
    require_own_repository(deployment, repository)
    registry.delete_repository(action.repository)
    return "deleted" if repository else "there is none"
