"""What to do next, once a deployment responds."""

from __future__ import annotations

from typing import Any

from lmi_deploy.domain.spec import Spec
from lmi_deploy.domain.target_spec import LocalPlace, SageMakerPlace
from lmi_deploy.workflows.up import DeploymentPlan


def how_to_invoke(spec: Spec, address: str) -> str:
    """Its address, how to invoke it from a shell and from Python, how to stop it."""
    match spec.place:
        case LocalPlace() as place:
            where = f"{address} (runtime {place.runtime}, {place.device})"
            requested = _invoke_locally(spec, address)
        case SageMakerPlace() as place:
            where = address
            requested = _invoke_on_sagemaker(spec, place, address)
    name, body = spec.name, spec.probe.body
    prompt = '"What is the capital of France?"' if spec.probe.prompt else f"--body {_quoted(body)}"
    return f"""
{name} answers at {where}

Ask it:
  lmi invoke {name} {prompt}
{requested}
Watch it, end it:
  lmi status {name}    lmi logs {name} -f    lmi down {name}
"""


def _invoke_locally(spec: Spec, address: str) -> str:
    body, kind = spec.probe.body, spec.probe.content_type
    return f"""\
  curl -s {address} -H 'Content-Type: {kind}' -d {_quoted(body)}
From Python:
  import urllib.request
  body = {body!r}
  request = urllib.request.Request("{address}", body.encode(), {{"Content-Type": "{kind}"}})
  print(urllib.request.urlopen(request).read().decode())"""


def aws_cli_command(name: str, region: str, content_type: str, body: str) -> str:
    """For a shell. `fileb://` is the one form of a body that versions 1 and 2 of the AWS CLI treat the same:
    unchanged.
    """
    return (
        f"printf %s {_quoted(body)} |\n"
        f"  aws sagemaker-runtime invoke-endpoint --region {region} --endpoint-name {name} \\\n"
        f"    --content-type '{content_type}' --body fileb:///dev/stdin /dev/stdout"
    )


def _invoke_on_sagemaker(spec: Spec, place: SageMakerPlace, address: str) -> str:
    name, body, kind, region = spec.name, spec.probe.body, spec.probe.content_type, place.region
    return f"""\
  {aws_cli_command(name, region, kind, body)}
  curl -s {address} -H 'Content-Type: {kind}' -d {_quoted(body)} \\
    --aws-sigv4 aws:amz:{region}:sagemaker --user "$AWS_ACCESS_KEY_ID:$AWS_SECRET_ACCESS_KEY" \\
    ${{AWS_SESSION_TOKEN:+-H "X-Amz-Security-Token: $AWS_SESSION_TOKEN"}}
From Python:
  import boto3
  runtime = boto3.client("sagemaker-runtime", region_name="{region}")
  body = {body!r}
  answer = runtime.invoke_endpoint(EndpointName="{name}", ContentType="{kind}", Body=body)
  print(answer["Body"].read().decode())"""


def how_to_invoke_fields(deployment: DeploymentPlan, address: str) -> dict[str, Any]:
    """The same for a program."""
    return {
        "deployment": deployment.spec.name,
        "target": deployment.spec.target,
        "address": address,
        **_place_fields(deployment.spec),
        "changed": not deployment.plan.empty,
        "model": deployment.spec.model.model_id,
        "commit": deployment.spec.model.commit,
        "artifact": deployment.artifact.digest,
    }


def _place_fields(spec: Spec) -> dict[str, str]:
    match spec.place:
        case LocalPlace(runtime=runtime):
            return {"runtime": runtime}
        case SageMakerPlace(account=account, region=region, bucket=bucket):
            return {"runtime": "sagemaker", "account": account, "region": region, "bucket": bucket}


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
