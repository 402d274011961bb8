"""Where and how a recipe runs on SageMaker: every value resolved, and impossible recipes refused with the
numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lmi_deploy.domain.gathered_facts import CloudFacts
from lmi_deploy.domain.recipe_endpoint_keys import Vpc
from lmi_deploy.domain.sagemaker.resource_settings import Placement
from lmi_deploy.domain.sagemaker.scaling_settings import Scaling
from lmi_deploy.errors import Unresolvable
from tests.support.cloud_factories import (
    ACCOUNT,
    CLOUD,
    GB,
    cloud_facts,
    cloud_place,
    cloud_recipe,
    cloud_spec,
)
from tests.support.factories import resolve

G5 = "instance_type: ml.g5.xlarge\n"
M5 = "instance_type: ml.m5.xlarge\n"
LMI = "763104351884.dkr.ecr.us-east-1.amazonaws.com/djl-inference:"
NEW_HOST, OLD_HOST = "al2023-ami-sagemaker-inference-gpu-4-1", "al2-ami-sagemaker-inference-gpu-3-1"


def test_short_recipe_resolves_every_value() -> None:
    place = cloud_place()
    assert (place.account, place.partition, place.region) == (ACCOUNT, "aws", "us-east-1")
    assert place.bucket == CLOUD.bucket
    assert place.role == f"arn:aws:iam::{ACCOUNT}:role/lmi-endpoint"
    assert place.image == f"{LMI}0.38.0-lmi29.0.0-cu130"
    assert place.placements == (Placement(instance="ml.g5.xlarge", volume_gb=0, host_ami=NEW_HOST),)
    assert (place.count, place.delivery, place.travel.via) == (1, "s3", "stream")
    assert (place.model_download, place.startup_timeout) == (600, 600)
    assert place.environment == (("SERVING_FAIL_FAST", "true"),)
    assert (place.vpc, place.scaling, place.tags, place.ttl) == (None, None, (), 0)
    assert place == cloud_place()


def test_given_values_are_kept() -> None:
    place = cloud_place(
        f"{G5}ttl: 8h\nweights: {{via: job, token_secret: hub}}\n"
        "container: {version: 0.34.0, environment: {SERVING_FAIL_FAST: 'false', A: b}}\n"
        "timeouts: {model_download: 700, container_startup: 900}\n"
        "endpoint:\n  role: team/serve\n  kms_key: alias/models\n  tags: {team: search}\n"
        "  vpc: {subnets: [subnet-1], security_groups: [sg-1]}\n"
        "  autoscaling: {min: 2, max: 4, invocations_per_instance: 60}\n"
    )
    assert place.role == f"arn:aws:iam::{ACCOUNT}:role/team/serve"
    assert place.image == f"{LMI}0.34.0-lmi16.0.0-cu128"
    assert place.placements[0].host_ami == OLD_HOST
    assert place.environment == (("A", "b"), ("SERVING_FAIL_FAST", "false"))
    assert (place.model_download, place.startup_timeout, place.ttl) == (700, 900, 28800)
    assert place.scaling == Scaling(least=2, most=4, invocations=60)
    assert (place.count, place.travel.via, place.token_secret) == (2, "job", "hub")
    assert place.vpc == Vpc(subnets=("subnet-1",), security_groups=("sg-1",))
    assert (place.kms_key, place.tags) == ("alias/models", (("team", "search"),))


def test_every_instance_type_gets_a_placement_and_a_volume_where_accepted() -> None:
    place = cloud_place(
        "instance_type: [ml.g5.xlarge, ml.m5.xlarge]\nendpoint: {volume_gb: 100}\n", size=50 * GB
    )
    assert [(each.instance, each.volume_gb, each.host_ami) for each in place.placements] == [
        ("ml.g5.xlarge", 0, NEW_HOST),
        ("ml.m5.xlarge", 100, ""),
    ]


@pytest.mark.parametrize(("size", "volume"), [(10, 0), (15 * GB, 0), (50 * GB, 62), (400 * GB, 420)])
def test_volume_is_enlarged_when_the_default_is_too_small(size: int, volume: int) -> None:
    # ml.m5.24xlarge: 25 Gbit/s
    assert cloud_place("instance_type: ml.m5.24xlarge\n", size=size).placements[0].volume_gb == volume


def test_isolated_container_gets_its_weights_mounted() -> None:
    place = cloud_place(f"{G5}endpoint: {{network_isolation: true}}\n")
    assert (place.network_isolation, place.delivery) == (True, "mount")


def test_default_degree_is_that_of_the_instance() -> None:
    assert cloud_spec("instance_type: ml.g5.12xlarge\n").engine.tensor_parallel_degree == 4
    output = cloud_spec("instance_type: ml.g5.12xlarge\ntensor_parallel_degree: 2\n")
    assert output.engine.tensor_parallel_degree == 2
    assert cloud_spec(M5).engine.tensor_parallel_degree == 1


def test_timeouts_grow_with_the_weights_up_to_the_sagemaker_limit() -> None:
    assert cloud_place(size=14 * GB).startup_timeout == 720
    slow = cloud_place(size=100 * GB)
    # 640 s on half of 2.5 Gbit/s, then 1120 s to load them and start, in whole minutes
    assert (slow.model_download, slow.startup_timeout) == (600, 1800)
    mounted = cloud_place(f"{G5}weights: {{deliver: mount}}\n", size=100 * GB)
    assert (mounted.model_download, mounted.startup_timeout) == (660, 1140)
    assert cloud_place("instance_type: ml.p4d.24xlarge\n", size=800 * GB).startup_timeout == 3600


def test_artifact_does_not_depend_on_the_instance() -> None:
    def properties(extra: str) -> object:
        return cloud_spec(extra, size=100 * GB).engine.properties

    assert properties(G5) == properties("instance_type: ml.g5.16xlarge\n")
    assert dict(cloud_spec(size=100 * GB).engine.properties)["option.model_loading_timeout"] == "1140"


REFUSED = [
    (
        "tensor_parallel_degree: 4\n" + G5,
        10,
        "4 does not fit ml.g5.xlarge, which has 1 GPU",
        "ml.g5.12xlarge",
    ),
    ("tensor_parallel_degree: 2\n" + M5, 10, "does not fit ml.m5.xlarge, which has no accelerator", "auto"),
    ("instance_type: ml.g4dn.xlarge\n", 126 * GB, "hold 125 GB, the weights are 126 GB", "larger type"),
    (M5 + "endpoint: {volume_gb: 40}\n", 50 * GB, "40 GB are too small for 50.0 GB", "at least 62"),
    ("instance_type: ml.m5.24xlarge\n", 500 * GB, "a volume of 523 GB", "local disks"),
    (M5, 600 * GB, "take 3840 s; SageMaker waits 3600 s", "faster network"),
    (
        G5 + "timeouts: {container_startup: 60}\n",
        40 * GB,
        "take 128 s, but the limit is 60 s",
        "at least 300",
    ),
    (
        G5 + "weights: {deliver: mount}\ntimeouts: {model_download: 60}\n",
        40 * GB,
        "timeouts.model_download: 40.0 GB",
        "at least 300",
    ),
    (G5 + "weights: {deliver: artifact}\n", 6 * GB, "artifact is for at most 5 GB", "omit it"),
    ("", 140 * GB, "instance_type: missing", "ml.p4d.24xlarge (130.4 GiB x 1.3 = 169.5 GiB"),
    (
        G5 + "endpoint: {role: 'arn:aws:iam::999999999999:role/x'}\n",
        10,
        "belongs to account 999999999999",
        "role of",
    ),
]


@pytest.mark.parametrize(("extra", "size", "words", "hint"), REFUSED)
def test_impossible_recipe_is_refused_with_the_numbers(extra: str, size: int, words: str, hint: str) -> None:
    with pytest.raises(Unresolvable) as refused:
        cloud_place(extra, size=size)
    assert words in refused.value.message
    assert hint in refused.value.hint


def test_contradictions_are_reported_together() -> None:
    with pytest.raises(Unresolvable) as refused:
        cloud_place(f"{G5}tensor_parallel_degree: 4\nendpoint: {{volume_gb: 40}}\n")
    assert [refused.value.message, *refused.value.details][1].startswith(
        "endpoint.volume_gb: ml.g5.xlarge has"
    )


def test_region_determines_the_registry() -> None:
    china = CloudFacts(
        account=ACCOUNT, partition="aws-cn", region="cn-north-1", principal="", bucket="models"
    )
    place = resolve(cloud_recipe(), cloud_facts(cloud=china)).cloud
    assert place.image.startswith("727897471807.dkr.ecr.cn-north-1.amazonaws.com.cn/djl-inference:")
    assert place.role == f"arn:aws-cn:iam::{ACCOUNT}:role/lmi-endpoint"


def test_account_is_required() -> None:
    with pytest.raises(Unresolvable, match="but the account was not looked up"):
        resolve(cloud_recipe(), cloud_facts(cloud=None))


def test_degree_that_does_not_divide_the_heads_is_refused() -> None:
    auto = replace(cloud_recipe("instance_type: ml.g5.48xlarge\n"), engine="vllm")
    recipe = replace(auto, tensor_parallel_degree=8)
    from lmi_deploy.sizing.tensor_parallel_degree import degree_of

    for config in ({"num_attention_heads": 12}, {"text_config": {"num_attention_heads": 12}}):
        with pytest.raises(Unresolvable, match="8 does not divide the 12 attention heads") as refused:
            degree_of(recipe, config)
        assert refused.value.hint == "write tensor_parallel_degree: 6"
        assert degree_of(auto, config) == 6
    assert degree_of(auto, {"num_attention_heads": 32}) == degree_of(auto, {}) == 8
