"""From recipe and facts to a Spec: every value resolved, and impossible recipes refused with the reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.gathered_facts import Facts, Machine
from lmi_deploy.domain.recipe_keys import Recipe
from lmi_deploy.errors import Unresolvable
from tests.support.factories import facts, listing, recipe, resolve


def resolved(extra: str = "", *, observed: Facts | None = None) -> Spec:
    return resolve(recipe(extra), observed or facts())


def test_omitted_values_are_resolved() -> None:
    spec = resolved()
    assert (spec.model.commit, spec.model.task) == ("c" * 40, "text-generation")
    assert (spec.engine.tensor_parallel_degree, spec.engine.handler.template) == (1, "text-generation")
    assert (spec.place.runtime, spec.place.host, spec.place.port) == ("embedded", "127.0.0.1", 8080)
    assert (spec.place.device, spec.place.device_memory) == ("CPU", 8_000_000_000)
    assert spec.place.startup_timeout == 600
    assert dict(spec.engine.properties)["option.predict_timeout"] == "60"
    assert spec.probe.prompt == "Say OK"
    assert spec == resolved()


def test_given_values_are_kept() -> None:
    extra = (
        "task: text-classification\ntensor_parallel_degree: 2\ntrust_remote_code: true\n"
        "timeouts: {predict: 9, model_loading: 8, container_startup: 70}\n"
        "options: {dtype: bf16}\nproperties: {batch_size: 4}\n"
        "container: {environment: {A: b}}\nprobe: {body: 'x', content_type: text/plain, expect: y}\n"
    )
    spec = resolve(replace(recipe(extra), endpoint=replace(recipe().endpoint, port=9000)), facts())
    found = dict(spec.engine.properties)
    assert found["option.predict_timeout"] == "9"
    assert found["option.model_loading_timeout"] == "8"
    assert found["option.trust_remote_code"] == "true"
    assert found["option.tensor_parallel_degree"] == "2"
    assert (found["option.dtype"], found["batch_size"]) == ("bf16", "4")
    assert (spec.place.port, spec.place.startup_timeout, spec.place.environment) == (9000, 70, (("A", "b"),))
    assert (spec.probe.body, spec.probe.content_type, spec.probe.expect) == ("x", "text/plain", "y")


def test_device_memory_is_that_of_all_accelerators() -> None:
    spec = resolved(
        observed=facts(machine=Machine(memory=1, cores=1, accelerators=(("A10G", 24), ("A10G", 24))))
    )
    assert (spec.place.device, spec.place.device_memory) == ("2 x A10G", 48)


def test_own_probe_keeps_the_parameters_of_the_engine() -> None:
    spec = resolved("probe: {prompt: Say yes, expect: 'yes'}")
    assert (spec.probe.prompt, spec.probe.expect) == ("Say yes", "yes")
    assert '"max_tokens": 8' in spec.probe.body


@pytest.mark.parametrize(
    ("architecture", "task"),
    [
        ("LlamaForCausalLM", "text-generation"),
        ("GPT2LMHeadModel", "text-generation"),
        ("T5ForConditionalGeneration", "text2text-generation"),
        ("BertForSequenceClassification", "text-classification"),
    ],
)
def test_task_follows_from_the_architecture(architecture: str, task: str) -> None:
    assert resolved(observed=facts({"architectures": [architecture]})).model.task == task


def _with_runtime(given: Recipe) -> Recipe:
    return replace(given, endpoint=replace(given.endpoint, runtime="container"))


def _same(given: Recipe) -> Recipe:
    return given


REFUSED: list[tuple[str, Facts, Callable[[Recipe], Recipe], str, str]] = [
    (
        "",
        facts({"auto_map": {"AutoModel": "own.M"}}),
        _same,
        "contains its own code",
        "trust_remote_code: true",
    ),
    (
        "",
        facts(listing=listing("config.json")),
        _same,
        "none of the 1 files are selected as weights",
        "`files:`",
    ),
    ("", facts(listing=listing("pytorch_model.bin")), _same, "only as pickle", "allow_pickle"),
    (
        "",
        facts(listing=listing("model.safetensors.index.json", "a.safetensors"), shards=("b.safetensors",)),
        _same,
        "lists 1 files, 1 are missing",
        "repository does not have it",
    ),
    ("", facts({}), _same, "has no default probe", "probe: {body:"),
    ("", facts(machine=None), _same, "but this machine was not inspected", "bug of lmi"),
    ("", facts(port=None), _same, "but this machine was not inspected", "bug of lmi"),
    ("", facts(), _with_runtime, "container is not available on this machine", "available: embedded"),
    (
        "task: question-answering\nhandler: {builtin: djl_python.huggingface}\n",
        facts(),
        _same,
        "has no default probe",
        "probe: {body:",
    ),
]


@pytest.mark.parametrize(("extra", "observed", "change", "words", "hint"), REFUSED)
def test_unresolvable_recipe_is_refused(
    extra: str, observed: Facts, change: Callable[[Recipe], Recipe], words: str, hint: str
) -> None:
    with pytest.raises(Unresolvable) as refused:
        resolve(change(recipe(extra)), observed)
    assert words in refused.value.message
    assert hint in refused.value.hint


def test_template_unknown_to_the_engine_is_refused() -> None:
    wish = replace(recipe().handler, template="embedding")
    with pytest.raises(Unresolvable, match="has no template embedding"):
        resolve(replace(recipe(), handler=wish), facts())


CONFIG = st.dictionaries(
    st.sampled_from(["architectures", "auto_map", "max_position_embeddings", "n_positions"]),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=3),
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
        max_leaves=4,
    ),
)


@given(CONFIG)
def test_any_config_json_is_resolved_or_refused(config: dict[str, Any]) -> None:
    try:
        spec = resolve(recipe("probe: {body: '{}'}"), facts(config))
    except Unresolvable:
        assert config.get("auto_map")
    else:
        assert spec.model.architecture is None or isinstance(spec.model.architecture, str)
        assert spec.model.max_positions is None or type(spec.model.max_positions) is int


@pytest.mark.parametrize("chosen", ["", "text-generation"])
def test_vision_language_model_on_accelerate_gets_the_template_for_images(chosen: str) -> None:
    config = {"architectures": ["Qwen2VLForConditionalGeneration"], "vision_config": {"depth": 2}}
    extra = f"handler: {{template: {chosen}}}\n" if chosen else ""
    engine = resolved(extra, observed=replace(facts(), config=config)).engine
    assert engine.handler.template == (chosen or "image-text-to-text")
    assert any("torchvision" in package for package in engine.packages) is not bool(chosen)
