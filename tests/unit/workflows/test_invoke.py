"""A measured request: when the first token came, how many there were, how fast."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lmi_deploy.domain.inference_http import HttpRequest, InferenceRequest, ResponseHead
from lmi_deploy.domain.record import DeploymentRef, Generation, Record
from lmi_deploy.engines.vllm.engine import SERVICE
from lmi_deploy.errors import DeployFailed, NotFound, UsageRefused
from lmi_deploy.workflows.dependencies import Dependencies
from lmi_deploy.workflows.invoke import ResponseMetrics, invoke, invoke_raw
from tests.support.action_failures import ActionFailures, FailingTarget
from tests.support.factories import LOCAL, serving
from tests.support.fakes import FakeClock
from tests.support.local_app import REF, LocalApp

LINES = ResponseHead(status=200, reason="OK", headers=(("Content-Type", "application/jsonlines"),))
WHOLE = ResponseHead(status=200, reason="OK", headers=(("Content-Type", "application/json"),))
RECORD = Record(
    ref=REF,
    generations=(
        Generation(
            server="s",
            spec="",
            artifact="",
            runtime="embedded",
            host="127.0.0.1",
            port=1,
            serving=serving(LOCAL, template="x"),
            since="",
        ),
    ),
)


def line(text: str = "", **more: Any) -> bytes:
    return json.dumps({"choices": [{"delta": {"content": text}}], **more}).encode() + b"\n"


class Scripted(FailingTarget):
    """Returns one response, each part after its delay."""

    def __init__(
        self, app: LocalApp, record: Record | None, *parts: tuple[float, ResponseHead | bytes]
    ) -> None:
        super().__init__(
            app.deps().targets["local"], ActionFailures(at=-1, when="before", error=AssertionError)
        )
        object.__setattr__(self, "_given", (app.clock, record, parts))

    def read_record(self, ref: DeploymentRef) -> Record | None:
        return self._given[1]

    def invoke(
        self, ref: DeploymentRef, request: HttpRequest, *, timeout: float
    ) -> Iterator[ResponseHead | bytes]:
        clock, _, parts = self._given
        for pause, part in parts:
            clock.sleep(pause)
            yield part

    _given: tuple[FakeClock, Record | None, tuple[tuple[float, ResponseHead | bytes], ...]]


def deps(
    root: Path, *parts: tuple[float, ResponseHead | bytes], record: Record | None = RECORD
) -> Dependencies:
    app = LocalApp(root)
    return replace(app.deps(), targets={"local": Scripted(app, record, *parts)})


def test_stream_is_measured(tmp_path: Path) -> None:
    usage = {"usage": {"completion_tokens": 5}}
    parts = [(0.5, LINES), (0.5, line("a")), (1.0, line("b") + line("c")), (1.0, line(**usage))]
    measured = ResponseMetrics()
    chunks = list(
        invoke(REF, InferenceRequest(prompt="x", stream=True), deps(tmp_path, *parts), measured, timeout=1)
    )
    assert "".join(chunk.text for chunk in chunks) == "abc"
    assert (measured.first_chunk_seconds, measured.total_seconds) == (1.0, 3.0)
    assert (measured.tokens, measured.characters) == (5, 3)
    assert measured.tokens_per_second == pytest.approx(4 / 2)


def test_unary_response_is_measured_at_its_end(tmp_path: Path) -> None:
    choice = {"message": {"content": "OK then"}, "finish_reason": "length"}
    body = json.dumps({"choices": [choice], "usage": {"completion_tokens": 2}}).encode()
    measured = ResponseMetrics()
    given = deps(tmp_path, (0.0, WHOLE), (1.0, body[:9]), (1.0, body[9:]))
    assert [
        chunk.text for chunk in invoke(REF, InferenceRequest(prompt="x"), given, measured, timeout=1)
    ] == ["OK then"]
    assert (measured.first_chunk_seconds, measured.total_seconds, measured.finish) == (2.0, 2.0, "length")
    assert measured.tokens_per_second is None


@pytest.mark.parametrize(
    ("first", "total", "tokens", "rate"),
    [(None, 1.0, 9, None), (0.5, 1.0, 1, None), (1.0, 1.0, 9, None), (0.5, 1.0, 6, 10.0)],
)
def test_rate_needs_two_tokens_and_time_between_them(
    first: float | None, total: float, tokens: int, rate: float | None
) -> None:
    assert (
        ResponseMetrics(first_chunk_seconds=first, total_seconds=total, tokens=tokens).tokens_per_second
        == rate
    )


@pytest.mark.parametrize(
    ("status", "hint"),
    [(400, "correct the request"), (424, "see `lmi logs tiny`"), (503, "see `lmi logs tiny`")],
)
def test_error_response_shows_the_server_message(tmp_path: Path, status: int, hint: str) -> None:
    head = ResponseHead(status=status, reason="No", headers=())
    with pytest.raises(DeployFailed, match=f"the server responded {status} No") as refused:
        list(
            invoke(
                REF,
                InferenceRequest(prompt="x"),
                deps(tmp_path, (0, head), (0, b"one\ntwo")),
                ResponseMetrics(),
                timeout=1,
            )
        )
    assert refused.value.details == ("one", "two")
    assert hint in refused.value.hint


@pytest.mark.parametrize("send", [invoke, invoke_raw])
def test_stream_with_an_adapter_is_refused_where_vllm_would_ignore_the_adapter(
    tmp_path: Path, send: Any
) -> None:
    of_vllm = serving(LOCAL, engine="vllm", handler=SERVICE, properties=(("option.enable_lora", "true"),))
    record = replace(RECORD, generations=(replace(RECORD.generations[0], serving=of_vllm),))
    more = {"measured": ResponseMetrics()} if send is invoke else {}

    def ask(*, stream: bool, adapter: str = "sql") -> list[Any]:
        request = InferenceRequest(prompt="x", stream=stream, adapter=adapter)
        given = deps(tmp_path, (0, WHOLE), (0, b"{}"), record=record)
        return [*send(REF, request, given, timeout=1, **more)]

    with pytest.raises(
        UsageRefused, match="--adapter sql: this server ignores the adapter in a stream"
    ) as refused:
        ask(stream=True)
    assert refused.value.hint == "ask by `lmi invoke --no-stream`"
    ask(stream=False)
    ask(stream=True, adapter="")


def test_error_without_a_reason_gets_the_usual_one(tmp_path: Path) -> None:
    head = ResponseHead(status=424, reason="OK", headers=())
    body = b'{"message":"Async Inference Failure service.invoke_handler_async() failure"}'
    given = deps(tmp_path, (0, head), (0, body))
    with pytest.raises(DeployFailed) as refused:
        list(invoke(REF, InferenceRequest(prompt="x"), given, ResponseMetrics(), timeout=1))
    assert "exceed max_model_len; otherwise see `lmi logs tiny`" in refused.value.hint


def test_error_without_a_reason_in_a_stream_gets_the_usual_one(tmp_path: Path) -> None:
    parts = [(0.0, LINES), (0.0, b'{"error": "service.invoke_handler_async() failure"}\n')]
    given = deps(tmp_path, *parts)
    with pytest.raises(DeployFailed) as refused:
        list(invoke(REF, InferenceRequest(prompt="x", stream=True), given, ResponseMetrics(), timeout=1))
    assert "exceed max_model_len; otherwise see `lmi logs tiny`" in refused.value.hint


def test_broken_response_is_an_error_after_the_received_part(tmp_path: Path) -> None:
    parts = [(0.0, LINES), (0.0, line("a")), (0.0, b'{"error": {"message": "out of memory"}}\n')]
    chunks = invoke(
        REF, InferenceRequest(prompt="x", stream=True), deps(tmp_path, *parts), ResponseMetrics(), timeout=1
    )
    assert next(chunks).text == "a"
    with pytest.raises(DeployFailed, match="the response ended early: out of memory"):
        next(chunks)


def test_raw_returns_every_byte_whatever_the_status(tmp_path: Path) -> None:
    head = ResponseHead(status=500, reason="Oh", headers=())
    raw = invoke_raw(
        REF, InferenceRequest(prompt="x"), deps(tmp_path, (0, head), (0, b"{"), (0, b"x")), timeout=1
    )
    assert [next(raw), next(raw)] == [b"{", b"x"]
    with pytest.raises(DeployFailed, match="500 Oh"):
        next(raw)


def test_invoking_a_missing_deployment_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="tiny: no such deployment"):
        list(
            invoke(
                REF, InferenceRequest(prompt="x"), deps(tmp_path, record=None), ResponseMetrics(), timeout=1
            )
        )
