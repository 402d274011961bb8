"""Inference components: on endpoints without models, each with a container of its own."""

from __future__ import annotations

import io
import json
import tarfile
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.server.handlers import MANY_WAYS
from tests.support.emulator_process import IMAGE, REGION, Emulated

TIMEOUT = 90.0
PROPERTIES = "engine=Python\nminWorkers=1\nmaxWorkers=1\n"
ARN = f"arn:aws:sagemaker:{REGION}:123456789012:inference-component/"


def needs(*, gpus: int = 1, memory_mib: int = 1024) -> dict[str, int]:
    return {"NumberOfAcceleratorDevicesRequired": gpus, "MinMemoryRequiredInMb": memory_mib}


NEEDS = needs()
ERRORS = ("Invocation4XXErrors", "Invocation5XXErrors")


@pytest.fixture(autouse=True)
def _no_faults(aws: Emulated) -> Iterator[None]:
    yield
    aws.no_faults()


def shared(aws: Emulated, name: str, **more: Any) -> str:
    """An endpoint in service that takes inference components: 4 GPUs and 192 GiB."""
    variant = {"VariantName": "v", "InstanceType": "ml.g5.12xlarge", "InitialInstanceCount": 1, **more}
    aws.client("sagemaker").create_endpoint_config(
        EndpointConfigName=name, ExecutionRoleArn=aws.role(), ProductionVariants=[variant]
    )
    aws.endpoint(name)
    assert aws.settled(name)["EndpointStatus"] == "InService"
    return name


def with_model(aws: Emulated, name: str, files: dict[str, str] | None = None) -> dict[str, Any]:
    uri = aws.upload(f"artifacts/{name}", {"serving.properties": PROPERTIES, **(files or {})})
    aws.model(name, uri)
    return {"ModelName": name, "ComputeResourceRequirements": NEEDS}


def create(
    aws: Emulated, name: str, endpoint: str, spec: dict[str, Any], *, copies: int = 1, **more: Any
) -> None:
    aws.client("sagemaker").create_inference_component(
        InferenceComponentName=name,
        EndpointName=endpoint,
        VariantName="v",
        Specification=spec,
        RuntimeConfig={"CopyCount": copies},
        **more,
    )


def described(aws: Emulated, name: str) -> dict[str, Any]:
    found: dict[str, Any] = aws.client("sagemaker").describe_inference_component(InferenceComponentName=name)
    return found


def settled(aws: Emulated, name: str) -> dict[str, Any]:
    deadline = time.monotonic() + TIMEOUT
    while (found := described(aws, name))["InferenceComponentStatus"] not in ("InService", "Failed"):
        assert time.monotonic() < deadline, f"{found}\n{aws.log.read_text()}"
        time.sleep(0.02)
    return found


def assert_deleted(aws: Emulated, name: str) -> None:
    aws.client("sagemaker").delete_inference_component(InferenceComponentName=name)
    deadline = time.monotonic() + TIMEOUT
    while names(aws, NameContains=name):
        assert time.monotonic() < deadline, aws.log.read_text()
        time.sleep(0.02)


def names(aws: Emulated, **requests: Any) -> list[str]:
    listed = aws.client("sagemaker").list_inference_components(**requests)["InferenceComponents"]
    return [item["InferenceComponentName"] for item in listed]


def refused(aws: Emulated, operation: str, **params: Any) -> str:
    client = aws.client("sagemaker")
    with pytest.raises(client.exceptions.ClientError) as refusal:
        client._make_api_call(operation, params)
    error = refusal.value.response["Error"]
    assert error["Code"] == "ValidationException"
    return str(error["Message"])


def invoke(aws: Emulated, endpoint: str, component: str | None, body: Any) -> bytes:
    named = {"InferenceComponentName": component} if component else {}
    response = aws.client("sagemaker-runtime").invoke_endpoint(
        EndpointName=endpoint, ContentType="application/json", Body=json.dumps(body), **named
    )
    content: bytes = response["Body"].read()
    return content


def measured(aws: Emulated, **dimension: str) -> list[str]:
    """The metrics of this dimension, but those by copy."""
    [(name, value)] = dimension.items()
    listed = aws.client("cloudwatch").list_metrics(Dimensions=[{"Name": name, "Value": value}])["Metrics"]
    return sorted(one["MetricName"] for one in listed if not one["MetricName"].endswith("PerCopy"))


def test_component_lifecycle_from_creating_to_deleted(aws: Emulated) -> None:
    endpoint = shared(aws, "life")
    tags = [{"Key": "lmi:deployment", "Value": "life"}]
    create(aws, "life-1", endpoint, with_model(aws, "life-m"), copies=2, Tags=tags)
    found = settled(aws, "life-1")
    assert (found["InferenceComponentStatus"], found["EndpointName"], found["VariantName"]) == (
        "InService",
        "life",
        "v",
    )
    assert found["RuntimeConfig"] == {"DesiredCopyCount": 2, "CurrentCopyCount": 2}
    assert found["Specification"]["ModelName"] == "life-m"
    assert names(aws, EndpointNameEquals="life", StatusEquals="InService") == ["life-1"]
    assert names(aws, EndpointNameEquals="other") == []
    assert aws.client("sagemaker").list_tags(ResourceArn=ARN + "life-1")["Tags"] == tags
    assert invoke(aws, endpoint, "life-1", "x") == b'"x"'
    assert measured(aws, InferenceComponentName="life-1") == [*ERRORS, "Invocations", "ModelLatency"]
    assert {"Invocations", "InvocationsPerInstance"} <= {*measured(aws, EndpointName="life")}
    message = refused(aws, "DeleteEndpoint", EndpointName="life")
    assert "inference components attached: life-1" in message
    assert_deleted(aws, "life-1")
    assert refused(aws, "DescribeInferenceComponent", InferenceComponentName="life-1") == (
        f'Could not find inference component "{ARN}life-1".'
    )
    aws.client("sagemaker").delete_endpoint(EndpointName="life")
    aws.wait_until_deleted("life")


def test_invocation_must_name_the_component(aws: Emulated) -> None:
    endpoint = shared(aws, "named")
    runtime = aws.client("sagemaker-runtime")
    with pytest.raises(runtime.exceptions.ClientError, match="Inference Component Name header is required"):
        invoke(aws, endpoint, None, "x")
    with pytest.raises(runtime.exceptions.ClientError, match="not found for Endpoint"):
        invoke(aws, endpoint, "nobody", "x")
    with_model(aws, "plain")
    aws.endpoint_config("plain", "plain")
    aws.endpoint("plain")
    aws.settled("plain")
    with pytest.raises(runtime.exceptions.ClientError, match="header is not allowed"):
        invoke(aws, "plain", "any", "x")
    message = refused(
        aws,
        "CreateInferenceComponent",
        InferenceComponentName="misplaced",
        EndpointName="plain",
        VariantName="AllTraffic",
        Specification={"ModelName": "plain", "ComputeResourceRequirements": NEEDS},
    )
    assert "cannot have inference components" in message


def test_component_scales_to_zero_copies_and_back(aws: Emulated) -> None:
    endpoint, client = shared(aws, "zero"), aws.client("sagemaker")
    create(aws, "zero-1", endpoint, with_model(aws, "zero-m"))
    settled(aws, "zero-1")
    for copies in (0, 3):
        client.update_inference_component_runtime_config(
            InferenceComponentName="zero-1", DesiredRuntimeConfig={"CopyCount": copies}
        )
        assert settled(aws, "zero-1")["RuntimeConfig"]["CurrentCopyCount"] == copies
        if not copies:
            runtime = aws.client("sagemaker-runtime")
            with pytest.raises(
                runtime.exceptions.ClientError, match="has no capacity to process this request"
            ):
                invoke(aws, endpoint, "zero-1", "x")
    assert invoke(aws, endpoint, "zero-1", "x") == b'"x"'


def test_component_that_fails_to_start_reports_the_reason(aws: Emulated) -> None:
    endpoint, reason = shared(aws, "short"), "Insufficient capacity to place a copy."
    rule = {"method": "HOSTING", "path": "^/start/short/v/.*/short-1$", "times": 1}
    aws.fault({**rule, "do": {"answer": {"status": 400, "body": reason}}})
    create(aws, "short-1", endpoint, with_model(aws, "short-m"))
    found = settled(aws, "short-1")
    assert (found["InferenceComponentStatus"], found["FailureReason"]) == ("Failed", reason)
    assert_deleted(aws, "short-1")


FULL = "There is not enough hardware resources on the instances for this endpoint to create a copy"


def test_components_share_the_accelerators_of_the_instance(aws: Emulated) -> None:
    endpoint, client = shared(aws, "full"), aws.client("sagemaker")
    create(aws, "full-1", endpoint, with_model(aws, "full-m"), copies=3)
    assert settled(aws, "full-1")["InferenceComponentStatus"] == "InService"
    # 3 of 4 GPUs are taken.
    wide = {"ModelName": "full-m", "ComputeResourceRequirements": needs(gpus=2)}
    create(aws, "full-2", endpoint, wide)
    found = settled(aws, "full-2")
    assert found["InferenceComponentStatus"] == "Failed"
    assert found["FailureReason"].startswith(FULL)
    client.update_inference_component_runtime_config(
        InferenceComponentName="full-1", DesiredRuntimeConfig={"CopyCount": 5}
    )
    found = settled(aws, "full-1")
    assert found["FailureReason"].startswith(FULL)
    assert found["RuntimeConfig"]["CurrentCopyCount"] == 3
    client.update_inference_component_runtime_config(
        InferenceComponentName="full-1", DesiredRuntimeConfig={"CopyCount": 2}
    )
    settled(aws, "full-1")
    create(aws, "full-3", endpoint, wide)
    assert settled(aws, "full-3")["InferenceComponentStatus"] == "InService"


def test_of_components_created_together_the_older_one_gets_the_room(aws: Emulated) -> None:
    endpoint = shared(aws, "pair")
    wide = {**with_model(aws, "pair-m"), "ComputeResourceRequirements": needs(gpus=3)}
    for name in ("pair-b", "pair-a"):
        create(aws, name, endpoint, wide)
    assert settled(aws, "pair-b")["InferenceComponentStatus"] == "InService"
    assert settled(aws, "pair-a")["FailureReason"].startswith(FULL)


@pytest.mark.parametrize(("memory", "status"), [(190 * 1024, "InService"), (193 * 1024, "Failed")])
def test_component_copy_must_fit_the_memory_of_one_instance(aws: Emulated, memory: int, status: str) -> None:
    name = f"memory-{memory}"
    endpoint = shared(aws, name)
    with_model(aws, name)
    create(aws, name, endpoint, {"ModelName": name, "ComputeResourceRequirements": needs(memory_mib=memory)})
    assert settled(aws, name)["InferenceComponentStatus"] == status


def test_managed_instance_scaling_gives_copies_room_up_to_its_maximum(aws: Emulated) -> None:
    endpoint = shared(aws, "grown", ManagedInstanceScaling={"Status": "ENABLED", "MaxInstanceCount": 2})
    whole = {**with_model(aws, "grown-m"), "ComputeResourceRequirements": needs(gpus=4)}
    create(aws, "grown-1", endpoint, whole, copies=2)
    assert settled(aws, "grown-1")["InferenceComponentStatus"] == "InService"
    create(aws, "grown-2", endpoint, whole)
    assert settled(aws, "grown-2")["FailureReason"].startswith(FULL)


def test_component_is_not_created_without_copies(aws: Emulated) -> None:
    endpoint = shared(aws, "none")
    message = refused(
        aws,
        "CreateInferenceComponent",
        InferenceComponentName="none-1",
        EndpointName=endpoint,
        VariantName="v",
        Specification=with_model(aws, "none-m"),
        RuntimeConfig={"CopyCount": 0},
    )
    assert "copy count an integer larger than 0" in message


def test_failed_component_update_keeps_the_old_one(aws: Emulated) -> None:
    endpoint, client = shared(aws, "kept"), aws.client("sagemaker")
    create(aws, "kept-1", endpoint, with_model(aws, "kept-m"))
    settled(aws, "kept-1")
    rule = {"method": "HOSTING", "path": "^/start/kept/v/.*/kept-1$"}
    aws.fault({**rule, "do": {"answer": {"status": 400, "body": "no"}}})
    client.update_inference_component(
        InferenceComponentName="kept-1", Specification=with_model(aws, "kept-n")
    )
    found = settled(aws, "kept-1")
    assert (found["InferenceComponentStatus"], found["FailureReason"]) == ("InService", "no")
    assert found["Specification"]["ModelName"] == "kept-m"
    client.update_inference_component(
        InferenceComponentName="kept-1",
        Specification={"ModelName": "kept-n", "ComputeResourceRequirements": NEEDS},
    )
    assert settled(aws, "kept-1")["Specification"]["ModelName"] == "kept-n"


def archive(aws: Emulated, name: str, files: dict[str, str]) -> str:
    """The address of a tar.gz."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for path, content in files.items():
            entry = tarfile.TarInfo(path)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content.encode()))
    return aws.upload("adapters", {f"{name}.tar.gz": packed.getvalue()}) + f"{name}.tar.gz"


def adapter_of(base: str, uri: str) -> dict[str, Any]:
    return {"BaseInferenceComponentName": base, "Container": {"ArtifactUrl": uri}}


def create_adapter(aws: Emulated, name: str, endpoint: str, spec: dict[str, Any]) -> dict[str, Any]:
    aws.client("sagemaker").create_inference_component(
        InferenceComponentName=name, EndpointName=endpoint, Specification=spec
    )
    return settled(aws, name)


def test_adapter_components_are_served_by_their_base(aws: Emulated) -> None:
    endpoint = shared(aws, "lora")
    create(aws, "lora-base", endpoint, with_model(aws, "lora-m"))
    settled(aws, "lora-base")
    adapter = adapter_of("lora-base", archive(aws, "lora", {"adapter_config.json": "{}"}))
    found = create_adapter(aws, "lora-1", endpoint, adapter)
    assert (found["InferenceComponentStatus"], found["Specification"]) == ("InService", adapter)
    assert invoke(aws, endpoint, "lora-1", "x") == b'"x"'
    message = refused(aws, "DeleteInferenceComponent", InferenceComponentName="lora-base")
    assert "is a base inference component for one or more associated" in message
    lost = create_adapter(aws, "lora-2", endpoint, adapter_of("lora-base", "s3://emulated/none.tar.gz"))
    assert lost["InferenceComponentStatus"] == "Failed"
    assert "there is an object located at the URL" in lost["FailureReason"]
    for what, wrong in (
        ("is an adapter and cannot be a base", {**adapter, "BaseInferenceComponentName": "lora-1"}),
        ("ComputeResourceRequirements must not be", {**adapter, "ComputeResourceRequirements": NEEDS}),
        ("ArtifactUrl is required", {"BaseInferenceComponentName": "lora-base"}),
    ):
        given = {"InferenceComponentName": "lora-3", "EndpointName": endpoint, "Specification": wrong}
        assert what in refused(aws, "CreateInferenceComponent", **given)
    for name in ("lora-1", "lora-2", "lora-base"):
        assert_deleted(aws, name)


WRONG: dict[str, dict[str, Any]] = {
    "Could not find model": {"ModelName": "none", "ComputeResourceRequirements": NEEDS},
    "Exactly one of ModelName and Container": {"ComputeResourceRequirements": NEEDS},
    "ComputeResourceRequirements is required": {"Container": {"Image": IMAGE}},
    "Using non-ECR image": {"Container": {"Image": "vllm:latest"}, "ComputeResourceRequirements": NEEDS},
}


@pytest.mark.parametrize("words", WRONG)
def test_invalid_component_specification_is_refused(aws: Emulated, words: str) -> None:
    if "wrong" not in [
        item["EndpointName"] for item in aws.client("sagemaker").list_endpoints()["Endpoints"]
    ]:
        shared(aws, "wrong")
    message = refused(
        aws,
        "CreateInferenceComponent",
        InferenceComponentName="wrong",
        EndpointName="wrong",
        VariantName="v",
        Specification=WRONG[words],
    )
    assert words in message


def test_two_components_run_in_two_containers(hosting: Emulated) -> None:
    endpoint = shared(hosting, "two")
    for name in ("two-a", "two-b"):
        create(hosting, name, endpoint, with_model(hosting, name, {"model.py": MANY_WAYS}))
    for name in ("two-a", "two-b"):
        assert settled(hosting, name)["InferenceComponentStatus"] == "InService"
        assert invoke(hosting, endpoint, name, {"do": "echo", "text": name}) == name.encode()
        group = f"/aws/sagemaker/InferenceComponents/{name}"
        (stream,) = hosting.client("logs").describe_log_streams(logGroupName=group)["logStreams"]
        assert stream["logStreamName"].startswith("v/i-")
    assert_deleted(hosting, "two-a")
    assert invoke(hosting, endpoint, "two-b", {"do": "echo", "text": "still"}) == b"still"
