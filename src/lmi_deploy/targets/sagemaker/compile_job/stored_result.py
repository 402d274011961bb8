"""The output of a compile job in the bucket, as a source of files: S3 copies them."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass

from lmi_deploy.domain.gathered_facts import ModelListing
from lmi_deploy.ports.object_store import ObjectStore
from lmi_deploy.ports.source import BytesRead, ObjectLocation


@dataclass(frozen=True, slots=True)
class StoredResult:
    """A StoredSource; `etags` are the versions that were hashed, by key."""

    store: ObjectStore
    prefix: str
    etags: MutableMapping[str, str]

    def read_into(
        self, listing: ModelListing, path: str, buffer: memoryview, *, start: int
    ) -> Iterator[BytesRead]:
        key, done = self.prefix + path, 0
        for chunk in self.store.read(key, start=start, length=len(buffer), etag=self.etags[key]):
            buffer[done : done + len(chunk)] = chunk
            done += len(chunk)
            yield BytesRead(done)

    def locate(self, listing: ModelListing, path: str) -> ObjectLocation | None:
        key = self.prefix + path
        return ObjectLocation(self.store.bucket, key, self.etags[key])
