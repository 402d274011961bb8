"""What to do next, once a deployment answers."""

from __future__ import annotations

from typing import Any

from lmi_deploy.core.spec import Spec
from lmi_deploy.steps.up import Case


def how_to_ask(spec: Spec, address: str) -> str:
    """Where it runs, how to ask it from a shell and from Python, how to end it."""
    name, place = spec.name, f"{address} (runtime {spec.machine.runtime}, {spec.machine.device})"
    body, kind = spec.probe.body, spec.probe.content_type
    asked = '"What is the capital of France?"' if spec.probe.prompt else f"--body {_quoted(body)}"
    return f"""
{name} answers at {place}

Ask it:
  lmi invoke {name} {asked}
  curl -s {address} -H 'Content-Type: {kind}' -d {_quoted(body)}
From Python:
  import urllib.request
  body = {body!r}
  request = urllib.request.Request("{address}", body.encode(), {{"Content-Type": "{kind}"}})
  print(urllib.request.urlopen(request).read().decode())
Watch it, end it:
  lmi status {name}    lmi logs {name} -f    lmi down {name}
"""


def how_to_ask_fields(case: Case, address: str) -> dict[str, Any]:
    """The same for a program."""
    return {
        "deployment": case.spec.name,
        "target": case.spec.target,
        "address": address,
        "runtime": case.spec.machine.runtime,
        "changed": not case.plan.empty,
        "model": case.spec.model.model_id,
        "commit": case.spec.model.commit,
        "artifact": case.artifact.digest,
    }


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
