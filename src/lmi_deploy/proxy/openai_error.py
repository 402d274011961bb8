"""Errors as OpenAI's API gives them, and what becomes of those of a model server or of SageMaker. Pure."""

from __future__ import annotations

import json
from typing import Any

from lmi_deploy.domain.djl_serving import usual_reason
from lmi_deploy.domain.sagemaker.component_settings import NO_COPIES
from lmi_deploy.engines.response_stream_decoder import LONGEST_ERROR, error_text
from lmi_deploy.errors import AccessError, LmiError, NotFound, UsageRefused

RETRY_SECONDS = 1
"""Where the service names no time."""
_WAKE_SECONDS = 60
"""Of a model without copies: AWS starts one within minutes."""
NO_DEPLOYMENT = "there is no deployment: `lmi up RECIPE` creates one"
_KINDS = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}


class OpenAIError(Exception):
    """`code` is for programs; `retry_after`: seconds after which the same request may succeed, None if it may not."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str | None = None,
        param: str | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.param = param
        self.retry_after = retry_after

    @property
    def fields(self) -> dict[str, Any]:
        """The value of `error` in a body or an event."""
        kind = _KINDS.get(self.status, "invalid_request_error" if self.status < 500 else "server_error")
        return {"message": self.message, "type": kind, "param": self.param, "code": self.code}

    @property
    def body(self) -> bytes:
        return json.dumps({"error": self.fields}, ensure_ascii=False).encode()


def bad_request(message: str, param: str | None = None, *, code: str | None = None) -> OpenAIError:
    return OpenAIError(400, f"{param}: {message}" if param else message, param=param, code=code)


def unknown_model(name: str, names: tuple[str, ...]) -> OpenAIError:
    known = f"this proxy serves {', '.join(names)}" if names else NO_DEPLOYMENT
    return OpenAIError(
        404, f"the model {name!r} does not exist; {known}", code="model_not_found", param="model"
    )


def server_error(status: int, content: bytes, *, reason: str = "", retry_after: str = "") -> OpenAIError:
    """The error of a model server: its own words, and its status, which clients already know how to take."""
    text = content.decode("utf-8", "replace")
    value = parse_json(text)
    message = error_text(value) or text.strip()[:LONGEST_ERROR] or reason or f"the server responded {status}"
    if usual := usual_reason(text):
        message = f"{message} ({usual})"
    body = value if isinstance(value, dict) else {}
    error = body.get("error")
    fields = error if isinstance(error, dict) else {}
    if status == 400 and body.get("type") == "TranslateException":
        status = 503  # DJLServing, after a worker died in the middle of a stream: not the client's mistake
    busy = status in (429, 503)
    return OpenAIError(
        status,
        message,
        code=_text_or_none(fields.get("code")) or ("model_error" if status in (424, 500, 507) else None),
        param=_text_or_none(fields.get("param")),
        retry_after=_seconds(retry_after) if busy else None,
    )


def aws_error(
    code: str, message: str, fields: dict[str, Any], *, status: int, retry_after: str = ""
) -> OpenAIError:
    """The error of SageMaker's runtime, by its code; that of a model is inside a ModelError."""
    if code == "ModelError":
        original = int(fields.get("OriginalStatusCode") or 0)
        if original:
            return server_error(original, str(fields.get("OriginalMessage") or message).encode())
        return OpenAIError(504, f"no response of the model: {message}", code="model_timeout")
    if code == "ModelNotReadyException":
        return OpenAIError(503, f"the model is not ready: {message}", code="model_not_ready", retry_after=5)
    if "Throttl" in code or code == "TooManyRequestsException":
        return OpenAIError(429, message, code="rate_limit_exceeded", retry_after=_seconds(retry_after))
    if code == "ValidationError" and (known := _of_validation(message)):
        return known
    if code in ("AccessDeniedException", "AccessDenied"):
        return OpenAIError(403, message, code="aws_access_denied")
    if status in (401, 403):
        hint = "log in again (`aws sso login`, or new keys)"
        return OpenAIError(
            503, f"AWS refused the proxy's credentials: {message}; {hint}", code="aws_credentials"
        )
    if status < 500:
        return OpenAIError(status, message or code, code=code)
    return OpenAIError(503, f"SageMaker: {message or code}", code=code, retry_after=_seconds(retry_after))


def _of_validation(message: str) -> OpenAIError | None:
    """What SageMaker refuses before the model sees it; None if its words are not known."""
    if NO_COPIES in message:
        words = f"no copy of the model runs now: {message}"
        return OpenAIError(503, words, code="model_not_ready", retry_after=_WAKE_SECONDS)
    if "not found" in message:
        return OpenAIError(404, f"the endpoint is gone: {message}", code="endpoint_not_found", param="model")
    if "length less than or equal to" in message:
        return OpenAIError(413, message, code="request_too_large")
    return None


def of_lmi_error(error: LmiError) -> OpenAIError:
    """A deployment that cannot be looked up, or a request that its handler has no form for."""
    hint = f"; {error.hint}" if error.hint else ""
    status = 404 if isinstance(error, NotFound) else 400 if isinstance(error, UsageRefused) else 503
    code = {404: "endpoint_not_found", 400: None}.get(
        status, "aws_credentials" if isinstance(error, AccessError) else "deployment_unavailable"
    )
    return OpenAIError(status, f"{error.message}{hint}", code=code)


def parse_json(text: str | bytes) -> Any:
    """None if it is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _text_or_none(value: object) -> str | None:
    return None if value is None or isinstance(value, (dict, list)) else str(value)


def _seconds(text: str) -> int:
    return int(text) if text.isdigit() else RETRY_SECONDS
