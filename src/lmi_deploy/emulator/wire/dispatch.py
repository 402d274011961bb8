"""Dispatch a request to its service: signature, service, operation, shape, handler, response."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from aiohttp import web

from lmi_deploy.emulator.context import ApiRequest
from lmi_deploy.emulator.wire import cbor, query
from lmi_deploy.emulator.wire.errors import ApiError
from lmi_deploy.emulator.wire.parameter_check import check
from lmi_deploy.emulator.wire.responses import as_json, error_body, request_id, written
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
}
JSON: Final = "application/x-amz-json-1.1"
Handle = Callable[[str, ApiRequest], Mapping[str, Any] | None]
"""Carries out an operation of a service; the operation is one that the service model has."""
ExternalService = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class ApiOperation:
    """A requested operation, in any of the protocols."""

    service: str
    operation: str
    protocol: Literal["json", "cbor", "query"]


async def called(request: web.Request) -> ApiOperation | None:
    """By `X-Amz-Target`, by the path of the CBOR protocol, by the query protocol's form; None for what moto serves."""
    prefix, dot, operation = request.headers.get("X-Amz-Target", "").rpartition(".")
    if dot and prefix in TARGETS:
        return ApiOperation(TARGETS[prefix], operation, "json")
    parts = request.path.split("/")
    if len(parts) == 5 and parts[1] == "service" and parts[3] == "operation" and parts[2] in TARGETS:
        return ApiOperation(TARGETS[parts[2]], parts[4], "cbor")
    if request.content_type == query.FORM and request.path == "/":
        signature = read_signature(request.headers, request.query)
        if signature is not None and signature.service == "monitoring":
            return ApiOperation("cloudwatch", query.action(await request.read()), "query")
    return None


async def respond(
    request: web.Request, call: ApiOperation, handle: Handle, signature: Signature
) -> web.Response:
    """One call of a JSON (or CBOR) service, errors included; `signature` is verified."""
    try:
        _require_scope(signature, call)
        operation = _operation(call)
        params = _params(call, await request.read(), operation)
        check(operation.input_shape, params)
        api_request = ApiRequest(
            operation=call.operation, params=params, region=signature.region, key=signature.key
        )
        return _response(call, operation, handle(call.service, api_request) or {})
    except ApiError as error:
        return refusal(error, call)


def refusal(error: ApiError, call: ApiOperation | None = None) -> web.Response:
    headers = {"x-amzn-RequestId": request_id(), "x-amzn-ErrorType": error.code}
    if call is not None and call.protocol == "cbor":
        description = {"__type": error.code, "message": error.message, **error.fields}
        return _cbor(cbor.dumps(description), error.status, headers)
    if call is not None and call.protocol == "query":
        body = query.refused(error, headers["x-amzn-RequestId"])
        return web.Response(status=error.status, body=body, headers={**headers, "Content-Type": "text/xml"})
    return web.Response(
        status=error.status, body=error_body(error), headers={**headers, "Content-Type": JSON}
    )


def _require_scope(signature: Signature, call: ApiOperation) -> None:
    expected = service_model(call.service).signing_name
    if signature.service != expected:
        raise ApiError(
            "InvalidSignatureException",
            f"Credential should be scoped to correct service: '{expected}'. ",
            status=403,
        )


def _operation(call: ApiOperation) -> Any:
    model = service_model(call.service)
    if call.operation not in model.operation_names:
        raise ApiError("UnknownOperationException", "")
    return model.operation_model(call.operation)


def _params(call: ApiOperation, body: bytes, operation: Any) -> Any:
    if operation.input_shape is None or not body:
        return {}
    if call.protocol == "cbor":
        return cbor.loads(body)
    if call.protocol == "query":
        return query.read(operation.input_shape, body)
    try:
        found = json.loads(body)
    except ValueError as exc:
        raise ApiError("SerializationException", "Unexpected token in the request's JSON") from exc
    if not isinstance(found, dict):
        raise ApiError("SerializationException", "Start of structure or map expected")
    return {key: value for key, value in found.items() if value is not None}


def _response(call: ApiOperation, operation: Any, result: Mapping[str, Any]) -> web.Response:
    headers, shape = {"x-amzn-RequestId": request_id()}, operation.output_shape
    if call.protocol == "query":
        body = query.answered(operation, result, headers["x-amzn-RequestId"])
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
