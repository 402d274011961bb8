"""The logs of a deployment, and tokens that let OpenAI's clients reach it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from lmi_deploy.domain.record import DeploymentRef, Record
from lmi_deploy.errors import NotFound
from lmi_deploy.ports.cloud import Cloud
from lmi_deploy.targets.sagemaker.observed_components import shared_endpoint, shared_name
from lmi_deploy.targets.target import AccessToken


def access_token(cloud: Cloud, ref: DeploymentRef, seconds: int) -> AccessToken:
    """Its path: SageMaker developer guide, "Invoke endpoints with OpenAI-compatible APIs"."""
    token = cloud.account.bearer_token(seconds)
    component = f"/inference-components/{ref.component}" if ref.component else ""
    address = cloud.hosting.address(ref.endpoint).removesuffix("/invocations")
    return AccessToken(token=token, base_url=f"{address}{component}/openai/v1")


def log_lines(
    cloud: Cloud, ref: DeploymentRef, *, follow: bool, read_record: Callable[[], Record | None]
) -> Iterator[str]:
    """Groups outlive what wrote them: if both exist, and `ref` does not tell, the record does."""
    logs = cloud.logs
    group = component = logs.group(ref.name, component=True)
    if not ref.shared:
        plain = logs.group(ref.name)
        group = component if component and plain and shared_name(read_record()) else plain or component
    if not group and read_record() is None:
        shared = shared_endpoint(ref.name, cloud)
        if shared.endpoint is not None and not shared.not_owned_reason:
            names = ", ".join(model.name for model in shared.models) or "none"
            raise NotFound(
                f"{ref.name}: a shared endpoint has no log of its own, but its models have: {names}",
                hint="name one of them",
            )
        raise NotFound(
            f"{ref.name}: no such deployment in {ref.place}, and no logs of one",
            hint="`lmi ls` lists the deployments; for another region add --region",
        )
    if not group:
        raise NotFound(
            f"{ref.name}: no logs in CloudWatch",
            hint="containers print nothing before the instance is provisioned and the image is pulled; check "
            "`lmi status`",
        )
    if not follow:
        return logs.lines(group)
    return filter(None, logs.follow(group))
