"""Target sagemaker: the image that lmi builds, and the deployment's repository in ECR."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.image_build import (
    ACCEPTED_MANIFEST,
    local_image,
    own_repository,
    repository_name,
    tag_of,
)
from lmi_deploy.domain.local_actions import BuildImage
from lmi_deploy.domain.number_text import counted, size_text
from lmi_deploy.domain.observed_state import CloudInventory, CloudObserved, Repository
from lmi_deploy.domain.plan import Action
from lmi_deploy.domain.recipe_keys import Pairs
from lmi_deploy.domain.sagemaker.image_actions import DeleteImage, MakeRepository, PushImage
from lmi_deploy.domain.sagemaker.resource_settings import TAG
from lmi_deploy.errors import Refused


def image_actions(spec: Spec, inventory: CloudInventory) -> Iterator[Action]:
    """Refused if a repository of that name exists that lmi did not create."""
    place, repository = spec.cloud, inventory.repository
    if place.build is None:
        return
    require_own_repository(spec.name, repository)
    if has_image(repository, place.image):
        return
    local = local_image(spec.name, tag_of(place.image))
    if not inventory.image_built:
        yield BuildImage(image=local, size=place.build.context.size)
    if repository is None:
        yield MakeRepository(repository=repository_name(spec.name))
    yield PushImage(image=place.image, local=local)


def require_own_repository(deployment: str, repository: Repository | None) -> None:
    if repository is not None and repository.tags.get(TAG) != deployment:
        raise Refused(
            f"ECR has a repository {repository_name(deployment)} without the tag {TAG}={deployment}: lmi did not "
            "create it, and pushes nothing into it",
            hint="choose another name in the recipe, or push the image yourself and name it in container.image",
        )


def has_image(repository: Repository | None, image: str) -> bool:
    """Whether it is there whole, in the form that SageMaker accepts: its manifest is pushed last."""
    return repository is not None and repository.images.get(tag_of(image)) == ACCEPTED_MANIFEST


def delete_unused_images(
    spec: Spec, kept: Collection[str], repository: Repository | None
) -> Iterator[DeleteImage]:
    """`kept` are the images of the generations that `rollback` may start again."""
    if spec.cloud.build is None or repository is None:
        return
    address = spec.cloud.image.rpartition(":")[0]
    for tag in sorted(repository.images):
        image = f"{address}:{tag}"
        if image != spec.cloud.image and image not in kept:
            yield DeleteImage(image=image)


def used_repository(observed: CloudObserved) -> str:
    """The deployment's own repository, if its record says that lmi created it; else empty."""
    record, name = observed.record, observed.ref.name
    if record is None:
        return ""
    images = (generation.serving.cloud.image for generation in record.known)
    is_used = any(own_repository(image, name) for image in images)
    return repository_name(name) if is_used or any(record.started(MakeRepository, PushImage)) else ""


def image_figures(spec: Spec, inventory: CloudInventory) -> Pairs:
    """What the plan says of an image that lmi builds."""
    build = spec.cloud.build
    if build is None:
        return ()
    if has_image(inventory.repository, spec.cloud.image):
        return (("image build", "already in ECR"),)
    context = f"{counted(build.context.files, 'file')}, {size_text(build.context.size)}"
    if inventory.image_built:
        return (("image build", "already built on this machine; it will be pushed"),)
    return (("image build", f"built for {build.platform} from {context}, and pushed"),)
