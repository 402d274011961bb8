"""Engines whose image has a server of its own: their variables, their requests, what they refuse."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from lmi_deploy.domain.deployment_artifact import MARKER, SLOT
from lmi_deploy.domain.deployment_spec import EngineSpec, HandlerSpec
from lmi_deploy.domain.inference_http import InferenceRequest
from lmi_deploy.domain.recipe_keys import IMAGE_SERVERS, Engine, Handler, Pairs, Task
from lmi_deploy.engines import image_server
from lmi_deploy.engines.engine import EngineInputs
from lmi_deploy.engines.inference_codec import Codec
from lmi_deploy.engines.openai_support import openai_api
from lmi_deploy.engines.registry import ENGINES
from lmi_deploy.errors import RecipeError, Unresolvable, UsageRefused
from lmi_deploy.planning.render import render
from tests.support.factories import facts, resolve
from tests.support.recipe_parsing import parse

IMAGE = HandlerSpec(entry_point=image_server.ENTRY_POINT, template=None)
OWN = """\
name: m
model_id: org/m
engine: custom
container: {image: localhost/mine}
probe: {body: '{"input": "amazon"}'}
endpoint: {target: local, runtime: container}
"""


def variables(name: Engine, options: Pairs, *, degree: int = 1, task: Task | None = None) -> dict[str, str]:
    module = ENGINES[name]
    settings = module.properties(EngineInputs(IMAGE, options, task=task, tensor_parallel_degree=degree))
    spec = EngineSpec(
        name=name, tensor_parallel_degree=degree, handler=IMAGE, properties=settings, packages=()
    )
    return dict(module.environment(spec))


def test_vllm_gets_arguments_and_switches_as_variables() -> None:
    options = (
        ("predict_timeout", "60"),
        ("max-model-len", "4096"),
        ("enforce_eager", "true"),
        ("enable_prefix_caching", "false"),
    )
    assert variables("vllm-server", options, degree=4) == {
        "SM_VLLM_MODEL": SLOT,
        "SM_VLLM_TENSOR_PARALLEL_SIZE": "4",
        "SM_VLLM_MAX_MODEL_LEN": "4096",
        "SM_VLLM_ENFORCE_EAGER": "",
        "SM_VLLM_NO_ENABLE_PREFIX_CACHING": "",
    }


def test_sglang_gets_switches_with_their_value() -> None:
    assert variables("sglang", (("disable_radix_cache", "true"), ("tp_size", "2")), degree=4) == {
        "SM_SGLANG_MODEL_PATH": SLOT,
        "SM_SGLANG_TP_SIZE": "2",
        "SM_SGLANG_DISABLE_RADIX_CACHE": "true",
    }


def test_tei_gets_variables_without_a_prefix_and_knows_them_all() -> None:
    assert variables("tei", (("max_batch_tokens", "8192"),)) == {
        "HF_MODEL_ID": SLOT,
        "MAX_BATCH_TOKENS": "8192",
    }
    with pytest.raises(Unresolvable, match=r"options\.max_model_len: unknown to engine tei"):
        variables("tei", (("max_model_len", "1"),))


@pytest.mark.parametrize("name", IMAGE_SERVERS)
def test_handler_is_refused(name: Engine) -> None:
    assert ENGINES[name].handler(Handler(), None) == IMAGE
    with pytest.raises(Unresolvable, match=r"handler\.file: engine .* server of its own"):
        ENGINES[name].handler(Handler(file="model.py"), None)


def test_requests_are_those_of_each_server() -> None:
    chat = InferenceRequest(prompt="Hi", parameters={"max_tokens": 3})
    wanted = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 3}
    for name in ("vllm-server", "sglang"):
        assert json.loads(ENGINES[name].encode(chat, IMAGE, "text-generation").body) == wanted
    text = replace(chat, chat=False, parameters={})
    assert json.loads(ENGINES["vllm-server"].encode(text, IMAGE, None).body) == {"prompt": "Hi"}
    assert json.loads(ENGINES["vllm-server"].encode(text, IMAGE, "text-embedding").body) == {"input": "Hi"}
    assert json.loads(ENGINES["tei"].encode(text, IMAGE, None).body) == {"inputs": "Hi"}
    with pytest.raises(UsageRefused, match="chat requests only"):
        ENGINES["sglang"].encode(text, IMAGE, None)
    with pytest.raises(UsageRefused, match="a single text"):
        ENGINES["vllm-server"].encode(replace(text, system="x"), IMAGE, "text-embedding")


@pytest.mark.parametrize(
    ("name", "task"),
    [("sglang", "text-embedding"), ("tei", "text-generation"), ("vllm-server", "question-answering")],
)
def test_task_without_a_request_is_refused(name: Engine, task: Task) -> None:
    with pytest.raises(Unresolvable, match=f"task {task}"):
        ENGINES[name].handler(Handler(), task)


def test_image_of_the_user_needs_no_code_and_finds_its_weights() -> None:
    known = facts()
    runtimes = replace(known.runtimes, names=("container", *known.runtimes.names))
    spec = resolve(parse(OWN, "m.yaml"), replace(known, runtimes=runtimes))
    assert (spec.engine.handler, spec.machine.runtime) == (IMAGE, "container")
    assert spec.machine.environment == (("LMI_MODEL_PATH", SLOT),)
    (file,) = render(spec).files
    assert file.path == MARKER
    assert json.loads(file.content)["model"] == "org/m"


def test_image_of_the_user_runs_only_as_a_container() -> None:
    with pytest.raises(Unresolvable, match=r"runtime embedded cannot run the server of container\.image"):
        resolve(parse(OWN.replace("runtime: container", "runtime: embedded"), "m.yaml"), facts())


@pytest.mark.parametrize(
    ("more", "key"),
    [
        ("properties: {batch_size: 2}\n", "properties"),
        ("options: {dtype: fp16}\n", "options"),
        ("requirements: requirements.txt\n", "requirements"),
    ],
)
def test_keys_of_djl_serving_are_refused_for_other_servers(more: str, key: str) -> None:
    with pytest.raises(RecipeError) as caught:
        parse(OWN + more, "m.yaml")
    assert key in {problem.key for problem in caught.value.problems}


@pytest.mark.parametrize(
    ("name", "chat", "completions", "embeddings"),
    [("vllm-server", True, "prompt", "input"), ("sglang", True, "", ""), ("tei", False, "", "inputs")],
)
def test_proxy_knows_which_requests_of_openai_each_server_takes(
    name: Engine, chat: bool, completions: str, embeddings: str
) -> None:
    found = openai_api(Codec(ENGINES[name], IMAGE, None))
    assert (found.chat, found.completions, found.embeddings) == (chat, completions, embeddings)


def test_tei_runs_on_one_device() -> None:
    text = "name: m\nmodel_id: org/m\nengine: tei\ntask: text-embedding\ntensor_parallel_degree: 2\n"
    text += "container: {image: localhost/tei}\nendpoint: {target: local, runtime: container}\n"
    with pytest.raises(Unresolvable, match="runs a model on one device"):
        resolve(parse(text, "m.yaml"), facts())
