"""An image of the user's own that lmi builds from a folder (`container.build`): its parts, its name, its repository."""

from __future__ import annotations

from dataclasses import dataclass

from lmi_deploy.domain.settings_digest import digest, digest_tag, short

DOCKERFILE = "Dockerfile"
_LOCAL = "localhost/"
"""The registry of images that were never pushed: podman gives it to them, and docker and finch accept it."""
_OWN = "lmi/"
_TAG_LENGTH = 16
SCHEME = 1
"""Of the digest below: a change of what it covers builds every image again."""
ACCEPTED_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
"""CreateModel refuses every other one: "Unsupported manifest media type application/vnd.oci.image.manifest.v1+json"
(aws/amazon-sagemaker-feedback#180), and indexes (moby/buildkit#5480)."""


@digest_tag("BuildContext")
@dataclass(frozen=True, slots=True, kw_only=True)
class BuildContext:
    """The folder that an image is built from, without what .dockerignore names."""

    folder: str
    """Absolute path on this machine."""
    digest: str
    """sha256 over paths, contents, executable bits and links."""
    files: int
    size: int
    """Bytes."""


@digest_tag("ImageBuild")
@dataclass(frozen=True, slots=True, kw_only=True)
class ImageBuild:
    context: BuildContext
    dockerfile: str
    """Relative to the folder."""
    arguments: tuple[tuple[str, str], ...]
    platform: str
    """`linux/amd64`; empty: this machine's own."""

    @property
    def tag(self) -> str:
        """The same folder, Dockerfile, arguments and platform have the same tag."""
        arguments = sorted(map(list, self.arguments))
        parts = [SCHEME, self.context.digest, self.dockerfile, arguments, self.platform]
        return short(digest(parts), _TAG_LENGTH)


def repository_name(deployment: str) -> str:
    """In ECR: one repository a deployment, so that its policy names no other."""
    return f"{_OWN}{deployment}"


def local_image(deployment: str, tag: str) -> str:
    """Its name on the machine that builds it."""
    return f"{_LOCAL}{repository_name(deployment)}:{tag}"


def is_local_image(image: str) -> bool:
    """Whether lmi builds it here when it is missing."""
    return image.startswith(f"{_LOCAL}{_OWN}")


def tag_of(image: str) -> str:
    return image.rpartition(":")[2]


def own_repository(image: str, deployment: str) -> str:
    """The repository, if the image is in that of the deployment in ECR; else empty."""
    _, _, path = image.partition("/")
    name = repository_name(deployment)
    return name if ".dkr.ecr" in image and path.partition(":")[0] == name else ""
