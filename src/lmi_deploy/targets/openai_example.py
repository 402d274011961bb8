"""How to use a deployment with OpenAI's client library, through `lmi proxy`."""

from __future__ import annotations

import json
from typing import Any, Final

from lmi_deploy.domain.openai_client import client_lines
from lmi_deploy.domain.record import DeploymentRef
from lmi_deploy.domain.serving_record import ServingRecord

_ADDRESS: Final = "http://127.0.0.1:8000"
"""Of `lmi proxy`, unless --port says otherwise."""


def openai_example(ref: DeploymentRef, serving: ServingRecord, body: str) -> str:
    """Lines that send the probe again; empty for a deployment whose requests have no form in OpenAI's API."""
    call = _call(ref.name, serving, body)
    if not call or serving.is_asynchronous:
        return ""
    return f"""\
With OpenAI's client library, through `{ref.command("proxy")}`, which prints its key and runs until Ctrl-C:
{client_lines(_ADDRESS)}  {call}
Without it:
"""


def _call(name: str, serving: ServingRecord, text: str) -> str:
    body = _json_object(text)
    # Others of the probe's keys may be unknown to the client library.
    shown = ("messages", "prompt", "max_tokens", "temperature")
    arguments = ", ".join(f"{key}={body[key]!r}" for key in shown if key in body)
    if "messages" in body:
        return (
            f'print(client.chat.completions.create(model="{name}", {arguments}).choices[0].message.content)'
        )
    if "prompt" in body:
        return f'print(client.completions.create(model="{name}", {arguments}).choices[0].text)'
    if "inputs" in body and serving.task == "text-embedding":
        return f'print(client.embeddings.create(model="{name}", input={body["inputs"]!r}).data[0].embedding)'
    return ""


def _json_object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
