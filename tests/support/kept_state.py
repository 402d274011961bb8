"""What a version of lmi leaves in AWS, as one JSON file: read from an account, and created again in another."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from tests.support.emulator_process import Emulated

MODEL = ("ModelName", "ExecutionRoleArn", "PrimaryContainer", "VpcConfig", "EnableNetworkIsolation")
CONFIG = ("EndpointConfigName", "ProductionVariants", "KmsKeyId", "DataCaptureConfig", "AsyncInferenceConfig")


def read_account(aws: Emulated) -> dict[str, Any]:
    """The objects of all buckets; models, endpoint configurations and endpoints with their tags, as requests."""
    sagemaker, s3 = aws.client("sagemaker"), aws.client("s3")
    objects = []
    for bucket in s3.list_buckets()["Buckets"]:
        for listed in s3.list_objects_v2(Bucket=bucket["Name"]).get("Contents", ()):
            where = {"Bucket": bucket["Name"], "Key": listed["Key"]}
            got = s3.get_object(**where)
            body = base64.b64encode(got["Body"].read()).decode()
            objects.append(
                {**where, "Body": body, "Metadata": got["Metadata"], "ContentType": got["ContentType"]}
            )

    def tags(arn: str) -> list[dict[str, str]]:
        return list(sagemaker.list_tags(ResourceArn=arn)["Tags"])

    models = [sagemaker.describe_model(ModelName=m["ModelName"]) for m in sagemaker.list_models()["Models"]]
    configs = [
        sagemaker.describe_endpoint_config(EndpointConfigName=c["EndpointConfigName"])
        for c in sagemaker.list_endpoint_configs()["EndpointConfigs"]
    ]
    endpoints = [aws.described(e["EndpointName"]) for e in sagemaker.list_endpoints()["Endpoints"]]
    return {
        "objects": objects,
        "models": [{**_only(m, MODEL), "Tags": tags(m["ModelArn"])} for m in models],
        "endpoint_configs": [{**_only(c, CONFIG), "Tags": tags(c["EndpointConfigArn"])} for c in configs],
        "endpoints": [
            {**_only(e, ("EndpointName", "EndpointConfigName")), "Tags": tags(e["EndpointArn"])}
            for e in endpoints
        ],
    }


def create_account(aws: Emulated, kept: Mapping[str, Any]) -> None:
    sagemaker, s3 = aws.client("sagemaker"), aws.client("s3")
    for bucket in sorted({item["Bucket"] for item in kept["objects"]}):
        s3.create_bucket(Bucket=bucket)
    for item in kept["objects"]:
        s3.put_object(**{**item, "Body": base64.b64decode(item["Body"])})
    for model in kept["models"]:
        sagemaker.create_model(**model)
    for config in kept["endpoint_configs"]:
        sagemaker.create_endpoint_config(**config)
    for endpoint in kept["endpoints"]:
        sagemaker.create_endpoint(**endpoint)
        aws.settled(endpoint["EndpointName"])


def _only(described: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: described[name] for name in names if name in described}
