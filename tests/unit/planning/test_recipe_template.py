"""`lmi init`: what it writes validates, says why, and trusts nothing that a repository says about itself."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmi_deploy.domain.byte_units import GIB
from lmi_deploy.domain.facts import FileEntry, ModelListing
from lmi_deploy.domain.naming import name_error
from lmi_deploy.planning.recipe_template import choose, name_for
from lmi_deploy.recipe.model.declaration import TEMPLATES
from lmi_deploy.recipe.parse import parse
from lmi_deploy.sizing.instance_selection import hardware_for, startup_for

COMMIT = "12fd25f77366fa6b3b4b768ec3050bf629380bac"
LLAMA = {"architectures": ["LlamaForCausalLM"], "num_attention_heads": 32}


def listing(*files: tuple[str, int], model_id: str = "owner/Some_Model-7B", **more: Any) -> ModelListing:
    entries = tuple(FileEntry(path=path, size=size, oid="0" * 40, kind="git-sha1") for path, size in files)
    return ModelListing(model_id=model_id, commit=COMMIT, files=entries, **more)


SAFE = (("config.json", 700), ("model.safetensors", 13 * GIB), ("tokenizer.json", 2_000_000))


def test_a_chat_model_gets_our_template_and_its_arithmetic() -> None:
    text = choose(listing(*SAFE), LLAMA)
    recipe = parse(text, "some-model-7b.yaml")
    assert text.startswith("# yaml-language-server: $schema=recipe.schema.json\n")
    assert (recipe.name, recipe.model_id, recipe.revision) == ("some-model-7b", "owner/Some_Model-7B", "main")
    assert (recipe.engine, recipe.task, recipe.handler.template) == (
        "accelerate",
        "text-generation",
        "text-generation",
    )
    assert recipe.timeouts.container_startup == 300
    assert COMMIT in text
    assert "# instance_type: ml.g5.xlarge" in text
    assert "13.0 GiB x 1.3 = 16.9 GiB, on 1 of 1 GPUs with 24 GiB each" in text


@pytest.mark.parametrize(
    ("config", "replaced", "engine"),
    [
        (LLAMA, ("engine:", "handler:", "endpoint:"), "vllm"),
        ({"architectures": ["BertForSequenceClassification"]}, ("endpoint:",), "accelerate"),
    ],
)
def test_what_it_reports_of_sagemaker_validates(
    config: dict[str, Any], replaced: tuple[str, ...], engine: str
) -> None:
    path, _, cloud = choose(listing(*SAFE), config).partition("# On SageMaker, in place of ")
    kept = [line for line in path.splitlines() if not line.startswith(replaced)]
    recipe = parse("\n".join([*kept, *(line[2:] for line in cloud.splitlines()[1:])]), "r.yaml")
    assert (recipe.endpoint.target, recipe.engine) == ("sagemaker", engine)
    assert recipe.instance_type == ("ml.g5.xlarge",)


def test_other_tasks_get_djls_own_handler() -> None:
    recipe = parse(choose(listing(*SAFE), {"architectures": ["BertForQuestionAnswering"]}), "r.yaml")
    assert (recipe.task, recipe.handler.builtin) == ("question-answering", "djl_python.huggingface")


def test_each_template_is_chosen_for_its_task() -> None:
    text = choose(listing(*SAFE, pipeline_tag="sentence-similarity"), {"architectures": ["BertModel"]})
    recipe = parse(text, "r.yaml")
    assert (recipe.task, recipe.handler.template) == ("text-embedding", "text-embedding")
    for task in TEMPLATES:
        assert parse(choose(listing(*SAFE, pipeline_tag=task), {}), "r.yaml").handler.template == task


def test_what_no_one_reports_is_left_to_the_user() -> None:
    recipe = parse(choose(listing(*SAFE), {}), "r.yaml")
    assert recipe.task is None


def test_pickles_and_remote_code_are_offered_not_chosen() -> None:
    text = choose(listing(("pytorch_model.bin", GIB)), {**LLAMA, "auto_map": {"AutoModel": "x.Y"}})
    recipe = parse(text, "r.yaml")
    assert not recipe.files.allow_pickle
    assert not recipe.trust_remote_code
    assert "\n# files: {allow_pickle: true}\n" in text
    assert "\n# trust_remote_code: true\n" in text


def test_a_folder_has_no_revision() -> None:
    text = choose(listing(*SAFE, model_id="./models/My Model", source="folder"), LLAMA)
    assert parse(text, "r.yaml").model_id == "./models/My Model"
    assert "revision:" not in text


@pytest.mark.parametrize(
    ("weights", "heads", "instance", "degree"),
    [
        (1, 32, "ml.g5.xlarge", 1),
        (40, 32, "ml.g5.12xlarge", 4),
        (40, 30, "ml.p4d.24xlarge", 2),
        (130, 64, "ml.g5.48xlarge", 8),
        (400, 64, "ml.p5.48xlarge", 8),
        (5000, 64, "ml.p5en.48xlarge", 8),
    ],
)
def test_hardware_holds_the_weights_and_divides_the_heads(
    weights: int, heads: int, instance: str, degree: int
) -> None:
    chosen = hardware_for(weights * GIB, heads)
    assert (chosen.instance, chosen.degree) == (instance, degree)
    assert ("quantize" in chosen.why) == (weights == 5000)


def test_start_up_time_grows_with_the_weights_within_sagemakers_limits() -> None:
    assert [startup_for(size * GIB)[0] for size in (0, 1, 50, 5000)] == [300, 300, 660, 3600]


@given(st.text(max_size=120))
def test_any_name_becomes_one_that_can_be_a_deployments(model_id: str) -> None:
    name = name_for(model_id)
    assert name_error(name) == ""
    assert len(name) <= 40


@given(st.text(max_size=40), st.text(max_size=20), st.sampled_from([None, "text-generation", "x\ny: z"]))
def test_a_unsafe_repository_adds_no_line_to_the_recipe(
    architecture: str, tag: str, pipeline: str | None
) -> None:
    config = {"architectures": [f"{architecture}\nendpoint: {tag}"], "num_attention_heads": tag}
    recipe = parse(choose(listing(*SAFE, pipeline_tag=pipeline), config), "r.yaml")
    assert recipe.endpoint.target == "local"
