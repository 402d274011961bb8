"""The port Quotas: Service Quotas."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from lmi_deploy.aws.client import AwsConnection, Service
from lmi_deploy.ports.quotas import ServiceQuota


class AwsQuotas:
    """The list is read up to the requested instance, and no page twice."""

    def __init__(self, access: AwsConnection) -> None:
        self._api = Service(access, "service-quotas")
        self._known: dict[str, ServiceQuota] = {}
        # The first list contains only quotas that were changed for the account; the others have their default.
        self._more = chain(
            self._list("list_service_quotas"),
            self._list("list_aws_default_service_quotas"),
        )

    def endpoint_instances(self, instance: str) -> ServiceQuota | None:
        return self._quota(f"{instance} for endpoint usage")

    def processing_instances(self, instance: str) -> ServiceQuota | None:
        return self._quota(f"{instance} for processing job usage")

    def _quota(self, name: str) -> ServiceQuota | None:
        while name not in self._known:
            quota = next(self._more, None)
            if quota is None:
                return None
            self._known.setdefault(quota.name, quota)
        return self._known[name]

    def _list(self, call: str) -> Iterator[ServiceQuota]:
        for quota in self._api.pages(
            call,
            "quotas of SageMaker",
            token="NextToken",
            items="Quotas",
            ServiceCode="sagemaker",
            MaxResults=100,
        ):
            yield ServiceQuota(name=quota["QuotaName"], code=quota["QuotaCode"], value=float(quota["Value"]))
