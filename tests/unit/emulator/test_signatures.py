"""Signatures are verified: with the examples that AWS publishes, and with what botocore signs."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.auth import S3SigV4Auth, S3SigV4QueryAuth, SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import given
from hypothesis import strategies as st

from lmi_deploy.emulator.wire import aws_chunked, signature_check
from lmi_deploy.emulator.wire.canonical_request import SignableRequest, canonical_request, version_2
from lmi_deploy.emulator.wire.errors import ApiError
from lmi_deploy.emulator.wire.signature import Signature, read_signature

# https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html and sigv4-streaming.html
KEY = "AKIAIOSFODNN7EXAMPLE"
SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
NOW = datetime(2013, 5, 24, tzinfo=UTC)
EMPTY = hashlib.sha256(b"").hexdigest()
SCOPE = "20130524/us-east-1/s3/aws4_request"
GET = SignableRequest(
    "GET",
    "/test.txt",
    (
        ("Host", "examplebucket.s3.amazonaws.com"),
        ("Range", "bytes=0-9"),
        ("x-amz-content-sha256", EMPTY),
        ("x-amz-date", "20130524T000000Z"),
        (
            "Authorization",
            f"AWS4-HMAC-SHA256 Credential={KEY}/{SCOPE},SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,"
            "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
        ),
    ),
)
CHUNKS = (
    (b"a" * 65536, "ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648"),
    (b"a" * 1024, "0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497"),
    (b"", "b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9"),
)
SEED = "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9"


def signature_of(wire: SignableRequest) -> Signature:
    headers = {name.title(): value for name, value in wire.headers}
    found = read_signature(headers, dict(reversed(wire.query)))
    assert found is not None
    return found


def refusal(wire: SignableRequest, *, secret: str = SECRET, body: bytes = b"", now: datetime = NOW) -> str:
    """The error code of a refused request; empty if it is accepted."""
    try:
        signature = signature_of(wire)
        is_declared = signature_check.is_declared(wire, signature)
        signature_check.require_signed(wire, signature, secret, None if is_declared else body, now)
        if is_declared:
            signature_check.require_body(wire, signature, secret, body)
    except ApiError as error:
        return error.code
    return ""


def chunked(parts: Any = CHUNKS) -> bytes:
    return b"".join(
        b"%x;chunk-signature=%s\r\n%s" % (len(content), name.encode(), content and content + b"\r\n")
        for content, name in parts
    )


def test_header_example_of_aws_verifies() -> None:
    assert refusal(GET) == ""
    assert refusal(GET, secret="another") == "SignatureDoesNotMatch"
    assert refusal(replace(GET, target="/other.txt")) == "SignatureDoesNotMatch"
    assert refusal(replace(GET, target="/test.txt?acl")) == "SignatureDoesNotMatch"
    assert refusal(replace(GET, method="DELETE")) == "SignatureDoesNotMatch"
    assert refusal(GET, body=b"x") == "XAmzContentSHA256Mismatch"


def test_unsigned_header_is_refused() -> None:
    more = (*GET.headers, ("x-amz-copy-source", "/other/key"))
    assert refusal(replace(GET, headers=more)) == "AccessDenied"


@pytest.mark.parametrize(
    ("late", "code"),
    [(14, ""), (-14, ""), (16, "RequestTimeTooSkewed"), (-16, "RequestTimeTooSkewed")],
)
def test_signature_is_valid_for_15_minutes(late: int, code: str) -> None:
    assert refusal(GET, now=NOW + timedelta(minutes=late)) == code


# https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-query-string-auth.html
PRESIGNED = SignableRequest(
    "GET",
    "/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3"
    "%2Faws4_request&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host"
    "&X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404",
    (("Host", "examplebucket.s3.amazonaws.com"),),
)


def test_presigned_url_example_of_aws_verifies() -> None:
    assert refusal(PRESIGNED, now=NOW + timedelta(hours=23)) == ""
    assert refusal(PRESIGNED, now=NOW + timedelta(hours=25)) == "AccessDenied"
    longer = PRESIGNED.target.replace("86400", "604800")
    assert refusal(replace(PRESIGNED, target=longer), now=NOW) == "SignatureDoesNotMatch"


# https://docs.aws.amazon.com/AmazonS3/latest/API/RESTAuthentication.html, with the bucket that it was signed for
OLD = SignableRequest(
    "GET",
    f"/johnsmith/photos/puppy.jpg?AWSAccessKeyId={KEY}&Signature={{}}&Expires=1175139620",
    (("Host", "s3.us-west-1.amazonaws.com"),),
)


def test_presigned_url_of_version_2_verifies() -> None:
    before = datetime.fromtimestamp(1175139600, UTC)
    assert version_2(OLD, "1175139620") == "GET\n\n\n1175139620\n/johnsmith/photos/puppy.jpg"
    good = replace(OLD, target=OLD.target.format("NpgCjnDzrM%2BWFzoENXmpNDUsSn8%3D"))
    assert refusal(good, now=before) == ""
    assert refusal(good, now=NOW) == "AccessDenied"
    assert refusal(replace(good, method="PUT"), now=before) == "SignatureDoesNotMatch"
    assert refusal(replace(good, target=good.target + "&acl"), now=before) == "SignatureDoesNotMatch"


def streamed(kind: str = aws_chunked.SIGNED) -> SignableRequest:
    """The example of the page on chunks; for other kinds signed again."""
    headers = (
        ("Host", "s3.amazonaws.com"),
        ("x-amz-date", "20130524T000000Z"),
        ("x-amz-storage-class", "REDUCED_REDUNDANCY"),
        ("x-amz-content-sha256", kind),
        ("Content-Encoding", "aws-chunked"),
        ("x-amz-decoded-content-length", "66560"),
        ("Content-Length", "66824"),
    )
    names = sorted(name.lower() for name, _ in headers)
    scope = f"Credential={KEY}/{SCOPE},SignedHeaders={';'.join(names)},Signature="
    authorization = ("Authorization", f"AWS4-HMAC-SHA256 {scope}{SEED}")
    wire = SignableRequest("PUT", "/examplebucket/chunkObject.txt", (*headers, authorization))
    if kind == aws_chunked.SIGNED:
        return wire
    (value,) = signature_check._signatures(wire, signature_of(wire), SECRET, None)
    return replace(wire, headers=(*headers, ("Authorization", f"AWS4-HMAC-SHA256 {scope}{value}")))


def test_signed_chunks_example_of_aws_verifies() -> None:
    assert refusal(streamed(), body=chunked()) == ""
    changed = chunked().replace(b"aaaa\r\n", b"aaab\r\n")
    cut = chunked(CHUNKS[:2])
    swapped = chunked((CHUNKS[1], CHUNKS[0], CHUNKS[2]))
    for body in (changed, cut, swapped, b"", b"x" * 100, chunked()[:-90], b"-5;chunk-signature=0\r\n"):
        assert refusal(streamed(), body=body) == "SignatureDoesNotMatch"


def test_signed_trailer_is_verified() -> None:
    wire = streamed(aws_chunked.SIGNED_TRAILER)
    signature = signature_of(wire)
    seed = aws_chunked.Seed(
        signature_check._signing_key(signature, SECRET), signature.moment, signature.scope, signature.value
    )
    first = seed.follow(signature.value, b"abc")
    last = seed.follow(first, b"")
    trailer = b"x-amz-checksum-crc32c:sOO8/Q=="
    end = seed.follow(last, trailer + b"\n", kind="TRAILER").encode()
    body = chunked(((b"abc", first), (b"", last))) + trailer + b"\r\nx-amz-trailer-signature:" + end + b"\r\n"
    assert refusal(wire, body=body) == ""
    assert refusal(wire, body=body.replace(b"sOO8", b"sOO9")) == "SignatureDoesNotMatch"
    assert refusal(wire, body=body.partition(b"x-amz-trailer-signature")[0]) == "SignatureDoesNotMatch"
    assert refusal(streamed(aws_chunked.UNSIGNED_TRAILER), body=b"whatever it is") == ""


TEXT = st.text(st.characters(min_codepoint=33, max_codepoint=0x2FF), min_size=1, max_size=12)


@given(parts=st.lists(TEXT, max_size=3), query=st.dictionaries(TEXT, st.text(max_size=9), max_size=3))
def test_every_botocore_signature_verifies(parts: list[str], query: dict[str, str]) -> None:
    from urllib.parse import quote, urlencode

    path = "/" + "/".join(quote(part, safe="~") for part in parts)
    url = f"http://127.0.0.1:4566{path}" + (f"?{urlencode(query, quote_via=quote)}" if query else "")
    for kind, service in ((SigV4Auth, "sagemaker"), (S3SigV4Auth, "s3"), (S3SigV4QueryAuth, "s3")):
        body = b"" if kind is S3SigV4QueryAuth else b"body"
        request = AWSRequest(method="PUT", url=url, data=body, headers={"X-Amz-Target": "a  b "})
        kind(Credentials(KEY, SECRET, "token"), service, "us-east-1").add_auth(request)  # type: ignore[no-untyped-call]
        headers = tuple(request.headers.items())
        target = request.url.removeprefix("http://127.0.0.1:4566")
        wire = SignableRequest("PUT", target, (("Host", "127.0.0.1:4566"), *headers))
        assert refusal(wire, body=body, now=datetime.now(UTC)) == "", (kind, target)
        assert refusal(wire, body=body, secret="x", now=datetime.now(UTC)) == "SignatureDoesNotMatch"


def test_only_s3_accepts_an_unsigned_body() -> None:
    request = AWSRequest(
        method="POST", url="http://h/", data=b"x", headers={"X-Amz-Content-SHA256": "UNSIGNED-PAYLOAD"}
    )
    SigV4Auth(Credentials(KEY, SECRET), "sagemaker", "us-east-1").add_auth(request)  # type: ignore[no-untyped-call]
    wire = SignableRequest("POST", "/", (("Host", "h"), *request.headers.items()))
    assert refusal(wire, body=b"y", now=datetime.now(UTC)) == "SignatureDoesNotMatch"


def test_canonical_request_equals_the_documented_one() -> None:
    output = canonical_request(GET, "/test.txt", ("host", "range"), EMPTY)
    assert (
        output
        == f"GET\n/test.txt\n\nhost:examplebucket.s3.amazonaws.com\nrange:bytes=0-9\n\nhost;range\n{EMPTY}"
    )
