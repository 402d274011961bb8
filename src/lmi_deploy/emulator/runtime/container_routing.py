"""Which container gets an invocation: of a variant, or of an inference component."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from lmi_deploy.emulator.context import EmulatorContext
from lmi_deploy.emulator.hosting.adapter_states import ALIAS, IDENTIFIER, base_of, identifier_of
from lmi_deploy.emulator.hosting.instances import HostingInstance
from lmi_deploy.emulator.hosting.traffic_shifting import Fleets
from lmi_deploy.emulator.runtime.invocation_request import Invocation, container_headers
from lmi_deploy.emulator.sagemaker.resources import ENDPOINT, INFERENCE_COMPONENT
from lmi_deploy.emulator.services.metrics import Point
from lmi_deploy.emulator.wire.errors import ApiError

TIMEOUT: Final = 60.0
"""Real seconds for containers that are restarted after a restart of the emulator."""
SERVING: Final = ("InService", "Updating", "SystemUpdating", "RollingBack", "UpdateRollbackFailed")
COMPONENT_REQUIRED: Final = (
    "Inference Component Name header is required for endpoints to which you plan to deploy inference components. "
    "Please include Inference Component Name header or consider using SageMaker models."
)
COMPONENT_NOT_ALLOWED: Final = (
    "Inference Component Name header is not allowed for endpoints to which you dont plan to deploy inference "
    "components. Please remove the Inference Component Name header and try again."
)
NO_COPY: Final = (
    "Inference Component has no capacity to process this request. ApplicationAutoScaling may be in-progress (if "
    "configured) or try to increase the capacity by invoking UpdateInferenceComponentRuntimeConfig API."
)


@dataclass(frozen=True, slots=True)
class Routes:
    context: EmulatorContext
    fleets: Fleets

    async def wait_for_restart(self, region: str, params: Mapping[str, Any]) -> None:
        """After a restart of the emulator the containers of endpoints in service may still be starting."""
        end = time.monotonic() + TIMEOUT
        while self._is_starting(region, params) and time.monotonic() < end:
            await asyncio.sleep(0.05)

    def _is_starting(self, region: str, params: Mapping[str, Any]) -> bool:
        endpoint, component = params["EndpointName"], params.get("InferenceComponentName")
        row = self.context.table(ENDPOINT.table, region).get(endpoint)
        is_up = row is not None and row["serving"] is not None and row["status"] in SERVING
        if row is None or not is_up or row["failure"] is not None:
            return False
        if (region, endpoint) not in self.fleets.routes:
            return True
        existing = self.context.table(INFERENCE_COMPONENT.table, region).get(component) if component else None
        if existing is None or existing["status"] != "InService" or not existing["copies"]:
            return False
        base = base_of(existing["spec"])
        has_container = bool(base) or existing["spec"]["model"] is not None
        return has_container and (region, base or component) not in self.context.components.running

    def choose(self, region: str, params: Mapping[str, Any]) -> tuple[str, HostingInstance]:
        endpoint, component = params["EndpointName"], params.get("InferenceComponentName")
        row = self.context.table(ENDPOINT.table, region).get(endpoint)
        route = self.fleets.routes.get((region, endpoint))
        if row is None or row["status"] not in SERVING or route is None:
            account = self.context.account
            raise ApiError("ValidationError", f"Endpoint {endpoint} of account {account} not found.")
        takes = any(variant["model"] is None for variant in route.blue.deployment["variants"])
        if takes != (component is not None):
            raise ApiError("ValidationError", COMPONENT_REQUIRED if takes else COMPONENT_NOT_ALLOWED)
        if component is not None:
            return self._component(region, endpoint, component)
        chosen = route.choose(params.get("TargetVariant"))
        if chosen is None:
            variant = params.get("TargetVariant", "(any)")
            raise ApiError("ValidationError", f"Variant {variant} not found for Endpoint {endpoint}.")
        return chosen

    def headers(self, region: str, params: Mapping[str, Any]) -> dict[str, str]:
        """Those that the container gets: with the adapter, if the request names its component."""
        name = params.get("InferenceComponentName", "")
        row = self.context.table(INFERENCE_COMPONENT.table, region).get(name) if name else None
        is_adapter = row is not None and base_of(row["spec"])
        adapter = {IDENTIFIER: identifier_of(row, name), ALIAS: name} if row and is_adapter else {}
        return {**container_headers(params), **adapter}

    def _component(self, region: str, endpoint: str, name: str) -> tuple[str, HostingInstance]:
        row = self.context.table(INFERENCE_COMPONENT.table, region).get(name)
        if row is None or row["endpoint"] != endpoint:
            raise ApiError(
                "ValidationError", f"Inference Component {name} not found for Endpoint {endpoint}."
            )
        served = base_of(row["spec"]) or name
        instance = self.context.components.running.get((region, served))
        if instance is None or row["status"] not in ("InService", "Updating"):
            self._measure_refusal(region, name)
            raise ApiError("ValidationError", NO_COPY)
        return row["variant"], instance

    def _measure_refusal(self, region: str, component: str) -> None:
        """SageMaker developer guide, "Scale an endpoint to zero instances": the metric that an alarm calls a step
        scaling policy by.
        """
        name = (
            region,
            "AWS/SageMaker",
            "NoCapacityInvocationFailures",
            (("InferenceComponentName", component),),
        )
        self.context.metrics.put(name, Point(self.context.clock.now(), 1.0, "None"))


@dataclass(slots=True)
class ShadowTraffic:
    """Copies of requests to a shadow variant, whose answers are captured but returned to no caller (SageMaker developer
    guide, "Validation of models in production"). The share is the shadow variant's weight as a part of the production
    variant's: our reading of "Testing models with shadow variants", whose example has 1 and 1. `answer` lets an
    instance answer a request, measures it, and captures it if the endpoint captures.
    """

    routes: Routes
    answer: Callable[[HostingInstance, Invocation], Awaitable[object]]
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def copy(self, region: str, requested: Invocation) -> None:
        """Beside the request itself, which does not wait for it."""
        route = self.routes.fleets.routes.get((region, requested.endpoint))
        for instance, share in route.blue.shadows() if route else ():
            if random.random() < share:
                task = asyncio.create_task(self._send(instance, requested))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _send(self, instance: HostingInstance, requested: Invocation) -> None:
        with suppress(ApiError):  # its metrics show it, and no caller gets it
            await self.answer(instance, requested)

    async def close(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
