"""Wire formats: event streams, CBOR, patterns, signatures, shapes."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.eventstream import EventStreamBuffer
from hypothesis import given
from hypothesis import strategies as st

from lmi_deploy.emulator.wire import cbor, eventstream
from lmi_deploy.emulator.wire.errors import ApiError
from lmi_deploy.emulator.wire.parameter_validation import check, matches
from lmi_deploy.emulator.wire.service_models import service_model
from lmi_deploy.emulator.wire.signature import read_signature


@given(st.lists(st.binary(max_size=300), max_size=5))
def test_botocore_reads_our_event_stream(payloads: list[bytes]) -> None:
    buffer = EventStreamBuffer()
    buffer.add_data(b"".join(eventstream.event("PayloadPart", payload) for payload in payloads))
    events = list(buffer)
    assert [event.payload for event in events] == payloads
    assert all(event.headers[":event-type"] == "PayloadPart" for event in events)


def test_botocore_reads_our_exception_event() -> None:
    buffer = EventStreamBuffer()
    buffer.add_data(eventstream.exception("ModelStreamError", {"Message": "m", "ErrorCode": "c"}))
    (event,) = buffer
    assert event.headers[":exception-type"] == "ModelStreamError"
    assert event.to_response_dict()["status_code"] == 400


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=20,
)


@given(VALUES)
def test_cbor_survives_a_round_trip(value: Any) -> None:
    assert cbor.loads(cbor.dumps(value)) == value


def test_botocore_reads_our_cbor() -> None:
    import io

    from botocore.parsers import RpcV2CBORParser

    written = cbor.dumps({"a": [1, -2, 1.5, "x", b"y", None, True], "b": cbor.CborTimestamp(1.5e9)})
    description = RpcV2CBORParser().parse_data_item(io.BufferedReader(io.BytesIO(written)))  # type: ignore[no-untyped-call]
    assert description["a"] == [1, -2, 1.5, "x", b"y", None, True]
    assert description["b"].timestamp() == 1.5e9


PATTERNS = [
    (r"[a-z]+", "abc", True),
    (r"[a-z]+", "abc\n", False),
    (r"([\p{L}\p{Z}\p{N}_.:/=+\-@]*)", "Größe 1/2 日本", True),
    (r"([\p{L}\p{Z}\p{N}_.:/=+\-@]*)", "a;b", False),
    (r"\p{ASCII}*", "plain", True),
    (r"\p{ASCII}*", "naïve", False),
    (r"\A\S[\p{Print}]*\z", "x y", True),
    (r"\A\S[\p{Print}]*\z", " x", False),
    (r"[\u0020-\uD7FF\uE000-\uFFFD\uD800\uDC00-\uDBFF\uDFFF\t]*", "a\U0001f600", True),
    (r"[\w-_]*", "a-b_c", True),
]


@pytest.mark.parametrize(("pattern", "text", "fits"), PATTERNS)
def test_java_patterns_match_like_java(pattern: str, text: str, fits: bool) -> None:
    assert matches(pattern, text) is fits


@pytest.mark.parametrize(
    "service", ["sagemaker", "sagemaker-runtime", "logs", "cloudwatch", "application-autoscaling"]
)
def test_every_pattern_of_a_service_compiles_except_the_listed_ones(service: str) -> None:
    from lmi_deploy.emulator.wire.parameter_validation import _compiled

    model = service_model(service)
    found = [model.shape_for(name).metadata.get("pattern") for name in model.shape_names]
    assert [text for text in found if text and _compiled(text) is None] == BEYOND.get(service, [])


BEYOND: dict[str, list[str]] = {
    # Not a regular expression in Java either.
    "sagemaker": [
        r"([\p{L}\p{Z}\p{N}_.:\/=+\-@]*)${1,128}",
        r"([\p{L}\p{Z}\p{N}_.:\/=+\-@]*)${1,256}",
    ],
}


def test_validation_errors_are_reported_together() -> None:
    shape = service_model("sagemaker").operation_model("CreateEndpoint").input_shape
    with pytest.raises(ApiError) as refusal:
        check(shape, {"EndpointName": "-", "Tags": [{"Key": "k"}]})
    assert refusal.value.message == (
        "3 validation errors detected: Value null at 'endpointConfigName' failed to satisfy constraint: "
        "Member must not be null; Value '-' at 'endpointName' failed to satisfy constraint: Member must "
        "satisfy regular expression pattern: [a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}; Value null at "
        "'tags.1.member.value' failed to satisfy constraint: Member must not be null"
    )


def test_header_and_query_signatures_are_read() -> None:
    header = "AWS4-HMAC-SHA256 Credential=AKID/20261121/eu-west-1/sagemaker/aws4_request, SignedHeaders=a, Signature=b"
    read = read_signature({"Authorization": header}, {})
    assert read is not None
    assert (read.key, read.region, read.service) == ("AKID", "eu-west-1", "sagemaker")
    presigned = read_signature({}, {"X-Amz-Credential": "AKID/20261121/us-west-2/s3/aws4_request"})
    assert presigned is not None
    assert presigned.service == "s3"
    assert read_signature({}, {}) is None
