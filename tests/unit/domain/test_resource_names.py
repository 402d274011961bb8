"""Names that lmi generates: a tag alone does not make a resource ours."""

from __future__ import annotations

import re

import pytest

from lmi_deploy.domain.sagemaker.resource_names import (
    adapter_component_name,
    is_resource_name,
    resource_name,
)
from lmi_deploy.domain.sagemaker.resource_settings import ResourceKind


@pytest.mark.parametrize("kind", ["endpoint-config", "model", "processing-job"])
def test_generated_names_are_recognised(kind: ResourceKind) -> None:
    assert is_resource_name(kind, resource_name("chat", "settings"), "chat")


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("endpoint", "chat-0123456789"),
        ("model", "chat"),
        ("model", "my-model"),
        ("model", "chat-0123456789-2"),
        ("model", "chat-prod-0123456789"),
        ("endpoint-config", "chat-012345678G"),
        ("endpoint-config", "xchat-0123456789"),
        ("processing-job", "chat-0123456789-x"),
    ],
)
def test_other_names_are_not_recognised(kind: ResourceKind, name: str) -> None:
    assert not is_resource_name(kind, name, "chat")


def test_endpoint_has_the_deployment_name_and_a_job_may_have_a_number() -> None:
    assert is_resource_name("endpoint", "chat", "chat")
    assert is_resource_name("processing-job", "chat-0123456789-12", "chat")


ADAPTERS = ("french", "fr_FR.v2", "___", "a" * 100, "a" * 101)


@pytest.mark.parametrize("deployment", ["c", "chat", "d" * 48])
def test_names_of_adapter_components_are_ones_that_sagemaker_takes_and_differ(deployment: str) -> None:
    names = [adapter_component_name(deployment, adapter) for adapter in ADAPTERS]
    assert len({*names}) == len(ADAPTERS)
    for name in names:
        assert len(name) <= 63
        assert re.fullmatch(r"[a-zA-Z0-9]([\-a-zA-Z0-9]*[a-zA-Z0-9])?", name)
        assert is_resource_name("adapter-component", name, deployment)
    assert adapter_component_name("chat", "a-b") != adapter_component_name("chat-a", "b")
    assert adapter_component_name("chat", "French") != adapter_component_name("chat", "french")
    assert adapter_component_name("chat", "French").startswith("chat-french-")
