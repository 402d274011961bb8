"""How to invoke an endpoint: with OpenAI's client library, from a shell and from Python."""

from __future__ import annotations

import shlex

from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.sagemaker.component_settings import COMPONENT_HEADER
from lmi_deploy.domain.sagemaker.resource_names import adapter_component_name
from lmi_deploy.targets.openai_example import openai_example


def request_examples(spec: Spec, address: str) -> tuple[str, str]:
    """Where it answers, and how to invoke it."""
    body, kind, region = spec.probe.body, spec.probe.content_type, spec.cloud.region
    shared = spec.cloud.component
    name, component = (spec.name, "") if shared is None else (shared.endpoint, spec.name)
    header = f" -H '{COMPONENT_HEADER}: {component}'" if component else ""
    argument = f'\n      InferenceComponentName="{component}",' if component else ""
    return (
        address,
        f"""\
{openai_example(spec)}\
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
  print(answer["Body"].read().decode()){_adapters(spec)}""",
    )


def _adapters(spec: Spec) -> str:
    """The names that select them on a shared endpoint."""
    if not spec.has_adapter_components:
        return ""
    named = "".join(
        f"\n  {adapter.name}: {adapter_component_name(spec.name, adapter.name)}"
        for adapter in spec.weights.adapters
    )
    return f"\nFor an adapter, name its component in place of {spec.name}:{named}"


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
