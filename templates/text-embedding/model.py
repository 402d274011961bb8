"""Text embeddings with transformers, on a CPU or one GPU: a handler for DJLServing's Python engine.

Two kinds of body are understood; both take a text or a list of texts:

    {"inputs": ["One text", "Another"], "parameters": {"normalize": true}}   -> [[0.1, ...], [0.3, ...]]
    {"input": "One text", "model": "any"}                                   -> OpenAI's list of embeddings

How the tokens of a text become one vector is read from the files of sentence-transformers (modules.json,
1_Pooling/config.json) where the model has them; else they are averaged. A text longer than the model takes is refused
unless `truncate` is true.
A mistake of the client is answered with 400 and {"error": {"message", "type", "param", "code"}}. Requests that the
server groups (batch_size) go through the model together and share one status: there a bad one gets that error as its
own body, beside its neighbours' 200.

Options read from serving.properties (`option.` before each): model_id, revision, dtype (fp32, fp16, bf16, auto),
trust_remote_code, trust_insecure_model_files (weights other than safetensors), pooling (mean, cls, max, lasttoken),
normalize (true, false), max_model_len, torch_threads, served_model_name.
"""

from __future__ import annotations

import json
import logging
import time
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import torch
from djl_python import Input, Output
from transformers import AutoModel, AutoTokenizer

DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16, "auto": "auto"}
POOLINGS = ("mean", "cls", "max", "lasttoken")
MODULES = ("Transformer", "Pooling", "Normalize")  # of sentence-transformers: those that are done here
ADAPTER = "X-Amzn-SageMaker-Adapter-Identifier"
MAX_ROWS = 32  # texts that go through the model together; more take several rounds
PARAMETERS = {"normalize", "truncate"}
NEUTRAL = {"encoding_format": "float"}  # what OpenAI's clients send by habit


class BadRequest(Exception):
    """The client's mistake; `param` names the key it is about."""

    def __init__(self, message: str, param: str | None = None) -> None:
        super().__init__(f"{param}: {message}" if param else message)
        self.param = param


@dataclass
class Request:
    """One body, understood."""

    openai: bool
    rows: list[list[int]]
    normalize: bool
    model: str
    vectors: list[list[float]] = field(default_factory=list)


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
    model = AutoModel.from_pretrained(path, dtype=DTYPES[dtype], use_safetensors=pickles, **trusted)
    return AutoTokenizer.from_pretrained(path, **trusted), model.eval().to(device)


def yes(options: dict[str, Any], name: str) -> bool:
    return str(options.get(name)).lower() == "true"


def dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def described(folder: Path, name: str) -> Any:
    """A JSON file beside the weights; empty where there is none."""
    path = folder / name
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def pooling_of(folder: Path, options: dict[str, Any]) -> tuple[str, bool]:
    """The way to one vector and whether it gets length 1: as the options say, else as the model was trained."""
    modules = [str(each.get("type", "")).rpartition(".")[2] for each in described(folder, "modules.json")]
    strange = [each for each in modules if each not in MODULES]
    if strange:
        raise ValueError(f"modules.json names {strange[0]}, which this handler cannot do; write a model.py for it")
    trained = described(folder, "1_Pooling/config.json")
    modes = [name.removeprefix("pooling_mode_") for name, on in trained.items() if on is True and "_mode_" in name]
    trained_for = "+".join(mode.removesuffix("s").removesuffix("_token") for mode in modes) or "mean"
    chosen = options.get("pooling") or trained_for
    if chosen not in POOLINGS:
        raise ValueError(f"option.pooling: {chosen} is not known, use one of {', '.join(POOLINGS)}")
    return chosen, yes(options, "normalize") if options.get("normalize") else "Normalize" in modules


class Service:
    """The model and what is known of it."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.tokenizer, self.model = load(options)
        self.pad = self.tokenizer.pad_token_id or 0
        folder = Path(options.get("model_id") or options["model_dir"])
        self.name = options.get("served_model_name") or folder.name
        self.pooling, self.normalize = pooling_of(folder, options)
        trained = described(folder, "sentence_bert_config.json").get("max_seq_length")
        positions = getattr(self.model.config, "max_position_embeddings", None)
        self.longest = int(options.get("max_model_len") or trained or positions or 1_000_000)

    def warm_up(self) -> None:
        """One real vector: the first client does not pay for lazy set-up, and a broken model says so now."""
        start = time.monotonic()
        vector = self.embed([self.tokenizer("Hello")["input_ids"]])[0]
        told = (len(vector), self.pooling, time.monotonic() - start, self.model.device)
        logging.info("warm-up: a vector of %d numbers (%s) in %.2f s on %s", *told)

    def prepare(self, body: dict[str, Any]) -> Request:
        key = next((key for key in ("inputs", "input") if key in body), None)
        if key is None:
            raise BadRequest(f"expected inputs or input, got {sorted(body) or 'an empty object'}")
        said = read_object("parameters", body.get("parameters")) if key == "inputs" else body
        refuse_unknown(
            set(body),
            {"inputs", "parameters", "model"} if key == "inputs" else {"input", "model", "user", *NEUTRAL, *PARAMETERS},
        )
        refuse_unknown(set(said) - set(body), PARAMETERS)
        for name, value in NEUTRAL.items():
            if body.get(name) not in (None, value):
                raise BadRequest(f"only {dump(value)} is supported here, got {body[name]!r:.80}", name)
        truncate = read_flag("truncate", said.get("truncate"), False)
        rows = [self.encode(key, text, truncate) for text in read_texts(key, body[key])]
        normalize = read_flag("normalize", said.get("normalize"), self.normalize)
        return Request(key == "input", rows, normalize, str(body.get("model") or self.name))

    def encode(self, key: str, text: str, truncate: bool) -> list[int]:
        ids = self.tokenizer(text, truncation=truncate, max_length=self.longest if truncate else None)["input_ids"]
        if not 0 < len(ids) <= self.longest:
            raise BadRequest(f"{len(ids)} tokens; this model takes from 1 to {self.longest}, or truncate: true", key)
        return list(ids)

    def answer(self, requests: list[Request]) -> None:
        """Embeds all texts of all requests, those of like length together, so that little is padding."""
        rows = [(row, request, at) for request in requests for at, row in enumerate(request.rows)]
        for request in requests:
            request.vectors = [[]] * len(request.rows)
        rows.sort(key=lambda each: len(each[0]))
        for start in range(0, len(rows), MAX_ROWS):
            part = rows[start : start + MAX_ROWS]
            for vector, (_, request, at) in zip(self.embed([row for row, _, _ in part]), part):
                request.vectors[at] = (
                    torch.nn.functional.normalize(vector, dim=0) if request.normalize else vector
                ).tolist()

    def embed(self, rows: list[list[int]]) -> torch.Tensor:
        width = max(map(len, rows))
        ids = torch.tensor([row + [self.pad] * (width - len(row)) for row in rows], device=self.model.device)
        mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows], device=self.model.device)
        with torch.inference_mode():
            states = self.model(input_ids=ids, attention_mask=mask).last_hidden_state.float()
        return self.pooled(states, mask.unsqueeze(-1)).cpu()

    def pooled(self, states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        if self.pooling == "cls":
            return states[:, 0]
        if self.pooling == "max":
            return states.masked_fill(mask == 0, float("-inf")).amax(1)
        if self.pooling == "lasttoken":
            return states[torch.arange(len(states)), mask.squeeze(-1).sum(1) - 1]
        return (states * mask).sum(1) / mask.sum(1)


def whole(request: Request) -> Any:
    """The answer: an array for each text, in their order."""
    if not request.openai:
        return request.vectors
    found = [{"object": "embedding", "index": at, "embedding": each} for at, each in enumerate(request.vectors)]
    used = sum(map(len, request.rows))
    return {
        "object": "list",
        "data": found,
        "model": request.model,
        "usage": {"prompt_tokens": used, "total_tokens": used},
    }


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
