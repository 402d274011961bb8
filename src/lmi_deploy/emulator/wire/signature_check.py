"""Check who signed a request: Version 4 in header and query, Version 2 in the query of S3's presigned URLs."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

from lmi_deploy.emulator.wire import aws_chunked
from lmi_deploy.emulator.wire.canonical_request import SignableRequest, canonical_request, paths, version_2
from lmi_deploy.emulator.wire.errors import ApiError
from lmi_deploy.emulator.wire.signature import ALGORITHM, Signature

UNSIGNED: Final = "UNSIGNED-PAYLOAD"
DECLARED: Final = "x-amz-content-sha256"
SKEW: Final = timedelta(minutes=5)
"""The clock difference that AWS tolerates; S3 tolerates more."""
SKEW_OF_S3: Final = timedelta(minutes=15)
LONGEST: Final = timedelta(days=7)
_EMPTY: Final = hashlib.sha256(b"").hexdigest()
_STREAMED: Final = (aws_chunked.SIGNED, aws_chunked.SIGNED_TRAILER, aws_chunked.UNSIGNED_TRAILER)
_MISMATCH: Final = (
    "The request signature we calculated does not match the signature you provided. Check your AWS Secret Access "
    "Key and signing method. Consult the service documentation for details."
)


def mismatch(why: str = _MISMATCH) -> ApiError:
    return ApiError("SignatureDoesNotMatch", why, status=403)


def require_signed(
    wire: SignableRequest, signature: Signature, secret: str, body: bytes | None, now: datetime
) -> None:
    """ApiError unless the head is signed with `secret`, at about this moment.

    `body` is None where the head itself declares the body's hash (`is_declared`); `require_body` checks that.
    """
    if signature.form == "version 2":
        _require_version_2(wire, signature, secret, now)
        return
    _require_moment(signature, now)
    _require_covered(wire, signature)
    if not any(
        hmac.compare_digest(expected, signature.value)
        for expected in _signatures(wire, signature, secret, body)
    ):
        raise mismatch()


def is_declared(wire: SignableRequest, signature: Signature) -> bool:
    """Whether the head contains the signed hash of the body."""
    return signature.form == "version 2" or signature.is_of_s3 or bool(wire.header(DECLARED))


def require_body(wire: SignableRequest, signature: Signature, secret: str, body: bytes) -> None:
    """ApiError unless the body is the one that the (verified) head declares."""
    declared = _declared(wire, signature)
    if declared in (UNSIGNED, aws_chunked.UNSIGNED_TRAILER):
        return
    if declared in _STREAMED:
        key = _signing_key(signature, secret)
        seed = aws_chunked.Seed(key, signature.moment, signature.scope, signature.value)
        try:
            aws_chunked.require_signed(body, seed, has_trailer=declared == aws_chunked.SIGNED_TRAILER)
        except aws_chunked.BadChunks as exc:
            raise mismatch() from exc
        return
    if not hmac.compare_digest(hashlib.sha256(body).hexdigest(), declared):
        raise ApiError(
            "XAmzContentSHA256Mismatch",
            "The provided 'x-amz-content-sha256' header does not match what was computed.",
        )


def _declared(wire: SignableRequest, signature: Signature) -> str:
    """The hash of the payload, or the keyword in its place; only S3 accepts such keywords."""
    if signature.form == "version 2":
        return UNSIGNED
    given = wire.header(DECLARED)
    if signature.is_of_s3 and not given:
        if signature.form == "query":
            return UNSIGNED
        raise ApiError("InvalidRequest", f"Missing required header for this request: {DECLARED}")
    if not signature.is_of_s3 and len(given) != len(_EMPTY):
        raise mismatch(f"{DECLARED}: {given}: only S3 accepts a payload that is not signed as a whole")
    return given


def _signatures(
    wire: SignableRequest, signature: Signature, secret: str, body: bytes | None
) -> Iterator[str]:
    payload = _declared(wire, signature) if body is None else hashlib.sha256(body).hexdigest()
    key = _signing_key(signature, secret)
    for path in paths(wire, signature.service):
        request = canonical_request(wire, path, signature.signed, payload)
        digest = hashlib.sha256(request.encode()).hexdigest()
        text = "\n".join((ALGORITHM, signature.moment, signature.scope, digest))
        yield hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def _signing_key(signature: Signature, secret: str) -> bytes:
    key = f"AWS4{secret}".encode()
    for part in (signature.date, signature.region, signature.service, "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return key


def _require_covered(wire: SignableRequest, signature: Signature) -> None:
    """The host and every `x-amz-` header must be signed: an unsigned one could come from an attacker."""
    left_out = {name for name in wire.names() if name.startswith("x-amz-")} | {"host"}
    left_out -= set(signature.signed)
    if left_out:
        raise ApiError(
            "AccessDenied",
            f"There were headers present in the request which were not signed: {', '.join(sorted(left_out))}",
            status=403,
        )


def _require_moment(signature: Signature, now: datetime) -> None:
    skew = SKEW_OF_S3 if signature.is_of_s3 else SKEW
    try:
        created = datetime.strptime(signature.moment, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        lasts = timedelta(seconds=int(signature.expires)) if signature.form == "query" else skew
    except (ValueError, OverflowError) as exc:
        raise ApiError(
            "IncompleteSignatureException", "X-Amz-Date, and X-Amz-Expires of a URL, must be given"
        ) from exc
    if signature.moment[:8] != signature.date:
        raise mismatch(
            "Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date from HTTP: "
            f"'{signature.date}' != '{signature.moment[:8]}'"
        )
    if not timedelta() <= lasts <= LONGEST:
        raise ApiError("AuthorizationQueryParametersError", "X-Amz-Expires must be less than a week")
    if created > now + skew:
        if signature.is_of_s3 and signature.form == "header":
            raise _too_skewed()
        raise mismatch(f"Signature not yet current: {signature.moment} is still later than {_timestamp(now)}")
    if created + lasts < now:
        if signature.form == "query":
            raise _expired()
        if signature.is_of_s3:
            raise _too_skewed()
        raise mismatch(f"Signature expired: {signature.moment} is now earlier than {_timestamp(now - skew)}")


def _require_version_2(wire: SignableRequest, signature: Signature, secret: str, now: datetime) -> None:
    if (
        not signature.moment.isdigit()
        or len(signature.moment) > 12
        or int(signature.moment) < now.timestamp()
    ):
        raise _expired()
    digest = hmac.new(secret.encode(), version_2(wire, signature.moment).encode(), hashlib.sha1).digest()
    if not hmac.compare_digest(base64.b64encode(digest).decode(), signature.value):
        raise mismatch()


def _expired() -> ApiError:
    return ApiError("AccessDenied", "Request has expired", status=403)


def _too_skewed() -> ApiError:
    words = "The difference between the request time and the current time is too large."
    return ApiError("RequestTimeTooSkewed", words, status=403)


def _timestamp(moment: datetime) -> str:
    return moment.strftime("%Y%m%dT%H%M%SZ")
