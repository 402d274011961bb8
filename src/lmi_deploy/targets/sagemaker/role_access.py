"""Whether the role of a recorded generation exists, and may still do what each new instance of it needs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from lmi_deploy.domain.observed_state import CloudObserved
from lmi_deploy.domain.permissions import SAGEMAKER, Condition, Permission, PolicyStatement
from lmi_deploy.domain.record import Generation
from lmi_deploy.domain.s3_address import read_prefix
from lmi_deploy.domain.sagemaker.async_layout import async_prefix
from lmi_deploy.domain.sagemaker.s3_layout import artifact_prefix
from lmi_deploy.domain.weights import weights_prefix
from lmi_deploy.errors import AccessError, CloudError, NotFound, Refused
from lmi_deploy.ports.cloud import Cloud
from lmi_deploy.targets.sagemaker.permissions.arns import key_resource, repository_resource
from lmi_deploy.targets.sagemaker.roles import ROLE_REMEDY


def with_role(observed: CloudObserved, cloud: Cloud) -> CloudObserved:
    """And, by about six requests more, what the role of the current generation lacks."""
    current = observed.record.current if observed.record else None
    if current is None or observed.endpoint is None or observed.not_owned_reason:
        return observed
    return replace(observed, role_problem=role_problem(current, observed, cloud))


def role_problem(generation: Generation, observed: CloudObserved, cloud: Cloud) -> str:
    """In words; empty if nothing is wrong, or these credentials may not ask: the right to ask is optional."""
    role = generation.serving.cloud.role
    name = role.rpartition("/")[2]
    if not role:
        return ""
    try:
        if why := cloud.roles.assumable(role, SAGEMAKER):
            return f"the role {name}: {why}"
        lacking = cloud.roles.lacking(role, tuple(_needed(generation, observed)))
    except NotFound:
        return f"its role {name} does not exist"
    except (AccessError, CloudError):
        return ""
    resources: dict[str, list[str]] = {}
    for one in lacking:
        resources.setdefault(one.action, []).append(one.resource.rpartition(":")[2])
    missing = "; ".join(f"{action} on {', '.join(found)}" for action, found in resources.items())
    return f"its role {name} may not {missing}" if missing else ""


def require_role(generation: Generation, observed: CloudObserved, cloud: Cloud) -> None:
    if problem := role_problem(generation, observed, cloud):
        raise Refused(
            f"{observed.ref.name}: no instance of {generation.server} would start: {problem}",
            hint=f"{ROLE_REMEDY} Nothing was changed",
        )


def _needed(generation: Generation, observed: CloudObserved) -> Iterator[Permission]:
    """Less than `lmi iam` prints: without the others an instance starts all the same."""
    serving, place = generation.serving, generation.serving.cloud
    _, partition, _, _, account, _ = place.role.split(":", 5)
    s3 = f"arn:{partition}:s3:::"
    name, bucket = observed.ref.name, f"{s3}{observed.ref.bucket}"

    def may(action: str, *resources: str, conditions: tuple[Condition, ...] = ()) -> tuple[Permission, ...]:
        return PolicyStatement(
            sid="", actions=(action,), resources=resources, why="", conditions=conditions
        ).rights

    if serving.in_place is not None:
        yield from may("s3:GetObject", _objects(s3, serving.in_place.address))
        yield from may("kms:Decrypt", *serving.in_place.kms_keys)
    yield from may("ecr:BatchGetImage", *(repository_resource(each, partition) for each in serving.images))
    if generation.artifact:  # not of an adopted one, whose files are where its owner keeps them
        prefixes = [artifact_prefix(name, stored) for stored in generation.artifacts]
        if place.delivery != "artifact":
            prefixes += [weights_prefix(stored) for stored in serving.loaded_weights]
        if place.async_output:
            prefixes.append(async_prefix(name))
        yield from may("s3:ListBucket", bucket)
        yield from may("s3:GetObject", *(f"{bucket}/{prefix}*" for prefix in prefixes))
        if place.kms_key:
            keys = f"arn:{partition}:kms:{place.region}:{account}:key"
            key, conditions = key_resource(place.kms_key, keys)
            yield from may("kms:Decrypt", key, conditions=conditions)
    if place.async_output:
        yield from may("s3:PutObject", _objects(s3, place.async_output))
    if place.data_capture is not None:
        yield from may("s3:PutObject", _objects(s3, place.data_capture.output))
    if place.vpc is not None:
        yield from may("ec2:CreateNetworkInterface", "*")


def _objects(s3: str, address: str) -> str:
    prefix = read_prefix(address)
    return f"{s3}{prefix.bucket}/{prefix.path}*"
