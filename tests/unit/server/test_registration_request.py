"""POST /models: its parameters, and the name under which a folder is served."""

from __future__ import annotations

import json

import pytest

from lmi_deploy.server.error_responses import ErrorReply
from lmi_deploy.server.http.request_head_parser import ReceivedRequest
from lmi_deploy.server.models.registration_request import Registration, read_registration

JSON = [("Content-Type", "application/json; charset=utf-8")]


def register(body: object, query: dict[str, str] | None = None) -> Registration:
    return read_registration(ReceivedRequest("POST", "/models", JSON, json.dumps(body).encode()), query or {})


def test_registration_is_read_from_the_query() -> None:
    query = {
        "url": "file:/m/x/", "model_name": "n", "model_version": "1.0", "min_worker": "1", "max_worker": "-1",
        "batch_size": "4", "device": "0;1", "synchronous": "false",
    }  # fmt: skip
    found = read_registration(ReceivedRequest("POST", "/models", [], b"ignored"), query)
    assert (str(found.folder), found.name, found.version, found.synchronous) == ("/m/x", "n", "1.0", False)
    assert found.over.keys == {"minWorkers": "1", "batch_size": "4", "load_on_devices": "0;1"}


def test_json_body_replaces_the_query() -> None:
    found = register(
        {"url": "file:///m/x", "max_worker": 3, "synchronous": True}, {"model_name": "of the query"}
    )
    assert (str(found.folder), found.name, found.synchronous) == ("/m/x", "x", True)
    assert found.over.keys == {"maxWorkers": "3"}


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("file:/m/resnet-18/", "resnet_18"),
        ("file:/m/resnet-18.tar.gz", "resnet_18"),
        ("file:///m/v1.5/", "v1_5"),
        ("/m/plain", "plain"),
    ],
)
def test_model_name_is_derived_from_the_url(url: str, name: str) -> None:
    assert register({"url": url}).name == name


def test_invalid_registration_is_refused() -> None:
    with pytest.raises(ErrorReply, match="Parameter url is required") as missing:
        read_registration(ReceivedRequest("POST", "/models", []), {})
    with pytest.raises(ErrorReply, match="startsWith") as null:
        register({})
    with pytest.raises(ErrorReply, match='For input string: "abc"') as number:
        register({"url": "file:/m", "batch_size": "abc"})
    assert [found.value.status for found in (missing, null, number)] == [400, 500, 409]


@pytest.mark.parametrize(
    "raw", [b"[" * 200_000, b'{"url": ' * 200_000, b'{"batch_size": ' + b"9" * 5000 + b"}"]
)
def test_hostile_json_body_is_a_syntax_error(raw: bytes) -> None:
    with pytest.raises(ErrorReply) as caught:
        read_registration(ReceivedRequest("POST", "/models", JSON, raw), {})
    assert (caught.value.status, caught.value.kind) == (500, "JsonSyntaxException")
