"""Engines of DJLServing beside vLLM: serving.properties as their servers want it, requests, images by version."""

from __future__ import annotations

import json

import pytest

from lmi_deploy.catalog.server_version import SPANS, engine_image
from lmi_deploy.domain.deployment_artifact import SLOT
from lmi_deploy.domain.deployment_spec import HandlerSpec
from lmi_deploy.domain.inference_http import InferenceRequest, ResponseHead
from lmi_deploy.domain.recipe_keys import Engine, Handler, Task
from lmi_deploy.engines import djl_huggingface
from lmi_deploy.engines.deepspeed import engine as deepspeed
from lmi_deploy.engines.engine import EngineInputs
from lmi_deploy.engines.fastertransformer import engine as fastertransformer
from lmi_deploy.engines.inference_codec import Codec
from lmi_deploy.engines.neuronx import engine as neuronx
from lmi_deploy.engines.openai_support import openai_api
from lmi_deploy.engines.registry import ENGINES
from lmi_deploy.engines.tensorrt_llm import engine as tensorrt_llm
from lmi_deploy.errors import Unresolvable

REGION = "us-east-1"
JSON = ResponseHead(status=200, reason="OK", headers=(("content-type", "application/json"),))
LINES = {
    ("fastertransformer", "0.21.0", "text2text-generation"): """
engine=FasterTransformer
option.entryPoint=djl_python.fastertransformer
option.s3url={{weights}}
option.tensor_parallel_degree=4
""",
    ("fastertransformer", "", "text2text-generation"): """
engine=FasterTransformer
option.entryPoint=djl_python.fastertransformer
option.model_id={{weights}}
option.tensor_parallel_degree=4
""",
    ("deepspeed", "0.21.0", "text-generation"): """
engine=DeepSpeed
option.entryPoint=djl_python.deepspeed
option.s3url={{weights}}
option.tensor_parallel_degree=4
option.task=text-generation
""",
    ("deepspeed", "0.27.0", "text-generation"): """
engine=DeepSpeed
option.entryPoint=djl_python.deepspeed
option.model_id={{weights}}
option.tensor_parallel_degree=4
option.rolling_batch=disable
option.task=text-generation
""",
    ("tensorrt-llm", "0.32.0", "text-generation"): """
engine=MPI
option.entryPoint=djl_python.tensorrt_llm
option.model_id={{weights}}
option.rolling_batch=trtllm
option.tensor_parallel_degree=4
""",
    ("tensorrt-llm", "", "text-generation"): """
engine=Python
option.entryPoint=djl_python.lmi_trtllm.trtllm_async_service
option.model_id={{weights}}
option.async_mode=true
option.rolling_batch=disable
option.tensor_parallel_degree=4
""",
    ("lmi-dist", "", "text-generation"): """
engine=MPI
option.entryPoint=djl_python.huggingface
option.model_id={{weights}}
option.rolling_batch=lmi-dist
option.tensor_parallel_degree=4
""",
    ("neuronx", "0.29.0", "text-generation"): """
engine=Python
option.entryPoint=djl_python.transformers_neuronx
option.model_id={{weights}}
option.tensor_parallel_degree=4
option.rolling_batch=auto
""",
}


def codec(name: Engine, task: Task, version: str = "") -> Codec:
    module = ENGINES[name]
    return Codec(module, module.handler(Handler(), task, version=version), task)


@pytest.mark.parametrize(("named", "lines"), LINES.items(), ids=lambda each: str(each)[:40])
def test_settings_have_the_spelling_of_the_server_version(
    named: tuple[Engine, str, Task], lines: str
) -> None:
    name, version, task = named
    module = ENGINES[name]
    handler = module.handler(Handler(), task, version=version)
    pairs = module.properties(EngineInputs(handler, (), task=task, tensor_parallel_degree=4, version=version))
    assert [f"{key}={value}" for key, value in pairs] == lines.split()
    assert [value for _, value in pairs].count(SLOT) == 1


def test_own_code_keeps_the_engine_and_takes_no_task() -> None:
    handler = deepspeed.ENGINE.handler(Handler(file="mine.py"), "text-generation", version="0.27.0")
    assert handler == HandlerSpec(entry_point="model.py", template=None)
    pairs = deepspeed.ENGINE.properties(
        EngineInputs(handler, (), task="text-generation", tensor_parallel_degree=1, version="0.27.0")
    )
    assert dict(pairs)["engine"] == "DeepSpeed"
    assert "option.task" not in dict(pairs)


@pytest.mark.parametrize("name", SPANS)
def test_image_without_the_engine_is_refused_with_the_successor(name: Engine) -> None:
    span = SPANS[name]
    assert engine_image(name, "", REGION).version.startswith(span.last)
    assert engine_image(name, span.last, REGION) == engine_image(name, "", REGION)
    with pytest.raises(
        Unresolvable, match=rf"engine {name} is in the images .* {span.last}, not of 0\.36"
    ) as caught:
        engine_image(name, "0.36.0", REGION)
    assert span.last in caught.value.hint
    assert span.successor in caught.value.hint
    with pytest.raises(Unresolvable, match=r"not of 0\.36"):
        ENGINES[name].handler(Handler(), "text-generation", version="0.36.0")


def test_servers_before_djl_lmi_are_in_the_deepspeed_images() -> None:
    assert engine_image("lmi-dist", "0.27.0", REGION).tag == "0.27.0-deepspeed0.12.6-cu121"
    assert engine_image("lmi-dist", "0.28.0", REGION).tag.startswith("0.28.0-lmi10")
    assert engine_image("accelerate", "0.21.0", REGION).tag == "0.21.0-deepspeed0.8.3-cu117"
    with pytest.raises(Unresolvable, match="lmi does not know djl-lmi"):
        engine_image("vllm", "0.21.0", REGION)


def test_other_tasks_and_templates_are_refused() -> None:
    with pytest.raises(Unresolvable, match="neuronx does not serve task text-embedding"):
        neuronx.ENGINE.handler(Handler(), "text-embedding")
    with pytest.raises(Unresolvable, match="has no template text-generation"):
        fastertransformer.ENGINE.handler(Handler(template="text-generation"), None)


@pytest.mark.parametrize("name", ["deepspeed", "fastertransformer"])
def test_handlers_of_old_images_take_inputs_even_of_a_chat(name: Engine) -> None:
    request = InferenceRequest(prompt="Hello", parameters={"max_tokens": 4, "beam_width": 2})
    encoded = codec(name, "text-generation").encode(request)
    assert json.loads(encoded.body) == {
        "inputs": "Hello",
        "parameters": {"max_new_tokens": 4, "beam_width": 2},
    }
    assert openai_api(codec(name, "text-generation")).chat is False


@pytest.mark.parametrize("name", ["tensorrt-llm", "lmi-dist", "neuronx"])
def test_rolling_batches_know_the_chat(name: Engine) -> None:
    encoded = codec(name, "text-generation").encode(InferenceRequest(prompt="Hello"))
    assert json.loads(encoded.body)["messages"][0]["content"] == "Hello"
    assert openai_api(codec(name, "text-generation")).chat is True


def test_trtllm_service_has_completions_and_its_rolling_batch_has_none() -> None:
    assert tensorrt_llm.ENGINE.handler(Handler(), None).entry_point == tensorrt_llm.SERVICE
    assert openai_api(codec("tensorrt-llm", "text-generation")).completions == "prompt"
    assert openai_api(codec("tensorrt-llm", "text-generation", "0.30.0")).completions == "inputs"
    assert codec("lmi-dist", "text-generation").handler.entry_point == djl_huggingface.MODULE


@pytest.mark.parametrize(
    ("name", "body", "text"),
    [
        ("deepspeed", '[{"generated_text": "Hello world"}]', " world"),
        ("fastertransformer", '[{"generated_text": "Hallo"}, {"generated_text": "Welt"}]', "Hallo\nWelt"),
        ("fastertransformer", '{"outputs": ["Hallo"]}', "Hallo"),
        ("fastertransformer", '{"outputs": "Hallo"}', "Hallo"),
        ("fastertransformer", '{"outputs": [[1, 2]]}', "[[1, 2]]"),
        ("neuronx", '{"generated_text": "Hallo"}', "Hallo"),
    ],
)
def test_response_forms_are_read(name: Engine, body: str, text: str) -> None:
    decoder = codec(name, "text-generation").decoder(JSON, InferenceRequest(prompt="Hello"))
    chunks = [*decoder.feed(body.encode()), *decoder.close()]
    assert "".join(chunk.text for chunk in chunks) == text
