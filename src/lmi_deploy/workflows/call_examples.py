"""How to call, watch and delete a deployment, from what its record says that it serves."""

from __future__ import annotations

import shlex

from lmi_deploy.domain.record import DeploymentRef
from lmi_deploy.domain.serving_record import ServingRecord
from lmi_deploy.targets.target import AnyTarget


def call_examples(ref: DeploymentRef, serving: ServingRecord, target: AnyTarget, address: str) -> str:
    """Commands and code to copy. Without the request of a probe, which older records lack, only `lmi invoke`."""
    probe = serving.probe
    if probe is None or probe.prompt:
        request = '"What is the capital of France?"'
    else:
        request = f"--body {shlex.quote(probe.body)}"
    examples = target.request_examples(ref, serving, probe, address) + "\n" if probe else ""
    return f"""\
Invoke it:
  {ref.command("invoke")} {request}
{examples}\
Watch and delete it:
  {ref.command("status")}
  {ref.command("logs")} -f
  {ref.command("down")}"""
