"""`lmi init`: the recipe for this machine or for SageMaker, its flags, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lmi_deploy.catalog import options
from lmi_deploy.catalog.images import image
from tests.support.cloud_app import CloudApp
from tests.support.fakes import model_files
from tests.support.local_app import MODEL, LocalApp
from tests.support.model_shapes import LLAMA_8B, LLAMA_70B, Table
from tests.support.recipe_parsing import parse


def publish(app: LocalApp, table: Table, name: str = "org/large") -> str:
    """Its weights follow from config.json: the file has a name that no engine loads."""
    app.hub.models[name] = {"config.json": json.dumps(table).encode(), "weights.bin": b"\x80"}
    return name


def written(app: LocalApp, *argv: str) -> Any:
    result = app.lmi("init", *argv, "-o", "new.yaml", "--force")
    assert result.code == 0, result.err
    return parse(Path("new.yaml").read_text(), "new.yaml")


@pytest.fixture
def cloud(app: LocalApp) -> CloudApp:
    """The same folder with AWS credentials."""
    return CloudApp(app.root)


def test_recipe_is_for_this_machine_without_credentials(app: LocalApp) -> None:
    result = app.lmi("init", MODEL, "-o", "new.yaml")
    assert (
        "note: no AWS credentials found: the recipe is for this machine" in result.err
        or "for this machine" in result.err
    )
    recipe = parse(Path("new.yaml").read_text(), "new.yaml")
    assert (recipe.endpoint.target, recipe.engine, recipe.task) == ("local", "accelerate", "text-generation")
    assert app.lmi("plan", "new.yaml").code == 0


def test_recipe_is_for_sagemaker_with_credentials(cloud: CloudApp) -> None:
    result = cloud.lmi("init", MODEL, "-o", "new.yaml")
    assert "AWS credentials found: the recipe is for SageMaker in us-east-1" in result.err
    recipe = parse(Path("new.yaml").read_text(), "new.yaml")
    assert (recipe.endpoint.target, recipe.endpoint.region) == ("sagemaker", "us-east-1")
    assert written(cloud, MODEL, "--target", "local").endpoint.target == "local"


def test_target_sagemaker_can_be_chosen_without_credentials(app: LocalApp) -> None:
    app.hub.models[MODEL] = model_files(**LLAMA_8B)
    recipe = written(app, MODEL, "--target", "sagemaker", "--region", "eu-west-1")
    assert (recipe.endpoint.target, recipe.endpoint.region) == ("sagemaker", "eu-west-1")


def test_more_users_and_longer_sequences_choose_a_larger_instance(cloud: CloudApp) -> None:
    def price(*argv: str) -> float:
        name = publish(cloud, {**LLAMA_8B, "max_position_embeddings": 131072})
        recipe = written(cloud, name, *argv)
        rows = cloud.lmi("instances", "--json").lines
        return next(row["usd_per_hour"] for row in rows if row.get("instance") == recipe.instance_type[0])

    one, long, many = price(), price("--context", "131072"), price("--context", "8192", "--users", "64")
    assert one < long
    assert one < many


def test_more_users_than_the_default_batch_set_a_larger_batch(cloud: CloudApp) -> None:
    options = dict(written(cloud, publish(cloud, LLAMA_8B), "--context", "1024", "--users", "64").options)
    assert options == {"max_model_len": "1024", "max_rolling_batch_size": "64"}


def test_chosen_length_fits_and_is_near_the_maximum(cloud: CloudApp) -> None:
    name = publish(cloud, LLAMA_8B)
    recipe = written(cloud, name, "--instance", "ml.g5.2xlarge")
    length = int(dict(recipe.options)["max_model_len"])
    assert 4096 < length < 131072
    argv = ("fit", name, "--instance", "ml.g5.2xlarge", "--version", "0.36.0", "--json", "--context")
    assert cloud.lmi(*argv, str(length)).result["verdict"] == "fits"
    assert cloud.lmi(*argv, str(length * 5 // 4)).result["verdict"] != "fits"


def test_instance_type_that_is_too_small_is_refused_with_the_reason(cloud: CloudApp) -> None:
    name = publish(cloud, LLAMA_70B)
    result = cloud.lmi("init", name, "--instance", "ml.g5.2xlarge", "-o", "new.yaml")
    assert result.code == 2
    assert "org/large does not fit on ml.g5.2xlarge" in result.err
    assert not Path("new.yaml").exists()


def test_model_too_large_for_this_machine_is_refused_with_the_reason(app: LocalApp) -> None:
    result = app.lmi("init", publish(app, LLAMA_70B), "-o", "new.yaml")
    assert result.code == 2
    assert "org/large does not fit on this machine" in result.err
    assert "--target sagemaker" in result.err


def test_json_contains_every_choice(cloud: CloudApp) -> None:
    found = cloud.lmi("init", publish(cloud, LLAMA_8B), "-o", "new.yaml", "--json").result
    assert (found["engine"], found["target"], found["verdict"]) == ("vllm", "sagemaker", "fits")
    known = f"container: {{version: {options.newest_image()}}}"
    assert known in found["recipe"]
    assert image("djl-lmi", "", "us-east-1").tag.startswith(f"{options.newest_image()}.")
    assert found["file"] == "new.yaml"
    assert found["instance_type"].startswith("ml.")
    assert found["tensor_parallel_degree"] == 1
    assert "if you trust its authors" in found["notes"][-1]
    way = "us-east-1 may have: `lmi catalog refresh --region us-east-1` reads AWS's price list"
    assert any(note.startswith("no price is known of ") and note.endswith(way) for note in found["notes"])


def test_unknown_region_is_refused(app: LocalApp) -> None:
    result = app.lmi("init", MODEL, "--region", "us-east-9", "-o", "new.yaml")
    assert (result.code, "us-east-9: no such AWS region" in result.err) == (2, True)


def test_existing_file_is_not_overwritten_without_force(app: LocalApp) -> None:
    assert app.lmi("init", MODEL, "-o", "new.yaml", "--plain").code == 0
    before = Path("new.yaml").read_text()
    refused = app.lmi("init", MODEL, "-o", "new.yaml")
    assert (refused.code, Path("new.yaml").read_text()) == (5, before)
    assert "--force" in refused.err
    assert app.lmi("init", MODEL, "-o", "new.yaml", "--force").code == 0
    assert Path("new.yaml").read_text() != before


def test_example_recipe_is_copied(app: LocalApp) -> None:
    result = app.lmi("init", "--example", "quickstart")
    assert (result.code, result.out) == (0, "quickstart.yaml\n")
    assert parse(Path("quickstart.yaml").read_text(), "quickstart.yaml").name == "quickstart"
    assert "$schema=recipe.schema.json" in Path("quickstart.yaml").read_text()


@pytest.mark.parametrize(
    ("argv", "what"),
    [
        ((), "MODEL: name either a model or --example NAME"),
        ((MODEL, "--example", "quickstart"), "name either a model or --example NAME"),
        (("--example", "none"), "--example none: no such example"),
        ((MODEL, "--target", "local", "--instance", "ml.g5.xlarge"), "--instance and --region need target"),
        ((MODEL, "--instance", "ml.none.xlarge"), "ml.none.xlarge"),
    ],
)
def test_contradictory_arguments_are_refused(app: LocalApp, argv: tuple[str, ...], what: str) -> None:
    result = app.lmi("init", *argv, "-o", "new.yaml")
    assert (result.code, result.out) == (2, "")
    assert what in result.err
    assert not Path("new.yaml").exists()


def test_adapter_is_refused_with_its_base_model(app: LocalApp) -> None:
    app.hub.models["org/lora"] = {
        "adapter_config.json": b'{"base_model_name_or_path": "org/base"}',
        "adapter_model.safetensors": b"",
    }
    result = app.lmi("init", "org/lora")
    assert result.code == 2
    assert "org/lora is an adapter" in result.err
    assert "name this one there: adapters: {NAME: ID}" in result.err
    assert "`lmi init org/base` writes that recipe" in result.err
