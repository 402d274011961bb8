"""The lifecycle of an endpoint with boto3 alone: `python with_boto3.py FOLDER IMAGE` prints the results as
JSON."""

import json
import sys
from pathlib import Path

import boto3
from botocore.exceptions import ClientError

folder, image = Path(sys.argv[1]), sys.argv[2]
iam, s3, sagemaker = boto3.client("iam"), boto3.client("s3"), boto3.client("sagemaker")
runtime, name, bucket = boto3.client("sagemaker-runtime"), "by-boto3", "by-boto3"
trust = {"Effect": "Allow", "Principal": {"Service": "sagemaker.amazonaws.com"}, "Action": "sts:AssumeRole"}
reads = {"Effect": "Allow", "Action": ["s3:GetObject", "s3:ListBucket"], "Resource": "*"}


def policy(statement):
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def config(called):
    variant = {"VariantName": "AllTraffic", "ModelName": name, "InstanceType": "ml.g5.xlarge"}
    variants = [{**variant, "InitialInstanceCount": 1}]
    sagemaker.create_endpoint_config(EndpointConfigName=called, ProductionVariants=variants)


def invoke():
    body = json.dumps({"do": "echo", "text": "hello"})
    response = runtime.invoke_endpoint(EndpointName=name, ContentType="application/json", Body=body)
    return response["Body"].read().decode()


def streamed():
    body = json.dumps({"do": "stream", "count": 3})
    response = runtime.invoke_endpoint_with_response_stream(
        EndpointName=name, ContentType="application/json", Body=body
    )
    content = b"".join(event["PayloadPart"]["Bytes"] for event in response["Body"])
    return [json.loads(line)["outputs"] for line in content.splitlines()]


role = iam.create_role(RoleName=name, AssumeRolePolicyDocument=policy(trust))["Role"]["Arn"]
iam.put_role_policy(RoleName=name, PolicyName="read", PolicyDocument=policy(reads))
s3.create_bucket(Bucket=bucket)
for file in folder.iterdir():
    s3.upload_file(str(file), bucket, f"model/{file.name}")
source = {"S3Uri": f"s3://{bucket}/model/", "S3DataType": "S3Prefix", "CompressionType": "None"}
container = {"Image": image, "ModelDataSource": {"S3DataSource": source}}
sagemaker.create_model(ModelName=name, ExecutionRoleArn=role, PrimaryContainer=container)
config("by-boto3-1")
sagemaker.create_endpoint(EndpointName=name, EndpointConfigName="by-boto3-1")
in_service = sagemaker.get_waiter("endpoint_in_service")
in_service.wait(EndpointName=name, WaiterConfig={"Delay": 1})
told = {"answer": invoke(), "streamed": streamed()}
config("by-boto3-2")
sagemaker.update_endpoint(EndpointName=name, EndpointConfigName="by-boto3-2")
in_service.wait(EndpointName=name, WaiterConfig={"Delay": 1})
told["config"] = sagemaker.describe_endpoint(EndpointName=name)["EndpointConfigName"]
told["answer_after"] = invoke()
sagemaker.delete_endpoint(EndpointName=name)
sagemaker.get_waiter("endpoint_deleted").wait(EndpointName=name, WaiterConfig={"Delay": 1})
for called in ("by-boto3-1", "by-boto3-2"):
    sagemaker.delete_endpoint_config(EndpointConfigName=called)
sagemaker.delete_model(ModelName=name)
try:
    sagemaker.describe_endpoint(EndpointName=name)
except ClientError as gone:
    told["gone"] = gone.response["Error"]["Code"]
print(json.dumps(told))
