"""A handler that writes OpenAI's and LMI's forms as model servers do, without a model: for tests of the proxy.

The last message or the prompt says what happens: `words N` (that many words), `slow SECONDS` before each word,
`exit N` (the worker dies after N words), `error N`, `cut N` (the stream ends after N), `echo` (the body as text),
`refuse`.
"""

from __future__ import annotations

from pathlib import Path

from tests.support.fakes import safetensors

RECIPE = """\
name: talks
model_id: ./model
engine: custom
instance_type: ml.g5.xlarge
task: text-generation
handler: {file: model.py}
probe: {body: '{"prompt": "words 1"}', expect: w0}
"""


def write_talking(home: Path) -> None:
    """The handler and its model, beside which a test writes its recipe."""
    (home / "model").mkdir()
    (home / "model" / "model.safetensors").write_bytes(safetensors())
    (home / "model.py").write_text(TALKING)


TALKING = """
import json, os, time
from djl_python import Output

def lines(body, count, delay, kind, broken):
    chat = "messages" in body
    name = "chat.completion.chunk" if chat else "text_completion"
    head = {"id": "x", "object": name, "created": 1, "model": "/opt/ml/model", "choices": []}
    for number in range(count):
        if delay:
            time.sleep(delay)
        if broken.get("exit") == number:
            os._exit(7)
        if broken.get("error") == number:
            yield json.dumps({"error": {"message": "generation failed: no memory", "type": "server_error"}}) + "\\n"
            return
        if broken.get("cut") == number:
            return
        word = " w%d" % number
        if kind == "inputs":
            yield json.dumps({"token": {"id": number, "text": word, "log_prob": -0.5}}) + "\\n"
            continue
        said = {"delta": {"content": word}} if chat else {"text": word}
        yield json.dumps({**head, "choices": [{"index": 0, **said, "finish_reason": None}]}) + "\\n"
    if kind == "inputs":
        return
    end = {"delta": {}} if chat else {"text": ""}
    yield json.dumps({**head, "choices": [{"index": 0, **end, "finish_reason": "stop"}]}) + "\\n"
    if (body.get("stream_options") or {}).get("include_usage"):
        usage = {"prompt_tokens": 3, "completion_tokens": count, "total_tokens": count + 3}
        yield json.dumps({**head, "usage": usage}) + "\\n"

def whole(body, text, count, kind):
    if kind == "inputs":
        return {"generated_text": text, "details": {"finish_reason": "eos_token", "generated_tokens": count}}
    said = {"message": {"role": "assistant", "content": text}} if "messages" in body else {"text": text}
    usage = {"prompt_tokens": 3, "completion_tokens": count, "total_tokens": count + 3}
    choices = [{"index": 0, **said, "finish_reason": "stop"}]
    name = "chat.completion" if "messages" in body else "text_completion"
    return {"id": "x", "object": name, "created": 1, "model": "/opt/ml/model", "choices": choices, "usage": usage}

def handle(inputs):
    if inputs.is_empty():
        return None
    body = inputs.get_as_json()
    if "inputs" in body and isinstance(body["inputs"], list) or "input" in body:
        texts = body.get("inputs") or body["input"]
        return Output().add_as_json([[len(text), 0.5, -1.0] for text in texts])
    kind = next(name for name in ("messages", "prompt", "inputs") if name in body)
    said = body[kind] if kind != "messages" else body["messages"][-1]["content"]
    parts = said.split()
    numbers = dict(zip(parts[::2], parts[1::2]))
    count, delay = int(numbers.get("words", 3)), float(numbers.get("slow", 0))
    if parts == ["refuse"]:
        refusal = Output(400, "Bad Request").add_property("Content-Type", "application/json")
        error = {"message": "temperature: expected a number", "type": "invalid_request_error", "param": "temperature"}
        return refusal.add_as_json({"error": error})
    if parts == ["echo"]:
        attributes = inputs.get_property("X-Amzn-SageMaker-Adapter-Identifier")
        text = json.dumps({**body, "adapter": attributes})
        return Output().add_property("Content-Type", "application/json").add_as_json(whole(body, text, 1, kind))
    if body.get("stream"):
        broken = {name: int(numbers[name]) for name in ("exit", "error", "cut") if name in numbers}
        out = Output().add_property("Content-Type", "application/jsonlines")
        return out.add_stream_content(lines(body, count, delay, kind, broken), output_formatter=None)
    time.sleep(delay)
    text = "".join(" w%d" % number for number in range(count))
    return Output().add_property("Content-Type", "application/json").add_as_json(whole(body, text, count, kind))
"""
