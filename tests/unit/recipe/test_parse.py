"""Valid recipes: typed where the declaration has a type, verbatim where it is the user's own."""

from __future__ import annotations

import subprocess
import sys

import pytest
import yaml

from lmi_deploy.domain.recipe_keys import Handler, Recipe
from lmi_deploy.errors import RecipeError
from lmi_deploy.recipe.yaml import composer
from lmi_deploy.recipe.yaml.composer import Composer
from lmi_deploy.recipe.yaml.source import SourceText, decode
from lmi_deploy.recipe.yaml.tree import MappingNode
from tests.support.recipe_parsing import parse

BASE = "name: q\nmodel_id: a/b\nengine: accelerate\nendpoint: {target: local}\n"


def problems(text: str | bytes, **how: object) -> tuple[str, ...]:
    with pytest.raises(RecipeError) as caught:
        parse(text, "r.yaml", **how)  # type: ignore[arg-type]
    return caught.value.details


def test_short_recipe_uses_defaults() -> None:
    recipe = parse(BASE, "r.yaml")
    assert (recipe.name, recipe.model_id, recipe.revision, recipe.engine) == (
        "q",
        "a/b",
        "main",
        "accelerate",
    )
    assert recipe.endpoint.target == "local"
    assert recipe.tensor_parallel_degree is None
    assert recipe.handler == Handler()
    assert (recipe.overlay, recipe.origin) == (None, "r.yaml")


def test_every_group_is_read() -> None:
    recipe = parse(
        BASE.replace("{target: local}", "{target: local, runtime: embedded, port: 8080}")
        + """
revision: v1.0
task: text-generation
tensor_parallel_degree: 1
trust_remote_code: true
timeouts: {model_download: 10m, container_startup: 600, model_loading: 90s, predict: 1m}
files: {allow: ["*.json", "*.safetensors"], ignore: ["*.onnx"], allow_pickle: false}
container: {environment: {OMP_NUM_THREADS: 4, EMPTY: ""}}
handler: {file: code/model.py}
options: {anything: goes here}
properties: {job_queue_size: 100, gpu.minWorkers: 1}
requirements: requirements.txt
probe: {body: '{"inputs": "OK"}', expect: OK}
""",
        "r.yaml",
    )
    assert (recipe.timeouts.model_download, recipe.timeouts.model_loading, recipe.timeouts.predict) == (
        600,
        90,
        60,
    )
    assert recipe.files.allow == ("*.json", "*.safetensors")
    assert recipe.container.environment == (("OMP_NUM_THREADS", "4"), ("EMPTY", ""))
    assert recipe.properties == (("job_queue_size", "100"), ("gpu.minWorkers", "1"))
    assert recipe.probe is not None
    assert recipe.probe.body == '{"inputs": "OK"}'
    assert recipe.probe.content_type == "application/json"
    assert recipe.endpoint.port == 8080


@pytest.mark.parametrize(
    "written",
    [
        "1.10",
        "012",
        "no",
        "0x1F",
        "1e3",
        "~",
        "null",
        "2024-01-01",
        "1_000",
        "yes",
        "TRUE",
        ".inf",
        "12:30:45",
    ],
)
def test_plain_scalars_keep_their_text(written: str) -> None:
    text = BASE + f"handler: {{file: model.py}}\noptions: {{v: {written}}}\nproperties: {{v: {written}}}\n"
    recipe = parse(text, "r.yaml", sets=[f"options.w={written}"])
    assert recipe.options == (("v", written), ("w", written))
    assert recipe.properties == (("v", written),)


def test_escaped_control_characters_reach_options() -> None:
    recipe = parse(BASE + 'options: {served_model_name: "a\\nb\\x07\\u2028"}\n', "r.yaml")
    assert recipe.options == (("served_model_name", "a\nb\x07\u2028"),)


def test_x_keys_are_ignored_at_every_level() -> None:
    text = BASE + "x-note: {any: [thing]}\noptions: {x-o: 1, dtype: fp32}\nprobe: {x-p: 1, prompt: hi}\n"
    assert parse(text, "r.yaml", sets=["x-more=1", "endpoint.x-y=2"]).options == (("dtype", "fp32"),)


def test_key_with_an_empty_value_uses_its_default() -> None:
    assert parse(BASE + "timeouts:\n  # predict: 60\noptions:\nfiles: {allow: }\n", "r.yaml") == parse(
        BASE, "r.yaml"
    )


def test_bytes_and_text_with_any_line_endings_are_the_same_recipe() -> None:
    plain = parse(BASE, "r.yaml")
    assert parse(BASE.encode(), "r.yaml") == plain
    assert parse(b"\xef\xbb\xbf" + BASE.replace("\n", "\r\n").encode(), "r.yaml") == plain
    assert parse("---\n" + BASE + "...\n", "r.yaml") == plain


def test_overlay_merges_mappings_and_replaces_other_values() -> None:
    text = (
        BASE
        + """
timeouts: {predict: 30, model_loading: 60}
files: {allow: ["*.json"]}
overlays:
  prod:
    timeouts: {predict: 60}
    files: {allow: ["*.bin"], ignore: [x]}
    revision: v1.0
  empty:
"""
    )
    recipe = parse(text, "r.yaml", overlay="prod")
    assert (recipe.name, recipe.overlay, recipe.revision) == ("q-prod", "prod", "v1.0")
    assert (recipe.timeouts.predict, recipe.timeouts.model_loading) == (60, 60)
    assert recipe.files.allow == ("*.bin",)
    assert parse(text, "r.yaml").name == "q"


def test_set_is_applied_after_the_overlay() -> None:
    text = (
        BASE
        + "timeouts: {predict: 30}\noverlays: {prod: {timeouts: {predict: 40}, options: {dtype: fp32}}}\n"
    )
    sets = [
        "timeouts.predict=50",
        "endpoint.port=9000",
        "files.allow=['*.json', b]",
        "properties.gpu.minWorkers=2",
    ]
    recipe = parse(text, "r.yaml", overlay="prod", sets=sets)
    assert (recipe.timeouts.predict, recipe.endpoint.port, recipe.endpoint.target) == (50, 9000, "local")
    assert recipe.files.allow == ("*.json", "b")
    assert recipe.properties == (("gpu.minWorkers", "2"),)
    assert parse(text, "r.yaml", sets=["options={torch_threads: 2}"]).options == (("torch_threads", "2"),)


def test_set_can_repair_an_error_of_the_file() -> None:
    assert (
        parse(BASE.replace("local", "locl"), "r.yaml", sets=["endpoint.target=local"]).endpoint.target
        == "local"
    )


def test_errors_are_sorted_by_file_and_then_set() -> None:
    places = [
        message.split(" ")[0]
        for message in problems(BASE + "z: 1\na: 1\n", sets=["q1=1", "q0=1", "b" * 3 + "=["])
    ]
    assert places == ["r.yaml:5:1:", "r.yaml:6:1:", "--set:1:1:", "--set:2:1:", "--set:3:5:"]


def test_invalid_bytes_on_the_command_line_are_refused() -> None:
    assert "control character U+DCFF" in problems(BASE, sets=["revision=a\udcff"])[0]


def test_too_large_recipe_is_refused_before_it_is_read() -> None:
    assert problems(b"#" * (2 << 20)) == (
        "r.yaml:1:1: more than 1 MiB, give the path of the recipe, not of the model",
    )
    assert "more than 2000 values" in problems(BASE + "x-a: [" + "1, " * 3000 + "]")[0]
    assert "40000 characters" in problems(BASE + "revision: " + "a" * 40_000)[0]


def test_errors_beyond_one_hundred_are_only_counted() -> None:
    with pytest.raises(RecipeError) as caught:
        parse(BASE + "".join(f"qq{i}: 1\n" for i in range(150)), "r.yaml")
    assert len(caught.value.problems) == 100
    assert caught.value.hint == "50 further mistakes are not shown"


def test_nesting_deeper_than_50_levels_is_refused() -> None:
    for tower in (
        "[" * 100_000,
        "{a: " * 100_000,
        "- " * 100_000,
        "".join(" " * i + "a:\n" for i in range(1200)),
    ):
        assert any("nested deeper than 50 levels" in line for line in problems(tower))


@pytest.mark.parametrize("loader", [yaml.Loader, composer.LOADER])
def test_both_yaml_loaders_give_the_same_tree(loader: type[yaml.Loader]) -> None:
    text = BASE + "options: {a: 012, 'b': \"x\\ty\"}\nrevision: |\n  a\n  b\n"
    source = decode(text, "r.yaml")
    assert isinstance(source, SourceText)
    first, second = Composer(source, loader), Composer(source)
    tree = first.compose()
    assert isinstance(tree, MappingNode)
    assert tree == second.compose()
    assert not first.problems


def test_reading_a_recipe_imports_neither_pydantic_nor_ports_nor_unused_tables() -> None:
    code = (
        "import sys; from lmi_deploy.recipe.parse import parse;"
        "from lmi_deploy.catalog import options, sagemaker_limits;"
        "from lmi_deploy.recipe.reader import Purpose; from lmi_deploy.composition.targets import recipe_issues;"
        f"parse({BASE!r}, 'r.yaml', purpose=Purpose(target_issues=recipe_issues));"
        "assert not {'pydantic', 'pydantic_core', 'jinja2', 'botocore'} & set(sys.modules), sys.modules.keys();"
        "assert not [name for name in sys.modules if name.startswith('lmi_deploy.ports')];"
        "assert sagemaker_limits._table.cache_info().currsize == 0 == options._table.cache_info().currsize"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_recipe_is_comparable_and_hashable() -> None:
    assert parse(BASE, "r.yaml") == parse(BASE, "r.yaml")
    assert isinstance(hash(parse(BASE, "r.yaml")), int)
    assert isinstance(parse(BASE, "r.yaml"), Recipe)
