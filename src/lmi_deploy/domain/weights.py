"""Weights in a bucket: content-addressed, immutable, complete or absent (design, decision 5)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

from lmi_deploy.domain.gathered_facts import FileEntry, OidKind
from lmi_deploy.domain.number_text import size_text
from lmi_deploy.domain.s3_address import SCHEME, read_prefix
from lmi_deploy.domain.settings_digest import ADDED, digest, digest_tag, short

MANIFEST_SCHEMA = 1


@lru_cache(64)  # a command names the same weights a dozen times
def selection_digest(files: tuple[FileEntry, ...]) -> str:
    """8 hex over the sorted (path, size, oid) list."""
    return short(digest(sorted((file.path, file.size, file.oid) for file in files)), 8)


def weights_name(model_id: str, commit: str, files: tuple[FileEntry, ...]) -> str:
    """`<org>--<name>/<commit>-<selection>`: the same for every user who selects the same files of the same commit.

    A folder is identified by its own name: its location says nothing about its content. Weights that lmi pushed to a
    bucket keep their name.
    """
    return f"{weights_label(model_id)}/{commit}-{selection_digest(files)}"


def weights_label(model_id: str) -> str:
    """The part of the name that identifies the model."""
    if model_id.startswith(SCHEME):
        label = read_prefix(model_id).label
    elif model_id.startswith("/"):
        label = model_id.rstrip("/").rpartition("/")[2]
    else:
        label = model_id.strip("/")
    return re.sub(r"[^A-Za-z0-9._-]", "-", label.replace("/", "--"))


def model_of_weights(name: str) -> str:
    """The model id of the Hub, whose names have one slash and no `--`; of another model its label."""
    return name.partition("/")[0].replace("--", "/", 1)


def weights_prefix(name: str) -> str:
    """The prefix that contains only model files: the container downloads all of it."""
    return f"weights/{name}/"


def manifest_key(name: str) -> str:
    """Outside the prefix, written last: no manifest, no weights."""
    return f"manifests/{name}.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """One file in the bucket. `checksum` is S3's own over the full object, as S3 writes it (base64).

    `etag` is the version of the object that was verified (a listing returns it); empty in manifests of an older lmi.
    If an external uploader sent it, S3 has no such checksum, and only the ETag identifies the content.
    """

    path: str
    size: int
    sha256: str
    oid: str
    kind: OidKind
    checksum: str
    algorithm: Literal["CRC32", "CRC64NVME"]
    etag: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    name: str
    model_id: str
    commit: str
    source: Literal["hub", "folder", "s3"]
    files: tuple[StoredFile, ...]
    created: str
    """ISO 8601, UTC."""
    tool: str
    """Version of lmi that wrote it."""
    schema: int = MANIFEST_SCHEMA
    compiled: str = field(default="", metadata=ADDED)
    """Of the result of `lmi compile`: by what it was made. Its commit is the identity of that compile."""

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketRequest:
    """Which bucket: named, or the account's own default of a region; empty text leaves a choice to AWS's own chain."""

    bucket: str = ""
    region: str = ""
    profile: str = ""
    kms_key: str = ""
    create: bool = False
    """Whether a missing bucket may be created; only the default one is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IntegrityIssue:
    """An error in one object of the weights: absent, of another size or content, or additional."""

    path: str
    why: str


def integrity_issues_text(issues: Sequence[IntegrityIssue]) -> str:
    """The first of them, and how many there are."""
    more = f", and {len(issues) - 1} more" if len(issues) > 1 else ""
    return f"{issues[0].path} {issues[0].why}{more}" if issues else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OrphanedWeights:
    """What an interrupted push left: parts of an upload, or objects without a manifest. `size` None: S3 does not
    report it.
    """

    kind: Literal["upload", "objects"]
    name: str
    size: int | None
    since: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedObjects:
    """`versions_kept`: by a versioned bucket, where their bytes cost storage as before."""

    name: str
    bucket: str
    size: int
    versions_kept: bool

    @property
    def words(self) -> str:
        if not self.versions_kept:
            return f"freed {size_text(self.size)}"
        return (
            f"deleted {size_text(self.size)}, but the bucket keeps versions, which cost storage as before: "
            f"`lmi weights rm {self.name} --versions --bucket {self.bucket}` deletes them"
        )


@digest_tag("Travel")
@dataclass(frozen=True, slots=True, kw_only=True)
class Travel:
    """How weights get to a bucket from here: `via` stream or snapshot (or job, from elsewhere), by which `engine`."""

    via: str = "stream"
    engine: Literal["auto", "own", "s5cmd", "obstore"] = "auto"
    memory: int = 0
    """Bytes for the whole process; 0: the transfer's own bound."""
