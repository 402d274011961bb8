"""What lmi reads of an endpoint that boto3 made, and how it ends its scaling."""

from __future__ import annotations

import pytest

from lmi_deploy.aws.foreign_scaling import AwsForeignScaling
from lmi_deploy.domain.sagemaker.foreign_endpoint import ForeignScaling
from lmi_deploy.errors import LmiError
from lmi_deploy.ports.cloud import Cloud
from tests.support.emulator_process import REGION, Emulated, folder
from tests.support.sagemaker_fixtures import Recorder, model_settings

NAMED = {"ServiceNamespace": "sagemaker", "ScalableDimension": "sagemaker:variant:DesiredInstanceCount"}
TRACKED = {
    "TargetValue": 70.0,
    "PredefinedMetricSpecification": {"PredefinedMetricType": "SageMakerVariantInvocationsPerInstance"},
}


def test_config_with_another_variant_is_read(aws: Emulated, cloud: Cloud) -> None:
    aws.model("foreign-a", aws.upload("foreign-a", {"serving.properties": "engine=Python"}))
    aws.endpoint_config("foreign-a", "foreign-a", RoutingConfig={"RoutingStrategy": "RANDOM"})
    found = cloud.hosting.foreign_endpoint_config("foreign-a")
    assert found is not None
    assert (found.variants, found.shadows, found.settings.model) == (("AllTraffic",), (), "foreign-a")
    assert (found.settings.instance, found.settings.count) == ("ml.g5.xlarge", 1)
    assert found.not_read == ("RoutingConfig",)
    own = cloud.hosting.endpoint_config("foreign-a")
    assert own is not None
    assert own.settings.model == ""


def test_shadow_and_second_variant_are_named(aws: Emulated, cloud: Cloud) -> None:
    aws.model("foreign-b", aws.upload("foreign-b", {"serving.properties": "engine=Python"}))
    plain = {"ModelName": "foreign-b", "InstanceType": "ml.g5.xlarge", "InitialInstanceCount": 1}
    aws.client("sagemaker").create_endpoint_config(
        EndpointConfigName="foreign-b",
        ProductionVariants=[{"VariantName": "a", **plain}],
        ShadowProductionVariants=[{"VariantName": "s", **plain}],
    )
    found = cloud.hosting.foreign_endpoint_config("foreign-b")
    assert found is not None
    assert (found.variants, found.shadows) == (("a",), ("s",))


def test_compressed_model_is_an_archive(aws: Emulated, cloud: Cloud) -> None:
    uri = aws.upload("foreign-c", {"model.tar.gz": b"x"}) + "model.tar.gz"
    settings = model_settings(aws)
    aws.client("sagemaker").create_model(
        ModelName="foreign-c",
        ExecutionRoleArn=settings.role,
        Containers=[{"Image": settings.image, "ModelDataUrl": uri, "Environment": {"HF_MODEL_ID": "org/m"}}],
    )
    found = cloud.hosting.foreign_model("foreign-c")
    assert found is not None
    assert (found.archive, found.settings.artifact, found.containers) == (uri, "", 1)
    assert found.settings.environment == (("HF_MODEL_ID", "org/m"),)


def test_model_of_a_prefix_is_a_folder(aws: Emulated, cloud: Cloud) -> None:
    uri = aws.upload("foreign-d", {"serving.properties": "engine=Python"})
    aws.model("foreign-d", uri, ImageConfig={"RepositoryAccessMode": "Platform"})
    found = cloud.hosting.foreign_model("foreign-d")
    assert found is not None
    assert (found.archive, found.settings.artifact) == ("", uri)
    assert found.not_read == ("ImageConfig",)
    assert folder(uri)["S3Uri"] == uri


def test_missing_parts_are_none(cloud: Cloud) -> None:
    assert cloud.hosting.foreign_endpoint_config("nothing") is None
    assert cloud.hosting.foreign_model("nothing") is None
    assert cloud.foreign_scaling.read("nothing", "AllTraffic") is None
    cloud.foreign_scaling.remove("nothing", "AllTraffic")


def test_scaling_is_read_and_ended_with_all_its_policies(
    aws: Emulated, cloud: Cloud, recorder: Recorder
) -> None:
    """The emulator, as SageMaker, refuses to remove a variant that is a scalable target."""
    aws.model("foreign-e", aws.upload("foreign-e", {"serving.properties": "engine=Python"}))
    aws.endpoint_config("foreign-e", "foreign-e")
    aws.endpoint_config("foreign-e2", "foreign-e", VariantName="main")
    aws.endpoint("foreign-e")
    aws.settled("foreign-e")
    scaling, where = aws.client("application-autoscaling"), "endpoint/foreign-e/variant/AllTraffic"
    scaling.register_scalable_target(ResourceId=where, MinCapacity=1, MaxCapacity=3, **NAMED)
    scaling.put_scaling_policy(
        PolicyName="by-hand",
        PolicyType="TargetTrackingScaling",
        ResourceId=where,
        TargetTrackingScalingPolicyConfiguration=TRACKED,
        **NAMED,
    )
    port = AwsForeignScaling(recorder.access())
    assert port.read("foreign-e", "AllTraffic") == ForeignScaling(least=1, most=3, invocations=70)
    with pytest.raises(LmiError, match="must be deregistered as scalable targets"):
        cloud.hosting.update_endpoint("foreign-e", "foreign-e2", keep_count=False)
    port.remove("foreign-e", "AllTraffic")
    assert port.read("foreign-e", "AllTraffic") is None
    assert aws.client("cloudwatch").describe_alarms()["MetricAlarms"] == []
    cloud.hosting.update_endpoint("foreign-e", "foreign-e2", keep_count=False)
    aws.settled("foreign-e")
    found = cloud.hosting.endpoint("foreign-e")
    assert found is not None
    assert (found.variant, REGION in found.arn) == ("main", True)
