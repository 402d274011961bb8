"""Convert our settings of SageMaker's resources to its fields, and back: a field that was not sent is read as the
default.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from lmi_deploy.domain.recipe_endpoint_keys import (
    Asynchronous,
    CapturedContent,
    DataCapture,
    UpdatePolicy,
    Vpc,
)
from lmi_deploy.domain.recipe_keys import Pairs
from lmi_deploy.domain.recipe_scaling_keys import InstanceScaling
from lmi_deploy.domain.sagemaker.async_layout import FAILURES
from lmi_deploy.domain.sagemaker.resource_settings import (
    VARIANT,
    EndpointConfigSettings,
    ModelSettings,
    Mount,
    ObservedEndpoint,
)
from lmi_deploy.domain.sagemaker.variant_fields import (
    candidate_settings,
    has_own_variants,
    main_variant,
    observed_candidate,
    observed_pools,
    pool_settings,
    variant_types,
    variants_request,
)

_CAPTURE_MODES: Final[Mapping[CapturedContent, tuple[str, ...]]] = {
    "both": ("Input", "Output"),
    "requests": ("Input",),
    "responses": ("Output",),
}
_FOLDER: Final = {"S3DataType": "S3Prefix", "CompressionType": "None"}


def model_request(settings: ModelSettings) -> dict[str, Any]:
    """CreateModel's members but name and tags."""
    container: dict[str, Any] = {"Image": settings.image, "Environment": dict(settings.environment)}
    if settings.artifact:
        container["ModelDataSource"] = _source(settings.artifact)
    if settings.mounts:
        container["AdditionalModelDataSources"] = [
            {"ChannelName": mount.channel, **_source(mount.uri)} for mount in settings.mounts
        ]
    requested: dict[str, Any] = {"ExecutionRoleArn": settings.role, "PrimaryContainer": container}
    if settings.network_isolation:
        requested["EnableNetworkIsolation"] = True
    if settings.vpc is not None:
        requested["VpcConfig"] = vpc_request(settings.vpc)
    return requested


def model_settings(response: Mapping[str, Any]) -> ModelSettings:
    """From DescribeModel's response. A form that lmi never sends is read as a value that never equals ours."""
    container = response.get("PrimaryContainer") or {}
    return ModelSettings(
        role=str(response.get("ExecutionRoleArn", "")),
        image=str(container.get("Image", "")),
        environment=tuple(sorted((container.get("Environment") or {}).items())),
        artifact=_uri(container.get("ModelDataSource") or {}),
        mounts=tuple(
            Mount(channel=str(mount["ChannelName"]), uri=_uri(mount))
            for mount in container.get("AdditionalModelDataSources") or ()
        ),
        network_isolation=bool(response.get("EnableNetworkIsolation", False)),
        vpc=_vpc(response.get("VpcConfig")),
    )


def endpoint_config_request(settings: EndpointConfigSettings) -> dict[str, Any]:
    """CreateEndpointConfig's members but name and tags."""
    requested = variants_request(settings)
    if settings.instance_scaling is not None:
        requested["ProductionVariants"][0] |= _instance_scaling_request(settings.instance_scaling)
    if settings.kms_key:
        requested["KmsKeyId"] = settings.kms_key
    if settings.role:
        requested["ExecutionRoleArn"] = settings.role
    if settings.vpc is not None:
        requested["VpcConfig"] = vpc_request(settings.vpc)
    if settings.data_capture is not None:
        requested["DataCaptureConfig"] = data_capture_request(settings.data_capture)
    if settings.asynchronous is not None:
        requested["AsyncInferenceConfig"] = asynchronous_request(settings.asynchronous)
    return requested


def endpoint_config_settings(response: Mapping[str, Any], variant: str = "") -> EndpointConfigSettings:
    """From DescribeEndpointConfig's response; several variants, or one of another name than `variant` or
    ours, never equal ours.
    """
    variants = response.get("ProductionVariants") or ()
    first: Mapping[str, Any] = variants[0] if variants else {}
    own = has_own_variants(response, variant or VARIANT)
    return EndpointConfigSettings(
        model=str(first.get("ModelName", "")) if own else "",
        instance=variant_types(first)[0],
        count=int(first.get("InitialInstanceCount", 0)),
        model_download=int(first.get("ModelDataDownloadTimeoutInSeconds", 0)),
        startup=int(first.get("ContainerStartupHealthCheckTimeoutInSeconds", 0)),
        volume_gb=int(first.get("VolumeSizeInGB", 0)),
        host_ami=str(first.get("InferenceAmiVersion", "")),
        kms_key=str(response.get("KmsKeyId", "")),
        data_capture=_data_capture(response.get("DataCaptureConfig")),
        asynchronous=_asynchronous(response.get("AsyncInferenceConfig")),
        # A config of models, or one that lmi never sends, has none: else its empty `model` would be for components.
        role=str(response.get("ExecutionRoleArn", "")) if own and not first.get("ModelName") else "",
        vpc=_vpc(response.get("VpcConfig")),
        candidate=candidate_settings(response) if own else None,
        instance_scaling=_instance_scaling(first.get("ManagedInstanceScaling")) if own else None,
        instance_pools=pool_settings(first) if own else None,
    )


def _instance_scaling_request(scaling: InstanceScaling) -> dict[str, Any]:
    counts = {"MinInstanceCount": scaling.min, "MaxInstanceCount": scaling.max}
    return {"ManagedInstanceScaling": {"Status": "ENABLED", **counts}}


def _instance_scaling(response: Mapping[str, Any] | None) -> InstanceScaling | None:
    if not response or response.get("Status") != "ENABLED":
        return None
    least, most = int(response.get("MinInstanceCount", 0)), int(response.get("MaxInstanceCount", 0))
    return InstanceScaling(min=least, max=most)


def endpoint_config_models(response: Mapping[str, Any]) -> tuple[str, ...]:
    """From DescribeEndpointConfig's response. A variant for inference components names no model."""
    variants = (
        *(response.get("ProductionVariants") or ()),
        *(response.get("ShadowProductionVariants") or ()),
    )
    return tuple(sorted({str(variant["ModelName"]) for variant in variants if variant.get("ModelName")}))


def update_policy_request(update: UpdatePolicy) -> dict[str, Any]:
    """UpdateEndpoint's DeploymentConfig."""
    size = {"Type": "CAPACITY_PERCENT", "Value": update.step_percent}
    requested: dict[str, Any] = {}
    if update.alarms:
        alarms = [{"AlarmName": alarm} for alarm in update.alarms]
        requested["AutoRollbackConfiguration"] = {"Alarms": alarms}
    if update.policy == "rolling":
        rolling = {"MaximumBatchSize": size, "WaitIntervalInSeconds": update.wait}
        return {"RollingUpdatePolicy": rolling, **requested}
    routing: dict[str, Any] = {
        "Type": update.policy.upper().replace("-", "_"),
        "WaitIntervalInSeconds": update.wait,
    }
    if update.policy == "canary":
        routing["CanarySize"] = size
    if update.policy == "linear":
        routing["LinearStepSize"] = size
    moving = {"TrafficRoutingConfiguration": routing, "TerminationWaitInSeconds": update.keep_old}
    return {"BlueGreenUpdatePolicy": moving, **requested}


def observed_endpoint(response: Mapping[str, Any]) -> ObservedEndpoint:
    """From DescribeEndpoint's response."""
    pending = response.get("PendingDeploymentSummary") or {}
    described = response if response.get("ProductionVariants") else pending
    variant = main_variant(described.get("ProductionVariants") or ())
    config, comes = str(response.get("EndpointConfigName", "")), str(pending.get("EndpointConfigName", ""))
    return ObservedEndpoint(
        name=str(response["EndpointName"]),
        arn=str(response["EndpointArn"]),
        status=str(response["EndpointStatus"]),
        config=config,
        pending="" if response["EndpointStatus"] == "Creating" else comes,
        reason=str(response.get("FailureReason") or ""),
        count=int(variant.get("CurrentInstanceCount") or 0),
        desired_count=int(variant.get("DesiredInstanceCount") or 0),
        created=moment(response.get("CreationTime")),
        modified=moment(response.get("LastModifiedTime")),
        variant=str(variant.get("VariantName") or VARIANT),
        candidate=observed_candidate(described),
        pools=observed_pools(variant),
    )


def moment(time: Any) -> str:
    """ISO 8601; empty if the response contains none."""
    return str(time.isoformat()) if time is not None else ""


def tag_list(tags: Pairs) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in tags]


def tag_pairs(tags: Sequence[Mapping[str, str]]) -> Pairs:
    """Sorted: AWS has no fixed order."""
    return tuple(sorted((tag["Key"], tag["Value"]) for tag in tags))


def vpc_request(vpc: Vpc) -> dict[str, list[str]]:
    return {"Subnets": list(vpc.subnets), "SecurityGroupIds": list(vpc.security_groups)}


def data_capture_request(capture: DataCapture) -> dict[str, Any]:
    """A DataCaptureConfig. Bodies of other content types than the two headers' are stored in base64."""
    requested: dict[str, Any] = {
        "EnableCapture": True,
        "InitialSamplingPercentage": capture.percentage,
        "DestinationS3Uri": capture.output,
        "CaptureOptions": [{"CaptureMode": mode} for mode in _CAPTURE_MODES[capture.content]],
        "CaptureContentTypeHeader": {"JsonContentTypes": ["application/json"]},
    }
    if capture.kms_key:
        requested["KmsKeyId"] = capture.kms_key
    return requested


def _data_capture(response: Mapping[str, Any] | None) -> DataCapture | None:
    if not response or not response.get("EnableCapture", True):
        return None
    modes = tuple(
        sorted(str(option.get("CaptureMode", "")) for option in response.get("CaptureOptions") or ())
    )
    content: CapturedContent = next((one for one, own in _CAPTURE_MODES.items() if own == modes), "both")
    return DataCapture(
        output=str(response.get("DestinationS3Uri", "")),
        percentage=int(response.get("InitialSamplingPercentage", 0)),
        content=content,
        kms_key=response.get("KmsKeyId") or None,
    )


def asynchronous_request(given: Asynchronous) -> dict[str, Any]:
    """An AsyncInferenceConfig. Failures have a folder of their own under the output."""
    topics = {"SuccessTopic": given.success_topic, "ErrorTopic": given.error_topic}
    sent = {name: topic for name, topic in topics.items() if topic}
    output: dict[str, Any] = {
        "S3OutputPath": given.output,
        "S3FailurePath": f"{str(given.output).rstrip('/')}/{FAILURES}",
        **({"KmsKeyId": given.kms_key} if given.kms_key else {}),
        **({"NotificationConfig": sent} if sent else {}),
    }
    requested: dict[str, Any] = {"OutputConfig": output}
    if given.max_concurrent_per_instance:
        most = given.max_concurrent_per_instance
        requested["ClientConfig"] = {"MaxConcurrentInvocationsPerInstance": most}
    return requested


def _asynchronous(response: Mapping[str, Any] | None) -> Asynchronous | None:
    if not response:
        return None
    output, client = response.get("OutputConfig") or {}, response.get("ClientConfig") or {}
    topics = output.get("NotificationConfig") or {}
    return Asynchronous(
        output=str(output.get("S3OutputPath", "")),
        max_concurrent_per_instance=client.get("MaxConcurrentInvocationsPerInstance"),
        success_topic=topics.get("SuccessTopic") or None,
        error_topic=topics.get("ErrorTopic") or None,
        kms_key=output.get("KmsKeyId") or None,
    )


def _vpc(response: Mapping[str, Any] | None) -> Vpc | None:
    if not response:
        return None
    return Vpc(
        subnets=tuple(response.get("Subnets", ())),
        security_groups=tuple(response.get("SecurityGroupIds", ())),
    )


def _source(uri: str) -> dict[str, Any]:
    return {"S3DataSource": {"S3Uri": uri, **_FOLDER}}


def _uri(owner: Mapping[str, Any]) -> str:
    source = owner.get("S3DataSource") or {}
    is_owned = all(source.get(key) == value for key, value in _FOLDER.items())
    return str(source.get("S3Uri", "")) if is_owned else ""
