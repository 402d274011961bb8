"""OpenAI's own client library against an address, case by case: `with_openai.py BASE_URL MODEL CASE...`.

It prints one JSON line a case: what came back, or the class of the error that the library raised.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from typing import Any

import openai
from pydantic import BaseModel

BASE_URL, MODEL = sys.argv[1:3]
QUESTION: list[Any] = [{"role": "user", "content": "What is the capital of France?"}]
TOOL: Any = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather of a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
client = openai.OpenAI(base_url=BASE_URL, api_key="none", max_retries=0, timeout=60)


class City(BaseModel):
    city: str
    people: int


def asked(word: str) -> list[Any]:
    return [{"role": "user", "content": word}]


def models() -> Any:
    return [model.id for model in client.models.list()]


def whole() -> Any:
    made = client.chat.completions.create(model=MODEL, messages=QUESTION, max_tokens=8)
    choice, usage = made.choices[0], made.usage
    assert usage is not None
    return [made.object, made.model, choice.finish_reason, choice.message.content, usage.completion_tokens]


def stream() -> Any:
    parts = client.chat.completions.create(model=MODEL, messages=QUESTION, max_tokens=8, stream=True)
    return "".join(part.choices[0].delta.content or "" for part in parts)


def stream_with_usage() -> Any:
    options: Any = {"include_usage": True}
    parts = list(
        client.chat.completions.create(
            model=MODEL, messages=QUESTION, max_tokens=8, stream=True, stream_options=options
        )
    )
    assert parts[-1].usage is not None
    return [parts[-1].choices, parts[-1].usage.completion_tokens, len({part.id for part in parts})]


def asynchronous() -> Any:
    async def ask() -> Any:
        async with openai.AsyncOpenAI(base_url=BASE_URL, api_key="none", max_retries=0) as own:
            made = own.chat.completions.create
            full = await made(model=MODEL, messages=QUESTION, max_tokens=8)
            parts = await made(model=MODEL, messages=QUESTION, max_tokens=8, stream=True)
            text = "".join([part.choices[0].delta.content or "" async for part in parts])
            return [full.choices[0].message.content, text]

    return asyncio.run(ask())


def completion() -> Any:
    made = client.completions.create(model=MODEL, prompt="Once upon", max_tokens=8)
    parts = client.completions.create(model=MODEL, prompt="Once upon", max_tokens=8, stream=True)
    return [made.choices[0].text, "".join(part.choices[0].text for part in parts)]


def responses() -> Any:
    made = client.responses.create(model=MODEL, input="What is the capital of France?", max_output_tokens=8)
    parts = client.responses.create(
        model=MODEL, input="What is the capital of France?", max_output_tokens=8, stream=True
    )
    text = "".join(part.delta for part in parts if part.type == "response.output_text.delta")
    return [made.output_text, text]


def embeddings() -> Any:
    made = client.embeddings.create(model=MODEL, input=["One text", "Another"])
    short = client.embeddings.create(model=MODEL, input="One text", encoding_format="float")
    first, again = made.data[0].embedding, short.data[0].embedding
    return [len(made.data), len(first), max(abs(a - b) for a, b in zip(first, again, strict=True)) < 1e-5]


def tools() -> Any:
    made = client.chat.completions.create(model=MODEL, messages=QUESTION, tools=[TOOL])
    calls: Any = made.choices[0].message.tool_calls
    streamed = client.chat.completions.create(model=MODEL, messages=QUESTION, tools=[TOOL], stream=True)
    parts: list[Any] = [part.choices[0].delta.tool_calls for part in streamed]
    arguments = "".join(call.function.arguments for found in parts for call in found or [])
    return [
        made.choices[0].finish_reason,
        calls[0].function.name,
        json.loads(calls[0].function.arguments),
        json.loads(arguments),
    ]


def structured() -> Any:
    made = client.chat.completions.parse(model=MODEL, messages=QUESTION, response_format=City)
    assert made.choices[0].message.parsed is not None
    return made.choices[0].message.parsed.model_dump()


def broken_stream() -> Any:
    return _words_until_error("break")


def dying_stream() -> Any:
    return _words_until_error("die")


def _words_until_error(word: str) -> Any:
    words = []
    try:
        for part in client.chat.completions.create(model=MODEL, messages=asked(word), stream=True):
            words.append(part.choices[0].delta.content)
    except openai.APIError as error:
        return [words, type(error).__name__, error.message]
    return [words, "no error"]


def unknown_model() -> Any:
    return client.chat.completions.create(model="nobody", messages=QUESTION)


def unsupported() -> Any:
    return client.chat.completions.create(model=MODEL, messages=QUESTION, n=2)


def wrong_key() -> Any:
    return openai.OpenAI(base_url=BASE_URL, api_key="wrong", max_retries=0).models.list()


def too_many() -> Any:
    return client.chat.completions.create(model=MODEL, messages=QUESTION)


CASES: dict[str, Callable[[], Any]] = {
    case.__name__: case
    for case in (
        *(models, whole, stream, stream_with_usage, asynchronous, completion, responses, embeddings),
        *(tools, structured, broken_stream, dying_stream, unknown_model, unsupported, wrong_key, too_many),
    )
}

for name in sys.argv[3:]:
    try:
        print(json.dumps({"case": name, "result": CASES[name]()}), flush=True)
    except openai.APIStatusError as error:
        fields = {"status": error.status_code, "param": error.param, "code": error.code}
        print(json.dumps({"case": name, "error": type(error).__name__, **fields, "message": error.message}))
