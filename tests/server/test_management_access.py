"""Access to model registration, which runs code as the server's user."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server.handlers import MANY_WAYS
from tests.support.running_server import RunningServer, launched, serving, write_model

pytestmark = pytest.mark.worker


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    folder = tmp_path_factory.mktemp("access")
    config = folder / "config.properties"
    config.write_text("cors_allowed_origin=*\n")
    with serving(write_model(folder / "m", MANY_WAYS), "--config", str(config)) as served:
        yield served


def send_request(
    server: RunningServer, method: str, path: str, body: object = None, **headers: str
) -> tuple[int, dict[str, str]]:
    connection = server.connect()
    sent = {"Content-Type": "application/json", **headers}
    connection.request(method, path, json.dumps(body) if body is not None else None, sent)
    response = connection.getresponse()
    result: dict[str, str] = json.loads(response.read() or b"{}")
    return response.status, result


def test_model_folder_writable_by_others_is_refused(server: RunningServer, tmp_path: Path) -> None:
    folder = write_model(tmp_path / "open", MANY_WAYS)
    folder.chmod(0o777)
    status, response = send_request(server, "POST", "/models", {"url": f"file:{folder}/"})
    assert (status, response["type"]) == (403, "ForbiddenException")
    assert f"{folder} can be written by every user (mode 777)" in response["message"]
    assert b'"open"' not in server.get("/models")[1]
    folder.chmod(0o755)
    assert send_request(server, "POST", "/models", {"url": f"file:{folder}/"})[0] == 200
    assert send_request(server, "DELETE", "/models/open")[0] == 200


def test_web_page_of_another_origin_cannot_register_a_model(server: RunningServer, tmp_path: Path) -> None:
    folder = write_model(tmp_path / "fine", MANY_WAYS)
    for headers in ({"Origin": "https://evil.example"}, {"Origin": "null"}, {"Host": "evil.example:8080"}):
        status, response = send_request(server, "POST", "/models", {"url": f"file:{folder}/"}, **headers)
        assert (status, response["type"]) == (403, "ForbiddenException")
    assert b'"fine"' not in server.get("/models")[1]


def test_web_page_can_invoke_when_cors_allows_it(server: RunningServer) -> None:
    echo = {"do": "echo", "text": '"hi"'}
    connection = server.connect()
    connection.request("POST", "/invocations", json.dumps(echo), {"Origin": "https://page.example"})
    response = connection.getresponse()
    assert (response.status, response.getheader("access-control-allow-origin")) == (200, "*")
    response.read()
    assert send_request(server, "POST", "/invocations", echo, Host="rebound.example")[0] == 403


def test_control_socket_manages_models_without_management(tmp_path: Path) -> None:
    environ = {"SERVING_PROMETHEUS": "true"}
    other = write_model(tmp_path / "other", MANY_WAYS)
    with serving(
        write_model(tmp_path / "m", MANY_WAYS), "--management", "control", environ=environ
    ) as served:
        for method, path in (("POST", "/models"), ("GET", "/models"), ("DELETE", "/models/m")):
            status, refusal = send_request(served, method, path, {"url": f"file:{other}/"})
            assert (status, refusal["type"]) == (403, "ForbiddenException")
            assert "Start `lmi serve` with --management" in refusal["message"]
        assert send_request(served, "GET", "/nope")[0] == 404
        assert served.get("/ping")[0] == 200
        assert b"DJLServingStart_total" in served.get("/server/metrics")[1]
        register = {"do": "manage", "method": "POST", "target": "/models", "body": {"url": f"file:{other}/"}}
        assert served.send_request(register)["status"] == 200
        assert served.post({"do": "echo", "text": "hi"}, "/predictions/other") == (200, b"hi")
        listed = served.send_request({"do": "manage", "target": "/models"})
        assert [model["modelName"] for model in json.loads(listed["body"])["models"]] == ["m", "other"]
        assert served.send_request(register)["status"] == 409


def test_second_server_on_the_same_port_fails(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "m", "import time\ndef handle(inputs):\n    time.sleep(60)")
    with launched(folder) as first:
        first.wait_for("loading")
        while not first.port:
            pass
        with launched(folder, "--port", str(first.port)) as second:
            assert second.wait() == 1
            assert second.failure()["phase"] == "listen"
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", first.port))
