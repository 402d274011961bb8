"""`lmi import`: every spelling of a setting, removed engines, and what is left out."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmi_deploy.domain.recipe_keys import Recipe
from lmi_deploy.errors import UsageRefused
from lmi_deploy.recipe.import_settings import merged_settings, parse_environment
from lmi_deploy.recipe.recipe_import import ImportedRecipe, ImportSource, import_recipe, newest_version
from tests.support.recipe_parsing import CHECKED, parse

MODEL = {"option.model_id": "org/some-model"}


def imported(properties: dict[str, str], **more: Any) -> ImportedRecipe:
    source = ImportSource(origin="x", properties=properties, **more)
    return import_recipe(source, version=newest_version(), instances=("ml.g5.12xlarge",), purpose=CHECKED)


def recipe_of(properties: dict[str, str], **more: Any) -> Recipe:
    return parse(imported(properties, **more).text, "r.yaml")


@pytest.mark.parametrize(
    ("properties", "environment"),
    [
        ({"option.model_id": "s3://bucket/m/", "option.tensor_parallel_degree": "4"}, {}),
        ({"option.s3url": "s3://bucket/m/", "option.tensor_parallel_degree": "4"}, {}),
        ({}, {"OPTION_MODEL_ID": "s3://bucket/m/", "OPTION_TENSOR_PARALLEL_DEGREE": "4"}),
        ({}, {"HF_MODEL_ID": "s3://bucket/m/", "TENSOR_PARALLEL_DEGREE": "4"}),
        ({"option.model_id": "s3://bucket/m/"}, {"HF_MODEL_ID": "other/m", "TENSOR_PARALLEL_DEGREE": "4"}),
    ],
)
def test_every_spelling_of_a_setting_is_read_equally(
    properties: dict[str, str], environment: dict[str, str]
) -> None:
    recipe = recipe_of({"engine": "MPI", **properties}, environment=environment)
    assert (recipe.model_id, recipe.tensor_parallel_degree, recipe.engine) == ("s3://bucket/m/", 4, "vllm")
    assert recipe.instance_type == ("ml.g5.12xlarge",)


def test_sagemaker_variables_override_the_file_and_the_file_overrides_options() -> None:
    settings, others = merged_settings(
        {"minWorkers": "1", "option.dtype": "fp16", "option.predict_timeout": "30"},
        {
            "SAGEMAKER_NUM_MODEL_WORKERS": "2",
            "OPTION_DTYPE": "bf16",
            "OPTION_MixedCase": "x",
            "NCCL_DEBUG": "INFO",
        },
    )
    assert settings == {
        "option.MixedCase": "x",
        "option.dtype": "fp16",
        "option.predict_timeout": "30",
        "minWorkers": "2",
        "maxWorkers": "2",
    }
    assert others == {"NCCL_DEBUG": "INFO"}


@pytest.mark.parametrize(
    ("properties", "engine", "note"),
    [
        (
            {"engine": "FasterTransformer", "option.model_id": "google/flan-t5-xxl"},
            "accelerate",
            "FasterTransformer became accelerate",
        ),
        ({"engine": "FasterTransformer", **MODEL}, "vllm", "FasterTransformer became vllm"),
        ({"engine": "DeepSpeed", **MODEL}, "vllm", "DeepSpeed became vllm"),
        ({"option.entryPoint": "djl_python.deepspeed", **MODEL}, "vllm", "DeepSpeed became vllm"),
        (
            {"option.entryPoint": "djl_python.transformers_neuronx", **MODEL},
            "vllm",
            "Transformers-NeuronX became vllm",
        ),
        ({"engine": "MPI", "option.rolling_batch": "trtllm", **MODEL}, "vllm", "TensorRT-LLM became vllm"),
        ({"engine": "MPI", "option.rolling_batch": "lmi-dist", **MODEL}, "vllm", "lmi-dist became vllm"),
        ({"option.rolling_batch": "scheduler", **MODEL}, "vllm", "the rolling batch scheduler became vllm"),
    ],
)
def test_removed_engine_is_replaced_and_the_difference_noted(
    properties: dict[str, str], engine: str, note: str
) -> None:
    found = imported(properties)
    assert parse(found.text, "r.yaml").engine == engine
    assert any(one.startswith(note) for one in found.notes)
    assert f"# - {note}" in found.text


@pytest.mark.parametrize(
    ("properties", "engine", "version"),
    [
        ({"engine": "FasterTransformer", "option.s3url": "s3://bucket/flan/"}, "fastertransformer", "0.21.0"),
        ({"engine": "DeepSpeed", **MODEL}, "deepspeed", "0.27.0"),
        ({"engine": "MPI", "option.rolling_batch": "trtllm", **MODEL}, "tensorrt-llm", "0.33.0"),
        ({"engine": "MPI", "option.rolling_batch": "lmi-dist", **MODEL}, "lmi-dist", "0.30.0"),
        ({"option.entryPoint": "djl_python.transformers_neuronx", **MODEL}, "neuronx", "0.29.0"),
        ({"engine": "DeepSpeed", **MODEL}, "vllm", "0.28.0"),
    ],
)
def test_version_that_contains_the_old_engine_keeps_it(
    properties: dict[str, str], engine: str, version: str
) -> None:
    source = ImportSource(origin="x", properties={**properties, "option.dtype": "fp16"})
    instance = "ml.inf2.xlarge" if engine == "neuronx" else "ml.g5.12xlarge"
    found = import_recipe(source, version=version, instances=(instance,) if instance else (), purpose=CHECKED)
    recipe = parse(found.text, "r.yaml")
    assert (recipe.engine, recipe.container.version) == (engine, version)
    assert ("dtype", "fp16") in recipe.options
    assert any("is kept" in note for note in found.notes) == (engine != "vllm")


def test_own_code_keeps_the_old_engine_too() -> None:
    source = ImportSource(origin="x", properties={"engine": "DeepSpeed", **MODEL}, model_py="model.py")
    found = import_recipe(source, version="0.27.0", instances=("ml.g5.12xlarge",), purpose=CHECKED)
    recipe = parse(found.text, "r.yaml")
    assert (recipe.engine, recipe.handler.file) == ("deepspeed", "model.py")


def test_note_names_the_version_that_keeps_an_old_engine() -> None:
    (note,) = imported({"engine": "FasterTransformer", **MODEL}).notes
    assert note.endswith("To keep FasterTransformer, add --version 0.24.0.")


@pytest.mark.parametrize(
    ("properties", "engine", "builtin"),
    [
        ({"option.entryPoint": "djl_python.huggingface", **MODEL}, "accelerate", "djl_python.huggingface"),
        ({"engine": "Python", **MODEL}, "vllm", None),
        ({"option.task": "text-classification", **MODEL}, "accelerate", None),
    ],
)
def test_supported_engine_is_kept(properties: dict[str, str], engine: str, builtin: str | None) -> None:
    found = imported(properties)
    recipe = parse(found.text, "r.yaml")
    assert (recipe.engine, recipe.handler.builtin) == (engine, builtin)
    assert found.notes == ()


def test_option_that_lmi_chooses_is_left_out_with_a_note() -> None:
    found = imported({"engine": "Python", "option.rolling_batch": "vllm", "option.mpi_mode": "true", **MODEL})
    assert (parse(found.text, "r.yaml").engine, parse(found.text, "r.yaml").options) == ("vllm", ())
    assert found.notes == (
        "option.rolling_batch=vllm was left out: lmi chooses it for engine vllm",
        "option.mpi_mode=true was left out: lmi chooses it for engine vllm",
    )
    assert f"# - {found.notes[0]}" in found.text


def test_options_of_an_old_server_are_translated_or_listed() -> None:
    found = imported(
        {
            **MODEL,
            "option.max_tokens": "2048",
            "option.load_in_8bit": "true",
            "option.paged_attention": "true",
            "option.enable_streaming": "banana",
            "option.max_model_len": "8192",
        }
    )
    recipe = parse(found.text, "r.yaml")
    assert recipe.options == (("max_model_len", "8192"),)
    notes = "\n".join(found.notes)
    assert "options.quantize: bitsandbytes was removed: 'bitsandbytes' is not one of" in notes
    assert "option.paged_attention=true was dropped: removed in 0.26.0" in notes
    assert "option.enable_streaming=banana was dropped: banana is not one of" in notes
    assert "option.max_tokens=2048 was dropped: " in notes


def test_own_handler_is_imported_with_a_guessed_probe() -> None:
    recipe = recipe_of(
        {"engine": "DeepSpeed", **MODEL}, model_py="./old/model.py", requirements="./old/requirements.txt"
    )
    assert (recipe.engine, recipe.handler.file) == ("custom", "./old/model.py")
    assert recipe.requirements == "./old/requirements.txt"
    assert recipe.probe is not None
    assert recipe.probe.body == '{"inputs": "OK"}'


def test_secrets_and_process_variables_are_left_out() -> None:
    found = imported(
        MODEL,
        environment={
            "HF_TOKEN": "hf_" + "a" * 30,
            "PATH": "/bin",
            "NCCL_DEBUG": "INFO",
            "VLLM_X": "hf_" + "b" * 34,
        },
    )
    assert "hf_a" not in found.text
    assert "hf_b" not in found.text
    assert parse(found.text, "r.yaml").container.environment == (("NCCL_DEBUG", "INFO"),)
    assert any("lmi does not import secrets: HF_TOKEN, VLLM_X" in note for note in found.notes)
    assert any("or the image: PATH" in note for note in found.notes)


def test_timeouts_and_trust_become_recipe_keys() -> None:
    recipe = recipe_of(
        {
            **MODEL,
            "option.model_loading_timeout": "7200",
            "option.predict_timeout": "600",
            "option.trust_remote_code": "True",
            "option.trust_insecure_model_files": "true",
            "option.revision": "v2",
        }
    )
    assert (recipe.timeouts.model_loading, recipe.timeouts.predict) == (3600, 60)
    assert (recipe.trust_remote_code, recipe.files.allow_pickle, recipe.revision) == (True, True, "v2")


def test_settings_without_a_model_are_refused() -> None:
    with pytest.raises(UsageRefused, match="names no model"):
        imported({"engine": "Python"})


@pytest.mark.parametrize(
    "text",
    [
        "# old\nexport A='1'\nB=2\n\n",
        json.dumps(["A=1", "B=2"]),
        json.dumps({"A": "1", "B": 2}),
        json.dumps([{"Config": {"Env": ["A=1", "B=2"]}}]),
        json.dumps({"PrimaryContainer": {"Image": "x", "Environment": {"A": "1", "B": "2"}}}),
    ],
)
def test_environment_is_read_in_every_common_format(text: str) -> None:
    assert parse_environment(text) == {"A": "1", "B": "2"}


@pytest.mark.parametrize("text", ["no variable", "{", "[1]", '{"a": {"b": 1}}', "[" * 100_000, "1A=2"])
def test_invalid_environment_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_environment(text)


@given(
    st.dictionaries(
        st.sampled_from(
            [
                "engine",
                "option.entryPoint",
                "option.rolling_batch",
                "option.dtype",
                "option.tensor_parallel_degree",
                "option.predict_timeout",
                "option.revision",
                "option.task",
                "batch_size",
                "option.x y",
            ]
        ),
        st.one_of(st.text(max_size=20), st.text(max_size=20).map("{{\nx-a: {}".format)),
    )
)
def test_imported_text_cannot_inject_recipe_lines(properties: dict[str, str]) -> None:
    found = imported({**properties, **MODEL})
    assert "\nname: some-model\nmodel_id: org/some-model\n" in found.text
    assert "\nx-a" not in found.text
