"""Deployments as the proxy's translation sees them."""

from __future__ import annotations

from typing import Any

from lmi_deploy.domain.inference_http import ResponseHead
from lmi_deploy.engines.inference_codec import codec_of
from lmi_deploy.engines.openai_support import openai_api
from lmi_deploy.proxy.completion_translation import ServedModel
from lmi_deploy.proxy.stream_lines import ResponseIdentity
from tests.support.factories import LOCAL, serving

IDENTITY = ResponseIdentity(model="mine", created=7, key="k")
VLLM = {"engine": "vllm", "handler": "djl_python.lmi_vllm.vllm_async_service", "template": ""}
ROLLING = {"engine": "vllm", "handler": "djl_python.huggingface", "template": ""}
BUILTIN = {"engine": "accelerate", "handler": "djl_python.huggingface", "template": ""}
CUSTOM = {"engine": "custom", "handler": "model.py", "template": "", "task": ""}
TEXT2TEXT = {"template": "text2text-generation", "task": "text2text-generation"}
EMBEDDING = {"template": "text-embedding", "task": "text-embedding"}
VLLM_EMBEDDING = {**VLLM, "task": "text-embedding"}


def served(*, adapter: str = "", **fields: Any) -> ServedModel:
    """By fields of its ServingRecord; without any a deployment of our template text-generation."""
    codec = codec_of(serving(LOCAL, **fields), "chat")
    return ServedModel(identity=IDENTITY, api=openai_api(codec), codec=codec, adapter=adapter)


def head(kind: str) -> ResponseHead:
    return ResponseHead(status=200, reason="", headers=(("content-type", kind),))


LINES = head("application/jsonlines")
JSON = head("application/json")
