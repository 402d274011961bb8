"""The deployment of an endpoint, current or pending: its configuration and models as they were when it was deployed.

Kept in the endpoint's own record: configuration and models may be deleted, and the endpoint still serves.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from lmi_deploy.emulator.context import ApiRequest, EmulatorContext
from lmi_deploy.emulator.record_store import Row
from lmi_deploy.emulator.sagemaker.models import containers_of
from lmi_deploy.emulator.sagemaker.naming import ENDPOINT_CONFIG, MODEL, found


def snapshot(context: EmulatorContext, request: ApiRequest, config_name: str) -> Row:
    """The current deployment of this configuration; ApiError when it or a model of it does not exist."""
    params = found(context, request, ENDPOINT_CONFIG, config_name)["params"]
    return {
        "config": config_name,
        "began": context.clock.now(),
        "async": params.get("AsyncInferenceConfig"),
        "capture": params.get("DataCaptureConfig"),
        "role": params.get("ExecutionRoleArn"),
        "variants": [_variant(context, request, variant) for variant in params.get("ProductionVariants", ())],
        "shadows": [
            _variant(context, request, variant) for variant in params.get("ShadowProductionVariants", ())
        ],
    }


def _variant(context: EmulatorContext, request: ApiRequest, variant: Mapping[str, Any]) -> Row:
    model = found(context, request, MODEL, variant["ModelName"])["params"] if "ModelName" in variant else None
    count, weight = variant.get("InitialInstanceCount", 1), variant.get("InitialVariantWeight", 1.0)
    return {
        "name": variant["VariantName"],
        "params": dict(variant),
        "model": model,
        "count": count,
        "desired_count": count,
        "weight": weight,
        "desired_weight": weight,
    }


def retain(new: Row, old: Row, *, excluded: Sequence[str]) -> None:
    """Keep the counts and weights that were changed since, variant by variant."""
    before = {variant["name"]: variant for variant in old["variants"]}
    for variant in new["variants"]:
        kept = before.get(variant["name"])
        if kept is None:
            continue
        if "DesiredInstanceCount" not in excluded:
            variant["count"] = variant["desired_count"] = kept["desired_count"]
        if "DesiredWeight" not in excluded:
            variant["weight"] = variant["desired_weight"] = kept["desired_weight"]


def described(variant: Row, *, pending: bool = False) -> Row:
    """A ProductionVariantSummary."""
    images = [
        container["Image"] for container in containers_of(variant["model"] or {}) if "Image" in container
    ]
    description: Row = {
        "VariantName": variant["name"],
        "DeployedImages": [deployed_image(image, variant) for image in images],
        "CurrentWeight": variant["weight"],
        "DesiredWeight": variant["desired_weight"],
        "CurrentInstanceCount": 0 if pending else variant["count"],
        "DesiredInstanceCount": variant["desired_count"],
    }
    if pending:
        description["InstanceType"] = variant["params"].get("InstanceType")
        description["VariantStatus"] = [{"Status": "Creating"}]
    if "ManagedInstanceScaling" in variant["params"]:
        description["ManagedInstanceScaling"] = variant["params"]["ManagedInstanceScaling"]
    return description


def deployed_image(image: str, variant: Row) -> Row:
    """Tags are resolved to a digest; here it is derived from the tag, because no registry is queried."""
    repository = image.split("@")[0].rpartition(":")[0] or image
    digest = hashlib.sha256(image.encode()).hexdigest()
    description: Row = {"SpecifiedImage": image, "ResolvedImage": f"{repository}@sha256:{digest}"}
    if "resolved" in variant:
        description["ResolutionTime"] = variant["resolved"]
    return description
