"""The declaration of the recipe, compared with its own types, with the vendors' tables, and with everything
generated from it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from typing import Any, get_type_hints

import botocore
import jsonschema
import pytest
import yaml

from lmi_deploy.catalog import options, sagemaker_limits
from lmi_deploy.domain import dataclass_json
from lmi_deploy.errors import RecipeError
from lmi_deploy.recipe import json_schema
from lmi_deploy.recipe.model.field_types import Key, KeyGroup
from lmi_deploy.recipe.model.key_readers import RECIPE, TEMPLATES
from lmi_deploy.recipe.yaml.composer import Composer
from lmi_deploy.recipe.yaml.source import SourceText
from lmi_deploy.recipe.yaml.tree import SourcePosition
from tests.support.recipe_parsing import parse
from tools import generate_limits

ROOT = Path(__file__).resolve().parents[3]
OURS = sorted((ROOT / "recipes").glob("*.yaml"))
REQUIRED = {
    "": {"name", "model_id"},
    "endpoint.vpc": {"subnets", "security_groups"},
    "endpoint.instance_scaling": {"min", "max"},
    "endpoint.autoscaling": {"min", "max"},
    "endpoint.autoscaling.metric": {"namespace", "name", "target"},
    "endpoint.data_capture": {"output"},
    "endpoint.alarms": {"topic"},
}
BASE = "name: q\nmodel_id: a/b\nengine: accelerate\nendpoint: {target: local}\n"


def groups(group: KeyGroup, path: str = "") -> Iterator[tuple[str, KeyGroup]]:
    yield path, group
    for key in group.keys:
        if isinstance(key.shape, KeyGroup):
            yield from groups(key.shape, f"{path}.{key.name}".lstrip("."))


def leaves() -> list[tuple[str, Key]]:
    return [
        (f"{path}.{key.name}".lstrip("."), key)
        for path, group in groups(RECIPE)
        for key in group.keys
        if not isinstance(key.shape, KeyGroup)
    ]


@pytest.mark.parametrize(
    ("path", "group"), list(groups(RECIPE)), ids=lambda value: value if value else "recipe"
)
def test_every_field_is_a_key(path: str, group: KeyGroup) -> None:
    filled_by_parse = set() if path else {"overlay", "origin", "overrides", "candidate"}
    fields = [f.name for f in dataclasses.fields(group.dataclass_type) if f.name not in filled_by_parse]
    assert [key.name for key in group.keys] == fields


@pytest.mark.parametrize(
    ("path", "group"), list(groups(RECIPE)), ids=lambda value: value if value else "recipe"
)
def test_keys_without_a_default_are_required(path: str, group: KeyGroup) -> None:
    required = {key.name: key.example for key in group.keys if key.required}
    assert set(required) == REQUIRED.get(path, set())
    with pytest.raises(TypeError) if required else nullcontext():
        group.dataclass_type()


def test_values_match_the_type_of_the_field() -> None:
    hints = {path: get_type_hints(group.dataclass_type) for path, group in groups(RECIPE)}
    for path, key in leaves():
        assert not isinstance(key.shape, KeyGroup)
        node = Composer(SourceText(key.example, "r.yaml")).compose()
        assert node is not None, path
        value = key.shape.read(node, refuse)
        hint = hints[path.rpartition(".")[0]][key.name]
        assert dataclass_json.load(hint, dataclass_json.dump(value)) == value, path


def refuse(place: SourcePosition, what: str, hint: str, suffix: str) -> None:
    raise AssertionError(what)


def test_every_key_has_a_description_and_a_valid_example() -> None:
    # Valid but not supported yet, or in conflict with the small recipe around it.
    apart = (
        "not yet",
        "is missing",
        "endpoint.target is local",
        "serves no LoRA adapters",
        "no compiler of its own",
        "has no effect without container.build",
        "has no effect without ttl",
        "needs a model in S3",
    )
    for path, key in leaves():
        assert key.doc.endswith("."), path
        assert key.example, path
        errors = problems_of(f"{path}={key.example}")
        assert all(any(word in line for word in apart) for line in errors), (path, errors)


def problems_of(assignment: str) -> tuple[str, ...]:
    try:
        parse(BASE, "r.yaml", sets=[assignment])
    except RecipeError as error:
        return error.details
    return ()


def test_schema_is_valid_json_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(json_schema.json_schema())


@pytest.mark.parametrize("file", OURS, ids=lambda file: file.name)
def test_our_recipes_pass_the_schema_and_parse(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    assert text.startswith("# yaml-language-server: $schema=../docs/reference/recipe.schema.json\n")
    validate(yaml.safe_load(text))
    parse(text, str(file))


@cache
def validator() -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(json_schema.json_schema())


def validate(document: Any) -> None:
    validator().validate(document)


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
def test_schema_accepts_what_parse_accepts(more: str) -> None:
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
def test_schema_refuses_what_an_editor_should_mark(more: str) -> None:
    with pytest.raises(RecipeError):
        parse(BASE + more, "r.yaml")
    with pytest.raises(jsonschema.ValidationError):
        validate(yaml.safe_load(BASE + more))


def test_limits_are_those_of_the_installed_botocore() -> None:
    table = json.loads(generate_limits.TABLE.read_text(encoding="ascii"))
    fresh = generate_limits.table()
    if botocore.__version__ not in table["source"]:
        pytest.skip(f"the table is from {table['source']}, installed is botocore {botocore.__version__}")
    table.pop("date")
    assert table == fresh, "python tools/generate_limits.py"


def test_instance_types_and_regions_of_all_generations_are_known() -> None:
    assert {"ml.g5.12xlarge", "ml.inf1.xlarge", "ml.p3.2xlarge", "ml.trn1.2xlarge"} <= set(
        sagemaker_limits.names("instance_types")
    )
    assert {"us-east-1", "cn-north-1", "us-gov-west-1"} <= set(sagemaker_limits.names("regions"))


def test_tables_have_source_and_date() -> None:
    for source, date in (sagemaker_limits.source(), options.source()):
        assert source
        assert date.startswith("20")


def test_templates_contain_every_option_listed_for_them() -> None:
    assert set(options.TEMPLATE_OPTIONS) == set(TEMPLATES)
    for name, known in options.TEMPLATE_OPTIONS.items():
        code = (ROOT / "templates" / name / "model.py").read_text(encoding="utf-8")
        assert all(f'"{option}"' in code for option in known), name


def test_option_status_depends_on_the_server_version() -> None:
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
