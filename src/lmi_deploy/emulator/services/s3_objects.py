"""The objects of S3, for the services that read and write them: in moto's buckets, or on an outside S3 server."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, BinaryIO, Protocol, cast

from lmi_deploy.emulator.context import Credentials

_CHUNK = 1 << 20


class ObjectSource(Protocol):
    """`Objects`, and their bytes; called in a thread."""

    def keys(self, bucket: str, prefix: str) -> list[str]: ...

    def fetch(self, bucket: str, key: str, to: Path) -> None:
        """Write the object to this path; OSError when it cannot be read."""

    def put(self, bucket: str, key: str, content: bytes, *, content_type: str) -> None: ...


class MotoObjects:
    def __init__(self, account: str) -> None:
        self._account = account

    def keys(self, bucket: str, prefix: str) -> list[str]:
        existing = s3_backend(self._account).buckets.get(bucket)
        return sorted(key for key in existing.keys if key.startswith(prefix)) if existing is not None else []

    def fetch(self, bucket: str, key: str, to: Path) -> None:
        existing = s3_backend(self._account).get_object(bucket, key)
        if existing is None:
            raise FileNotFoundError(f"s3://{bucket}/{key}")
        with to.open("wb") as target:
            target.write(existing.value)

    def put(self, bucket: str, key: str, content: bytes, *, content_type: str) -> None:
        existing = s3_backend(self._account).put_object(bucket, key, content)
        existing.set_metadata({"Content-Type": content_type})


class ExternalObjects:
    """An S3 server that is not ours, with the key that it knows."""

    def __init__(self, url: str, region: str, keys: Credentials) -> None:
        self._url = url
        self._region = region
        self._keys = keys
        self._credentials: Any = None

    def keys(self, bucket: str, prefix: str) -> list[str]:
        client = self._client()
        pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        try:
            return [item["Key"] for page in pages for item in page.get("Contents", ())]
        except client.exceptions.ClientError:
            return []  # no such bucket, or not ours: the role would find nothing either

    def fetch(self, bucket: str, key: str, to: Path) -> None:
        client = self._client()
        try:
            body = client.get_object(Bucket=bucket, Key=key)["Body"]
        except client.exceptions.ClientError as exc:
            raise FileNotFoundError(f"s3://{bucket}/{key}: {exc}") from exc
        with to.open("wb") as target:
            shutil.copyfileobj(cast(BinaryIO, body), target, _CHUNK)

    def put(self, bucket: str, key: str, content: bytes, *, content_type: str) -> None:
        self._client().put_object(Bucket=bucket, Key=key, Body=content, ContentType=content_type)

    def _client(self) -> Any:
        if self._credentials is None:
            import botocore.session

            self._credentials = botocore.session.Session().create_client(
                "s3",
                endpoint_url=self._url,
                region_name=self._region,
                aws_access_key_id=self._keys.key,
                aws_secret_access_key=self._keys.secret,
            )
        return self._credentials


def s3_backend(account: str) -> Any:
    from moto.backends import get_backend

    return get_backend("s3")[account]["aws"]


def has_tags(account: str, path: str) -> bool:
    """Whether moto stores tags of the object at `bucket/key`."""
    bucket, _, key = path.partition("/")
    backend = s3_backend(account)
    existing = backend.buckets.get(bucket)
    found = existing.keys.get(key) if existing is not None else None
    return found is not None and bool(backend.tagger.get_tag_dict_for_resource(found.arn))
