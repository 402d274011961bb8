"""How clients reach a deployment, by its endpoint or its component of a shared one; and its logs."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from lmi_deploy.domain.inference_http import HttpRequest, ResponseHead
from lmi_deploy.domain.record import DeploymentRef, Record
from lmi_deploy.errors import NotFound
from lmi_deploy.ports.cloud import Cloud
from lmi_deploy.ports.inference_endpoint import InferenceEndpoint
from lmi_deploy.targets.sagemaker.observed_components import shared_name
from lmi_deploy.targets.target import AccessToken


def endpoint_of(ref: DeploymentRef) -> str:
    return ref.shared or ref.name


def component_of(ref: DeploymentRef) -> str:
    """Empty for an endpoint of its own."""
    return ref.name if ref.shared else ""


def invoke(
    cloud: Cloud, ref: DeploymentRef, request: HttpRequest, *, timeout: float
) -> Iterator[ResponseHead | bytes]:
    return cloud.hosting.invoke(endpoint_of(ref), request, timeout=timeout, component=component_of(ref))


def inference_endpoint(cloud: Cloud, ref: DeploymentRef) -> InferenceEndpoint:
    return cloud.hosting.inference_endpoint(endpoint_of(ref), component_of(ref))


def access_token(cloud: Cloud, ref: DeploymentRef, seconds: int) -> AccessToken:
    """Its path: SageMaker developer guide, "Invoke endpoints with OpenAI-compatible APIs"."""
    token = cloud.account.bearer_token(seconds)
    component = f"/inference-components/{ref.name}" if ref.shared else ""
    address = cloud.hosting.address(endpoint_of(ref)).removesuffix("/invocations")
    return AccessToken(token=token, base_url=f"{address}{component}/openai/v1")


def log_lines(
    cloud: Cloud, ref: DeploymentRef, *, follow: bool, read_record: Callable[[], Record | None]
) -> Iterator[str]:
    """Groups outlive what wrote them: if both exist, and `ref` does not tell, the record does."""
    logs = cloud.logs
    plain, component = logs.group(ref.name), logs.group(ref.name, component=True)
    group = plain or component
    if plain and component and (ref.shared or shared_name(read_record())):
        group = component
    if not group:
        raise NotFound(
            f"{ref.name}: no logs in CloudWatch",
            hint="containers print nothing before the instance is provisioned and the image is pulled; check "
            "`lmi status`",
        )
    if not follow:
        return logs.lines(group)
    return filter(None, logs.follow(group))
