"""Models in a bucket: complete or absent, verified, shared by every deployment that selects the same files."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Protocol

from lmi_deploy.domain.events import Event
from lmi_deploy.domain.gathered_facts import FileEntry, ModelListing
from lmi_deploy.domain.sagemaker.transfer_job import JobRequest
from lmi_deploy.domain.weights import IntegrityIssue, Manifest, OrphanedWeights, RemovedObjects, Travel
from lmi_deploy.errors import LmiError
from lmi_deploy.ports.hub import Hub
from lmi_deploy.ports.source import Source


class WeightsStore(Protocol):
    @property
    def where(self) -> str:
        """The bucket for people, with the endpoint if it is not AWS's own."""

    def address(self, name: str) -> str:
        """The s3:// address of one model's files."""

    @property
    def completed(self) -> frozenset[str]:
        """Names of the weights that were completed since the bucket was opened; not of those that already were."""

    def advice(self) -> str:
        """A lifecycle rule that the bucket lacks and should have, never set automatically.

        Empty if it lacks none, or if no transfer could have left parts.
        """

    def push(
        self, listing: ModelListing, files: Sequence[FileEntry], source: Source, *, key: str
    ) -> Generator[Event, None, Manifest]:
        """Transfer files, each verified before it becomes an object, the manifest last; existing files are skipped."""

    @property
    def engines(self) -> frozenset[str]:
        """External uploaders that are installed here, by their names in `weights.engine`."""

    def upload_files(
        self, listing: ModelListing, files: Sequence[FileEntry], folder: Path, *, engine: str, key: str
    ) -> Generator[Event, None, Manifest]:
        """The same, from a folder by an external uploader; compared with S3's checksums afterwards."""

    def upload(
        self,
        listing: ModelListing,
        files: Sequence[FileEntry],
        hub: Hub,
        *,
        transfer_options: Travel,
        local: Callable[[Path], Source],
        key: str,
    ) -> Generator[Event, None, Manifest]:
        """Push or carry, by `transfer_options`: streamed from `hub`, or downloaded to this machine first and read by
        `local`.
        """

    def push_shard(
        self, order: JobRequest, source: Source, *, number: int, count: int, key: str
    ) -> Generator[Event, None, tuple[Manifest | None, ...]]:
        """Of each model the files of instance `number` (from 0) of `count`; returns each manifest if all the others
        are complete too.
        """

    def all(self, unreadable: Callable[[str, LmiError], None] | None = None) -> tuple[Manifest, ...]:
        """Every model that is complete. A manifest that cannot be read is an error, or `unreadable` gets its name and
        why.
        """

    def find(self, name: str) -> Manifest:
        """One of them, by its name or a unique prefix of it; NotFound lists the existing ones."""

    def at_commit(self, model_id: str, commit: str) -> Manifest | None:
        """The newest complete weights of a model at this commit, whichever files they are; None without a request more
        if there are none.
        """

    def flaws(self, name: str) -> tuple[IntegrityIssue, ...] | None:
        """Differences between the bucket's listing and the manifest of these weights; None without a manifest.

        Two requests; `verify` checks each file.
        """

    def exists(self, name: str) -> bool:
        """Whether anything of these weights is stored, as much or as little as an interrupted push or removal left."""

    def references(self, *, but: str = "") -> dict[str, tuple[str, ...]]:
        """Names of weights to the deployments whose records name them; the record of `but` is skipped."""

    def verify(
        self, manifest: Manifest, *, deep: bool, key: str
    ) -> Generator[Event, None, tuple[IntegrityIssue, ...]]:
        """Sizes and S3's own checksums, or with `deep` every byte's sha256 again."""

    def remove(self, name: str, *, but: str = "", versions: bool = False) -> RemovedObjects:
        """Delete unused weights; `versions`: also what a versioned bucket keeps. Refused if a deployment uses them.

        Weights of the deployment `but` may be deleted: it is being deleted itself.
        """

    def copy_from(self, origin: WeightsStore, name: str, *, key: str) -> Generator[Event, None, Manifest]:
        """Server-side copies from another bucket, in any region, the manifest last."""

    def orphans(self, *, before: datetime) -> tuple[OrphanedWeights, ...]:
        """What interrupted pushes left, if they started before then."""

    def clear(self, *, before: datetime) -> tuple[OrphanedWeights, ...]:
        """Free them."""
