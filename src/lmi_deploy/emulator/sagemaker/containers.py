"""What a container definition names: its image, which SageMaker checks, and the S3 locations of its model."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from lmi_deploy.catalog import images
from lmi_deploy.domain.image_build import ACCEPTED_MANIFEST
from lmi_deploy.emulator.context import EmulatorContext
from lmi_deploy.emulator.record_store import Row
from lmi_deploy.emulator.services.image_registry import image_of, repository_of
from lmi_deploy.emulator.wire.errors import refused

_HTTPS: Final = re.compile(r"https://s3[.-][^/]+/([^/]+)/(.*)")
_S3: Final = re.compile(r"s3://([^/]+)/?(.*)")
MODEL_FOLDER: Final = "/opt/ml/model"
MORE_FOLDER: Final = "/opt/ml/additional-model-data-sources"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSource:
    uri: str
    bucket: str
    key: str
    place: str
    is_folder: bool
    """A prefix: all objects below it are downloaded."""
    is_archive: bool
    """A tar.gz, unpacked at its place."""


def sources_of(container: Mapping[str, Any]) -> Iterator[ModelSource]:
    if "ModelDataUrl" in container:
        yield _source(container["ModelDataUrl"], MODEL_FOLDER, kind="S3Object", compression="Gzip")
    if "ModelDataSource" in container:
        yield _described(container["ModelDataSource"], MODEL_FOLDER)
    for more in container.get("AdditionalModelDataSources") or ():
        yield _described(more, f"{MORE_FOLDER}/{more['ChannelName']}")


def _described(described: Mapping[str, Any], place: str) -> ModelSource:
    found = described.get("S3DataSource")
    if found is None:
        raise refused("S3DataSource is required in a model data source.")
    return _source(found["S3Uri"], place, kind=found["S3DataType"], compression=found["CompressionType"])


def _source(uri: str, place: str, *, kind: str, compression: str) -> ModelSource:
    bucket, key = parts_of(uri)
    return ModelSource(
        uri=uri,
        bucket=bucket,
        key=key,
        place=place,
        is_folder=kind == "S3Prefix",
        is_archive=compression == "Gzip",
    )


def parts_of(uri: str) -> tuple[str, str]:
    """Bucket and key of an s3:// or https:// address."""
    match = _S3.fullmatch(uri) or _HTTPS.fullmatch(uri)
    if match is None:
        raise refused(f'Invalid S3 address "{uri}".')
    return match.group(1), match.group(2)


_ECR: Final = re.compile(
    r"(?P<account>\d{12})\.dkr\.ecr(?:-fips)?\.(?P<region>[a-z0-9-]+)\.(?:amazonaws\.com(?:\.cn)?|[a-z0-9.-]+)"
    r"/(?P<repository>[^:@]+)(?::(?P<tag>[^@]+))?(?P<digest>@sha256:[0-9a-f]{64})?"
)


def require_image(context: EmulatorContext, region: str, image: str) -> None:
    parts = _ECR.fullmatch(image)
    if ".dkr.ecr" not in image:
        raise refused(f'Using non-ECR image "{image}" without Vpc repository access mode is not supported.')
    if parts is None or not (parts["tag"] or parts["digest"]):
        raise refused(f'ECR image "{image}" is invalid.')
    if parts["region"] != region:
        raise refused(
            f'Region of "{image}" does not match expected region of {region}. '
            "Cross region ECR image pulls are not allowed."
        )
    if parts["account"] == context.account:
        _require_pushed(context, region, image, parts)
        return
    if parts["account"] not in images.accounts(region):
        raise refused(
            f"The repository of your image {image} does not grant ecr:GetDownloadUrlForLayer, "
            "ecr:BatchGetImage, ecr:BatchCheckLayerAvailability permission to sagemaker.amazonaws.com "
            "service principal."
        )
    tag, known = parts["tag"], images.tags(parts["repository"])
    is_known = tag in known or any(tag.startswith(f"{one}-v") for one in known if tag)  # `-v1.2` is a rebuild
    if tag and known and not is_known:
        raise refused(f"Requested image {image} not found.")


def _require_pushed(context: EmulatorContext, region: str, image: str, parts: re.Match[str]) -> None:
    """In the words of CreateModel (aws/amazon-sagemaker-feedback#180). Without a registry an image that is named in
    the user's account is taken to exist.
    """
    if not context.has_registry or not parts["tag"]:
        return
    repository = repository_of(context.account, region, parts["repository"])
    found = image_of(repository, parts["tag"]) if repository is not None else None
    if found is None:
        raise refused(f"Requested image {image} not found.")
    if found.image_manifest_media_type != ACCEPTED_MANIFEST:
        raise refused(
            f"Unsupported manifest media type {found.image_manifest_media_type} for image {image}. Ensure that valid "
            "manifest media type is used for specified image."
        )


def containers_of(params: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    if params.get("PrimaryContainer"):
        yield params["PrimaryContainer"]
    yield from params.get("Containers") or ()


def deployed_image(image: str, variant: Row) -> Row:
    """Tags are resolved to a digest; here it is derived from the tag, because no registry is queried."""
    repository = image.split("@")[0].rpartition(":")[0] or image
    digest = hashlib.sha256(image.encode()).hexdigest()
    description: Row = {"SpecifiedImage": image, "ResolvedImage": f"{repository}@sha256:{digest}"}
    if "resolved" in variant:
        description["ResolutionTime"] = variant["resolved"]
    return description
