"""A spec with a candidate: its names, its permissions, and its variants in SageMaker's fields."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lmi_deploy.domain.deployment_spec import CandidateSpec, Spec
from lmi_deploy.domain.sagemaker.resource_fields import (
    endpoint_config_request,
    endpoint_config_settings,
    observed_endpoint,
)
from lmi_deploy.domain.sagemaker.resource_settings import EndpointConfigSettings, ObservedCandidate
from lmi_deploy.domain.sagemaker.tags import spec_digest
from lmi_deploy.planning.render import render
from lmi_deploy.targets.sagemaker.desired_state import desired_state
from lmi_deploy.targets.sagemaker.permissions import policies
from lmi_deploy.targets.sagemaker.plan.summary import serving
from tests.support.cloud_factories import cloud_spec

MAIN = cloud_spec()
OTHER = cloud_spec("instance_type: ml.g6.xlarge\nendpoint: {count: 3}\noptions: {dtype: fp32}\n")


def tried(*, percent: int = 10, shadow: bool = False, other: Spec = OTHER) -> Spec:
    candidate = CandidateSpec(spec=other, artifact=render(other), percent=percent, shadow=shadow)
    return replace(MAIN, candidate=candidate)


def settings(spec: Spec) -> EndpointConfigSettings:
    return desired_state(spec, render(spec)).configs[0].settings


def name(spec: Spec) -> str:
    return desired_state(spec, render(spec)).configs[0].name


def test_share_of_a_production_variant_is_no_part_of_the_config() -> None:
    assert name(tried(percent=10)) == name(tried(percent=20)) != name(MAIN)
    assert spec_digest(tried(percent=10)) != spec_digest(tried(percent=20))


def test_share_of_a_shadow_variant_is_a_part_of_the_config() -> None:
    assert len({name(tried(percent=each, shadow=True)) for each in (10, 20)} | {name(tried())}) == 3


@pytest.mark.parametrize(("shadow", "weight"), [(False, 0.0), (True, 0.1)])
def test_variants_of_a_request_read_back_equal(shadow: bool, weight: float) -> None:
    wanted = settings(tried(shadow=shadow))
    requested = endpoint_config_request(wanted)
    variants = [*requested["ProductionVariants"], *requested.get("ShadowProductionVariants", ())]
    assert [(one["VariantName"], one["InitialVariantWeight"]) for one in variants] == [
        ("main", 1.0),
        ("candidate", weight),
    ]
    assert variants[1]["InitialInstanceCount"] == 3
    assert len(requested["ProductionVariants"]) == (1 if shadow else 2)
    assert endpoint_config_settings(requested) == wanted


@pytest.mark.parametrize("shadow", [False, True])
def test_every_variant_sends_requests_to_the_least_busy_instance_and_an_older_config_stays_in_step(
    shadow: bool,
) -> None:
    wanted = settings(tried(shadow=shadow))
    requested = endpoint_config_request(wanted)
    for variant in (*requested["ProductionVariants"], *requested.get("ShadowProductionVariants", ())):
        assert variant.pop("RoutingConfig") == {"RoutingStrategy": "LEAST_OUTSTANDING_REQUESTS"}
    assert endpoint_config_settings(requested) == wanted


def test_candidate_with_traffic_of_its_own_is_not_lmis() -> None:
    requested = endpoint_config_request(settings(tried()))
    requested["ProductionVariants"][1]["InitialVariantWeight"] = 1.0
    found = endpoint_config_settings(requested)
    assert (found.model, found.candidate) == ("", None)


@pytest.mark.parametrize(
    ("weights", "percent"), [((1.0, 0.0), 0), ((90.0, 10.0), 10), ((2.0, 1.0), 33), ((0.0, 0.0), 0)]
)
def test_share_is_the_part_of_all_weights(weights: tuple[float, float], percent: int) -> None:
    described: dict[str, Any] = {
        "EndpointName": "m",
        "EndpointArn": "arn",
        "EndpointStatus": "InService",
        "ProductionVariants": [
            {
                "VariantName": name,
                "DesiredWeight": weight,
                "CurrentInstanceCount": 1,
                "DesiredInstanceCount": 2,
            }
            for name, weight in zip(("candidate", "main"), reversed(weights), strict=True)
        ],
    }
    found = observed_endpoint(described)
    assert found.variant == "main"
    assert found.candidate == ObservedCandidate(shadow=False, percent=percent, count=1, desired_count=2)


def test_permissions_are_those_of_both_versions() -> None:
    image = "123456789012.dkr.ecr.us-east-1.amazonaws.com/mine:1"
    other = replace(OTHER, place=replace(OTHER.cloud, image=image))
    both = policies(tried(other=other))
    pull = {one.sid: one.resources for one in both.execution.grants}["PullImage"]
    alone = {one.sid: one.resources for one in policies(MAIN).execution.grants}["PullImage"]
    assert pull == (*alone, "arn:aws:ecr:us-east-1:123456789012:repository/mine")
    assert len({one.sid for one in both.deployer.grants}) == len(both.deployer.grants)
    assert policies(tried()).deployer == policies(MAIN).deployer  # the same weights, role and bucket


def test_record_names_the_models_and_weights_of_both() -> None:
    spec = tried(percent=7)
    found = serving(spec, render(spec))
    desired = desired_state(spec, render(spec))
    assert found.models == tuple(model.name for model in desired.models)
    assert len(found.models) == 2
    assert found.stored_weights == serving(MAIN, render(MAIN)).stored_weights
    assert found.summary["candidate"] == "answers 7 % of the requests"
    assert found.summary["candidate.option.dtype"] == "fp32"
    assert found.summary["candidate.instance_type"] == "ml.g6.xlarge"
    assert "candidate.sagemaker_model" not in found.summary
