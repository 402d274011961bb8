"""How to invoke a model server on this machine: with OpenAI's client library, from a shell and from Python."""

from __future__ import annotations

import shlex

from lmi_deploy.domain.inference_http import ProbeSpec
from lmi_deploy.domain.record import DeploymentRef
from lmi_deploy.domain.serving_record import ServingRecord
from lmi_deploy.targets.openai_example import openai_example


def request_examples(ref: DeploymentRef, serving: ServingRecord, probe: ProbeSpec, address: str) -> str:
    body, kind = probe.body, probe.content_type
    return f"""\
{openai_example(ref, serving, body)}\
  curl -s {address} \\
    -H 'Content-Type: {kind}' -d {shlex.quote(body)}
From Python:
  import urllib.request
  body = {body!r}
  request = urllib.request.Request(
      "{address}", body.encode(), {{"Content-Type": "{kind}"}}
  )
  print(urllib.request.urlopen(request).read().decode())"""
