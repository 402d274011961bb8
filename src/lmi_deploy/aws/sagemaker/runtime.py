"""Requests to an endpoint: InvokeEndpoint, or InvokeEndpointWithResponseStream if the request asks for a stream."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from http import HTTPStatus
from typing import Any, Final

from lmi_deploy.aws.client import AwsConnection, Service
from lmi_deploy.aws.signing_keys import SessionKeys
from lmi_deploy.domain.async_requests import AsyncCall, AsyncLocations
from lmi_deploy.domain.inference_http import ADAPTER_HEADER, VARIANT_HEADER, HttpRequest, ResponseHead
from lmi_deploy.domain.sagemaker.component_settings import COMPONENT_HEADER, NO_COPIES
from lmi_deploy.errors import CloudError, LmiError, NoCopies, NotFound, Overdue, UsageRefused
from lmi_deploy.ports.inference_endpoint import InferenceEndpoint, RequestSigning

MOST_BYTES: Final = 6_291_456
_MEMBERS: Final = {
    "accept": "Accept",
    "content-type": "ContentType",
    "x-amzn-sagemaker-custom-attributes": "CustomAttributes",
    "x-amzn-sagemaker-inference-component": "InferenceComponentName",
    "x-amzn-sagemaker-inference-id": "InferenceId",
    "x-amzn-sagemaker-session-id": "SessionId",
    "x-amzn-sagemaker-target-model": "TargetModel",
    VARIANT_HEADER.lower(): "TargetVariant",
}
"""The members of a call by their header names; other headers do not reach a container."""
_ASYNC_MEMBERS: Final = frozenset({"Accept", "ContentType", "CustomAttributes"})
_REPEATED: Final = frozenset({"ThrottlingException", "Throttling", "ModelNotReadyException"})
_CHUNK: Final = 1 << 16
_LIMIT: Final = "SageMaker limits the start of a response to 60 s"
_THROTTLED: Final = (
    "stream the response (`lmi invoke --stream`), or request fewer tokens with a shorter prompt; an asynchronous "
    "endpoint (`endpoint.asynchronous` in the recipe, `lmi invoke --async`) has up to an hour"
)
_ASYNC_ONLY: Final = "async"


class SageMakerRuntime:
    """boto3's `sagemaker-runtime`, one client a time-out."""

    def __init__(self, access: AwsConnection) -> None:
        # An inference request is not repeated without the user's consent; one that never reached the endpoint is.
        self._access = replace(access, attempts=1, manner="standard")
        self._services: dict[float, Service] = {}

    def address(self, name: str) -> str:
        return f"{self._service(self._access.read_seconds).endpoint}/endpoints/{name}/invocations"

    def inference_endpoint(self, name: str, component: str = "") -> InferenceEndpoint:
        keys = SessionKeys(self._access.session)
        base = f"{self._service(self._access.read_seconds).endpoint}/endpoints/{name}/invocations"
        region = self._service(self._access.read_seconds).region
        return InferenceEndpoint(
            url=base,
            stream_url=f"{base}-response-stream",
            max_bytes=MOST_BYTES,
            signing=RequestSigning(
                region=region,
                service="sagemaker",
                keys=keys,
                headers=((COMPONENT_HEADER, component),) if component else (),
            ),
        )

    def invoke(
        self, name: str, request: HttpRequest, *, timeout: float, component: str = ""
    ) -> Iterator[ResponseHead | bytes]:
        """Nothing is sent before the first item is requested."""
        if len(request.body) > MOST_BYTES:
            raise UsageRefused(
                f"{name}: the request has {len(request.body):,} bytes; SageMaker accepts at most {MOST_BYTES:,}",
                hint="send a smaller request (an image takes 4/3 of its file's size), or let the model read large "
                "inputs from S3",
            )
        api, what = self._service(timeout), f"endpoint {name}"
        given: dict[str, Any] = {"EndpointName": name, "Body": request.body}
        if component:
            given["InferenceComponentName"] = component
        given |= _members(request.headers)
        try:
            if request.stream:
                response = api("invoke_endpoint_with_response_stream", what, **given)
                yield _head(200, response)
                yield from _streamed(response["Body"], what)
            else:
                response = api("invoke_endpoint", what, **given)
                yield _head(200, response)
                yield from _read(response["Body"], what)
        except LmiError as exc:
            fields = _model_error_fields(exc)
            if fields is None:
                raise
            yield from _of_the_model(fields, what, exc)

    def invoke_async(self, name: str, call: AsyncCall) -> AsyncLocations:
        """A failed request is repeated only if it never reached SageMaker: a second one would be processed too."""
        what = f"endpoint {name}"
        members = {key: value for key, value in _members(call.headers).items() if key in _ASYNC_MEMBERS}
        try:
            response = self._service(self._access.read_seconds)(
                "invoke_endpoint_async",
                what,
                needs="OutputLocation",
                EndpointName=name,
                InputLocation=call.input,
                InferenceId=call.inference_id,
                InvocationTimeoutSeconds=call.limits.processing,
                RequestTTLSeconds=call.limits.queue,
                **members,
            )
        except LmiError as exc:
            if _model_error_fields(exc) is None:
                raise
            raise _async_refused(exc, what) from exc
        return AsyncLocations(
            output=str(response["OutputLocation"]), failure=str(response.get("FailureLocation") or "")
        )

    def _service(self, timeout: float) -> Service:
        if timeout not in self._services:
            access = replace(self._access, read_seconds=timeout)
            self._services[timeout] = Service(
                access,
                "sagemaker-runtime",
                repeatable=lambda error: error.code in _REPEATED or error.is_unreachable,
            )
        return self._services[timeout]


def _members(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The headers as members of the call.

    None of them names an adapter inside a container, and only an inference component can be named. DJLServing reads
    custom attributes (`name=value`, separated by semicolons) as further headers.
    """
    members = {_MEMBERS[key.lower()]: value for key, value in headers if key.lower() in _MEMBERS}
    for key, value in headers:
        if key.lower() == ADAPTER_HEADER.lower():
            given = members.get("CustomAttributes")
            members["CustomAttributes"] = ";".join(filter(None, (given, f"{ADAPTER_HEADER}={value}")))
    return members


def _head(status: int, response: Mapping[str, Any]) -> ResponseHead:
    given = {member: header for header, member in _MEMBERS.items()}
    headers = [("content-type", str(response["ContentType"]))] if response.get("ContentType") else []
    if response.get("CustomAttributes"):
        headers.append((given["CustomAttributes"], str(response["CustomAttributes"])))
    return ResponseHead(status=status, reason=_reason(status), headers=tuple(headers))


def _reason(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""


def _read(body: Any, what: str) -> Iterator[bytes]:
    with _connection_lost(what) as count:
        for chunk in body.iter_chunks(_CHUNK):
            count(len(chunk))
            yield chunk


def _streamed(events: Any, what: str) -> Iterator[bytes]:
    try:
        with _connection_lost(what) as count:
            for event in events:
                part = event.get("PayloadPart", {}).get("Bytes", b"")
                count(len(part))
                yield part
    finally:
        events.close()


@contextmanager
def _connection_lost(what: str) -> Iterator[Callable[[int], None]]:
    """A response that is cut off."""
    from botocore.eventstream import ParserError
    from botocore.exceptions import BotoCoreError, ClientError
    from urllib3.exceptions import HTTPError

    received = [0]

    def count(size: int) -> None:
        received[0] += size

    try:
        yield count
    except (BotoCoreError, ClientError, HTTPError, ParserError) as exc:
        why = " ".join(str(exc).split())[:300]
        hint = "check the container's output with `lmi logs`"
        if "ModelInvocationTimeExceeded" in why:
            hint = f"SageMaker ends long streams: request fewer tokens; {hint}"
        raise CloudError(
            f"{what}: the response ended early after {received[0]:,} bytes: {why}", hint=hint
        ) from exc


def _model_error_fields(exc: LmiError) -> Mapping[str, Any] | None:
    """SageMaker's error fields if it refused because of the model or the endpoint."""
    response: Mapping[str, Any] = getattr(exc.__cause__, "response", None) or {}
    code = response.get("Error", {}).get("Code", "")
    return response if code in ("ModelError", "ValidationError") else None


def _async_refused(exc: LmiError, what: str) -> LmiError:
    words = str((_model_error_fields(exc) or {}).get("Error", {}).get("Message", ""))
    if "not found" in words:
        return NotFound(
            f"{what}: SageMaker cannot invoke it: {words}",
            hint="check `lmi status`; an endpoint that is being created takes no request yet",
        )
    if _ASYNC_ONLY in words.lower():
        return UsageRefused(
            f"{what}: it is not asynchronous: {words}",
            hint="omit --async, or add `endpoint: {asynchronous: {}}` to the recipe and run `lmi up`",
        )
    return exc


def _of_the_model(error: Mapping[str, Any], what: str, exc: LmiError) -> Iterator[ResponseHead | bytes]:
    words = str(error["Error"].get("Message", ""))
    if error["Error"]["Code"] == "ValidationError":
        if "not found" in words:
            raise NotFound(
                f"{what}: SageMaker cannot invoke it: {words}",
                hint="check `lmi status`; an endpoint that is being created does not answer yet",
            ) from exc
        if NO_COPIES in words:
            raise NoCopies(
                f"{what}: no copy of the model runs now, and it answered nothing: {words}",
                hint="`lmi scale NAME 1` starts one; with endpoint.autoscaling and min: 0 a request does, in minutes",
            ) from exc
        if _ASYNC_ONLY in words.lower():
            raise UsageRefused(
                f"{what}: it is asynchronous, and takes no request that waits for the response: {words}",
                hint="send it by `lmi invoke --async`",
            ) from exc
        raise exc
    status = int(error.get("OriginalStatusCode") or 0)
    if status == 0:
        raise Overdue(f"{what}: no response: {words} {_LIMIT}", hint=_THROTTLED) from exc
    yield ResponseHead(status=status, reason=_reason(status), headers=())
    yield str(error.get("OriginalMessage", "")).encode()
