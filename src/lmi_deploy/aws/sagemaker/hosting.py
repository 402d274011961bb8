"""The port Hosting: boto3's `sagemaker`; invocations use `runtime`.

A create whose reply was lost is sent again and then finds its own resource: Conflict, which the caller resolves by
comparing (our tags, and every setting equal). An update or a deletion whose reply was lost is resolved here, by
describing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from lmi_deploy.aws.client import AwsConnection, Service
from lmi_deploy.aws.sagemaker.runtime import SageMakerRuntime
from lmi_deploy.domain.async_requests import AsyncCall, AsyncLocations
from lmi_deploy.domain.inference_http import HttpRequest, ResponseHead
from lmi_deploy.domain.recipe_endpoint_keys import UpdatePolicy
from lmi_deploy.domain.recipe_keys import Pairs
from lmi_deploy.domain.sagemaker.foreign_endpoint import ForeignEndpointConfig, ForeignModel
from lmi_deploy.domain.sagemaker.foreign_fields import foreign_endpoint_config, foreign_model
from lmi_deploy.domain.sagemaker.resource_fields import (
    endpoint_config_models,
    endpoint_config_request,
    endpoint_config_settings,
    model_request,
    model_settings,
    moment,
    observed_endpoint,
    tag_list,
    tag_pairs,
    update_policy_request,
)
from lmi_deploy.domain.sagemaker.resource_settings import (
    VARIANT,
    EndpointConfigSettings,
    ListedEndpoint,
    ModelSettings,
    ObservedEndpoint,
    ObservedEndpointConfig,
    ObservedModel,
)
from lmi_deploy.domain.sagemaker.variant_fields import traffic_request
from lmi_deploy.errors import Conflict, NotFound
from lmi_deploy.ports.inference_endpoint import InferenceEndpoint

_RETAINED_PROPERTIES: Final = (
    {"VariantPropertyType": "DesiredWeight"},
    {"VariantPropertyType": "DataCaptureConfig"},
)
"""The settings that an update which retains the number of instances does not retain."""

_PAGE: Final = 100
"""The most that ListEndpoints returns at once (botocore's service model, MaxResults)."""


class SageMakerHosting:
    """The port Hosting, in one account and region."""

    def __init__(self, access: AwsConnection, *, account: str) -> None:
        self._api = Service(access, "sagemaker")
        self._runtime = SageMakerRuntime(access)
        self._account = account

    def endpoint(self, name: str) -> ObservedEndpoint | None:
        response = self._described("describe_endpoint", "endpoint", name, "EndpointStatus", EndpointName=name)
        return None if response is None else observed_endpoint(response)

    def endpoints(self) -> Iterator[ListedEndpoint]:
        listed = self._api.pages(
            "list_endpoints",
            "list of endpoints",
            token="NextToken",
            items="Endpoints",
            MaxResults=_PAGE,
            # By default the newest is first: one that is created between two pages would shift the second.
            SortBy="Name",
            SortOrder="Ascending",
        )
        for item in listed:
            yield ListedEndpoint(
                name=item["EndpointName"],
                status=item["EndpointStatus"],
                created=moment(item.get("CreationTime")),
                modified=moment(item.get("LastModifiedTime")),
            )

    def endpoint_config(self, name: str) -> ObservedEndpointConfig | None:
        response = self._endpoint_config_response(name)
        if response is None:
            return None
        return ObservedEndpointConfig(
            name=name,
            arn=str(response["EndpointConfigArn"]),
            settings=endpoint_config_settings(response),
            created=moment(response.get("CreationTime")),
            models=endpoint_config_models(response),
        )

    def foreign_endpoint_config(self, name: str) -> ForeignEndpointConfig | None:
        response = self._endpoint_config_response(name)
        return None if response is None else foreign_endpoint_config(response)

    def foreign_model(self, name: str) -> ForeignModel | None:
        response = self._model_response(name)
        return None if response is None else foreign_model(response)

    def _endpoint_config_response(self, name: str) -> dict[str, Any] | None:
        kind = "endpoint-config"
        return self._described(
            "describe_endpoint_config", kind, name, "EndpointConfigArn", EndpointConfigName=name
        )

    def _model_response(self, name: str) -> dict[str, Any] | None:
        return self._described("describe_model", "model", name, "ModelArn", ModelName=name)

    def model(self, name: str) -> ObservedModel | None:
        response = self._model_response(name)
        return (
            None
            if response is None
            else ObservedModel(name=name, arn=str(response["ModelArn"]), settings=model_settings(response))
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

    def update_endpoint(
        self, name: str, config: str, *, keep_count: bool, policy: UpdatePolicy | None = None
    ) -> None:
        requested: dict[str, Any] = {"EndpointName": name, "EndpointConfigName": config}
        if keep_count:
            requested.update(
                RetainAllVariantProperties=True, ExcludeRetainedVariantProperties=list(_RETAINED_PROPERTIES)
            )
        if policy is not None:
            requested["DeploymentConfig"] = update_policy_request(policy)
        try:
            self._change("update_endpoint", "endpoint", name, **requested)
        except Conflict:
            observed = self.endpoint(name)
            if (
                observed is None
                or observed.status != "Updating"
                or config != (observed.pending or observed.config)
            ):
                raise

    def set_instance_count(self, name: str, count: int, variant: str = VARIANT) -> None:
        desired = {"VariantName": variant, "DesiredInstanceCount": count}
        try:
            self._change(
                "update_endpoint_weights_and_capacities",
                "endpoint",
                name,
                EndpointName=name,
                DesiredWeightsAndCapacities=[desired],
            )
        except Conflict:
            observed = self.endpoint(name)
            if observed is None or observed.status != "Updating" or observed.desired_count != count:
                raise

    def set_traffic(self, name: str, percent: int) -> None:
        try:
            self._change(
                "update_endpoint_weights_and_capacities",
                "endpoint",
                name,
                EndpointName=name,
                DesiredWeightsAndCapacities=traffic_request(percent),
            )
        except Conflict:
            observed = self.endpoint(name)
            live = observed.candidate if observed and observed.status == "Updating" else None
            if live is None or live.percent != percent:
                raise

    def tag(self, arn: str, tags: Pairs) -> None:
        self._api("add_tags", f"tags of {arn}", resource=arn, ResourceArn=arn, Tags=tag_list(tags))

    def untag(self, arn: str, names: tuple[str, ...]) -> None:
        self._api("delete_tags", f"tags of {arn}", resource=arn, ResourceArn=arn, TagKeys=list(names))

    def delete_endpoint(self, name: str) -> None:
        try:
            self._delete("delete_endpoint", "endpoint", name, EndpointName=name)
        except Conflict:
            observed = self.endpoint(name)
            if observed is not None and observed.status != "Deleting":
                raise

    def delete_endpoint_config(self, name: str) -> None:
        self._delete("delete_endpoint_config", "endpoint-config", name, EndpointConfigName=name)

    def delete_model(self, name: str) -> None:
        self._delete("delete_model", "model", name, ModelName=name)

    def invoke(
        self, name: str, request: HttpRequest, *, timeout: float, component: str = ""
    ) -> Iterator[ResponseHead | bytes]:
        return self._runtime.invoke(name, request, timeout=timeout, component=component)

    def invoke_async(self, name: str, call: AsyncCall) -> AsyncLocations:
        return self._runtime.invoke_async(name, call)

    def address(self, name: str) -> str:
        return self._runtime.address(name)

    def inference_endpoint(self, name: str, component: str = "") -> InferenceEndpoint:
        return self._runtime.inference_endpoint(name, component)

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
