"""The states of a processing job, one after the other, from InProgress to its end."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from lmi_deploy.emulator.context import EmulatorContext
from lmi_deploy.emulator.hosting.failure_reasons import HostingFailed, apply_faults
from lmi_deploy.emulator.hosting.resource_tasks import Key, ResourceTasks
from lmi_deploy.emulator.jobs.job_container_files import Job, exit_message
from lmi_deploy.emulator.jobs.job_hosts import Host, Hosts
from lmi_deploy.emulator.sagemaker.resources import PROCESSING_JOB

PROVISION: Final = 120.0
"""Seconds until the machines exist; of the emulated clock."""
LIMIT: Final = 86_400
LOST: Final = "InternalServerError: We encountered an internal error. Please try again."


@dataclass(frozen=True, slots=True)
class JobResult:
    status: str
    failure: str | None = None


class JobController(ResourceTasks):
    def __init__(self, context: EmulatorContext, hosts: Hosts) -> None:
        super().__init__(context, PROCESSING_JOB)
        self._hosts = hosts

    def stop(self, region: str, name: str) -> None:
        """Stop a job whose record has status Stopping."""
        self._cancel((region, name))

    def resume(self) -> None:
        """After a restart: the machines of a job no longer exist, so the job is over."""
        self._hosts.sweep()
        for key in self._keys():
            match self._row(key)["status"]:
                case "InProgress":
                    self._settle(key, JobResult("Failed", LOST))
                case "Stopping":
                    self._settle(key, JobResult("Stopped"))
                case _:
                    pass

    async def _run(self, key: Key) -> None:
        row = self._row(key)
        count = row["params"]["ProcessingResources"]["ClusterConfig"]["InstanceCount"]
        names = tuple(f"algo-{number}" for number in range(1, count + 1))
        hosts = self._hosts.of(Job(*key, row["arn"], row["params"], names))
        try:
            ended = await self._run_to_end(key, hosts)
            self._settle(key, ended, message=exit_message(host.root for host in hosts))
        except HostingFailed as exc:
            self._settle(key, JobResult("Failed", exc.reason))
        finally:
            await asyncio.gather(*(self._hosts.remove(host) for host in hosts))

    async def _run_to_end(self, key: Key, hosts: Sequence[Host]) -> JobResult:
        try:
            ended = await self._work(key, hosts)
        except HostingFailed as exc:
            ended = JobResult("Failed", exc.reason)
        except asyncio.CancelledError:
            if self._row(key)["status"] != "Stopping":
                raise  # the emulator stops, not the job
            ended = JobResult("Stopped")
        await asyncio.gather(*(self._hosts.end(host) for host in hosts))
        await asyncio.gather(*(self._hosts.collect(host) for host in hosts))
        return ended

    async def _work(self, key: Key, hosts: Sequence[Host]) -> JobResult:
        params = self._row(key)["params"]
        await asyncio.gather(*(apply_faults(self._context, host.call("provision")) for host in hosts))
        await self._context.clock.until(self._row(key)["created"] + PROVISION)
        if "ContainerEntrypoint" not in params["AppSpecification"]:
            image = params["AppSpecification"]["ImageUri"]
            raise HostingFailed(
                f"The emulator does not pull images, so it does not know the entry point of {image}: name "
                "ContainerEntrypoint in the job."
            )
        self._change(key, started=self._context.clock.now())
        with self._context.clock.at_work():
            await asyncio.gather(*(self._hosts.write(host) for host in hosts))
        limit = params.get("StoppingCondition", {}).get("MaxRuntimeInSeconds", LIMIT)
        try:
            code = await self._context.clock.within(limit, self._codes(hosts))
        except TimeoutError:
            return JobResult("Stopped")
        if code != 0:
            # Most containers write no message.
            raise HostingFailed(
                f"AlgorithmError: {exit_message(host.root for host in hosts)}, exit code: {code}"
            )
        return JobResult("Completed")

    async def _codes(self, hosts: Sequence[Host]) -> int:
        """0 if all succeeded; else the code of the first that failed, with the others left running."""
        runs = [asyncio.ensure_future(self._hosts.run(host)) for host in hosts]
        try:
            for run in asyncio.as_completed(runs):
                if (code := await run) != 0:
                    return code
            return 0
        finally:
            for one in runs:
                one.cancel()
            await asyncio.gather(*runs, return_exceptions=True)

    def _settle(self, key: Key, ended: JobResult, *, message: str = "") -> None:
        now = self._context.clock.now()
        self._change(key, status=ended.status, failure=ended.failure, message=message or None, ended=now)
