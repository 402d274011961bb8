"""The states of an optimization job. A stand-in for the compiler of its image runs; without one it only takes time.

What the container of such a job gets, and where it reports an error: djl-serving, serving/docker/partition,
sm_neo_utils.py (SM_NEO_...), dockerd-entrypoint.sh.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from lmi_deploy.emulator.context import EmulatorContext
from lmi_deploy.emulator.faults.rules import Call
from lmi_deploy.emulator.hosting.container_files import inside
from lmi_deploy.emulator.hosting.failure_reasons import HostingFailed, apply_faults
from lmi_deploy.emulator.hosting.resource_tasks import Key, ResourceTasks
from lmi_deploy.emulator.jobs.job_container_files import Job
from lmi_deploy.emulator.jobs.job_hosts import Host, Hosts
from lmi_deploy.emulator.sagemaker.resources import OPTIMIZATION_JOB

PROVISION: Final = 120.0
WORK: Final = 600.0
STOPPING: Final = 30.0
OPTIMIZATION_LOGS: Final = "/lmi-emulator/OptimizationJobs"
"""AWS documents no log group of these jobs: the name is the emulator's own."""
_ENTRY: Final = "/opt/djl/partition/sm_neo_dispatcher.py"
_INPUT, _OUTPUT, _ERROR = "/opt/ml/model/input", "/opt/ml/model/compiled", "/opt/ml/output/error.json"


class Optimizations(ResourceTasks):
    def __init__(self, context: EmulatorContext, hosts: Hosts) -> None:
        super().__init__(context, OPTIMIZATION_JOB)
        self._hosts = hosts

    def resume(self) -> None:
        """After a restart the machines no longer exist: a job that ran starts again."""
        self._hosts.sweep()
        super().resume()

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
        if limit < WORK:
            self._end(key, "STOPPED")
            return
        row = self._row(key)
        job = Job(*key, row["arn"], _container(row["params"]), ("algo-1",), kind="OPTIMIZATION")
        image = self._hosts.runtime.image
        if image is not None and image.compiler_for(job.params["AppSpecification"]["ImageUri"]):
            await self._compile(self._hosts.of(job)[0])
        self._end(key, "COMPLETED")

    async def _compile(self, host: Host) -> None:
        """HostingFailed with what the compiler reports."""
        try:
            with self._context.clock.at_work():
                await self._hosts.write(host)
                code = await self._hosts.run(host)
                await self._hosts.end(host)
                if code != 0:
                    raise HostingFailed(f"ClientError: {_reported(host)}")
                await self._hosts.collect(host)
        finally:
            await self._hosts.remove(host)

    async def _pass(self, key: Key, phase: str, seconds: float) -> None:
        kind = self._row(key)["params"]["DeploymentInstanceType"]
        await apply_faults(self._context, Call("OPTIMIZATION", f"/{phase}/{key[1]}/{kind}"))
        await self._context.clock.sleep(seconds)

    def _end(self, key: Key, status: str, reason: str | None = None) -> None:
        self._change(key, status=status, failure=reason, ended=self._context.clock.now())


def _container(params: Mapping[str, Any]) -> dict[str, Any]:
    """The job's one container, in the words of a processing job."""
    technique: Mapping[str, Any] = next(iter(params["OptimizationConfigs"][0].values()), {})
    source = params["ModelSource"].get("S3", {}).get("S3Uri", "")
    given = {**params.get("OptimizationEnvironment", {}), **technique.get("OverrideEnvironment", {})}
    neo = {
        "SM_NEO_EXECUTION_CONTEXT": "1",
        "SM_NEO_INPUT_MODEL_DIR": _INPUT,
        "SM_NEO_COMPILED_MODEL_DIR": _OUTPUT,
        "SM_NEO_COMPILATION_ERROR_FILE": _ERROR,
    }
    output = {"S3Uri": params["OutputConfig"]["S3OutputLocation"], "LocalPath": _OUTPUT}
    model = {"S3Uri": source, "LocalPath": _INPUT, "S3DataType": "S3Prefix"}
    return {
        "RoleArn": params["RoleArn"],
        "AppSpecification": {
            "ImageUri": technique.get("Image", ""),
            "ContainerEntrypoint": ["python3", _ENTRY],
        },
        "ProcessingInputs": [{"InputName": "model", "S3Input": model}],
        "ProcessingOutputConfig": {"Outputs": [{"OutputName": "compiled", "S3Output": output}]},
        "ProcessingResources": {"ClusterConfig": {"InstanceType": params["DeploymentInstanceType"]}},
        "Environment": {**given, **neo},
    }


def _reported(host: Host) -> str:
    try:
        return str(json.loads(inside(host.root, _ERROR).read_bytes())["error"])
    except (OSError, ValueError, KeyError):
        return "the compiler ended without a reason; see its log"
