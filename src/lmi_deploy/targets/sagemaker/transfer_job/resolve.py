"""The machines of a transfer job: enough of them for the weights, none without work."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit

from lmi_deploy.catalog.images import image
from lmi_deploy.domain.deployment_spec import WeightsSpec
from lmi_deploy.domain.djl_serving import IMAGE_FAMILY, SERVER_VERSION
from lmi_deploy.domain.gathered_facts import CloudFacts, Facts, ModelListing
from lmi_deploy.domain.recipe_keys import Recipe
from lmi_deploy.domain.recipe_weights_keys import TransferJob
from lmi_deploy.domain.target_spec import JobPlace
from lmi_deploy.targets.sagemaker.roles import JOB_ROLE, role_arn

INSTANCE: Final = "ml.m5.4xlarge"
"""16 processors, for TLS and two hashes; up to 10 Gbit/s. On demand in every region that has SageMaker."""
_PYTHON: Final = (IMAGE_FAMILY, f"{SERVER_VERSION}-cpu-full")
"""The smallest image that AWS publishes beside the serving images and that has a Python of 3.11: without CUDA."""
JOB_BYTES_PER_SECOND: Final = 400_000_000
"""Of one instance (docs/performance.md)."""
_SHARE: Final = 100_000_000_000
"""Bytes per instance: about four minutes."""
_MOST: Final = 8
_VOLUME_GB: Final = 30
"""Nothing is staged: the minimum size that holds the program."""
_SLOWEST: Final = 50_000_000
"""Bytes a second and instance below which the job is given up."""
_LEAST_TIME: Final = 1800
_MOST_TIME: Final = 5 * 86_400
"""Seconds; SageMaker's limit for a processing job."""


def job_place(recipe: Recipe, cloud: CloudFacts, weights: WeightsSpec) -> JobPlace | None:
    """None if the weights are transferred in another way."""
    if recipe.weights.via != "job":
        return None
    job = recipe.weights.job or TransferJob()
    additional = [each for each in weights.additional if each.source == "hub"]
    size = weights.size + sum(each.size for each in additional)
    count = job.count or min(_MOST, -(-size // _SHARE))
    most_files = max(len(files) for files in (weights.files, *(each.files for each in additional)))
    count = max(1, min(count, most_files))
    return JobPlace(
        image=job_image(cloud.region),
        role=role_arn(job.role, cloud, default=JOB_ROLE, key="weights.job.role"),
        instance=job.instance_type or INSTANCE,
        count=count,
        volume_gb=_VOLUME_GB,
        timeout=min(_MOST_TIME, _LEAST_TIME + size // (_SLOWEST * count)),
        hub="" if unreachable_reason(recipe, cloud.hub) else cloud.hub,
    )


def job_image(region: str) -> str:
    """The image in which our own programs run in a job."""
    family, version = _PYTHON
    return image(family, version, region, device="cpu").uri


def unreachable_reason(recipe: Recipe, hub: str) -> str:
    """Why a job cannot use this address; empty if it can."""
    parts = urlsplit(hub)
    if parts.username or parts.password or parts.query:
        return "contains a password, which lmi does not pass to a job"
    host = parts.hostname or ""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return "exists only on this machine" if host == "localhost" or host.endswith(".localhost") else ""
    if address.is_loopback or address.is_unspecified:
        return "exists only on this machine"
    if not address.is_global and recipe.endpoint.vpc is None:
        return "is in a private network, and the job has no VPC (set endpoint.vpc)"
    return ""


def job_notices(recipe: Recipe, facts: Facts) -> Iterator[str]:
    """The differences between the job's access to the Hub and this machine's."""
    hub = facts.cloud.hub if facts.cloud else ""
    if why := unreachable_reason(recipe, hub):
        parts = urlsplit(hub)
        yield (
            f"HF_ENDPOINT ({parts.scheme}://{parts.hostname or ''}) {why}: the job downloads from the public Hub; "
            "to send the weights from this machine, set weights.via: stream"
        )
    gated = [listing.model_id for listing in _listings(facts) if listing.gated]
    if gated and not recipe.weights.token_secret:
        yield (
            f"{', '.join(gated)}: gated, and the job has no token (lmi never sends yours to AWS). Store a token in "
            "Secrets Manager and name it in weights.token_secret"
        )


def _listings(facts: Facts) -> Iterator[ModelListing]:
    """Of the model, its adapters and its draft model."""
    yield facts.listing
    yield from (adapter.listing for adapter in facts.adapters)
    if facts.draft is not None:
        yield facts.draft.listing
