"""The port Weights over a bucket."""

from __future__ import annotations

from collections.abc import Callable, Container, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from lmi_deploy.domain.events import Event, Notice
from lmi_deploy.domain.gathered_facts import FileEntry, ModelListing
from lmi_deploy.domain.record_json import parse_record
from lmi_deploy.domain.sagemaker.exported_stack import claimant, claimed_weights
from lmi_deploy.domain.sagemaker.transfer_job import JobRequest
from lmi_deploy.domain.weights import (
    IntegrityIssue,
    Manifest,
    OrphanedWeights,
    RemovedObjects,
    Travel,
    weights_label,
    weights_name,
    weights_prefix,
)
from lmi_deploy.errors import IntegrityError, LmiError, UsageRefused
from lmi_deploy.ports.clock import Clock
from lmi_deploy.ports.external_uploader import ExternalUploader
from lmi_deploy.ports.hub import Hub
from lmi_deploy.ports.object_store import MultipartUpload, ObjectStore
from lmi_deploy.ports.source import Source
from lmi_deploy.ports.weights import WeightsStore
from lmi_deploy.weights import weights_maintenance
from lmi_deploy.weights.cross_bucket_copy import CopyRoute, NoSource, copy_weights
from lmi_deploy.weights.external_upload import ExternalUpload
from lmi_deploy.weights.manifest_comparison import compare_listing, listed_weights
from lmi_deploy.weights.manifests import manifests
from lmi_deploy.weights.push import PushContext, complete_weights, nothing_to_do, push
from lmi_deploy.weights.transfer_job_shard import push_shard
from lmi_deploy.weights.transfer_settings import TransferSettings
from lmi_deploy.weights.uploader_selection import OWN, choose_uploader
from lmi_deploy.weights.weights_lookup import find_weights

_RECORDS, _RECORD = "deployments/", "/record.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketWeights:
    """`owner`: the account that must own the bucket."""

    store: ObjectStore
    owner: str
    clock: Clock
    settings: TransferSettings
    where: str
    advise: Callable[[], str] = lambda: ""
    served: Callable[[Container[str]], Mapping[str, str]] = lambda recorded: {}
    """Weights that live endpoints serve from, by name, with the deployment of each endpoint. The argument: the
    deployments whose record names weights.
    """
    uploaders: Mapping[str, ExternalUploader] = field(default_factory=dict)
    """External uploaders, by their names in `weights.engine`."""
    _completed: set[str] = field(default_factory=set)

    def address(self, name: str) -> str:
        return f"s3://{self.store.bucket}/{weights_prefix(name)}"

    @property
    def completed(self) -> frozenset[str]:
        return frozenset(self._completed)

    def advice(self) -> str:
        return self.advise() if self._completed else ""

    def push(
        self, listing: ModelListing, files: Sequence[FileEntry], source: Source, *, key: str
    ) -> Generator[Event, None, Manifest]:
        return (yield from push(listing, files, push_context=self._context(source), key=key))

    @property
    def engines(self) -> frozenset[str]:
        return frozenset(name for name, uploader in self.uploaders.items() if uploader.present)

    def upload_files(
        self, listing: ModelListing, files: Sequence[FileEntry], folder: Path, *, engine: str, key: str
    ) -> Generator[Event, None, Manifest]:
        uploader = self.uploaders.get(engine)
        if uploader is None:
            raise UsageRefused(
                f"weights.engine: {engine} is not installed", hint="remove it, or set it to auto"
            )
        yield Notice(text=f"uploader: {uploader.name}")
        context = replace(self._context(NoSource()), external_upload=ExternalUpload(uploader, folder))
        return (yield from push(listing, files, push_context=context, key=key))

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
        bound = self if not transfer_options.memory else self._within(transfer_options.memory)

        def attempt() -> Generator[Event, None, Manifest]:
            return bound._upload(listing, files, hub, transfer_options=transfer_options, local=local, key=key)

        try:
            return (yield from attempt())
        except IntegrityError:
            # The disk may have damaged a correct file since: files on this machine are checked again.
            if not (yield from hub.recheck(listing, files, key=key)):
                raise
        return (yield from attempt())

    def _upload(
        self,
        listing: ModelListing,
        files: Sequence[FileEntry],
        hub: Hub,
        *,
        transfer_options: Travel,
        local: Callable[[Path], Source],
        key: str,
    ) -> Generator[Event, None, Manifest]:
        if transfer_options.via != "snapshot" and listing.source != "folder":
            chosen = choose_uploader(transfer_options.engine, files, is_local=False, present=self.engines)
            yield Notice(text=f"uploader: {chosen.title}")
            return (yield from self.push(listing, files, hub, key=key))
        name = weights_name(listing.model_id, listing.commit, tuple(files))
        if hub.missing(listing, files) and (found := complete_weights(self.store, name)[0]) is not None:
            # Existing weights need not be downloaded first.
            yield nothing_to_do(found, key)
            return found
        folder = yield from hub.fetch(listing, files, key=key)
        yield Notice(text=f"the files are in {folder}")
        chosen = choose_uploader(transfer_options.engine, files, is_local=True, present=self.engines)
        if chosen.engine == OWN:
            yield Notice(text=f"uploader: {chosen.title}")
            return (yield from self.push(listing, files, local(folder), key=key))
        if chosen.why:
            yield Notice(text=chosen.why)
        return (yield from self.upload_files(listing, files, folder, engine=chosen.engine, key=key))

    def _context(self, source: Source) -> PushContext:
        return PushContext(
            source=source,
            store=self.store,
            clock=self.clock,
            settings=self.settings,
            completed=self._completed.add,
        )

    def _within(self, memory: int) -> BucketWeights:
        return replace(self, settings=replace(self.settings, memory=memory))

    def push_shard(
        self, order: JobRequest, source: Source, *, number: int, count: int, key: str
    ) -> Generator[Event, None, tuple[Manifest | None, ...]]:
        return (
            yield from push_shard(order, number=number, count=count, context=self._context(source), key=key)
        )

    def all(self, unreadable: Callable[[str, LmiError], None] | None = None) -> tuple[Manifest, ...]:
        return tuple(manifests(self.store, unreadable=unreadable))

    def find(self, name: str) -> Manifest:
        errors: dict[str, LmiError] = {}
        found = self.all(errors.__setitem__)
        for weights, error in errors.items():
            if weights.startswith(name):
                raise error
        return find_weights(found, name, self.store.bucket)

    def at_commit(self, model_id: str, commit: str) -> Manifest | None:
        found = manifests(self.store, weights_label(model_id), commit)
        newest = sorted(found, key=lambda manifest: manifest.created, reverse=True)
        return next((manifest for manifest in newest if self.flaws(manifest.name) == ()), None)

    def flaws(self, name: str) -> tuple[IntegrityIssue, ...] | None:
        manifest, listed = listed_weights(self.store, name)
        return None if manifest is None else compare_listing(self.store, manifest, listed)

    def exists(self, name: str) -> bool:
        return weights_maintenance.exists(self.store, name)

    def references(self, *, but: str = "") -> dict[str, tuple[str, ...]]:
        found: dict[str, tuple[str, ...]] = {}
        for stored in self.store.list(_RECORDS):
            if stack := claimant(stored.key):
                found |= {name: (*found.get(name, ()), stack) for name in self._claimed(stored.key)}
            elif stored.key.endswith(_RECORD):
                deployment = stored.key.removeprefix(_RECORDS).removesuffix(_RECORD)
                if deployment == but:
                    continue
                found |= {name: (*found.get(name, ()), deployment) for name in self._named(stored.key)}
        served = self.served(frozenset({*(user for users in found.values() for user in users), but}))
        return {name: (user,) for name, user in served.items() if user != but} | found

    def verify(
        self, manifest: Manifest, *, deep: bool, key: str
    ) -> Generator[Event, None, tuple[IntegrityIssue, ...]]:
        return (yield from weights_maintenance.verify(self.store, manifest, key=key, deep=deep))

    def remove(self, name: str, *, but: str = "", versions: bool = False) -> RemovedObjects:
        used = self.references(but=but)
        return weights_maintenance.remove(self.store, name, used=used, versions=versions)

    def copy_from(self, origin: WeightsStore, name: str, *, key: str) -> Generator[Event, None, Manifest]:
        if not isinstance(origin, BucketWeights):
            raise UsageRefused("give a source and a target bucket", hint="lmi weights copy --help")
        if origin.store.bucket == self.store.bucket:
            raise UsageRefused(
                f"s3://{self.store.bucket}: source and target are the same bucket",
                hint="name another one with --to-bucket",
            )
        route = CopyRoute(
            origin=origin.store,
            target=self.store,
            owner=origin.owner,
            clock=self.clock,
            settings=self.settings,
        )
        return (yield from copy_weights(name, route=route, key=key))

    def orphans(self, *, before: datetime) -> tuple[OrphanedWeights, ...]:
        return _orphans(weights_maintenance.orphans(self.store, before=before), self._unfinished(before))

    def clear(self, *, before: datetime) -> tuple[OrphanedWeights, ...]:
        # The objects are checked first: the check uses their uploads, too, which no longer exist afterwards.
        unfinished, uploads = self._unfinished(before), weights_maintenance.orphans(self.store, before=before)
        weights_maintenance.give_up(self.store, uploads)
        for one in unfinished:
            self.store.delete(one.keys)
        return _orphans(uploads, unfinished)

    def _unfinished(self, before: datetime) -> tuple[weights_maintenance.UnfinishedUpload, ...]:
        return weights_maintenance.unfinished(self.store, before=before, used=self.references)

    def _claimed(self, key: str) -> tuple[str, ...]:
        """The weights that an exported stack loads. A claim that was deleted just now names none."""
        text = self.store.get(key)
        try:
            return claimed_weights(text[0]) if text else ()
        except ValueError as why:
            raise UsageRefused(
                f"{key}: not the claim of an exported stack: {why}",
                hint="check it before you remove anything",
            ) from None

    def _named(self, key: str) -> tuple[str, ...]:
        """The weights that a record names. One that cannot be read names none, and frees none."""
        try:
            return parse_record(b"".join(self.store.read(key)), key).weights
        except ValueError:
            raise UsageRefused(f"{key}: not a record", hint="check it before you remove anything") from None


def _orphans(
    uploads: Sequence[MultipartUpload], unfinished: Sequence[weights_maintenance.UnfinishedUpload]
) -> tuple[OrphanedWeights, ...]:
    return (
        *(OrphanedWeights(kind="upload", name=one.key, size=None, since=one.started) for one in uploads),
        *(
            OrphanedWeights(kind="objects", name=one.name, size=one.size, since=one.touched)
            for one in unfinished
        ),
    )
