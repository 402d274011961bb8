"""The states of an endpoint as a client sees them, with a clock that the test advances."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.support.emulator_process import BUCKET, REGION, Emulated

PROVISIONED = 91
CAPACITY = "Unable to provision requested ML compute capacity due to InsufficientInstanceCapacity error."


@pytest.fixture(autouse=True)
def _no_faults(aws: Emulated) -> Any:
    yield
    aws.no_faults()


@pytest.fixture
def ready(aws: Emulated, request: pytest.FixtureRequest) -> str:
    """A model and a configuration, both named after the test; no endpoint yet."""
    return prepared(aws, request.node.originalname.removeprefix("test_").replace("_", "-")[:40].strip("-"))


def prepared(aws: Emulated, name: str) -> str:
    uri = aws.upload(f"artifacts/{name}", {"serving.properties": "engine=Python\n"})
    aws.model(name, uri)
    aws.endpoint_config(name, name)
    return name


def refused(client: Any, operation: str, **params: Any) -> str:
    with pytest.raises(client.exceptions.ClientError) as refusal:
        client._make_api_call(operation, params)
    error = refusal.value.response["Error"]
    assert error["Code"] == "ValidationException"
    return str(error["Message"])


def arn(kind: str, name: str) -> str:
    return f"arn:aws:sagemaker:{REGION}:123456789012:{kind}/{name}"


def test_endpoint_lifecycle_from_creating_to_deleted(idle_emulator: Emulated) -> None:
    name, client = prepared(idle_emulator, "slow"), idle_emulator.client("sagemaker")
    idle_emulator.endpoint(name)
    observed = idle_emulator.described(name)
    assert (observed["EndpointStatus"], observed["EndpointConfigName"]) == ("Creating", name)
    assert "ProductionVariants" not in observed
    in_progress = f'Cannot update in-progress endpoint "{arn("endpoint", name)}".'
    assert refused(client, "UpdateEndpoint", EndpointName=name, EndpointConfigName=name) == in_progress
    assert refused(client, "DeleteEndpoint", EndpointName=name) == in_progress
    idle_emulator.advance(PROVISIONED)
    variant = idle_emulator.settled(name)["ProductionVariants"][0]
    assert (variant["CurrentInstanceCount"], variant["CurrentWeight"]) == (1, 1.0)
    assert variant["DeployedImages"][0]["ResolvedImage"].count("@sha256:") == 1
    client.delete_endpoint(EndpointName=name)
    assert idle_emulator.described(name)["EndpointStatus"] == "Deleting"
    idle_emulator.advance(6)
    idle_emulator.wait_until_deleted(name)
    missing = f'Could not find endpoint "{arn("endpoint", name)}".'
    assert refused(client, "DescribeEndpoint", EndpointName=name) == missing


def test_clock_is_shown_and_only_moves_forward(idle_emulator: Emulated) -> None:
    before = idle_emulator.get("/_clock")["now"]
    idle_emulator.advance(3600)
    assert 3600 <= idle_emulator.get("/_clock")["now"] - before < 3700
    with pytest.raises(OSError, match="400"):
        idle_emulator.advance(-1)


def test_creating_a_resource_twice_is_refused(aws: Emulated, ready: str) -> None:
    client = aws.client("sagemaker")
    aws.endpoint(ready)
    model = client.describe_model(ModelName=ready)
    keys = ("ModelName", "PrimaryContainer", "ExecutionRoleArn")
    assert refused(client, "CreateModel", **{key: model[key] for key in keys}) == (
        f'Cannot create already existing model "{arn("model", ready)}".'
    )
    config = client.describe_endpoint_config(EndpointConfigName=ready)
    variants = config["ProductionVariants"]
    assert refused(client, "CreateEndpointConfig", EndpointConfigName=ready, ProductionVariants=variants) == (
        f'Cannot create already existing endpoint configuration "{arn("endpoint-config", ready)}".'
    )
    assert refused(client, "CreateEndpoint", EndpointName=ready, EndpointConfigName=ready) == (
        f'Cannot create already existing endpoint "{arn("endpoint", ready)}".'
    )


def test_reference_to_a_missing_resource_is_refused(aws: Emulated, ready: str) -> None:
    client = aws.client("sagemaker")
    assert refused(client, "CreateEndpoint", EndpointName="x", EndpointConfigName="none") == (
        f'Could not find endpoint configuration "{arn("endpoint-config", "none")}".'
    )
    variant = {
        "VariantName": "v",
        "ModelName": "none",
        "InstanceType": "ml.m5.large",
        "InitialInstanceCount": 1,
    }
    assert refused(client, "CreateEndpointConfig", EndpointConfigName="y", ProductionVariants=[variant]) == (
        f'Could not find model "{arn("model", "none")}".'
    )
    client.delete_model(ModelName=ready)
    assert refused(client, "DeleteModel", ModelName=ready) == f'Could not find model "{arn("model", ready)}".'
    assert refused(client, "CreateEndpoint", EndpointName="x", EndpointConfigName=ready) == (
        f'Could not find model "{arn("model", ready)}".'
    )


def test_config_in_use_can_be_deleted_and_then_blocks_updates(aws: Emulated, ready: str) -> None:
    client = aws.client("sagemaker")
    aws.endpoint(ready)
    aws.settled(ready)
    aws.endpoint_config(f"{ready}-2", ready)
    client.delete_endpoint_config(EndpointConfigName=ready)
    missing = f'Could not find endpoint configuration "{arn("endpoint-config", ready)}".'
    assert refused(client, "DescribeEndpointConfig", EndpointConfigName=ready) == missing
    assert aws.described(ready)["EndpointStatus"] == "InService"
    assert refused(client, "UpdateEndpoint", EndpointName=ready, EndpointConfigName=f"{ready}-2") == missing


def test_update_replaces_the_configuration(aws: Emulated, ready: str) -> None:
    client = aws.client("sagemaker")
    aws.endpoint(ready)
    aws.settled(ready)
    aws.endpoint_config(f"{ready}-2", ready, InitialInstanceCount=2)
    client.update_endpoint(EndpointName=ready, EndpointConfigName=f"{ready}-2")
    found = aws.settled(ready)
    assert (found["EndpointStatus"], found["EndpointConfigName"]) == ("InService", f"{ready}-2")
    assert found["ProductionVariants"][0]["CurrentInstanceCount"] == 2
    assert "PendingDeploymentSummary" not in found


def test_changed_instance_counts_are_retained_on_request(aws: Emulated, ready: str) -> None:
    client = aws.client("sagemaker")
    aws.endpoint(ready)
    aws.settled(ready)
    desired = [{"VariantName": "AllTraffic", "DesiredInstanceCount": 3, "DesiredWeight": 0.5}]
    client.update_endpoint_weights_and_capacities(EndpointName=ready, DesiredWeightsAndCapacities=desired)
    variant = aws.settled(ready)["ProductionVariants"][0]
    assert (variant["CurrentInstanceCount"], variant["CurrentWeight"]) == (3, 0.5)
    excluded = [{"VariantPropertyType": "DesiredWeight"}]
    client.update_endpoint(
        EndpointName=ready,
        EndpointConfigName=ready,
        RetainAllVariantProperties=True,
        ExcludeRetainedVariantProperties=excluded,
    )
    variant = aws.settled(ready)["ProductionVariants"][0]
    assert (variant["CurrentInstanceCount"], variant["CurrentWeight"]) == (3, 1.0)
    client.update_endpoint(EndpointName=ready, EndpointConfigName=ready)
    assert aws.settled(ready)["ProductionVariants"][0]["CurrentInstanceCount"] == 1


def test_shadow_variant_gets_copies_and_answers_no_caller(aws: Emulated, ready: str) -> None:
    client, runtime, watch = (aws.client(name) for name in ("sagemaker", "sagemaker-runtime", "cloudwatch"))
    plain = {"ModelName": ready, "InstanceType": "ml.g5.xlarge", "InitialInstanceCount": 1}
    main, shadow = {"VariantName": "main", **plain}, {"VariantName": "shadow", **plain}
    config = {"ProductionVariants": [main], "ShadowProductionVariants": [shadow]}
    client.create_endpoint_config(EndpointConfigName=f"{ready}-s", **config)
    aws.endpoint(ready, f"{ready}-s")
    found = aws.settled(ready)
    assert [one["VariantName"] for one in found["ProductionVariants"]] == ["main"]
    assert [one["CurrentInstanceCount"] for one in found["ShadowProductionVariants"]] == [1]
    for _ in range(3):
        answer = runtime.invoke_endpoint(EndpointName=ready, ContentType="text/plain", Body=b"x")
        assert answer["InvokedProductionVariant"] == "main"
    with pytest.raises(runtime.exceptions.ClientError, match="Variant shadow not found"):
        runtime.invoke_endpoint(EndpointName=ready, Body=b"x", TargetVariant="shadow")
    now = aws.get("/_clock")["now"]
    named = [{"Name": "EndpointName", "Value": ready}, {"Name": "VariantName", "Value": "shadow"}]
    sums = watch.get_metric_statistics(
        **{"Namespace": "AWS/SageMaker", "MetricName": "Invocations", "Dimensions": named},
        **{"StartTime": now - 36000, "EndTime": now + 36000, "Period": 3600, "Statistics": ["Sum"]},
    )
    assert sum(point["Sum"] for point in sums["Datapoints"]) == 3


def test_request_that_several_variants_exclude_is_refused(aws: Emulated, ready: str) -> None:
    client = aws.client("sagemaker")
    plain = {"ModelName": ready, "InstanceType": "ml.g5.xlarge", "InitialInstanceCount": 1}
    first, second, third = ({"VariantName": name, **plain} for name in ("AllTraffic", "b", "c"))
    shadows = {"ProductionVariants": [first, second], "ShadowProductionVariants": [third]}
    assert "one shadow variant" in refused(
        client, "CreateEndpointConfig", EndpointConfigName="excluded", **shadows
    )
    aws.endpoint(ready)
    aws.settled(ready)
    client.create_endpoint_config(EndpointConfigName=f"{ready}-2", ProductionVariants=[first, second])
    shifting = {"Type": "ALL_AT_ONCE", "WaitIntervalInSeconds": 0}
    policy = {"BlueGreenUpdatePolicy": {"TrafficRoutingConfiguration": shifting}}
    update = {"EndpointName": ready, "EndpointConfigName": f"{ready}-2"}
    assert "same variant names" in refused(client, "UpdateEndpoint", **update, DeploymentConfig=policy)
    client.update_endpoint(**update)
    aws.settled(ready)
    counts = [{"VariantName": name, "DesiredInstanceCount": 2} for name in ("AllTraffic", "b")]
    assert "one variant" in refused(
        client,
        "UpdateEndpointWeightsAndCapacities",
        EndpointName=ready,
        DesiredWeightsAndCapacities=counts,
    )


def test_insufficient_capacity_fails_the_endpoint(aws: Emulated, ready: str) -> None:
    rule = {"method": "HOSTING", "path": f"^/provision/{ready}/.*/ml.g5", "delay": 600}
    aws.fault({**rule, "do": {"answer": {"status": 400, "body": CAPACITY}}})
    aws.endpoint(ready)
    found = aws.settled(ready)
    assert (found["EndpointStatus"], found["FailureReason"]) == ("Failed", CAPACITY)
    client = aws.client("sagemaker")
    assert "Failed" in refused(client, "UpdateEndpoint", EndpointName=ready, EndpointConfigName=ready)
    client.delete_endpoint(EndpointName=ready)
    aws.wait_until_deleted(ready)


def test_endpoint_can_stay_in_creating(idle_emulator: Emulated) -> None:
    name = prepared(idle_emulator, "stuck")
    idle_emulator.fault(
        {"method": "HOSTING", "path": f"^/provision/{name}/", "do": {"hang": {"seconds": 86400}}}
    )
    idle_emulator.endpoint(name)
    idle_emulator.advance(3600)
    assert idle_emulator.described(name)["EndpointStatus"] == "Creating"
    idle_emulator.advance(86400)
    idle_emulator.advance(PROVISIONED)
    assert idle_emulator.settled(name)["EndpointStatus"] == "InService"


def test_failed_update_rolls_back(aws: Emulated, ready: str) -> None:
    client = aws.client("sagemaker")
    aws.endpoint(ready)
    aws.settled(ready)
    aws.endpoint_config(f"{ready}-2", ready)
    rule = {"method": "HOSTING", "path": f"^/provision/{ready}/"}
    aws.fault({**rule, "do": {"answer": {"status": 400, "body": CAPACITY}}})
    client.update_endpoint(EndpointName=ready, EndpointConfigName=f"{ready}-2")
    found = aws.settled(ready)
    assert (found["EndpointStatus"], found["EndpointConfigName"]) == ("InService", ready)
    assert found["FailureReason"] == CAPACITY


def test_failed_rollback_ends_in_update_rollback_failed(aws: Emulated, ready: str) -> None:
    client = aws.client("sagemaker")
    aws.endpoint(ready)
    aws.settled(ready)
    for phase in ("provision", "rollback"):
        rule = {"method": "HOSTING", "path": f"^/{phase}/{ready}/"}
        aws.fault({**rule, "do": {"answer": {"status": 400, "body": CAPACITY}}})
    client.update_endpoint(EndpointName=ready, EndpointConfigName=ready)
    assert aws.settled(ready)["EndpointStatus"] == "UpdateRollbackFailed"


GUARDS = {
    "BlueGreenUpdatePolicy": {
        "TrafficRoutingConfiguration": {
            "Type": "CANARY",
            "WaitIntervalInSeconds": 300,
            "CanarySize": {"Type": "CAPACITY_PERCENT", "Value": 10},
        },
        "TerminationWaitInSeconds": 60,
    },
    "RollingUpdatePolicy": {
        "MaximumBatchSize": {"Type": "INSTANCE_COUNT", "Value": 1},
        "WaitIntervalInSeconds": 300,
    },
}


@pytest.mark.parametrize("policy", GUARDS)
def test_alarm_during_an_update_rolls_back(idle_emulator: Emulated, policy: str) -> None:
    name, client, watch = (
        prepared(idle_emulator, f"guarded-{policy[:4]}"),
        idle_emulator.client("sagemaker"),
        idle_emulator.client("cloudwatch"),
    )
    idle_emulator.endpoint(name)
    idle_emulator.advance(PROVISIONED)
    idle_emulator.settled(name)
    idle_emulator.endpoint_config(f"{name}-2", name)
    rollback = {"Alarms": [{"AlarmName": f"errors-{policy}"}]}
    guard = {policy: GUARDS[policy], "AutoRollbackConfiguration": rollback}
    update = {"EndpointName": name, "EndpointConfigName": f"{name}-2", "DeploymentConfig": guard}
    assert "errors" in refused(client, "UpdateEndpoint", **update)
    alarm = {"Namespace": "n", "MetricName": "m", "Period": 60, "EvaluationPeriods": 1, "Threshold": 1.0}
    watch.put_metric_alarm(
        AlarmName=f"errors-{policy}", ComparisonOperator="GreaterThanThreshold", Statistic="Sum", **alarm
    )
    client.update_endpoint(**update)
    idle_emulator.advance(PROVISIONED)
    pending = idle_emulator.described(name)["PendingDeploymentSummary"]
    assert pending["EndpointConfigName"] == f"{name}-2"
    watch.set_alarm_state(AlarmName=f"errors-{policy}", StateValue="ALARM", StateReason="test")
    visited = set()
    for _ in range(20):
        idle_emulator.advance(20)
        visited.add(idle_emulator.described(name)["EndpointStatus"])
        if visited >= {"RollingBack", "InService"}:
            break
    found = idle_emulator.settled(name)
    assert (found["EndpointStatus"], found["EndpointConfigName"]) == ("InService", name)
    assert "errors" in found["FailureReason"]


@pytest.mark.parametrize("policy", GUARDS)
def test_update_over_its_time_limit_rolls_back(idle_emulator: Emulated, policy: str) -> None:
    name, client = prepared(idle_emulator, f"overdue-{policy[:4]}"), idle_emulator.client("sagemaker")
    idle_emulator.endpoint(name)
    idle_emulator.advance(PROVISIONED)
    idle_emulator.settled(name)
    idle_emulator.endpoint_config(f"{name}-2", name)
    guard = {policy: {**GUARDS[policy], "MaximumExecutionTimeoutInSeconds": 600}}
    idle_emulator.fault(
        {"method": "HOSTING", "path": f"^/provision/{name}/", "do": {"hang": {"seconds": 86400}}}
    )
    client.update_endpoint(EndpointName=name, EndpointConfigName=f"{name}-2", DeploymentConfig=guard)
    idle_emulator.advance(590)
    assert idle_emulator.described(name)["EndpointStatus"] == "Updating"
    idle_emulator.advance(11)
    deadline = time.monotonic() + 10
    while idle_emulator.described(name)["EndpointStatus"] != "RollingBack":
        assert time.monotonic() < deadline
    idle_emulator.advance(61)
    found = idle_emulator.settled(name)
    assert (found["EndpointStatus"], found["EndpointConfigName"]) == ("InService", name)
    assert "MaximumExecutionTimeoutInSeconds, 600 seconds" in found["FailureReason"]


def test_endpoint_status_can_be_set_by_hand(aws: Emulated, ready: str) -> None:
    aws.endpoint(ready)
    aws.settled(ready)
    aws.post(f"/_endpoints/{REGION}/{ready}", {"status": "OutOfService", "reason": "a test"})
    assert aws.described(ready)["EndpointStatus"] == "OutOfService"


def test_fault_rule_can_refuse_a_quota(aws: Emulated, ready: str) -> None:
    body = '{"__type": "ResourceLimitExceeded", "message": "The account-level service limit is 0 Instances"}'
    rule = {"headers": {"X-Amz-Target": "CreateEndpoint$"}, "do": {"answer": {"status": 400, "body": body}}}
    aws.fault(rule)
    client = aws.client("sagemaker")
    with pytest.raises(client.exceptions.ResourceLimitExceeded, match="0 Instances"):
        aws.endpoint(ready)


def test_lost_reply_means_the_create_was_executed(aws: Emulated, ready: str) -> None:
    from botocore.exceptions import ConnectionClosedError

    aws.fault({"headers": {"X-Amz-Target": "CreateEndpoint$"}, "do": "lose"})
    with pytest.raises(ConnectionClosedError):
        aws.endpoint(ready)
    assert aws.settled(ready)["EndpointStatus"] == "InService"


def test_container_whose_weights_are_gone_does_not_start(aws: Emulated) -> None:
    uri = aws.upload("artifacts/gone", {"serving.properties": "engine=Python\n"})
    aws.model("gone", uri, Environment={"HF_MODEL_ID": uri.replace("artifacts/gone", "weights/gone")})
    aws.endpoint_config("gone", "gone")
    aws.endpoint("gone")
    assert "did not pass the ping health check" in aws.settled("gone")["FailureReason"]


@pytest.mark.parametrize(
    ("lost", "reason"),
    [
        ("role", "Failed to download model data"),
        ("artifacts", "Failed to download model data"),
        ("weights", "did not pass the ping health check"),
    ],
)
def test_further_instance_needs_all_that_the_first_one_loaded(aws: Emulated, lost: str, reason: str) -> None:
    """Scaling out is rolled back, and the endpoint serves on."""
    name = f"grows-without-{lost}"
    iam, s3, role = aws.client("iam"), aws.client("s3"), aws.role(name)
    weights = aws.upload(f"weights/{name}", {"config.json": "{}"})
    uri = aws.upload(f"artifacts/{name}", {"serving.properties": f"option.model_id={weights}\n"})
    aws.model(name, uri, role=role)
    aws.endpoint_config(name, name)
    aws.endpoint(name)
    assert aws.settled(name)["EndpointStatus"] == "InService"
    if lost == "role":
        iam.delete_role_policy(RoleName=name, PolicyName="read")
        iam.delete_role(RoleName=name)
    else:
        file = {"artifacts": "serving.properties", "weights": "config.json"}[lost]
        s3.delete_object(Bucket=BUCKET, Key=f"{lost}/{name}/{file}")
    aws.client("sagemaker").update_endpoint_weights_and_capacities(
        EndpointName=name,
        DesiredWeightsAndCapacities=[{"VariantName": "AllTraffic", "DesiredInstanceCount": 2}],
    )
    found = aws.settled(name)
    assert found["ProductionVariants"][0]["CurrentInstanceCount"] == 1
    assert reason in found["FailureReason"]
