"""The management API of LoRA adapters: the responses to the client and the calls of the handler."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.running_server import RunningServer, launched, serving, write_model

pytestmark = pytest.mark.worker

PROPERTIES = "engine=Python\nminWorkers=1\nmaxWorkers=1\noption.enable_lora=true\n"
ALIAS = "X-Amzn-SageMaker-Adapter-Alias"

# Records every call: those of the adapters API, and inference.
NOTES = """
import os
from djl_python import Output

CALLS = []

def asked(inputs):
    properties = inputs.get_properties()
    kept = ("handler", "name", "alias", "src", "X-Amzn-SageMaker-Adapter-Identifier")
    return {
        "properties": {key: properties[key] for key in kept if key in properties},
        "content": entries(inputs.get_content()),
    }

def entries(content):
    return [[content.key_at(at), bytes(content.value_at(at)).decode()] for at in range(content.size())]

def register_adapter(inputs):
    CALLS.append(asked(inputs))
    if inputs.get_property("src") == "broken":
        return Output().error("register_adapter_error", message="no tensors in broken")
    return Output(message="Adapter %s registered" % inputs.get_property("name"))

def update_adapter(inputs):
    CALLS.append(asked(inputs))
    if ["refuse", "true"] in entries(inputs.get_content()):
        raise ValueError("refused")
    return Output(message="Adapter %s updated" % inputs.get_property("name"))

def unregister_adapter(inputs):
    CALLS.append(asked(inputs))
    return None

def handle(inputs):
    if inputs.is_empty():
        return None
    if inputs.is_batch():
        out = Output()
        for number, item in enumerate(inputs.get_batches()):
            out.add("batched", batch_index=number)
        return out
    if inputs.get_as_string() == "calls":
        return Output().add_as_json(CALLS)
    if inputs.get_as_string() == "pid":
        return Output().add(str(os.getpid()))
    return Output().add_as_json(asked(inputs))
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    folder = write_model(tmp_path_factory.mktemp("adapters") / "m", NOTES, PROPERTIES)
    (folder / "adapters" / "built-in").mkdir(parents=True)
    with serving(folder) as served:
        yield served


def ask(
    server: RunningServer, method: str, path: str, body: str = "", **headers: str
) -> tuple[int, str, Any]:
    """Status, reason and JSON body."""
    connection = server.connect()
    connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
    response = connection.getresponse()
    return response.status, response.reason, json.loads(response.read() or b"null")


def calls(server: RunningServer, body: str = "calls") -> Any:
    return ask(server, "POST", "/invocations", body)[2]


def test_adapter_is_registered_described_updated_and_removed(server: RunningServer) -> None:
    query = "name=a1&src=there&preload=true&pin=false&scale=2&twice=1&twice=2"
    assert ask(server, "POST", f"/models/m/adapters?{query}", X_Amzn_SageMaker_Adapter_Alias="al") == (
        200,
        "OK",
        {"status": "Adapter a1 registered"},
    )
    a1 = {"name": "a1", "src": "there", "preload": True, "pin": False}
    assert ask(server, "GET", "/models/m/adapters/a1")[2] == a1
    listed = ask(server, "GET", "/adapters?limit=1")[2]
    assert listed == {"nextPageToken": "1", "adapters": [a1]}
    rest = ask(server, "GET", "/adapters?limit=1&next_page_token=1")[2]
    assert [(one["name"], one["pin"]) for one in rest["adapters"]] == [("built-in", False)]
    assert "nextPageToken" not in rest
    assert ask(server, "POST", "/adapters/a1/update?pin=true")[2] == {"status": "Adapter a1 updated"}
    assert ask(server, "GET", "/adapters/a1")[2] == {**a1, "pin": True}
    missing = server.connect()
    missing.request("DELETE", "/models/m/adapters/a1")
    response = missing.getresponse()
    assert (response.status, response.read()) == (204, b"")  # what a handler that returns None answers
    assert ask(server, "GET", "/adapters/a1")[0] == 404

    built_in, registered, updated, unregistered = calls(server)
    assert built_in["properties"]["handler"] == "register_adapter"
    assert built_in["properties"]["src"].endswith("/m/adapters/built-in")
    assert built_in["content"] == []
    assert registered["properties"] == {
        "handler": "register_adapter",
        "name": "a1",
        "alias": "al",
        "src": "there",
    }
    options = [["name", "a1"], ["pin", "false"], ["preload", "true"], ["scale", "2"], ["src", "there"]]
    assert sorted(registered["content"]) == options
    assert updated["properties"] == {**registered["properties"], "handler": "update_adapter"}
    assert sorted(updated["content"]) == [[key, "true" if key == "pin" else value] for key, value in options]
    assert unregistered == {
        "properties": {"handler": "unregister_adapter", "name": "a1", "alias": "al"},
        "content": [],
    }


@pytest.mark.parametrize(
    ("method", "path", "status", "kind", "message"),
    [
        ("GET", "/models/nope/adapters", 404, "BadRequestException", "The model nope was not found"),
        ("POST", "/models/nope/adapters", 404, "BadRequestException", "The model nope was not found"),
        ("GET", "/adapters/no", 404, "BadRequestException", "The adapter no was not found"),
        ("DELETE", "/adapters/no", 404, "BadRequestException", "The adapter no was not found"),
        ("POST", "/adapters/no/update", 404, "BadRequestException", "The adapter no was not found"),
        ("POST", "/adapters?src=x", 400, "BadRequestException", "Parameter name is required."),
        ("POST", "/adapters?name=x", 400, "BadRequestException", "Parameter src is required."),
        ("GET", "/adapters?limit=x", 409, "NumberFormatException", 'For input string: "x"'),
        (
            "POST",
            "/adapters?name=x&src=s3://bucket/x",
            409,
            "IllegalArgumentException",
            "URL adapters are not currently supported",
        ),
        (
            "POST",
            "/adapters?name=built-in&src=x",
            409,
            "IllegalArgumentException",
            "The adapter built-in already exists. If you want to replace it, please unregister before registering a "
            "new adapter with the same name.",
        ),
        ("POST", "/adapters?name=x&src=broken", 424, "BadRequestException", "no tensors in broken"),
        (
            "POST",
            "/adapters/built-in/update?refuse=true",
            424,
            "BadRequestException",
            "invoke handler failure",
        ),
    ],
)
def test_invalid_adapter_request_is_refused(
    server: RunningServer, method: str, path: str, status: int, kind: str, message: str
) -> None:
    code, _, result = ask(server, method, path)
    assert (code, result["type"], result["message"]) == (status, kind, message)
    if "name=x" in path:
        assert ask(server, "GET", "/adapters/x")[0] == 404


@pytest.mark.parametrize(
    ("method", "path"),
    [("PUT", "/adapters"), ("PUT", "/adapters/a"), ("POST", "/adapters/a"), ("POST", "/adapters/a/other")],
)
def test_unsupported_method_is_405(server: RunningServer, method: str, path: str) -> None:
    assert ask(server, method, path)[0] == 405


def test_alias_header_is_the_name_in_messages(server: RunningServer) -> None:
    result = ask(server, "GET", "/adapters/no", X_Amzn_SageMaker_Adapter_Alias="other")[2]
    assert result["message"] == "The adapter other was not found"


def test_adapter_is_chosen_by_header_query_or_body(server: RunningServer) -> None:
    sent = ask(
        server, "POST", "/invocations", '{"adapter": "b"}', X_Amzn_SageMaker_Adapter_Identifier="built-in"
    )
    assert sent[2] == {
        "properties": {"handler": "handle", "X-Amzn-SageMaker-Adapter-Identifier": "built-in"},
        "content": [["data", '{"adapter": "b"}']],
    }
    sent = ask(server, "POST", "/invocations?adapter=built-in", "x")
    assert sent[2]["content"] == [["adapter", "built-in"], ["data", "x"]]
    sent = ask(server, "POST", "/invocations?adapter=no", "x")
    assert sent == (503, "The adapter no has not been registered", None)


def test_adapter_folder_writable_by_others_is_refused(server: RunningServer, tmp_path: Path) -> None:
    (tmp_path / "open").mkdir(mode=0o777)
    (tmp_path / "open").chmod(0o777)
    status, _, result = ask(server, "POST", f"/adapters?name=open&src={tmp_path}/open")
    assert (status, result["type"]) == (403, "ForbiddenException")
    assert "can be written by every user" in result["message"]


def test_later_worker_gets_every_adapter(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "m", NOTES, PROPERTIES)
    (folder / "adapters" / "one").mkdir(parents=True)
    with serving(folder) as served:
        assert ask(served, "POST", "/adapters?name=two&src=x&pin=true")[0] == 200
        first = ask(served, "POST", "/invocations", "pid")[2]
        assert ask(served, "PUT", "/models/m?min_worker=0&max_worker=0")[0] == 200
        assert ask(served, "PUT", "/models/m?min_worker=1&max_worker=1")[0] == 200
        assert ask(served, "POST", "/invocations", "pid")[2] != first
        response = {call["properties"]["name"]: dict(call["content"]) for call in calls(served)}
        assert response == {"one": {}, "two": {"name": "two", "src": "x", "pin": "true"}}


def test_adapters_need_enable_lora(tmp_path: Path) -> None:
    with serving(write_model(tmp_path / "m", NOTES)) as served:
        for method, path in (
            ("GET", "/adapters"),
            ("POST", "/models/m/adapters?name=a&src=b"),
            ("GET", "/models/m/adapters/a"),
            ("POST", "/adapters/a/update"),
            ("DELETE", "/adapters/a"),
        ):
            status, reason, result = ask(served, method, path)
            assert (status, reason, result["type"], result["message"]) == (
                400,
                "LoRA is not enabled.",
                "BadRequestException",
                "LoRA is not enabled.",
            )


def test_worker_that_dies_loading_an_adapter_ends_the_start(tmp_path: Path) -> None:
    handler = NOTES.replace("    CALLS.append(asked(inputs))\n", "    os._exit(3)\n", 1)
    folder = write_model(tmp_path / "m", handler, PROPERTIES)
    (folder / "adapters" / "one").mkdir(parents=True)
    with launched(folder) as served:
        assert served.wait() == 1
        assert served.failure()["phase"] == "adapters"
        assert served.failure()["message"].startswith("register_adapter of one: the Python process ended")


def test_adapter_refused_at_the_start_is_logged(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "m", NOTES.replace('== "broken"', "is not None"), PROPERTIES)
    (folder / "adapters" / "one").mkdir(parents=True)
    with serving(folder) as served:
        assert served.get("/ping")[0] == 200
        assert "adapter=one why=424 no tensors in broken" in served.text


def test_control_socket_registers_adapters_without_management(tmp_path: Path) -> None:
    with serving(write_model(tmp_path / "m", NOTES, PROPERTIES), "--management", "control") as served:
        assert ask(served, "GET", "/adapters")[0] == 403
        register = {"do": "manage", "method": "POST", "target": "/adapters?name=a&src=b"}
        assert served.send_request(register)["status"] == 200
        listed = json.loads(served.send_request({"do": "manage", "target": "/models/m/adapters"})["body"])
        assert [one["name"] for one in listed["adapters"]] == ["a"]


def test_adapter_registration_is_not_batched_with_requests(tmp_path: Path) -> None:
    properties = PROPERTIES + "batch_size=2\nmax_batch_delay=2000\n"
    with serving(write_model(tmp_path / "m", NOTES, properties)) as served:
        responses: list[bytes] = []
        waiting = threading.Thread(target=lambda: responses.append(served.post({})[1]))
        waiting.start()
        served.wait_in_flight(1)
        assert ask(served, "POST", "/adapters?name=a&src=b")[2] == {"status": "Adapter a registered"}
        waiting.join()
        assert json.loads(responses[0])["content"] == [["data", "{}"]]
        assert ask(served, "GET", "/adapters")[2]["adapters"][0]["name"] == "a"


# DJL's own functions for the asynchronous engine, over a service that loads nothing.
ASYNC = """
from djl_python import Output, async_utils

class Service:
    def __init__(self):
        self.adapter_registry = {}
        self.loaded = []

    async def add_lora(self, name, alias, path):
        self.loaded.append(name)
        return True

    async def remove_lora(self, name, alias):
        self.loaded.remove(name)
        return True

    async def pin_lora(self, name, alias):
        raise ValueError("cannot pin")

service = Service()
WARM = False

async def register_adapter(inputs):
    return await async_utils.register_adapter(inputs, service)

async def update_adapter(inputs):
    return await async_utils.update_adapter(inputs, service)

async def unregister_adapter(inputs):
    return await async_utils.unregister_adapter(inputs, service)

async def handle(inputs):
    global WARM
    if not WARM:
        WARM = True
        return Output()
    return async_utils.create_non_stream_output(" ".join(service.loaded))
"""


def test_async_adapter_functions_of_djl_work(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "m", ASYNC, PROPERTIES + "option.async_mode=true\n")
    (folder / "adapters" / "first").mkdir(parents=True)
    (folder / "more").mkdir()
    with serving(folder) as served:
        assert served.post({})[1] == b"first\n"
        more = folder / "more"
        assert ask(served, "POST", f"/adapters?name=more&src={more}")[2] == {
            "status": "Adapter more registered"
        }
        assert served.post({})[1] == b"first more\n"
        status, _, result = ask(served, "POST", f"/adapters?name=pinned&src={more}&pin=true")
        assert (status, result["message"]) == (424, "cannot pin")
        status, _, result = ask(served, "POST", "/adapters?name=x&src=/not/there")
        assert (status, result["message"]) == (
            424,
            "Only local LoRA models are supported. /not/there is not a valid path",
        )
        assert ask(served, "POST", "/adapters/more/update?preload=false")[2] == {
            "status": "Adapter more updated"
        }
        assert served.post({})[1] == b"first\n"
        assert ask(served, "DELETE", "/adapters/first")[2] == {"status": "Adapter first unregistered"}
        assert served.post({})[1] == b"\n"
        assert [one["name"] for one in ask(served, "GET", "/adapters")[2]["adapters"]] == ["more"]
