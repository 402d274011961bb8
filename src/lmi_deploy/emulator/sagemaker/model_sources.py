"""The S3 locations that a container definition names, and the path of each in the container."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from lmi_deploy.emulator.wire.errors import refused

_HTTPS: Final = re.compile(r"https://s3[.-][^/]+/([^/]+)/(.*)")
_S3: Final = re.compile(r"s3://([^/]+)/?(.*)")
MODEL_FOLDER: Final = "/opt/ml/model"
MORE_FOLDER: Final = "/opt/ml/additional-model-data-sources"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    uri: str
    bucket: str
    key: str
    place: str
    is_folder: bool
    """A prefix: all objects below it are downloaded."""
    is_archive: bool
    """A tar.gz, unpacked at its place."""


def sources_of(container: Mapping[str, Any]) -> Iterator[Source]:
    if "ModelDataUrl" in container:
        yield _source(container["ModelDataUrl"], MODEL_FOLDER, kind="S3Object", compression="Gzip")
    if "ModelDataSource" in container:
        yield _described(container["ModelDataSource"], MODEL_FOLDER)
    for more in container.get("AdditionalModelDataSources") or ():
        yield _described(more, f"{MORE_FOLDER}/{more['ChannelName']}")


def _described(described: Mapping[str, Any], place: str) -> Source:
    found = described.get("S3DataSource")
    if found is None:
        raise refused("S3DataSource is required in a model data source.")
    return _source(found["S3Uri"], place, kind=found["S3DataType"], compression=found["CompressionType"])


def _source(uri: str, place: str, *, kind: str, compression: str) -> Source:
    bucket, key = parts_of(uri)
    return Source(
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
