"""With a folder, everything is as it was after a restart, a hard one included."""

from __future__ import annotations

import time
from pathlib import Path

from tests.support.emulated import BUCKET, PATIENCE, REGION, emulator


def test_a_restart(tmp_path: Path) -> None:
    kept = ("--dir", str(tmp_path / "state"), "--speed", "1000000")
    with emulator(tmp_path, *kept) as aws:
        uri = aws.upload("artifacts/one", {"serving.properties": "engine=Python\n", "a b/é": "x"})
        aws.model("one", uri)
        aws.endpoint_config("one", "one")
        aws.endpoint("one")
        aws.settled("one")
        aws.client("logs").create_log_group(logGroupName="/mine")
        aws.advance(1000)
        before = aws.get("/_clock")["now"]
        aws.process.kill()
        aws.process.wait()
    with emulator(tmp_path, *kept) as aws:
        assert aws.settled("one")["EndpointStatus"] == "InService"
        answer = aws.client("sagemaker-runtime").invoke_endpoint(EndpointName="one", Body=b"hello")
        assert answer["Body"].read() == b"hello"
        held = aws.client("s3").get_object(Bucket=BUCKET, Key="artifacts/one/a b/é")
        assert held["Body"].read() == b"x"
        aws.model("two", uri, role="arn:aws:iam::123456789012:role/execution")
        aws.client("sagemaker").delete_endpoint(EndpointName="one")
        aws.until_gone("one")
        assert aws.region == REGION
        assert aws.get("/_clock")["now"] > before - 1000


def test_what_was_under_way_goes_on(tmp_path: Path) -> None:
    kept = ("--dir", str(tmp_path / "state"))
    with emulator(tmp_path, *kept, "--speed", "0.001") as aws:
        uri = aws.upload("artifacts/one", {"serving.properties": "engine=Python\n"})
        aws.model("one", uri)
        aws.endpoint_config("one", "one")
        aws.endpoint("one")
        assert aws.described("one")["EndpointStatus"] == "Creating"
    with emulator(tmp_path, *kept, "--speed", "1000000") as aws:
        assert aws.settled("one")["EndpointStatus"] == "InService"


def test_inference_components_and_scaling_are_there_again(tmp_path: Path) -> None:
    kept = ("--dir", str(tmp_path / "state"), "--speed", "1000000")
    variant = {"VariantName": "v", "InstanceType": "ml.g5.xlarge", "InitialInstanceCount": 1}
    needs = {"MinMemoryRequiredInMb": 1024}
    with emulator(tmp_path, *kept) as aws:
        aws.model("m", aws.upload("artifacts/m", {"serving.properties": "engine=Python\n"}))
        api, scaling = aws.client("sagemaker"), aws.client("application-autoscaling")
        api.create_endpoint_config(
            EndpointConfigName="e", ExecutionRoleArn=aws.role(), ProductionVariants=[variant]
        )
        aws.endpoint("e")
        aws.settled("e")
        api.create_inference_component(
            InferenceComponentName="c",
            EndpointName="e",
            VariantName="v",
            Specification={"ModelName": "m", "ComputeResourceRequirements": needs},
            RuntimeConfig={"CopyCount": 1},
        )
        scaling.register_scalable_target(
            ServiceNamespace="sagemaker",
            ResourceId="endpoint/e/variant/v",
            ScalableDimension="sagemaker:variant:DesiredInstanceCount",
            MinCapacity=1,
            MaxCapacity=2,
        )
        aws.process.kill()
        aws.process.wait()
    with emulator(tmp_path, *kept) as aws:
        deadline = time.monotonic() + PATIENCE
        api, scaling = aws.client("sagemaker"), aws.client("application-autoscaling")
        while (
            api.describe_inference_component(InferenceComponentName="c")["InferenceComponentStatus"]
            != "InService"
        ):
            assert time.monotonic() < deadline, aws.log.read_text()
        answer = aws.client("sagemaker-runtime").invoke_endpoint(
            EndpointName="e", InferenceComponentName="c", Body=b"hello"
        )
        assert answer["Body"].read() == b"hello"
        assert scaling.describe_scalable_targets(ServiceNamespace="sagemaker")["ScalableTargets"]
