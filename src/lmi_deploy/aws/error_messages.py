"""AWS's refusals as errors of lmi: what, why, and what next."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from lmi_deploy.aws.credentials import LOG_IN_AGAIN, refused_credentials
from lmi_deploy.aws.error_classification import AwsError
from lmi_deploy.errors import (
    AccessError,
    CloudError,
    Conflict,
    LmiError,
    NoCapacity,
    NotFound,
    QuotaExceeded,
    RoleNotAssumable,
)

_DENIED: Final = frozenset(
    {"AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "NotAuthorized"}
)
_ABSENT: Final = frozenset(
    {
        *("NoSuchEntity", "ObjectNotFoundException", "ResourceNotFound", "ResourceNotFoundException"),
        "NotFound",  # of SNS
        *("ImageNotFoundException", "RepositoryNotFoundException"),
    }
)
_QUOTA: Final = re.compile(
    r"limit '(?P<name>[^']+)' is (?P<value>[\d.]+)\b.*?utilization of (?P<held>[\d.]+)\b.*?"
    r"delta of (?P<wanted>[\d.]+)\b",
    re.DOTALL,
)
_ABSENT_ARN: Final = re.compile(r'Could not find [a-z ]+ "(arn:[^"\s]+)"')
_OTHER_SERVICES: Final = (
    "the response does not come from AWS: log in to the network if it has a login page, check HTTPS_PROXY and "
    f"AWS_ENDPOINT_URL, then {LOG_IN_AGAIN}"
)
_EXPLICIT_DENY: Final = re.compile(r"explicit deny in an? ([a-z -]+?) ?policy")


@dataclass(frozen=True, slots=True, kw_only=True)
class AwsCallContext:
    """The subject of a request: `what` for error messages, `action` and `resource` as IAM names them."""

    service: str
    what: str
    action: str
    resource: str
    region: str
    endpoint: str

    @property
    def at(self) -> str:
        """The service, with its address if that is not AWS's own."""
        return self.service if ".amazonaws.com" in self.endpoint else f"{self.service} at {self.endpoint}"


Explain = Callable[[AwsError, AwsCallContext], LmiError]


def explain(aws_error: AwsError, subject: AwsCallContext) -> LmiError:
    if aws_error.kind == "skewed":
        return skewed(subject.endpoint, subject.service)
    explained = refused_credentials(aws_error.code)
    if explained is not None:
        return explained
    if aws_error.status == 0:
        return unreachable(aws_error, what=subject.what, endpoint=subject.endpoint, region=subject.region)
    if aws_error.code in _DENIED:
        return _denied(aws_error, subject)
    if aws_error.code.isdigit():
        return _not_aws(aws_error, subject)
    if aws_error.code in _BY_CODE:
        return _BY_CODE[aws_error.code](aws_error, subject)
    for output, error in _BY_WORDS.items():
        if output in aws_error.message:
            return error(aws_error, subject)
    if aws_error.kind == "again":
        return CloudError(
            f"{subject.what}: {subject.at} still failed after several attempts: {words(aws_error)}",
            hint=LOG_IN_AGAIN,
        )
    return CloudError(
        f"{subject.what}: {subject.at} refused {subject.action}: {words(aws_error)}",
        hint="change the setting that the message names; retrying will not help",
    )


def policy_hint(action: str, resource: str) -> str:
    """The statement that a policy lacks."""
    return f'the role or user needs {{"Effect": "Allow", "Action": "{action}", "Resource": "{resource}"}}'


def skewed(endpoint: str, service: str) -> AccessError:
    """Our clock and theirs differ by more than they forgive, and signing by theirs did not help."""
    forgiven = 15 if service == "S3" else 5
    return AccessError(
        f"{endpoint}: the clock of this machine is wrong by more than {forgiven} minutes according to {service}",
        hint=f"set the clock (timedatectl set-ntp true), then {LOG_IN_AGAIN}",
    )


def unreachable(error: AwsError, *, what: str, endpoint: str, region: str = "") -> LmiError:
    """No response from the service: no connection, a broken one, or a response from another host."""
    if error.kind == "garbled":
        return CloudError(
            f"{what}: {endpoint} answered {error.message}, which is not a response of AWS",
            hint=_OTHER_SERVICES,
        )
    if error.code in ("SSLError", "InvalidProxiesConfigError", "ProxyConnectionError"):
        return AccessError(
            f"{endpoint}: no connection: {error.message}",
            hint="set AWS_CA_BUNDLE if a proxy inspects TLS; check HTTPS_PROXY and AWS_ENDPOINT_URL",
        )
    if error.is_unreachable:
        spelled = f"the region ({region}), " if region else ""
        return AccessError(
            f"{endpoint}: cannot be reached: {error.message}",
            hint=f"check {spelled}the network, HTTPS_PROXY and AWS_ENDPOINT_URL; then {LOG_IN_AGAIN}",
        )
    return CloudError(
        f"{what}: the connection to {endpoint} broke repeatedly: {error.message}", hint=LOG_IN_AGAIN
    )


def words(error: AwsError) -> str:
    return f"{error.code}: {error.message}" if error.message else error.code


def _denied(error: AwsError, subject: AwsCallContext) -> LmiError:
    who = error.principal or "these credentials"
    action, resource = error.action or subject.action, error.resource or subject.resource
    hint = policy_hint(action, resource)
    if denying := _EXPLICIT_DENY.search(error.message):
        hint = (
            f"no permission overrides an explicit deny: ask the owner of the {denying[1]} policy to remove it"
        )
    return AccessError(f"{subject.what}: access denied: {who} may not {action} on {resource}", hint=hint)


def _not_aws(error: AwsError, subject: AwsCallContext) -> LmiError:
    return AccessError(
        f"{subject.what}: {subject.endpoint} answered {error.status}, which is not a response of {subject.service}",
        hint=f"check HTTPS_PROXY and AWS_ENDPOINT_URL, then {LOG_IN_AGAIN}",
    )


def _quota(error: AwsError, subject: AwsCallContext) -> LmiError:
    match = _QUOTA.search(error.message)
    if match is None:
        return QuotaExceeded(
            f"{subject.what}: over a quota of the account: {error.message}",
            hint="request an increase: https://console.aws.amazon.com/servicequotas/home/services/sagemaker/quotas",
        )
    name, value, existing, required = (match[group] for group in ("name", "value", "held", "wanted"))
    return QuotaExceeded(
        f'{subject.what}: the quota "{name}" is {value} in {subject.region}; {existing} are in use and {required} more '
        "would be needed",
        hint=quota_remedy(name, float(existing) + float(required), subject.region),
    )


def quota_remedy(name: str, needed: float, region: str) -> str:
    """How to ask for more: the console, and one line for a shell."""
    return (
        f"use another instance type, or request {needed:g}, at "
        f"https://{region}.console.aws.amazon.com/servicequotas/home/services/sagemaker/quotas or by: aws "
        f"service-quotas request-service-quota-increase --region {region} --service-code sagemaker --desired-value "
        f"{needed:g} --quota-code $(aws service-quotas list-aws-default-service-quotas --region {region} "
        f"--service-code sagemaker --output text --query \"Quotas[?QuotaName=='{name}'].QuotaCode\")"
    )


def _no_capacity(error: AwsError, subject: AwsCallContext) -> LmiError:
    return NoCapacity(
        f"{subject.what}: AWS has no capacity for this instance type in {subject.region}: {error.message}",
        hint="try again later, or set instance_type to a list: lmi then tries the next type",
    )


def _conflict(why: str, hint: str) -> Explain:
    return lambda error, subject: Conflict(f"{subject.what}: {why}: {error.message}", hint=hint)


def _absent(error: AwsError, subject: AwsCallContext) -> LmiError:
    return NotFound(
        f"{subject.what}: not found in {subject.region}: {error.message}",
        hint="check its name and the region (endpoint.region, AWS_REGION)",
        arn=match[1] if (match := _ABSENT_ARN.search(error.message)) else "",
    )


def _not_assumable(error: AwsError, subject: AwsCallContext) -> LmiError:
    return RoleNotAssumable(
        f"{subject.what}: {subject.at} refused {subject.action}: {error.message}",
        hint="check the role's name and its trust policy: `lmi iam RECIPE` prints it",
    )


_EXISTS: Final = _conflict("it already exists", "check whether it belongs to this deployment")
_IN_PROGRESS: Final = _conflict("already in progress", "wait until it has ended, then run the command again")
_BY_CODE: Final[Mapping[str, Explain]] = {
    "ResourceLimitExceeded": _quota,
    "LimitExceededException": _quota,
    "InsufficientInstanceCapacity": _no_capacity,
    "ConflictException": _EXISTS,
    "ResourceInUse": _EXISTS,
    **dict.fromkeys(_ABSENT, _absent),
}
_BY_WORDS: Final[Mapping[str, Explain]] = {
    "Could not find": _absent,
    "Could not assume role": _not_assumable,
    "must allow AWS EventBridge Scheduler to assume the role": _not_assumable,
    "already existing": _EXISTS,
    "already exists": _EXISTS,
    "Cannot update in-progress": _IN_PROGRESS,
    "in-progress inference component": _IN_PROGRESS,
    "Cannot update inference component": _IN_PROGRESS,
    "DELETE_IN_PROGRESS": _IN_PROGRESS,
    "Cannot create inference component on endpoint": _IN_PROGRESS,
    "InsufficientInstanceCapacity": _no_capacity,
}
"""SageMaker uses one code, ValidationException, for most refusals."""
