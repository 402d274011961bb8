"""The protocols of AWS's services (JSON, CBOR, query, REST): operation, parameters and response of a request."""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal

from aiohttp import web

from lmi_deploy.emulator.wire import cbor, query_protocol, rest_protocol
from lmi_deploy.emulator.wire.errors import ApiError
from lmi_deploy.emulator.wire.service_models import service_model
from lmi_deploy.emulator.wire.signature import Signature, read_signature

TARGETS: Final[Mapping[str, str]] = {
    "SageMaker": "sagemaker",
    "Logs_20140328": "logs",
    "AnyScaleFrontendService": "application-autoscaling",
    "ServiceQuotasV20190624": "service-quotas",
    "AWSPriceListService": "pricing",
    "ResourceGroupsTaggingAPI_20170126": "resourcegroupstaggingapi",
    "GraniteServiceVersion20100801": "cloudwatch",
    "com.amazonaws.cloudtrail.v20131101.CloudTrail_20131101": "cloudtrail",
}
JSON: Final = "application/x-amz-json-1.1"


@dataclass(frozen=True, slots=True)
class ApiOperation:
    """A requested operation, in any of the protocols."""

    service: str
    operation: str
    protocol: Literal["json", "cbor", "query", "rest"]
    path: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    """REST: the parameters outside the body."""


async def called(request: web.Request) -> ApiOperation | None:
    """By `X-Amz-Target`, by the path of the CBOR protocol, by the query protocol's form, by method and path; None for
    what moto serves.
    """
    prefix, dot, operation = request.headers.get("X-Amz-Target", "").rpartition(".")
    if dot and prefix in TARGETS:
        return ApiOperation(TARGETS[prefix], operation, "json")
    parts = request.path.split("/")
    if len(parts) == 5 and parts[1] == "service" and parts[3] == "operation" and parts[2] in TARGETS:
        return ApiOperation(TARGETS[parts[2]], parts[4], "cbor")
    if request.content_type == query_protocol.FORM and request.path == "/":
        signature = read_signature(request.headers, request.query)
        if signature is not None and signature.service == "monitoring":
            return ApiOperation("cloudwatch", query_protocol.action(await request.read()), "query")
    return _rest(request)


def _rest(request: web.Request) -> ApiOperation | None:
    signature = read_signature(request.headers, request.query)
    if signature is None or signature.service not in rest_protocol.SERVICES:
        return None
    found = rest_protocol.operation(signature.service, request.method, request.path)
    if found is None:
        return None
    return ApiOperation(signature.service, found[0], "rest", found[1], dict(request.query))


def refusal(error: ApiError, call: ApiOperation | None = None) -> web.Response:
    headers = {"x-amzn-RequestId": str(uuid.uuid4()), "x-amzn-ErrorType": error.code}
    description = {"__type": error.code, "message": error.message, **error.fields}
    if call is not None and call.protocol == "cbor":
        return _cbor(cbor.dumps(description), error.status, headers)
    if call is not None and call.protocol == "query":
        body = query_protocol.error_document(error, headers["x-amzn-RequestId"])
        return web.Response(status=error.status, body=body, headers={**headers, "Content-Type": "text/xml"})
    return web.Response(
        status=error.status, body=json.dumps(description).encode(), headers={**headers, "Content-Type": JSON}
    )


def operation_model(call: ApiOperation, signature: Signature) -> Any:
    """botocore's model of the operation; ApiError for one that the service does not have."""
    model = service_model(call.service)
    if signature.service != model.signing_name:
        raise ApiError(
            "InvalidSignatureException",
            f"Credential should be scoped to correct service: '{model.signing_name}'. ",
            status=403,
        )
    if call.operation not in model.operation_names:
        raise ApiError("UnknownOperationException", "")
    return model.operation_model(call.operation)


def read_params(call: ApiOperation, operation: Any, body: bytes) -> Any:
    if call.protocol == "rest":
        return rest_protocol.read(operation.input_shape, call.path, call.query, body)
    if operation.input_shape is None or not body:
        return {}
    if call.protocol == "cbor":
        return cbor.loads(body)
    if call.protocol == "query":
        return query_protocol.read(operation.input_shape, body)
    try:
        found = json.loads(body)
    except ValueError as exc:
        raise ApiError("SerializationException", "Unexpected token in the request's JSON") from exc
    if not isinstance(found, dict):
        raise ApiError("SerializationException", "Start of structure or map expected")
    return {key: value for key, value in found.items() if value is not None}


def response(call: ApiOperation, operation: Any, result: Mapping[str, Any]) -> web.Response:
    headers, shape = {"x-amzn-RequestId": str(uuid.uuid4())}, operation.output_shape
    if call.protocol == "query":
        body = query_protocol.answered(operation, result, headers["x-amzn-RequestId"])
        return web.Response(body=body, headers={**headers, "Content-Type": "text/xml"})
    if call.protocol == "cbor":
        return _cbor(
            cbor.dumps(written(shape, result, cbor.as_cbor) if shape is not None else {}), 200, headers
        )
    body = json.dumps(written(shape, result, as_json)).encode() if shape is not None else b""
    return web.Response(body=body, headers={**headers, "Content-Type": JSON})


def _cbor(body: bytes, status: int, headers: Mapping[str, str]) -> web.Response:
    more = {"smithy-protocol": "rpc-v2-cbor", "Content-Type": "application/cbor"}
    return web.Response(status=status, body=body, headers={**headers, **more})


Leaf = Callable[[str, Any], Any]
"""How a protocol writes a simple value, by the kind of its shape; times are seconds since 1970."""


def written(shape: Any, value: Any, leaf: Leaf) -> Any:
    """`value` (times as seconds since 1970 or datetimes) in this shape; absent members stay absent."""
    kind = shape.type_name
    if kind == "structure":
        return {
            member.serialization.get("name", name): written(member, value[name], leaf)
            for name, member in shape.members.items()
            if value.get(name) is not None
        }
    if kind == "list":
        return [written(shape.member, item, leaf) for item in value]
    if kind == "map":
        return {key: written(shape.value, item, leaf) for key, item in value.items()}
    if kind == "timestamp":
        return leaf(kind, value.timestamp() if isinstance(value, datetime) else float(value))
    return leaf(kind, value)


def as_json(kind: str, value: Any) -> Any:
    if kind == "timestamp":
        return round(value, 3)
    return base64.b64encode(value).decode() if kind == "blob" else value
