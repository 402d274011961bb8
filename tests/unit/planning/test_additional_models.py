"""LoRA adapters and the draft model: what a spec pins of them, and which adapters vLLM would refuse or ignore."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.gathered_facts import (
    AdapterFacts,
    AvailableRuntimes,
    DraftFacts,
    Facts,
    FileEntry,
    ModelListing,
    Tensors,
)
from lmi_deploy.errors import Unresolvable
from lmi_deploy.planning.adapter_checks import adapter_notes
from lmi_deploy.planning.additional_models import draft_source
from lmi_deploy.planning.render import render
from tests.support.factories import facts, listing, recipe, resolve

Q_PROJ = "model.layers.0.self_attn.q_proj"
MODEL = Tensors(headers={"model.safetensors": ((f"{Q_PROJ}.weight", "BF16", (16, 8)),)})
CONTAINER = AvailableRuntimes(names=("container",))
FILES = ("README.md", "adapter_config.json", "adapter_model.safetensors", "model.py", "optimizer.pt")


def adapter(
    name: str = "french", *files: str, inputs: int = 8, module: str = Q_PROJ, **config: Any
) -> AdapterFacts:
    return AdapterFacts(
        name=name,
        revision="main",
        listing=replace(listing(*(files or FILES)), model_id=f"org/{name}"),
        config={"peft_type": "LORA", "r": 4, "base_model_name_or_path": "org/m", **config},
        tensors=((f"base_model.model.{module}.lora_A.weight", "F32", (4, inputs)),),
    )


def resolved(*adapters: AdapterFacts, extra: str = "", **more: Any) -> Spec:
    observed = facts(tensors=MODEL, adapters=adapters, runtimes=CONTAINER, **more)
    container = "container: {image: 'local/djl:1'}\n"
    return resolve(recipe(f"{container}{extra}", engine="vllm"), observed)


def test_adapters_are_pinned_with_the_files_that_vllm_reads() -> None:
    spec = resolved(adapter("french"), adapter("danish"))
    assert [each.name for each in spec.weights.adapters] == ["danish", "french"]
    (danish, french) = spec.weights.adapters
    assert [file.path for file in french.files] == ["adapter_config.json", "adapter_model.safetensors"]
    assert danish.commit == "c" * 40
    assert spec.probe.adapters == ("danish", "french")
    copied = [file.path for file in render(spec).copied]
    assert copied == [
        "adapters/danish/adapter_config.json",
        "adapters/danish/adapter_model.safetensors",
        "adapters/french/adapter_config.json",
        "adapters/french/adapter_model.safetensors",
    ]


def test_server_gets_the_options_that_adapters_need() -> None:
    properties = dict(resolved(adapter(r=4), adapter("danish", r=20)).engine.properties)
    assert properties["option.enable_lora"] == "true"
    assert properties["option.max_lora_rank"] == "32"
    assert properties["option.max_loras"] == "2"


def test_options_of_the_recipe_stay() -> None:
    extra = "adapters: {french: org/french}\noptions: {max_loras: 1, max_lora_rank: 64}\n"
    properties = dict(resolved(adapter(), extra=extra).engine.properties)
    assert (properties["option.max_loras"], properties["option.max_lora_rank"]) == ("1", "64")


def test_changed_adapter_changes_the_artifact_and_nothing_else_of_the_settings() -> None:
    first = resolved(adapter())
    changed = replace(
        adapter(),
        listing=replace(adapter().listing, files=_other_content(adapter().listing), commit="d" * 40),
    )
    second = resolved(changed)
    assert render(first).digest != render(second).digest
    assert render(first).files == render(second).files
    assert first.digest != second.digest
    assert first.weights.files == second.weights.files


def _other_content(of: ModelListing) -> tuple[FileEntry, ...]:
    return tuple(replace(file, oid="e" * 64) for file in of.files)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (adapter(r=600), "its rank is 600; vLLM loads at most 512"),
        (adapter(r=None), "states no rank"),
        (adapter(use_dora=True), "uses DoRA"),
        (adapter(modules_to_save=["lm_head"]), "replaces whole modules (lm_head)"),
        (adapter(bias="all"), "changes biases (bias: all)"),
        (adapter(peft_type="PREFIX_TUNING"), "of the type PREFIX_TUNING"),
        (adapter(inputs=16), "has 16 inputs, but 8 in the model"),
        (adapter(module="transformer.h.0.c_attn"), "it changes no module of the model"),
        (adapter("french", "config.json", "model.safetensors"), "has no adapter_config.json"),
        (adapter("french", "adapter_config.json", "adapter_model.bin"), "only as pickle"),
        (adapter("french", "adapter_config.json"), "has no adapter_model.safetensors"),
    ],
)
def test_adapter_that_would_fail_or_do_nothing_is_refused(wrong: AdapterFacts, words: str) -> None:
    with pytest.raises(Unresolvable) as error:
        resolved(wrong)
    assert error.value.message.startswith("adapters.french: ")
    assert words in error.value.message
    assert error.value.hint


def test_rank_above_the_option_is_refused() -> None:
    extra = "adapters: {french: org/french}\noptions: {max_lora_rank: 8}\n"
    with pytest.raises(Unresolvable, match=r"its rank is 16, more than options.max_lora_rank, 8"):
        resolved(adapter(r=16), extra=extra)


def test_every_wrong_adapter_is_named() -> None:
    with pytest.raises(Unresolvable) as error:
        resolved(adapter(use_dora=True), adapter("danish", r=1000))
    assert "adapters.french" in error.value.message
    assert any("adapters.danish: its rank is 1000" in line for line in error.value.details)


def test_pickled_adapter_is_taken_if_the_recipe_allows_it() -> None:
    pickled = replace(adapter("french", "adapter_config.json", "adapter_model.bin"), tensors=())
    spec = resolved(pickled, extra="files: {allow_pickle: true}\n")
    assert [file.path for file in spec.weights.adapters[0].files] == [
        "adapter_config.json",
        "adapter_model.bin",
    ]


@pytest.mark.parametrize(
    ("base", "noted"), [("org/m", False), ("ORG/M", False), ("other/base", True), ("/data/base", False)]
)
def test_adapter_of_another_base_model_is_noted(base: str, noted: bool) -> None:
    observed: Facts = facts(adapters=(adapter(base_model_name_or_path=base),))
    notes = adapter_notes(recipe("container: {image: 'local/djl:1'}\n", engine="vllm"), observed)
    assert bool(notes) is noted
    assert all("was trained for other/base" in note for note in notes)


def speculative(model: str, **more: object) -> str:
    table = json.dumps({"model": model, "num_speculative_tokens": 3, **more})
    return f"container: {{image: 'local/djl:1'}}\noptions: {{speculative_config: '{table}'}}\n"


@pytest.mark.parametrize(
    ("model", "travels"),
    [
        ("org/draft", True),
        ("s3://bucket/draft/", True),
        ("./draft", True),
        ("/opt/ml/model/draft", False),
        ("ngram", False),
        ("[ngram]", False),
    ],
)
def test_draft_model_with_a_repository_travels(model: str, travels: bool) -> None:
    found = draft_source(recipe(speculative(model, revision="v2"), engine="vllm"))
    assert (found == (model, "v2")) is travels
    assert (found is None) is not travels


def test_location_of_the_draft_model_is_filled_in_by_the_target() -> None:
    draft = DraftFacts(
        revision="v2", listing=replace(listing("config.json", "model.safetensors"), model_id="org/draft")
    )
    given = recipe(speculative("org/draft", revision="v2"), engine="vllm")
    spec = resolve(given, facts(draft=draft, runtimes=CONTAINER))
    (additional,) = spec.weights.additional
    assert (additional.role, additional.commit, additional.size) == ("draft", "c" * 40, 20)
    assert not render(spec).copied
    filled = {file.path: file.content for file in render(spec).filled("/weights", draft="/dra\\ft")}
    (line,) = [line for line in filled["serving.properties"].decode().splitlines() if "speculative" in line]
    value = line.partition("=")[2].replace("\\\\", "\\")
    assert json.loads(value) == {"model": "/dra\\ft", "num_speculative_tokens": 3}


def test_file_of_the_user_is_part_of_the_artifact() -> None:
    spec = resolve(recipe(), facts(extra_files=(("data/labels.json", b"[]"),)))
    assert ("data/labels.json", b"[]") in [(file.path, file.content) for file in render(spec).files]


@pytest.mark.parametrize("path", ["Serving.properties", "model.py/x", "serving.properties"])
def test_file_of_the_user_never_replaces_one_of_the_engine(path: str) -> None:
    spec = resolve(recipe(), facts(extra_files=((path, b""),)))
    with pytest.raises(Unresolvable, match="they are one path"):
        render(spec)


@pytest.mark.parametrize(
    ("container", "mixes"),
    [
        ("", True),
        ("container: {version: 0.34.0, image: 'x/djl-inference:0.34.0-lmi16'}\n", True),
        ("container: {image: 'x/djl-inference:0.36.0-lmi27'}\n", False),
    ],
)
def test_server_that_mixes_up_adapters_is_noted(container: str, mixes: bool) -> None:
    notes = adapter_notes(recipe(container, engine="vllm"), facts(adapters=(adapter(),)))
    assert any("ignores the adapter in a stream" in note for note in notes) is mixes
    assert not adapter_notes(recipe(container, engine="vllm"), facts())
