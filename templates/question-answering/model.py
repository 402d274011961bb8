"""Extractive question answering with transformers, on a CPU or one GPU: a handler for DJLServing's Python engine.

    {"inputs": {"question": "Where is the Amazon?", "context": "The Amazon is a river in South America."}}
        -> {"score": 0.98, "start": 24, "end": 37, "answer": "South America"}
    {"inputs": [{...}, {...}], "parameters": {"top_k": 2}}     -> a list of such answers (or of lists), in their order

`start` and `end` are characters of the context. A context that is longer than the model is read in windows that
overlap by `stride` tokens (128). Parameters: top_k (answers to a question, best first; 1), max_answer_length (tokens; 15),
handle_impossible_answer (the empty answer may win; false), as in transformers' pipeline.
A mistake of the client is answered with 400 and {"error": {"message", "type", "param", "code"}}. Requests that the
server groups (batch_size) go through the model together and share one status: there a bad one gets that error as its
own body, beside its neighbours' 200.

Options read from serving.properties (`option.` before each): model_id, revision, dtype (fp32, fp16, bf16, auto),
trust_remote_code, trust_insecure_model_files (weights other than safetensors), max_model_len, stride, torch_threads.
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
from transformers import AutoModelForQuestionAnswering, AutoTokenizer

DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16, "auto": "auto"}
ADAPTER = "X-Amzn-SageMaker-Adapter-Identifier"
MAX_ROWS = 32  # windows that go through the model together; more take several rounds
STRIDE = 128
COUNTS = {"top_k": 1, "max_answer_length": 15}
PARAMETERS = {*COUNTS, "handle_impossible_answer"}


class BadRequest(Exception):
    """The client's mistake; `param` names the key it is about."""

    def __init__(self, message: str, param: str | None = None) -> None:
        super().__init__(f"{param}: {message}" if param else message)
        self.param = param


@dataclass
class Window:
    """A part of a context: the tokens of question and part, and of each token its place in the context, if it is
    one of the context's."""

    row: dict[str, list[int]]
    places: list[tuple[int, int] | None]


@dataclass
class Question:
    context: str
    windows: list[Window]
    found: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class Request:
    """One body, understood."""

    listed: bool
    questions: list[Question]
    top_k: int
    longest_answer: int
    empty_may_win: bool


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


def read_parameters(value: Any) -> dict[str, Any]:
    if value is not None and not isinstance(value, dict):
        raise BadRequest(f"expected an object, got {value!r:.80}", "parameters")
    given = {name: each for name, each in (value or {}).items() if each is not None}
    refuse_unknown(set(given), PARAMETERS)
    for name in COUNTS.keys() & given:
        if isinstance(given[name], bool) or not isinstance(given[name], int) or given[name] < 1:
            raise BadRequest(f"expected a whole number from 1, got {given[name]!r:.80}", name)
    if not isinstance(given.get("handle_impossible_answer", False), bool):
        raise BadRequest(
            f"expected true or false, got {given['handle_impossible_answer']!r:.80}", "handle_impossible_answer"
        )
    return {**COUNTS, "handle_impossible_answer": False, **given}


def read_questions(value: Any) -> list[tuple[str, str]]:
    items = value if isinstance(value, list) else [value]
    pairs = [(each.get("question"), each.get("context")) if isinstance(each, dict) else (None, None) for each in items]
    if not pairs or not all(isinstance(text, str) and text.strip() for pair in pairs for text in pair):
        what = "expected an object with question and context, or a list of these, none of them empty"
        raise BadRequest(f"{what}, got {value!r:.80}", "inputs")
    return pairs


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
    tokenizer = AutoTokenizer.from_pretrained(path, **trusted)
    if not tokenizer.is_fast:
        raise ValueError(f"{path}: this handler needs a fast tokenizer (tokenizer.json), which knows places in the text")
    model = AutoModelForQuestionAnswering.from_pretrained(
        path, dtype=DTYPES[dtype], use_safetensors=pickles, **trusted
    )
    return tokenizer, model.eval().to(device)


def yes(options: dict[str, Any], name: str) -> bool:
    return str(options.get(name)).lower() == "true"


def dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


class Service:
    """The model and what is known of it."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.tokenizer, self.model = load(options)
        if self.tokenizer.pad_token_id is None:
            self.tokenizer.pad_token = self.tokenizer.eos_token
        # RoBERTa has two positions more than tokens; the tokenizer of a trained model knows the number of tokens.
        positions = getattr(self.model.config, "max_position_embeddings", None) or 1_000_000
        self.longest = int(options.get("max_model_len") or min(positions, self.tokenizer.model_max_length))
        self.stride = int(options.get("stride") or STRIDE)

    def warm_up(self) -> None:
        """One real answer: the first client does not pay for lazy set-up, and a broken model says so now."""
        start = time.monotonic()
        self.answer([self.prepare({"inputs": {"question": "Who says OK?", "context": "lmi says OK."}})])
        logging.info("warm-up: one question in %.2f s on %s", time.monotonic() - start, self.model.device)

    def prepare(self, body: dict[str, Any]) -> Request:
        if "inputs" not in body:
            raise BadRequest(f"expected inputs, got {sorted(body) or 'an empty object'}")
        refuse_unknown(set(body), {"inputs", "parameters", "model"})
        said = read_parameters(body.get("parameters"))
        questions = [self.encode(question, context) for question, context in read_questions(body["inputs"])]
        return Request(
            listed=isinstance(body["inputs"], list),
            questions=questions,
            top_k=said["top_k"],
            longest_answer=said["max_answer_length"],
            empty_may_win=said["handle_impossible_answer"],
        )

    def encode(self, question: str, context: str) -> Question:
        """The question stays whole; the context is divided into windows."""
        beside = len(self.tokenizer(question, "")["input_ids"])
        room = self.longest - beside
        if room < 1:
            many = f"{beside} tokens of question; this model takes {self.longest} of question and context"
            raise BadRequest(many, "inputs")
        encoded = self.tokenizer(
            question,
            context,
            truncation="only_second",
            max_length=self.longest,
            stride=min(self.stride, room // 2),
            return_overflowing_tokens=True,
            return_offsets_mapping=True,
        )
        names = [name for name in self.tokenizer.model_input_names if name in encoded]
        windows = []
        for at in range(len(encoded["input_ids"])):
            parts = encoded.sequence_ids(at)
            places = [place if part == 1 else None for place, part in zip(encoded["offset_mapping"][at], parts)]
            windows.append(Window({name: list(encoded[name][at]) for name in names}, places))
        return Question(context, windows)

    def answer(self, requests: list[Request]) -> None:
        """Reads all windows of all requests, those of like length together, so that little is padding."""
        work = [(window, question, each) for each in requests for question in each.questions for window in question.windows]
        work.sort(key=lambda one: len(one[0].row["input_ids"]))
        for first in range(0, len(work), MAX_ROWS):
            part = work[first : first + MAX_ROWS]
            for (starts, ends), (window, question, request) in zip(self.scored([one[0].row for one in part]), part):
                question.found += spans(starts, ends, window, question.context, request)

    def scored(self, rows: list[dict[str, list[int]]]) -> list[tuple[torch.Tensor, torch.Tensor]]:
        inputs = self.tokenizer.pad(rows, padding=True, padding_side="right", return_tensors="pt")
        with torch.inference_mode():
            output = self.model(**inputs.to(self.model.device))
        pairs = zip(output.start_logits.float().cpu(), output.end_logits.float().cpu(), rows)
        return [(starts[: len(row["input_ids"])], ends[: len(row["input_ids"])]) for starts, ends, row in pairs]


def spans(starts: torch.Tensor, ends: torch.Tensor, window: Window, context: str, request: Request) -> list[dict[str, Any]]:
    """The best answers in a window: the probability of the first token times that of the last one."""
    inside = torch.tensor([place is not None for place in window.places])
    if not inside.any():
        return []
    first, last = (scores.masked_fill(~inside, -1e4).softmax(-1) for scores in (starts, ends))
    scores = (first[:, None] * last[None, :]).triu().tril(request.longest_answer - 1)
    scores = scores * inside[:, None] * inside[None, :]
    best = scores.flatten().topk(min(request.top_k, int(scores.numel())))
    found = []
    for score, at in zip(best.values.tolist(), best.indices.tolist()):
        begin, end = window.places[at // len(window.places)], window.places[at % len(window.places)]
        if begin is not None and end is not None and score > 0:
            text = context[begin[0] : end[1]]
            found.append({"score": score, "start": begin[0], "end": end[1], "answer": text})
    if request.empty_may_win:
        # Models of SQuAD 2 say "no answer" by the first token.
        empty = float(starts.softmax(-1)[0] * ends.softmax(-1)[0])
        found.append({"score": empty, "start": 0, "end": 0, "answer": ""})
    return found


def best_answers(question: Question, top_k: int) -> list[dict[str, Any]]:
    """Best first; an answer that two windows found counts once."""
    found: dict[tuple[int, int], dict[str, Any]] = {}
    for each in sorted(question.found, key=lambda one: -one["score"]):
        found.setdefault((each["start"], each["end"]), each)
    return list(found.values())[:top_k]


def whole(request: Request) -> Any:
    answers: list[Any] = [best_answers(question, request.top_k) for question in request.questions]
    if request.top_k == 1:
        answers = [best[0] for best in answers]
    return answers if request.listed else answers[0]


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
