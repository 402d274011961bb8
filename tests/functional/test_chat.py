"""`lmi chat`: a conversation in a terminal and from a pipe."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lmi_deploy.domain.inference_http import HttpRequest, ResponseHead
from lmi_deploy.domain.record import DeploymentRef
from tests.support.fake_servers import Behaviour, FakeResponse, chat
from tests.support.local_app import RECIPE, LocalApp


@pytest.fixture
def sent(app: LocalApp) -> list[dict[str, Any]]:
    """Every body that the server got; `tiny` is deployed."""
    bodies: list[dict[str, Any]] = []

    def answer(body: dict[str, Any]) -> FakeResponse:
        bodies.append(body)
        return chat(body)

    app.servers.next.append(Behaviour(answer=answer))
    assert app.lmi("up", "--yes", "--no-probe").code == 0
    bodies.clear()
    return bodies


def messages(*texts: str, system: str = "") -> list[dict[str, str]]:
    roles = ("user", "assistant")
    first = [{"role": "system", "content": system}] if system else []
    return [*first, *({"role": roles[at % 2], "content": text} for at, text in enumerate(texts))]


def test_each_line_of_a_pipe_is_a_turn_after_the_previous_ones(
    app: LocalApp, sent: list[dict[str, Any]]
) -> None:
    result = app.lmi("chat", "tiny", "-p", "max_tokens=9", stdin=b"Hello\n\nAnd then?")
    assert (result.code, result.out, result.err) == (0, "OK then\nOK then\n", "")
    assert [body["messages"] for body in sent] == [
        messages("Hello"),
        messages("Hello", "OK then", "And then?"),
    ]
    assert {(body["stream"], body["max_tokens"]) for body in sent} == {(True, 9)}


def test_conversation_has_commands(app: LocalApp, sent: list[dict[str, Any]]) -> None:
    lines = [
        "/help",
        "/system Be brief.",
        "one",
        "/save kept.json",
        "/reset",
        "//two",
        "/system",
        "three",
        "/exit",
        "never",
    ]
    result = app.lmi("chat", "tiny", stdin="\n".join(lines).encode(), terminal=True)
    assert (result.code, result.out) == (0, "OK then\n" * 3)
    assert [body["messages"] for body in sent] == [
        messages("one", system="Be brief."),
        messages("/two", system="Be brief."),
        messages("/two", "OK then", "three"),
    ]
    assert json.loads(Path("kept.json").read_text()) == {
        "messages": messages("one", "OK then", system="Be brief.")
    }
    for words in (
        "tiny (this machine)",
        ">>> /reset        forget",
        "[kept.json: 1 turns]",
        "[new conversation]",
        ">>> ",
    ):
        assert words in result.err


def test_saved_conversation_can_be_sent(app: LocalApp, sent: list[dict[str, Any]]) -> None:
    app.lmi("chat", "tiny", stdin=b"one\n/save kept.json")
    assert app.lmi("invoke", "tiny", "--body", "@kept.json").out == "OK then\n"
    assert sent[-1] == {"messages": messages("one", "OK then")}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("/rest", "no such command: /rest"),
        ("/reset now", "no such command: /reset now"),
        ("/save", "no such command: /save"),
        ("/save tiny.yaml", "tiny.yaml: the file exists"),
        ("/save absent/kept.json", "absent/kept.json: No such file or directory"),
    ],
)
def test_mistake_ends_a_pipe_but_not_a_terminal(
    app: LocalApp, sent: list[dict[str, Any]], line: str, words: str
) -> None:
    typed = f"{line}\nHello\n".encode()
    piped = app.lmi("chat", "tiny", stdin=typed)
    assert (piped.code, piped.out) == (2, "")
    assert words in piped.err
    shown = app.lmi("chat", "tiny", stdin=typed, terminal=True)
    assert (shown.code, shown.out) == (0, "OK then\n")
    assert words in shown.err
    assert Path("tiny.yaml").read_text() == RECIPE


def test_conversation_that_no_longer_fits_is_explained(app: LocalApp, answering: list[FakeResponse]) -> None:
    app.lmi("up", "--yes")
    message = "messages: 140 tokens; this model takes from 1 to 127 before its answer"
    body = {"error": {"message": message, "type": "invalid_request_error", "param": "messages", "code": None}}
    answering[:] = [(400, "application/json", json.dumps(body).encode())]
    result = app.lmi("chat", "tiny", stdin=b"Hello\n")
    assert (result.code, result.out) == (1, "")
    assert "140 tokens" in result.err
    assert "next: /reset starts a new conversation" in result.err


def test_an_error_without_a_reason_is_explained_too(app: LocalApp, answering: list[FakeResponse]) -> None:
    app.lmi("up", "--yes")
    body = {"code": 424, "message": "Async Inference Failure service.invoke_handler_async() failure"}
    answering[:] = [(424, "application/json", json.dumps(body).encode())]
    result = app.lmi("chat", "tiny", stdin=b"Hello\n")
    assert result.code == 1
    assert "prompt and max_tokens together exceed max_model_len; /reset starts a new" in result.err


def test_the_probes_error_without_a_reason_is_explained(app: LocalApp, answering: list[FakeResponse]) -> None:
    body = {"code": 424, "message": "Async Inference Failure service.invoke_handler_async() failure"}
    answering[:] = [(424, "application/json", json.dumps(body).encode())]
    result = app.lmi("up", "--yes")
    assert result.code != 0
    assert "prompt and max_tokens together exceed max_model_len; check `lmi logs tiny`" in result.err


def test_json_is_a_line_a_piece_a_turn_and_the_end(app: LocalApp, sent: list[dict[str, Any]]) -> None:
    result = app.lmi("chat", "tiny", "--json", stdin=b"Hello\n")
    assert [line["event"] for line in result.lines] == ["piece", "piece", "answered", "result"]
    answered = {"prompt": "Hello", "answer": "OK then", "seconds": 0.0, "adapter": ""}
    assert result.lines[2] == {"event": "answered", **answered}
    assert (result.result["ok"], result.result["deployment"], result.result["turns"]) == (True, "tiny", 1)


class Interrupted:
    """A target whose user presses Ctrl-C after the first part of an answer."""

    def __init__(self, target: Any, parts: list[bytes]) -> None:
        self._target, self._parts = target, parts

    def __getattr__(self, name: str) -> Any:
        return getattr(self._target, name)

    def invoke(
        self, ref: DeploymentRef, request: HttpRequest, *, timeout: float
    ) -> Iterator[ResponseHead | bytes]:
        if not self._parts:
            yield from self._target.invoke(ref, request, timeout=timeout)
            return
        yield ResponseHead(status=200, reason="OK", headers=(("Content-Type", "application/jsonlines"),))
        yield self._parts.pop()
        raise KeyboardInterrupt


def test_ctrl_c_stops_the_answer_and_not_the_conversation(app: LocalApp, sent: list[dict[str, Any]]) -> None:
    parts = [json.dumps({"choices": [{"delta": {"content": "Well"}}]}).encode() + b"\n"]
    wrap: Callable[[Any], Any] = lambda target: Interrupted(target, parts)  # noqa: E731
    app.target = wrap
    result = app.lmi("chat", "tiny", stdin=b"Hello\nGo on\n", terminal=True)
    assert (result.code, result.out) == (0, "WellOK then\n")
    assert "[stopped]" in result.err
    assert sent[-1]["messages"] == messages("Hello", "Well", "Go on")


def test_ctrl_c_before_the_first_word_forgets_the_question(app: LocalApp) -> None:
    stopped = threading.Event()

    def answer(body: dict[str, Any]) -> FakeResponse:
        if body["messages"][-1]["content"] == "Hello":
            os.kill(os.getpid(), signal.SIGINT)
            stopped.wait(30)
        assert len(body["messages"]) == 1
        return chat(body)

    app.servers.next.append(Behaviour(answer=answer))
    app.lmi("up", "--yes", "--no-probe")
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        result = app.lmi("chat", "tiny", stdin=b"Hello\nAgain\n", terminal=True)
    finally:
        signal.signal(signal.SIGINT, before)
        stopped.set()
    assert (result.code, result.out) == (0, "OK then\n")
    assert "[stopped]" in result.err


def test_only_a_chat_model_converses(app: LocalApp) -> None:
    app.lmi("up", "--yes", "--no-probe", "--set", "handler={template: text2text-generation}")
    result = app.lmi("chat", "tiny", stdin=b"Hello\n")
    assert result.code == 2
    assert "this deployment takes no conversations: its model is not a chat model" in result.err
