"""Parse an invocation (REST-JSON): path, headers and body against the service model."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from aiohttp import web

from lmi_deploy.emulator.wire.errors import ApiError
from lmi_deploy.emulator.wire.parameter_validation import check
from lmi_deploy.emulator.wire.service_models import service_model

_PATH: Final = re.compile(
    r"/endpoints/(?P<name>[^/]+)/(?P<what>invocations|invocations-response-stream|async-invocations)"
)
_OPERATIONS: Final[Mapping[str, str]] = {
    "invocations": "InvokeEndpoint",
    "invocations-response-stream": "InvokeEndpointWithResponseStream",
    "async-invocations": "InvokeEndpointAsync",
}


@dataclass(frozen=True, slots=True)
class Invocation:
    operation: str
    params: Mapping[str, Any]

    @property
    def endpoint(self) -> str:
        return str(self.params["EndpointName"])


def is_invocation(path: str) -> bool:
    return path.startswith("/endpoints/")


async def read_invocation(request: web.Request) -> Invocation:
    """ApiError (`ValidationError`, as this service calls it) when it does not fit the model."""
    found = _PATH.fullmatch(request.path)
    if found is None or request.method != "POST":
        raise ApiError("UnknownOperationException", "", status=404)
    operation = _OPERATIONS[found["what"]]
    shape = service_model("sagemaker-runtime").operation_model(operation).input_shape
    params: dict[str, Any] = {"EndpointName": found["name"]}
    for name, member in shape.members.items():
        header = member.serialization.get("name")
        if member.serialization.get("location") == "header" and header in request.headers:
            params[name] = _typed(member, request.headers[header])
    if "Body" in shape.members:
        params["Body"] = await request.read()
    check(shape, params, code="ValidationError")
    return Invocation(operation, params)


def _typed(member: Any, text: str) -> Any:
    if member.type_name in ("integer", "long"):
        if not text.lstrip("-").isdigit():
            raise ApiError("SerializationException", f"{text} can not be converted to an Integer")
        return int(text)
    return text


def container_headers(params: Mapping[str, Any]) -> dict[str, str]:
    names = {
        "ContentType": "Content-Type",
        "Accept": "Accept",
        "CustomAttributes": "X-Amzn-SageMaker-Custom-Attributes",
        "TargetModel": "X-Amzn-SageMaker-Target-Model",
        "InferenceId": "X-Amzn-SageMaker-Inference-Id",
        "SessionId": "X-Amzn-SageMaker-Session-Id",
    }
    return {header: str(params[name]) for name, header in names.items() if name in params}
