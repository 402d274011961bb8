"""How to invoke a model server on this machine: with OpenAI's client library, from a shell and from Python."""

from __future__ import annotations

import shlex

from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.targets.openai_example import openai_example


def request_examples(spec: Spec, address: str) -> tuple[str, str]:
    """Where it answers, and how to invoke it."""
    body, kind = spec.probe.body, spec.probe.content_type
    where = f"{address} (runtime {spec.machine.runtime}, {spec.machine.device})"
    return (
        where,
        f"""\
{openai_example(spec)}\
  curl -s {address} \\
    -H 'Content-Type: {kind}' -d {shlex.quote(body)}
From Python:
  import urllib.request
  body = {body!r}
  request = urllib.request.Request(
      "{address}", body.encode(), {{"Content-Type": "{kind}"}}
  )
  print(urllib.request.urlopen(request).read().decode())""",
    )
