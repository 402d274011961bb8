"""Images and text in, text out, with transformers on a CPU or one GPU: a handler for DJLServing's Python engine.

    {"messages": [{"role": "user", "content": [{"type": "text", "text": "What is this?"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,..."}}]}], "max_tokens": 64}      OpenAI chat
    {"inputs": "What is this?", "images": ["data:image/png;base64,..."], "parameters": {"max_new_tokens": 64}}     LMI

`"stream": true` sends a chat while its text comes, as JSON lines or, where the request has the header `Accept:
text/event-stream`, as server-sent events that end with `data: [DONE]`. An image is a data: URL (PNG, JPEG, WebP); this
handler fetches none. Decoding is greedy unless the request sets temperature above 0 or top_p.
A mistake of the client is answered with 400 and {"error": {"message", "type", "param", "code"}}. Requests that the server
groups (batch_size) run one after the other and share one status: there a bad one gets that error as its own body.

Options read from serving.properties (`option.` before each): model_id, revision, dtype (fp32, fp16, bf16, auto),
device_map, trust_remote_code, trust_insecure_model_files (weights other than safetensors), max_new_tokens (where a
request names none), max_model_len, torch_threads, served_model_name.
"""

from __future__ import annotations

import base64
import binascii
import io
import json
import logging
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import torch
from djl_python import Input, Output
from jinja2 import TemplateError
from PIL import Image, UnidentifiedImageError
from transformers import AutoModelForImageTextToText, AutoProcessor, TextIteratorStreamer

DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16, "auto": "auto"}
ADAPTER = "X-Amzn-SageMaker-Adapter-Identifier"
FORMATS = ("PNG", "JPEG", "WEBP")
MAX_IMAGES = 16
DEFAULT_TOKENS = 256
CHAT = {"messages", "stream", "stream_options", "model", "user"}
LMI = {"inputs", "images", "parameters", "model"}
# Parameters: the client's name -> ours, and what ours may be.
NAMES = {"max_tokens": "max_new_tokens", "max_completion_tokens": "max_new_tokens", "max_new_tokens": "max_new_tokens"}
NAMES |= {name: name for name in ("temperature", "top_p", "seed")}
NUMBERS: dict[str, tuple[type, float, float]] = {
    "max_new_tokens": (int, 1, 1_000_000),
    "temperature": (float, 0, 100),
    "top_p": (float, 0, 1),
    "seed": (int, 0, 2**63 - 1),
}


class BadRequest(Exception):
    """The client's mistake; `param` names the key it is about."""

    def __init__(self, message: str, param: str | None = None) -> None:
        super().__init__(f"{param}: {message}" if param else message)
        self.param = param


@dataclass
class Request:
    """One body, understood."""

    messages: list[dict[str, Any]]
    parameters: dict[str, Any]
    chat: bool
    stream: bool
    events: bool
    with_usage: bool
    model: str
    inputs: Any = None
    prompt_tokens: int = 0
    limit: int = 0
    text: str = ""
    tokens: int = 0

    @property
    def sampling(self) -> dict[str, Any]:
        said = self.parameters
        chosen = {name: said[name] for name in ("temperature", "top_p") if said.get(name)}
        return {"do_sample": True, **chosen} if chosen and said.get("temperature") != 0 else {"do_sample": False}

    @property
    def finish(self) -> str:
        return "length" if self.tokens >= self.limit else "stop"


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


def parse(item: Input, name: str) -> Request:
    body = read_json(item)
    if "messages" not in body and "inputs" not in body:
        raise BadRequest(f"expected messages or inputs, got {sorted(body) or 'an empty object'}")
    chat = "messages" in body
    given = body if chat else read_object("parameters", body.get("parameters"))
    given = {key: value for key, value in given.items() if value is not None}
    if not chat:
        refuse_unknown(set(body), LMI)
    refuse_unknown(set(given), {*NAMES, *(CHAT if chat else ())})
    usage = read_object("stream_options", body.get("stream_options")).get("include_usage")
    stream = chat and read_flag("stream", body.get("stream"))
    return Request(
        messages=read_messages(body["messages"]) if chat else [read_inputs(body)],
        parameters={ours: read_number(key, ours, given[key]) for key, ours in NAMES.items() if key in given},
        chat=chat,
        stream=stream,
        events=stream and "text/event-stream" in (item.get_property("Accept") or "").lower(),
        with_usage=read_flag("stream_options.include_usage", usage),
        model=str(body.get("model") or name),
    )


def refuse_unknown(given: set[str], known: set[str]) -> None:
    for name in sorted(given - known):
        near = get_close_matches(name, known, n=1)
        advice = f"did you mean {near[0]}?" if near else f"known here: {', '.join(sorted(known))}"
        raise BadRequest(f"not supported, {advice}", name)


def read_object(name: str, value: Any) -> dict[str, Any]:
    if value is not None and not isinstance(value, dict):
        raise BadRequest(f"expected an object, got {value!r:.80}", name)
    return value or {}


def read_flag(name: str, value: Any) -> bool:
    if value is not None and not isinstance(value, bool):
        raise BadRequest(f"expected true or false, got {value!r:.80}", name)
    return bool(value)


def read_number(name: str, ours: str, value: Any) -> Any:
    kind, low, high = NUMBERS[ours]
    right = (int,) if kind is int else (int, float)
    if isinstance(value, bool) or not isinstance(value, right) or not low <= value <= high:
        expected = "a whole number" if kind is int else "a number"
        raise BadRequest(f"expected {expected} from {low} to {high}, got {value!r:.80}", name)
    return kind(value)


def read_messages(messages: Any) -> list[dict[str, Any]]:
    if not isinstance(messages, list) or not messages:
        raise BadRequest(f"expected a list of messages, got {messages!r:.80}", "messages")
    found = [read_message(f"messages[{index}]", message) for index, message in enumerate(messages)]
    count = sum(part["type"] == "image" for message in found for part in message["content"])
    if count > MAX_IMAGES:
        raise BadRequest(f"{count} images; at most {MAX_IMAGES}", "messages")
    return found


def read_message(name: str, message: Any) -> dict[str, Any]:
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        raise BadRequest(f"expected an object with role and content, got {message!r:.80}", name)
    content = message.get("content")
    parts = content if isinstance(content, list) and content else [{"type": "text", "text": content}]
    return {"role": message["role"], "content": [read_part(f"{name}.content", part) for part in parts]}


def read_part(name: str, part: Any) -> dict[str, Any]:
    kind = part.get("type") if isinstance(part, dict) else None
    if kind == "text" and isinstance(part.get("text"), str):
        return {"type": "text", "text": part["text"]}
    if kind == "image_url" and isinstance(part.get("image_url"), dict):
        return {"type": "image", "image": read_image(f"{name}.image_url.url", part["image_url"].get("url"))}
    raise BadRequest(f"expected parts of type text or image_url, got {part!r:.80}", name)


def read_inputs(body: dict[str, Any]) -> dict[str, Any]:
    text, images = body["inputs"], body.get("images") or []
    if not isinstance(text, str) or not text:
        raise BadRequest(f"expected a text, got {text!r:.80}", "inputs")
    if not isinstance(images, list) or len(images) > MAX_IMAGES:
        raise BadRequest(f"expected a list of at most {MAX_IMAGES} data: URLs", "images")
    found = [{"type": "image", "image": read_image(f"images[{at}]", image)} for at, image in enumerate(images)]
    return {"role": "user", "content": [*found, {"type": "text", "text": text}]}


def read_image(name: str, url: Any) -> Image.Image:
    if not isinstance(url, str) or not url.startswith("data:") or ";base64," not in url:
        raise BadRequest(f"expected a data: URL in base64 (this handler fetches nothing), got {url!r:.60}", name)
    try:
        data = base64.b64decode(url.partition(";base64,")[2], validate=True)
        return Image.open(io.BytesIO(data), formats=FORMATS).convert("RGB")
    except (binascii.Error, UnidentifiedImageError, Image.DecompressionBombError, OSError, ValueError) as error:
        raise BadRequest(f"no image in {', '.join(FORMATS)}: {error}", name) from error


def load(options: dict[str, Any]) -> tuple[Any, Any]:
    """Processor and model, as the options say; all of them are texts."""
    path = options.get("model_id") or options["model_dir"]
    number = int(options.get("device_id") or -1)
    device = f"cuda:{number}" if number >= 0 and torch.cuda.is_available() else "cpu"
    dtype = (options.get("dtype") or ("fp32" if device == "cpu" else "auto")).lower()
    if dtype not in DTYPES:
        raise ValueError(f"option.dtype: {dtype} is not known, use one of {', '.join(DTYPES)}")
    trusted = {"trust_remote_code": yes(options, "trust_remote_code"), "revision": options.get("revision")}
    spread = {"device_map": options["device_map"]} if options.get("device_map") else {}
    pickles = None if yes(options, "trust_insecure_model_files") else True
    processor = AutoProcessor.from_pretrained(path, **trusted)
    if not getattr(processor, "chat_template", None):
        raise ValueError(f"{path}: the processor has no chat template, which says where images go")
    model = AutoModelForImageTextToText.from_pretrained(
        path, dtype=DTYPES[dtype], use_safetensors=pickles, **spread, **trusted
    )
    return processor, model.eval() if spread else model.eval().to(device)


def yes(options: dict[str, Any], name: str) -> bool:
    return str(options.get(name)).lower() == "true"


def dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


@dataclass
class Service:
    """The model and what is known of it. One request at a time: images of different sizes make no batch."""

    options: dict[str, Any]
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        options = self.options
        if options.get("torch_threads"):
            torch.set_num_threads(int(options["torch_threads"]))
        self.processor, self.model = load(options)
        self.name = options.get("served_model_name") or Path(self.model.name_or_path).name
        positions = getattr(self.model.config.get_text_config(), "max_position_embeddings", None)
        self.context = int(options.get("max_model_len") or positions or 1_000_000)
        self.default = int(options.get("max_new_tokens") or DEFAULT_TOKENS)
        # What the model's authors recommend must not decide for a client that asked for greedy decoding.
        self.model.generation_config.update(do_sample=False, temperature=1.0, top_p=1.0, top_k=50)

    def warm_up(self) -> None:
        """Two real tokens: the first client does not pay for lazy set-up, and a broken model says so now."""
        start = time.monotonic()
        image = {"type": "image", "image": Image.new("RGB", (64, 64))}
        messages = [{"role": "user", "content": [image, {"type": "text", "text": "Hello"}]}]
        request = Request(messages, {"max_new_tokens": 2}, True, False, False, False, self.name)
        self.encode(request)
        self.complete(request)
        logging.info("warm-up: an image and 2 tokens in %.2f s on %s", time.monotonic() - start, self.model.device)

    def prepare(self, item: Input) -> Request:
        request = parse(item, self.name)
        self.encode(request)
        return request

    def encode(self, request: Request) -> None:
        key = "messages" if request.chat else "inputs"
        try:
            encoded = self.processor.apply_chat_template(
                request.messages, add_generation_prompt=True, tokenize=True, return_dict=True, return_tensors="pt"
            )
        except (TemplateError, ValueError, IndexError) as error:
            raise BadRequest(f"the model's processor refuses them: {error}", key) from error
        request.inputs = encoded.to(self.model.device, dtype=self.model.dtype)
        request.prompt_tokens = request.inputs["input_ids"].shape[1]
        room, asked = self.context - request.prompt_tokens, request.parameters.get("max_new_tokens", 0)
        if room < 1:
            raise BadRequest(f"{request.prompt_tokens} tokens with the images; this model takes {self.context - 1}", key)
        if asked > room:
            name = "max_tokens" if request.chat else "max_new_tokens"
            raise BadRequest(f"{request.prompt_tokens} tokens of prompt + {asked} > {self.context} of context", name)
        request.limit = asked or min(room, self.default)

    def complete(self, request: Request, streamer: Any = None) -> None:
        with self.lock, torch.inference_mode():
            if "seed" in request.parameters:
                torch.manual_seed(request.parameters["seed"])
            ids = self.model.generate(
                **request.inputs, max_new_tokens=request.limit, streamer=streamer, **request.sampling
            )
        new = ids[0, request.prompt_tokens :]
        request.tokens = len(new)
        request.text = self.processor.decode(new, skip_special_tokens=True)

    def pieces(self, request: Request) -> Iterator[str]:
        """The text as it comes."""
        streamer = TextIteratorStreamer(self.processor.tokenizer, skip_prompt=True, skip_special_tokens=True)
        broken: list[BaseException] = []

        def run() -> None:
            try:
                self.complete(request, streamer)
            except Exception as error:
                broken.append(error)
                streamer.end()

        thread = threading.Thread(target=run, name="generate", daemon=True)
        thread.start()
        yield from (piece for piece in streamer if piece)
        thread.join()
        if broken:
            raise RuntimeError(str(broken[0])) from broken[0]


def openai(request: Request, choices: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    name = f"chatcmpl-{uuid.uuid4().hex}"
    return {"id": name, "object": kind, "created": int(time.time()), "model": request.model, "choices": choices}


def usage(request: Request) -> dict[str, int]:
    total = request.prompt_tokens + request.tokens
    return {"prompt_tokens": request.prompt_tokens, "completion_tokens": request.tokens, "total_tokens": total}


def choice(said: dict[str, Any], finish: str | None) -> dict[str, Any]:
    return {"index": 0, **said, "logprobs": None, "finish_reason": finish}


def whole(request: Request) -> Any:
    if not request.chat:
        return {"generated_text": request.text}
    message = {"message": {"role": "assistant", "content": request.text}}
    return {**openai(request, [choice(message, request.finish)], "chat.completion"), "usage": usage(request)}


def chunks(request: Request, service: Service) -> Iterator[dict[str, Any]]:
    common = openai(request, [], "chat.completion.chunk")
    if request.with_usage:
        common["usage"] = None
    role = {"role": "assistant"}
    for piece in service.pieces(request):
        yield {**common, "choices": [choice({"delta": {**role, "content": piece}}, None)]}
        role = {}
    yield {**common, "choices": [choice({"delta": {}}, request.finish)]}
    if request.with_usage:
        yield {**common, "usage": usage(request)}


def streamed(request: Request, service: Service) -> Iterator[str]:
    """The answer as it comes. When it breaks the head is long sent: an error ends it, and the log has the trace."""
    try:
        for value in chunks(request, service):
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
    if requests and requests[0].stream and not inputs.is_batch():
        kind = "text/event-stream" if requests[0].events else "application/jsonlines"
        output.add_property("Content-Type", kind)
        return output.add_stream_content(streamed(requests[0], service), output_formatter=None)
    output.add_property("Content-Type", "application/json")
    for index, each in enumerate(understood):
        output.add(body(each, service), batch_index=index if inputs.is_batch() else None)
    return output


def understand(item: Input, service: Service) -> Request | BadRequest:
    try:
        return service.prepare(item)
    except BadRequest as mistake:
        return mistake


def body(each: Request | BadRequest, service: Service) -> str:
    if isinstance(each, BadRequest):
        return dump(error_object(str(each), "invalid_request_error", each.param))
    service.complete(each)
    return dump(whole(each))
