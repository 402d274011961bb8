"""As much of vLLM as DJL's asynchronous service uses; it answers every request with the same words.

First on a worker's path, it lets the real service run without a GPU. Real: the settings that DJL passes on, the model
folder, the format of requests, and of responses after DJL's own formatters. Not real: every token of an answer, and
everything that needs a GPU.
"""

import argparse
import json
import sys
import types
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator

WORDS = ("Paris", " is", " the", " capital", ".")


@dataclass
class EngineArgs:
    model: str = ""
    served_model_name: Any = None
    tensor_parallel_size: int = 1
    max_model_len: Any = None
    quantization: Any = None
    max_num_batched_tokens: Any = None
    max_num_seqs: Any = None
    gpu_memory_utilization: Any = None
    enforce_eager: Any = None
    cpu_offload_gb: float = 0
    enable_lora: Any = False
    max_loras: Any = None
    max_lora_rank: Any = None

    @staticmethod
    def add_cli_args(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
        return parser

    @classmethod
    def from_cli_args(cls, args: argparse.Namespace) -> "EngineArgs":
        print("vLLM was started with", json.dumps(vars(args), sort_keys=True), flush=True)
        known = {key: value for key, value in vars(args).items() if key in cls.__dataclass_fields__}
        return cls(**known)


class FlexibleArgumentParser(argparse.ArgumentParser):
    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        pairs = (each.removeprefix("--").partition("=") for each in args)
        return argparse.Namespace(**{key: value if sign else True for key, sign, value in pairs})


class StoreBoolean(argparse.Action):
    pass


class AtomicCounter:
    def __init__(self, start: int) -> None:
        self.value = start

    def inc(self, step: int) -> int:
        self.value += step
        return self.value


class _Request(BaseModel):
    """vLLM's own: unknown keys are accepted, and stream options need a stream."""

    model_config = ConfigDict(extra="allow")
    model: str | None = None
    max_tokens: int = 16
    temperature: float = 1.0
    stream: bool = False
    stream_options: dict[str, Any] | None = None
    seed: int | None = None

    @model_validator(mode="after")
    def _only_of_a_stream(self) -> "_Request":
        if self.stream_options and not self.stream:
            raise ValueError("Stream options can only be defined when `stream=True`.")
        return self

    @property
    def words(self) -> tuple[str, ...]:
        return WORDS[: self.max_tokens]

    @property
    def finish(self) -> str:
        return "stop" if self.max_tokens >= len(WORDS) else "length"


class ChatCompletionRequest(_Request):
    messages: list[dict[str, Any]]


class CompletionRequest(_Request):
    prompt: str
    logprobs: int | None = None


class ErrorResponse(BaseModel):
    message: str
    code: int


class _Choice(BaseModel):
    index: int
    finish_reason: str
    stop_reason: str | None = None
    text: str | None = None
    message: dict[str, str] | None = None
    logprobs: Any = None
    prompt_logprobs: Any = None


class _Usage(BaseModel):
    prompt_tokens: int
    completion_tokens: int


class _Response(BaseModel):
    id: str
    object: str
    model: str | None
    choices: list[_Choice]
    usage: _Usage


@dataclass
class AsyncLLMEngine:
    args: EngineArgs
    requests: list[Any] = field(default_factory=list)
    adapters: set[str] = field(default_factory=set)

    @classmethod
    def from_engine_args(cls, args: EngineArgs) -> "AsyncLLMEngine":
        """OSError, as from transformers, for a folder that is no model; ValueError for one that cannot be split."""
        config = model_config(args.model)
        degree, heads = int(args.tensor_parallel_size), attention_heads(config)
        if heads and heads % degree:
            raise ValueError(
                f"Total number of attention heads ({heads}) must be divisible by tensor parallel size ({degree})."
            )
        return cls(args)

    async def add_request(self, *args: Any, **options: Any) -> None:
        """DJL's service wraps it for a request with an adapter. ValueError for one that was not added."""
        lora = options.get("lora_request")
        if lora is not None and lora.lora_name not in self.adapters:
            raise ValueError(f"Got lora_request {lora.lora_name} but it is not loaded")
        self.requests.append(lora)

    async def add_lora(self, request: Any) -> bool:
        """RuntimeError and ValueError, as from vLLM, for an engine without adapters and a folder that is none."""
        if not getattr(self.args, "enable_lora", False):
            raise RuntimeError("LoRA is not enabled. Use --enable-lora to enable LoRA.")
        folder = Path(request.lora_path)
        names = ("adapter_model.safetensors", "adapter_model.bin", "adapter_model.pt")
        if not (folder / "adapter_config.json").is_file() or not any(
            (folder / one).is_file() for one in names
        ):
            raise ValueError(f"Loading lora {request.lora_name} failed: No adapter found for {folder}")
        self.adapters.add(request.lora_name)
        return True

    async def remove_lora(self, number: int) -> bool:
        return True

    async def pin_lora(self, number: int) -> bool:
        return True

    async def get_tokenizer(self) -> Any:
        return types.SimpleNamespace(decode=lambda token: WORDS[token])

    async def get_model_config(self) -> Any:
        return None

    async def check_health(self) -> None:
        return None


def model_config(folder: str) -> dict[str, Any]:
    """The config.json of a model folder; nothing is checked of a folder that has no weights at all (a test's)."""
    root = Path(folder)
    weights = [*root.glob("*.safetensors"), *root.glob("*.bin")]
    path = root / "config.json"
    if not path.is_file():
        if weights:
            raise OSError(f"{folder} does not appear to have a file named config.json.")
        return {}
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    if not weights:
        raise RuntimeError(f"Cannot find any model weights with `{folder}`")
    return found


def attention_heads(config: dict[str, Any]) -> int:
    """Of the language part; 0 if config.json does not say."""
    text = config.get("text_config") or config
    return int(text.get("num_attention_heads") or text.get("n_head") or 0)


@dataclass
class BaseModelPath:
    name: str
    model_path: str


@dataclass
class OpenAIServingModels:
    engine: Any
    config: Any
    paths: list[BaseModelPath]

    async def refusal(self, request: _Request, engine: Any) -> ErrorResponse | None:
        if request.model and request.model not in [path.name for path in self.paths]:
            return ErrorResponse(message=f"The model `{request.model}` does not exist.", code=404)
        if request.max_tokens < 1:
            return ErrorResponse(message="max_tokens must be at least 1", code=400)
        try:
            await engine.add_request()
        except ValueError as error:
            return ErrorResponse(message=str(error), code=400)
        return None


class OpenAIServingChat:
    def __init__(self, engine: Any, config: Any, models: OpenAIServingModels, *_: Any, **__: Any) -> None:
        self.engine, self.models = engine, models

    async def create_chat_completion(self, request: ChatCompletionRequest) -> Any:
        if refusal := await self.models.refusal(request, self.engine):
            return refusal
        if request.stream:
            return _events(request, "chat.completion.chunk", lambda word: {"delta": {"content": word}})
        response = {"role": "assistant", "content": "".join(request.words)}
        return _full_response(request, "chat.completion", {"message": response})


class OpenAIServingCompletion:
    def __init__(self, engine: Any, config: Any, models: OpenAIServingModels, **_: Any) -> None:
        self.engine, self.models = engine, models

    async def create_completion(self, request: CompletionRequest) -> Any:
        if refusal := await self.models.refusal(request, self.engine):
            return refusal
        if request.stream:
            return _events(
                request, "text_completion", lambda word: {"text": word, "logprobs": _logprobs(word)}
            )
        return _full_response(request, "text_completion", {"text": "".join(request.words)})


def _logprobs(word: str) -> dict[str, Any]:
    return {"tokens": [f"token_id:{WORDS.index(word)}"], "token_logprobs": [-0.5]}


def _full_response(request: _Request, kind: str, response: dict[str, Any]) -> Any:
    choice = _Choice(index=0, finish_reason=request.finish, **response)
    usage = _Usage(prompt_tokens=3, completion_tokens=len(request.words))
    return _Response(id="x", object=kind, model=request.model, choices=[choice], usage=usage)


async def _events(request: _Request, kind: str, output: Any) -> Any:
    """Server-sent events, as vLLM writes them; DJL's service converts them to lines."""
    options = request.stream_options or {}
    for number, word in enumerate(request.words):
        last = number == len(request.words) - 1
        finish = request.finish if last else None
        choice = {"index": 0, "finish_reason": finish, "stop_reason": None, **output(word)}
        usage = (
            {"prompt_tokens": 3, "completion_tokens": number}
            if options.get("continuous_usage_stats")
            else None
        )
        yield f"data: {json.dumps({'object': kind, 'choices': [choice], 'usage': usage})}\n\n"
    if options.get("include_usage"):
        usage = {"prompt_tokens": 3, "completion_tokens": len(request.words)}
        yield f"data: {json.dumps({'object': kind, 'choices': [], 'usage': usage})}\n\n"
    yield "data: [DONE]\n\n"


AsyncEngineArgs = EngineArgs
CompletionResponse = ChatCompletionResponse = _Response
CompletionLogProbs = TokensPrompt = TextPrompt = CompletionOutput = RequestOutput = object


@dataclass
class LoRARequest:
    lora_name: str
    lora_int_id: int
    lora_path: str
    long_lora_max_len: Any = None


class _AnyName(dict[str, Any]):
    """A table that knows every name: which parsers vLLM has is checked by `lmi validate`."""

    def __contains__(self, name: object) -> bool:
        return True

    def keys(self) -> Any:
        return self


class ToolParserManager:
    tool_parsers = _AnyName()


class ReasoningParserManager:
    reasoning_parsers = _AnyName()


Logprob = AnyTokenizer = object


def kill_process_tree(pid: int) -> None:
    raise SystemExit(f"vLLM would end {pid}")


if __name__ == "vllm":
    for name in (
        "entrypoints",
        "entrypoints.openai",
        "entrypoints.openai.protocol",
        "entrypoints.openai.serving_chat",
        "entrypoints.openai.serving_completion",
        "entrypoints.openai.serving_models",
        "entrypoints.openai.tool_parsers",
        "reasoning",
        "reasoning.abs_reasoning_parsers",
        "utils",
        "outputs",
        "lora",
        "lora.request",
        "sequence",
        "transformers_utils",
        "transformers_utils.tokenizer",
    ):
        sys.modules[f"vllm.{name}"] = sys.modules["vllm"]
