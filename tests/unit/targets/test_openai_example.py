"""The lines after `lmi up` that show OpenAI's client library; tests/e2e/test_printed_calls.py runs them."""

from __future__ import annotations

import pytest

from lmi_deploy.domain.inference_http import ProbeSpec
from lmi_deploy.domain.record import DeploymentRef
from lmi_deploy.domain.serving_record import ServingRecord
from lmi_deploy.planning.render import render
from lmi_deploy.targets.local.plan import serving
from lmi_deploy.targets.local.request_examples import request_examples
from lmi_deploy.targets.openai_example import openai_example
from tests.support.factories import facts, recipe, resolve

CLIENT = 'client = OpenAI(base_url="http://127.0.0.1:8000/v1", api_key=os.environ["LMI_PROXY_API_KEY"])'
HERE = DeploymentRef(name="m", target="local")


def _served(extra: str) -> tuple[ServingRecord, ProbeSpec]:
    spec = resolve(recipe(extra), facts())
    return serving(spec, render(spec)), spec.probe


@pytest.mark.parametrize(
    ("extra", "call"),
    [
        (
            "",
            """client.chat.completions.create(model="m", messages=[{'role': 'user', 'content': 'Say OK'}], """
            "max_tokens=8, temperature=0).choices[0].message.content",
        ),
        (
            """probe: {body: '{"prompt": "Say", "max_tokens": 3, "top_k": 1}'}\n""",
            "client.completions.create(model=\"m\", prompt='Say', max_tokens=3).choices[0].text",
        ),
        (
            "handler: {template: text-embedding}\ntask: text-embedding\n",
            "client.embeddings.create(model=\"m\", input='OK').data[0].embedding",
        ),
    ],
)
def test_printed_example_sends_the_probe_through_the_proxy(extra: str, call: str) -> None:
    record, probe = _served(extra)
    lines = openai_example(HERE, record, probe.body).splitlines()
    assert "`lmi proxy m`" in lines[0]
    assert CLIENT in lines[3]
    assert lines[4].strip() == f"print({call})"


def test_no_openai_example_is_printed_if_the_body_has_another_form() -> None:
    record, probe = _served("probe: {body: '[1, 2]'}\n")
    assert openai_example(HERE, record, probe.body) == ""
    examples = request_examples(HERE, record, probe, "http://127.0.0.1:1/invocations")
    assert examples.startswith("  curl -s http://127.0.0.1:1/invocations")
