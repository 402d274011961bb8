"""What to do next, once a deployment answers."""

from __future__ import annotations

from typing import Any

from lmi_deploy.core.spec import Spec
from lmi_deploy.steps.up import Case


def how_to_ask(spec: Spec, address: str) -> str:
    """Where it runs, how to ask it from a shell and from Python, how to end it."""
    body = spec.probe.body
    return f"""
{spec.name} answers at {address} (runtime {spec.place.runtime}).

  ask    lmi invoke {spec.name} "What is the capital of France?"
  curl   curl -s {address} -H 'Content-Type: {spec.probe.content_type}' -d {_quoted(body)}
  Python import urllib.request
         request = urllib.request.Request("{address}", {body.encode()!r},
                                          {{"Content-Type": "{spec.probe.content_type}"}})
         print(urllib.request.urlopen(request).read().decode())
  watch  lmi status {spec.name}    lmi logs {spec.name} -f
  end    lmi down {spec.name}
"""


def how_to_ask_fields(case: Case, address: str) -> dict[str, Any]:
    """The same for a program."""
    return {
        "deployment": case.spec.name,
        "target": case.spec.target,
        "address": address,
        "runtime": case.spec.place.runtime,
        "changed": not case.plan.empty,
        "model": case.spec.model.model_id,
        "commit": case.spec.model.commit,
        "artifact": case.artifact.digest,
    }


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
