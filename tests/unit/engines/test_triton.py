"""Engine triton: the model repository that the options make, its requests, what it refuses."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from lmi_deploy.catalog.triton_options import OPTIONS, triton_pair_mistakes, triton_value_mistake
from lmi_deploy.domain.deployment_artifact import MARKER, Artifact
from lmi_deploy.domain.deployment_spec import EngineSpec, HandlerSpec, Inputs, Spec
from lmi_deploy.domain.gathered_facts import Machine
from lmi_deploy.domain.inference_http import Chunk, InferenceRequest, ResponseHead
from lmi_deploy.domain.recipe_keys import Handler, Pairs
from lmi_deploy.engines.engine import EngineInputs
from lmi_deploy.engines.inference_codec import Codec
from lmi_deploy.engines.triton import engine as triton
from lmi_deploy.errors import Unresolvable, UsageRefused
from lmi_deploy.planning.render import render
from tests.support.factories import facts, recipe, resolve

TEXT = HandlerSpec(entry_point="model.py", template="triton/text2text")
OWN = HandlerSpec(entry_point="model.py", template=None)
JSON = ResponseHead(status=200, reason="OK", headers=(("content-type", "application/json"),))


def triton_spec(options: Pairs = (), *, handler: HandlerSpec = TEXT, weights: tuple[str, ...] = ()) -> Spec:
    made = resolve(recipe(), facts())
    files = made.weights.files
    named = tuple(replace(files[0], path=path) for path in weights)
    settings = triton.ENGINE.properties(
        EngineInputs(handler, options, task="text2text-generation", tensor_parallel_degree=1)
    )
    engine = EngineSpec(
        name="triton",
        tensor_parallel_degree=1,
        handler=handler,
        properties=settings,
        packages=triton.ENGINE.packages(handler),
    )
    return replace(made, engine=engine, weights=replace(made.weights, files=(*files, *named)))


def repository(made: Spec, at: str = "") -> dict[str, str]:
    artifact = render(made)
    files = artifact.filled(at) if at else artifact.files
    return {file.path: file.content.decode() for file in files}


def test_python_backend_is_one_model_with_the_options_of_the_recipe() -> None:
    options = (
        ("max_batch_size", "8"),
        ("preferred_batch_size", "2,8"),
        ("max_queue_delay_microseconds", "5000"),
        ("instance_count", "2"),
        ("gpus", "0,1"),
    )
    files = repository(triton_spec(options), at='/a "b"/wéights')
    assert sorted(files) == [MARKER, "model/1/model.py", "model/config.pbtxt"]
    config = files["model/config.pbtxt"]
    for line in (
        'name: "model"',
        'backend: "python"',
        "max_batch_size: 8",
        "  preferred_batch_size: [ 2, 8 ]",
        "  max_queue_delay_microseconds: 5000",
        "instance_group [ { count: 2 kind: KIND_AUTO gpus: [ 0, 1 ] } ]",
        'parameters { key: "weights" value { string_value: "/a \\"b\\"/w\\u00e9ights" } }',
    ):
        assert line in config.splitlines()


def test_compiled_backend_is_an_ensemble_that_names_every_model() -> None:
    compiled = ("encoder.plan", "decoder.plan")
    files = repository(triton_spec((("backend", "tensorrt"),), weights=compiled), at="/opt/weights")
    models = sorted(path.removesuffix("/config.pbtxt") for path in files if path.endswith("config.pbtxt"))
    assert models == ["decoder", "encoder", "generator", "model", "tokenizer"]
    # SageMaker's container loads `model` alone, and Triton its steps: without a step the decoder would be missing.
    assert all(f'model_name: "{name}"' in files["model/config.pbtxt"] for name in models if name != "model")
    for name in ("encoder", "decoder"):
        assert f'../../opt/weights/{name}.plan"' in files[f"{name}/config.pbtxt"].replace("..//", "../")
        assert f"{name}/1/README.txt" in files


@pytest.mark.parametrize("missing", ["encoder.onnx", "decoder.onnx"])
def test_compiled_backend_needs_both_files(missing: str) -> None:
    existing = tuple({"encoder.onnx", "decoder.onnx"} - {missing})
    with pytest.raises(Unresolvable, match=f"no {missing} among the chosen files"):
        render(triton_spec((("backend", "onnxruntime"),), weights=existing))


def test_packed_environment_must_be_among_the_weights() -> None:
    options = (("execution_environment", "environment.tar.gz"),)
    with pytest.raises(Unresolvable, match=r"no environment\.tar\.gz"):
        render(triton_spec(options))
    files = repository(triton_spec(options, weights=("environment.tar.gz",)), at="/w")
    assert (
        'key: "EXECUTION_ENV_PATH" value { string_value: "/w/environment.tar.gz" }'
        in files["model/config.pbtxt"]
    )


def test_own_model_py_takes_the_place_of_the_template() -> None:
    made = replace(triton_spec(handler=OWN), inputs=Inputs(model_py=b"# mine\n", requirements=b""))
    assert repository(made)["model/1/model.py"] == "# mine\n"


def test_artifact_changes_with_every_option() -> None:
    digests = {Artifact(render(triton_spec()).files).digest}
    changed = {"max_batch_size": "4", "dynamic_batching": "false", "max_new_tokens": "9", "dtype": "fp16"}
    for pair in changed.items():
        digests.add(render(triton_spec((pair,))).digest)
    assert len(digests) == 1 + len(changed)


def test_request_is_a_tensor_of_the_v2_protocol_and_its_response_is_text() -> None:
    codec = Codec(triton.ENGINE, TEXT, "text2text-generation")
    request = InferenceRequest(prompt="Grüße", parameters={"max_tokens": 3}, chat=False)
    text, parameters = json.loads(codec.encode(request).body)["inputs"]
    assert text == {"name": "text", "shape": [1, 1], "datatype": "BYTES", "data": ["Grüße"]}
    assert (parameters["name"], json.loads(parameters["data"][0])) == ("parameters", {"max_new_tokens": 3})
    tensor = {"name": "generated_text", "datatype": "BYTES", "shape": [2, 1], "data": ["one", "two"]}
    decoder = codec.decoder(JSON, request)
    body = json.dumps({"model_name": "model", "outputs": [tensor]}).encode()
    assert [*decoder.feed(body), *decoder.close()] == [Chunk(text="one\ntwo")]


def test_error_of_triton_is_shown_in_its_own_words() -> None:
    head = ResponseHead(status=400, reason="Bad Request", headers=())
    decoder = triton.ENGINE.decoder(head, InferenceRequest(prompt="x"), TEXT)
    assert decoder.feed(b'{"error":"unexpected inference input"}') == []
    assert decoder.close() == [Chunk(error="400: unexpected inference input")]


def test_conversation_is_refused() -> None:
    with pytest.raises(UsageRefused, match="no system prompt"):
        triton.ENGINE.encode(InferenceRequest(prompt="x", system="be short"), TEXT, "text2text-generation")


@pytest.mark.parametrize(
    ("handler", "task", "words"),
    [
        (Handler(builtin="djl_python.huggingface"), "text2text-generation", "no builtin"),
        (Handler(template="text-generation"), "text-generation", "no template: text-generation"),
        (Handler(), "text-generation", "no model.py for task text-generation"),
        (Handler(), None, "no model.py for task unknown"),
    ],
)
def test_handler_that_triton_cannot_run_is_refused(handler: Handler, task: None, words: str) -> None:
    with pytest.raises(Unresolvable, match=words):
        triton.ENGINE.handler(handler, task)


def test_compiled_backend_is_refused_on_this_machine() -> None:
    settings = triton.ENGINE.properties(
        EngineInputs(TEXT, (("backend", "tensorrt"),), task="text2text-generation", tensor_parallel_degree=1)
    )
    made = replace(triton_spec().engine, properties=settings)
    with pytest.raises(Unresolvable, match="tensorrt does not run on this machine") as refusal:
        triton.ENGINE.local_setup(made, recipe(), Machine(memory=1, cores=1, accelerators=()))
    assert "options.backend=python" in refusal.value.hint


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("backend", "openvino", "is not one of python, onnxruntime, tensorrt"),
        ("max_batch_size", "0", "is not a whole number from 1 to 1024"),
        ("max_batch_size", "many", "is not a whole number"),
        ("dynamic_batching", "yes", "is not true or false"),
        ("preferred_batch_size", "4,x", "is not a list of whole numbers"),
        ("preferred_batch_size", "", "is not a list of whole numbers"),
        ("execution_environment", "../env.tar.gz", "is not the path of a file among the weights"),
        ("execution_environment", 'a"b', "is not the path of a file among the weights"),
    ],
)
def test_wrong_value_of_an_option_is_named(name: str, value: str, words: str) -> None:
    assert words in triton_value_mistake(name, value)
    with pytest.raises(Unresolvable, match=f"options.{name}"):
        triton.ENGINE.properties(EngineInputs(TEXT, ((name, value),), task=None, tensor_parallel_degree=1))


def test_default_of_every_option_is_valid() -> None:
    for name, option in OPTIONS.items():
        assert not option.default or not triton_value_mistake(name, option.default), name
    assert list(triton_pair_mistakes({})) == []


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"max_batch_size": "4", "preferred_batch_size": "2,8"}, "preferred_batch_size"),
        ({"dynamic_batching": "false", "max_queue_delay_microseconds": "5"}, "max_queue_delay_microseconds"),
        ({"instance_kind": "KIND_CPU", "gpus": "0"}, "gpus"),
        ({"backend": "tensorrt", "dtype": "fp16"}, "dtype"),
        ({"token_type": "int32"}, "token_type"),
    ],
)
def test_contradicting_options_are_named(options: dict[str, str], name: str) -> None:
    assert [found for found, _, _ in triton_pair_mistakes(options)] == [name]
