"""The objects of a deployment in its bucket: the weights, and the artifact that it serves from."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from pathlib import Path

from lmi_deploy.domain.deployment_artifact import Artifact, ArtifactFile
from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.events import Event, Notice, Progress
from lmi_deploy.domain.local_actions import PutArtifact, RemoveArtifact
from lmi_deploy.domain.number_text import counted
from lmi_deploy.domain.sagemaker.actions import PushWeights
from lmi_deploy.domain.sagemaker.exported_stack import claim_key, claim_text, is_exported
from lmi_deploy.domain.sagemaker.s3_layout import (
    WRITTEN_LAST,
    artifact_prefix,
    copied_objects,
    draft_location,
    weights_placeholder_value,
)
from lmi_deploy.errors import AccessError, Conflict, IntegrityError, NotFound
from lmi_deploy.ports.cloud import BucketServices
from lmi_deploy.ports.object_store import ObjectStore
from lmi_deploy.ports.source import Source
from lmi_deploy.targets.target import Hubs, Outcome

Steps = Generator[Event, None, Outcome]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactStorage:
    """The writes of one spec into its bucket."""

    spec: Spec
    artifact: Artifact
    hubs: Hubs
    files: Callable[[Path], Source]
    depot: Callable[[], BucketServices]
    bucket_in: Callable[[str], BucketServices | None]
    """The bucket of another region of the recipe."""

    def of(self, spec: Spec, artifact: Artifact) -> ArtifactStorage:
        return replace(self, spec=spec, artifact=artifact)

    def push(self, action: PushWeights) -> Steps:
        if action.origin:
            copied = yield from self._from_other_region(action)
            if copied:
                return copied
        spec = self.spec
        listing = next(
            (each.listing for each in spec.weights.additional if each.weights_name == action.weights),
            spec.model.listing(spec.weights.files),
        )
        manifest = yield from self.depot().weights.upload(
            listing,
            listing.files,
            self.hubs(listing.model_id),
            transfer_options=replace(spec.cloud.travel, via=action.via),
            local=self.files,
            key=action.key,
        )
        return f"{counted(len(manifest.files), 'file')} verified"

    def _from_other_region(self, action: PushWeights) -> Steps:
        """Empty if that bucket cannot be read any more: the weights then come from their source."""
        try:
            origin = self.bucket_in(action.origin)
            if origin is None:
                raise NotFound("the bucket was deleted", hint="none")
            manifest = yield from self.depot().weights.copy_from(
                origin.weights, action.weights, key=action.key
            )
        except (AccessError, IntegrityError, NotFound) as error:
            yield Notice(
                text=f"not copied from {action.origin}: {error.message}; getting them from the source"
            )
            return ""
        return f"{counted(len(manifest.files), 'file')} verified"

    def put(self, action: PutArtifact) -> Steps:
        """Nothing is overwritten; serving.properties is written last and completes it."""
        store = self.depot().store
        if is_exported(action.artifact):
            # First: from then on no command removes the weights.
            store.put(claim_key(self.spec.name, action.artifact), claim_text(self.spec))
        prefix = artifact_prefix(self.spec.name, action.artifact)
        copied = yield from self._copy(store, prefix, action.key)
        written = sorted(
            self.artifact.filled(weights_placeholder_value(self.spec), draft=draft_location(self.spec)),
            key=lambda file: file.path in WRITTEN_LAST,
        )
        for file in written:
            _write(store, prefix + file.path, file)
        return counted(len(written), "file") + (f", {copied} of the weights copied" if copied else "")

    def _copy(self, store: ObjectStore, prefix: str, name: str) -> Generator[Event, None, int]:
        """Inside S3; what an earlier attempt copied is not copied again."""
        objects = copied_objects(self.spec, self.artifact)
        if not objects:
            return 0
        existing = {stored.key: stored.size for stored in store.list(prefix)}
        total, done = sum(each.size for each in objects), 0
        for each in objects:
            if existing.get(prefix + each.path) != each.size:
                store.copy(each.origin, prefix + each.path, size=each.size)
            done += each.size
            yield Progress(key=name, done=done, total=total, unit="bytes", note=each.path)
        return len(objects)


def _write(store: ObjectStore, at: str, file: ArtifactFile) -> None:
    try:
        store.put(at, file.content, if_absent=True)
    except Conflict:
        found = store.get(at)
        if found is None or found[0] != file.content:
            raise IntegrityError(
                f"s3://{store.bucket}/{at}: its content does not match the digest in its name",
                hint="another program wrote it. Check and delete the object, then run the same command again",
            ) from None


def remove_artifact(store: ObjectStore, deployment: str, action: RemoveArtifact) -> Steps:
    yield from ()
    prefix = artifact_prefix(deployment, action.artifact)
    # The object that completes the artifact is deleted first: a partly deleted artifact then does not count as one.
    keys = sorted(
        (s.key for s in store.list(prefix)), key=lambda key: key.removeprefix(prefix) not in WRITTEN_LAST
    )
    store.delete(keys[:1])
    store.delete(keys[1:])
    return f"{counted(len(keys), 'object')} removed"
