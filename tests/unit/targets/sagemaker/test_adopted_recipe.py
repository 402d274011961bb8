"""The recipe of an adopted endpoint, by its image, its variables and its files."""

from __future__ import annotations

import pytest

from lmi_deploy.composition.targets import recipe_issues
from lmi_deploy.domain.recipe_endpoint_keys import Asynchronous, DataCapture, Vpc
from lmi_deploy.domain.recipe_instance_keys import InstancePools
from lmi_deploy.domain.sagemaker.foreign_endpoint import (
    ForeignEndpoint,
    ForeignEndpointConfig,
    ForeignModel,
    ForeignScaling,
    ModelFiles,
)
from lmi_deploy.domain.sagemaker.resource_settings import (
    EndpointConfigSettings,
    ModelSettings,
    ObservedEndpoint,
    PoolSettings,
)
from lmi_deploy.recipe.parse import parse
from lmi_deploy.recipe.reader import Purpose
from lmi_deploy.recipe.recipe_import import ImportedRecipe, import_recipe, newest_version
from lmi_deploy.targets.sagemaker.plan.adopted_recipe import adopted_source
from lmi_deploy.targets.sagemaker.plan.adoption import managed_by

AWS = "763104351884.dkr.ecr.us-east-1.amazonaws.com"
DJL = f"{AWS}/djl-inference:0.36.0-lmi27.0.0-cu130"
PURPOSE = Purpose(target_issues=recipe_issues)
ARN = "arn:aws:sagemaker:us-east-1:123456789012"
ROLE = "arn:aws:iam::123456789012:role/serving"


def foreign(
    image: str = DJL,
    environment: dict[str, str] | None = None,
    *,
    scaling: ForeignScaling | None = None,
    model: dict[str, object] | None = None,
    config: dict[str, object] | None = None,
    not_read: tuple[str, ...] = (),
    tags: dict[str, str] | None = None,
) -> ForeignEndpoint:
    variables = {"HF_MODEL_ID": "org/model"} if environment is None else environment
    settings = ModelSettings(
        **{
            "role": ROLE,
            "image": image,
            "environment": tuple(variables.items()),
            "artifact": "",
            **(model or {}),
        }  # type: ignore[arg-type]
    )
    variant = EndpointConfigSettings(
        **{
            "model": "m",
            "instance": "ml.g5.12xlarge",
            "count": 2,
            "model_download": 0,
            "startup": 0,
            **(config or {}),
        }  # type: ignore[arg-type]
    )
    return ForeignEndpoint(
        endpoint=ObservedEndpoint(
            name="shop",
            arn=f"{ARN}:endpoint/shop",
            status="InService",
            config="c",
            desired_count=2,
            variant="AllTraffic",
        ),
        config=ForeignEndpointConfig(
            name="c",
            arn=f"{ARN}:endpoint-config/c",
            settings=variant,
            variants=("AllTraffic",),
            not_read=not_read,
        ),
        model=ForeignModel(name="m", arn=f"{ARN}:model/m", settings=settings),
        tags={f"{ARN}:endpoint/shop": tuple((tags or {}).items())},
        region="us-east-1",
        scaling=scaling,
    )


def recipe(given: ForeignEndpoint, files: ModelFiles | None = None, *, model: str = "") -> ImportedRecipe:
    source, version = adopted_source(given, files or ModelFiles(properties={}))
    imported = import_recipe(
        source,
        model_id=model,
        version=version or newest_version(),
        instances=tuple(filter(None, given.config.settings.types)),
        purpose=PURPOSE,
    )
    parsed = parse(imported.text, "shop.yaml", purpose=PURPOSE)
    assert parsed.name == "shop"
    assert parsed.instance_type == given.config.settings.types
    assert parsed.endpoint.role == ROLE
    return imported


@pytest.mark.parametrize(
    ("image", "environment", "engine", "container", "note"),
    [
        (DJL, {"HF_MODEL_ID": "org/model"}, "vllm", "version: 0.36.0-lmi27.0.0-cu130", ""),
        (
            f"{AWS}/djl-inference:0.99.0-lmi99",
            {"HF_MODEL_ID": "o/m"},
            "vllm",
            "image: ",
            "has no djl-inference",
        ),
        (
            f"{AWS}/huggingface-pytorch-tgi-inference:2.4.0-tgi3.0.1-gpu-py311",
            {"HF_MODEL_ID": "org/model", "SM_NUM_GPUS": "4", "MAX_TOTAL_TOKENS": "4096"},
            "vllm",
            "version: ",
            "is not DJLServing",
        ),
        (
            f"{AWS}/huggingface-pytorch-inference:2.6.0-transformers4.49.0-gpu-py312",
            {"HF_MODEL_ID": "org/model", "HF_TASK": "text-generation"},
            "accelerate",
            "version: ",
            "is not DJLServing",
        ),
        (
            f"{AWS}/vllm:0.11.0-gpu-py312",
            {"SM_VLLM_MODEL": "org/model", "SM_VLLM_MAX_MODEL_LEN": "4096"},
            "vllm-server",
            "version: ",
            "",
        ),
        (
            "123456789012.dkr.ecr.us-east-1.amazonaws.com/mine:3",
            {"HF_MODEL_ID": "org/model"},
            "vllm",
            "image: '123456789012.dkr.ecr.us-east-1.amazonaws.com/mine:3'",
            "is not AWS's",
        ),
    ],
)
def test_image_decides_engine_and_container(
    image: str, environment: dict[str, str], engine: str, container: str, note: str
) -> None:
    imported = recipe(foreign(image, environment))
    assert f"\nengine: {engine}\n" in imported.text
    assert container in imported.text
    assert not note or any(note in each for each in imported.notes), imported.notes


def test_variables_of_text_generation_inference_become_options() -> None:
    tgi = f"{AWS}/huggingface-pytorch-tgi-inference:2.4.0-tgi3.0.1-gpu-py311"
    text = recipe(foreign(tgi, {"HF_MODEL_ID": "o/m", "SM_NUM_GPUS": "4", "MAX_TOTAL_TOKENS": "4096"})).text
    assert "\ntensor_parallel_degree: 4\n" in text
    assert "\n  max_model_len: 4096\n" in text


def test_arguments_of_a_vllm_server_become_options() -> None:
    text = recipe(
        foreign(f"{AWS}/vllm:0.11.0-gpu-py312", {"SM_VLLM_MODEL": "o/m", "SM_VLLM_MAX_MODEL_LEN": "8"})
    ).text
    assert ("\nmodel_id: o/m\n" in text, "\n  max_model_len: 8\n" in text) == (True, True)


def test_weights_in_s3_are_the_model() -> None:
    files = ModelFiles(properties={"option.dtype": "fp16"}, weights="s3://bucket/model/")
    text = recipe(foreign(environment={"HF_MODEL_ID": "/opt/ml/model"}), files).text
    assert "\nmodel_id: 's3://bucket/model/'\n" in text
    assert "/opt/ml/model" not in text
    assert "\n  dtype: fp16\n" in text


def test_settings_of_the_endpoint_have_their_keys() -> None:
    given = foreign(
        model={
            "network_isolation": True,
            "vpc": Vpc(subnets=("subnet-12345678",), security_groups=("sg-12345678",)),
        },
        config={
            "kms_key": "alias/models",
            "data_capture": DataCapture(output="s3://b/c/", percentage=7),
            "asynchronous": Asynchronous(output="s3://b/answers/"),
        },
        tags={"team": "search", "aws:created": "x"},
    )
    parsed = parse(recipe(given).text, "shop.yaml", purpose=PURPOSE)
    endpoint = parsed.endpoint
    assert (endpoint.count, endpoint.kms_key, endpoint.network_isolation) == (2, "alias/models", True)
    assert endpoint.vpc == given.model.settings.vpc
    assert endpoint.data_capture == given.config.settings.data_capture
    assert endpoint.asynchronous == given.config.settings.asynchronous
    assert endpoint.tags == (("team", "search"),)


def test_settings_without_a_key_are_noted() -> None:
    scaling = ForeignScaling(least=1, most=3, policies=("steps",))
    notes = recipe(foreign(scaling=scaling, not_read=("RoutingConfig",))).notes
    assert any("does not keep: RoutingConfig" in note for note in notes)
    assert any("scaled from 1 to 3 instances by steps" in note for note in notes)
    assert any("the variant AllTraffic becomes main" in note for note in notes)


def test_secret_is_not_written() -> None:
    imported = recipe(
        foreign(environment={"HF_MODEL_ID": "o/m", "HF_TOKEN": "hf_abcdefghijklmnopqrstuvwxyzabcdefgh"})
    )
    assert "hf_abc" not in imported.text
    assert any("HF_TOKEN" in note for note in imported.notes)


@pytest.mark.parametrize(
    ("tags", "words"),
    [
        ({}, ""),
        ({"team": "platform"}, ""),
        ({"aws:cloudformation:stack-name": "web"}, "the CloudFormation stack web"),
        ({"ManagedBy": "Terraform"}, "Terraform (tag ManagedBy: Terraform)"),
        ({"terraform-workspace": "prod"}, "Terraform (tag terraform-workspace: prod)"),
    ],
)
def test_managing_tool_is_known_by_its_tags(tags: dict[str, str], words: str) -> None:
    assert managed_by(foreign(tags=tags)) == words


@pytest.mark.parametrize("seconds", [900, 0])
def test_instance_pools_become_a_list_of_types(seconds: int) -> None:
    pools = PoolSettings(others=("ml.g6.12xlarge", "ml.g5.24xlarge"), provision_timeout=seconds)
    text = recipe(foreign(config={"instance_pools": pools})).text
    endpoint = parse(text, "shop.yaml", purpose=PURPOSE).endpoint
    assert endpoint.instance_pools == InstancePools(provision_timeout=seconds or 1800)
