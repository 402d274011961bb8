"""`lmi init`: what it writes is valid, gives reasons, and trusts nothing that a repository says about
itself."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmi_deploy.catalog import images, options
from lmi_deploy.domain.byte_units import GIB
from lmi_deploy.domain.deployment_names import name_error, name_for
from lmi_deploy.domain.gathered_facts import FileEntry, ModelListing
from lmi_deploy.domain.recipe_keys import Recipe
from lmi_deploy.errors import Unresolvable
from lmi_deploy.planning.recipe_generation import (
    Choice,
    InitEngine,
    decisions_left,
    engine_for,
    summarize,
    write_recipe,
)
from lmi_deploy.recipe.model.key_readers import TEMPLATES
from tests.support.recipe_parsing import parse

COMMIT = "12fd25f77366fa6b3b4b768ec3050bf629380bac"
LLAMA = {"architectures": ["LlamaForCausalLM"], "num_attention_heads": 32}
HERE = Choice(target="local", engine="accelerate", startup=600, startup_why="it is small.")
CLOUD = Choice(
    target="sagemaker",
    engine="vllm",
    region="eu-west-1",
    instance="ml.g5.12xlarge",
    price="7.09 USD per hour in us-east-1",
    why="The cheapest.",
    degree=4,
    version="0.36.0",
    options=(("max_model_len", "8192", "There is room."),),
    startup=900,
    startup_why="it is large.",
)


def listing(*files: tuple[str, int], model_id: str = "owner/Some_Model-7B", **more: Any) -> ModelListing:
    entries = tuple(FileEntry(path=path, size=size, oid="0" * 40, kind="git-sha1") for path, size in files)
    return ModelListing(model_id=model_id, commit=COMMIT, files=entries, **more)


SAFE = (("config.json", 700), ("model.safetensors", 13 * GIB), ("tokenizer.json", 2_000_000))


def text_of(
    found: ModelListing, config: dict[str, Any], choice: Choice = HERE, *, plain: bool = False
) -> str:
    summary = summarize(found, config)
    return write_recipe(summary, choice, revision="main", schema="recipe.schema.json", plain=plain)


def recipe_of(found: ModelListing, config: dict[str, Any], choice: Choice = HERE) -> Recipe:
    return parse(text_of(found, config, choice), "r.yaml")


def test_local_recipe_has_our_template_and_reasons() -> None:
    text = text_of(listing(*SAFE), LLAMA)
    recipe = parse(text, "some-model-7b.yaml")
    assert text.startswith("# yaml-language-server: $schema=recipe.schema.json\n")
    assert (recipe.name, recipe.model_id, recipe.revision) == ("some-model-7b", "owner/Some_Model-7B", "main")
    assert (recipe.engine, recipe.task) == ("accelerate", "text-generation")
    assert recipe.handler.template == "text-generation"
    assert recipe.timeouts.container_startup == 600
    assert COMMIT in text
    assert "13.00 GiB to download" in text
    assert "It is text-generation: class LlamaForCausalLM." in text


def test_sagemaker_recipe_has_every_choice() -> None:
    recipe = recipe_of(listing(*SAFE), LLAMA, CLOUD)
    assert (recipe.endpoint.target, recipe.endpoint.region) == ("sagemaker", "eu-west-1")
    assert (recipe.instance_type, recipe.tensor_parallel_degree) == (("ml.g5.12xlarge",), 4)
    assert (recipe.container.version, recipe.options) == ("0.36.0", (("max_model_len", "8192"),))
    assert recipe.handler.template is None
    assert "instance_type: ml.g5.12xlarge  # 7.09 USD per hour" in text_of(listing(*SAFE), LLAMA, CLOUD)


@pytest.mark.parametrize("choice", [HERE, CLOUD])
def test_plain_recipe_is_equal_without_comments(choice: Choice) -> None:
    found = listing(*SAFE)
    plain = text_of(found, LLAMA, choice, plain=True)
    assert "#" not in plain
    assert "\n\n" not in plain
    assert parse(plain, "r.yaml") == recipe_of(found, LLAMA, choice)


def test_class_of_a_model_decides_its_template() -> None:
    recipe = recipe_of(listing(*SAFE), {"architectures": ["BertForQuestionAnswering"]})
    assert (recipe.task, recipe.handler.template) == ("question-answering", "question-answering")


def test_each_template_is_chosen_for_its_task() -> None:
    for task in TEMPLATES:
        assert recipe_of(listing(*SAFE, pipeline_tag=task), {}).handler.template == task


def test_image_template_is_chosen_where_vllm_does_not_run() -> None:
    model = summarize(listing(*SAFE), VISION).recognition
    assert engine_for(model, None, can_run_vllm=False) == "accelerate"
    assert recipe_of(listing(*SAFE), VISION).handler.template == "image-text-to-text"


def test_unknown_task_is_left_to_the_user() -> None:
    assert recipe_of(listing(*SAFE), {}).task is None
    assert any("the task is unknown" in note for note in decisions_left(summarize(listing(*SAFE), {})))


def test_pickle_and_remote_code_are_offered_but_not_enabled() -> None:
    found, config = listing(("pytorch_model.bin", GIB)), {**LLAMA, "auto_map": {"AutoModel": "x.Y"}}
    text = text_of(found, config)
    recipe = parse(text, "r.yaml")
    assert not recipe.files.allow_pickle
    assert not recipe.trust_remote_code
    assert "\n# files: {allow_pickle: true}\n" in text
    assert "\n# trust_remote_code: true\n" in text
    assert len(list(decisions_left(summarize(found, config)))) == 2


def test_recipe_of_a_folder_has_no_revision() -> None:
    text = text_of(listing(*SAFE, model_id="./models/My Model", source="folder"), LLAMA)
    assert parse(text, "r.yaml").model_id == "./models/My Model"
    assert "revision:" not in text


VISION = {"architectures": ["Qwen2VLForConditionalGeneration"], "vision_config": {"depth": 32}}
HEARS = {"architectures": ["Qwen2AudioForConditionalGeneration"], "audio_config": {"depth": 32}}
T5 = {"architectures": ["T5ForConditionalGeneration"], "model_type": "t5"}


@pytest.mark.parametrize(
    ("config", "asked", "can_run_vllm", "engine"),
    [
        (LLAMA, None, False, "accelerate"),
        (LLAMA, None, True, "vllm"),
        (LLAMA, "accelerate", True, "accelerate"),
        (LLAMA, "vllm", False, "vllm"),
        (VISION, None, True, "vllm"),
        (T5, None, True, "accelerate"),
        (T5, None, False, "accelerate"),
    ],
)
def test_engine_is_chosen_by_model_and_machine(
    config: dict[str, Any], asked: InitEngine | None, can_run_vllm: bool, engine: str
) -> None:
    model = summarize(listing(*SAFE), config).recognition
    assert engine_for(model, asked, can_run_vllm=can_run_vllm) == engine


@pytest.mark.parametrize(
    ("config", "asked", "what"),
    [
        (T5, "vllm", "engine vllm does not support text2text-generation"),
        (HEARS, "accelerate", "engine accelerate does not support audio-language"),
        (HEARS, None, "needs engine vllm, which needs a GPU"),
        (
            {"architectures": ["BertForMaskedLM"]},
            None,
            "lmi cannot write a recipe for this model: class BertForMaskedLM",
        ),
    ],
)
def test_model_no_engine_serves_is_refused(
    config: dict[str, Any], asked: InitEngine | None, what: str
) -> None:
    model = summarize(listing(*SAFE), config).recognition
    with pytest.raises(Unresolvable, match=what) as refused:
        engine_for(model, asked, can_run_vllm=False)
    assert refused.value.hint


def test_image_of_a_new_recipe_exists() -> None:
    assert images.image("djl-lmi", options.newest_image(), "us-east-1").uri


@given(st.text(max_size=120))
def test_any_model_name_becomes_a_valid_deployment_name(model_id: str) -> None:
    name = name_for(model_id)
    assert name_error(name) == ""
    assert len(name) <= 40


@given(st.text(max_size=40), st.text(max_size=20), st.sampled_from([None, "text-generation", "x\ny: z"]))
def test_hostile_repository_cannot_inject_lines_into_the_recipe(
    architecture: str, tag: str, pipeline: str | None
) -> None:
    config = {"architectures": [f"{architecture}\nendpoint: {tag}"], "num_attention_heads": tag}
    recipe = recipe_of(listing(*SAFE, pipeline_tag=pipeline), config)
    assert recipe.endpoint.target == "local"
