"""Unusual requests and handlers beyond the recordings: answered as in the real server's sources."""

from __future__ import annotations

import http.client
import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.running_server import RunningServer, serving, write_model

pytestmark = pytest.mark.worker

HANDLER = """
import json, time
from djl_python import Output

def handle(inputs):
    if inputs.is_empty():
        return None
    asked = inputs.get_as_json()
    time.sleep(asked.get("sleep", 0))
    if "fail" in asked:
        raise ValueError(asked["fail"])
    out = Output(code=asked.get("code", 200), message=asked.get("message", "OK"))
    for name, value in asked.get("headers", {}).items():
        out.add_property(name, value)
    return out.add(asked.get("text", "text"))
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    folder = tmp_path_factory.mktemp("corners")
    write_model(folder / "other", HANDLER.replace('"text")', '"other")'))
    config = folder / "config.properties"
    config.write_text("cors_allowed_origin=*\ncors_allowed_methods=GET\n")
    with serving(write_model(folder / "m", HANDLER), "--config", str(config)) as served:
        yield served


def send_request(
    server: RunningServer, body: object, path: str = "/invocations", **headers: str
) -> http.client.HTTPResponse:
    connection = server.connect()
    named = {
        name if name == "model_name" else name.replace("_", "-"): value for name, value in headers.items()
    }
    connection.request("POST", path, json.dumps(body), {"content-type": "application/json", **named})
    return connection.getresponse()


def message(response: http.client.HTTPResponse) -> str:
    result: dict[str, str] = json.loads(response.read())
    return result["message"]


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("X Y", "v", "but found invalid character 0x20 at index 1 of header 'X Y'."),
        ("X(", "v", "but found invalid character 0x28 at index 1 of header 'X('."),
        ("", "v", "empty headers are not allowed []"),
        ("X", " v", "a header value contains prohibited character 0x20 at index 0."),
        ("X", "a\x7f", "a header value contains prohibited character 0x7f at index 1."),
    ],
)
def test_invalid_response_header_is_500(server: RunningServer, name: str, value: str, why: str) -> None:
    response = send_request(server, {"headers": {name: value}})
    assert response.status == 500
    assert message(response).endswith(why)


def test_line_break_in_the_reason_is_500(server: RunningServer) -> None:
    response = send_request(server, {"code": 418, "message": "a\r\nX-Injected: 1"})
    assert (response.status, response.getheader("x-injected")) == (500, None)
    assert message(response).startswith(
        "reasonPhrase contains one of the following prohibited characters: \\r\\n: a"
    )


def test_cors_headers_of_the_handler_are_kept(server: RunningServer) -> None:
    response = send_request(server, {"headers": {"Access-Control-Allow-Origin": "https://mine"}})
    assert response.read() == b"text"
    assert [pair for pair in response.getheaders() if pair[0].lower().startswith("access")] == [
        ("Access-Control-Allow-Origin", "https://mine"),
        ("access-control-allow-methods", "GET"),
    ]


@pytest.fixture(scope="module")
def other(server: RunningServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A second model, in two versions."""
    folder = write_model(
        tmp_path_factory.mktemp("second") / "other-model", HANDLER.replace('"text")', '"other")')
    )
    for version in ("1.0", "2.0"):
        requests = f"/models?url=file:{folder}/&model_version={version}&batch_size=&max_worker=1"
        assert send_request(server, {}, requests, content_type="text/plain").read() == (
            b'{\n  "status": "Model \\"other_model\\" registered."\n}\n'
        )
    yield
    for version in ("1.0", "2.0"):
        connection = server.connect()
        connection.request("DELETE", f"/models/other_model/{version}")
        assert connection.getresponse().status == 200


@pytest.mark.usefixtures("other")
class TestSeveralModels:
    def test_models_are_chosen_by_query_header_or_form(self, server: RunningServer) -> None:
        assert send_request(server, {}, "/invocations?model_name=other_model").read() == b"other"
        assert send_request(server, {}, "/invocations", model_name="other_model").read() == b"other"
        assert (
            send_request(server, {}, "/invocations?model_name=m", model_name="other_model").read() == b"text"
        )
        assert send_request(server, {}, "/models/other_model/invoke").read() == b"other"
        assert send_request(server, {}, "/predictions/other%5Fmodel").read() == b"other"
        assert send_request(server, {}).read() == b"text"

    def test_models_have_versions(self, server: RunningServer) -> None:
        assert send_request(server, {}, "/predictions/other_model/2.0").read() == b"other"
        assert send_request(server, {}, "/predictions/other_model/3.0").status == 404
        assert (
            send_request(server, {}, "/invocations?model_name=other_model&model_version=2.0").read()
            == b"other"
        )
        assert send_request(server, {}, "/invocations?model_name=other_model&model_version=9").status == 404
        listed = json.loads(server.get("/models?limit=&next_page_token=")[1])["models"]
        assert [(one["modelName"], one.get("version")) for one in listed] == [
            ("m", None),
            ("other_model", "1.0"),
            ("other_model", "2.0"),
        ]
        again = send_request(
            server,
            {"url": "file:/x/other-model/", "model_name": "other_model", "model_version": "1.0"},
            "/models",
        )
        assert (again.status, message(again)) == (409, "Workflow other_model:1.0 is already registered.")

    def test_models_are_scaled_to_min_worker(self, server: RunningServer) -> None:
        connection = server.connect()
        connection.request("PUT", "/models/other_model/1.0?min_worker=2")
        result = json.loads(connection.getresponse().read())["status"]
        assert result.endswith("New Worker configuration min workers:2 max workers:-1")
        described = json.loads(server.get("/models/other_model/1.0")[1])[0]["models"][0]["workerGroups"][0]
        assert (described["minWorkers"], described["maxWorkers"], len(described["workers"])) == (2, 1, 2)


@pytest.mark.parametrize(
    ("handler", "why"),
    [
        (
            "def handle(inputs):\n    raise ValueError('no')",
            "Failed to initialize model: invoke handler failure",
        ),
        ("raise ValueError('no')", "Failed to loaded model."),
        (
            "import os\ndef handle(inputs):\n    os._exit(1)",
            "java.util.concurrent.ExecutionException: java.io.IOException: Python worker disconnected.",
        ),
    ],
)
def test_model_that_fails_to_load_is_not_registered(
    server: RunningServer, tmp_path: Path, handler: str, why: str
) -> None:
    folder = write_model(tmp_path / "bad", handler)
    response = send_request(server, {"url": f"file:{folder}/"}, "/models")
    result = json.loads(response.read())
    assert (response.status, result["type"], result["message"]) == (500, "EngineException", why)
    assert b'"bad"' not in server.get("/models")[1]


def test_async_request_reports_its_failure_when_polled(server: RunningServer) -> None:
    for requests, status in (({"text": "late", "sleep": 0.1}, 200), ({"fail": "later"}, 424)):
        token = send_request(server, requests, x_synchronous="no").getheader("x-next-token")
        assert token
        response = settled(server, token)
        assert (response.status, b"later" in response.read()) == (status, status == 424)


def settled(server: RunningServer, token: str) -> http.client.HTTPResponse:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        response = send_request(server, {}, x_starting_token=token)
        if response.status != 202:
            return response
        response.read()
        time.sleep(0.02)
    raise AssertionError("it was never answered")


def test_async_request_with_a_full_queue_is_500_when_polled(tmp_path: Path) -> None:
    properties = "engine=Python\njob_queue_size=1\nminWorkers=1\nmaxWorkers=1\n"
    with serving(write_model(tmp_path / "m", HANDLER, properties)) as served:
        first = send_request(served, {"sleep": 0.5}, x_synchronous="false").getheader("x-next-token")
        time.sleep(0.1)
        second = send_request(served, {}, x_synchronous="false").getheader("x-next-token")
        assert first
        assert second
        response = settled(served, second)
        assert (response.status, response.read()) == (500, b"")
        assert response.reason.endswith("WlmCapacityException: Worker queue capacity exceeded for model: m")
        assert settled(served, first).status == 200


def raw(server: RunningServer, request: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as line:
        line.sendall(request)
        return line.recv(65536)


def test_body_over_the_limit_is_refused_by_its_content_length(server: RunningServer) -> None:
    head = b"POST /invocations HTTP/1.1\r\nContent-Length: 100000000\r\n\r\n"
    assert raw(server, head).startswith(b"HTTP/1.1 413 ")


def test_chunked_body_over_the_limit_closes_the_connection(server: RunningServer) -> None:
    head = b"POST /invocations HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n7000000\r\n"
    assert b"connection: close" in raw(server, head)


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/invocations?model_name=", "Model or workflow not found: "),
        ("/predictions//m", "Model or workflow not found: "),
        ("/predictions/m%2Fx", "Model or workflow not found: m"),
        ("/invocations?model_version=7", "Model or workflow not found: m"),
    ],
)
def test_request_to_a_missing_model_is_404(server: RunningServer, path: str, why: str) -> None:
    response = send_request(server, {}, path)
    assert (response.status, message(response)) == (404, why)


def test_expect_header_is_not_passed_to_the_handler(tmp_path: Path) -> None:
    handler = HANDLER.replace('asked.get("text", "text")', "json.dumps(dict(inputs.get_properties()))")
    with serving(write_model(tmp_path / "m", handler)) as served:
        requests = b"POST /invocations HTTP/1.%d\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n{}"
        with socket.create_connection(("127.0.0.1", served.port), timeout=30) as line:
            line.sendall(requests % 1)
            first = line.recv(65536)
            assert first.startswith(b"HTTP/1.1 100 Continue\r\n\r\n")
        assert raw(served, requests % 0).startswith(b"HTTP/1.1 200 ")
