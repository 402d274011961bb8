"""Managed instance scaling: a variant has as many instances as the copies of its inference components need.

Sources: SageMaker API reference, ProductionVariantManagedInstanceScaling (bounds) and
ProductionVariantManagedInstanceScalingScaleInPolicy (`IDLE_RELEASE`: instances without copies are released). AWS
documents no time until then: 12 minutes were measured (Hugging Face's deployment guide for SageMaker, July 2026), AWS's
blog of 2024-12-02 says 10. Read in November 2026.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from lmi_deploy.emulator.context import EmulatorContext
from lmi_deploy.emulator.hosting.component_placement import needed_instances
from lmi_deploy.emulator.record_store import Row
from lmi_deploy.emulator.sagemaker.resources import ENDPOINT, INFERENCE_COMPONENT

RELEASE: Final = 600.0
"""Seconds that an instance stays without copies."""


def add_instances(context: EmulatorContext, region: str, endpoint: str) -> bool:
    """As many as the copies need now; whether there were too few."""
    row = context.table(ENDPOINT.table, region).get(endpoint)
    if row is None or row["serving"] is None:
        return False
    _settle(context, region, endpoint, row)
    added = False
    for variant, _, most in _managed(row):
        needed = min(needed_instances(context, region, endpoint, variant), most)
        if needed > variant["count"]:
            variant["count"] = variant["desired_count"] = needed
            added = True
    if added:
        context.table(ENDPOINT.table, region).put(endpoint, row)
    return added


def release_instances(context: EmulatorContext, region: str, endpoint: str) -> None:
    """Those that were without copies for long enough: called before a description."""
    row = context.table(ENDPOINT.table, region).get(endpoint)
    if row is not None and row["serving"] is not None and _settle(context, region, endpoint, row):
        context.table(ENDPOINT.table, region).put(endpoint, row)


def _settle(context: EmulatorContext, region: str, endpoint: str, row: Row) -> bool:
    components = (each for _, each in context.table(INFERENCE_COMPONENT.table, region).rows())
    changes = [each["modified"] for each in components if each["endpoint"] == endpoint]
    if context.clock.now() - max([row["modified"], *changes]) < RELEASE:
        return False
    released = False
    for variant, least, _ in _managed(row):
        needed = max(least, needed_instances(context, region, endpoint, variant))
        if needed < variant["count"]:
            variant["count"] = variant["desired_count"] = needed
            released = True
    return released


def _managed(row: Row) -> Iterator[tuple[Row, int, int]]:
    """The variants with it, and their bounds."""
    for variant in row["serving"]["variants"]:
        scaling = variant["params"].get("ManagedInstanceScaling", {})
        if scaling.get("Status") == "ENABLED":
            yield (
                variant,
                int(scaling.get("MinInstanceCount", 1)),
                int(scaling.get("MaxInstanceCount", 10_000)),
            )
