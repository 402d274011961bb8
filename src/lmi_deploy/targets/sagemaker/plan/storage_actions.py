"""Target sagemaker: what must be uploaded into the bucket before an instance can start."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from lmi_deploy.domain.default_bucket import default_bucket
from lmi_deploy.domain.deployment_artifact import Artifact
from lmi_deploy.domain.deployment_spec import AdditionalModel, Spec
from lmi_deploy.domain.local_actions import PutArtifact
from lmi_deploy.domain.observed_state import CloudInventory, CloudObserved
from lmi_deploy.domain.plan import Action, Change
from lmi_deploy.domain.sagemaker.actions import MakeBucket, PushWeights
from lmi_deploy.domain.sagemaker.exported_stack import exported_id
from lmi_deploy.domain.sagemaker.job_actions import MovedModel, RunTransferJob, StopTransferJob
from lmi_deploy.domain.sagemaker.resource_names import resource_name
from lmi_deploy.domain.sagemaker.resource_settings import CANDIDATE, variants
from lmi_deploy.domain.sagemaker.s3_layout import CopiedObject, artifact_id, copied_objects, weights_of
from lmi_deploy.domain.sagemaker.transfer_job import JobSettings, is_attempt
from lmi_deploy.domain.target_spec import JobPlace
from lmi_deploy.domain.weights import integrity_issues_text
from lmi_deploy.errors import NotCompiled, NotFound
from lmi_deploy.targets.sagemaker.plan.adapter_components import pack_adapters


def storage_actions(
    spec: Spec, artifact: Artifact, observed: CloudObserved, inventory: CloudInventory
) -> Iterator[Action]:
    """The objects in the bucket. Handled for every current generation: the next instance starts from them."""
    yield from make_bucket(spec, inventory)
    yield from _weights_actions(spec, observed, inventory)
    stored, second = artifact_id(spec, artifact), spec.candidate
    own = artifact_id(second.spec, second.artifact) if second else ""
    variant = variants(main=True, candidate=own == stored) if second else ""
    missing = stored not in observed.artifacts
    yield from _put(stored, spec, artifact, observed, missing=missing, variant=variant)
    if second is not None and own != stored:
        missing = own not in observed.artifacts
        yield from _put(own, second.spec, second.artifact, observed, missing=missing, variant=CANDIDATE)
    yield from pack_adapters(spec, observed)


def export_actions(
    spec: Spec, artifact: Artifact, observed: CloudObserved, inventory: CloudInventory, *, claimed: bool
) -> Iterator[Action]:
    """The same for a stack, with an artifact of its own; `claimed`: its claim on the weights is in the bucket."""
    yield from make_bucket(spec, inventory)
    yield from _weights_actions(spec, observed, inventory)
    stored = exported_id(spec, artifact)
    missing = not claimed or stored not in observed.stored
    yield from _put(stored, spec, artifact, observed, missing=missing)


def _weights_actions(spec: Spec, observed: CloudObserved, inventory: CloudInventory) -> Iterator[Action]:
    versions = [(spec, inventory)]
    if spec.candidate is not None and inventory.candidate is not None:
        versions.append((spec.candidate.spec, inventory.candidate))
    moved = [(each, moved_by_job(each, stored), stored) for each, stored in versions]
    yield from _stop_jobs([transfer_job_name(each) for each, models, _ in moved if models], observed)
    for each, models, stored in moved:
        if models:
            yield _run_job(each, models)
        for push in _push_from_here(each, stored, frozenset(model.weights for model in models)):
            yield replace(push, variant=_variant_of(push, spec))


def _variant_of(push: PushWeights, spec: Spec) -> str:
    """Whose weights they are, of a deployment with a candidate."""
    if spec.candidate is None:
        return ""
    main, candidate = (push.weights in _weights_names(one) for one in (spec, spec.candidate.spec))
    return variants(main=main, candidate=candidate)


def _weights_names(spec: Spec) -> frozenset[str]:
    """Of one version: its model, its adapters and its draft model."""
    return frozenset((weights_of(spec), *(each.weights_name for each in spec.weights.additional)))


def _put(
    stored: str, spec: Spec, artifact: Artifact, observed: CloudObserved, *, missing: bool, variant: str = ""
) -> Iterator[PutArtifact]:
    copied = copied_objects(spec, artifact)
    files = (*(each.path for each in copied), *(f.path for f in artifact.files))
    if missing or _lacks(observed.stored.get(stored), files, copied):
        yield PutArtifact(artifact=stored, files=files, variant=variant, digest=artifact.digest)


def make_bucket(spec: Spec, inventory: CloudInventory) -> Iterator[MakeBucket]:
    """Nothing if it exists. NotFound if only its owner can create it."""
    place = spec.cloud
    if not inventory.bucket:
        _require_default(spec)
        yield MakeBucket(bucket=place.bucket, region=place.region, kms_key=place.kms_key)


def moved_by_job(spec: Spec, inventory: CloudInventory) -> tuple[MovedModel, ...]:
    """The models that the bucket lacks and a transfer job gets: those of the Hub. A folder is on this machine alone,
    and S3 copies its own objects.
    """
    if spec.cloud.job is None:
        return ()
    main = () if inventory.weights else (_main_model(spec),)
    additional = (model for model in _hub_models(spec) if model.weights in inventory.missing_additional)
    return tuple(model for model in (*main, *additional) if model.weights not in inventory.copies)


def transfer_job_place(spec: Spec, inventory: CloudInventory) -> JobPlace | None:
    """The machines of the first transfer job that the plan starts; None if it starts none."""
    if moved_by_job(spec, inventory):
        return spec.cloud.job
    second = spec.candidate.spec if spec.candidate else None
    return transfer_job_place(second, inventory.candidate) if second and inventory.candidate else None


def transfer_job_name(spec: Spec) -> str:
    """The same whichever of the models are missing: a job that has moved some of them is not replaced by another."""
    names = (weights_of(spec), *(model.weights for model in _hub_models(spec)))
    return resource_name(spec.name, [*names, _job_settings(spec)])


def _hub_models(spec: Spec) -> tuple[MovedModel, ...]:
    """The adapters and the draft model that are on the Hub, each repository once."""
    found = {
        each.weights_name: _additional_model(each) for each in spec.weights.additional if each.source == "hub"
    }
    return tuple(found.values())


def _main_model(spec: Spec) -> MovedModel:
    """NotCompiled for a result, which only `lmi compile` writes."""
    if spec.weights.compiled:
        raise NotCompiled(
            f"{weights_of(spec)}: the bucket has lost files of this result of `lmi compile`",
            hint="run `lmi compile` with the recipe again: it compiles again",
        )
    return MovedModel(
        weights=weights_of(spec),
        model_id=spec.model.model_id,
        commit=spec.model.commit,
        size=spec.weights.size,
    )


def _additional_model(model: AdditionalModel) -> MovedModel:
    return MovedModel(
        weights=model.weights_name,
        model_id=model.model_id,
        commit=model.commit,
        size=model.size,
        what=model.title,
    )


def _push_from_here(spec: Spec, inventory: CloudInventory, moved: Collection[str]) -> Iterator[PushWeights]:
    """What no job moves."""
    if not inventory.weights and weights_of(spec) not in moved:
        yield _push(spec, _main_model(spec), inventory.copies)
    missing = {each.weights_name: each for each in spec.weights.additional}
    for name, each in missing.items():
        if name in inventory.missing_additional and name not in moved:
            yield _push(spec, _additional_model(each), inventory.copies)


def _push(spec: Spec, model: MovedModel, copies: Mapping[str, str]) -> PushWeights:
    return PushWeights(
        weights=model.weights,
        model_id=model.model_id,
        commit=model.commit,
        via=spec.cloud.travel.via if spec.cloud.job is None else "stream",
        size=model.size,
        what=model.what,
        origin=copies.get(model.weights, ""),
    )


def _stop_jobs(desired: Sequence[str], observed: CloudObserved) -> Iterator[StopTransferJob]:
    """Jobs that an earlier `up` started and for which no process waits any more: they cost until they end. For a load
    job an `lmi bench` may wait: it holds the lock, under which this plan is not carried out.
    """
    for job in observed.jobs:
        is_desired = any(is_attempt(job.name, name) for name in desired)
        if job.is_running and job.purpose == "transfer" and not is_desired:
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
    """The model's own files alone."""
    main = _main_model(spec)
    return _push(spec, main, {}) if spec.cloud.job is None else _run_job(spec, (main,))


def _run_job(spec: Spec, models: tuple[MovedModel, ...]) -> RunTransferJob:
    return RunTransferJob(job=transfer_job_name(spec), models=models, settings=_job_settings(spec))


def _job_settings(spec: Spec) -> JobSettings:
    place, job = spec.cloud, spec.cloud.job
    assert job is not None, "only a recipe with weights.via: job has a transfer job"
    hub = (("HF_ENDPOINT", job.hub),) if job.hub else ()
    return JobSettings(
        role=job.role,
        image=job.image,
        instance=job.instance,
        count=job.count,
        volume_gb=job.volume_gb,
        command=(),
        environment=(("AWS_REGION", place.region), *hub),
        inputs=(),
        timeout=job.timeout,
        kms_key=place.kms_key,
        vpc=place.vpc,
    )


def _require_default(spec: Spec) -> None:
    """Only the account's own default bucket is created; a custom name may be a mistake."""
    place = spec.cloud
    if place.bucket != default_bucket(place.account, place.region):
        raise NotFound(
            f"s3://{place.bucket}: no such bucket in {place.region}",
            hint="create it (aws s3 mb), or omit endpoint.bucket: lmi then creates the account's default bucket",
        )
