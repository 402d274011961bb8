"""Target sagemaker: what has to be brought into the bucket before an instance can start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from lmi_deploy.domain.artifact import Artifact
from lmi_deploy.domain.buckets import default_bucket
from lmi_deploy.domain.observed import CloudHeld, CloudObserved
from lmi_deploy.domain.plan import Action, Change, PutArtifact
from lmi_deploy.domain.recipe import Pairs
from lmi_deploy.domain.sagemaker.actions import MakeBucket, PushWeights, RunTransferJob, StopTransferJob
from lmi_deploy.domain.sagemaker.s3_layout import carried_files, stored_id, weights_of
from lmi_deploy.domain.sagemaker.settings import resource_name
from lmi_deploy.domain.sagemaker.transfer_job import JobSettings, is_attempt
from lmi_deploy.domain.spec import Spec
from lmi_deploy.domain.weights import flaws_in_words
from lmi_deploy.errors import NotFound


def storage(spec: Spec, artifact: Artifact, observed: CloudObserved, held: CloudHeld) -> Iterator[Action]:
    """What lies in the bucket. Looked after whatever serves: the next instance starts from it."""
    place = spec.cloud
    if not held.bucket:
        _require_default(spec)
        yield MakeBucket(bucket=place.bucket, region=place.region, kms_key=place.kms_key)
    bring = None if held.weights else _bring(spec)
    yield from _stop_jobs(bring, observed)
    if bring:
        yield bring
    stored, carried = stored_id(spec, artifact), carried_files(spec, artifact)
    files = (*(path for path, _ in carried), *(f.path for f in artifact.files))
    if stored not in observed.artifacts or _lacks(observed.stored.get(stored), files, carried):
        yield PutArtifact(artifact=stored, files=files)


def _stop_jobs(
    bring: PushWeights | RunTransferJob | None, observed: CloudObserved
) -> Iterator[StopTransferJob]:
    """Those that an earlier `up` began, and nobody waits for any more: they cost until their end."""
    wanted = bring.job if isinstance(bring, RunTransferJob) else ""
    for job in observed.jobs:
        if job.is_running and not (wanted and is_attempt(job.name, wanted)):
            yield StopTransferJob(job=job.name)


def _lacks(there: Mapping[str, int] | None, files: Sequence[str], carried: Sequence[tuple[str, int]]) -> bool:
    """Whether a file of the stored artifact was taken away, or one of the weights in it is of another size."""
    if there is None:
        return False
    return any(path not in there for path in files) or any(there.get(path) != size for path, size in carried)


def damage(held: CloudHeld) -> tuple[Change, ...]:
    """Weights of which the bucket has lost something since they were complete."""
    if not held.weights_flaws:
        return ()
    return (
        Change(
            field="weights files", before=flaws_in_words(held.weights_flaws), after="as the manifest says"
        ),
    )


def _bring(spec: Spec) -> PushWeights | RunTransferJob:
    place, weights, model = spec.cloud, weights_of(spec), spec.model
    if place.job is None:
        return PushWeights(
            weights=weights,
            model_id=model.model_id,
            commit=model.commit,
            via=place.travel.via,
            size=spec.weights.size,
        )
    settings = JobSettings(
        role=place.job.role,
        image=place.job.image,
        instance=place.job.instance,
        count=place.job.count,
        volume_gb=place.job.volume_gb,
        command=(),
        environment=_around(place.region, place.job.hub),
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


def _around(region: str, hub: str) -> Pairs:
    return (("AWS_REGION", region), *((("HF_ENDPOINT", hub),) if hub else ()))


def _require_default(spec: Spec) -> None:
    """Only the account's own default bucket is made; a name that somebody chose may be a mistake."""
    place = spec.cloud
    if place.bucket != default_bucket(place.account, place.region):
        raise NotFound(
            f"s3://{place.bucket}: no such bucket in {place.region}",
            hint="make it (aws s3 mb), or leave endpoint.bucket out: the account's default one is made",
        )
