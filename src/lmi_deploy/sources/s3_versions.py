"""The objects under a prefix by their versions, for an endpoint that reads them where they are."""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Final

from lmi_deploy.domain.in_place_weights import InPlaceWeights
from lmi_deploy.domain.s3_address import Prefix
from lmi_deploy.errors import NotFound, Unresolvable
from lmi_deploy.errors.url_redaction import mask_urls
from lmi_deploy.host.hash_cache import HashLedger
from lmi_deploy.ports.object_store import ObjectStore, StoredObject, object_versions

_AT_ONCE: Final = 8
_ARCHIVED: Final = ("GLACIER", "DEEP_ARCHIVE")
"""Storage classes whose objects must be restored before they can be read: S3 user guide, "Understanding and managing
Amazon S3 storage classes". GLACIER_IR is read at once.
"""


def in_place_weights(
    prefix: Prefix, store: ObjectStore, found: Sequence[StoredObject], ledger: HashLedger
) -> InPlaceWeights:
    """`found` is the listing. Version and key of an object are looked up once: an object of the same key, size, ETag
    and time is the same object.
    """
    _refuse_archived(prefix, found)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        details = list(pool.map(lambda one: _details(store, one, ledger), found))
    versions = {
        one.key.removeprefix(prefix.path): version for one, (version, _) in zip(found, details, strict=True)
    }
    files = object_versions(prefix, found)
    return InPlaceWeights(
        address=prefix.address,
        files=tuple(replace(file, version=versions[file.path]) for file in files),
        kms_keys=tuple(sorted({key for _, key in details} - {""})),
    )


def _details(store: ObjectStore, found: StoredObject, ledger: HashLedger) -> tuple[str, str]:
    """Its version id, and the key that encrypts it."""
    place = f"{mask_urls(store.where)} {store.bucket} {found.key}"
    mark = f"{place} {found.size} {found.etag} {found.modified}"
    known = ledger.get(mark)
    if known is None:
        current = store.head(found.key)
        if current is None or current.etag != found.etag:
            raise NotFound(
                f"s3://{store.bucket}/{found.key}: it was {'replaced' if current else 'deleted'} while lmi listed it",
                hint="run the same command again when the program that writes there has finished",
            )
        known = json.dumps([current.version, current.kms_key])
        ledger.add(mark, known)
    version, key = json.loads(known)
    return str(version), str(key)


def _refuse_archived(prefix: Prefix, found: Sequence[StoredObject]) -> None:
    archived = [one for one in found if one.storage_class in _ARCHIVED]
    if archived:
        first = archived[0]
        more = f", and {len(archived) - 1} more" if len(archived) > 1 else ""
        raise Unresolvable(
            f"s3://{prefix.bucket}/{first.key}: its storage class is {first.storage_class}{more}, which an endpoint "
            "cannot read",
            hint="restore the objects, copy them over themselves (aws s3 cp --storage-class STANDARD), then run the "
            "same command again",
        )
