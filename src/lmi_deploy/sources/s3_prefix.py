"""A prefix in a bucket as a model repository: the port Hub.

Weights that lmi pushed are listed by their manifest, under its commit and hashes; of any other prefix every object is
hashed.
"""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from lmi_deploy.domain.content_hashes import sha256_of
from lmi_deploy.domain.events import Event, Progress
from lmi_deploy.domain.gathered_facts import FileEntry, ModelListing
from lmi_deploy.domain.in_place_weights import InPlaceWeights
from lmi_deploy.domain.number_text import size_text
from lmi_deploy.domain.s3_address import Prefix, read_prefix
from lmi_deploy.domain.safe_paths import case_collisions, check_relative_path
from lmi_deploy.domain.settings_digest import digest
from lmi_deploy.domain.weights import Manifest, weights_label
from lmi_deploy.errors import IntegrityError, NotFound, TransferFailed
from lmi_deploy.errors.url_redaction import mask_urls
from lmi_deploy.host.hash_cache import HashLedger
from lmi_deploy.ports.clock import Clock
from lmi_deploy.ports.message_callback import Notify, ignore
from lmi_deploy.ports.object_store import ObjectStore, StoredObject
from lmi_deploy.ports.source import BytesRead, ObjectLocation
from lmi_deploy.sources.s3_download import S3Downloader
from lmi_deploy.sources.s3_versions import in_place_weights
from lmi_deploy.sources.verified_download import VerifiedFiles

_AT_ONCE = 4
_REPORT_EVERY = 5.0
"""Seconds."""

ReadManifest = Callable[[ObjectStore, str], Manifest | None]


class S3Models:
    """`model_id` is `s3://bucket/prefix`; there are no revisions. Downloads are stored in `<cache>/models/`.

    `store` opens a bucket after a check that it is ours. Safe to use from several threads.
    """

    def __init__(
        self,
        store: Callable[[str], ObjectStore],
        read_manifest: ReadManifest,
        *,
        cache: Path,
        clock: Clock,
        notify: Notify = ignore,
    ) -> None:
        self._open = store
        self._read_manifest = read_manifest
        self._cache = cache
        self._clock = clock
        self._notify = notify
        self._stores: dict[str, ObjectStore] = {}
        self._etags: dict[str, str] = {}
        self._lock = threading.Lock()

    def listing(self, model_id: str, revision: str) -> ModelListing:
        prefix = read_prefix(model_id)
        store = self._store(prefix)
        found = self._objects(store, prefix)
        if prefix.weights:
            return _pushed_by_lmi(self._read_manifest(store, prefix.weights), prefix, found)
        return self._foreign(store, prefix, found)

    def list_sizes(self, model_id: str) -> ModelListing:
        prefix = read_prefix(model_id)
        found = self._objects(self._store(prefix), prefix)
        files = tuple(
            FileEntry(path=one.key.removeprefix(prefix.path), size=one.size, oid="", kind="sha256")
            for one in found
        )
        return ModelListing(model_id=prefix.address, commit="", files=files, source="s3")

    def in_place(self, model_id: str) -> InPlaceWeights:
        """Of weights that lmi pushed, only if they are complete."""
        prefix = read_prefix(model_id)
        store = self._store(prefix)
        found = self._objects(store, prefix)
        if prefix.weights:
            _pushed_by_lmi(self._read_manifest(store, prefix.weights), prefix, found)
        _reject_unsafe_paths(prefix, [one.key.removeprefix(prefix.path) for one in found])
        return in_place_weights(prefix, store, found, HashLedger(self._cache / "s3-versions"))

    def read(
        self,
        listing: ModelListing,
        path: str,
        *,
        start: int = 0,
        length: int | None = None,
        refresh: bool = False,
    ) -> bytes:
        prefix = read_prefix(listing.model_id)
        key = prefix.path + path
        chunks = self._store(prefix).read(key, start=start, length=length, etag=self._etag(prefix, key))
        return b"".join(chunks)

    def read_into(
        self, listing: ModelListing, path: str, buffer: memoryview, *, start: int
    ) -> Iterator[BytesRead]:
        prefix = read_prefix(listing.model_id)
        key = prefix.path + path
        etag = self._etag(prefix, key)
        done = 0
        for chunk in self._store(prefix).read(key, start=start, length=len(buffer), etag=etag):
            buffer[done : done + len(chunk)] = chunk
            done += len(chunk)
            yield BytesRead(done)
        if done < len(buffer):
            raise TransferFailed(
                f"s3://{prefix.bucket}/{key}: it ends at byte {start + done}, but had {start + len(buffer)} bytes "
                "before",
                hint="another program writes to the prefix: run the same command again when that has finished",
            )

    def locate(self, listing: ModelListing, path: str) -> ObjectLocation | None:
        prefix = read_prefix(listing.model_id)
        key = prefix.path + path
        etag = self._etag(prefix, key)
        return ObjectLocation(prefix.bucket, key, etag) if etag else None

    def folder(self, listing: ModelListing) -> Path:
        return self._cache / "models" / weights_label(listing.model_id) / listing.commit

    def missing(self, listing: ModelListing, files: Sequence[FileEntry]) -> int:
        return self._downloader(listing).missing(files)

    def require_space(self, listing: ModelListing, files: Sequence[FileEntry]) -> None:
        self._downloader(listing).require_space(files)

    def fetch(
        self, listing: ModelListing, files: Sequence[FileEntry], *, key: str
    ) -> Generator[Progress, None, Path]:
        return (yield from self._downloader(listing).all(files, key=key))

    def recheck(
        self, listing: ModelListing, files: Sequence[FileEntry], *, key: str
    ) -> Generator[Event, None, bool]:
        return (yield from self._downloader(listing).recheck(files, key=key))

    def _downloader(self, listing: ModelListing) -> S3Downloader:
        prefix = read_prefix(listing.model_id)

        def chunks(path: str, start: int) -> Iterator[bytes]:
            at = prefix.path + path
            return self._store(prefix).read(at, start=start, etag=self._etag(prefix, at))

        return S3Downloader(
            listing, self.folder(listing), chunks, VerifiedFiles(HashLedger(self._cache / "s3-checked"))
        )

    def _objects(self, store: ObjectStore, prefix: Prefix) -> list[StoredObject]:
        found = [one for one in store.list(prefix.path) if not one.key.endswith("/")]
        self._etags.update({f"{prefix.bucket}/{one.key}": one.etag for one in found})
        if not found:
            raise _nothing(store, prefix)
        return found

    def _foreign(self, store: ObjectStore, prefix: Prefix, found: Sequence[StoredObject]) -> ModelListing:
        names = [one.key.removeprefix(prefix.path) for one in found]
        _reject_unsafe_paths(prefix, names)
        ledger, started = HashLedger(self._cache / "s3-hashed"), self._clock.monotonic()
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            hashing = pool.map(lambda one: _sha256(ledger, store, one), found)
            oids = list(self._report_hashing(prefix, found, hashing, reported=started))
        files = tuple(
            FileEntry(path=name, size=one.size, oid=oid, kind="sha256")
            for name, one, oid in zip(names, found, oids, strict=True)
        )
        commit = digest([(file.path, file.size, file.oid) for file in files])[:40]
        return ModelListing(model_id=prefix.address, commit=commit, files=files, source="s3")

    def _report_hashing(
        self, prefix: Prefix, found: Sequence[StoredObject], oids: Iterator[str], *, reported: float
    ) -> Iterator[str]:
        """Reading every byte of a model may take minutes, and no event can be yielded from here. `reported` is when
        the reading began.
        """
        done, total = 0, sum(one.size for one in found)
        for one, oid in zip(found, oids, strict=True):
            done += one.size
            if self._clock.monotonic() - reported >= _REPORT_EVERY:
                self._notify(f"hashing {prefix.address}: {size_text(done)} of {size_text(total)}")
                reported = self._clock.monotonic()
            yield oid

    def _store(self, prefix: Prefix) -> ObjectStore:
        with self._lock:
            if prefix.bucket not in self._stores:
                self._stores[prefix.bucket] = self._open(prefix.bucket)
            return self._stores[prefix.bucket]

    def _etag(self, prefix: Prefix, key: str) -> str:
        """Of the listed version; empty if this process did not list it."""
        return self._etags.get(f"{prefix.bucket}/{key}", "")


def _sha256(ledger: HashLedger, store: ObjectStore, found: StoredObject) -> str:
    """From S3 if it has one of the whole object, else by reading it, once; Conflict if it is replaced in the meantime.

    An object of the same key, size and ETag is the same object.
    """
    mark = f"{mask_urls(store.where)} {store.bucket} {found.key} {found.size} {found.etag}"
    known = ledger.get(mark)
    if known is None:
        known = _checksum_in_s3(store, found) or sha256_of(store.read(found.key, etag=found.etag))
        ledger.add(mark, known)
    return known


def _checksum_in_s3(store: ObjectStore, found: StoredObject) -> str:
    now = store.head(found.key)
    if now is None or now.etag != found.etag or now.algorithm != "SHA256":
        return ""
    return base64.b64decode(now.checksum).hex()


def _pushed_by_lmi(manifest: Manifest | None, prefix: Prefix, found: Sequence[StoredObject]) -> ModelListing:
    """The oids of the model's first source, so that these files are the same weights in every bucket."""
    if manifest is None:
        raise NotFound(
            f"{prefix.address}: no manifest, so these weights are incomplete",
            hint="run their `lmi weights push` again; `lmi weights ls` lists the complete ones",
        )
    files = tuple(
        FileEntry(path=file.path, size=file.size, oid=file.oid, kind=file.kind) for file in manifest.files
    )
    required = {prefix.path + file.path: file.size for file in files}
    if required != {one.key: one.size for one in found}:
        raise IntegrityError(
            f"{prefix.address}: its files differ from its manifest",
            hint=f"list the differences: lmi weights verify {prefix.weights} --bucket {prefix.bucket}",
        )
    _reject_unsafe_paths(prefix, [file.path for file in files])
    return ModelListing(model_id=prefix.address, commit=manifest.commit, files=files, source="s3")


def _reject_unsafe_paths(prefix: Prefix, names: Sequence[str]) -> None:
    for name in names:
        if error := check_relative_path(name):
            raise IntegrityError(
                f"{prefix.address}: the key {prefix.path + name!r} {error}, so it cannot be a file of a model",
                hint="rename or delete the object, or use a prefix without it",
            )
    for group in case_collisions(names):
        raise IntegrityError(
            f"{prefix.address}: {' and '.join(group)} cannot be in one folder",
            hint="rename or delete one of the objects, or use a prefix without them",
        )


def _nothing(store: ObjectStore, prefix: Prefix) -> NotFound:
    name = prefix.path.rstrip("/")
    if name and store.head(name) is not None:
        return NotFound(
            f"s3://{prefix.bucket}/{name}: an object, not a prefix", hint="use the prefix that contains it"
        )
    above = name.rpartition("/")[0]
    return NotFound(
        f"{prefix.address}: no objects under this prefix",
        hint=f"aws s3 ls {Prefix(prefix.bucket, f'{above}/' if above else '').address} lists the objects",
    )
