"""One declaration, held to core's dataclasses, to the vendors' own tables, and to everything published from it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import botocore
import jsonschema
import pytest
import yaml

from lmi_deploy.catalog import limits, options
from lmi_deploy.errors import RecipeError
from lmi_deploy.recipe import schema
from lmi_deploy.recipe.model.declaration import NOT_WRITTEN, RECIPE, TEMPLATES
from lmi_deploy.recipe.model.field_types import Group, Key
from lmi_deploy.recipe.parse import parse
from tools import generate_limits

ROOT = Path(__file__).resolve().parents[3]
OURS = sorted((ROOT / "recipes").glob("*.yaml"))
BASE = "name: q\nmodel_id: a/b\nengine: accelerate\nendpoint: {target: local}\n"


def groups(group: Group, path: str = "") -> Iterator[tuple[str, Group]]:
    yield path, group
    for key in group.keys:
        if isinstance(key.shape, Group):
            yield from groups(key.shape, f"{path}.{key.name}".lstrip("."))


def leaves() -> list[tuple[str, Key]]:
    return [
        (f"{path}.{key.name}".lstrip("."), key)
        for path, group in groups(RECIPE)
        for key in group.keys
        if not isinstance(key.shape, Group)
    ]


@pytest.mark.parametrize(
    ("path", "group"), list(groups(RECIPE)), ids=lambda value: value if value else "recipe"
)
def test_the_declaration_and_core_have_the_same_fields(path: str, group: Group) -> None:
    fields = {field.name for field in dataclasses.fields(group.dataclass_type)} - set(
        NOT_WRITTEN if not path else ()
    )
    assert {key.name for key in group.keys} == fields
    assert len(group.keys) == len(fields)


@pytest.mark.parametrize(
    ("path", "group"), list(groups(RECIPE)), ids=lambda value: value if value else "recipe"
)
def test_what_core_requires_the_declaration_requires(path: str, group: Group) -> None:
    bare = {
        field.name
        for field in dataclasses.fields(group.dataclass_type)
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    }
    assert {key.name for key in group.keys if key.required} == bare


@pytest.mark.parametrize(("path", "key"), leaves(), ids=lambda value: value if isinstance(value, str) else "")
def test_every_key_has_words_and_an_example_that_reads(path: str, key: Key) -> None:
    assert key.doc.endswith(".")
    assert key.example
    # Read and found good, but not built yet, or at odds with the small recipe around it.
    apart = ("not yet", "is missing", "endpoint.target is local")
    errors = problems_of(f"{path}={key.example}")
    assert all(any(word in line for word in apart) for line in errors), errors


def problems_of(assignment: str) -> tuple[str, ...]:
    try:
        parse(BASE, "r.yaml", sets=[assignment])
    except RecipeError as error:
        return error.details
    return ()


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(schema.json_schema())


@pytest.mark.parametrize("file", OURS, ids=lambda file: file.name)
def test_our_recipes_hold_to_the_schema_and_to_parse(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    assert text.startswith("# yaml-language-server: $schema=../docs/reference/recipe.schema.json\n")
    validate(yaml.safe_load(text))
    parse(text, str(file))


def validate(document: Any) -> None:
    jsonschema.Draft202012Validator(schema.json_schema()).validate(document)


@pytest.mark.parametrize(
    "more",
    [
        "tensor_parallel_degree: auto",
        "tensor_parallel_degree: 4",
        "options: {dtype: fp32, max_new_tokens: 20}",
        "revision: 1.10",
        "timeouts: {predict: 60, model_loading: 90s, model_download: 600}",
        "x-note: 1",
        "overlays: {prod: {endpoint: {port: 9000}, x-y: 1}, x-z: 1}",
        "files: {allow: ['*.json']}",
        "instance_type: []",
    ],
)
def test_the_schema_takes_what_parse_takes(more: str) -> None:
    parse(BASE + more, "r.yaml")
    validate(yaml.safe_load(BASE + more))


@pytest.mark.parametrize(
    "more",
    [
        "tensor_paralel_degree: 4",
        "tensor_parallel_degree: four",
        "timeouts: {predict: soon}",
        "timeouts: {model_download: 5}",
        "instance_type: ml.g5.13xlarge",
        "files: {allow: x}",
        "overlays: {prod: {prt: 1}}",
        "overlays: {Prod: {}}",
        "trust_remote_code: maybe",
    ],
)
def test_the_schema_refuses_what_an_editor_should_mark(more: str) -> None:
    with pytest.raises(RecipeError):
        parse(BASE + more, "r.yaml")
    with pytest.raises(jsonschema.ValidationError):
        validate(yaml.safe_load(BASE + more))


def test_the_limits_are_those_of_the_installed_botocore() -> None:
    table = json.loads(generate_limits.TABLE.read_text(encoding="ascii"))
    fresh = generate_limits.table()
    if botocore.__version__ not in table["source"]:
        pytest.skip(f"the table is from {table['source']}, installed is botocore {botocore.__version__}")
    table.pop("date")
    assert table == fresh, "python tools/generate_limits.py"


def test_names_of_several_generations_are_known() -> None:
    assert {"ml.g5.12xlarge", "ml.inf1.xlarge", "ml.p3.2xlarge", "ml.trn1.2xlarge"} <= set(
        limits.names("instance_types")
    )
    assert {"us-east-1", "cn-north-1", "us-gov-west-1"} <= set(limits.names("regions"))


def test_tables_say_where_they_come_from_and_when() -> None:
    for source, date in (limits.source(), options.source()):
        assert source
        assert date.startswith("20")


def test_our_templates_say_themselves_what_options_they_read() -> None:
    assert set(options.TEMPLATE_OPTIONS) == set(TEMPLATES)
    for name, known in options.TEMPLATE_OPTIONS.items():
        code = (ROOT / "templates" / name / "model.py").read_text(encoding="utf-8")
        assert all(f'"{option}"' in code for option in known), name


def test_an_option_is_judged_by_the_server_version() -> None:
    option_status = options.option_status("accelerate", "is_mpi", "0.25.0")
    assert (option_status.state, option_status.kind) == ("known", "bool")
    assert options.option_status("accelerate", "is_mpi", "0.34.0").state == "removed"
    assert options.option_status("accelerate", "mpi_mode", "0.34.0").state == "known"
    assert options.option_status("vllm", "lmcache_auto_config", "0.36.0/lmi18").state == "later"
    assert options.option_status("vllm", "lmcache_auto_config", "0.36.0").state == "known"
    assert options.option_status("vllm", "enable_prefix_cache", "0.36.0").state == "unknown"
    assert options.option_status("lmi-dist", "rolling_batch", "0.32.0").values == (
        "vllm",
        "tnx",
        "lmi-dist",
        "scheduler",
        "auto",
        "disable",
        "trtllm",
    )
    assert options.option_status("lmi-dist", "rolling_batch", "0.36.0").values == (
        "vllm",
        "auto",
        "disable",
        "trtllm",
    )
