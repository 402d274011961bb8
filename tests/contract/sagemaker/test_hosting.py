"""The port Hosting: created settings read back equal, a missing resource is None, errors are explained."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lmi_deploy.aws.sagemaker.hosting import SageMakerHosting
from lmi_deploy.domain.async_requests import AsyncCall, AsyncLimits
from lmi_deploy.domain.recipe_endpoint_keys import Asynchronous, DataCapture, UpdatePolicy, Vpc
from lmi_deploy.domain.sagemaker.resource_settings import (
    CandidateVariant,
    Mount,
    ObservedCandidate,
    PoolSettings,
)
from lmi_deploy.errors import Conflict, LmiError, NotFound, QuotaExceeded
from lmi_deploy.ports.cloud import Cloud
from lmi_deploy.ports.hosting import Hosting
from tests.support.emulator_process import REGION, Emulated
from tests.support.sagemaker_fixtures import TAGS, Recorder, config_settings, model_settings

LOSE = {"do": "lose"}


def on(operation: str, **rule: object) -> dict[str, object]:
    return {"headers": {"X-Amz-Target": f"{operation}$"}, **rule}


def test_missing_resources_are_none_and_deletes_are_idempotent(cloud: Cloud) -> None:
    hosting: Hosting = cloud.hosting
    assert hosting.endpoint("nobody") is None
    assert hosting.endpoint_config("nobody") is None
    assert hosting.model("nobody") is None
    hosting.delete_endpoint("nobody")
    hosting.delete_endpoint_config("nobody")
    hosting.delete_model("nobody")


@pytest.mark.parametrize("case", ["plain", "all"])
def test_settings_read_back_equal_what_was_created(aws: Emulated, cloud: Cloud, case: str) -> None:
    weights = aws.upload("weights/a", {"config.json": "{}"})
    more = {
        "plain": {},
        "all": {
            "mounts": (Mount(channel="weights", uri=weights),),
            "network_isolation": True,
            "vpc": Vpc(subnets=("subnet-2", "subnet-1"), security_groups=("sg-1",)),
        },
    }[case]
    settings, name = model_settings(aws, **more), f"read-{case}"
    cloud.hosting.create_model(name, settings, TAGS)
    observed = cloud.hosting.model(name)
    assert observed is not None
    assert observed.settings == settings
    assert cloud.hosting.tags(observed.arn) == TAGS
    capture = DataCapture(output="s3://b/c/", percentage=7, content="responses", kms_key="alias/c")
    every = {"instance": "ml.g4dn.xlarge", "count": 3, "kms_key": "alias/k", "data_capture": capture}
    queued = Asynchronous(
        output="s3://b/answers/",
        max_concurrent_per_instance=4,
        success_topic="arn:aws:sns:us-east-1:123456789012:done",
        error_topic="arn:aws:sns:us-east-1:123456789012:failed",
        kms_key="alias/answers",
    )
    every["asynchronous"] = queued
    extra: dict[str, Any] = {"plain": {}, "all": every}[case]
    config = config_settings(name, **extra)
    cloud.hosting.create_endpoint_config(name, config, TAGS)
    found = cloud.hosting.endpoint_config(name)
    assert found is not None
    assert found.settings == config
    assert found.models == (name,)
    assert found.created.endswith("+00:00")


def test_all_models_of_a_config_are_listed(aws: Emulated, cloud: Cloud) -> None:
    """Models of shadow variants are in use, too, and must not be deleted."""
    for name in ("variants-a", "variants-b"):
        cloud.hosting.create_model(name, model_settings(aws), TAGS)
    variant = {"VariantName": "a", "ModelName": "variants-a", "InstanceType": "ml.g5.xlarge"}
    shadow = {"VariantName": "s", "ModelName": "variants-b", "InstanceType": "ml.g5.xlarge"}
    aws.client("sagemaker").create_endpoint_config(
        EndpointConfigName="variants",
        ProductionVariants=[{**variant, "InitialInstanceCount": 1}],
        ShadowProductionVariants=[{**shadow, "InitialInstanceCount": 1}],
    )
    found = cloud.hosting.endpoint_config("variants")
    assert found is not None
    assert found.models == ("variants-a", "variants-b")


def test_volume_and_host_ami_read_back_equal(aws: Emulated, cloud: Cloud) -> None:
    cloud.hosting.create_model("volume", model_settings(aws), TAGS)
    config = config_settings(
        "volume", instance="ml.m5.xlarge", volume_gb=200, host_ami="al2-ami-sagemaker-inference-gpu-3-1"
    )
    cloud.hosting.create_endpoint_config("volume", config, TAGS)
    found = cloud.hosting.endpoint_config("volume")
    assert found is not None
    assert found.settings == config


def test_foreign_model_never_equals_desired_settings(aws: Emulated, cloud: Cloud) -> None:
    settings = model_settings(aws)
    container = {"Image": settings.image, "Environment": dict(settings.environment)}
    aws.client("sagemaker").create_model(
        ModelName="strange", ExecutionRoleArn=settings.role, PrimaryContainer=container
    )
    observed = cloud.hosting.model("strange")
    assert observed is not None
    assert observed.settings != settings
    assert observed.settings.artifact == ""


def test_instance_count_is_set_without_a_new_config(aws: Emulated, cloud: Cloud, serving: str) -> None:
    """A request whose reply is lost is sent again, and then finds the endpoint in progress or changed."""
    config = aws.settled(serving)["EndpointConfigName"]
    aws.fault(on("UpdateEndpointWeightsAndCapacities", **LOSE))
    cloud.hosting.set_instance_count(serving, 3)
    aws.settled(serving)
    observed = cloud.hosting.endpoint(serving)
    assert observed is not None
    assert (observed.config, observed.pending) == (config, "")
    assert (observed.count, observed.desired_count) == (3, 3)
    with pytest.raises(QuotaExceeded):
        cloud.hosting.set_instance_count(serving, 1000)
    with pytest.raises(NotFound):
        cloud.hosting.set_instance_count("nobody", 2)


def test_other_instance_count_in_progress_is_a_conflict(aws: Emulated, cloud: Cloud, serving: str) -> None:
    cloud.hosting.set_instance_count(serving, 1)
    aws.settled(serving)
    hold = {"method": "HOSTING", "path": "^/provision/", "do": {"hang": {"seconds": 10**9}}}
    aws.fault(on("UpdateEndpointWeightsAndCapacities", **LOSE), hold)
    cloud.hosting.set_instance_count(serving, 2)
    observed = cloud.hosting.endpoint(serving)
    assert observed is not None
    assert (observed.status, observed.pending, observed.count) == ("Updating", "", 1)
    assert observed.desired_count == 2
    with pytest.raises(Conflict, match="in progress"):
        cloud.hosting.set_instance_count(serving, 3)
    aws.no_faults()
    aws.advance(10**9)
    assert aws.settled(serving)["ProductionVariants"][0]["CurrentInstanceCount"] == 2


def test_change_of_the_instance_count_that_fails_is_rolled_back(
    aws: Emulated, cloud: Cloud, serving: str
) -> None:
    cloud.hosting.set_instance_count(serving, 1)
    aws.settled(serving)
    reason = "Unable to provision requested ML compute capacity due to InsufficientInstanceCapacity error."
    answer = {"status": 500, "body": reason}
    aws.fault({"method": "HOSTING", "path": "^/provision/", "do": {"answer": answer}})
    cloud.hosting.set_instance_count(serving, 2)
    aws.settled(serving)
    observed = cloud.hosting.endpoint(serving)
    assert observed is not None
    assert (observed.status, observed.count, observed.desired_count) == ("InService", 1, 1)
    assert observed.reason == reason


def test_candidate_is_read_back_and_gets_its_share(aws: Emulated, cloud: Cloud) -> None:
    hosting, name = cloud.hosting, "tried"
    hosting.create_model(name, model_settings(aws), TAGS)
    second = CandidateVariant(
        model=name, instance="ml.m5.xlarge", count=1, model_download=600, startup=600, volume_gb=64
    )
    shadow = replace(second, shadow_percent=35, volume_gb=0, instance="ml.g6.xlarge", count=2)
    for candidate in (second, shadow):
        config = config_settings(name, candidate=candidate)
        hosting.create_endpoint_config(f"{name}-{candidate.count}", config, TAGS)
        found = hosting.endpoint_config(f"{name}-{candidate.count}")
        assert found is not None
        assert (found.settings, found.models) == (config, (name,))
    hosting.create_endpoint(name, f"{name}-1", TAGS)
    aws.settled(name)
    observed = hosting.endpoint(name)
    assert observed is not None
    assert observed.candidate == ObservedCandidate(shadow=False, percent=0, count=1, desired_count=1)
    aws.fault(on("UpdateEndpointWeightsAndCapacities", **LOSE))
    hosting.set_traffic(name, 12)
    aws.settled(name)
    observed = hosting.endpoint(name)
    assert observed is not None
    assert (observed.variant, observed.count) == ("main", 1)
    assert observed.candidate == ObservedCandidate(shadow=False, percent=12, count=1, desired_count=1)
    hosting.update_endpoint(name, f"{name}-2", keep_count=False)
    aws.settled(name)
    observed = hosting.endpoint(name)
    assert observed is not None
    assert observed.candidate == ObservedCandidate(shadow=True, percent=35, count=2, desired_count=2)


def test_instance_pools_are_read_back_with_the_type_that_runs(aws: Emulated, cloud: Cloud) -> None:
    hosting, name = cloud.hosting, "pooled"
    hosting.create_model(name, model_settings(aws), TAGS)
    pools = PoolSettings(others=("ml.g6.xlarge", "ml.g4dn.xlarge"), provision_timeout=900)
    config = config_settings(name, count=2, instance_pools=pools)
    hosting.create_endpoint_config(name, config, TAGS)
    found = hosting.endpoint_config(name)
    assert found is not None
    assert found.settings == config
    assert found.settings.types == ("ml.g5.xlarge", *pools.others)
    capacity = "Unable to provision requested ML compute capacity due to InsufficientInstanceCapacity error."
    rule = {"method": "HOSTING", "path": f"^/provision/{name}/main/ml.g5"}
    aws.fault({**rule, "do": {"answer": {"status": 400, "body": capacity}}})
    hosting.create_endpoint(name, name, TAGS)
    aws.settled(name)
    observed = hosting.endpoint(name)
    assert observed is not None
    assert observed.pools == (("ml.g5.xlarge", 0), ("ml.g6.xlarge", 2), ("ml.g4dn.xlarge", 0))
    assert observed.running_types == (("ml.g6.xlarge", 2),)


def test_endpoint_is_created_and_updated(aws: Emulated, cloud: Cloud, serving: str) -> None:
    observed = cloud.hosting.endpoint(serving)
    assert observed is not None
    assert (observed.status, observed.config, observed.pending, observed.count) == (
        "InService",
        "chat",
        "",
        1,
    )
    cloud.hosting.tag(observed.arn, (("team", "red"),))
    assert dict(cloud.hosting.tags(observed.arn))["team"] == "red"
    cloud.hosting.create_endpoint_config("chat-2", config_settings("chat", count=2), TAGS)
    cloud.hosting.update_endpoint(serving, "chat-2", keep_count=False)
    aws.settled(serving)
    observed = cloud.hosting.endpoint(serving)
    assert observed is not None
    assert (observed.config, observed.count, observed.desired_count) == ("chat-2", 2, 2)
    cloud.hosting.update_endpoint(serving, "chat", keep_count=True)
    aws.settled(serving)
    observed = cloud.hosting.endpoint(serving)
    assert observed is not None
    assert (observed.config, observed.count) == ("chat", 2)


@pytest.mark.parametrize(
    ("update", "expected"),
    [
        (
            UpdatePolicy(policy="canary", step_percent=25, wait=60, keep_old=30, alarms=("errors",)),
            {
                "BlueGreenUpdatePolicy": {
                    "TrafficRoutingConfiguration": {
                        "Type": "CANARY",
                        "WaitIntervalInSeconds": 60,
                        "CanarySize": {"Type": "CAPACITY_PERCENT", "Value": 25},
                    },
                    "TerminationWaitInSeconds": 30,
                },
                "AutoRollbackConfiguration": {"Alarms": [{"AlarmName": "errors"}]},
            },
        ),
        (
            UpdatePolicy(policy="rolling", step_percent=50),
            {
                "RollingUpdatePolicy": {
                    "MaximumBatchSize": {"Type": "CAPACITY_PERCENT", "Value": 50},
                    "WaitIntervalInSeconds": 0,
                }
            },
        ),
        (
            UpdatePolicy(keep_old=5),
            {
                "BlueGreenUpdatePolicy": {
                    "TrafficRoutingConfiguration": {"Type": "ALL_AT_ONCE", "WaitIntervalInSeconds": 0},
                    "TerminationWaitInSeconds": 5,
                }
            },
        ),
    ],
    ids=lambda value: value.policy if isinstance(value, UpdatePolicy) else "",
)
def test_update_policy_is_sent(
    aws: Emulated, cloud: Cloud, serving: str, update: UpdatePolicy, expected: dict[str, Any]
) -> None:
    aws.client("cloudwatch").put_metric_alarm(
        AlarmName="errors",
        Namespace="AWS/SageMaker",
        MetricName="Invocation5XXErrors",
        ComparisonOperator="GreaterThanThreshold",
        EvaluationPeriods=1,
        Threshold=1.0,
        Period=60,
        Statistic="Sum",
    )
    now = aws.settled(serving)["EndpointConfigName"]
    name = f"policy-{update.policy}"
    cloud.hosting.create_endpoint_config(name, config_settings("chat", count=2), TAGS)
    cloud.hosting.update_endpoint(serving, name, keep_count=False, policy=update)
    assert aws.settled(serving)["EndpointConfigName"] == name
    assert aws.described(serving)["LastDeploymentConfig"] == expected
    cloud.hosting.update_endpoint(serving, now, keep_count=False)
    assert "LastDeploymentConfig" not in aws.settled(serving)


def test_creating_an_existing_resource_is_a_conflict(aws: Emulated, cloud: Cloud, serving: str) -> None:
    with pytest.raises(Conflict, match="model chat: it already exists"):
        cloud.hosting.create_model(serving, model_settings(aws), TAGS)
    with pytest.raises(Conflict, match="endpoint config chat"):
        cloud.hosting.create_endpoint_config(serving, config_settings(serving), TAGS)
    with pytest.raises(Conflict, match="endpoint chat"):
        cloud.hosting.create_endpoint(serving, serving, TAGS)
    with pytest.raises(NotFound, match="no-such-model"):
        cloud.hosting.create_endpoint_config("x", config_settings("no-such-model"), TAGS)


def test_lost_reply_to_a_create_ends_as_a_conflict(
    aws: Emulated, hosting: SageMakerHosting, recorder: Recorder
) -> None:
    settings = model_settings(aws)
    aws.fault(on("CreateModel", **LOSE))
    with pytest.raises(Conflict):
        hosting.create_model("lost", settings, TAGS)
    observed = hosting.model("lost")
    assert observed is not None
    assert observed.settings == settings
    assert hosting.tags(observed.arn) == TAGS
    assert recorder.notes == ["model lost: trying again: ConnectionClosedError"]
    assert recorder.clock.slept > 0


def test_lost_reply_to_an_update_or_delete_is_resolved_by_a_describe(
    aws: Emulated, hosting: SageMakerHosting, serving: str
) -> None:
    hosting.create_endpoint_config("lost-2", config_settings(serving), TAGS)
    hold = {"method": "HOSTING", "path": "^/provision/", "do": {"hang": {"seconds": 10**9}}}
    aws.fault(on("UpdateEndpoint", **LOSE), hold)
    hosting.update_endpoint(serving, "lost-2", keep_count=False)
    observed = hosting.endpoint(serving)
    assert observed is not None
    assert (observed.status, observed.pending) == ("Updating", "lost-2")
    with pytest.raises(Conflict, match="in progress"):
        hosting.update_endpoint(serving, "chat", keep_count=False)
    aws.no_faults()
    aws.advance(10**9)
    aws.settled(serving)
    aws.fault(on("DeleteEndpoint", **LOSE), on("DeleteModel", **LOSE))
    hosting.delete_endpoint(serving)
    aws.wait_until_deleted(serving)
    assert hosting.endpoint(serving) is None
    hosting.delete_model(serving)
    assert hosting.model(serving) is None


def test_quota_error_names_quota_value_and_remedy(aws: Emulated, cloud: Cloud) -> None:
    cloud.hosting.create_model("quota", model_settings(aws), TAGS)
    cloud.hosting.create_endpoint_config(
        "quota", config_settings("quota", instance="ml.p4d.24xlarge", count=2), TAGS
    )
    aws.post(f"/_quotas/{REGION}", {"ml.p4d.24xlarge": 1})
    with pytest.raises(QuotaExceeded) as caught:
        cloud.hosting.create_endpoint("quota", "quota", TAGS)
    assert caught.value.message == (
        'endpoint quota: the quota "ml.p4d.24xlarge for endpoint usage" is 1 in us-east-1; 0 are in use and 2 more '
        "would be needed"
    )
    assert "servicequotas" in caught.value.hint
    assert "request-service-quota-increase --region us-east-1" in caught.value.hint
    assert "--desired-value 2" in caught.value.hint


def test_request_whose_answer_is_unreadable_is_not_sent_again(aws: Emulated, cloud: Cloud) -> None:
    """The model does its work for each one."""
    garbled = {"answer": {"status": 202, "headers": {"Content-Type": "application/json"}, "body": "<html>"}}
    aws.fault({"path": "/async-invocations", "do": garbled, "times": 1})
    call = AsyncCall(input="s3://b/in", inference_id="1", headers=(), limits=AsyncLimits())
    with pytest.raises(LmiError) as caught:
        cloud.hosting.invoke_async("chat", call)
    assert "not found" not in caught.value.message
