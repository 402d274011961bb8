"""The fields that every record of a SageMaker resource starts with."""

from __future__ import annotations

from typing import Any

from lmi_deploy.emulator.context import ApiRequest, EmulatorContext, tags_of
from lmi_deploy.emulator.record_store import Row
from lmi_deploy.emulator.sagemaker.tags import require_good


def new_row(context: EmulatorContext, request: ApiRequest, arn: str, **more: Any) -> Row:
    """The record of the resource in this request; refused if its tags are invalid."""
    now = context.clock.now()
    return {
        "arn": arn,
        "created": now,
        "modified": now,
        "tags": require_good(tags_of(request.params)),
        **more,
    }


def requested_settings(request: ApiRequest) -> Row:
    """The settings of a resource, as requested."""
    return {key: value for key, value in request.params.items() if key != "Tags"}
