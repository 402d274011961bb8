"""Validation of a SageMaker deployment, where a file of bad recipes would be too long."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lmi_deploy.catalog.instances import devices, instance, names
from lmi_deploy.catalog.server_version import server_version
from lmi_deploy.composition.targets import recipe_issues
from lmi_deploy.domain.recipe_keys import Recipe
from lmi_deploy.domain.sagemaker.tags import OWN
from lmi_deploy.targets.sagemaker.validate import validate
from lmi_deploy.targets.sagemaker.validate.devices import in_words
from lmi_deploy.targets.sagemaker.validate.images import region_of
from tests.support.cloud_factories import cloud_recipe
from tests.support.recipe_parsing import parse


def messages(recipe: Recipe) -> list[str]:
    return [issue.path for issue in validate(recipe)]


def test_local_recipe_has_no_sagemaker_errors() -> None:
    local = parse(b"name: q\nmodel_id: a/b\nendpoint: {target: local}\n", "r.yaml")
    assert not any(recipe_issues(local))
    assert any(recipe_issues(replace(local, endpoint=replace(local.endpoint, target="sagemaker"))))


def test_variable_limit_includes_the_variable_of_lmi() -> None:
    plain = cloud_recipe()
    full = tuple((f"V{number}", "x") for number in range(100))
    assert messages(replace(plain, container=replace(plain.container, environment=full[:99]))) == []
    assert messages(replace(plain, container=replace(plain.container, environment=full))) == [
        "container.environment"
    ]
    own = (*full[:99], ("SERVING_FAIL_FAST", "false"))
    assert messages(replace(plain, container=replace(plain.container, environment=own))) == []


def test_tag_limit_includes_the_tags_of_lmi() -> None:
    plain = cloud_recipe()
    left = 50 - len(OWN)
    tags = tuple((f"t{number}", "x") for number in range(left + 1))
    assert messages(replace(plain, endpoint=replace(plain.endpoint, tags=tags))) == ["endpoint.tags"]
    assert messages(replace(plain, endpoint=replace(plain.endpoint, tags=tags[:left]))) == []


@pytest.mark.parametrize(
    ("name", "count", "words"),
    [
        ("ml.m5.xlarge", 0, "no accelerator"),
        ("ml.g5.xlarge", 1, "1 GPU"),
        ("ml.g5.48xlarge", 8, "8 GPUs"),
        ("ml.inf2.48xlarge", 24, "24 NeuronCores"),
        ("ml.p2.xlarge", None, "an unknown number of devices"),
    ],
)
def test_device_count_is_what_a_model_can_be_divided_over(name: str, count: int | None, words: str) -> None:
    machine = instance(name)
    assert machine is not None
    assert (devices(machine), in_words(machine)) == (count, words)


def test_every_instance_type_can_be_validated() -> None:
    for name in names():
        messages(replace(cloud_recipe(), instance_type=(name,), tensor_parallel_degree=7))


@pytest.mark.parametrize(
    ("version", "image", "expected"),
    [
        (None, None, ("", "")),
        ("0.36.0", None, ("0.36.0", "")),
        ("0.36.0-lmi20", None, ("0.36.0", "20")),
        ("latest", None, ("", "")),
        (None, "1.dkr.ecr.us-east-1.amazonaws.com/djl-inference:0.34.0-lmi16.0.0-cu128", ("0.34.0", "16")),
        (None, "1.dkr.ecr.us-east-1.amazonaws.com/mine:0.34.0", ("", "")),
    ],
)
def test_server_version_of_an_image(
    version: str | None, image: str | None, expected: tuple[str, str]
) -> None:
    assert server_version(version, image) == expected


@pytest.mark.parametrize(
    ("image", "region"),
    [
        ("123456789012.dkr.ecr.us-west-2.amazonaws.com/a:1", "us-west-2"),
        ("123456789012.dkr.ecr-fips.us-gov-west-1.amazonaws.com/a/b@sha256:0", "us-gov-west-1"),
        ("123456789012.dkr.ecr.cn-north-1.amazonaws.com.cn/a", "cn-north-1"),
        ("docker.io/a:1", None),
        ("12.dkr.ecr.us-west-2.amazonaws.com/a:1", None),
    ],
)
def test_region_of_a_registry(image: str, region: str | None) -> None:
    assert region_of(image) == region
