"""Find everything that would stop a deployment on SageMaker, before any transfer, and report it together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from lmi_deploy.domain.action import Phase
from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.number_text import counted
from lmi_deploy.domain.permissions import SAGEMAKER, SCHEDULER, Permission
from lmi_deploy.domain.plan import Plan
from lmi_deploy.domain.sagemaker.actions import CreateModel, MakeBucket, ScheduleDeletion
from lmi_deploy.domain.sagemaker.alarm_actions import SetAlarms
from lmi_deploy.domain.sagemaker.component_actions import CreateSharedEndpoint
from lmi_deploy.domain.sagemaker.job_actions import RunTransferJob
from lmi_deploy.domain.sagemaker.scaling_actions import SetInstanceCount
from lmi_deploy.domain.sagemaker.transfer_job import JOBS, JobSettings
from lmi_deploy.domain.target_spec import CompilePlace, SageMakerPlace
from lmi_deploy.errors import AccessError, CloudError, LmiError, NotFound, QuotaExceeded
from lmi_deploy.ports.cloud import Cloud
from lmi_deploy.ports.quotas import ServiceQuota
from lmi_deploy.targets.sagemaker.permissions import Policies, Policy, policies
from lmi_deploy.targets.sagemaker.permissions.load_job_policy import load_sender
from lmi_deploy.targets.target import PreflightFindings

OPTIONAL_PERMISSIONS: Final = ("logs:", "cloudwatch:PutMetricData", "ec2:Describe")
"""Rights of the role without which an endpoint still serves."""
_NEEDED: Final = (
    *("sagemaker:Create", "sagemaker:Update", "sagemaker:AddTags", "sagemaker:DescribeEndpoint"),
    *(
        "iam:PassRole",
        "scheduler:",
        "s3:GetObject",
        "s3:PutObject",
        "s3:ListBucket",
        "application-autoscaling:Put",
    ),
    *("application-autoscaling:Register", "cloudwatch:PutMetricAlarm", "cloudwatch:TagResource"),
)
"""Permissions of the deployer without which an `up` fails; the others are for later commands."""
_FOR_BUCKET: Final = ("s3:CreateBucket", "s3:PutBucket", "s3:PutEncryption")


@dataclass(frozen=True, slots=True)
class PreflightFinding:
    """One finding that prevents a deployment, or (without an error) a notice."""

    text: str
    error: type[LmiError] | None = None
    hint: str = ""


_Check = tuple[str, Callable[[], Iterable[PreflightFinding]]]


def preflight(
    spec: Spec, plan: Plan, open_cloud: Callable[[], Cloud], recipe: str, *, quick: bool = False
) -> PreflightFindings:
    """What would stop the plan; if nothing is created, only whether the role still has what the recipe needs of it, and
    if `quick`, whether it exists: one request. `recipe` is its name for a command line.
    """
    creates = plan.has_action(CreateModel) or plan.has_action(Phase.START)
    # IAM's simulation takes the asterisk of `regions` for a name: only this region is asked.
    spec = replace(spec, place=replace(spec.cloud, regions=()))
    place, cloud = spec.cloud, open_cloud()
    required, made = policies(spec), plan.has_action(MakeBucket)
    deployer = required.deployer
    topic: _Check = ("the topic of the alarms", lambda: topic_findings(plan, place, cloud))
    checks: tuple[_Check, ...] = (
        ("the role", lambda: role_findings(place.role, required.execution, cloud, recipe)),
        ("the role of the transfer job", lambda: _job_role(plan, place, required, cloud, recipe)),
        ("the role of the schedule", lambda: _scheduler_role(plan, place, required, cloud, recipe)),
        ("your own permissions", lambda: deployer_findings(deployer, cloud, recipe, makes_bucket=made)),
        ("the quota", lambda: _quota(spec, cloud) if _takes_instances(plan, place) else ()),
        ("the secret", lambda: secret_findings(place.token_secret, place.region, cloud)),
        topic,
    )
    if creates:
        return _findings(spec.name, checks)
    found = _findings(spec.name, (topic,))
    rights = Policy(grants=()) if quick else required.execution
    lost = _lost_rights(role_findings(place.role, rights, cloud, recipe))
    return replace(found, notices=(*found.notices, *lost))


def _lost_rights(findings: Iterator[PreflightFinding]) -> tuple[str, ...]:
    """Of a running deployment, as one notice. The right to ask is optional: without it nothing is said."""
    with suppress(AccessError, CloudError, NotFound):
        if lost := [one for one in findings if one.error]:
            more = f" (and {counted(len(lost) - 1, 'more right')})" if lost[1:] else ""
            return (f"no new instance would start: {lost[0].text}{more}; {lost[0].hint}",)
    return ()


def preflight_compile(spec: Spec, plan: Plan, cloud: Cloud, recipe: str) -> tuple[str, ...]:
    """Notices; raises what would stop `lmi compile`: the role of its job, the caller's permissions, the quota."""
    place, required = spec.cloud.compile, policies(spec)
    if place is None or required.compile is None:
        return ()
    role, job = place.role, required.compile
    makes_bucket = plan.has_action(MakeBucket)
    checks: tuple[_Check, ...] = (
        ("the role of the job", lambda: role_findings(role, job, cloud, recipe)),
        (
            "your own permissions",
            lambda: deployer_findings(required.deployer, cloud, recipe, makes_bucket=makes_bucket),
        ),
        ("the quota", lambda: _job_quota(place, cloud)),
    )
    return _notices(_findings(spec.name, checks))


def preflight_load(name: str, settings: JobSettings, cloud: Cloud, bucket: str) -> tuple[str, ...]:
    """The same for `lmi bench --via job`: the role of the job, and the quota of its instance type."""
    caller, recipe = cloud.caller, "RECIPE --set bench.via=job"
    at = f"arn:{caller.partition}"
    rights = Policy(
        grants=tuple(
            load_sender(
                endpoint=f"{at}:sagemaker:{caller.region}:{caller.account}:endpoint/{name}",
                bucket=f"{at}:s3:::{bucket}",
                objects=(f"{at}:s3:::{bucket}/{JOBS}{name}-{'0' * 10}/*",),
            )
        )
    )
    quota = partial(_processing_quota, settings.instance, settings.count, cloud, "another instance type")
    checks: tuple[_Check, ...] = (
        ("the role of the load job", lambda: role_findings(settings.role, rights, cloud, recipe, made=False)),
        ("the quota", quota),
    )
    return _notices(_findings(name, checks))


def topic_findings(plan: Plan, place: SageMakerPlace, cloud: Cloud) -> Iterator[PreflightFinding]:
    """Whether the alarms reach anybody: CloudWatch creates them without looking at the topic."""
    if place.alarms is None or not plan.has_action(SetAlarms):
        return
    topic = place.alarms.topic
    try:
        subscriptions = cloud.topics.subscriptions(topic)
    except NotFound:
        name, region = topic.rpartition(":")[2], place.region
        text = f"endpoint.alarms.topic: {topic}: no such topic"
        yield PreflightFinding(
            text, NotFound, f"create it: aws sns create-topic --name {name} --region {region}"
        )
        return
    if not subscriptions:
        yield PreflightFinding(
            f"no one is notified: {topic} has no confirmed subscription. Subscribe to it, and confirm the e-mail: aws "
            f"sns subscribe --topic-arn {topic} --protocol email --notification-endpoint YOU@EXAMPLE.COM"
        )


def _findings(name: str, checks: Iterable[_Check]) -> PreflightFindings:
    found = [one for what, check in checks for one in _run_check(what, check)]
    stopping = [one for one in found if one.error is not None]
    return PreflightFindings(
        notices=tuple(one.text for one in found if one.error is None),
        refusal=_refusal(name, stopping) if stopping else None,
    )


def _notices(findings: PreflightFindings) -> tuple[str, ...]:
    if findings.refusal is not None:
        raise findings.refusal
    return findings.notices


def _run_check(what: str, check: Callable[[], Iterable[PreflightFinding]]) -> Iterator[PreflightFinding]:
    """A check that is not permitted, or whose resource does not exist, does not stop the command; it is reported."""
    try:
        yield from check()
    except (AccessError, CloudError, NotFound) as error:
        yield PreflightFinding(f"not checked: {what}: {error.message}")


def _refusal(name: str, stopping: list[PreflightFinding]) -> LmiError:
    kind = stopping[0].error
    assert kind is not None
    hints = "; ".join(dict.fromkeys(part for one in stopping if one.hint for part in one.hint.split("; ")))
    if len(stopping) == 1:
        return kind(stopping[0].text, hint=hints)
    count = f"{name}: {counted(len(stopping), 'problem')}; nothing was created"
    return kind(count, hint=hints, details=[one.text for one in stopping])


def _job_role(
    plan: Plan, place: SageMakerPlace, required: Policies, cloud: Cloud, recipe: str
) -> Iterator[PreflightFinding]:
    """Only if a job will run: existing weights need none."""
    if place.job is not None and required.job is not None and plan.has_action(RunTransferJob):
        yield from role_findings(place.job.role, required.job, cloud, recipe)


def _scheduler_role(
    plan: Plan, place: SageMakerPlace, required: Policies, cloud: Cloud, recipe: str
) -> Iterator[PreflightFinding]:
    if required.scheduler is not None and plan.has_action(ScheduleDeletion):
        yield from role_findings(place.scheduler_role, required.scheduler, cloud, recipe, service=SCHEDULER)


def role_findings(
    role: str, policy: Policy, cloud: Cloud, recipe: str, *, service: str = SAGEMAKER, made: bool = True
) -> Iterator[PreflightFinding]:
    """Whether it exists, trusts the service, and has the rights. `made`: whether `lmi bootstrap` makes such a role."""
    iam = f"`lmi iam {recipe}` prints what the role {role} needs"
    setup = f"; `lmi bootstrap {recipe}` sets up the bucket and the roles" if made else ""
    try:
        why = cloud.roles.assumable(role, service)
    except NotFound as error:
        yield PreflightFinding(error.message, NotFound, f"{iam}, and the commands that create it{setup}")
        return
    if why:
        yield PreflightFinding(f"the role {role}: {why}", AccessError, f"{iam}{setup}")
        return
    lacking = cloud.roles.lacking(role, policy.rights) if policy.rights else ()
    for right in lacking:
        if not right.action.startswith(OPTIONAL_PERMISSIONS):
            yield PreflightFinding(f"the role {role} may not {_words(right)}", AccessError, f"{iam}{setup}")
    optional = sorted({one.action for one in lacking if one.action.startswith(OPTIONAL_PERMISSIONS)})
    if optional:
        yield PreflightFinding(
            f"the role {role} lacks permissions without which it still works: {', '.join(optional)}"
        )


def deployer_findings(
    deployer: Policy, cloud: Cloud, recipe: str, *, makes_bucket: bool
) -> Iterator[PreflightFinding]:
    """The caller's own permissions."""
    needed = (*_NEEDED, *_FOR_BUCKET) if makes_bucket else _NEEDED
    lacking = cloud.roles.lacking(cloud.caller.arn, deployer.rights)
    for right in lacking:
        text = f"{cloud.caller.arn} may not {_words(right)}"
        if right.action.startswith(needed):
            yield PreflightFinding(text, AccessError, f"`lmi iam {recipe}` prints what deploying it needs")
    later = sorted({right.action for right in lacking if not right.action.startswith(needed)})
    if later:
        yield PreflightFinding(f"{cloud.caller.arn} lacks permissions for later steps: {', '.join(later)}")


def _words(right: Permission) -> str:
    return f"{right.action} on {right.resource}"


def _takes_instances(plan: Plan, place: SageMakerPlace) -> bool:
    """Whether the plan creates an endpoint or adds instances: a shared one may run already."""
    return (
        place.component is None or plan.has_action(CreateSharedEndpoint) or plan.has_action(SetInstanceCount)
    )


def _quota(spec: Spec, cloud: Cloud) -> Iterator[PreflightFinding]:
    place, second = spec.cloud, spec.candidate and spec.candidate.spec
    types = [name for one in place.placements for name in one.types]  # one, if the recipe has a candidate
    _, most = place.instances
    if second and second.cloud.placements[0].instance == types[0]:
        most += second.cloud.count
    elif second:
        yield from _quota(second, cloud)
    yield from quota_findings(types, most, place.region, cloud)


def quota_findings(
    instances: Sequence[str], most: int, region: str, cloud: Cloud
) -> Iterator[PreflightFinding]:
    """One available instance type is enough; the problems of the others are reported."""
    wrong = [one for instance in instances if (one := _instance(instance, most, region, cloud))]
    if len(wrong) == len(instances):
        yield from wrong
    else:
        yield from (PreflightFinding(one.text) for one in wrong)


def _instance(instance: str, most: int, region: str, cloud: Cloud) -> PreflightFinding | None:
    quota = cloud.limits.endpoint_instances(instance)
    if quota is None:
        text = f"{region} does not offer {instance} for endpoints"
        return PreflightFinding(text, CloudError, "choose another instance_type or endpoint.region")
    return _too_few(quota, most, region)


def _too_few(quota: ServiceQuota, needed: int, region: str) -> PreflightFinding | None:
    if quota.value >= needed:
        return None
    return PreflightFinding(
        f'the quota "{quota.name}" in {region} is {quota.value:g}, but the recipe may use {needed}',
        QuotaExceeded,
        "request an increase: aws service-quotas request-service-quota-increase --service-code sagemaker "
        f"--quota-code {quota.code} --desired-value {needed} --region {region}",
    )


def _job_quota(place: CompilePlace, cloud: Cloud) -> Iterator[PreflightFinding]:
    if place.what.compiler == "optimization":
        yield PreflightFinding(
            "the quota cannot be checked: SageMaker chooses the instance of an optimization job when it starts"
        )
        return
    other = "another compile.instance_type or endpoint.region"
    yield from _processing_quota(place.instance, 1, cloud, other)


def _processing_quota(instance: str, count: int, cloud: Cloud, other: str) -> Iterator[PreflightFinding]:
    region, quota = cloud.caller.region, cloud.limits.processing_instances(instance)
    if quota is None:
        text = f"{region} does not offer {instance} for processing jobs"
        yield PreflightFinding(text, CloudError, f"choose {other}")
    elif (finding := _too_few(quota, count, region)) is not None:
        yield finding


def secret_findings(secret: str, region: str, cloud: Cloud) -> Iterator[PreflightFinding]:
    if secret and not cloud.secrets.exists(secret):
        yield PreflightFinding(
            f"weights.token_secret: {secret}: no such secret in {region}",
            NotFound,
            f"aws secretsmanager create-secret --name {secret} --secret-string file://token --region {region}",
        )
