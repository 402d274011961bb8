"""Every operation that is served here, by service."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from lmi_deploy.emulator.context import ApiRequest, EmulatorContext, Operation
from lmi_deploy.emulator.iam.authorizer import Authorizer
from lmi_deploy.emulator.iam.call_permissions import required_rights
from lmi_deploy.emulator.iam.implied_permissions import link_scaling
from lmi_deploy.emulator.logs import operations as logs
from lmi_deploy.emulator.logs.groups import LogGroups
from lmi_deploy.emulator.sagemaker import (
    components,
    endpoint_configs,
    endpoints,
    models,
    optimization_jobs,
    processing_jobs,
    tags,
)
from lmi_deploy.emulator.scaling import policies, targets
from lmi_deploy.emulator.services import cloudwatch, metrics, pricing, quotas, tagging
from lmi_deploy.emulator.wire.errors import ApiError

OPERATIONS: Final[Mapping[str, Mapping[str, Operation]]] = {
    "sagemaker": {
        **models.OPERATIONS,
        **endpoint_configs.OPERATIONS,
        **endpoints.OPERATIONS,
        **components.OPERATIONS,
        **processing_jobs.OPERATIONS,
        **optimization_jobs.OPERATIONS,
        **tags.OPERATIONS,
    },
    "cloudwatch": cloudwatch.OPERATIONS,
    "application-autoscaling": {**targets.OPERATIONS, **policies.OPERATIONS},
    "service-quotas": quotas.OPERATIONS,
    "pricing": pricing.OPERATIONS,
    "resourcegroupstaggingapi": tagging.OPERATIONS,
}


class Services:
    """Carries out requests that the dispatcher has validated."""

    def __init__(
        self,
        context: EmulatorContext,
        log_groups: Callable[[str], LogGroups],
        measured: metrics.Metrics,
        guard: Authorizer | None = None,
    ) -> None:
        self._context = context
        self._metrics = measured
        self._guard = guard
        self._log_groups = log_groups

    def handle(self, service: str, request: ApiRequest) -> Mapping[str, Any] | None:
        if self._guard is not None:
            self._guard.require(request.key, required_rights(self._context, service, request))
            if service == "application-autoscaling":
                link_scaling(self._context, request)
        if service == "logs" and request.operation in logs.OPERATIONS:
            arn = f"arn:aws:logs:{request.region}:{self._context.account}"
            return logs.OPERATIONS[request.operation](self._log_groups(request.region), request, arn)
        if service == "cloudwatch" and request.operation in metrics.OPERATIONS:
            now = self._context.clock.now()
            return metrics.OPERATIONS[request.operation](self._metrics, request, now)
        operation = OPERATIONS.get(service, {}).get(request.operation)
        if operation is None:
            raise ApiError(
                "NotImplemented",
                f"The emulator does not serve {service} {request.operation}; "
                "docs/reference/emulator.md lists what it serves.",
                status=501,
            )
        return operation(self._context, request)
