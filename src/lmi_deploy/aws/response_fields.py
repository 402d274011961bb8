"""The fields of AWS's responses that lmi reads: each must be present, with the type in the service model.

A proxy, the login page of a network or a truncated body may answer 200 without them; botocore passes that on
unchecked. The fields that a service always sends are in its API reference and its model in botocore (`required`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from itertools import chain
from typing import Any, Final

_TEXT: Final = r"(?s).+"
_ARN: Final = r"arn:[^:]+:[^:]*:[^:]*:[^:]*:.+"
_POLICY: Final = "policyDocumentType"
"""IAM's text, which botocore decodes (`handlers.json_decode_policies`)."""
_PLAIN: Final = (str, int, float, list, dict)
_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "string": (str,),
    "integer": (int,),
    "long": (int,),
    "float": (int, float),
    "double": (int, float),
    "timestamp": (datetime,),
    "structure": (dict,),
    "list": (list,),
    "map": (dict,),
    "boolean": (bool,),
}
_OBJECTS: Final = {f"Contents[].{name}": "" for name in ("Key", "Size", "ETag", "LastModified")}
FIELDS: Final[Mapping[str, Mapping[str, Mapping[str, str]]]] = {
    "s3": {
        "complete_multipart_upload": {"ETag": _TEXT},
        "copy_object": {"CopyObjectResult.ETag": _TEXT},
        "create_multipart_upload": {"UploadId": _TEXT},
        "get_object": {"ETag": _TEXT, "LastModified": "", "ContentLength": ""},
        "head_object": {"ETag": _TEXT, "LastModified": "", "ContentLength": ""},
        "list_multipart_uploads": {
            "IsTruncated": "",
            **{f"Uploads[].{name}": "" for name in ("Key", "UploadId", "Initiated")},
        },
        "list_objects_v2": {"IsTruncated": "", **_OBJECTS},
        "list_parts": {
            "IsTruncated": "",
            **{f"Parts[].{name}": "" for name in ("PartNumber", "Size", "ETag", "LastModified")},
        },
        "put_object": {"ETag": _TEXT},
        "upload_part": {"ETag": _TEXT},
        "upload_part_copy": {"CopyPartResult.ETag": _TEXT},
    },
    "cloudwatch": {
        "describe_alarms": {f"MetricAlarms[].{name}": _TEXT for name in ("AlarmName", "StateValue")}
    },
    "application-autoscaling": {
        "describe_scalable_targets": {
            "ScalableTargets[].MinCapacity": "",
            "ScalableTargets[].MaxCapacity": "",
        },
        "describe_scaling_policies": {"ScalingPolicies[].PolicyName": _TEXT},
        "describe_scheduled_actions": {
            "ScheduledActions[].ScheduledActionName": _TEXT,
            "ScheduledActions[].Schedule": _TEXT,
        },
        "put_scaling_policy": {"PolicyARN": _TEXT},
    },
    "iam": {
        "get_role": {"Role.Arn": _ARN},
        "simulate_principal_policy": {
            "EvaluationResults[].EvalActionName": _TEXT,
            "EvaluationResults[].EvalDecision": _TEXT,
        },
    },
    "logs": {
        "describe_log_groups": {"logGroups[].logGroupName": _TEXT},
        "filter_log_events": {"events[].eventId": _TEXT, "events[].timestamp": "", "events[].message": ""},
    },
    "pricing": {"get_products": {"PriceList[]": ""}},
    "resourcegroupstaggingapi": {
        "get_resources": {
            "ResourceTagMappingList[].ResourceARN": _ARN,
            "ResourceTagMappingList[].Tags[].Key": "",
            "ResourceTagMappingList[].Tags[].Value": "",
        }
    },
    "sagemaker": {
        "create_endpoint": {"EndpointArn": _ARN},
        "create_endpoint_config": {"EndpointConfigArn": _ARN},
        "create_model": {"ModelArn": _ARN},
        "create_processing_job": {"ProcessingJobArn": _ARN},
        "describe_endpoint": {"EndpointName": _TEXT, "EndpointArn": _ARN, "EndpointStatus": _TEXT},
        "describe_endpoint_config": {
            "EndpointConfigArn": _ARN,
            "ProductionVariants[].VariantName": "",
        },
        "describe_model": {"ModelArn": _ARN},
        "describe_processing_job": {"ProcessingJobArn": _ARN, "ProcessingJobStatus": _TEXT},
        "list_tags": {"Tags[].Key": "", "Tags[].Value": ""},
        "update_endpoint": {"EndpointArn": _ARN},
    },
    "service-quotas": {
        call: {f"Quotas[].{name}": "" for name in ("QuotaName", "QuotaCode", "Value")}
        for call in ("list_service_quotas", "list_aws_default_service_quotas")
    },
    "sts": {"get_caller_identity": {"Account": r"\d{12}", "Arn": _ARN}},
}
"""By service and call: the required fields, and the pattern of their text (empty: anything).

`[]` means each item of a list; an absent list has no items.
"""


class UnexpectedResponse(Exception):
    """A response of 200 that is not from the service; the text says what is wrong with it."""


def defect_of(api: Any, service: str, call: str, response: Mapping[str, Any]) -> str:
    """Why the response to `call` is unusable, in a few words; empty if all required fields are present."""
    shape = api.meta.service_model.operation_model(api.meta.method_to_api_mapping[call]).output_shape
    if shape is None:
        return ""
    fields = FIELDS.get(service, {}).get(call, {})
    absent = (
        defect
        for path, pattern in fields.items()
        for defect in _defects(response, shape, path.split("."), pattern)
    )
    return next(chain(_misfits(response, shape, ""), absent), "")


def _misfits(value: Any, shape: Any, name: str) -> Iterator[str]:
    """Values of another type than in the service model, at any depth. A streamed body has none of JSON's types."""
    if isinstance(value, _PLAIN) and not _is_a(value, shape):
        yield f"with {name} {_repr(value)}"
    elif shape.name == _POLICY:
        return
    elif isinstance(value, dict):
        for key, item in value.items():
            if (inner := _member(shape, key)) is not None:
                yield from _misfits(item, inner, key)
    elif isinstance(value, list):
        for item in value:
            yield from _misfits(item, shape.member, name)


def _member(shape: Any, key: str) -> Any:
    """The shape of a member of a structure or a map; None if the model does not define it."""
    return shape.value if shape.type_name == "map" else shape.members.get(key)


def _defects(node: Mapping[str, Any], shape: Any, steps: list[str], pattern: str) -> Iterator[str]:
    name, each = steps[0].removesuffix("[]"), steps[0].endswith("[]")
    member, value = shape.members[name], node.get(name)
    if value is None:
        if not each:
            yield f"without {name}"
        return
    if not _is_a(value, member):
        yield f"with {name} {_repr(value)}"
        return
    for item in value if each else (value,):
        inner = member.member if each else member
        if not _is_a(item, inner):
            yield f"with {name} {_repr(item)}"
        elif len(steps) > 1:
            yield from _defects(item, inner, steps[1:], pattern)
        elif pattern and not re.fullmatch(pattern, str(item)):
            yield f"with {name} {_repr(item)}"


def _is_a(value: Any, shape: Any) -> bool:
    required = (dict,) if shape.name == _POLICY else _TYPES.get(shape.type_name)
    return required is None or (
        isinstance(value, required) and (bool in required or not isinstance(value, bool))
    )


def _repr(value: Any) -> str:
    return repr(value)[:60]
