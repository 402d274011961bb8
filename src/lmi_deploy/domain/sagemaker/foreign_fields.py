"""Read an endpoint config and a model that another tool made. What lmi does not read of them is named."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from lmi_deploy.domain.sagemaker.foreign_endpoint import ForeignEndpointConfig, ForeignModel
from lmi_deploy.domain.sagemaker.resource_fields import endpoint_config_settings, model_settings
from lmi_deploy.domain.sagemaker.variant_fields import LEAST_OUTSTANDING

_CONFIG_READ: Final = frozenset(
    {
        *("EndpointConfigName", "EndpointConfigArn", "ProductionVariants", "ShadowProductionVariants"),
        *("DataCaptureConfig", "KmsKeyId", "CreationTime", "AsyncInferenceConfig", "ResponseMetadata"),
    }
)
_VARIANT_READ: Final = frozenset(
    {
        *("VariantName", "ModelName", "InstanceType", "InitialInstanceCount", "InitialVariantWeight"),
        *("ModelDataDownloadTimeoutInSeconds", "ContainerStartupHealthCheckTimeoutInSeconds"),
        *(
            "VolumeSizeInGB",
            "InferenceAmiVersion",
            "InstancePools",
            "VariantInstanceProvisionTimeoutInSeconds",
        ),
    }
)
_MODEL_READ: Final = frozenset(
    {
        *("ModelName", "ModelArn", "PrimaryContainer", "Containers", "ExecutionRoleArn", "VpcConfig"),
        *("CreationTime", "EnableNetworkIsolation", "DeploymentRecommendation", "ResponseMetadata"),
    }
)
_CONTAINER_READ: Final = frozenset({"Image", "Environment", "ModelDataUrl", "ModelDataSource", "Mode"})
"""Members of the responses (botocore's service model) that lmi reads. The others are named to the user."""
_FALSE: Final[tuple[object, ...]] = (None, False, "", [], {})


def foreign_endpoint_config(response: Mapping[str, Any]) -> ForeignEndpointConfig:
    """From DescribeEndpointConfig's response."""
    variants = response.get("ProductionVariants") or ()
    first: Mapping[str, Any] = variants[0] if variants else {}
    return ForeignEndpointConfig(
        name=str(response["EndpointConfigName"]),
        arn=str(response["EndpointConfigArn"]),
        settings=endpoint_config_settings(response, str(first.get("VariantName", ""))),
        variants=tuple(str(variant["VariantName"]) for variant in variants),
        shadows=tuple(
            str(variant["VariantName"]) for variant in response.get("ShadowProductionVariants") or ()
        ),
        not_read=(*_others(response, _CONFIG_READ), *_others(first, _VARIANT_READ | _routing_read(first))),
    )


def _routing_read(variant: Mapping[str, Any]) -> frozenset[str]:
    """The routing that lmi sends itself."""
    routing = (variant.get("RoutingConfig") or {}).get("RoutingStrategy")
    return frozenset({"RoutingConfig"} if routing == LEAST_OUTSTANDING else ())


def foreign_model(response: Mapping[str, Any]) -> ForeignModel:
    """From DescribeModel's response. SageMaker returns a single container in either of two members."""
    containers = list(response.get("Containers") or ())
    container: Mapping[str, Any] = response.get("PrimaryContainer") or (containers[0] if containers else {})
    source = (container.get("ModelDataSource") or {}).get("S3DataSource") or {}
    archive = str(container.get("ModelDataUrl") or "")
    if source.get("CompressionType") == "Gzip":
        archive = str(source.get("S3Uri", ""))
    multi = ("Mode",) if container.get("Mode") == "MultiModel" else ()
    return ForeignModel(
        name=str(response["ModelName"]),
        arn=str(response["ModelArn"]),
        settings=model_settings({**response, "PrimaryContainer": container}),
        archive=archive,
        containers=max(1, len(containers)),
        not_read=(*_others(response, _MODEL_READ), *_others(container, _CONTAINER_READ), *multi),
    )


def _others(found: Mapping[str, Any], read: frozenset[str]) -> Iterator[str]:
    yield from (name for name in found if name not in read and found[name] not in _FALSE)
