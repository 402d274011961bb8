"""The states of an optimization job. It takes time, and produces no output."""

from __future__ import annotations

from typing import Final

from lmi_deploy.emulator.context import EmulatorContext
from lmi_deploy.emulator.faults.rules import Call
from lmi_deploy.emulator.hosting.failures import HostingFailed, apply_faults
from lmi_deploy.emulator.hosting.resource_tasks import Key, ResourceTasks
from lmi_deploy.emulator.sagemaker.resources import OPTIMIZATION_JOB

PROVISION: Final = 120.0
WORK: Final = 600.0
STOPPING: Final = 30.0


class Optimizations(ResourceTasks):
    def __init__(self, context: EmulatorContext) -> None:
        super().__init__(context, OPTIMIZATION_JOB)

    async def _run(self, key: Key) -> None:
        try:
            match self._row(key)["status"]:
                case "STARTING":
                    await self._pass(key, "provision", PROVISION)
                    self._change(key, status="INPROGRESS", started=self._context.clock.now())
                    await self._work(key)
                case "INPROGRESS":
                    await self._work(key)
                case "STOPPING":
                    await self._context.clock.sleep(STOPPING)
                    self._end(key, "STOPPED")
                case _:
                    pass
        except HostingFailed as exc:
            self._end(key, "FAILED", exc.reason)

    async def _work(self, key: Key) -> None:
        limit = self._row(key)["params"]["StoppingCondition"].get("MaxRuntimeInSeconds", WORK)
        await self._pass(key, "run", min(WORK, limit))
        self._end(key, "COMPLETED" if limit >= WORK else "STOPPED")

    async def _pass(self, key: Key, phase: str, seconds: float) -> None:
        kind = self._row(key)["params"]["DeploymentInstanceType"]
        await apply_faults(self._context, Call("OPTIMIZATION", f"/{phase}/{key[1]}/{kind}"))
        await self._context.clock.sleep(seconds)

    def _end(self, key: Key, status: str, reason: str | None = None) -> None:
        self._change(key, status=status, failure=reason, ended=self._context.clock.now())
