"""One machine of a job: its folder, its process, its output on the way to CloudWatch Logs, its end."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import os
import secrets
import shutil
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from lmi_deploy.emulator.context import EmulatorContext
from lmi_deploy.emulator.faults.rules import Call
from lmi_deploy.emulator.hosting.failure_reasons import apply_faults
from lmi_deploy.emulator.hosting.instances import ContainerRuntime
from lmi_deploy.emulator.jobs.job_container_files import Job, JobContainerFiles
from lmi_deploy.emulator.logs.groups import LogShipper
from lmi_deploy.ports.processes import Process

LOG_GROUP: Final = "/aws/sagemaker/ProcessingJobs"
GRACE: Final = 30.0
"""Real seconds between SIGTERM and SIGKILL."""
NOT_FOUND: Final = 127
NOT_RUNNABLE: Final = 126
_SIGNALLED: Final = 128


@dataclass(slots=True)
class Host:
    job: Job
    name: str
    root: Path
    process: asyncio.subprocess.Process | None = field(default=None, repr=False)
    shipping: LogShipper | None = field(default=None, repr=False)
    pump: asyncio.Task[None] | None = field(default=None, repr=False)

    def call(self, phase: str) -> Call:
        """The request that a fault rule matches."""
        kind = self.job.params["ProcessingResources"]["ClusterConfig"]["InstanceType"]
        return Call(self.job.kind, f"/{phase}/{self.job.name}/{self.name}/{kind}")


@dataclass(slots=True)
class Hosts:
    """Starts and stops hosts. Without an image nothing runs, and every process counts as successful."""

    context: EmulatorContext
    runtime: ContainerRuntime
    root: Path
    log_group: str = LOG_GROUP

    def of(self, job: Job) -> list[Host]:
        # A name is free again while the files of the job that had it are still being removed.
        folder = self.root / job.region / f"{job.name}-{secrets.token_hex(4)}"
        return [Host(job, name, folder / name) for name in job.hosts]

    async def write(self, host: Host) -> None:
        await apply_faults(self.context, host.call("download"))
        await asyncio.to_thread(JobContainerFiles(self.context, host.root, host.job).write, host.name)
        if self.runtime.image is not None:
            await asyncio.to_thread(self.runtime.image.unpack, host.root)

    async def run(self, host: Host) -> int:
        """The container's exit code, as Docker reports it."""
        await apply_faults(self.context, host.call("start"))
        if self.runtime.image is None:
            return 0
        command = self.runtime.image.command(host.root, host.job)
        environment = self.runtime.image.environment(self.context, host.root, host.job)
        stream = f"{host.job.name}/{host.name}-{self.context.clock.now():.0f}"
        logs = self.context.logs(host.job.region)
        host.shipping = LogShipper(host.root / "log", logs, self.log_group, stream)
        host.pump = asyncio.create_task(host.shipping.run())
        try:
            return await self._run(host, command, environment)
        except OSError as exc:
            host.shipping.write_line(f"{command[0]}: {exc.strerror}")
            return NOT_FOUND if isinstance(exc, FileNotFoundError) else NOT_RUNNABLE

    async def _run(self, host: Host, command: list[str], environment: Mapping[str, str]) -> int:
        with (host.root / "log").open("ab") as output:
            host.process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment,
                cwd=host.root / "work",
                start_new_session=True,
            )
        # For an emulator that is started after a kill of this one.
        if (found := self.runtime.processes.identify(host.process.pid)) is not None:
            (host.root / "process.json").write_text(json.dumps(dataclasses.asdict(found)), encoding="utf-8")
        code = await host.process.wait()
        return code if code >= 0 else _SIGNALLED - code

    async def end(self, host: Host, *, grace: float = GRACE) -> None:
        """SIGTERM to the container's first process, SIGKILL to the rest; its last lines are written to their stream."""
        if (process := host.process) is not None:
            if process.returncode is None:
                process.terminate()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(process.wait(), grace)
            # It leads its own session: its child processes are killed with it.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
        if host.pump is not None and host.shipping is not None:
            host.pump.cancel()
            await asyncio.gather(host.pump, return_exceptions=True)
            host.shipping.ship(last=True)
            host.pump = None

    async def collect(self, host: Host) -> None:
        await asyncio.to_thread(JobContainerFiles(self.context, host.root, host.job).collect)

    async def remove(self, host: Host) -> None:
        await self.end(host, grace=0.0)
        await asyncio.to_thread(shutil.rmtree, host.root, ignore_errors=True)

    def sweep(self) -> None:
        """Stop and remove what an earlier emulator left."""
        for root in self.root.glob("*/*/*/"):
            note = root / "process.json"
            if note.is_file():
                self.runtime.processes.end(Process(**json.loads(note.read_text("utf-8"))), grace=0.0)
            shutil.rmtree(root, ignore_errors=True)
