"""The proxy before our own model server: requests, streams, errors, clients that leave."""

from __future__ import annotations

import contextlib
import http.client
import json
import shutil
import signal
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lmi_deploy.proxy.deployments import LIST_SECONDS
from tests.support.proxy_process import RunningProxy, proxy, write_record
from tests.support.running_server import RunningServer, serving, write_model
from tests.support.talking_handler import TALKING

pytestmark = pytest.mark.worker
PROPERTIES = "engine=Python\nminWorkers=2\nmaxWorkers=2\n"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def served(home: Path) -> Iterator[RunningServer]:
    with serving(write_model(home / "model", TALKING, PROPERTIES)) as running:
        write_record(home, "talks", running.port)
        write_record(home, "vectors", running.port, template="text-embedding", task="text-embedding")
        yield running


@pytest.fixture(scope="module")
def talks(home: Path, served: RunningServer) -> Iterator[RunningProxy]:
    with proxy(home) as running:
        yield running


def wait_in_flight(running: RunningProxy, count: int) -> None:
    deadline = time.monotonic() + 30
    while running.metric('lmi_proxy_in_flight{model="talks"}') != count:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_the_first_line_is_ready(talks: RunningProxy) -> None:
    assert talks.ready["event"] == "ready"
    assert talks.ready["url"] == f"http://127.0.0.1:{talks.port}"
    assert talks.ready["models"] == ["talks", "vectors"]


def test_models(talks: RunningProxy) -> None:
    assert [model["id"] for model in talks.get("/v1/models").json["data"]] == ["talks", "vectors"]
    assert talks.get("/v1/models/talks").json["object"] == "model"
    assert talks.get("/v1/models/other").status == 404
    assert talks.get("/health").json == {"status": "ok"}


def test_a_chat(talks: RunningProxy) -> None:
    response = talks.chat("words 2")
    assert response.status == 200
    assert response.json["choices"][0]["message"]["content"] == " w0 w1"
    assert response.json["model"] == "talks"


def test_a_stream_arrives_word_by_word(talks: RunningProxy) -> None:
    connection = talks.connect()
    body = {"model": "talks", "stream": True, "messages": [{"role": "user", "content": "words 3 slow 0.2"}]}
    connection.request("POST", "/v1/chat/completions", json.dumps(body), talks.authorization)
    response = connection.getresponse()
    assert response.getheader("content-type") == "text/event-stream; charset=utf-8"
    times = [time.monotonic() for line in iter(response.readline, b"") if line.startswith(b"data: ")]
    assert times[2] - times[0] > 0.3


def test_usage_comes_where_it_is_asked_for(talks: RunningProxy) -> None:
    events = talks.chat("words 2", stream=True, stream_options={"include_usage": True}).events
    assert events[-2]["usage"]["completion_tokens"] == 2
    assert events[-1] == "[DONE]"


def test_completions_responses_and_embeddings(talks: RunningProxy) -> None:
    assert (
        talks.post("/v1/completions", {"model": "talks", "prompt": "words 1"}).json["choices"][0]["text"]
        == " w0"
    )
    response = talks.post("/v1/responses", {"model": "talks", "input": "words 1"}).json
    assert response["output"][0]["content"][0]["text"] == " w0"
    found = talks.post("/v1/embeddings", {"model": "vectors", "input": ["ab", "c"]}).json
    assert [each["embedding"] for each in found["data"]] == [[2, 0.5, -1.0], [1, 0.5, -1.0]]


def test_adapter_of_a_handler_without_adapters_does_not_exist(talks: RunningProxy) -> None:
    response = talks.chat("echo", model="talks:french")
    assert response.status == 404
    assert "the handler of talks has no adapters" in response.json["error"]["message"]


def test_registered_adapters_are_listed_and_selected_by_their_names(tmp_path: Path) -> None:
    registers = "from djl_python import Output\n\ndef register_adapter(inputs):\n    return Output()\n"
    lora = (("option.enable_lora", "true"),)
    model = write_model(tmp_path / "model", TALKING + registers, f"{PROPERTIES}option.enable_lora=true\n")
    (model / "adapters" / "french").mkdir(parents=True)
    with serving(model) as served:
        write_record(tmp_path, "talks", served.port, template="", properties=lora)
        with proxy(tmp_path) as running:
            listed = [each["id"] for each in running.get("/v1/models").json["data"]]
            responses = [running.chat("echo", model=name) for name in ("french", "talks:french")]
            write_record(tmp_path, "more", served.port, template="", properties=lora)
            time.sleep(LIST_SECONDS)
            ambiguous = running.chat("echo", model="french")
    assert listed == ["talks", "talks:french"]
    said = [json.loads(response.json["choices"][0]["message"]["content"]) for response in responses]
    assert [each["adapter"] for each in said] == ["french", "french"]
    assert ambiguous.status == 400
    assert "use talks:french or more:french" in ambiguous.json["error"]["message"]


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (b"not JSON", 400, "the body of the request is not JSON"),
        (b"[1]", 400, "is JSON, but not an object"),
        ({"model": "other", "messages": []}, 404, "this proxy serves talks, vectors"),
        ({"messages": []}, 400, "model: expected one of talks, vectors"),
        ({"model": "vectors", "messages": []}, 400, "is not a chat model: use /v1/embeddings"),
        (
            {"model": "talks", "messages": [{"role": "user", "content": "refuse"}]},
            400,
            "temperature: expected",
        ),
    ],
)
def test_mistakes_of_the_client(talks: RunningProxy, body: object, status: int, words: str) -> None:
    response = talks.post("/v1/chat/completions", body)
    assert response.status == status
    assert words in response.json["error"]["message"]
    assert response.json["error"].keys() == {"message", "type", "param", "code"}


def test_other_paths_and_methods(talks: RunningProxy) -> None:
    assert talks.get("/v1/chat/completions").status == 405
    assert talks.post("/v1/audio/speech", {}).json["error"]["code"] == "unknown_url"
    assert talks.get("/v1/models", {"Host": "evil.example"}).status == 403


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("words 5 error 2", "generation failed: no memory"),
        ("words 5 cut 2", "without a finish reason"),
    ],
)
def test_a_stream_that_breaks_ends_with_an_error(talks: RunningProxy, said: str, words: str) -> None:
    response = talks.chat(said, stream=True)
    *before, last = response.events
    assert response.status == 200
    assert len(before) == 2
    assert words in last["error"]["message"]
    assert last["error"]["type"] == "server_error"


def test_worker_that_dies_breaks_its_stream_and_is_a_server_error_afterwards(
    home: Path, tmp_path: Path
) -> None:
    with serving(write_model(tmp_path / "model", TALKING)) as fragile:
        write_record(tmp_path, "talks", fragile.port)
        with proxy(tmp_path) as running:
            *before, last = running.chat("words 5 exit 2", stream=True).events
            assert len(before) == 2
            assert "closed before the end" in last["error"]["message"]
            after = running.chat("words 1")
    assert after.status == 503
    assert "stopped" in after.json["error"]["message"]


def test_a_client_that_leaves_frees_the_slot_and_ends_the_request(
    talks: RunningProxy, served: RunningServer
) -> None:
    left = talks.metric('lmi_proxy_requests_total{model="talks",route="/v1/chat/completions",status="499"}')
    body = json.dumps(
        {"model": "talks", "stream": True, "messages": [{"role": "user", "content": "words 1000 slow 0.05"}]}
    )
    connection = http.client.HTTPConnection("127.0.0.1", talks.port, timeout=30)
    connection.request("POST", "/v1/chat/completions", body, talks.authorization)
    response = connection.getresponse()
    response.readline()
    assert talks.metric('lmi_proxy_in_flight{model="talks"}') == 1
    response.close()
    connection.close()
    wait_in_flight(talks, 0)
    counted = talks.metric(
        'lmi_proxy_requests_total{model="talks",route="/v1/chat/completions",status="499"}'
    )
    assert counted == left + 1


def test_all_of_many_concurrent_requests_are_answered(talks: RunningProxy) -> None:
    with ThreadPoolExecutor(16) as pool:
        found = [*pool.map(lambda at: talks.chat(f"words {at % 4 + 1}", stream=at % 2 == 0), range(48))]
    assert [response.status for response in found] == [200] * 48
    texts = [
        r.text if at % 2 == 0 else r.json["choices"][0]["message"]["content"] for at, r in enumerate(found)
    ]
    assert [len(text.split()) for text in texts] == [at % 4 + 1 for at in range(48)]


def test_a_full_queue_says_when_to_come_again(home: Path, served: RunningServer) -> None:
    with proxy(home, "--concurrency", "1", "--queue", "1") as small, ThreadPoolExecutor(8) as pool:
        found = [*pool.map(lambda _: small.chat("words 1 slow 0.5"), range(8))]
    refused = [response for response in found if response.status == 429]
    assert {response.status for response in found} == {200, 429}
    assert refused[0].headers["retry-after"] == "1"
    assert refused[0].json["error"]["code"] == "queue_full"


def test_requests_are_counted_before_their_bodies_are_read(home: Path, served: RunningServer) -> None:
    body = json.dumps({"model": "talks", "messages": [{"role": "user", "content": "words 1"}]}).encode()
    with proxy(home, "--concurrency", "1", "--queue", "1") as small:
        halves = [small.connect() for _ in range(2)]
        for half in halves:
            half.putrequest("POST", "/v1/chat/completions")
            for name, value in {**small.authorization, "Content-Length": str(len(body))}.items():
                half.putheader(name, value)
            half.endheaders(body[:1])
        deadline = time.monotonic() + 30
        while (response := small.post("/v1/chat/completions", body)).status == 200:
            assert time.monotonic() < deadline
        assert (response.status, response.json["error"]["code"]) == (429, "queue_full")
        for half in halves:
            half.send(body[1:])
            assert half.getresponse().status == 200


def test_metrics_count_by_model_route_and_status(talks: RunningProxy) -> None:
    name = 'lmi_proxy_requests_total{model="talks",route="/v1/completions",status="200"}'
    before, tokens = (
        talks.metric(name),
        talks.metric('lmi_proxy_tokens_total{kind="completion",model="talks"}'),
    )
    talks.post("/v1/completions", {"model": "talks", "prompt": "words 4"})
    assert talks.metric(name) == before + 1
    assert talks.metric('lmi_proxy_tokens_total{kind="completion",model="talks"}') == tokens + 4


def test_a_deployment_that_comes_is_found_and_one_that_goes_is_missed(
    talks: RunningProxy, served: RunningServer, home: Path
) -> None:
    write_record(home, "later", served.port)
    deadline = time.monotonic() + 30
    while talks.chat("words 1", model="later").status != 200:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    shutil.rmtree(next((home / "state").rglob("later")))
    while talks.chat("words 1", model="later").status != 404:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_a_server_that_is_gone(home: Path, tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    write_record(tmp_path, "gone", port)
    with proxy(tmp_path, "gone") as running:
        response = running.chat("words 1", model="gone")
    assert (response.status, response.json["error"]["code"]) == (503, "endpoint_unreachable")
    assert "lmi status gone" in response.json["error"]["message"]


def test_the_key(home: Path, served: RunningServer) -> None:
    with proxy(home, environ={"LMI_PROXY_API_KEY": "s3cret"}) as guarded:
        assert guarded.ready["api_key"] is None, "it is not repeated"
        assert guarded.get("/v1/models", {"Authorization": ""}).status == 401
        wrong = guarded.get("/v1/models", {"Authorization": "Bearer nope"})
        assert (wrong.status, wrong.json["error"]["code"]) == (401, "invalid_api_key")
        assert guarded.get("/v1/models").status == 200
        assert guarded.get("/health", {"Authorization": ""}).status == 200
        assert "s3cret" not in wrong.body.decode()


def test_key_is_generated_where_none_is_given(talks: RunningProxy) -> None:
    assert len(talks.ready["api_key"]) >= 32
    for path in ("/v1/models", "/metrics", "/nope"):
        assert talks.get(path, {"Authorization": ""}).status == 401
    refused = talks.post("/v1/chat/completions", b"{", {"Authorization": "Bearer none"})
    assert (refused.status, refused.json["error"]["code"]) == (401, "invalid_api_key")


def test_silent_clients_do_not_lock_out_others(home: Path, served: RunningServer) -> None:
    with proxy(home, open_files=128) as running, contextlib.ExitStack() as opened:
        kept = running.connect()
        kept.request("GET", "/v1/models", headers=running.authorization)
        assert kept.getresponse().read()
        for _ in range(256):
            silent = opened.enter_context(socket.create_connection(("127.0.0.1", running.port), timeout=30))
            silent.sendall(b"GET / HT")
        assert running.chat("words 1").status == 200
        kept.request("GET", "/v1/models", headers=running.authorization)
        assert kept.getresponse().status == 200


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_lets_requests_end(home: Path, served: RunningServer, number: int) -> None:
    with proxy(home) as ending, ThreadPoolExecutor(1) as pool:
        running = pool.submit(ending.chat, "words 5 slow 0.3", stream=True)
        wait_in_flight(ending, 1)
        assert ending.stop(number) == 0
        assert running.result().events[-1] == "[DONE]"


def test_a_second_signal_ends_streams_with_an_error(home: Path, served: RunningServer) -> None:
    with proxy(home) as ending, ThreadPoolExecutor(1) as pool:
        running = pool.submit(ending.chat, "words 500 slow 0.1", stream=True)
        wait_in_flight(ending, 1)
        timer = threading.Timer(0.5, ending.process.send_signal, (signal.SIGINT,))
        timer.start()
        started = time.monotonic()
        assert ending.stop(signal.SIGINT) == 0
        assert time.monotonic() - started < 20
        assert running.result().events[-1]["error"]["code"] == "shutting_down"
