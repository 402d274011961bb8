"""Target sagemaker: what must be uploaded into the bucket before an instance can start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from lmi_deploy.domain.default_bucket import default_bucket
from lmi_deploy.domain.deployment_artifact import Artifact
from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.local_actions import PutArtifact
from lmi_deploy.domain.observed_state import CloudInventory, CloudObserved
from lmi_deploy.domain.plan import Action, Change
from lmi_deploy.domain.sagemaker.actions import MakeBucket, PushWeights
from lmi_deploy.domain.sagemaker.job_actions import RunTransferJob, StopTransferJob
from lmi_deploy.domain.sagemaker.resource_names import resource_name
from lmi_deploy.domain.sagemaker.s3_layout import CopiedObject, artifact_id, copied_objects, weights_of
from lmi_deploy.domain.sagemaker.transfer_job import JobSettings, is_attempt
from lmi_deploy.domain.weights import integrity_issues_text
from lmi_deploy.errors import NotCompiled, NotFound


def storage_actions(
    spec: Spec, artifact: Artifact, observed: CloudObserved, inventory: CloudInventory
) -> Iterator[Action]:
    """The objects in the bucket. Handled for every current generation: the next instance starts from them."""
    yield from make_bucket(spec, inventory)
    transfer = None if inventory.weights else fetch_weights(spec)
    yield from _stop_jobs(transfer, observed)
    if transfer:
        yield transfer
    yield from _push_additional(spec, inventory)
    stored, copied = artifact_id(spec, artifact), copied_objects(spec, artifact)
    files = (*(each.path for each in copied), *(f.path for f in artifact.files))
    if stored not in observed.artifacts or _lacks(observed.stored.get(stored), files, copied):
        yield PutArtifact(artifact=stored, files=files)


def make_bucket(spec: Spec, inventory: CloudInventory) -> Iterator[MakeBucket]:
    """Nothing if it exists. NotFound if only its owner can create it."""
    place = spec.cloud
    if not inventory.bucket:
        _require_default(spec)
        yield MakeBucket(bucket=place.bucket, region=place.region, kms_key=place.kms_key)


def _push_additional(spec: Spec, inventory: CloudInventory) -> Iterator[PushWeights]:
    """Adapters and draft models: from here, also if a job transfers the weights. They are small."""
    place, pushed = spec.cloud, set[str]()
    for each in spec.weights.additional:
        if each.weights_name in inventory.missing_additional and each.weights_name not in pushed:
            pushed.add(each.weights_name)
            yield PushWeights(
                weights=each.weights_name,
                model_id=each.model_id,
                commit=each.commit,
                via=place.travel.via if place.job is None else "stream",
                size=each.size,
                what=each.title,
            )


def _stop_jobs(
    transfer: PushWeights | RunTransferJob | None, observed: CloudObserved
) -> Iterator[StopTransferJob]:
    """Jobs that an earlier `up` started and for which no process waits any more: they cost until they end."""
    desired = transfer.job if isinstance(transfer, RunTransferJob) else ""
    for job in observed.jobs:
        if job.is_running and not (desired and is_attempt(job.name, desired)):
            yield StopTransferJob(job=job.name)


def _lacks(existing: Mapping[str, int] | None, files: Sequence[str], copied: Sequence[CopiedObject]) -> bool:
    """Whether a file of the stored artifact was deleted, or a copied one has another size."""
    if existing is None:
        return False
    return any(path not in existing for path in files) or any(
        existing.get(each.path) != each.size for each in copied
    )


def damage(inventory: CloudInventory) -> tuple[Change, ...]:
    """Weights of which the bucket has lost something since they were complete."""
    if not inventory.weights_flaws:
        return ()
    return (
        Change(
            field="weights files",
            before=integrity_issues_text(inventory.weights_flaws),
            after="as the manifest says",
        ),
    )


def fetch_weights(spec: Spec) -> PushWeights | RunTransferJob:
    """The model's own files. NotCompiled for a result, which only `lmi compile` writes."""
    if spec.weights.compiled:
        raise NotCompiled(
            f"{weights_of(spec)}: the bucket has lost files of this result of `lmi compile`",
            hint="run `lmi compile` with the recipe again: it compiles again",
        )
    place, weights, model = spec.cloud, weights_of(spec), spec.model
    if place.job is None:
        return PushWeights(
            weights=weights,
            model_id=model.model_id,
            commit=model.commit,
            via=place.travel.via,
            size=spec.weights.size,
        )
    hub = (("HF_ENDPOINT", place.job.hub),) if place.job.hub else ()
    settings = JobSettings(
        role=place.job.role,
        image=place.job.image,
        instance=place.job.instance,
        count=place.job.count,
        volume_gb=place.job.volume_gb,
        command=(),
        environment=(("AWS_REGION", place.region), *hub),
        inputs=(),
        timeout=place.job.timeout,
        kms_key=place.kms_key,
        vpc=place.vpc,
    )
    return RunTransferJob(
        job=resource_name(spec.name, [weights, settings]),
        weights=weights,
        model_id=model.model_id,
        commit=model.commit,
        size=spec.weights.size,
        settings=settings,
    )


def _require_default(spec: Spec) -> None:
    """Only the account's own default bucket is created; a custom name may be a mistake."""
    place = spec.cloud
    if place.bucket != default_bucket(place.account, place.region):
        raise NotFound(
            f"s3://{place.bucket}: no such bucket in {place.region}",
            hint="create it (aws s3 mb), or omit endpoint.bucket: lmi then creates the account's default bucket",
        )
