"""The port InferenceComponents: boto3's `sagemaker`. A lost reply is resolved as in `hosting.py`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from lmi_deploy.aws.client import AwsConnection, Service
from lmi_deploy.domain.recipe_keys import Pairs
from lmi_deploy.domain.sagemaker.component_settings import (
    AdapterSettings,
    ComponentPlace,
    ComponentSettings,
    ObservedComponent,
)
from lmi_deploy.domain.sagemaker.resource_fields import moment, tag_list
from lmi_deploy.domain.sagemaker.resource_settings import VARIANT, ListedEndpoint
from lmi_deploy.errors import Conflict, NotFound

_PAGE: Final = 100
"""The most that ListInferenceComponents returns at once (botocore's service model, MaxResults)."""


class SageMakerComponents:
    """The port InferenceComponents, in one account and region."""

    def __init__(self, access: AwsConnection, *, account: str) -> None:
        self._api = Service(access, "sagemaker")
        self._account = account

    def component(self, name: str) -> ObservedComponent | None:
        try:
            response = self._call("describe_inference_component", name, needs="InferenceComponentStatus")
        except NotFound:
            return None
        return _observed(response)

    def listed(self, endpoint: str = "") -> Iterator[ListedEndpoint]:
        pages = self._api.pages(
            "list_inference_components",
            f"inference components of {endpoint or 'the region'}",
            token="NextToken",
            items="InferenceComponents",
            MaxResults=_PAGE,
            **({"EndpointNameEquals": endpoint} if endpoint else {}),
        )
        for item in pages:
            yield ListedEndpoint(
                name=item["InferenceComponentName"],
                status=str(item.get("InferenceComponentStatus", "")),
                created=moment(item.get("CreationTime")),
                modified=moment(item.get("LastModifiedTime")),
            )

    def create_component(self, name: str, settings: ComponentSettings, tags: Pairs) -> None:
        self._call(
            "create_inference_component",
            name,
            EndpointName=settings.place.endpoint,
            VariantName=VARIANT,
            Specification=_specification(settings),
            RuntimeConfig={"CopyCount": settings.place.copies},
            Tags=tag_list(tags),
        )

    def update_component(self, name: str, settings: ComponentSettings) -> None:
        try:
            self._call(
                "update_inference_component",
                name,
                Specification=_specification(settings),
                RuntimeConfig={"CopyCount": settings.place.copies},
            )
        except Conflict:
            # Sent again after a lost reply: in progress, or complete already.
            observed = self.component(name)
            if observed is None or observed.status != "Updating" or observed.settings != settings:
                raise

    def create_adapter(self, endpoint: str, base: str, adapter: AdapterSettings, tags: Pairs) -> None:
        """Without a variant, resources and copies, which an adapter has of its base: InferenceComponentSpecification,
        API reference.
        """
        self._call(
            "create_inference_component",
            adapter.component,
            EndpointName=endpoint,
            Specification=_adapter_specification(base, adapter),
            Tags=tag_list(tags),
        )

    def update_adapter(self, base: str, adapter: AdapterSettings) -> None:
        try:
            self._call(
                "update_inference_component",
                adapter.component,
                Specification=_adapter_specification(base, adapter),
            )
        except Conflict:
            # Sent again after a lost reply: in progress already.
            observed = self.component(adapter.component)
            if observed is None or observed.status != "Updating" or observed.adapter != adapter:
                raise

    def set_copies(self, name: str, copies: int) -> None:
        try:
            self._call(
                "update_inference_component_runtime_config", name, DesiredRuntimeConfig={"CopyCount": copies}
            )
        except Conflict:
            observed = self.component(name)
            if observed is None or observed.status != "Updating" or observed.requested_copies != copies:
                raise

    def delete_component(self, name: str) -> None:
        try:
            self._call("delete_inference_component", name)
        except NotFound:
            return
        except Conflict:
            observed = self.component(name)
            if observed is not None and observed.status != "Deleting":
                raise

    def _call(self, call: str, name: str, *, needs: str = "", **given: Any) -> dict[str, Any]:
        place = f"{self._api.partition}:sagemaker:{self._api.region}:{self._account}"
        return self._api(
            call,
            f"inference component {name}",
            resource=f"arn:{place}:inference-component/{name.lower()}",
            needs=needs,
            InferenceComponentName=name,
            **given,
        )


def _adapter_specification(base: str, adapter: AdapterSettings) -> dict[str, Any]:
    return {"BaseInferenceComponentName": base, "Container": {"ArtifactUrl": adapter.artifact}}


def _specification(settings: ComponentSettings) -> dict[str, Any]:
    place = settings.place
    needed = {
        "NumberOfAcceleratorDevicesRequired": place.accelerators,
        "NumberOfCpuCoresRequired": place.cpus,
        "MinMemoryRequiredInMb": place.memory_mb,
    }
    return {
        "ModelName": settings.model,
        "ComputeResourceRequirements": {key: value for key, value in needed.items() if value},
        "StartupParameters": {
            "ModelDataDownloadTimeoutInSeconds": settings.model_download,
            "ContainerStartupHealthCheckTimeoutInSeconds": settings.startup,
        },
    }


def _observed(response: Mapping[str, Any]) -> ObservedComponent:
    """From DescribeInferenceComponent's response. A form that lmi never sends is read as one that never equals ours."""
    # Of several specifications, one an instance type, none is lmi's.
    specification = response.get("Specification") or {}
    needed = specification.get("ComputeResourceRequirements") or {}
    startup = specification.get("StartupParameters") or {}
    runtime = response.get("RuntimeConfig") or {}
    container = specification.get("Container") or {}
    copies = int(runtime.get("CurrentCopyCount") or 0)
    place = ComponentPlace(
        endpoint=str(response.get("EndpointName", "")),
        copies=int(runtime.get("DesiredCopyCount") or 0),
        accelerators=int(needed.get("NumberOfAcceleratorDevicesRequired") or 0),
        memory_mb=int(needed.get("MinMemoryRequiredInMb") or 0),
        cpus=int(needed.get("NumberOfCpuCoresRequired") or 0),
    )
    return ObservedComponent(
        name=str(response["InferenceComponentName"]),
        arn=str(response["InferenceComponentArn"]),
        status=str(response["InferenceComponentStatus"]),
        settings=ComponentSettings(
            model=str(specification.get("ModelName", "")),
            place=place,
            model_download=int(startup.get("ModelDataDownloadTimeoutInSeconds") or 0),
            startup=int(startup.get("ContainerStartupHealthCheckTimeoutInSeconds") or 0),
        ),
        reason=str(response.get("FailureReason") or ""),
        copies=copies,
        created=moment(response.get("CreationTime")),
        modified=moment(response.get("LastModifiedTime")),
        base=str(specification.get("BaseInferenceComponentName") or ""),
        artifact=str(container.get("ArtifactUrl") or ""),
    )
