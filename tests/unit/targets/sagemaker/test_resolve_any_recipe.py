"""Any valid recipe for SageMaker and any facts give a Spec that SageMaker accepts, or a reason why not."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from hypothesis import event, given
from hypothesis import strategies as st

from lmi_deploy.catalog import instances, sagemaker_limits
from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.gathered_facts import CloudFacts
from lmi_deploy.domain.sagemaker.resource_names import resource_name
from lmi_deploy.errors import RecipeError, Unresolvable
from lmi_deploy.planning.render import render
from lmi_deploy.targets.sagemaker.permissions import policies
from tests.support.cloud_factories import CLOUD, GB, cloud_facts, cloud_recipe
from tests.support.factories import facts, resolve
from tests.support.hypothesis_settings import examples
from tests.support.recipe_parsing import parse

ACCOUNT = CLOUD.account
TYPE = st.sampled_from(["ml.g5.xlarge", "ml.g5.12xlarge", "ml.p4d.24xlarge"]) | st.sampled_from(
    instances.names()
)
ENDPOINT = st.fixed_dictionaries(
    {},
    optional={
        "role": st.sampled_from(["serve", "team/serve", f"arn:aws:iam::{'9' * 12}:role/x"]),
        "count": st.integers(1, 3),
        "kms_key": st.sampled_from(["alias/x", "0-1"]),
        "network_isolation": st.booleans(),
        "vpc": st.just({"subnets": ["subnet-1"], "security_groups": ["sg-1"]}),
        "autoscaling": st.fixed_dictionaries(
            {
                "min": st.integers(0, 1),
                "max": st.integers(3, 4),
                "invocations_per_instance": st.integers(1, 99),
            }
        ),
        "tags": st.dictionaries(st.sampled_from(["team", "b"]), st.just("x")),
    },
)
CONTAINER = st.sampled_from(
    [
        {"version": "0.38.0"},
        {"version": "0.34.0"},
        {"version": "0.36.0-lmi20"},
        {"host_ami": "al2023-ami-sagemaker-inference-gpu-4-1"},
        {"host_ami": "al2-ami-sagemaker-inference-neuron-2"},
    ]
)
TIMEOUTS = st.fixed_dictionaries(
    {},
    optional={
        "model_download": st.integers(60, 3600),
        "container_startup": st.integers(900, 3600),
        "model_loading": st.integers(1, 900),
    },
)
WEIGHTS = st.fixed_dictionaries(
    {},
    optional={
        "deliver": st.sampled_from(["s3", "mount", "artifact"]),
        "via": st.sampled_from(["stream", "snapshot", "job"]),
    },
)
RECIPE = st.fixed_dictionaries(
    {
        "name": st.sampled_from(["m", "m" * 48]),
        "model_id": st.just("org/m"),
        "instance_type": st.lists(TYPE, min_size=1, max_size=2),
        "engine": st.sampled_from(["vllm", "accelerate", "custom"]),
        "handler": st.just({"file": "model.py"}),
        "probe": st.just({"body": "x"}),
    },
    optional={
        "tensor_parallel_degree": st.sampled_from(["auto", 1, 4]),
        "weights": WEIGHTS,
        "container": CONTAINER,
        "timeouts": TIMEOUTS,
        "ttl": st.integers(60, 9999),
        "endpoint": ENDPOINT,
    },
)
SIZE = st.integers(0, 40 * GB) | st.integers(0, 1500 * GB)
REGION = st.sampled_from(sagemaker_limits.names("regions"))


@given(RECIPE, REGION, SIZE, st.sampled_from([{}, {"num_attention_heads": 12}]))
@examples(200)
def test_any_valid_recipe_is_resolved_or_refused(
    written: dict[str, Any], region: str, size: int, config: dict[str, Any]
) -> None:
    try:
        recipe = parse(json.dumps(written), "r.yaml")
    except RecipeError:
        event("refused by validate")
        return
    cloud = CloudFacts(account=ACCOUNT, partition="aws", region=region, principal="", bucket="models")
    known = cloud_facts(size, cloud=cloud, config={"architectures": ["LlamaForCausalLM"], **config})
    try:
        spec = resolve(recipe, known)
    except Unresolvable:
        event("unresolvable")
        return
    event("resolved")
    _is_what_sagemaker_takes(spec, size)


def _is_what_sagemaker_takes(spec: Spec, size: int) -> None:
    place = spec.cloud
    assert 60 <= place.model_download <= 3600
    assert 60 <= place.startup_timeout <= 3600
    assert place.count >= 1
    assert len(resource_name(spec.name, place)) <= 63
    assert len(place.environment) <= 100
    for placement in place.placements:
        machine = instances.instance(placement.instance)
        assert machine is not None
        assert not (machine.refuses_volume and placement.volume_gb)
        assert placement.volume_gb <= 512
        if not machine.refuses_volume:
            assert (placement.volume_gb or 30) * 2**30 >= size
    assert place.delivery != "s3" or not place.network_isolation
    documents = json.loads(json.dumps(policies(spec).documents))
    actions = [a for part in documents.values() for s in part["Statement"] for a in s["Action"]]
    assert not [action for action in actions if "*" in action]


def test_artifact_is_equal_for_both_targets() -> None:
    cloud = cloud_recipe()
    local = replace(cloud, instance_type=(), endpoint=replace(cloud.endpoint, target="local"))
    both = facts(listing=cloud_facts(10).listing, cloud=CLOUD)
    assert render(resolve(cloud, both)).digest == render(resolve(local, both)).digest
