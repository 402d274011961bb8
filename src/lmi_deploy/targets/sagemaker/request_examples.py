"""How to invoke an endpoint: with OpenAI's client library, from a shell and from Python."""

from __future__ import annotations

import shlex

from lmi_deploy.domain.default_bucket import default_bucket
from lmi_deploy.domain.inference_http import ProbeSpec
from lmi_deploy.domain.record import DeploymentRef
from lmi_deploy.domain.sagemaker.async_layout import input_key
from lmi_deploy.domain.sagemaker.component_settings import COMPONENT_HEADER
from lmi_deploy.domain.sagemaker.resource_names import adapter_component_name
from lmi_deploy.domain.serving_record import ServingRecord
from lmi_deploy.targets.openai_example import openai_example


def request_examples(ref: DeploymentRef, serving: ServingRecord, probe: ProbeSpec, address: str) -> str:
    if serving.is_asynchronous:
        return _queued(ref, serving.cloud.region, probe)
    body, kind, region = probe.body, probe.content_type, serving.cloud.region
    component = ref.name if serving.shared else ""
    name = serving.shared or ref.name
    header = f" -H '{COMPONENT_HEADER}: {component}'" if component else ""
    argument = f'\n      InferenceComponentName="{component}",' if component else ""
    return f"""\
{openai_example(ref, serving, body)}\
  {aws_cli_command(name, region, kind, body, component=component)}
  curl -s {address} \\
    -H 'Content-Type: {kind}'{header} -d {shlex.quote(body)} \\
    --aws-sigv4 aws:amz:{region}:sagemaker \\
    --user "$AWS_ACCESS_KEY_ID:$AWS_SECRET_ACCESS_KEY" \\
    ${{AWS_SESSION_TOKEN:+-H "X-Amz-Security-Token: $AWS_SESSION_TOKEN"}}
From Python:
  import boto3
  runtime = boto3.client("sagemaker-runtime", region_name="{region}")
  body = {body!r}
  answer = runtime.invoke_endpoint(
      EndpointName="{name}",{argument} ContentType="{kind}", Body=body
  )
  print(answer["Body"].read().decode()){_adapters(ref.name, serving)}"""


def _queued(ref: DeploymentRef, region: str, probe: ProbeSpec) -> str:
    """The same for an asynchronous endpoint: request and response are objects in S3."""
    bucket = ref.bucket or default_bucket(ref.account, region)
    key = input_key(ref.name, "by-hand")
    return f"""\
  input=s3://{bucket}/{key}
  printf %s {shlex.quote(probe.body)} | aws s3 cp - $input --region {region}
  output=$(aws sagemaker-runtime invoke-endpoint-async --region {region} \\
    --endpoint-name {ref.name} --content-type '{probe.content_type}' \\
    --input-location $input --query OutputLocation --output text)
  until aws s3 cp $output - --region {region}; do sleep 5; done
From Python:
  import boto3
  s3 = boto3.client("s3", region_name="{region}")
  runtime = boto3.client("sagemaker-runtime", region_name="{region}")
  bucket, key = "{bucket}", "{key}"
  s3.put_object(Bucket=bucket, Key=key, Body={probe.body!r})
  queued = runtime.invoke_endpoint_async(
      EndpointName="{ref.name}", ContentType="{probe.content_type}", InputLocation=f"s3://{{bucket}}/{{key}}"
  )
  bucket, _, key = queued["OutputLocation"].removeprefix("s3://").partition("/")
  s3.get_waiter("object_exists").wait(Bucket=bucket, Key=key)
  print(s3.get_object(Bucket=bucket, Key=key)["Body"].read().decode())"""


def _adapters(name: str, serving: ServingRecord) -> str:
    """The names that select them on a shared endpoint."""
    if not serving.has_adapter_components:
        return ""
    named = "".join(f"\n  {adapter}: {adapter_component_name(name, adapter)}" for adapter in serving.adapters)
    return f"\nFor an adapter, name its component in place of {name}:{named}"


def aws_cli_command(name: str, region: str, content_type: str, body: str, *, component: str = "") -> str:
    """For a shell. `fileb://` is the one form of a body that versions 1 and 2 of the AWS CLI treat the same:
    unchanged.
    """
    shared = f"    --inference-component-name {component} \\\n" if component else ""
    return (
        f"printf %s {shlex.quote(body)} |\n"
        f"  aws sagemaker-runtime invoke-endpoint --region {region} \\\n"
        f"    --endpoint-name {name} \\\n"
        f"{shared}"
        f"    --content-type '{content_type}' --body fileb:///dev/stdin /dev/stdout"
    )
