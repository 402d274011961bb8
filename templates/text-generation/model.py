"""Text generation with transformers, on a CPU or one GPU: a handler for DJLServing's Python engine.

Three kinds of body are understood; `"stream": true` sends each of them while tokens come, as JSON lines or, where the
request has the header `Accept: text/event-stream`, as server-sent events that end with `data: [DONE]`:

    {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 64}      OpenAI chat
    {"prompt": "Once upon", "max_tokens": 64, "stop": ["."]}                 OpenAI completion
    {"inputs": "Once upon", "parameters": {"max_new_tokens": 64}}            LMI (`inputs` may be a list)

Decoding is greedy until a request asks for sampling: temperature above 0, top_p, top_k, min_p or do_sample.
A mistake of the client is answered with 400 and {"error": {"message", "type", "param", "code"}}. Requests that the server
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
from typing import Any, NamedTuple

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

DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16, "auto": "auto"}
ADAPTER = "X-Amzn-SageMaker-Adapter-Identifier"
MAX_ROWS = 32  # prompts that go through the model together; longer lists take several rounds

# What each kind of body may hold beside its parameters; its first key is how it is known.
ENVELOPES = {
    "chat": ("messages", "stream", "stream_options", "model", "user"),
    "completion": ("prompt", "stream", "stream_options", "model", "user"),
    "generate": ("inputs", "stream", "parameters", "model"),
}
DEFAULT_TOKENS = {"chat": 256, "completion": 256, "generate": 30}
# Parameters: the client's name -> ours, and what ours may be.
SHARED = {
    name: name for name in ("temperature", "top_p", "top_k", "min_p", "repetition_penalty", "seed", "stop")
}
OPENAI = SHARED | {"max_tokens": "max_new_tokens", "max_completion_tokens": "max_new_tokens"}
LMI = SHARED | {name: name for name in ("max_new_tokens", "do_sample", "return_full_text", "details")}
LMI |= {"stop_sequences": "stop"}
FLAGS = {"do_sample", "return_full_text", "details"}
NUMBERS: dict[str, tuple[type, float, float]] = {
    "max_new_tokens": (int, 1, 1_000_000),
    "temperature": (float, 0, 100),
    "top_p": (float, 0, 1),
    "min_p": (float, 0, 1),
    "top_k": (int, -1, 1_000_000),
    "repetition_penalty": (float, 0.01, 100),
    "seed": (int, 0, 2**63 - 1),
}
# What clients send by habit: taken where it changes nothing, refused where it would.
NEUTRAL: dict[str, Any] = {
    **dict.fromkeys(("n", "best_of", "num_beams"), 1),
    **dict.fromkeys(("frequency_penalty", "presence_penalty"), 0),
    **dict.fromkeys(("logprobs", "echo", "watermark", "decoder_input_details"), False),
    **dict.fromkeys(("store", "parallel_tool_calls"), False),
    "logit_bias": {},
    "response_format": {"type": "text"},
}


class Step(NamedTuple):
    """A new token, with the text that may be shown since the one before; `last` where the answer ends with it."""

    token: int
    log_prob: float
    text: str
    last: bool


class BadRequest(Exception):
    """The client's mistake; `param` names the key it is about. `events`: the client reads only events."""

    events = False

    def __init__(self, message: str, param: str | None = None) -> None:
        super().__init__(f"{param}: {message}" if param else message)
        self.param = param


@dataclass
class Request:
    """One body, understood. `kind` is a key of ENVELOPES; several prompts only where `listed`."""

    kind: str
    prompts: list[Any]
    listed: bool
    parameters: dict[str, Any]
    stream: bool
    events: bool
    with_usage: bool
    model: str
    rows: list[Row] = field(default_factory=list)

    def sampling(self) -> dict[str, Any]:
        """The keywords for transformers' generate; requests with equal ones can share a batch."""
        said = self.parameters
        limits = {name: said[name] for name in ("top_p", "top_k", "min_p") if name in said}
        chosen: dict[str, Any] = {}
        if said.get("do_sample", bool(limits) or "temperature" in said) and said.get("temperature") != 0:
            limits = {name: value for name, value in limits.items() if value > 0}
            chosen = {"do_sample": True, "temperature": said.get("temperature", 1.0), "top_k": 0, **limits}
        if "repetition_penalty" in said:
            chosen["repetition_penalty"] = said["repetition_penalty"]
        return chosen


# --- From a body to a request ----------------------------------------------------------------------------------


def parse(item: Input, name: str) -> Request:
    """Raises BadRequest for what a client can get wrong without knowing the model. Every key is looked at."""
    body = read_json(item)
    kind = next((kind for kind, (key, *_) in ENVELOPES.items() if key in body), None)
    if kind is None:
        raise BadRequest(
            f"expected one of messages, prompt or inputs, got {sorted(body) or 'an empty object'}"
        )
    key = ENVELOPES[kind][0]
    listed = kind != "chat" and isinstance(body[key], list)
    stream = read_flag("stream", body.get("stream"))
    if stream and listed:
        raise BadRequest("a list of prompts cannot be streamed; send one prompt, or stream: false", "stream")
    usage = read_object("stream_options", body.get("stream_options")).get("include_usage")
    return Request(
        kind=kind,
        prompts=[read_messages(body[key])] if kind == "chat" else read_texts(key, body[key]),
        listed=listed,
        parameters=read_parameters(kind, body),
        stream=stream,
        events=stream and takes_events(item),
        with_usage=read_flag("stream_options.include_usage", usage),
        model=str(body.get("model") or name),
    )


def takes_events(item: Input) -> bool:
    """Whether the header Accept names server-sent events; OpenAI's own client library does not."""
    return "text/event-stream" in (item.get_property("Accept") or "").lower()


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


def read_messages(messages: Any) -> list[dict[str, str]]:
    if not isinstance(messages, list) or not messages:
        raise BadRequest(f"expected a list of messages, got {messages!r:.80}", "messages")
    return [read_message(f"messages[{index}]", message) for index, message in enumerate(messages)]


def read_message(name: str, message: Any) -> dict[str, str]:
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        raise BadRequest(f"expected an object with role and content, got {message!r:.80}", name)
    content = message.get("content")
    parts = content if isinstance(content, list) and content else [{"text": content}]
    texts = [part.get("text") if isinstance(part, dict) else None for part in parts]
    if not all(isinstance(text, str) for text in texts):
        raise BadRequest("expected a text, or parts of type text", f"{name}.content")
    return {"role": message["role"], "content": "".join(texts)}


def read_texts(name: str, value: Any) -> list[str]:
    texts = value if isinstance(value, list) else [value]
    if not texts or not all(isinstance(text, str) and text for text in texts):
        raise BadRequest(f"expected a text or a list of texts, none of them empty, got {value!r:.80}", name)
    return texts


def read_parameters(kind: str, body: dict[str, Any]) -> dict[str, Any]:
    """Parameters by our own names; a null says nothing, whatever its key."""
    known, given, beside = OPENAI, body, set(ENVELOPES[kind])
    if kind == "generate":
        refuse_unknown(set(body), beside)
        known, given, beside = LMI, read_object("parameters", body.get("parameters")), set()
    given = {name: value for name, value in given.items() if value is not None}
    refuse_unknown(set(given) - set(NEUTRAL), beside | set(known))
    for name in NEUTRAL:
        if given.get(name, NEUTRAL[name]) != NEUTRAL[name]:
            raise BadRequest(
                f"only {json.dumps(NEUTRAL[name])} is supported here, got {given[name]!r:.80}", name
            )
    return {ours: read_value(name, ours, given[name]) for name, ours in known.items() if name in given}


def refuse_unknown(given: set[str], known: set[str]) -> None:
    for name in sorted(given - known):
        near = get_close_matches(name, known, n=1)
        advice = f"did you mean {near[0]}?" if near else f"known here: {', '.join(sorted(known))}"
        raise BadRequest(f"not supported, {advice}", name)


def read_value(name: str, ours: str, value: Any) -> Any:
    if ours == "stop":
        return read_texts(name, value)
    if ours in FLAGS:
        return read_flag(name, value)
    kind, low, high = NUMBERS[ours]
    right = (int,) if kind is int else (int, float)
    if isinstance(value, bool) or not isinstance(value, right) or not low <= value <= high:
        expected = "a whole number" if kind is int else "a number"
        raise BadRequest(f"expected {expected} from {low} to {high}, got {value!r:.80}", name)
    return kind(value)


def read_flag(name: str, value: Any) -> bool:
    if value is not None and not isinstance(value, bool):
        raise BadRequest(f"expected true or false, got {value!r:.80}", name)
    return bool(value)


def read_object(name: str, value: Any) -> dict[str, Any]:
    if value is not None and not isinstance(value, dict):
        raise BadRequest(f"expected an object, got {value!r:.80}", name)
    return value or {}


# --- One prompt on its way -------------------------------------------------------------------------------------


class Row:
    """One prompt: its tokens so far, the text they make, and why it ended (`finish`, empty until then)."""

    def __init__(
        self,
        tokenizer: Any,
        prompt: list[int],
        *,
        limit: int,
        stops: Iterable[str] = (),
        ends: Iterable[int] = (),
    ) -> None:
        self.prompt, self.limit, self.stops, self.ends = prompt, limit, tuple(stops), frozenset(ends)
        self.tokens: list[int] = []
        self.log_probs: list[float] = []
        self.text = self.finish = ""
        self._decode: Callable[[list[int]], str] = lambda ids: tokenizer.decode(ids, skip_special_tokens=True)
        self._start = self._read = self._shown = 0

    def take(self, token: int, log_prob: float) -> None:
        self.tokens.append(token)
        self.log_probs.append(log_prob)
        ending = "eos_token" if token in self.ends else "length" if len(self.tokens) >= self.limit else ""
        self._grow(final=bool(ending))
        self.finish = self.finish or ending

    def last_step(self) -> Step:
        """The newest token with the text that was not handed out yet; the start of a stop sequence waits."""
        shown, self._shown = self._shown, max(self._shown, len(self.text) - self._held_back())
        return Step(self.tokens[-1], self.log_probs[-1], self.text[shown : self._shown], bool(self.finish))

    def _held_back(self) -> int:
        begun = (n for stop in self.stops for n in range(1, len(stop)) if self.text.endswith(stop[:n]))
        return 0 if self.finish else max(begun, default=0)

    def _grow(self, *, final: bool) -> None:
        # Tokens are decoded with a few before them, since spaces depend on their neighbours; and a character may
        # take several tokens: until it is whole it reads as a replacement character.
        before = self._decode(self.tokens[self._start : self._read])
        after = self._decode(self.tokens[self._start :])
        if len(after) <= len(before) or (after.endswith("\N{REPLACEMENT CHARACTER}") and not final):
            return
        self._start, self._read = self._read, len(self.tokens)
        searched = max(0, len(self.text) - max(map(len, self.stops), default=0))
        self.text += after[len(before) :]
        found = [at for at in (self.text.find(stop, searched) for stop in self.stops) if at >= 0]
        if found:
            self.text, self.finish = self.text[: min(found)], "stop_sequence"


class LastScores(LogitsProcessor):
    """Keeps what the model said of the next token, before temperature and the like."""

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        self.scores = scores
        return scores


class Watch(StoppingCriteria):
    """Called by generate after each step: hands the new tokens to their rows and says which of them are done."""

    def __init__(self, rows: list[Row], last: LastScores, tell: Callable[[], None]) -> None:
        self.rows, self.last, self.tell = rows, last, tell

    def __call__(self, input_ids: torch.Tensor, scores: Any, **kwargs: Any) -> torch.Tensor:
        newest = input_ids[:, -1]
        log_probs = self.last.scores.float().log_softmax(-1).gather(1, newest[:, None]).flatten()
        for row, token, log_prob in zip(self.rows, newest.tolist(), log_probs.tolist()):
            if not row.finish:
                row.take(token, log_prob)
        self.tell()
        return torch.tensor([bool(row.finish) for row in self.rows], device=input_ids.device)


# --- The model -------------------------------------------------------------------------------------------------


def load(options: dict[str, Any]) -> tuple[Any, Any]:
    """Tokenizer and model, as the options say; all of them are texts."""
    path = options.get("model_id") or options["model_dir"]
    number = int(options.get("device_id") or -1)
    device = f"cuda:{number}" if number >= 0 and torch.cuda.is_available() else "cpu"
    # On a CPU fp32 is the fast one: bf16 takes half the memory, but prompts may take six times as long.
    dtype = (options.get("dtype") or ("fp32" if device == "cpu" else "auto")).lower()
    if dtype not in DTYPES:
        raise ValueError(f"option.dtype: {dtype} is not known, use one of {', '.join(DTYPES)}")
    common = {
        "trust_remote_code": options.get("trust_remote_code") == "true",
        "revision": options.get("revision"),
    }
    spread = {"device_map": options["device_map"]} if options.get("device_map") else {}
    pickles = yes(options, "trust_insecure_model_files")
    model = AutoModelForCausalLM.from_pretrained(
        path, dtype=DTYPES[dtype], use_safetensors=None if pickles else True, **spread, **common
    )
    return AutoTokenizer.from_pretrained(path, **common), model.eval() if spread else model.eval().to(device)


def yes(options: dict[str, Any], name: str) -> bool:
    return str(options.get(name)).lower() == "true"


class Service:
    """The model and what is known of it. All that computes runs in one thread, which keeps torch's own ones warm."""

    def __init__(self, options: dict[str, Any]) -> None:
        if options.get("torch_threads"):
            torch.set_num_threads(int(options["torch_threads"]))
        self.max_new_tokens = int(options.get("max_new_tokens") or 0)
        self.tokenizer, self.model = load(options)
        self.name = options.get("served_model_name") or Path(self.model.name_or_path).name
        positions = getattr(self.model.config.get_text_config(), "max_position_embeddings", None)
        self.context = int(options.get("max_model_len") or positions or 1_000_000)
        defaults = self.model.generation_config
        ends = self.tokenizer.eos_token_id if defaults.eos_token_id is None else defaults.eos_token_id
        self.ends = {end for end in (ends if isinstance(ends, list) else [ends]) if end is not None}
        pad = self.tokenizer.pad_token_id
        self.pad = min(self.ends, default=0) if pad is None else pad
        # What the model's authors recommend must not decide for a client that asked for greedy decoding.
        defaults.update(do_sample=False, temperature=1.0, top_p=1.0, top_k=50, pad_token_id=self.pad)
        self.thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="generate")

    def warm_up(self) -> None:
        """Two real tokens: the first client does not pay for lazy set-up, and a broken model says so now."""
        start = time.monotonic()
        self.run([Row(self.tokenizer, self.tokenizer("Hello")["input_ids"], limit=2)], {}, None).result()
        logging.info("warm-up: 2 tokens in %.2f s on %s", time.monotonic() - start, self.model.device)

    def prepare(self, item: Input) -> Request:
        """Raises BadRequest, also for what the model's chat template or context cannot take."""
        request = parse(item, self.name)
        encode = (
            self.encode_chat if request.kind == "chat" else lambda text: self.tokenizer(text)["input_ids"]
        )
        request.rows = [self.row(request, encode(prompt)) for prompt in request.prompts]
        return request

    def encode_chat(self, messages: list[dict[str, str]]) -> list[int]:
        if not self.tokenizer.chat_template:
            raise BadRequest("this model has no chat template; send prompt or inputs", "messages")
        try:
            return list(self.tokenizer.apply_chat_template(messages, add_generation_prompt=True))
        except TemplateError as error:
            raise BadRequest(f"the model's chat template refuses them: {error}", "messages") from error

    def row(self, request: Request, ids: list[int]) -> Row:
        room, asked = self.context - len(ids), request.parameters.get("max_new_tokens", 0)
        if room < 1 or not ids:
            takes = f"this model takes from 1 to {self.context - 1} before its answer"
            raise BadRequest(f"{len(ids)} tokens; {takes}", ENVELOPES[request.kind][0])
        if asked > room:
            total = f"{len(ids)} tokens of prompt + {asked} to generate > {self.context} of context"
            name = "max_new_tokens" if request.kind == "generate" else "max_tokens"
            raise BadRequest(f"{total}; ask for at most {room}, or shorten the prompt", name)
        limit = asked or min(room, self.max_new_tokens or DEFAULT_TOKENS[request.kind])
        return Row(self.tokenizer, ids, limit=limit, stops=request.parameters.get("stop", ()), ends=self.ends)

    def run(
        self, rows: list[Row], sampling: dict[str, Any], seed: int | None, tell: Any = lambda: None
    ) -> Any:
        """The future of the rows, taken to their ends together; `tell` is called after every token."""
        return self.thread.submit(self._generate, rows, sampling, seed, tell)

    def _generate(self, rows: list[Row], sampling: dict[str, Any], seed: int | None, tell: Any) -> None:
        torch.seed() if seed is None else torch.manual_seed(seed)
        width = max(len(row.prompt) for row in rows)
        blanks = [width - len(row.prompt) for row in rows]
        ids = [[self.pad] * blank + row.prompt for blank, row in zip(blanks, rows)]
        mask = [[0] * blank + [1] * (width - blank) for blank in blanks]
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
        """Runs all rows of all requests, those with equal sampling together."""
        groups: dict[Any, tuple[Request, list[Row]]] = {}
        for row, request in [(row, each) for each in requests for row in each.rows]:
            # A seed promises the same answer again, and a penalty would count the padding: these run alone.
            alone = not request.parameters.keys().isdisjoint({"seed", "repetition_penalty"})
            key = id(row) if alone else tuple(sorted(request.sampling().items()))
            groups.setdefault(key, (request, []))[1].append(row)
        for request, rows in groups.values():
            for start in range(0, len(rows), MAX_ROWS):
                part = rows[start : start + MAX_ROWS]
                self.run(part, request.sampling(), request.parameters.get("seed")).result()

    def steps(self, request: Request) -> Iterator[Step]:
        """What becomes of a single prompt, token by token, as it comes."""
        (row,) = request.rows
        ready: SimpleQueue[Step | None] = SimpleQueue()
        seed = request.parameters.get("seed")
        running = self.run([row], request.sampling(), seed, lambda: ready.put(row.last_step()))
        running.add_done_callback(lambda _: ready.put(None))
        try:
            while (step := ready.get()) is not None:
                yield step
            running.result()
        finally:
            row.finish = row.finish or "abandoned"  # nobody reads on: the thread stops after this token


# --- From a request to its answer ------------------------------------------------------------------------------


def dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def openai(request: Request, choices: list[dict[str, Any]], *, chunk: bool = False) -> dict[str, Any]:
    chat = request.kind == "chat"
    kind = "text_completion" if not chat else "chat.completion.chunk" if chunk else "chat.completion"
    name = f"{'chatcmpl' if chat else 'cmpl'}-{uuid.uuid4().hex}"
    return {
        "id": name,
        "object": kind,
        "created": int(time.time()),
        "model": request.model,
        "choices": choices,
    }


def choice(index: int, said: dict[str, Any], row: Row | None = None) -> dict[str, Any]:
    finish = None if row is None else "length" if row.finish == "length" else "stop"
    return {"index": index, **said, "logprobs": None, "finish_reason": finish}


def usage(request: Request) -> dict[str, int]:
    prompt = sum(len(row.prompt) for row in request.rows)
    completion = sum(len(row.tokens) for row in request.rows)
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def generated(request: Request, index: int) -> dict[str, Any]:
    row, said = request.rows[index], request.parameters
    answer: dict[str, Any] = {
        "generated_text": (request.prompts[index] if said.get("return_full_text") else "") + row.text
    }
    if said.get("details"):
        tokens = [{"id": token, "log_prob": log_prob} for token, log_prob in zip(row.tokens, row.log_probs)]
        ending = {"finish_reason": row.finish, "generated_tokens": len(tokens), "seed": said.get("seed")}
        answer["details"] = {**ending, "tokens": tokens}
    return answer


def whole(request: Request) -> Any:
    """The answer in one piece."""
    if request.kind == "generate":
        answers = [generated(request, index) for index in range(len(request.rows))]
        return answers if request.listed else answers[0]
    chat = request.kind == "chat"
    says = [
        {"message": {"role": "assistant", "content": row.text}} if chat else {"text": row.text}
        for row in request.rows
    ]
    choices = [choice(index, said, request.rows[index]) for index, said in enumerate(says)]
    return {**openai(request, choices), "usage": usage(request)}


def token_lines(request: Request, steps: Iterable[Step]) -> Iterator[dict[str, Any]]:
    for step in steps:
        end = generated(request, 0) if step.last else {}
        yield {"token": {"id": step.token, "text": step.text, "log_prob": step.log_prob}, **end}


def chunk_lines(request: Request, steps: Iterable[Step]) -> Iterator[dict[str, Any]]:
    common, chat = openai(request, [], chunk=True), request.kind == "chat"
    if request.with_usage:
        common["usage"] = None
    role = {"role": "assistant"} if chat else {}
    for step in steps:
        if step.text or role:
            said = {"delta": {**role, "content": step.text}} if chat else {"text": step.text}
            yield {**common, "choices": [choice(0, said)]}
            role = {}
    yield {**common, "choices": [choice(0, {"delta": {}} if chat else {"text": ""}, request.rows[0])]}
    if request.with_usage:
        yield {**common, "usage": usage(request)}


def streamed(request: Request, steps: Iterable[Step]) -> Iterator[str]:
    """The answer as it comes. When it breaks the head is long sent: an error ends it, and the log has the trace."""
    try:
        for value in (token_lines if request.kind == "generate" else chunk_lines)(request, steps):
            yield line(value, events=request.events)
    except (RuntimeError, ValueError, IndexError, MemoryError) as error:
        logging.exception("the stream broke")
        yield line(error_object(f"generation failed: {error}", "server_error"), events=request.events)
    if request.events:
        yield "data: [DONE]\n\n"


def line(value: Any, *, events: bool) -> str:
    """JSON as a line, or as a server-sent event."""
    return f"data: {dump(value)}\n\n" if events else dump(value) + "\n"


def error_object(message: str, kind: str, param: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": param, "code": None}}


# --- What DJLServing calls -------------------------------------------------------------------------------------

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
        return output.add_stream_content(
            streamed(requests[0], service.steps(requests[0])), output_formatter=None
        )
    service.complete(requests)
    for index, each in enumerate(understood):
        text = body(each, refused=not requests)
        output.add(text, batch_index=index if inputs.is_batch() else None)
    return output


def understand(item: Input, service: Service) -> Request | BadRequest:
    try:
        return service.prepare(item)
    except BadRequest as mistake:
        mistake.events = takes_events(item)
        return mistake


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


def body(each: Request | BadRequest, *, refused: bool) -> str:
    """`refused`: the status says that it is an error."""
    if isinstance(each, BadRequest):
        error = error_object(str(each), "invalid_request_error", each.param)
        return line(error, events=True) if each.events and not refused else dump(error)
    # A stream cannot flow out of a group: the same lines come, but all at once.
    return "".join(streamed(each, [each.rows[0].last_step()])) if each.stream else dump(whole(each))
