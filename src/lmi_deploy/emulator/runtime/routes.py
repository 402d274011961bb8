"""Which container gets an invocation: of a variant, or of an inference component."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from lmi_deploy.emulator.context import EmulatorContext
from lmi_deploy.emulator.hosting.component_states import Components
from lmi_deploy.emulator.hosting.fleets import Fleets
from lmi_deploy.emulator.hosting.instances import HostingInstance
from lmi_deploy.emulator.record_store import Row
from lmi_deploy.emulator.runtime import errors
from lmi_deploy.emulator.sagemaker.naming import ENDPOINT, INFERENCE_COMPONENT

TIMEOUT: Final = 60.0
"""Real seconds for containers that are restarted after a restart of the emulator."""
SERVING: Final = ("InService", "Updating", "SystemUpdating", "RollingBack", "UpdateRollbackFailed")


@dataclass(frozen=True, slots=True)
class Routes:
    context: EmulatorContext
    fleets: Fleets
    components: Components

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
        return existing is not None and _runs(existing) and (region, component) not in self.components.running

    def choose(self, region: str, params: Mapping[str, Any]) -> tuple[str, HostingInstance]:
        endpoint, component = params["EndpointName"], params.get("InferenceComponentName")
        row = self.context.table(ENDPOINT.table, region).get(endpoint)
        route = self.fleets.routes.get((region, endpoint))
        if row is None or row["status"] not in SERVING or route is None:
            raise errors.not_found(endpoint, self.context.account)
        takes = any(variant["model"] is None for variant in route.blue.deployment["variants"])
        if takes != (component is not None):
            raise errors.component_required() if takes else errors.component_not_allowed()
        if component is not None:
            return self._component(region, endpoint, component)
        chosen = route.choose(params.get("TargetVariant"))
        if chosen is None:
            raise errors.no_variant(params.get("TargetVariant", "(any)"), endpoint)
        return chosen

    def _component(self, region: str, endpoint: str, name: str) -> tuple[str, HostingInstance]:
        row = self.context.table(INFERENCE_COMPONENT.table, region).get(name)
        if row is None or row["endpoint"] != endpoint:
            raise errors.no_component(name, endpoint)
        served = row["spec"]["told"].get("BaseInferenceComponentName", name)
        instance = self.components.running.get((region, served))
        if instance is None or row["status"] not in ("InService", "Updating"):
            raise errors.no_copy()
        return row["variant"], instance


def _runs(row: Row) -> bool:
    """Whether there is a container for it, now or soon."""
    return bool(row["status"] == "InService" and row["copies"] and row["spec"]["model"] is not None)
