"""Text classification with transformers, on a CPU or one GPU: a handler for DJLServing's Python engine.

    {"inputs": "I like it", "parameters": {"top_k": 2}}     -> [{"label": "POSITIVE", "score": 0.99}, {...}]
    {"inputs": ["I like it", "Not at all"]}                 -> a list of such lists, in their order

A text may also be a pair, {"text": ..., "text_pair": ...}. Labels come best first, one of them unless `top_k` says
more (0: all). `function_to_apply` is softmax, sigmoid or none; else as the model was trained: sigmoid for a single
label or several at once, none for a regression, softmax for the rest.
A mistake of the client is answered with 400 and {"error": {"message", "type", "param", "code"}}. Requests that the
server groups (batch_size) go through the model together and share one status: there a bad one gets that error as its
own body, beside its neighbours' 200.

Options read from serving.properties (`option.` before each): model_id, revision, dtype (fp32, fp16, bf16, auto),
trust_remote_code, trust_insecure_model_files (weights other than safetensors), max_model_len, torch_threads.
"""

from __future__ import annotations

import json
import logging
import time
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

import torch
from djl_python import Input, Output
from transformers import AutoModelForSequenceClassification, AutoTokenizer

DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16, "auto": "auto"}
FUNCTIONS = ("softmax", "sigmoid", "none")
ADAPTER = "X-Amzn-SageMaker-Adapter-Identifier"
MAX_ROWS = 32  # texts that go through the model together; more take several rounds
PARAMETERS = {"top_k", "function_to_apply", "truncate"}


class BadRequest(Exception):
    """The client's mistake; `param` names the key it is about."""

    def __init__(self, message: str, param: str | None = None) -> None:
        super().__init__(f"{param}: {message}" if param else message)
        self.param = param


@dataclass
class Request:
    """One body, understood."""

    listed: bool
    rows: list[dict[str, list[int]]]
    top_k: int
    function: str
    answers: list[list[dict[str, Any]]] = field(default_factory=list)


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


def read_pairs(value: Any) -> list[tuple[str, str | None]]:
    texts = value if isinstance(value, list) else [value]
    pairs = [(each.get("text"), each.get("text_pair")) if isinstance(each, dict) else (each, None) for each in texts]
    right = all(isinstance(text, str) and text and isinstance(pair, str | None) for text, pair in pairs)
    if not pairs or not right:
        what = "expected a text, an object with text and text_pair, or a list of these, none of them empty"
        raise BadRequest(f"{what}, got {value!r:.80}", "inputs")
    return pairs


def read_count(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise BadRequest(f"expected a whole number from 0, got {value!r:.80}", name)
    return value


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
    model = AutoModelForSequenceClassification.from_pretrained(
        path, dtype=DTYPES[dtype], use_safetensors=pickles, **trusted
    )
    return AutoTokenizer.from_pretrained(path, **trusted), model.eval().to(device)


def yes(options: dict[str, Any], name: str) -> bool:
    return str(options.get(name)).lower() == "true"


def dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


class Service:
    """The model and what is known of it."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.tokenizer, self.model = load(options)
        config = self.model.config
        if self.tokenizer.pad_token_id is None:
            self.tokenizer.pad_token = self.tokenizer.eos_token
        if config.pad_token_id is None:
            config.pad_token_id = self.tokenizer.pad_token_id
        self.labels = [str(config.id2label.get(at, at)) for at in range(config.num_labels)]
        several = config.problem_type == "multi_label_classification" or config.num_labels == 1
        self.function = "none" if config.problem_type == "regression" else "sigmoid" if several else "softmax"
        # RoBERTa has two positions more than tokens; the tokenizer of a trained model knows the number of tokens.
        positions = getattr(config, "max_position_embeddings", None) or 1_000_000
        self.longest = int(options.get("max_model_len") or min(positions, self.tokenizer.model_max_length))

    def warm_up(self) -> None:
        """One real score: the first client does not pay for lazy set-up, and a broken model says so now."""
        start = time.monotonic()
        request = self.prepare({"inputs": "Hello"})
        self.answer([request])
        told = (len(self.labels), time.monotonic() - start, self.model.device)
        logging.info("warm-up: %d labels scored in %.2f s on %s", *told)

    def prepare(self, body: dict[str, Any]) -> Request:
        if "inputs" not in body:
            raise BadRequest(f"expected inputs, got {sorted(body) or 'an empty object'}")
        refuse_unknown(set(body), {"inputs", "parameters", "model"})
        said = read_object("parameters", body.get("parameters"))
        refuse_unknown(set(said), PARAMETERS)
        function = said.get("function_to_apply") or self.function
        if function not in FUNCTIONS:
            raise BadRequest(f"expected one of {', '.join(FUNCTIONS)}, got {function!r:.80}", "function_to_apply")
        truncate = read_flag("truncate", said.get("truncate"), False)
        rows = [self.encode(text, pair, truncate) for text, pair in read_pairs(body["inputs"])]
        top_k = read_count("top_k", said["top_k"]) if said.get("top_k") is not None else 1
        return Request(isinstance(body["inputs"], list), rows, top_k or len(self.labels), function)

    def encode(self, text: str, pair: str | None, truncate: bool) -> dict[str, list[int]]:
        row = self.tokenizer(text, pair, truncation=truncate, max_length=self.longest if truncate else None)
        if not 0 < len(row["input_ids"]) <= self.longest:
            many = f"{len(row['input_ids'])} tokens; this model takes from 1 to {self.longest}, or truncate: true"
            raise BadRequest(many, "inputs")
        return {key: list(values) for key, values in row.items()}

    def answer(self, requests: list[Request]) -> None:
        """Scores all texts of all requests, those of like length together, so that little is padding."""
        rows = [(row, request, at) for request in requests for at, row in enumerate(request.rows)]
        for request in requests:
            request.answers = [[]] * len(request.rows)
        rows.sort(key=lambda each: len(each[0]["input_ids"]))
        for start in range(0, len(rows), MAX_ROWS):
            part = rows[start : start + MAX_ROWS]
            for scores, (_, request, at) in zip(self.scored([row for row, _, _ in part]), part):
                request.answers[at] = self.named(scores, request)

    def scored(self, rows: list[dict[str, list[int]]]) -> torch.Tensor:
        inputs = self.tokenizer.pad(rows, padding=True, return_tensors="pt").to(self.model.device)
        with torch.inference_mode():
            return self.model(**inputs).logits.float().cpu()

    def named(self, scores: torch.Tensor, request: Request) -> list[dict[str, Any]]:
        if request.function != "none":
            scores = scores.sigmoid() if request.function == "sigmoid" else scores.softmax(-1)
        best = sorted(zip(scores.tolist(), self.labels), reverse=True)[: request.top_k]
        return [{"label": label, "score": score} for score, label in best]


def whole(request: Request) -> Any:
    """The answer: labels with their scores, best first."""
    return request.answers if request.listed else request.answers[0]


def body(each: Request | BadRequest) -> str:
    if isinstance(each, BadRequest):
        error = {"message": str(each), "type": "invalid_request_error", "param": each.param, "code": None}
        return dump({"error": error})
    return dump(whole(each))


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
    output.add_property("Content-Type", "application/json")
    service.answer(requests)
    for index, each in enumerate(understood):
        output.add(body(each), batch_index=index if inputs.is_batch() else None)
    return output


def understand(item: Input, service: Service) -> Request | BadRequest:
    try:
        return service.prepare(read_json(item))
    except BadRequest as mistake:
        return mistake
