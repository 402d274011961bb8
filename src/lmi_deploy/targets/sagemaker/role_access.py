"""Whether the role of a recorded generation exists, and may still do what each new instance of it needs."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from lmi_deploy.domain.observed_state import CloudObserved
from lmi_deploy.domain.permissions import SAGEMAKER
from lmi_deploy.domain.record import Generation
from lmi_deploy.errors import AccessError, CloudError, NotFound, Refused
from lmi_deploy.ports.cloud import Cloud
from lmi_deploy.targets.sagemaker.permissions.rights_in_use import rights_of
from lmi_deploy.targets.sagemaker.roles import ROLE_REMEDY

_CHECKED: Final = (
    *("ec2:CreateNetworkInterface", "ecr:BatchGetImage", "kms:Decrypt"),
    *("s3:GetObject", "s3:ListBucket", "s3:PutObject"),
)
"""Without the others an instance starts all the same, or none of them is missing alone."""


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
        rights = (right for statement in rights_of(observed.ref, generation) for right in statement.rights)
        lacking = cloud.roles.lacking(role, tuple(right for right in rights if right.action in _CHECKED))
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
