"""How to invoke an endpoint: with OpenAI's client library, from a shell and from Python."""

from __future__ import annotations

import shlex

from lmi_deploy.domain.inference_http import ProbeSpec
from lmi_deploy.domain.record import DeploymentRef
from lmi_deploy.domain.sagemaker.component_settings import COMPONENT_HEADER
from lmi_deploy.domain.sagemaker.resource_names import adapter_component_name
from lmi_deploy.domain.serving_record import ServingRecord
from lmi_deploy.targets.openai_example import openai_example


def request_examples(ref: DeploymentRef, serving: ServingRecord, probe: ProbeSpec, address: str) -> str:
    body, kind, region = probe.body, probe.content_type, serving.cloud.region
    component = ref.name if serving.shared else ""
    name = serving.shared or ref.name
    header = f" -H '{COMPONENT_HEADER}: {component}'" if component else ""
    argument = f'\n      InferenceComponentName="{component}",' if component else ""
    return f"""\
{openai_example(ref.name, serving, body)}\
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
