"""The number of instances and the weight of variants, as set by clients and by autoscaling."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from lmi_deploy.emulator.context import EmulatorContext
from lmi_deploy.emulator.hosting.instance_pools import types_of
from lmi_deploy.emulator.record_store import Row
from lmi_deploy.emulator.sagemaker.resources import ENDPOINT, arn_of
from lmi_deploy.emulator.services.service_quotas import require_growth
from lmi_deploy.emulator.wire.errors import refused

IN_PROGRESS: Final = ("Creating", "Updating", "SystemUpdating", "RollingBack", "Deleting")


def settled_endpoint(context: EmulatorContext, region: str, name: str) -> Row:
    """One that may be changed now."""
    row = context.table(ENDPOINT.table, region).get(name)
    if row is None:
        raise refused(f'Could not find endpoint "{arn_of(context, region, ENDPOINT, name)}".')
    if row["status"] in IN_PROGRESS:
        raise in_progress(row)
    if row["status"] == "Failed":
        raise refused(f'Cannot update endpoint "{row["arn"]}" in status "Failed".')
    return row


def in_progress(row: Row) -> Exception:
    return refused(f'Cannot update in-progress endpoint "{row["arn"]}".')


def set_capacities(
    context: EmulatorContext, region: str, endpoint: str, desired: Mapping[str, Mapping[str, Any]]
) -> Row:
    """By variant, the new `DesiredInstanceCount` and `DesiredWeight`."""
    row = settled_endpoint(context, region, endpoint)
    variants = {variant["name"]: variant for variant in row["serving"]["variants"]}
    if sum("DesiredInstanceCount" in change for change in desired.values()) > 1:
        # "Updates variant weight of one or more variants [...], or capacity of one variant" (botocore's service model).
        raise refused("The instance count of one variant can be changed at a time.")
    for name, change in desired.items():
        if name not in variants:
            raise refused(f'Could not find production variant "{name}" of "{row["arn"]}".')
        if change.get("DesiredInstanceCount") == 0 and not row["serving"].get("async"):
            # Only asynchronous endpoints scale to zero (developer guide, "Autoscale an asynchronous endpoint"); the
            # words are ours.
            raise refused(
                f'Variant "{name}" of "{row["arn"]}" needs at least 1 instance: it is not asynchronous.'
            )
        more = change.get("DesiredInstanceCount", 0) - variants[name]["desired_count"]
        require_growth(context, region, types_of(variants[name]["params"]), more)
    for name, change in desired.items():
        variant = variants[name]
        variant["desired_weight"] = change.get("DesiredWeight", variant["desired_weight"])
        variant["desired_count"] = change.get("DesiredInstanceCount", variant["desired_count"])
    row.update(status="Updating", pending=None, failure=None)
    touch(context, region, endpoint, row)
    return row


def touch(context: EmulatorContext, region: str, name: str, row: Row) -> None:
    """Keep a change, and let hosting go on from it."""
    row["modified"] = context.clock.now()
    context.table(ENDPOINT.table, region).put(name, row)
    context.hosting.begin(region, name)
