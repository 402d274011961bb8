"""Notices of a plan on SageMaker: problems of what exists, and effects that the actions alone do not explain."""

from __future__ import annotations

from collections.abc import Iterator

from lmi_deploy.catalog.instances import instance
from lmi_deploy.domain.action import Phase
from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.gathered_facts import Facts
from lmi_deploy.domain.observed_state import CloudObserved
from lmi_deploy.domain.plan import Plan
from lmi_deploy.domain.recipe_keys import Recipe
from lmi_deploy.domain.sagemaker.actions import (
    CreateEndpoint,
    CreateEndpointConfig,
    CreateModel,
    DeleteEndpoint,
    UpdateEndpoint,
)
from lmi_deploy.domain.sagemaker.job_actions import RunTransferJob
from lmi_deploy.domain.target_spec import SageMakerPlace
from lmi_deploy.planning.render import render
from lmi_deploy.recipe.checks.notices import SAME_CANDIDATE
from lmi_deploy.sizing.neuron_pipeline import pipeline_notice
from lmi_deploy.targets.sagemaker.costs import other_scaling_words
from lmi_deploy.targets.sagemaker.desired_state import desired_state
from lmi_deploy.targets.sagemaker.download_time import late_start
from lmi_deploy.targets.sagemaker.in_place import in_place_notices
from lmi_deploy.targets.sagemaker.plan.expiry_actions import expiry_notice, unscheduled_notice
from lmi_deploy.targets.sagemaker.plan.rollback import earlier
from lmi_deploy.targets.sagemaker.status import failed_update_reason, missing_words
from lmi_deploy.targets.sagemaker.transfer_job.resolve import job_notices


def observed_notices(observed: CloudObserved, plan: Plan) -> tuple[str, ...]:
    """An expiry, an update that failed, parts that were deleted under the endpoint, the way back to what served."""
    failed = ""
    if observed.endpoint and observed.record and not observed.not_owned_reason:
        failed = failed_update_reason(observed.endpoint, observed.record)
    found = (
        expiry_notice(observed, plan),
        failed,
        _missing_parts(observed, plan),
        _goes_back(observed, plan),
        _scaled_elsewhere(observed),
    )
    return tuple(filter(None, found))


def _goes_back(observed: CloudObserved, plan: Plan) -> str:
    """Two people whose checkouts differ replace each other's version, and each `up` looks like any update."""
    configs = {action.config for action in plan.actions if isinstance(action, UpdateEndpoint)}
    number = next((at for at, one in enumerate(earlier(observed), 1) if one.server in configs), 0)
    serves = observed.record.periods[-1] if number and observed.record else None
    if serves is None or serves.server != observed.serving:
        return ""
    by = f" by {serves.by.words}" if serves.by.words else ""
    return (
        f"{observed.ref.name} goes back to an earlier version ({number} back, as `lmi status` numbers them); the one "
        f"that serves was put there at {serves.since}{by}"
    )


def _scaled_elsewhere(observed: CloudObserved) -> str:
    words = other_scaling_words(observed)
    return f"{observed.ref.name} has {words}" if words else ""


def _missing_parts(observed: CloudObserved, plan: Plan) -> str:
    words, name = missing_words(observed), observed.ref.name
    if not words or not plan.has_action(DeleteEndpoint):
        return words
    return (
        f"{words}. This plan has other settings: it deletes the endpoint {name} and creates it again; {name} does "
        "not answer while this runs. To avoid this, first run `lmi up` with the deployed recipe"
    )


def plan_notices(recipe: Recipe, facts: Facts, spec: Spec, plan: Plan) -> tuple[str, ...]:
    """What the key does not encrypt, what a transfer job cannot reach, and the cores that lmi chose."""
    return (
        *_same_candidate(spec),
        *(in_place_notices(recipe, facts) if plan.has_action(CreateModel) else ()),
        *filter(None, (pipeline_notice(recipe, facts.config),)),
        *(
            filter(None, (late_start(spec.cloud, spec.weights.total_size),))
            if plan.has_action(Phase.START)
            else ()
        ),
        *(filter(None, (unscheduled_notice(spec),)) if plan.has_action(CreateEndpoint) else ()),
        *(key_notices(spec.cloud) if plan.has_action(CreateEndpointConfig) else ()),
        *(job_notices(recipe, facts) if plan.has_action(RunTransferJob) else ()),
    )


def _same_candidate(spec: Spec) -> Iterator[str]:
    """A candidate that has the model, with its artifact and image, and the instance type of the version that serves."""
    second = spec.candidate
    if second is None or second.spec.cloud.placements != spec.cloud.placements:
        return
    if len(desired_state(spec, render(spec)).models) == 1:
        yield SAME_CANDIDATE


def key_notices(place: SageMakerPlace) -> Iterator[str]:
    """Source: SageMaker's API reference, CreateEndpointConfig, KmsKeyId."""
    types = sorted(
        {
            name
            for one in place.placements
            for name in one.types
            if (machine := instance(name)) and machine.refuses_volume
        }
    )
    if place.kms_key and types:
        yield (
            f"endpoint.kms_key does not encrypt the local disks of {', '.join(types)}, which hold the weights: the "
            "instance encrypts those itself, with its own key"
        )
