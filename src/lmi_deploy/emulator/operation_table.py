"""Every operation that is served here, by service, and how a request for one is carried out."""

from __future__ import annotations

from collections.abc import Mapping
from email.utils import formatdate
from typing import Final

from aiohttp import web

from lmi_deploy.emulator.context import ApiRequest, EmulatorContext, Operation
from lmi_deploy.emulator.iam.authorizer import Authorizer, arn_of_key
from lmi_deploy.emulator.iam.operation_permissions import link_scaling, required_rights
from lmi_deploy.emulator.logs import operations as logs
from lmi_deploy.emulator.sagemaker import (
    components,
    endpoint_configs,
    endpoints,
    models,
    optimization_jobs,
    processing_jobs,
    tags,
)
from lmi_deploy.emulator.scaling import scalable_targets
from lmi_deploy.emulator.services import (
    alarms,
    dashboards,
    event_history,
    metrics,
    pricing,
    resource_groups_tagging,
    schedules,
    service_quotas,
)
from lmi_deploy.emulator.wire.errors import ApiError
from lmi_deploy.emulator.wire.operation_dispatch import (
    ApiOperation,
    operation_model,
    read_params,
    refusal,
    response,
)
from lmi_deploy.emulator.wire.parameter_validation import check
from lmi_deploy.emulator.wire.signature import Signature

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
    "logs": logs.OPERATIONS,
    "cloudwatch": {**alarms.OPERATIONS, **dashboards.OPERATIONS, **metrics.OPERATIONS},
    "application-autoscaling": scalable_targets.OPERATIONS,
    "service-quotas": service_quotas.OPERATIONS,
    "pricing": pricing.OPERATIONS,
    "resourcegroupstaggingapi": resource_groups_tagging.OPERATIONS,
    "scheduler": schedules.OPERATIONS,
    "cloudtrail": event_history.OPERATIONS,
}


async def respond(
    context: EmulatorContext,
    guard: Authorizer | None,
    request: web.Request,
    call: ApiOperation,
    signature: Signature,
) -> web.Response:
    """One call of a service that is served here, errors included; `signature` is verified."""
    try:
        model = operation_model(call, signature)
        params = read_params(call, model, await request.read())
        check(model.input_shape, params)
        api_request = ApiRequest(call.operation, params, signature.region, signature.key)
        if guard is not None:
            guard.require(signature.key, required_rights(context, call.service, api_request))
            if call.service == "application-autoscaling":
                link_scaling(context, api_request)
        operation = OPERATIONS[call.service].get(call.operation)
        if operation is None:
            raise ApiError(
                "NotImplemented",
                f"The emulator does not serve {call.service} {call.operation}; "
                "`lmi docs emulator` lists what it serves.",
                status=501,
            )
        result = response(call, model, operation(context, api_request) or {})
        if call.service == "sagemaker":
            caller = arn_of_key(context.account, signature.key)
            agent = request.headers.get("User-Agent", "")
            event_history.record(context, api_request, caller=caller, agent=agent)
        # AWS's time, which clients read here; it runs ahead of this machine's.
        result.headers["Date"] = formatdate(context.clock.now(), usegmt=True)
        return result
    except ApiError as error:
        return refusal(error, call)
