"""Instance pools of a variant as a client sees them: the next type without capacity, more instances, fewer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.emulator.test_endpoint_states import CAPACITY, refused
from tests.support.emulator_process import Emulated, emulator

TYPES = ("ml.g6.2xlarge", "ml.g5.2xlarge", "ml.g5.4xlarge")
POOLS = [{"InstanceType": kind, "Priority": number} for number, kind in enumerate(TYPES, start=1)]


@pytest.fixture(autouse=True)
def _no_faults(aws: Emulated) -> Any:
    yield
    aws.no_faults()


@pytest.fixture
def name(aws: Emulated, request: pytest.FixtureRequest) -> str:
    """A model and a config with pools, both named after the test; no endpoint yet."""
    name = request.node.originalname.removeprefix("test_").replace("_", "-")[:40].strip("-")
    pooled(aws, name)
    return name


def pooled(aws: Emulated, name: str, count: int = 1) -> None:
    aws.model(name, aws.upload(f"artifacts/{name}", {"serving.properties": "engine=Python\n"}))
    aws.client("sagemaker").create_endpoint_config(
        EndpointConfigName=name, ProductionVariants=[variant(name, InitialInstanceCount=count)]
    )


def variant(model: str, **more: Any) -> dict[str, Any]:
    timeout = {"VariantInstanceProvisionTimeoutInSeconds": 600}
    base = {"VariantName": "main", "ModelName": model, "InitialInstanceCount": 1, "InstancePools": POOLS}
    return {**base, **timeout, **more}


def no_capacity(aws: Emulated, name: str, kind: str = "") -> None:
    rule = {"method": "HOSTING", "path": f"^/provision/{name}/main/{kind}"}
    aws.fault({**rule, "do": {"answer": {"status": 400, "body": CAPACITY}}, "times": None})


def running(aws: Emulated, name: str) -> list[int]:
    (found,) = aws.settled(name)["ProductionVariants"]
    assert [pool["InstanceType"] for pool in found["InstancePools"]] == [*TYPES]
    counts = [pool["CurrentInstanceCount"] for pool in found["InstancePools"]]
    assert sum(counts) == found["CurrentInstanceCount"]
    return counts


def resize(aws: Emulated, name: str, count: int) -> None:
    change = {"VariantName": "main", "DesiredInstanceCount": count}
    aws.client("sagemaker").update_endpoint_weights_and_capacities(
        EndpointName=name, DesiredWeightsAndCapacities=[change]
    )


def test_first_pool_is_taken_and_the_next_without_capacity(aws: Emulated, name: str) -> None:
    aws.endpoint(name)
    assert running(aws, name) == [1, 0, 0]
    other = f"{name[:30]}-2"
    pooled(aws, other, count=2)
    no_capacity(aws, other, TYPES[0])
    aws.endpoint(other)
    assert running(aws, other) == [0, 2, 0]


def test_endpoint_fails_when_no_pool_has_capacity(aws: Emulated, name: str) -> None:
    no_capacity(aws, name)
    aws.endpoint(name)
    found = aws.settled(name)
    assert (found["EndpointStatus"], found["FailureReason"]) == ("Failed", CAPACITY)


def test_search_ends_with_the_time_limit_of_the_variant(aws: Emulated, name: str) -> None:
    rule = {"method": "HOSTING", "path": f"^/provision/{name}/main/{TYPES[1]}"}
    no_capacity(aws, name, TYPES[0])
    aws.fault({**rule, "do": {"hang": {"seconds": 86400}}})
    aws.endpoint(name)
    found = aws.settled(name)
    assert found["EndpointStatus"] == "Failed"
    assert found["FailureReason"] == f"{CAPACITY} No pool had capacity within 600 seconds."


def test_another_failure_leads_to_no_other_pool(aws: Emulated, name: str) -> None:
    rule = {"method": "HOSTING", "path": f"^/provision/{name}/main/{TYPES[0]}"}
    aws.fault({**rule, "do": {"answer": {"status": 400, "body": "The role cannot be assumed."}}})
    aws.endpoint(name)
    assert aws.settled(name)["FailureReason"] == "The role cannot be assumed."


def test_more_instances_fall_back_and_fewer_leave_the_lowest_priority_first(aws: Emulated, name: str) -> None:
    aws.endpoint(name)
    aws.settled(name)
    no_capacity(aws, name, TYPES[0])
    resize(aws, name, 3)
    assert running(aws, name) == [1, 2, 0]
    no_capacity(aws, name, TYPES[1])
    resize(aws, name, 4)
    assert running(aws, name) == [1, 2, 1]
    resize(aws, name, 2)
    assert running(aws, name) == [1, 1, 0]


def test_more_instances_than_all_pools_have_leaves_it_as_it_was(aws: Emulated, name: str) -> None:
    aws.endpoint(name)
    aws.settled(name)
    no_capacity(aws, name)
    resize(aws, name, 3)
    assert running(aws, name) == [1, 0, 0]
    assert aws.described(name)["FailureReason"] == CAPACITY


def test_config_that_the_service_refuses(aws: Emulated, name: str) -> None:
    client = aws.client("sagemaker")

    def reason(**more: Any) -> str:
        variants = [variant(name, **more)]
        return refused(client, "CreateEndpointConfig", EndpointConfigName="bad", ProductionVariants=variants)

    assert "either InstanceType or InstancePools" in reason(InstanceType=TYPES[0])
    twice = [POOLS[0], {**POOLS[0], "Priority": 2}]
    assert "its own InstanceType" in reason(InstancePools=twice)
    assert "its own Priority" in reason(InstancePools=[POOLS[0], {**POOLS[1], "Priority": 1}])
    assert f"not allowed for the selected Instance type {TYPES[0]}" in reason(VolumeSizeInGB=64)
    assert "greater than or equal to 300" in reason(VariantInstanceProvisionTimeoutInSeconds=60)


def test_restart_keeps_what_every_pool_has(tmp_path: Path) -> None:
    kept = ("--dir", str(tmp_path / "state"), "--speed", "1000000")
    with emulator(tmp_path, *kept) as aws:
        pooled(aws, "kept")
        no_capacity(aws, "kept", TYPES[0])
        aws.endpoint("kept")
        assert running(aws, "kept") == [0, 1, 0]
        aws.process.kill()
        aws.process.wait()
    with emulator(tmp_path, *kept) as aws:
        assert running(aws, "kept") == [0, 1, 0]
