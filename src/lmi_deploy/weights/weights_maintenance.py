"""Weights in a bucket: verify them, delete them, find what interrupted pushes left."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime

from lmi_deploy.domain.content_hashes import sha256_of
from lmi_deploy.domain.events import Progress
from lmi_deploy.domain.sagemaker.exported_stack import EXPORTED
from lmi_deploy.domain.sagemaker.s3_layout import ARTIFACTS
from lmi_deploy.domain.sagemaker.transfer_job import COMPILE_JOB, JOBS
from lmi_deploy.domain.weights import (
    IntegrityIssue,
    Manifest,
    RemovedObjects,
    StoredFile,
    manifest_key,
    weights_prefix,
)
from lmi_deploy.errors import IntegrityError, NotFound, Refused
from lmi_deploy.host.worker_pool import run_each
from lmi_deploy.ports.object_store import MultipartUpload, ObjectStore, StoredObject
from lmi_deploy.weights.manifest_comparison import AT_ONCE, size_flaw
from lmi_deploy.weights.manifests import manifest_names, read_manifest
from lmi_deploy.weights.weights_lookup import no_such

_WEIGHTS = "weights/"
_OURS = re.compile(r"weights/([^/]+/[0-9a-f]{40}-[0-9a-f]{8})/.")
"""The names that pushes give. In a custom bucket, all other objects under `weights/` belong to the user."""
_OF_ARTIFACTS = re.compile(rf"{ARTIFACTS}[^/]+/[0-9a-f]{{16}}/.")
"""What is copied or packed into a stored artifact; large files go in parts there, too."""


def verify(
    store: ObjectStore, manifest: Manifest, *, key: str, deep: bool = False
) -> Generator[Progress, None, tuple[IntegrityIssue, ...]]:
    """Compare the bucket with the manifest: sizes and S3's own checksums, or with `deep` every byte's sha256 again."""
    prefix = weights_prefix(manifest.name)
    existing = {stored.key: stored for stored in store.list(prefix)}
    known = {prefix + file.path: file for file in manifest.files}
    issues = [
        IntegrityIssue(path=key_, why="is not in the manifest")
        for key_ in sorted(existing.keys() - known.keys())
    ]
    check = _rehashed if deep else _compared
    done = 0
    checks = run_each(
        lambda file: check(store, file, existing.get(prefix + file.path)), known.values(), workers=AT_ONCE
    )
    with closing(checks):
        for file, why in checks:
            done += file.size
            if why:
                issues.append(IntegrityIssue(path=file.path, why=why))
            yield Progress(key=key, done=done, total=manifest.size, unit="bytes", note=file.path)
    return tuple(sorted(issues, key=lambda issue: issue.path))


def _compared(store: ObjectStore, file: StoredFile, listed: StoredObject | None) -> str:
    if (why := size_flaw(file, listed)) or listed is None:
        return why
    found = store.head(listed.key)
    if found is None:
        return "is gone"
    equal = file.etag and found.etag.strip('"') == file.etag
    if equal and found.algorithm != file.algorithm:
        return ""
    if not found.checksum:
        return "S3 has no full-object checksum: use --deep"
    if (found.algorithm, found.checksum) != (file.algorithm, file.checksum):
        return f"S3 says {found.algorithm} {found.checksum}, but the manifest says {file.algorithm} {file.checksum}"
    return ""


def _rehashed(store: ObjectStore, file: StoredFile, listed: StoredObject | None) -> str:
    if (why := size_flaw(file, listed)) or listed is None:
        return why
    try:
        got = sha256_of(store.read(listed.key, etag=listed.etag))
    except IntegrityError as damaged:
        return damaged.message.removeprefix(f"s3://{store.bucket}/{listed.key}: ")
    return "" if got == file.sha256 else f"sha256 {got}, but the manifest says {file.sha256}"


def _release_hint(users: Sequence[str]) -> str:
    if any(user.endswith(f"({EXPORTED})") for user in users):
        return "destroy that stack and delete its claim first; `lmi docs export-to-terraform` shows how"
    return f"run `lmi down {' '.join(users)}` first"


def remove(
    store: ObjectStore, name: str, *, used: Mapping[str, tuple[str, ...]], versions: bool = False
) -> RemovedObjects:
    """Delete unused weights, the manifest first: without it, partly deleted weights do not count. `versions`: with
    every earlier version that a versioned bucket keeps.

    `used`: weights by name, and the deployments that use them or may go back to them. Refused if these are among them.
    """
    if name in used:
        who = ("the deployment", "uses") if len(used[name]) == 1 else ("the deployments", "use")
        raise Refused(
            f"{name}: {who[0]} {', '.join(used[name])} {who[1]} these weights",
            hint=_release_hint(used[name]),
        )
    prefix = weights_prefix(name)
    existing, uploads = list(store.list(prefix)), store.uploads(prefix)
    known = read_manifest(store, name) is not None or bool(existing or uploads)
    # Of versions, less than a whole name would delete what others use.
    if not (_OURS.match(f"{prefix}.") if versions else known):
        raise no_such(name, store.bucket)
    if versions:
        store.delete_versions(manifest_key(name))
        size, kept = store.delete_versions(prefix), False
        if not (known or size):
            raise no_such(name, store.bucket)
    else:
        kept = store.delete([manifest_key(name)])
        store.delete([stored.key for stored in existing])
        size = sum(stored.size for stored in existing)
    give_up(store, uploads)
    return RemovedObjects(name=name, bucket=store.bucket, size=size, versions_kept=kept)


def exists(store: ObjectStore, name: str) -> bool:
    prefix = weights_prefix(name)
    return any(True for _ in store.list(prefix)) or bool(store.uploads(prefix))


def orphans(store: ObjectStore, *, before: datetime) -> tuple[MultipartUpload, ...]:
    """Uploads of weights and artifacts without a new part since then: their parts are stored and paid for.

    An upload that started long ago and received a part since is still running: a large file over a slow line takes
    days.
    """
    return tuple(upload for upload in _own_uploads(store) if not _is_live(store, upload, before))


def _own_uploads(store: ObjectStore) -> Iterator[MultipartUpload]:
    """In one list of the whole bucket: each further prefix would be a request more."""
    ours = (_OURS, _OF_ARTIFACTS)
    return (
        upload
        for upload in store.uploads("")
        if upload.started and any(names.match(upload.key) for names in ours)
    )


def _is_live(store: ObjectStore, upload: MultipartUpload, before: datetime) -> bool:
    if datetime.fromisoformat(upload.started) >= before:
        return True
    try:
        used = [part.modified for part in store.parts(upload) if part.modified]
    except NotFound:  # completed or aborted meanwhile
        return True
    return any(datetime.fromisoformat(moment) >= before for moment in used)


def give_up(store: ObjectStore, uploads: Iterable[MultipartUpload]) -> None:
    """Abort them; their parts are no longer stored."""
    for upload in uploads:
        store.abort(upload)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnfinishedUpload:
    """Objects of a push that wrote no manifest. `touched`: when the newest was written, ISO 8601."""

    name: str
    keys: tuple[str, ...]
    size: int
    touched: str


def unfinished(
    store: ObjectStore, *, before: datetime, used: Callable[[], Collection[str]] = tuple
) -> tuple[UnfinishedUpload, ...]:
    """Prefixes without a manifest whose newest object is older than that, and without a running upload; and those of
    compile jobs.

    Not those in `used`: weights that a deployment names are in use, with or without a manifest. It reads every record,
    so it is called only if there is anything to delete. Manifests are looked up by their names alone.
    """
    complete = {*manifest_names(store)}
    found: defaultdict[str, list[StoredObject]] = defaultdict(list)
    for stored in store.list(_WEIGHTS):
        own = _OURS.match(stored.key)
        if own and own[1] not in complete:
            found[own[1]].append(stored)
    # A compile job reads its input when it starts, and writes at its end.
    for stored in store.list(JOBS + COMPILE_JOB):
        found["/".join(stored.key.split("/", 2)[:2])].append(stored)
    prefixes = (_unfinished(name, objects) for name, objects in found.items())
    old = [one for one in prefixes if one.touched and datetime.fromisoformat(one.touched) < before]
    in_use = {*used(), *_being_uploaded(store, before)} if old else set()
    return tuple(one for one in old if one.name not in in_use)


def _being_uploaded(store: ObjectStore, before: datetime) -> Iterator[str]:
    for upload in _own_uploads(store):
        if (named := _OURS.match(upload.key)) and _is_live(store, upload, before):
            yield named[1]


def _unfinished(name: str, objects: list[StoredObject]) -> UnfinishedUpload:
    return UnfinishedUpload(
        name=name,
        keys=tuple(stored.key for stored in objects),
        size=sum(stored.size for stored in objects),
        touched=max(stored.modified for stored in objects),
    )
