"""Classify what botocore raised: whether to retry it, and the matching error of lmi."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from traceback import walk_tb
from typing import Any, Final, Literal

from lmi_deploy.aws.credentials import EXPIRED
from lmi_deploy.aws.response_fields import UnexpectedResponse

Kind = Literal["again", "skewed", "expired", "damaged", "contested", "mute", "garbled", "final"]
"""`mute`: a refusal without a code, as in a response to HEAD, possibly because of the clock. `garbled`: a success
that cannot be parsed, so that the outcome is unknown.
"""

_THROTTLED: Final = frozenset(
    {
        *("RequestLimitExceeded", "SlowDown", "ThrottledException", "Throttling", "ThrottlingException"),
        *("TooManyRequests", "TooManyRequestsException"),
    }
)
_RETRYABLE: Final = _THROTTLED | frozenset(
    {
        "BandwidthLimitExceeded",
        "ConcurrentUpdateException",
        "IncompleteBody",
        "InternalDependencyException",
        "InternalError",
        "InternalFailure",
        "InternalServerError",
        "InternalServerException",
        "InternalServiceException",
        "OperationAborted",
        "RequestTimeout",
        "RequestTimeoutException",
        "ServiceUnavailable",
        "ServiceUnavailableException",
    }
)
_SKEWED: Final = frozenset({"RequestTimeTooSkewed", "RequestInTheFuture"})
_OUT_OF_TIME: Final = ("Signature expired", "Signature not yet current")
"""The first words of the error of every service but S3 for a request whose time is wrong."""
_DAMAGED: Final = frozenset(
    {
        "BadDigest",
        "InvalidDigest",
        "XAmzContentChecksumMismatch",
        "XAmzContentSHA256Mismatch",
        "ContentSHA256Mismatch",
    }
)
_NO_CONNECTION: Final = frozenset({"SSLError", "ProxyConnectionError", "InvalidProxiesConfigError"})
GARBLED: Final = "UnexpectedResponse"
_PRINCIPAL: Final = re.compile(r"User: (\S+)")
_ACTION: Final = re.compile(r"not authorized to perform: (\S+)")
_RESOURCE: Final = re.compile(r"on resource: \"?([^\s\"]+)\"?")


@dataclass(frozen=True, slots=True, kw_only=True)
class AwsError:
    """`resent`: the request went out more than once, so an earlier one may have been carried out."""

    kind: Kind
    code: str
    status: int = 0
    message: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    fields: Mapping[str, str] = field(default_factory=dict)
    resent: bool = False

    @property
    def principal(self) -> str:
        return _found(_PRINCIPAL, self.message)

    @property
    def action(self) -> str:
        return _found(_ACTION, self.message)

    @property
    def resource(self) -> str:
        return _found(_RESOURCE, self.message)

    @property
    def is_throttled(self) -> bool:
        return self.code in _THROTTLED

    @property
    def is_unreachable(self) -> bool:
        """No connection could be made."""
        return self.code in ("EndpointConnectionError", "ConnectTimeoutError")

    @property
    def region(self) -> str:
        """The bucket's region, if the response contains it."""
        return self.headers.get("x-amz-bucket-region") or self.fields.get("Region", "")


def _found(pattern: re.Pattern[str], text: str) -> str:
    match = pattern.search(text)
    return match[1].rstrip(".") if match else ""


def read_error(exc: Exception) -> AwsError:
    """From a ClientError or another error of botocore."""
    response = getattr(exc, "response", None)
    if isinstance(response, dict):
        return _answered(response)
    name = type(exc).__name__
    if is_unreadable(exc):
        return AwsError(kind="garbled", code=GARBLED, message=_unreadable(exc), resent=True)
    text = " ".join(str(exc).split())[:300]
    return AwsError(kind="final" if name in _NO_CONNECTION else "again", code=name, message=text, resent=True)


def is_unreadable(exc: BaseException) -> bool:
    """Whether a response of 200 did not come from the service.

    botocore has its own exception for few of them: most raise one of Python's own, in botocore's code and not in one
    of our hooks.
    """
    from botocore.parsers import ResponseParserError

    if isinstance(exc, (UnexpectedResponse, ResponseParserError)):
        return True
    if not isinstance(exc, (ValueError, TypeError, LookupError, AttributeError)):
        return False
    modules = [str(frame.f_globals.get("__name__")) for frame, _ in walk_tb(exc.__traceback__)]
    last = next((name for name in reversed(modules) if name.startswith(("botocore.", "lmi_deploy."))), "")
    return last.startswith("botocore.")


def _unreadable(exc: Exception) -> str:
    if isinstance(exc, UnexpectedResponse):
        return str(exc)
    return "with a body that cannot be read (a web page?)"


def _answered(response: dict[str, Any]) -> AwsError:
    fields = {key: str(value) for key, value in response.get("Error", {}).items()}
    about = response.get("ResponseMetadata", {})
    status = int(about.get("HTTPStatusCode") or 0)
    code = fields.get("Code", "") or str(status)
    return AwsError(
        kind=_kind(code, status, fields.get("Message", "")),
        code=code,
        status=status,
        message=" ".join(fields.get("Message", "").split()),
        headers=about.get("HTTPHeaders", {}),
        fields=fields,
        resent=int(about.get("RetryAttempts") or 0) > 0,
    )


def _kind(code: str, status: int, message: str) -> Kind:
    if code in _SKEWED or message.startswith(_OUT_OF_TIME):
        return "skewed"
    if code in EXPIRED or code == "400":  # HEAD has no body, so no better code
        return "expired"
    if code == "403":
        return "mute"
    if code in _DAMAGED:
        return "damaged"
    if code == "ConditionalRequestConflict":
        return "contested"
    if code in _RETRYABLE or status in (429, 500, 502, 503, 504):
        return "again"
    return "final"
