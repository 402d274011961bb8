"""What `lmi doctor` asks of an account: the checks before a deployment, for one recipe or for none in particular."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from lmi_deploy.catalog import sagemaker_limits
from lmi_deploy.domain.default_bucket import default_bucket
from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.gathered_facts import CloudFacts
from lmi_deploy.domain.recipe_keys import AUTO_INSTANCE, Recipe
from lmi_deploy.domain.setup_findings import SetupFinding, absent
from lmi_deploy.errors import AccessError, CloudError, NotFound
from lmi_deploy.ports.cloud import Cloud
from lmi_deploy.recipe.name_suggestions import suggestion_text
from lmi_deploy.targets.sagemaker.permissions import Policy, policies
from lmi_deploy.targets.sagemaker.preflight import (
    PreflightFinding,
    deployer_findings,
    quota_findings,
    role_findings,
    secret_findings,
)
from lmi_deploy.targets.sagemaker.roles import ENDPOINT_ROLE, role_arn

USUAL_INSTANCES: Final = ("ml.g5.xlarge", "ml.g5.2xlarge", "ml.g6.xlarge", "ml.g5.12xlarge", "ml.m5.xlarge")
"""Their quota is shown without a recipe; they are the ones that beginners' recipes use."""
_NO_RIGHTS: Final = Policy(grants=())


def region_check(region: str) -> Iterator[SetupFinding]:
    """`region`: empty if none is set."""
    known = sagemaker_limits.names("regions")
    if not region:
        yield SetupFinding("warning", "none is set", "set AWS_REGION, or endpoint.region in the recipe")
    elif region in known:
        yield SetupFinding("ok", region)
    else:
        near = suggestion_text(region, known)
        yield SetupFinding(
            "broken", f"{region}: no such AWS region", near or "set AWS_REGION to one such as us-east-1"
        )


def role_check(cloud: Cloud, recipe: Recipe | None) -> Iterator[SetupFinding]:
    """Of a recipe the role that it names. Without one, the role of lmi may be absent: not everybody deploys."""
    role = role_arn(
        recipe.endpoint.role if recipe else None, _facts(cloud), default=ENDPOINT_ROLE, key="endpoint.role"
    )
    found = role_findings(role, _NO_RIGHTS, cloud, recipe.arguments if recipe else "RECIPE")
    yield from _translated(found, required=recipe is not None, ok=f"{role}: SageMaker may assume it")


def bucket_check(cloud: Cloud, recipe: Recipe | None) -> Iterator[SetupFinding]:
    named = recipe.endpoint.bucket if recipe else None
    bucket = named or default_bucket(cloud.caller.account, cloud.caller.region)
    if cloud.account.has_bucket(bucket):
        advice = cloud.account.upload_rule_advice(bucket)
        state = "warning" if advice else "ok"
        why = ": incomplete uploads in it are never removed, and cost" if advice else ""
        yield SetupFinding(state, f"s3://{bucket}{why}", advice)  # type: ignore[arg-type]
    elif named:
        yield absent(
            f"s3://{bucket}: no such bucket",
            "create it, or omit endpoint.bucket: `lmi up` then creates the account's default bucket",
            required=True,
        )
    else:
        yield SetupFinding("ok", f"s3://{bucket} does not exist yet; `lmi up` creates it")


def quota_check(cloud: Cloud, recipe: Recipe | None) -> Iterator[SetupFinding]:
    region = cloud.caller.region
    if recipe is None:
        yield _usual_quotas(cloud)
        return
    if recipe.instance_type == AUTO_INSTANCE:
        yield SetupFinding("not-checked", "instance_type: auto: `lmi plan` chooses the type, and checks it")
        return
    scaling = recipe.endpoint.autoscaling
    most = (scaling.most if scaling else None) or recipe.endpoint.count or 1
    instances = recipe.instance_type
    found = quota_findings(instances, most, region, cloud)
    yield from _translated(
        found, required=True, ok=f"enough for {most} of {' or '.join(instances)} in {region}"
    )


def secret_check(cloud: Cloud, recipe: Recipe) -> Iterator[SetupFinding]:
    secret = recipe.weights.token_secret or ""
    found = secret_findings(secret, cloud.caller.region, cloud)
    yield from _translated(found, required=True, ok=f"{secret}: exists in {cloud.caller.region}")


def permission_check(cloud: Cloud, spec: Spec, recipe: str) -> Iterator[SetupFinding]:
    """Of the caller, and of the execution role: what this deployment needs."""
    required, place = policies(spec), spec.cloud
    makes_bucket = not cloud.account.has_bucket(place.bucket)
    own = deployer_findings(required.deployer, cloud, recipe, makes_bucket=makes_bucket)
    yield from _translated(own, required=True, ok=f"{cloud.caller.arn} may deploy it")
    role = role_findings(place.role, required.execution, cloud, recipe)
    yield from _translated(role, required=True, ok=f"{place.role} has what the container needs")


def _usual_quotas(cloud: Cloud) -> SetupFinding:
    asked = {instance: cloud.limits.endpoint_instances(instance) for instance in USUAL_INSTANCES}
    known = {instance: quota.value for instance, quota in asked.items() if quota is not None}
    text = ", ".join(f"{instance} {value:g}" for instance, value in known.items())
    if any(known.values()):
        return SetupFinding("ok", f"instances for endpoints in {cloud.caller.region}: {text}")
    return SetupFinding(
        "warning",
        f"instances for endpoints in {cloud.caller.region}: {text or 'none of the usual types is offered'}",
        "request a quota in the console (Service Quotas, SageMaker), or check a recipe's type: `lmi doctor RECIPE`",
    )


def _translated(found: Iterable[PreflightFinding], *, required: bool, ok: str) -> Iterator[SetupFinding]:
    """`ok` if nothing was found. What the caller may not read is not known to be wrong."""
    try:
        findings = tuple(found)
    except NotFound as error:
        yield absent(error.message, error.hint, required=required)
        return
    except (AccessError, CloudError) as error:
        yield SetupFinding("not-checked", error.message, error.hint)
        return
    for one in findings:
        if one.error is None:
            yield SetupFinding("warning", one.text, one.hint)
        else:
            yield absent(one.text, one.hint, required=required)
    if not any(one.error for one in findings):
        yield SetupFinding("ok", ok)


def _facts(cloud: Cloud) -> CloudFacts:
    caller = cloud.caller
    return CloudFacts(
        account=caller.account,
        partition=caller.partition,
        region=caller.region,
        principal=caller.arn,
        bucket="",
    )
