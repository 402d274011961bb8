"""Heads, error bodies, forms, error rates: the rules for what a client sees."""

from __future__ import annotations

import pytest

from lmi_deploy.server.error_responses import ErrorReply, at_capacity
from lmi_deploy.server.http import form_parsing, responses
from lmi_deploy.server.http.handler_input import read_input
from lmi_deploy.server.http.request_head_parser import ReceivedRequest
from lmi_deploy.server.http.routes import Rates
from lmi_deploy.server.models.property_values import InvalidSettings


def test_error_response_is_html_safe_json() -> None:
    reply = responses.error_response(ErrorReply(400, "BadRequestException", "can't <b>&=</b>"), 400)
    assert reply.body == (
        b'{\n  "code": 400,\n  "type": "BadRequestException",\n'
        b'  "message": "can\\u0027t \\u003cb\\u003e\\u0026\\u003d\\u003c/b\\u003e"\n}\n'
    )


def test_handler_headers_are_sorted_and_reserved_ones_dropped() -> None:
    properties = [("X-b", "1"), ("x-A", "2"), ("X-B", "3"), ("Content-Length", "9"), ("Expires", "never")]
    assert responses.handler_headers(properties) == [("x-A", "2"), ("X-b", "3")]


@pytest.mark.parametrize(("name", "value"), [("X-NL", "a\nb"), ("", "x"), ("a b", "x"), ("Ünder", "x")])
def test_invalid_header_is_refused(name: str, value: str) -> None:
    with pytest.raises(ErrorReply) as caught:
        responses.handler_headers([(name, value)])
    assert caught.value.status == 500


def test_error_status_codes_are_configurable() -> None:
    assert at_capacity("m").status_by({"throttle_error_http_code": "429"}) == 429
    assert at_capacity("m").status_by({"wlm_error_http_code": "529"}) == 503


def test_request_properties_and_content_are_read() -> None:
    headers = [
        ("Content-Type", "text/plain"),
        ("x-dup", "1"),
        ("X-DUP", "2"),
        ("X-Amzn-SageMaker-Custom-Attributes", "a=b; content-type = application/json ;junk"),
    ]
    requests = read_input(
        ReceivedRequest("POST", "/invocations?q=1&r=2&q=3", headers, b"body", sized=False), "id-1"
    )
    assert requests.properties() == [
        ("a", "b"),
        ("content-length", "4"),
        ("Content-Type", "application/json"),
        ("requestId", "id-1"),
        ("x-dup", "2"),
    ]
    assert requests.content == [("q", b"1"), ("q", b"3"), ("r", b"2"), ("data", b"body")]


def test_client_cannot_choose_the_handler() -> None:
    with pytest.raises(ErrorReply, match="can't be overridden"):
        read_input(ReceivedRequest("POST", "/", [("Handler", "x")]), "id")


@pytest.mark.parametrize(
    ("content_type", "body", "entries"),
    [
        (
            "application/x-www-form-urlencoded; charset=x",
            b"a=1&b=%C3%A9+x",
            [("a", b"1"), ("b", "é x".encode())],
        ),
        ("multipart/form-data; boundary=XX", b"junk", []),
        ("multipart/form-data", b"junk", None),
        (None, b"x", None),
    ],
)
def test_forms_become_entries(
    content_type: str | None, body: bytes, entries: list[tuple[str, bytes]] | None
) -> None:
    assert form_parsing.form_entries(content_type, body) == entries


def test_multipart_form_keeps_binary_bytes() -> None:
    body = (
        b'--XX\r\nContent-Disposition: form-data; name="f"; filename="f.bin"\r\n\r\n\x00\r\n\xff\r\n'
        b'--XX\r\nContent-Disposition: form-data; name="data"\r\n\r\n{}\r\n--XX--\r\n'
    )
    found = form_parsing.form_entries("multipart/form-data; boundary=XX", body)
    assert found == [("f", b"\x00\r\n\xff"), ("data", b"{}")]


def test_invalid_escape_in_a_query_is_409() -> None:
    with pytest.raises(ErrorReply) as caught:
        form_parsing.split_target("/x?a=%zz")
    assert caught.value.status == 409


def test_tripped_error_rate_stays_tripped() -> None:
    rates = Rates({"error_rate_any": "2/PT1M"})
    for moment in (0.0, 100.0, 101.0):
        rates.error("model", moment)
    assert not rates.tripped
    rates.error("model", 102.0)
    rates.error("model", 1000.0)
    assert rates.tripped
    with pytest.raises(InvalidSettings, match="ISO-8601"):
        Rates({"error_rate_server": "2/1m"})
