"""Text generation with transformers, on a CPU or one GPU: a handler for DJLServing's Python engine.

Three kinds of body are understood; `"stream": true` sends each of them as JSON lines while tokens come:

    {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 64}      OpenAI chat
    {"prompt": "Once upon", "max_tokens": 64, "stop": ["."]}                 OpenAI completion
    {"inputs": "Once upon", "parameters": {"max_new_tokens": 64}}            LMI (`inputs` may be a list)

Decoding is greedy until a request asks for sampling: temperature above 0, top_p, top_k, min_p or do_sample.
A mistake of the client is answered with 400 and {"error": {"message", "type", "param"}}. Requests that the server
groups (batch_size) share one status: there a bad one gets that error as its own body, beside its neighbours' 200.

Options read from serving.properties (`option.` before each): model_id, revision, dtype (fp32, fp16, bf16, auto),
device_map, trust_remote_code, trust_insecure_model_files (weights other than safetensors), max_new_tokens (where a
request names none), max_model_len, torch_threads, served_model_name.
"""

from __future__ import annotations

import json
import logging
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import torch
from djl_python import Input, Output
from jinja2 import TemplateError
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    LogitsProcessor,
    LogitsProcessorList,
    StoppingCriteria,
    StoppingCriteriaList,
)

DTYPES = {
    "fp32": torch.float32,
    "fp16": torch.float16,
    "bf16": torch.bfloat16,
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "auto": "auto",
}
DEFAULT_TOKENS = {"chat": 256, "completion": 256, "generate": 30}
MAX_ROWS = 32  # prompts that go through the model together; longer lists are cut into several rounds
UNFINISHED_CHARACTER = "\N{REPLACEMENT CHARACTER}"


class BadRequest(Exception):
    """The client's mistake; `param` names the key it is about."""

    def __init__(self, message: str, param: str | None = None) -> None:
        super().__init__(f"{param}: {message}" if param else message)
        self.param = param

    def body(self) -> str:
        error = {"message": str(self), "type": "invalid_request_error", "param": self.param}
        return json.dumps({"error": error}, ensure_ascii=False)


# --- What a request may say ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Number:
    kind: type
    low: float
    high: float

    def check(self, name: str, value: Any) -> Any:
        right = isinstance(value, (int, float)) if self.kind is float else isinstance(value, int)
        if isinstance(value, bool) or not right or not self.low <= value <= self.high:
            kind = "a whole number" if self.kind is int else "a number"
            raise BadRequest(f"expected {kind} from {self.low} to {self.high}, got {value!r}", name)
        return self.kind(value)


NUMBERS = {
    "max_new_tokens": Number(int, 1, 1_000_000),
    "temperature": Number(float, 0, 100),
    "top_p": Number(float, 0, 1),
    "min_p": Number(float, 0, 1),
    "top_k": Number(int, -1, 1_000_000),
    "repetition_penalty": Number(float, 0.01, 100),
    "seed": Number(int, 0, 2**63 - 1),
}
FLAGS = {"do_sample", "return_full_text", "details"}
COMMON = {name: name for name in ("temperature", "top_p", "top_k", "min_p", "repetition_penalty", "seed")}
OPENAI = COMMON | {"max_tokens": "max_new_tokens", "max_completion_tokens": "max_new_tokens", "stop": "stop"}
GENERATE = COMMON | {
    "max_new_tokens": "max_new_tokens",
    "stop": "stop",
    "stop_sequences": "stop",
    **{flag: flag for flag in FLAGS},
}
# What clients send by habit: accepted where it changes nothing, refused where it would.
NEUTRAL: dict[str, Any] = {
    "n": 1,
    "best_of": 1,
    "num_beams": 1,
    "frequency_penalty": 0,
    "presence_penalty": 0,
    "logprobs": False,
    "logit_bias": {},
    "echo": False,
    "watermark": False,
    "decoder_input_details": False,
}
ENVELOPE = {
    "chat": ("messages", "stream", "stream_options", "model", "user"),
    "completion": ("prompt", "stream", "stream_options", "model", "user"),
    "generate": ("inputs", "parameters", "stream", "model"),
}


@dataclass
class Request:
    """One body, understood. `shape` is a key of ENVELOPE; several prompts only for completion and generate."""

    shape: str
    prompts: list[str] | list[dict[str, str]]
    listed: bool
    parameters: dict[str, Any]
    stream: bool
    with_usage: bool
    model: str
    rows: list[Row] = field(default_factory=list)

    @property
    def sampling(self) -> tuple[tuple[str, Any], ...]:
        """The keywords for `generate`, empty for greedy decoding; equal ones can share a batch."""
        asked = {key: self.parameters[key] for key in ("top_p", "top_k", "min_p") if key in self.parameters}
        temperature = self.parameters.get("temperature")
        wanted = self.parameters.get("do_sample", temperature is not None or bool(asked))
        chosen: dict[str, Any] = {}
        if wanted and temperature != 0:
            asked = {key: value for key, value in asked.items() if value > 0}
            chosen = {"do_sample": True, "temperature": temperature or 1.0, "top_k": 0, **asked}
        if self.parameters.get("repetition_penalty", 1.0) != 1.0:
            chosen["repetition_penalty"] = self.parameters["repetition_penalty"]
        return tuple(sorted(chosen.items()))


def parse(item: Input, settings: Settings) -> Request:
    """Raises BadRequest for anything that a client can get wrong without knowing the model."""
    body = read_json(item)
    shape = next((shape for shape, (key, *_) in ENVELOPE.items() if key in body), None)
    if shape is None:
        raise BadRequest(
            f"expected one of messages, prompt or inputs, got {sorted(body) or 'an empty object'}"
        )
    prompts, listed = read_prompts(shape, body)
    stream = flag("stream", body.get("stream"))
    if stream and listed:
        raise BadRequest("a list of prompts cannot be streamed; send one prompt, or stream: false", "stream")
    usage = body.get("stream_options") or {}
    if not isinstance(usage, dict):
        raise BadRequest(f"expected an object, got {usage!r}", "stream_options")
    return Request(
        shape=shape,
        prompts=prompts,
        listed=listed,
        parameters=read_parameters(shape, body),
        stream=stream,
        with_usage=flag("stream_options.include_usage", usage.get("include_usage")),
        model=str(body.get("model") or settings.name),
    )


def read_json(item: Input) -> dict[str, Any]:
    if item.is_empty() or not item.contains_key("data"):
        raise BadRequest("no JSON body: send one with the header Content-Type: application/json")
    try:
        body = json.loads(bytes(item.get_as_bytes("data")).decode("utf-8"))
    except ValueError as error:
        raise BadRequest(f"the body is not JSON in UTF-8: {error}") from error
    if not isinstance(body, dict):
        raise BadRequest(f"expected a JSON object, got {type(body).__name__}")
    return body


def read_prompts(shape: str, body: dict[str, Any]) -> tuple[list[Any], bool]:
    """The prompts, and whether they came as a list (then the answer is one, too)."""
    key = ENVELOPE[shape][0]
    value = body[key]
    if shape == "chat":
        return [read_messages(value)], False
    listed = isinstance(value, list)
    prompts = value if listed else [value]
    if not prompts or not all(isinstance(prompt, str) and prompt for prompt in prompts):
        raise BadRequest(f"expected a text or a list of texts, none of them empty, got {value!r:.80}", key)
    return prompts, listed


def read_messages(messages: Any) -> list[dict[str, str]]:
    if not isinstance(messages, list) or not messages:
        raise BadRequest(f"expected a list of messages, got {messages!r:.80}", "messages")
    return [read_message(f"messages[{index}]", message) for index, message in enumerate(messages)]


def read_message(name: str, message: Any) -> dict[str, str]:
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        raise BadRequest(f"expected an object with role and content, got {message!r:.80}", name)
    content = message.get("content")
    if isinstance(content, list):
        parts = [part.get("text") if isinstance(part, dict) else None for part in content]
        content = "".join(parts) if parts and all(isinstance(part, str) for part in parts) else None
    if not isinstance(content, str):
        raise BadRequest("expected a text, or parts of type text", f"{name}.content")
    return {"role": message["role"], "content": content}


def read_parameters(shape: str, body: dict[str, Any]) -> dict[str, Any]:
    """Parameters by our own names; a null says nothing. Every key of the body is looked at."""
    known, given, envelope = OPENAI, body, set(ENVELOPE[shape])
    if shape == "generate":
        refuse_unknown(set(body) - envelope, envelope)
        known, given, envelope = GENERATE, body.get("parameters"), set()
        given = {} if given is None else given
        if not isinstance(given, dict):
            raise BadRequest(f"expected an object, got {given!r:.80}", "parameters")
    refuse_unknown(set(given) - envelope - set(known) - set(NEUTRAL), envelope | set(known))
    for name in set(given) & set(NEUTRAL):
        if given[name] not in (None, NEUTRAL[name]):
            raise BadRequest(f"only {json.dumps(NEUTRAL[name])} is supported here, got {given[name]!r}", name)
    return {
        ours: read_value(name, ours, given[name])
        for name, ours in known.items()
        if given.get(name) is not None
    }


def refuse_unknown(unknown: set[str], known: Iterable[str]) -> None:
    for name in sorted(unknown):
        near = get_close_matches(name, list(known), n=1)
        advice = f"did you mean {near[0]}?" if near else f"known here: {', '.join(sorted(known))}"
        raise BadRequest(f"not supported, {advice}", name)


def read_value(name: str, ours: str, value: Any) -> Any:
    if ours == "stop":
        stops = [value] if isinstance(value, str) else value
        if not isinstance(stops, list) or not all(isinstance(stop, str) and stop for stop in stops):
            raise BadRequest(
                f"expected a text or a list of texts, none of them empty, got {value!r:.80}", name
            )
        return stops
    return flag(name, value) if ours in FLAGS else NUMBERS[ours].check(name, value)


def flag(name: str, value: Any) -> bool:
    if value not in (None, True, False) or isinstance(value, (int, float)) and not isinstance(value, bool):
        raise BadRequest(f"expected true or false, got {value!r:.80}", name)
    return bool(value)


# --- One prompt on its way -------------------------------------------------------------------------------------


class Row:
    """One prompt: its tokens so far, the text that may be shown, and why it ended (`finish`, empty until then)."""

    def __init__(
        self, tokenizer: Any, prompt: list[int], *, limit: int, stops: list[str], ends: set[int]
    ) -> None:
        self.prompt, self.limit, self.stops, self.ends = prompt, limit, stops, ends
        self.tokens: list[int] = []
        self.log_probs: list[float] = []
        self.text = ""
        self.finish = ""
        self._decode: Callable[[list[int]], str] = lambda ids: tokenizer.decode(ids, skip_special_tokens=True)
        self._window = 0, 0
        self._shown = 0

    def take(self, token: int, log_prob: float) -> None:
        self.tokens.append(token)
        self.log_probs.append(log_prob)
        if token in self.ends:
            self._end("eos_token")
            return
        self._grow(final=False)
        if not self.finish and len(self.tokens) >= self.limit:
            self._end("length")

    def fresh(self) -> str:
        """Text that was not handed out yet. What may be the start of a stop sequence waits."""
        ready = len(self.text) if self.finish else len(self.text) - self._held_back()
        text, self._shown = self.text[self._shown : ready], max(self._shown, ready)
        return text

    def _end(self, why: str) -> None:
        self._grow(final=True)
        self.finish = self.finish or why

    def _grow(self, *, final: bool) -> None:
        # Tokens are decoded with a few before them: spaces and characters may depend on their neighbours, and a
        # character may need several tokens.
        start, read = self._window
        before, after = self._decode(self.tokens[start:read]), self._decode(self.tokens[start:])
        if len(after) <= len(before) or (after.endswith(UNFINISHED_CHARACTER) and not final):
            return
        self._window = read, len(self.tokens)
        searched = max(0, len(self.text) - max(map(len, self.stops), default=0))
        self.text += after[len(before) :]
        found = [at for at in (self.text.find(stop, searched) for stop in self.stops) if at >= 0]
        if found:
            self.text, self.finish = self.text[: min(found)], "stop_sequence"

    def _held_back(self) -> int:
        sizes = (
            size for stop in self.stops for size in range(1, len(stop)) if self.text.endswith(stop[:size])
        )
        return max(sizes, default=0)


class LastScores(LogitsProcessor):
    """Keeps what the model said of the next token, before temperature and the like."""

    def __init__(self) -> None:
        self.scores = torch.empty(0)

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        self.scores = scores
        return scores


class Watch(StoppingCriteria):
    """Called by `generate` after each step: hands the new tokens to their rows and says which of them are done."""

    def __init__(self, rows: list[Row], last: LastScores, tell: Callable[[], None]) -> None:
        self.rows, self.last, self.tell = rows, last, tell

    def __call__(self, input_ids: torch.Tensor, scores: Any, **kwargs: Any) -> torch.Tensor:
        newest = input_ids[:, -1]
        log_probs = self.last.scores.float().log_softmax(-1).gather(1, newest[:, None]).flatten()
        for row, token, log_prob in zip(self.rows, newest.tolist(), log_probs.tolist(), strict=False):
            if not row.finish:
                row.take(token, log_prob)
        self.tell()
        return torch.tensor([bool(row.finish) for row in self.rows], device=input_ids.device)


# --- The model -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Settings:
    """The options of serving.properties; all of them arrive as text, with the warm-up call only."""

    path: str
    name: str
    device: str
    loading: dict[str, Any]
    max_new_tokens: int | None
    max_model_len: int | None
    torch_threads: int | None

    @classmethod
    def read(cls, properties: dict[str, Any]) -> Settings:
        def number(key: str) -> int | None:
            return int(properties[key]) if properties.get(key) else None

        def yes(key: str) -> bool:
            return str(properties.get(key, "")).lower() == "true"

        path = properties.get("model_id") or properties["model_dir"]
        device_id = int(properties.get("device_id") or -1)
        device = f"cuda:{device_id}" if device_id >= 0 and torch.cuda.is_available() else "cpu"
        # On a CPU fp32 is the fast one: bf16 halves the memory, but prompts take up to six times as long there.
        dtype = str(properties.get("dtype") or ("fp32" if device == "cpu" else "auto")).lower()
        if dtype not in DTYPES:
            raise ValueError(f"option.dtype: {dtype} is not known, use one of {', '.join(DTYPES)}")
        loading: dict[str, Any] = {
            "dtype": DTYPES[dtype],
            "trust_remote_code": yes("trust_remote_code"),
            "use_safetensors": None if yes("trust_insecure_model_files") else True,
        }
        loading |= {key: properties[key] for key in ("revision", "device_map") if properties.get(key)}
        return cls(
            path=path,
            name=properties.get("served_model_name") or Path(path).name,
            device=device,
            loading=loading,
            max_new_tokens=number("max_new_tokens"),
            max_model_len=number("max_model_len"),
            torch_threads=number("torch_threads"),
        )


class Service:
    """The model, loaded. Everything that computes runs in one thread, which keeps torch's own threads warm."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        if settings.torch_threads:
            torch.set_num_threads(settings.torch_threads)
        known = {
            key: settings.loading[key] for key in ("revision", "trust_remote_code") if key in settings.loading
        }
        self.tokenizer = AutoTokenizer.from_pretrained(settings.path, **known)
        self.model = AutoModelForCausalLM.from_pretrained(settings.path, **settings.loading).eval()
        if "device_map" not in settings.loading:
            self.model.to(settings.device)
        defaults = self.model.generation_config
        ends = defaults.eos_token_id if defaults.eos_token_id is not None else self.tokenizer.eos_token_id
        self.ends = set(ends if isinstance(ends, list) else [ends]) - {None}
        self.pad = next((x for x in (self.tokenizer.pad_token_id, *sorted(self.ends)) if x is not None), 0)
        # What the model's authors recommend must not decide for a client who asked for greedy decoding.
        defaults.update(do_sample=False, temperature=1.0, top_p=1.0, top_k=50, pad_token_id=self.pad)
        stated = getattr(self.model.config.get_text_config(), "max_position_embeddings", None)
        self.context = settings.max_model_len or stated or 1_000_000
        self.thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="generate")

    def warm_up(self) -> None:
        """Two real tokens, so that the first client does not pay for lazy set-up, and a broken model says so now."""
        start = time.monotonic()
        row = Row(self.tokenizer, self.tokenizer("Hello")["input_ids"], limit=2, stops=[], ends=set())
        self.thread.submit(self.generate, [row], {}, None).result()
        logging.info("warm-up: 2 tokens in %.2f s on %s", time.monotonic() - start, self.model.device)

    def prepare(self, request: Request) -> Request:
        """Fills in the rows. Raises BadRequest where the model's template or context cannot take the prompts."""
        request.rows = [self._row(request, prompt) for prompt in request.prompts]
        return request

    def _row(self, request: Request, prompt: Any) -> Row:
        key = ENVELOPE[request.shape][0]
        ids = self._chat(prompt) if request.shape == "chat" else self.tokenizer(prompt)["input_ids"]
        room = self.context - len(ids)
        if room < 1 or not ids:
            raise BadRequest(
                f"{len(ids)} tokens; this model takes from 1 to {self.context - 1} before its answer", key
            )
        asked = request.parameters.get("max_new_tokens")
        if asked and asked > room:
            numbers = f"{len(ids)} tokens of prompt + {asked} to generate > {self.context} of context"
            raise BadRequest(f"{numbers}; ask for at most {room}, or shorten the prompt", "max_tokens")
        limit = asked or min(room, self.settings.max_new_tokens or DEFAULT_TOKENS[request.shape])
        stops = request.parameters.get("stop", [])
        return Row(self.tokenizer, ids, limit=limit, stops=stops, ends=self.ends)

    def _chat(self, messages: list[dict[str, str]]) -> list[int]:
        if not self.tokenizer.chat_template:
            raise BadRequest("this model has no chat template; send prompt or inputs", "messages")
        try:
            return list(self.tokenizer.apply_chat_template(messages, add_generation_prompt=True))
        except TemplateError as error:
            raise BadRequest(f"the model's chat template refuses them: {error}", "messages") from error

    def generate(
        self,
        rows: list[Row],
        sampling: dict[str, Any],
        seed: int | None,
        tell: Callable[[], None] = lambda: None,
    ) -> None:
        """Runs the rows to their ends, together. `tell` is called after every token."""
        if seed is None:
            torch.seed()
        else:
            torch.manual_seed(seed)
        width = max(len(row.prompt) for row in rows)
        ids = [[self.pad] * (width - len(row.prompt)) + row.prompt for row in rows]
        mask = [[0] * (width - len(row.prompt)) + [1] * len(row.prompt) for row in rows]
        last = LastScores()
        self.model.generate(
            input_ids=torch.tensor(ids, device=self.model.device),
            attention_mask=torch.tensor(mask, device=self.model.device),
            max_new_tokens=max(row.limit for row in rows),
            logits_processor=LogitsProcessorList([last]),
            stopping_criteria=StoppingCriteriaList([Watch(rows, last, tell)]),
            **sampling,
        )

    def complete(self, requests: list[Request]) -> None:
        """Runs all rows of all requests, those with equal sampling in one batch."""
        groups: dict[Any, list[Row]] = {}
        for index, request in enumerate(requests):
            # A seed promises the same answer again and a penalty would count the padding: those run by themselves.
            alone = "seed" in request.parameters or "repetition_penalty" in request.parameters
            own = (index, request.parameters.get("seed")) if alone else (-1, None)
            for row_index, row in enumerate(request.rows):
                key = (request.sampling, own, row_index if alone else -1)
                groups.setdefault(key, []).append(row)
        for (sampling, (_, seed), _), rows in groups.items():
            for start in range(0, len(rows), MAX_ROWS):
                part = rows[start : start + MAX_ROWS]
                self.thread.submit(self.generate, part, dict(sampling), seed).result()

    def steps(self, request: Request) -> Iterator[tuple[int, float, str]]:
        """Token, log-probability and fresh text of a single prompt, as they come."""
        row = request.rows[0]
        ready: SimpleQueue[tuple[int, float, str] | None] = SimpleQueue()

        def tell() -> None:
            ready.put((row.tokens[-1], row.log_probs[-1], row.fresh()))

        seed = request.parameters.get("seed")
        running = self.thread.submit(self.generate, [row], dict(request.sampling), seed, tell)
        running.add_done_callback(lambda _: ready.put(None))
        try:
            while (step := ready.get()) is not None:
                yield step
            running.result()
        finally:
            row.finish = (
                row.finish or "abandoned"
            )  # nobody reads on: the thread stops after its current token


# --- What is answered ------------------------------------------------------------------------------------------


def dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def openai_finish(row: Row) -> str:
    return "length" if row.finish == "length" else "stop"


def usage(request: Request) -> dict[str, int]:
    prompt, completion = (
        sum(map(len, tokens))
        for tokens in ([r.prompt for r in request.rows], [r.tokens for r in request.rows])
    )
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def envelope(request: Request, *, chunk: bool) -> dict[str, Any]:
    chat = request.shape == "chat"
    kind = ("chat.completion" + (".chunk" if chunk else "")) if chat else "text_completion"
    name = f"{'chatcmpl' if chat else 'cmpl'}-{uuid.uuid4().hex}"
    return {"id": name, "object": kind, "created": int(time.time()), "model": request.model}


def whole(request: Request) -> str:
    """The answer in one piece."""
    if request.shape == "generate":
        answers = [generated(request, index) for index in range(len(request.rows))]
        return dump(answers if request.listed else answers[0])
    choices = []
    for index, row in enumerate(request.rows):
        said = (
            {"text": row.text}
            if request.shape == "completion"
            else {"message": {"role": "assistant", "content": row.text}}
        )
        choices.append({"index": index, **said, "finish_reason": openai_finish(row)})
    return dump({**envelope(request, chunk=False), "choices": choices, "usage": usage(request)})


def generated(request: Request, index: int) -> dict[str, Any]:
    row = request.rows[index]
    before = request.prompts[index] if request.parameters.get("return_full_text") else ""
    answer: dict[str, Any] = {"generated_text": before + row.text}
    if request.parameters.get("details"):
        answer["details"] = {
            "finish_reason": row.finish,
            "generated_tokens": len(row.tokens),
            "seed": request.parameters.get("seed"),
            "tokens": [
                {"id": token, "log_prob": log_prob} for token, log_prob in zip(row.tokens, row.log_probs)
            ],
        }
    return answer


def lines(request: Request, steps: Iterable[tuple[int, float, str]]) -> Iterator[str]:
    """The answer as JSON lines, one a step."""
    shape = token_lines if request.shape == "generate" else chunk_lines
    return (dump(line) + "\n" for line in shape(request, steps))


def token_lines(request: Request, steps: Iterable[tuple[int, float, str]]) -> Iterator[dict[str, Any]]:
    for token, log_prob, text in steps:
        done = generated(request, 0) if request.rows[0].finish else {}
        yield {"token": {"id": token, "text": text, "log_prob": log_prob}, **done}


def chunk_lines(request: Request, steps: Iterable[tuple[int, float, str]]) -> Iterator[dict[str, Any]]:
    common, chat, row = envelope(request, chunk=True), request.shape == "chat", request.rows[0]

    def chunk(delta: dict[str, str], finish: str | None = None) -> dict[str, Any]:
        said = {"delta": delta} if chat else {"text": delta.get("content", "")}
        return {**common, "choices": [{"index": 0, **said, "finish_reason": finish}]}

    for number, (_, _, text) in enumerate(steps):
        if chat and number == 0:
            yield chunk({"role": "assistant", "content": text})
        elif text:
            yield chunk({"content": text})
    yield chunk({}, openai_finish(row))
    if request.with_usage:
        yield {**common, "choices": [], "usage": usage(request)}


def failing_clearly(request: Request, answer: Iterator[str]) -> Iterator[str]:
    """The head is sent already when a stream breaks: its last line says so, and the log has the trace."""
    try:
        yield from answer
    except (RuntimeError, ValueError, IndexError, MemoryError) as error:
        logging.exception("the stream broke after %d tokens", len(request.rows[0].tokens))
        yield (
            dump({"error": {"message": f"generation failed: {error}", "type": "server_error", "param": None}})
            + "\n"
        )


# --- DJLServing calls this -------------------------------------------------------------------------------------

service: Service | None = None


def handle(inputs: Input) -> Output | None:
    """The first call has no content: it brings the options, and the model is loaded. Then each call is a request."""
    global service
    if service is None:
        service = Service(Settings.read(inputs.get_properties()))
        service.warm_up()
        return None
    items = inputs.get_batches()
    understood = [understand(item, service) for item in items]
    if not inputs.is_batch() and isinstance(understood[0], Request) and understood[0].stream:
        return stream(understood[0], service)
    service.complete([request for request in understood if isinstance(request, Request)])
    return answer(understood, batch=inputs.is_batch())


def understand(item: Input, service: Service) -> Request | BadRequest:
    try:
        return service.prepare(parse(item, service.settings))
    except BadRequest as mistake:
        return mistake


def stream(request: Request, service: Service) -> Output:
    answer = failing_clearly(request, lines(request, service.steps(request)))
    output = Output().add_property("Content-Type", "application/jsonlines")
    return output.add_stream_content(answer, output_formatter=None)


def answer(understood: list[Request | BadRequest], *, batch: bool) -> Output:
    """One body for each; they share the status, which is 400 only where every one of them is bad."""
    bad = all(isinstance(each, BadRequest) for each in understood)
    streamed = all(isinstance(each, Request) and each.stream for each in understood)
    output = Output(400, "Bad Request") if bad else Output()
    output.add_property("Content-Type", "application/jsonlines" if streamed else "application/json")
    for index, each in enumerate(understood):
        output.add(body(each), batch_index=index if batch else None)
    return output


def body(each: Request | BadRequest) -> str:
    if isinstance(each, BadRequest):
        return each.body()
    if not each.stream:
        return whole(each)
    # A stream among grouped requests cannot flow: the same lines come, but all at once.
    row = each.rows[0]
    return "".join(lines(each, [(row.tokens[-1], row.log_probs[-1], row.text)]))
