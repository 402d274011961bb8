"""The services besides SageMaker, as far as a deployer calls them."""

from __future__ import annotations

import pytest

from tests.support.emulator_process import BUCKET, REGION, Emulated

DIMENSION = "sagemaker:variant:DesiredInstanceCount"


@pytest.fixture(scope="module")
def live(aws: Emulated) -> str:
    """The name of a model, a configuration and an endpoint in service."""
    uri = aws.upload("artifacts/live", {"serving.properties": "engine=Python\n"})
    aws.model("live", uri)
    aws.endpoint_config("live", "live")
    tags = [{"Key": "lmi:deployment", "Value": "live"}]
    aws.client("sagemaker").create_endpoint(EndpointName="live", EndpointConfigName="live", Tags=tags)
    assert aws.settled("live")["EndpointStatus"] == "InService"
    return "live"


def test_resources_are_found_by_their_tags(aws: Emulated, live: str) -> None:
    api = aws.client("resourcegroupstaggingapi")
    found = api.get_resources(
        TagFilters=[{"Key": "lmi:deployment", "Values": ["live", "other"]}], ResourceTypeFilters=["sagemaker"]
    )
    (only,) = found["ResourceTagMappingList"]
    assert only["ResourceARN"] == f"arn:aws:sagemaker:{REGION}:123456789012:endpoint/live"
    assert only["Tags"] == [{"Key": "lmi:deployment", "Value": "live"}]
    for other in ({"TagFilters": [{"Key": "none"}]}, {"ResourceTypeFilters": ["sagemaker:model"]}):
        assert api.get_resources(**other)["ResourceTagMappingList"] == []


def test_quotas_are_listed_and_enforced(aws: Emulated, live: str) -> None:
    api = aws.client("service-quotas")
    quotas = [
        quota
        for page in api.get_paginator("list_service_quotas").paginate(ServiceCode="sagemaker")
        for quota in page["Quotas"]
    ]
    (own,) = [quota for quota in quotas if quota["QuotaName"] == "ml.p5.48xlarge for endpoint usage"]
    aws.post(f"/_quotas/{REGION}", {"ml.p5.48xlarge": 0})
    description = api.get_service_quota(ServiceCode="sagemaker", QuotaCode=own["QuotaCode"])["Quota"]
    assert (own["Value"], description["Value"]) == (100.0, 0.0)
    aws.endpoint_config("large", "live", InstanceType="ml.p5.48xlarge")
    client = aws.client("sagemaker")
    with pytest.raises(client.exceptions.ResourceLimitExceeded) as refusal:
        aws.endpoint("large")
    assert refusal.value.response["Error"]["Message"] == (
        "The account-level service limit 'ml.p5.48xlarge for endpoint usage' is 0 Instances, with current "
        "utilization of 0 Instances and a request delta of 1 Instances. Please contact AWS support to request "
        "an increase for this limit."
    )


def test_autoscaling_targets_and_policies_work(aws: Emulated, live: str) -> None:
    api, client = aws.client("application-autoscaling"), aws.client("sagemaker")
    target = {
        "ServiceNamespace": "sagemaker",
        "ResourceId": "endpoint/live/variant/AllTraffic",
        "ScalableDimension": DIMENSION,
    }
    with pytest.raises(api.exceptions.ObjectNotFoundException):
        api.put_scaling_policy(PolicyName="p", **target)
    with pytest.raises(api.exceptions.ValidationException):
        api.register_scalable_target(
            **{**target, "ResourceId": "endpoint/no/variant/v"}, MinCapacity=1, MaxCapacity=2
        )
    api.register_scalable_target(**target, MinCapacity=1, MaxCapacity=3)
    tracking = {
        "TargetValue": 10.0,
        "PredefinedMetricSpecification": {"PredefinedMetricType": "SageMakerVariantInvocationsPerInstance"},
    }
    policy = {"PolicyName": "p", "PolicyType": "TargetTrackingScaling", **target}
    api.put_scaling_policy(**policy, TargetTrackingScalingPolicyConfiguration=tracking)
    (observed,) = api.describe_scalable_targets(ServiceNamespace="sagemaker")["ScalableTargets"]
    assert (observed["MinCapacity"], observed["MaxCapacity"]) == (1, 3)
    (kept,) = api.describe_scaling_policies(ServiceNamespace="sagemaker")["ScalingPolicies"]
    assert kept["TargetTrackingScalingPolicyConfiguration"] == tracking
    aws.endpoint_config("other-type", "live", InstanceType="ml.g6.xlarge")
    with pytest.raises(client.exceptions.ClientError, match="scalable target"):
        client.update_endpoint(EndpointName="live", EndpointConfigName="other-type")
    api.deregister_scalable_target(**target)
    assert api.describe_scaling_policies(ServiceNamespace="sagemaker")["ScalingPolicies"] == []


def test_secret_value_can_be_read(aws: Emulated) -> None:
    api = aws.client("secretsmanager")
    api.create_secret(Name="hub-token", SecretString="s")
    assert api.get_secret_value(SecretId="hub-token")["SecretString"] == "s"


def test_caller_identity_is_returned(aws: Emulated) -> None:
    assert aws.client("sts").get_caller_identity()["Account"] == "123456789012"


def test_unsupported_service_is_an_error(aws: Emulated) -> None:
    api = aws.client("dynamodb")
    with pytest.raises(api.exceptions.ClientError, match=r"UnknownOperation|NotImplemented"):
        api.list_tables()


def test_s3_supports_multipart_conditions_and_checksums(aws: Emulated) -> None:
    s3 = aws.client("s3")
    s3.create_bucket(Bucket=BUCKET)
    started = s3.create_multipart_upload(Bucket=BUCKET, Key="big", ChecksumAlgorithm="CRC32")
    place = {"Bucket": BUCKET, "Key": "big", "UploadId": started["UploadId"]}
    parts = []
    for number, size in ((1, 5 * 1024 * 1024), (2, 10)):
        put = s3.upload_part(**place, PartNumber=number, Body=b"x" * size, ChecksumAlgorithm="CRC32")
        parts.append({"PartNumber": number, "ETag": put["ETag"], "ChecksumCRC32": put["ChecksumCRC32"]})
    s3.complete_multipart_upload(**place, MultipartUpload={"Parts": parts})
    assert s3.head_object(Bucket=BUCKET, Key="big")["ContentLength"] == 5 * 1024 * 1024 + 10
    assert s3.get_object(Bucket=BUCKET, Key="big", Range="bytes=0-3")["Body"].read() == b"xxxx"
    s3.put_object(Bucket=BUCKET, Key="lock", Body=b"1", IfNoneMatch="*")
    with pytest.raises(s3.exceptions.ClientError, match="PreconditionFailed"):
        s3.put_object(Bucket=BUCKET, Key="lock", Body=b"2", IfNoneMatch="*")


def test_prices_are_those_of_the_packaged_table(aws: Emulated) -> None:
    import json

    api = aws.client("pricing")
    filters = [
        {"Type": "TERM_MATCH", "Field": field, "Value": value}
        for field, value in (
            ("instanceName", "ml.g5.xlarge"),
            ("component", "Hosting"),
            ("regionCode", REGION),
        )
    ]
    (text,) = api.get_products(ServiceCode="AmazonSageMaker", Filters=filters)["PriceList"]
    (term,) = json.loads(text)["terms"]["OnDemand"].values()
    (dimension,) = term["priceDimensions"].values()
    assert 1.0 < float(dimension["pricePerUnit"]["USD"]) < 2.0
    assert term["effectiveDate"] == "2025-01-26T00:00:00Z"
    assert json.loads(text)["publicationDate"] > "2026-11-21"
    filters[2]["Value"] = "eu-west-1"
    assert api.get_products(ServiceCode="AmazonSageMaker", Filters=filters)["PriceList"] == []
    filters[0]["Value"] = "ml.g5.12xlarge"
    (text,) = api.get_products(ServiceCode="AmazonSageMaker", Filters=filters)["PriceList"]
    (term,) = json.loads(text)["terms"]["OnDemand"].values()
    assert term["effectiveDate"] == "2023-12-01T00:00:00Z"
    filters[0]["Value"] = "ml.none.large"
    assert api.get_products(ServiceCode="AmazonSageMaker", Filters=filters)["PriceList"] == []


def test_log_groups_streams_and_events_work(aws: Emulated) -> None:
    logs, group = aws.client("logs"), "/own/group"
    logs.create_log_group(logGroupName=group, tags={"a": "b"})
    logs.create_log_stream(logGroupName=group, logStreamName="one")
    now = int(aws.get("/_clock")["now"] * 1000)
    lines = [{"timestamp": now + number, "message": f"line {number}"} for number in range(3)]
    logs.put_log_events(logGroupName=group, logStreamName="one", logEvents=lines)
    page = logs.get_log_events(logGroupName=group, logStreamName="one", startFromHead=True, limit=2)
    assert [event["message"] for event in page["events"]] == ["line 0", "line 1"]
    token = page["nextForwardToken"]
    rest = logs.get_log_events(logGroupName=group, logStreamName="one", nextToken=token, limit=2)
    assert [event["message"] for event in rest["events"]] == ["line 2"]
    logs.put_retention_policy(logGroupName=group, retentionInDays=7)
    (description,) = logs.describe_log_groups(logGroupNamePrefix=group)["logGroups"]
    assert description["retentionInDays"] == 7
    logs.tag_resource(resourceArn=description["logGroupArn"], tags={"c": "d"})
    logs.untag_resource(resourceArn=description["logGroupArn"], tagKeys=["a"])
    assert logs.list_tags_for_resource(resourceArn=description["logGroupArn"])["tags"] == {"c": "d"}
    logs.delete_log_group(logGroupName=group)
    assert logs.describe_log_groups(logGroupNamePrefix=group)["logGroups"] == []


def test_bahrain_and_the_emirates_have_no_account_regional_buckets(aws: Emulated) -> None:
    s3 = aws.client("s3")
    for region in ("me-south-1", "me-central-1"):
        placed = {"CreateBucketConfiguration": {"LocationConstraint": region}}
        with pytest.raises(s3.exceptions.ClientError, match="not available in this region"):
            s3.create_bucket(
                Bucket=f"lmi-123456789012-{region}-an", BucketNamespace="account-regional", **placed
            )
