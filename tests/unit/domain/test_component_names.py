"""The inference components that requests to a deployment may name."""

from __future__ import annotations

from lmi_deploy.domain.sagemaker.resource_names import component_names
from lmi_deploy.domain.sagemaker.resource_settings import Resource, ResourceKind


def test_model_and_adapters_are_components_and_nothing_else_is() -> None:
    def resource(kind: ResourceKind, path: str) -> Resource:
        arn = f"arn:aws:sagemaker:us-east-1:123456789012:{path}"
        return Resource(kind=kind, name=path.partition("/")[2], arn=arn, tags=())

    found = [
        resource("model", "model/chat-0123456789"),
        resource("inference-component", "inference-component/chat"),
        resource("inference-component", "inference-component/chat-french-0123456789"),
    ]
    assert component_names(found) == ("chat", "chat-french-0123456789")
    assert component_names([resource("endpoint", "endpoint/chat")]) == ()
