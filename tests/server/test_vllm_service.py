"""Engine vllm before DJL's own asynchronous service, with a stand-in for vLLM alone: do they understand each other?"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from lmi_deploy.domain.inference_http import Head, Piece, Question
from lmi_deploy.domain.java_properties import write_line
from lmi_deploy.domain.recipe import Handler
from lmi_deploy.engines import vllm
from tests.support.running_server import Served, serving

pytestmark = pytest.mark.worker

STAND_IN = Path(__file__).parents[1] / "support" / "vllm_stand_in.py"
HANDLER = vllm.handler(Handler(), "text-generation")
TORCH = (
    "float32 = float16 = bfloat16 = int8 = None\nclass cuda:\n    device_count = staticmethod(lambda: 0)\n"
)
OPTIONS = (("max_model_len", "4096"), ("model_loading_timeout", "60"))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The very serving.properties of the engine, and beside it what its image would bring."""
    folder = tmp_path_factory.mktemp("model")
    written = vllm.properties(HANDLER, OPTIONS, task="text-generation", tensor_parallel_degree=1)
    slot = {"option.model_id": str(folder), "option.sessions_path": str(folder / "sessions")}
    lines = [write_line(key, value) for key, value in ({**dict(written), **slot}).items()]
    (folder / "serving.properties").write_text("\n".join(lines) + "\n")
    for package, source in (("vllm", STAND_IN.read_text()), ("torch", TORCH)):
        (folder / package).mkdir()
        (folder / package / "__init__.py").write_text(source)
    with serving(folder, environ={"AWS_DEFAULT_REGION": "us-east-1"}) as running:
        yield running


def ask(served: Served, question: Question) -> list[Piece]:
    request = vllm.encode(question, HANDLER, "text-generation")
    connection = served.connect()
    connection.request("POST", "/invocations", request.body, dict(request.headers))
    answer = connection.getresponse()
    head = Head(status=answer.status, reason=answer.reason, headers=tuple(answer.getheaders()))
    decoder = vllm.decoder(head, question, HANDLER)
    pieces = [piece for part in iter(lambda: answer.read1(5), b"") for piece in decoder.feed(part)]
    return pieces + decoder.close()


def test_vllm_is_started_as_the_recipe_says(served: Served) -> None:
    (line,) = [each for each in served.text.splitlines() if "vLLM was started with" in each]
    started = json.loads(line.partition("started with ")[2])
    assert (started["tensor_parallel_size"], started["max_model_len"]) == ("1", "4096")


def test_the_probe_is_answered(served: Served) -> None:
    probe = vllm.probe(HANDLER, "text-generation")
    assert probe is not None
    assert ask(served, probe) == [Piece(text="Paris is the capital.", tokens=5, finish="stop")]


@pytest.mark.parametrize("chat", [True, False])
def test_a_stream_is_read_word_by_word(served: Served, chat: bool) -> None:
    pieces = ask(served, Question(prompt="Which?", chat=chat, stream=True, parameters={"max_tokens": 3}))
    assert [piece.text for piece in pieces if piece.text] == ["Paris", " is", " the"]
    assert sum(piece.tokens for piece in pieces) == 3
    assert [piece.finish for piece in pieces if piece.finish] == ["length"]


def test_a_completion_is_read(served: Served) -> None:
    pieces = ask(
        served, Question(prompt="The", chat=False, parameters={"max_new_tokens": 2, "temperature": 0})
    )
    assert pieces == [Piece(text="Paris is", tokens=2, finish="length")]


@pytest.mark.parametrize("stream", [False, True])
def test_lmis_own_form_is_read_as_well(served: Served, stream: bool) -> None:
    body = {"inputs": "The", "parameters": {"max_new_tokens": 2, "details": True}, "stream": stream}
    pieces = ask(served, Question(body=json.dumps(body).encode()))
    assert [piece.error for piece in pieces if piece.error] == []
    assert "".join(piece.text for piece in pieces) == "Paris is"
    assert sum(piece.tokens for piece in pieces) == 2


@pytest.mark.parametrize("stream", [False, True])
def test_what_vllm_refuses_is_told_in_its_words(served: Served, stream: bool) -> None:
    pieces = ask(served, Question(prompt="Hi", stream=stream, parameters={"max_tokens": 0}))
    assert "max_tokens must be at least 1" in "".join(piece.error for piece in pieces)
    pieces = ask(served, Question(prompt="Hi", stream=stream, parameters={"model": "another"}))
    assert "`another` does not exist" in "".join(piece.error for piece in pieces)
