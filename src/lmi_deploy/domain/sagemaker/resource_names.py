"""Names of a deployment's resources on SageMaker.

A name contains the digest of all settings, so that the same settings find the same resource on every machine. The tags,
the version of the tool and the time to live are in no digest.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from lmi_deploy.domain.sagemaker.alarm_settings import alarm_names
from lmi_deploy.domain.sagemaker.resource_settings import (
    SERVING_KINDS,
    TAG_ADOPTED,
    Resource,
    ResourceKind,
)
from lmi_deploy.domain.sagemaker.transfer_job import compile_job_of
from lmi_deploy.domain.settings_digest import digest, short

_LONGEST: Final = 63
JOB_KINDS: Final[frozenset[ResourceKind]] = frozenset({"processing-job", "optimization-job"})


def resource_name(deployment: str, settings: object) -> str:
    """`<deployment>-<10 hex>`: at most 59 of the 63 characters that SageMaker allows."""
    return f"{deployment}-{short(digest(settings))}"


def adapter_component_name(deployment: str, adapter: str) -> str:
    """`<deployment>-<adapter>-<10 hex>`: at most the 63 characters that SageMaker allows, and of those it allows. In
    lower case, because SageMaker writes the names of endpoints so in their ARNs, from which the name is read again.
    """
    named = re.sub(r"[^a-z0-9]+", "-", adapter.lower()).strip("-") or "adapter"
    kept = named[: _LONGEST - len(deployment) - 12].rstrip("-")
    return f"{deployment}-{kept}-{short(digest([deployment, adapter]))}"


def component_names(resources: Iterable[Resource]) -> tuple[str, ...]:
    """Of a deployment's resources those that requests may name on a shared endpoint: its model and its adapters, which
    are inference components, too.
    """
    return tuple(resource.name for resource in resources if ":inference-component/" in resource.arn)


def is_resource_name(kind: ResourceKind, name: str, deployment: str) -> bool:
    """Whether the name has lmi's form. A tag alone does not prove ownership: every principal with
    AddTags can set it.
    """
    if kind in SERVING_KINDS:
        return name == deployment
    if kind == "alarm":
        return name in alarm_names(deployment)
    if kind == "adapter-component":
        return re.fullmatch(rf"{re.escape(deployment)}-[A-Za-z0-9-]+-[0-9a-f]{{10}}", name) is not None
    number = r"(-\d{1,3})?" if kind == "processing-job" else ""
    return re.fullmatch(rf"{re.escape(deployment)}-[0-9a-f]{{10}}{number}", name) is not None


def is_own_resource(resource: Resource, deployment: str) -> bool:
    """By its name, or because `lmi adopt` took it over with a name of its own."""
    adopted = resource.kind in ("endpoint-config", "model") and bool(resource.tag(TAG_ADOPTED))
    return adopted or is_resource_name(resource.kind, resource.name, deployment)


def is_compile_job(resource: Resource) -> bool:
    """By the form of its name, which the result decides, not the deployment."""
    return resource.kind in JOB_KINDS and bool(compile_job_of(resource.name))
