"""The recipe's keys `adapters` and `files.extra`: what is read, and what is refused."""

from __future__ import annotations

import pytest

from lmi_deploy.domain.recipe_weights_keys import AdapterSource
from lmi_deploy.errors import RecipeError
from tests.support.recipe_parsing import parse

BASE = "name: m\nmodel_id: org/m\nengine: vllm\nendpoint: {target: local}\n"


def errors(text: str) -> list[str]:
    with pytest.raises(RecipeError) as error:
        parse(BASE + text, "r.yaml")
    return [f"{problem.key}: {problem.what}" for problem in error.value.problems]


def test_adapters_are_sources_by_name_in_order() -> None:
    read = parse(BASE + "adapters:\n  b: org/b\n  a: {source: s3://bucket/a, revision: v2}\n", "r.yaml")
    assert read.adapters == (
        AdapterSource(name="b", source="org/b"),
        AdapterSource(name="a", source="s3://bucket/a", revision="v2"),
    )


def test_overlay_adds_an_adapter_and_set_replaces_one() -> None:
    text = BASE + "adapters: {a: org/a}\noverlays: {x: {adapters: {b: org/b}}}\n"
    read = parse(text, "r.yaml", overlay="x", sets=["adapters.a=org/other"])
    assert [(each.name, each.source) for each in read.adapters] == [("a", "org/other"), ("b", "org/b")]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("adapters: [org/a]\n", "adapters: expected a mapping"),
        ("adapters: {'a:b': org/a}\n", "adapters.a:b: 'a:b' is not a valid name"),
        ("adapters: {a: 'x y'}\n", "adapters.a: 'x y' is neither a Hub id"),
        ("adapters: {a: {revision: v1}}\n", "adapters.a: has no source"),
        ("adapters: {a: {source: org/a, rev: v1}}\n", "adapters.a.rev: unknown key"),
        ("adapters: {a: {source: org/a, revision: 'a b'}}\n", "adapters.a: 'a b' is not a valid branch"),
        ("adapters: {a: org/a, A: org/b}\n", "differ only in upper and lower case"),
        ("adapters: {a: org/a, a: org/b}\n", "a"),
        (
            "adapters: {a: org/a}\noptions: {enable_lora: false}\n",
            "options.enable_lora: false, but the recipe has",
        ),
        ("adapters: {a: org/a}\nengine: accelerate\n", "engine"),
        ("files: {extra: {serving.properties: a}}\n", "files.extra.serving.properties: lmi writes"),
        ("files: {extra: {model.py: a}}\n", "files.extra.model.py: lmi writes"),
        ("files: {extra: {adapters/a/x: a}}\n", "files.extra.adapters/a/x: lmi writes"),
        ("files: {extra: {../x: a}}\n", "files.extra.../x: '../x' has a part"),
        ("files: {extra: {/x: a}}\n", "files.extra./x: '/x' is absolute"),
    ],
)
def test_mistake_is_named_with_its_key(text: str, words: str) -> None:
    assert any(words in line for line in errors(text)), errors(text)


def test_engine_without_adapters_is_refused_with_those_that_have_them() -> None:
    text = BASE.replace("vllm", "accelerate") + "adapters: {a: org/a}\n"
    with pytest.raises(RecipeError) as error:
        parse(text, "r.yaml")
    (problem,) = error.value.problems
    assert problem.what == "engine accelerate serves no LoRA adapters"
    assert "use engine: vllm or lmi-dist or custom" in problem.hint


def test_option_of_adapters_needs_no_enable_lora_beside_adapters() -> None:
    options = "options: {max_loras: 2}\n"
    assert parse(BASE + options + "adapters: {a: org/a}\n", "r.yaml").options == (("max_loras", "2"),)
    assert any("needs enable_lora" in line for line in errors(options))
