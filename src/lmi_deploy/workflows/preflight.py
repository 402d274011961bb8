"""What would stop a deployment in the cloud, looked for before a byte moves: all of it at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from lmi_deploy.domain.permissions import Right
from lmi_deploy.domain.sagemaker.actions import (
    CreateEndpoint,
    CreateModel,
    MakeBucket,
    RunTransferJob,
    UpdateEndpoint,
)
from lmi_deploy.domain.target_spec import SageMakerPlace
from lmi_deploy.errors import AccessError, CloudError, LmiError, NotFound, QuotaExceeded
from lmi_deploy.ports.cloud import Cloud
from lmi_deploy.targets.sagemaker.permissions import Policies, Policy, policies
from lmi_deploy.workflows.dependencies import Deps
from lmi_deploy.workflows.deployment_plan import Case

_CREATES: Final = (CreateModel, CreateEndpoint, UpdateEndpoint)
_COMFORT: Final = ("logs:", "cloudwatch:", "ec2:Describe")
"""Rights of the role without which an endpoint still serves."""
_NEEDED: Final = (
    *("sagemaker:Create", "sagemaker:Update", "sagemaker:AddTags", "sagemaker:DescribeEndpoint"),
    *("iam:PassRole", "s3:GetObject", "s3:PutObject", "s3:ListBucket", "application-autoscaling:Put"),
    *("application-autoscaling:Register",),
)
"""Rights of who deploys without which an `up` ends on its way; the others are for what may come later."""
_FOR_BUCKET: Final = ("s3:CreateBucket", "s3:PutBucket", "s3:PutEncryption")


@dataclass(frozen=True, slots=True)
class Found:
    """One thing that stops it, or (without an error) that should be known."""

    text: str
    error: type[LmiError] | None = None
    hint: str = ""


def preflight(case: Case, deps: Deps) -> tuple[str, ...]:
    """What should be known. Raises for all that stops the plan, in one error; asks nothing where nothing is made."""
    place = case.spec.place
    if not isinstance(place, SageMakerPlace) or not case.does(_CREATES):
        return ()
    cloud = deps.cloud(place.region)
    iam = f"`lmi iam {case.recipe}` prints what"
    wanted = policies(case.spec)
    checks: tuple[tuple[str, Callable[[], Iterable[Found]]], ...] = (
        ("the role", lambda: _role(place.role, wanted.execution, cloud, iam)),
        ("the role of the transfer job", lambda: _job_role(case, place, wanted, cloud, iam)),
        ("your own rights", lambda: _rights(case, cloud, iam)),
        ("the quota", lambda: _quota(place, cloud)),
        ("the secret", lambda: _secret(place, cloud)),
    )
    found = [one for what, check in checks for one in _asked(what, check)]
    stopping = [one for one in found if one.error is not None]
    if stopping:
        raise _refusal(case.spec.name, stopping)
    return tuple(one.text for one in found)


def _asked(what: str, check: Callable[[], Iterable[Found]]) -> Iterator[Found]:
    """What may not be looked at, or cannot be found, is no reason to stop, and is said."""
    try:
        yield from check()
    except (AccessError, CloudError, NotFound) as error:
        yield Found(f"not checked: {what}: {error.message}")


def _refusal(name: str, stopping: list[Found]) -> LmiError:
    kind = stopping[0].error
    assert kind is not None
    hints = "; ".join(dict.fromkeys(one.hint for one in stopping if one.hint))
    if len(stopping) == 1:
        return kind(stopping[0].text, hint=hints)
    count = f"{name}: {len(stopping)} things stand in the way; nothing was made"
    return kind(count, hint=hints, details=[one.text for one in stopping])


def _job_role(case: Case, place: SageMakerPlace, wanted: Policies, cloud: Cloud, iam: str) -> Iterator[Found]:
    """Where a job is about to run: it is not needed for weights that are there."""
    if place.job is not None and wanted.job is not None and case.does((RunTransferJob,)):
        yield from _role(place.job.role, wanted.job, cloud, iam)


def _role(role: str, policy: Policy, cloud: Cloud, iam: str) -> Iterator[Found]:
    iam = f"{iam} the role {role} needs"
    try:
        why = cloud.roles.assumable(role)
    except NotFound as error:
        yield Found(error.message, NotFound, f"{iam}, and the commands that make it")
        return
    if why:
        yield Found(f"the role {role}: {why}", AccessError, iam)
        return
    for right in cloud.roles.lacking(role, policy.rights):
        text = f"the role {role} may not {_words(right)}"
        comfort = right.action.startswith(_COMFORT)
        yield Found(text) if comfort else Found(text, AccessError, iam)


def _rights(case: Case, cloud: Cloud, iam: str) -> Iterator[Found]:
    makes_bucket = case.does(MakeBucket)
    needed = (*_NEEDED, *_FOR_BUCKET) if makes_bucket else _NEEDED
    lacking = cloud.roles.lacking(cloud.caller.arn, policies(case.spec).deployer.rights)
    for right in lacking:
        text = f"{cloud.caller.arn} may not {_words(right)}"
        if right.action.startswith(needed):
            yield Found(text, AccessError, f"{iam} deploying it needs")
    later = sorted({right.action for right in lacking if not right.action.startswith(needed)})
    if later:
        yield Found(f"{cloud.caller.arn} may not do what is needed later: {', '.join(later)}")


def _words(right: Right) -> str:
    return f"{right.action} on {right.resource}"


def _quota(place: SageMakerPlace, cloud: Cloud) -> Iterator[Found]:
    """One instance type that can be had is enough; what is wrong with the others is said."""
    most = place.scaling.most if place.scaling else place.count
    wrong = [one for p in place.placements if (one := _instance(p.instance, most, place.region, cloud))]
    if len(wrong) == len(place.placements):
        yield from wrong
    else:
        yield from (Found(one.text) for one in wrong)


def _instance(instance: str, most: int, region: str, cloud: Cloud) -> Found | None:
    quota = cloud.limits.endpoint_instances(instance)
    if quota is None:
        text = f"{region} does not offer {instance} for endpoints"
        return Found(text, CloudError, "choose another instance_type or endpoint.region")
    if quota.value >= most:
        return None
    return Found(
        f'the quota "{quota.name}" in {region} is {quota.value:g}, and the recipe may take {most}',
        QuotaExceeded,
        f"ask for more: aws service-quotas request-service-quota-increase --service-code sagemaker "
        f"--quota-code {quota.code} --desired-value {most} --region {region}",
    )


def _secret(place: SageMakerPlace, cloud: Cloud) -> Iterator[Found]:
    if place.token_secret and not cloud.secrets.exists(place.token_secret):
        yield Found(
            f"weights.token_secret: {place.token_secret}: no such secret in {place.region}",
            NotFound,
            f"aws secretsmanager create-secret --name {place.token_secret} --secret-string file://token "
            f"--region {place.region}",
        )
