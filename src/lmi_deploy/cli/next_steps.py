"""What to do next, once a deployment responds."""

from __future__ import annotations

import shlex
from typing import Any

from lmi_deploy.workflows.deployment_plan import DeploymentPlan


def how_to_invoke(deployment: DeploymentPlan, address: str) -> str:
    """Its address, how to invoke it from a shell and from Python, how to stop it."""
    spec = deployment.spec
    where, examples = deployment.target.request_examples(spec, address)
    prompt = (
        '"What is the capital of France?"' if spec.probe.prompt else f"--body {shlex.quote(spec.probe.body)}"
    )
    return f"""
{spec.name} answers at {where}

Invoke it:
  lmi invoke {spec.name} {prompt}
{examples}
Watch and delete it:
  lmi status {spec.name}    lmi logs {spec.name} -f    lmi down {spec.name}
"""


def how_to_invoke_fields(deployment: DeploymentPlan, address: str) -> dict[str, Any]:
    """The same for a program."""
    return {
        "deployment": deployment.spec.name,
        "target": deployment.spec.target,
        "address": address,
        **deployment.spec.place.fields,
        "changed": not deployment.plan.empty,
        "model": deployment.spec.model.model_id,
        "commit": deployment.spec.model.commit,
        "artifact": deployment.artifact.digest,
    }
