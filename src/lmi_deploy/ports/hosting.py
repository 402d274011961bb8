"""SageMaker's hosting, in our own terms.

Every create sends its tags; "already exists" raises Conflict, and the caller checks: the resource may be our own,
whose reply was lost. Conflict, too, if an endpoint is in progress and cannot be updated or deleted. NotFound if a
named resource does not exist, with its ARN, and RoleNotAssumable for a model's role: AWS is eventually consistent,
and both may have been created a moment ago. A lost reply to an update or a deletion is resolved inside. Deleting a
missing resource is no error. Throttling is waited out inside, within limits. Failures: AccessError (credentials;
permissions, with action, resource and principal named; network), CloudError (the service's own message),
QuotaExceeded, NoCapacity, Conflict.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from lmi_deploy.domain.async_requests import AsyncCall, AsyncLocations
from lmi_deploy.domain.inference_http import HttpRequest, ResponseHead
from lmi_deploy.domain.recipe_endpoint_keys import UpdatePolicy
from lmi_deploy.domain.recipe_keys import Pairs
from lmi_deploy.domain.sagemaker.foreign_endpoint import ForeignEndpointConfig, ForeignModel
from lmi_deploy.domain.sagemaker.resource_settings import (
    VARIANT,
    EndpointConfigSettings,
    ListedEndpoint,
    ModelSettings,
    ObservedEndpoint,
    ObservedEndpointConfig,
    ObservedModel,
)
from lmi_deploy.ports.inference_endpoint import InferenceEndpoint


class Hosting(Protocol):
    def endpoint(self, name: str) -> ObservedEndpoint | None: ...

    def endpoints(self) -> Iterator[ListedEndpoint]:
        """Every endpoint of the region, ours or not, by name: one request for 100 of them."""

    def endpoint_config(self, name: str) -> ObservedEndpointConfig | None: ...

    def model(self, name: str) -> ObservedModel | None: ...

    def foreign_endpoint_config(self, name: str) -> ForeignEndpointConfig | None:
        """The same of a config that another tool made, with the names of what lmi does not read of it."""

    def foreign_model(self, name: str) -> ForeignModel | None: ...

    def tags(self, arn: str) -> Pairs:
        """Read from SageMaker itself, which is up to date; the tagging API may lag."""

    def create_model(self, name: str, settings: ModelSettings, tags: Pairs) -> None: ...

    def create_endpoint_config(self, name: str, settings: EndpointConfigSettings, tags: Pairs) -> None: ...

    def create_endpoint(self, name: str, config: str, tags: Pairs) -> None: ...

    def update_endpoint(
        self, name: str, config: str, *, keep_count: bool, policy: UpdatePolicy | None = None
    ) -> None: ...

    def set_instance_count(self, name: str, count: int, variant: str = VARIANT) -> None:
        """Of this variant; its other settings stay."""

    def set_traffic(self, name: str, percent: int) -> None:
        """The percentage of the requests that the candidate answers: the weights of both production variants."""

    def tag(self, arn: str, tags: Pairs) -> None: ...

    def untag(self, arn: str, names: tuple[str, ...]) -> None:
        """Removing a missing tag is no error."""

    def delete_endpoint(self, name: str) -> None: ...

    def delete_endpoint_config(self, name: str) -> None: ...

    def delete_model(self, name: str) -> None: ...

    def invoke(
        self, name: str, request: HttpRequest, *, timeout: float, component: str = ""
    ) -> Iterator[ResponseHead | bytes]:
        """The head, then the body as it arrives: streamed if the request asks for it.

        `component`: an inference component of the endpoint.

        A model's own error is a head with its status and body; UsageRefused for more than 6 MB, before it is sent.
        """

    def invoke_async(self, name: str, call: AsyncCall) -> AsyncLocations:
        """Enqueue a request whose body is in S3. UsageRefused if the endpoint is not asynchronous."""

    def address(self, name: str) -> str:
        """The invocation URL, for people."""

    def inference_endpoint(self, name: str, component: str = "") -> InferenceEndpoint:
        """The addresses and the signature for an HTTP client of our own."""
