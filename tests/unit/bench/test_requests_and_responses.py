"""The requests of a run, its schedule and limits, and what its responses say."""

from __future__ import annotations

import base64
import json
from itertools import islice, pairwise
from statistics import fmean, pstdev

import pytest

from lmi_deploy.bench.arrivals import arrival_times, replayed_times
from lmi_deploy.bench.prompt_files import BenchRequest, read_requests
from lmi_deploy.bench.request_target import RequestForm, openai_target
from lmi_deploy.bench.response_reading import RawResponse, ReadResponse, read_response
from lmi_deploy.bench.run_limits import RunLimits, RunPhases
from lmi_deploy.engines.response_stream_decoder import read_json, read_line, response_decoder
from lmi_deploy.errors import UsageRefused

SSE = ((b"content-type", b"text/event-stream"),)


def capture(data: str, encoding: str) -> str:
    given = {"observedContentType": "application/json", "mode": "INPUT", "data": data, "encoding": encoding}
    return json.dumps({"captureData": {"endpointInput": given}, "eventVersion": "0"})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("one\n\n two \n", [BenchRequest(prompt="one"), BenchRequest(prompt="two")]),
        (
            '{"prompt": "a", "output_tokens": 5, "at": 1.5}\n{"body": {"x": 1}}\n',
            [BenchRequest(prompt="a", output_tokens=5, at=1.5), BenchRequest(body=b'{"x": 1}')],
        ),
        (
            '[{"conversations": [{"from": "human", "value": "hi"}, {"from": "gpt", "value": "yo"}]}, '
            '{"conversations": []}]',
            [BenchRequest(prompt="hi")],
        ),
        (
            capture('{"a": 1}', "JSON") + "\n" + capture(base64.b64encode(b"{}").decode(), "BASE64"),
            [BenchRequest(body=b'{"a": 1}'), BenchRequest(body=b"{}")],
        ),
    ],
)
def test_each_form_is_recognized_and_read(text: str, expected: list[BenchRequest]) -> None:
    assert [*read_requests(text, "x")] == expected


@pytest.mark.parametrize(
    ("text", "form", "words"),
    [
        ('{"prompt": "a"}\n{"prompt": \n', "auto", "x:2: not JSON"),
        ('{"prompt": "a"}\n\n[1]\n', "auto", "x:3: not a JSON object"),
        ('{"prmpt": "a"}', "auto", "x:1: unknown key prmpt"),
        ('{"prompt": "a", "body": {}}', "auto", "x:1: prompt and body of prompt, messages, body"),
        ('{"prompt": "a", "output_tokens": 0}', "auto", "x:1: output_tokens: 0"),
        ('[{"conversations": [{"from": "human"}]}]', "auto", "x: element 1 is no conversation"),
        (capture("!", "BASE64"), "auto", "x:1: endpointInput.data: not base64"),
        ('{"captureData": {}}', "auto", "x:1: no captureData.endpointInput.data"),
        ("\n\n", "auto", "x: no request in it"),
        ("plain", "jsonl", "x:1: not JSON"),
    ],
)
def test_bad_line_is_named_by_its_number(text: str, form: str, words: str) -> None:
    with pytest.raises(UsageRefused, match="x") as refused:
        read_requests(text, "x", form)
    assert words in str(refused.value)


@pytest.mark.parametrize(("arrivals", "variation"), [("constant", 0.0), ("poisson", 1.0), ("gamma", 2.0)])
def test_schedule_has_its_rate_and_its_variation(arrivals: str, variation: float) -> None:
    gaps = [b - a for a, b in pairwise(islice(arrival_times(50, arrivals, seed=3), 20_000))]
    assert fmean(gaps) == pytest.approx(1 / 50, rel=0.05)
    assert pstdev(gaps) / fmean(gaps) == pytest.approx(variation, rel=0.1, abs=1e-6)
    again = [*islice(arrival_times(50, arrivals, seed=3), 10)]
    assert again == [*islice(arrival_times(50, arrivals, seed=3), 10)]


def test_trace_is_replayed_from_its_first_request() -> None:
    assert [*replayed_times([12.0, 10.0, 10.5])] == [0.0, 0.5, 2.0]


def read(raw: RawResponse, *, is_stream: bool = True) -> ReadResponse:
    return [
        *read_response(
            raw, lambda head: response_decoder(head, full=read_json, line=read_line), is_stream=is_stream
        )
    ][-1]


def token(text: str, finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": {"content": text} if text else {}, "finish_reason": finish}
    return b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"


def test_arrivals_are_those_of_text_and_usage_corrects_the_count_of_tokens() -> None:
    usage = b'data: {"choices": [], "usage": {"completion_tokens": 7}}\n\ndata: [DONE]\n\n'
    head = b'data: {"choices": [{"delta": {"role": "assistant"}}]}\n\n'
    parts = [(1.0, head), (2.0, token("a")), (3.0, token("b") + token("c")), (4.0, token("", "stop") + usage)]
    found = read(RawResponse(scheduled=0, end=4.0, status=200, headers=SSE, parts=parts))
    assert (found.arrivals, found.tokens, found.finish, found.error) == ([2.0, 3.0], 7, "stop", "")


@pytest.mark.parametrize(
    ("body", "headers", "expected"),
    [
        ({"choices": [{"text": "a"}], "usage": {"prompt_tokens": 5, "completion_tokens": 1}}, (), 5),
        ({"data": [{"embedding": [0.5]}], "usage": {"prompt_tokens": 8, "total_tokens": 8}}, (), 8),
        ({"generated_text": "a", "details": {"prefill": [{"id": 1}, {"id": 2}]}}, (), 2),
        ([{"generated_text": "a", "details": {"prefill": [{}] * n}} for n in (2, 3)], (), 5),
        ([{"generated_text": "a", "details": {"prefill": [{}]}}, {"generated_text": "b"}], (), 0),
        ([{"generated_text": "a"}], ((b"x-prompt-tokens", b"6"),), 6),
        ([[0.5, 1.0]], ((b"X-Compute-Tokens", b"9"),), 9),
        ({"generated_text": "a"}, ((b"x-prompt-tokens", b"-6"),), 0),
    ],
)
def test_input_tokens_are_in_the_usage_the_details_or_a_header(
    body: object, headers: tuple[tuple[bytes, bytes], ...], expected: int
) -> None:
    heads = ((b"content-type", b"application/json"), *headers)
    raw = RawResponse(scheduled=0, end=2, status=200, headers=heads, parts=[(1, json.dumps(body).encode())])
    assert read(raw, is_stream=False).input_tokens == expected


def test_part_that_ends_inside_of_an_event_counts_when_the_event_is_whole() -> None:
    event = token("a")
    parts = [(1.0, event[:10]), (2.0, event[10:])]
    assert read(RawResponse(scheduled=0, end=2.0, status=200, headers=SSE, parts=parts)).arrivals == [2.0]


def test_cut_stream_is_truncated_and_its_cause_is_the_connection() -> None:
    raw = RawResponse(
        scheduled=0, end=2.0, status=200, headers=SSE, parts=[(1.0, token("a")[:-9])], error="connection_cut"
    )
    found = read(raw)
    assert (found.error, found.truncated) == ("connection_cut", True)


@pytest.mark.parametrize(
    ("status", "headers", "body", "error"),
    [
        (400, ((b"X-Amzn-ErrorType", b"ThrottlingException:http://x"),), b"{}", "ThrottlingException"),
        (424, ((b"X-Amzn-ErrorType", b"ModelError"),), b"{}", "ModelError"),
        (503, (), b'{"__type": "com.amazon#ServiceUnavailable"}', "ServiceUnavailable"),
        (429, (), b"slow down", "http_429"),
    ],
)
def test_errors_have_the_class_that_the_service_names(
    status: int, headers: tuple[tuple[bytes, bytes], ...], body: bytes, error: str
) -> None:
    found = read(RawResponse(scheduled=0, status=status, headers=headers, parts=[(1.0, body)]))
    assert (found.error, found.detail, found.is_complete) == (error, body.decode(), True)


def test_exact_length_is_asked_for_in_the_words_of_the_servers() -> None:
    target = openai_target("http://h:1/v1", "m", None)
    body = json.loads(target.encode(BenchRequest(prompt="a"), RequestForm(output_tokens=9, exact=True)).body)
    assert (body["max_tokens"], body["min_tokens"], body["ignore_eos"]) == (9, 9, True)
    assert body["stream_options"] == {"include_usage": True}
    assert target.endpoint.url == "http://h:1/v1/chat/completions"


def test_run_warms_up_until_latencies_are_steady() -> None:
    phases = RunPhases(RunLimits(seconds=10), 1, began=0.0)
    for number in range(10):
        assert phases.begin()
        phases.end(1.0 - number / 20, now=number)
    for _ in range(20):
        phases.begin()
        phases.end(0.5, now=10.0)
    assert phases.is_warm
    assert not phases.begin()
    assert phases.may_begin(19.0) == ""
    assert phases.may_begin(21.0) == "the time is over"


def test_run_ends_at_its_share_of_errors() -> None:
    phases = RunPhases(RunLimits(seconds=10, warmup_requests=0), 1, began=0.0)
    ended = [phases.end(None if number % 2 else 0.1, now=1.0) for number in range(20)]
    assert not any(ended)
    assert phases.end(None, now=1.0)
