"""Text to text (translation, summaries, T5 and BART) with transformers, on a CPU or one GPU: a DJLServing handler.

    {"inputs": "translate English to German: OK", "parameters": {"max_new_tokens": 64}}  -> {"generated_text": ...}
    {"inputs": ["One", "Another"]}                                                      -> a list of these

`"stream": true` sends JSON lines while the text comes, or, where the request has the header
`Accept: text/event-stream`, server-sent events that end with `data: [DONE]`. Decoding is greedy until a request asks
for sampling (temperature above 0, top_p, top_k, do_sample) or for beams (num_beams, not streamed).
A mistake of the client is answered with 400 and {"error": {"message", "type", "param", "code"}}. Requests that the
server groups (batch_size) go through the model together and share one status: there a bad one gets that error as its
own body, beside its neighbours' 200.

Options read from serving.properties (`option.` before each): model_id, revision, dtype (fp32, fp16, bf16, auto),
trust_remote_code, trust_insecure_model_files (weights other than safetensors), max_new_tokens (where a request names
none), max_model_len, torch_threads.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

import torch
from djl_python import Input, Output
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, TextIteratorStreamer

DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16, "auto": "auto"}
ADAPTER = "X-Amzn-SageMaker-Adapter-Identifier"
MAX_ROWS = 32  # texts that go through the model together; longer lists take several rounds
DEFAULT_TOKENS = 64
NUMBERS: dict[str, tuple[type, float, float]] = {
    "max_new_tokens": (int, 1, 1_000_000),
    "temperature": (float, 0, 100),
    "top_p": (float, 0, 1),
    "top_k": (int, 1, 1_000_000),
    "num_beams": (int, 1, 64),
    "repetition_penalty": (float, 0.01, 100),
    "length_penalty": (float, -100, 100),
    "seed": (int, 0, 2**63 - 1),
}
KNOWN = {"do_sample", *NUMBERS}


class BadRequest(Exception):
    """The client's mistake; `param` names the key it is about. `events`: the client reads only events."""

    events = False

    def __init__(self, message: str, param: str | None = None) -> None:
        super().__init__(f"{param}: {message}" if param else message)
        self.param = param


@dataclass
class Request:
    """One body, understood. `said` are the parameters by transformers' names."""

    listed: bool
    rows: list[list[int]]
    said: dict[str, Any]
    stream: bool
    events: bool = False
    texts: list[str] = field(default_factory=list)

    def sampling(self) -> dict[str, Any]:
        """The keywords for transformers' generate; requests with equal ones can share a batch."""
        chosen = {name: value for name, value in self.said.items() if name not in ("seed", "do_sample")}
        limits = {"temperature", "top_p", "top_k"} & chosen.keys()
        if self.said.get("do_sample", bool(limits)) and chosen.get("temperature") != 0:
            return {"do_sample": True, "top_k": 0, **chosen}
        return {name: value for name, value in chosen.items() if name not in limits}


def read_json(item: Input) -> dict[str, Any]:
    if item.get_property(ADAPTER):
        raise BadRequest("this handler has no adapters", ADAPTER)
    if item.is_empty() or not item.contains_key("data"):
        raise BadRequest("no JSON body: send one with the header Content-Type: application/json")
    try:
        body = json.loads(bytes(item.get_as_bytes("data")).decode("utf-8"))
        dump(body).encode("utf-8")  # an escape may name half a character, which no tokenizer takes
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"the body is not JSON in UTF-8: {error}") from error
    if not isinstance(body, dict):
        raise BadRequest(f"expected a JSON object, got {type(body).__name__}")
    return body


def refuse_unknown(given: set[str], known: set[str]) -> None:
    for name in sorted(given - known):
        near = get_close_matches(name, known, n=1)
        advice = f"did you mean {near[0]}?" if near else f"known here: {', '.join(sorted(known))}"
        raise BadRequest(f"not supported, {advice}", name)


def read_object(name: str, value: Any) -> dict[str, Any]:
    if value is not None and not isinstance(value, dict):
        raise BadRequest(f"expected an object, got {value!r:.80}", name)
    return value or {}


def read_flag(name: str, value: Any, default: bool) -> bool:
    if value is not None and not isinstance(value, bool):
        raise BadRequest(f"expected true or false, got {value!r:.80}", name)
    return default if value is None else value


def read_texts(name: str, value: Any) -> list[str]:
    texts = value if isinstance(value, list) else [value]
    if not texts or not all(isinstance(text, str) and text for text in texts):
        raise BadRequest(f"expected a text or a list of texts, none of them empty, got {value!r:.80}", name)
    return texts


def read_parameters(given: dict[str, Any]) -> dict[str, Any]:
    """A null says nothing."""
    said = {name: read_number(name, given[name]) for name in NUMBERS if given.get(name) is not None}
    if given.get("do_sample") is not None:
        said["do_sample"] = read_flag("do_sample", given["do_sample"], False)
    return said


def read_number(name: str, value: Any) -> Any:
    kind, low, high = NUMBERS[name]
    right = (int,) if kind is int else (int, float)
    if isinstance(value, bool) or not isinstance(value, right) or not low <= value <= high:
        expected = "a whole number" if kind is int else "a number"
        raise BadRequest(f"expected {expected} from {low} to {high}, got {value!r:.80}", name)
    return kind(value)


def load(options: dict[str, Any]) -> tuple[Any, Any]:
    """Tokenizer and model, as the options say; all of them are texts."""
    path = options.get("model_id") or options["model_dir"]
    number = int(options.get("device_id") or -1)
    device = f"cuda:{number}" if number >= 0 and torch.cuda.is_available() else "cpu"
    dtype = (options.get("dtype") or ("fp32" if device == "cpu" else "auto")).lower()
    if dtype not in DTYPES:
        raise ValueError(f"option.dtype: {dtype} is not known, use one of {', '.join(DTYPES)}")
    trusted = {"trust_remote_code": yes(options, "trust_remote_code"), "revision": options.get("revision")}
    pickles = None if yes(options, "trust_insecure_model_files") else True
    if options.get("torch_threads"):
        torch.set_num_threads(int(options["torch_threads"]))
    model = AutoModelForSeq2SeqLM.from_pretrained(path, dtype=DTYPES[dtype], use_safetensors=pickles, **trusted)
    return AutoTokenizer.from_pretrained(path, **trusted), model.eval().to(device)


def yes(options: dict[str, Any], name: str) -> bool:
    return str(options.get(name)).lower() == "true"


def dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


class Service:
    """The model and what is known of it. All that computes runs in one thread, which keeps torch's own ones warm."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.tokenizer, self.model = load(options)
        self.limit = int(options.get("max_new_tokens") or DEFAULT_TOKENS)
        # T5 states positions, too (n_positions), but they are relative: longer texts work.
        positions = getattr(self.model.config, "max_position_embeddings", None)
        self.longest = int(options.get("max_model_len") or positions or 1_000_000)
        self.model.generation_config.update(do_sample=False, num_beams=1, max_length=None)
        self.thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="generate")

    def warm_up(self) -> None:
        """Two real tokens: the first client does not pay for lazy set-up, and a broken model says so now."""
        start = time.monotonic()
        self.thread.submit(self.generate, [self.tokenizer("Hello")["input_ids"]], None, {"max_new_tokens": 2}).result()
        logging.info("warm-up: 2 tokens in %.2f s on %s", time.monotonic() - start, self.model.device)

    def prepare(self, body: dict[str, Any]) -> Request:
        if "inputs" not in body:
            raise BadRequest(f"expected inputs, got {sorted(body) or 'an empty object'}")
        refuse_unknown(set(body), {"inputs", "parameters", "stream", "model"})
        given = read_object("parameters", body.get("parameters"))
        refuse_unknown(set(given), KNOWN)
        said = {"max_new_tokens": self.limit, **read_parameters(given)}
        stream, listed = read_flag("stream", body.get("stream"), False), isinstance(body["inputs"], list)
        if stream and (listed or said.get("num_beams", 1) > 1):
            raise BadRequest("lists and beams cannot be streamed; send one text, or stream: false", "stream")
        rows = [self.encode(text) for text in read_texts("inputs", body["inputs"])]
        return Request(listed, rows, said, stream)

    def encode(self, text: str) -> list[int]:
        ids = list(self.tokenizer(text)["input_ids"])
        if not 0 < len(ids) <= self.longest:
            raise BadRequest(f"{len(ids)} tokens; this model takes from 1 to {self.longest}", "inputs")
        return ids

    def generate(self, rows: list[list[int]], seed: int | None, sampling: dict[str, Any], **more: Any) -> torch.Tensor:
        torch.seed() if seed is None else torch.manual_seed(seed)
        width, pad = max(map(len, rows)), self.tokenizer.pad_token_id or 0
        ids = torch.tensor([row + [pad] * (width - len(row)) for row in rows], device=self.model.device)
        mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows], device=self.model.device)
        return self.model.generate(input_ids=ids, attention_mask=mask, **sampling, **more)

    def answer(self, requests: list[Request]) -> None:
        """Runs all texts of all requests, those with equal parameters together; a seeded request runs alone."""
        groups: dict[Any, list[tuple[Request, list[int]]]] = {}
        for request in requests:
            key = id(request) if "seed" in request.said else tuple(sorted(request.sampling().items()))
            groups.setdefault(key, []).extend((request, row) for row in request.rows)
        for group in groups.values():
            request, _ = group[0]
            for start in range(0, len(group), MAX_ROWS):
                part = group[start : start + MAX_ROWS]
                rows = [row for _, row in part]
                made = self.thread.submit(self.generate, rows, request.said.get("seed"), request.sampling()).result()
                for (owner, _), ids in zip(part, made):
                    owner.texts.append(self.tokenizer.decode(ids, skip_special_tokens=True))

    def pieces(self, request: Request) -> Iterator[str]:
        """The text of a single request as it comes."""
        streamer = TextIteratorStreamer(self.tokenizer, skip_special_tokens=True)
        seed, sampling = request.said.get("seed"), request.sampling()
        running = self.thread.submit(self.generate, request.rows, seed, sampling, streamer=streamer)
        running.add_done_callback(lambda done: done.exception() and streamer.end())
        yield from (piece for piece in streamer if piece)
        running.result()


def whole(request: Request) -> Any:
    """The answer in one piece."""
    answers = [{"generated_text": text} for text in request.texts]
    return answers if request.listed else answers[0]


def streamed(pieces: Iterator[str], *, events: bool) -> Iterator[str]:
    """The answer as it comes. When it breaks the head is long sent: an error ends it, and the log has the trace."""
    text = ""
    try:
        for piece in pieces:
            text += piece
            yield line({"token": {"text": piece}}, events=events)
        yield line({"token": {"text": ""}, "generated_text": text}, events=events)
    except (RuntimeError, ValueError, IndexError, MemoryError) as error:
        logging.exception("the stream broke")
        yield line(error_object(f"generation failed: {error}", "server_error"), events=events)
    if events:
        yield "data: [DONE]\n\n"


def line(value: Any, *, events: bool) -> str:
    """JSON as a line, or as a server-sent event."""
    return f"data: {dump(value)}\n\n" if events else dump(value) + "\n"


def error_object(message: str, kind: str, param: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": param, "code": None}}


def body(each: Request | BadRequest, *, refused: bool) -> str:
    """`refused`: the status says that it is an error."""
    if isinstance(each, BadRequest):
        error = error_object(str(each), "invalid_request_error", each.param)
        return line(error, events=True) if each.events and not refused else dump(error)
    # A stream cannot flow out of a group: the same lines come, but all at once.
    return "".join(streamed(iter(each.texts), events=each.events)) if each.stream else dump(whole(each))


service: Service | None = None


def handle(inputs: Input) -> Output | None:
    """The first call has no content: it brings the options, and the model is loaded. Each later one is a request."""
    global service
    if service is None:
        service = Service(inputs.get_properties())
        service.warm_up()
        return None
    understood = [understand(item, service) for item in inputs.get_batches()]
    requests = [each for each in understood if isinstance(each, Request)]
    output = Output() if requests else Output(400, "Bad Request")
    output.add_property("Content-Type", content_type(requests))
    if requests and requests[0].stream and not inputs.is_batch():
        pieces = streamed(service.pieces(requests[0]), events=requests[0].events)
        return output.add_stream_content(pieces, output_formatter=None)
    service.answer(requests)
    for index, each in enumerate(understood):
        text = body(each, refused=not requests)
        output.add(text, batch_index=index if inputs.is_batch() else None)
    return output


def understand(item: Input, service: Service) -> Request | BadRequest:
    # OpenAI's own client library does not name events in Accept.
    events = "text/event-stream" in (item.get_property("Accept") or "").lower()
    try:
        request = service.prepare(read_json(item))
    except BadRequest as mistake:
        mistake.events = events
        return mistake
    request.events = events and request.stream
    return request


def content_type(requests: list[Request]) -> str:
    """Of the answer; grouped requests share one."""
    kinds = {
        "text/event-stream"
        if request.events
        else "application/jsonlines"
        if request.stream
        else "application/json"
        for request in requests
    }
    return kinds.pop() if len(kinds) == 1 else "application/json"
