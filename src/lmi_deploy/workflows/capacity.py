"""Where the instance types of a recipe can be had, as far as AWS's lists show: quota, offer, image and price."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final, Literal

from lmi_deploy.catalog.instances import chosen, ec2_regions
from lmi_deploy.catalog.server_version import engine_image
from lmi_deploy.domain.number_text import counted
from lmi_deploy.domain.observed_state import Price
from lmi_deploy.domain.recipe_keys import AUTO_INSTANCE, Recipe
from lmi_deploy.errors import LmiError, Unresolvable, UsageRefused
from lmi_deploy.ports.cloud import Cloud
from lmi_deploy.ports.message_callback import Notify, ignore
from lmi_deploy.ports.quotas import ServiceQuota
from lmi_deploy.workflows.dependencies import Dependencies

AT_ONCE: Final = 8
"""Regions that are read at the same time."""
NOT_KNOWN: Final = (
    "no API of AWS shows whether instances are free now: `possible` means that quota, offer and image do not "
    "prevent it"
)
Verdict = Literal["possible", "no", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceCapacity:
    """One instance type in one region. None: not known, or not read."""

    region: str
    instance: str
    verdict: Verdict
    reason: str
    """Why it is not possible, or not known; empty if it is possible."""
    offered: Literal["yes", "no", "unknown"]
    quota: float | None
    quota_code: str
    needed: int
    price: Price | None


@dataclass(slots=True)
class CapacityReport:
    rows: list[InstanceCapacity] = field(default_factory=list)
    unread: dict[str, str] = field(default_factory=dict)
    """What could not be read, and why, by region."""
    failed: dict[str, LmiError] = field(default_factory=dict)
    """Regions of which nothing could be read."""

    @property
    def possible(self) -> int:
        return sum(row.verdict == "possible" for row in self.rows)

    def require_any(self) -> None:
        """The error, if no region could be read at all."""
        if self.failed and not self.rows:
            raise next(iter(self.failed.values()))


def find_capacity(
    recipe: Recipe,
    regions: Sequence[str],
    deps: Dependencies,
    *,
    all_regions: bool = False,
    notify: Notify = ignore,
) -> CapacityReport:
    """Region by region, in the given order: reads only. A region that cannot be read does not hide the others."""
    _require_types(recipe)
    named = tuple(dict.fromkeys(regions)) or recipe.endpoint.regions or (recipe.endpoint.region or "",)
    if all_regions:
        named = deps.cloud(recipe.endpoint.region or "").account.regions()
    if len(named) > 1:
        notify(f"reading quotas and prices of {counted(len(named), 'region')} ...")
    report = CapacityReport()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        try:
            results = [*pool.map(lambda region: _region(recipe, region, deps), named)]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    for region, result in zip(named, results, strict=True):
        if isinstance(result, LmiError):
            report.failed[region or "the default region"] = result
            continue
        rows, unread = result
        report.rows += rows
        report.unread |= unread
    return report


def _require_types(recipe: Recipe) -> None:
    if not recipe.instance_type or recipe.instance_type == AUTO_INSTANCE:
        given = "auto" if recipe.instance_type else "missing"
        raise UsageRefused(
            f"instance_type: {given}; capacity is looked up for named types",
            hint=f"`lmi instances --fits {recipe.origin or recipe.model_id}` lists those that hold the model; name one "
            "with --set instance_type=ml.g5.2xlarge",
        )


def _region(
    recipe: Recipe, region: str, deps: Dependencies
) -> tuple[list[InstanceCapacity], dict[str, str]] | LmiError:
    try:
        cloud = deps.cloud(region)
    except LmiError as error:
        return error
    reading = _RegionReader(cloud)
    region = cloud.caller.region
    image = _image_problem(recipe, region)
    rows = [reading.read(instance, _needed(recipe), image) for instance in recipe.instance_type]
    return rows, {region: reading.unread} if reading.unread else {}


class _RegionReader:
    """`unread`: why the quotas could not be read."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud
        self.unread = ""

    def read(self, instance: str, needed: int, image_problem: str) -> InstanceCapacity:
        region = self._cloud.caller.region
        quota = self._quota(instance)
        price = self._cloud.prices.hourly(instance)
        offered = _offered(instance, region, quota, price, read=not self.unread)
        reasons = [*_reasons(quota, needed, offered, region), *filter(None, [image_problem])]
        verdict: Verdict = "no" if reasons else "unknown" if self.unread else "possible"
        return InstanceCapacity(
            region=region,
            instance=instance,
            verdict=verdict,
            reason="; ".join(reasons) or ("its quota could not be read" if self.unread else ""),
            offered=offered,
            quota=quota.value if quota else None,
            quota_code=quota.code if quota else "",
            needed=needed,
            price=price,
        )

    def _quota(self, instance: str) -> ServiceQuota | None:
        if self.unread:
            return None
        try:
            return self._cloud.limits.endpoint_instances(instance)
        except LmiError as error:
            self.unread = error.message
            return None


def _offered(
    instance: str, region: str, quota: ServiceQuota | None, price: Price | None, *, read: bool
) -> Literal["yes", "no", "unknown"]:
    """A region has a quota for every type that it offers, and for no other. Without the quotas a price says yes, and
    EC2's own table says no: SageMaker has no hardware that EC2 lacks.
    """
    if read:
        return "yes" if quota else "no"
    elsewhere = ec2_regions(instance)
    if elsewhere and region not in elsewhere:
        return "no"
    return "yes" if price else "unknown"


def _reasons(quota: ServiceQuota | None, needed: int, offered: str, region: str) -> Iterator[str]:
    if offered == "no":
        yield f"{region} does not offer it for endpoints"
    elif quota is not None and quota.value < needed:
        yield f"the quota is {quota.value:g}, the recipe may use {needed}"


def _needed(recipe: Recipe) -> int:
    scaling = recipe.endpoint.autoscaling
    if recipe.endpoint.share is not None:
        return recipe.endpoint.most_instances
    return scaling.max if scaling else recipe.endpoint.initial_count


def _image_problem(recipe: Recipe, region: str) -> str:
    """Why the endpoint has no image there; empty if it has one."""
    if recipe.container.build is not None:
        return ""
    if recipe.container.image:
        place = recipe.container.image.partition(".dkr.ecr")[2].split(".")
        known = place[1] if len(place) > 2 else ""
        return f"container.image is in {known}" if known and known != region else ""
    device = "cpu" if {machine.kind for machine in chosen(recipe)} == {"cpu"} else "gpu"
    try:
        engine_image(recipe.engine, recipe.container.version or "", region, device=device)
    except Unresolvable as error:
        return f"no image there: {error.message}"
    return ""
