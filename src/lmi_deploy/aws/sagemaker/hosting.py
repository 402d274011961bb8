"""The port Hosting: boto3's `sagemaker`; invocations go through `invoking`.

A create whose reply was lost is sent again and then meets what it made: Conflict, which the caller settles by looking
(our tags, and every setting equal). An update or a deletion whose reply was lost is settled here, by looking.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from lmi_deploy.aws.client import Access, Service
from lmi_deploy.aws.sagemaker.resource_fields import (
    endpoint_config_models,
    endpoint_config_request,
    endpoint_config_settings,
    model_request,
    model_settings,
    moment,
    seen_endpoint,
    tag_list,
    tag_pairs,
)
from lmi_deploy.aws.sagemaker.runtime import Runtime
from lmi_deploy.domain.inference_http import Head, HttpRequest
from lmi_deploy.domain.recipe import Pairs
from lmi_deploy.domain.sagemaker.settings import (
    EndpointConfigSettings,
    ModelSettings,
    SeenEndpoint,
    SeenEndpointConfig,
    SeenModel,
)
from lmi_deploy.errors import Conflict, NotFound

_KEPT: Final = ({"VariantPropertyType": "DesiredWeight"}, {"VariantPropertyType": "DataCaptureConfig"})
"""What an update that keeps the number of instances does not keep."""


class SageMakerHosting:
    """The port Hosting, in one account and region."""

    def __init__(self, access: Access, *, account: str) -> None:
        self._api = Service(access, "sagemaker")
        self._runtime = Runtime(access)
        self._account = account

    def endpoint(self, name: str) -> SeenEndpoint | None:
        told = self._described("describe_endpoint", "endpoint", name, "EndpointStatus", EndpointName=name)
        return None if told is None else seen_endpoint(told)

    def endpoint_config(self, name: str) -> SeenEndpointConfig | None:
        told = self._described(
            "describe_endpoint_config", "endpoint-config", name, "EndpointConfigArn", EndpointConfigName=name
        )
        if told is None:
            return None
        return SeenEndpointConfig(
            name=name,
            arn=str(told["EndpointConfigArn"]),
            settings=endpoint_config_settings(told),
            created=moment(told.get("CreationTime")),
            models=endpoint_config_models(told),
        )

    def model(self, name: str) -> SeenModel | None:
        told = self._described("describe_model", "model", name, "ModelArn", ModelName=name)
        return (
            None
            if told is None
            else SeenModel(name=name, arn=str(told["ModelArn"]), settings=model_settings(told))
        )

    def tags(self, arn: str) -> Pairs:
        tags = self._api.pages(
            "list_tags", f"tags of {arn}", resource=arn, token="NextToken", items="Tags", ResourceArn=arn
        )
        return tag_pairs(list(tags))

    def create_model(self, name: str, settings: ModelSettings, tags: Pairs) -> None:
        self._change(
            "create_model", "model", name, ModelName=name, Tags=tag_list(tags), **model_request(settings)
        )

    def create_endpoint_config(self, name: str, settings: EndpointConfigSettings, tags: Pairs) -> None:
        self._change(
            "create_endpoint_config",
            "endpoint-config",
            name,
            EndpointConfigName=name,
            Tags=tag_list(tags),
            **endpoint_config_request(settings),
        )

    def create_endpoint(self, name: str, config: str, tags: Pairs) -> None:
        self._change(
            "create_endpoint",
            "endpoint",
            name,
            EndpointName=name,
            EndpointConfigName=config,
            Tags=tag_list(tags),
        )

    def update_endpoint(self, name: str, config: str, *, keep_count: bool) -> None:
        asked: dict[str, Any] = {"EndpointName": name, "EndpointConfigName": config}
        if keep_count:
            asked.update(RetainAllVariantProperties=True, ExcludeRetainedVariantProperties=list(_KEPT))
        try:
            self._change("update_endpoint", "endpoint", name, **asked)
        except Conflict:
            seen = self.endpoint(name)
            if seen is None or seen.status != "Updating" or config != (seen.pending or seen.config):
                raise

    def tag(self, arn: str, tags: Pairs) -> None:
        self._api("add_tags", f"tags of {arn}", resource=arn, ResourceArn=arn, Tags=tag_list(tags))

    def untag(self, arn: str, names: tuple[str, ...]) -> None:
        self._api("delete_tags", f"tags of {arn}", resource=arn, ResourceArn=arn, TagKeys=list(names))

    def delete_endpoint(self, name: str) -> None:
        try:
            self._delete("delete_endpoint", "endpoint", name, EndpointName=name)
        except Conflict:
            seen = self.endpoint(name)
            if seen is not None and seen.status != "Deleting":
                raise

    def delete_endpoint_config(self, name: str) -> None:
        self._delete("delete_endpoint_config", "endpoint-config", name, EndpointConfigName=name)

    def delete_model(self, name: str) -> None:
        self._delete("delete_model", "model", name, ModelName=name)

    def invoke(self, name: str, request: HttpRequest, *, timeout: float) -> Iterator[Head | bytes]:
        return self._runtime.invoke(name, request, timeout=timeout)

    def address(self, name: str) -> str:
        return self._runtime.address(name)

    def _described(self, call: str, kind: str, name: str, needs: str, **given: str) -> dict[str, Any] | None:
        try:
            return self._change(call, kind, name, needs=needs, **given)
        except NotFound:
            return None

    def _delete(self, call: str, kind: str, name: str, **given: str) -> None:
        try:
            self._change(call, kind, name, **given)
        except NotFound:
            return

    def _change(self, call: str, kind: str, name: str, **given: Any) -> dict[str, Any]:
        arn = f"arn:{self._api.partition}:sagemaker:{self._api.region}:{self._account}:{kind}/{name.lower()}"
        return self._api(call, f"{kind.replace('-', ' ')} {name}", resource=arn, **given)
