"""How to invoke an endpoint: with OpenAI's client library, from a shell and from Python."""

from __future__ import annotations

import shlex

from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.targets.openai_example import openai_example


def request_examples(spec: Spec, address: str) -> tuple[str, str]:
    """Where it answers, and how to invoke it."""
    name, body, kind, region = spec.name, spec.probe.body, spec.probe.content_type, spec.cloud.region
    return (
        address,
        f"""\
{openai_example(spec)}\
  {aws_cli_command(name, region, kind, body)}
  curl -s {address} \\
    -H 'Content-Type: {kind}' -d {shlex.quote(body)} \\
    --aws-sigv4 aws:amz:{region}:sagemaker \\
    --user "$AWS_ACCESS_KEY_ID:$AWS_SECRET_ACCESS_KEY" \\
    ${{AWS_SESSION_TOKEN:+-H "X-Amz-Security-Token: $AWS_SESSION_TOKEN"}}
From Python:
  import boto3
  runtime = boto3.client("sagemaker-runtime", region_name="{region}")
  body = {body!r}
  answer = runtime.invoke_endpoint(
      EndpointName="{name}", ContentType="{kind}", Body=body
  )
  print(answer["Body"].read().decode())""",
    )


def aws_cli_command(name: str, region: str, content_type: str, body: str) -> str:
    """For a shell. `fileb://` is the one form of a body that versions 1 and 2 of the AWS CLI treat the same:
    unchanged.
    """
    return (
        f"printf %s {shlex.quote(body)} |\n"
        f"  aws sagemaker-runtime invoke-endpoint --region {region} \\\n"
        f"    --endpoint-name {name} \\\n"
        f"    --content-type '{content_type}' --body fileb:///dev/stdin /dev/stdout"
    )
