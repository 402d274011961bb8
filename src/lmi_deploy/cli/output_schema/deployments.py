"""The output of the commands for deployments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, NotRequired, TypedDict

from lmi_deploy.cli.output_schema.command_output import (
    CommandOutput,
    DeploymentFields,
    Document,
    DownResult,
    Merged,
    UnlockResult,
)
from lmi_deploy.cli.output_schema.events import PlanFields
from lmi_deploy.domain.weights import OrphanedWeights
from lmi_deploy.planning.failure_cause import Confidence
from lmi_deploy.workflows.status import Status


class UpResult(TypedDict):
    """`account`, `region` and `bucket`: target sagemaker."""

    deployment: str
    target: str
    address: str
    runtime: str
    account: NotRequired[str]
    region: NotRequired[str]
    bucket: NotRequired[str]
    changed: bool
    model: str
    commit: str
    artifact: str


class DeploymentResult(UpResult):
    """That of one deployment in the result of several."""

    event: Literal["result"]
    ok: Literal[True]


class SeveralUpResult(TypedDict):
    deployments: list[DeploymentResult]


class OutcomeRow(TypedDict):
    """The outcome of one of several deployments."""

    deployment: str
    outcome: Literal["ok", "failed"]
    error: str


class UpOutcomeRow(OutcomeRow):
    address: str


class DeletedDeployment(DownResult):
    """That of one deployment in the result of several."""


class PipelineResult(TypedDict):
    """`plan`: the file; empty without one. Before it come the lines of the commands that the job ran."""

    job: Literal["validate", "plan", "up", "down"]
    deployment: str
    changed: bool
    plan: str


class SeveralDownResult(TypedDict):
    deployments: list[DeletedDeployment]


class PlanResult(TypedDict):
    """`digest`: of the observed state and the plan."""

    pending: bool
    files: list[str]
    left_out: dict[str, int]
    digest: str


class CompileResult(TypedDict):
    deployment: str
    result: str
    compiled_by: str
    files: list[str]
    bytes: int
    changed: bool


class CompileStopResult(TypedDict):
    deployment: str
    outcome: str


class ReadAt(TypedDict):
    """When it was read; ISO 8601."""

    read: str


class ListedDeploymentRow(TypedDict):
    """Empty: there is none. Null: AWS's lists do not contain it."""

    name: str
    target: str
    standing: str
    address: str | None
    model: str | None
    adapters: str | None
    memory: int | Literal[""] | None
    costs: str | None
    created: str | None
    since: str | None
    by: str | None
    account: str
    expires: str
    expired: bool | Literal[""]
    profile: NotRequired[str]


class DeploymentCount(TypedDict):
    deployments: int


class LogRow(TypedDict):
    line: str


class LogsResult(TypedDict):
    deployment: str
    lines: int


class CauseFields(TypedDict):
    """`line` of the log, from 1; 0 if the evidence is a fact."""

    cause: str
    evidence: str
    line: int
    remedy: str
    settings: list[str]
    confidence: Confidence
    source: str


class DiagnoseResult(TypedDict):
    causes: list[CauseFields]
    lines: int
    serves: bool
    """Whether the deployment is in step: then what failed was a request, or an earlier start. False for a file."""


class RollbackResult(DeploymentFields):
    config: str
    address: str


class ScalingBounds(TypedDict):
    min: int
    max: int


class ScaleResult(DeploymentFields):
    instance: str
    count_before: int
    count: int
    hourly_before: float | None
    hourly: float | None
    currency: str
    autoscaling: ScalingBounds | None


class ExtendResult(DeploymentFields):
    expires_at: str


class DashboardResult(TypedDict):
    dashboard_name: str
    address: str


class DashboardBodyResult(TypedDict):
    dashboard_name: str
    body: Document


class UsageRow(TypedDict):
    """`hourly` and `cost` are null if the price is unknown; `end` is empty while it runs. `variant`: `main` or
    `candidate` of an endpoint that has a candidate; empty for any other. `models`: those on a shared endpoint.
    """

    name: str
    variant: str
    models: list[str]
    region: str
    instance: str
    count: int
    autoscaled: bool
    start: str
    end: str
    hours: float
    hourly: float | None
    price_date: str
    cost: float | None


class CostResult(TypedDict):
    month: str
    currency: str
    total: float
    projected: float
    unpriced: list[str]
    not_seen: list[str]


class ExpiredRow(TypedDict):
    """A deployment that is deleted, and why."""

    name: str
    region: str
    resources: int
    why: str


class IdleRow(TypedDict):
    name: str
    region: str
    age: str
    why: str


class GcResult(TypedDict):
    """`kept`: deployments that are in use after all."""

    freed: int
    ended: int
    kept: list[str]


class IdleResult(TypedDict):
    idle: int
    ended: int
    kept: list[str]


class WeightsRow(TypedDict):
    name: str
    files: int
    size: int
    created: str
    compiled: NotRequired[str]
    used_by: str


class WeightsFields(TypedDict):
    name: str
    files: int
    size: int
    created: str
    address: str
    commit: str
    compiled: NotRequired[str]


class PushResult(WeightsFields):
    """`additional`: adapters and draft models."""

    additional: NotRequired[list[WeightsFields]]


class WeightsCount(TypedDict):
    weights: int
    bytes: int


class VerifyResult(WeightsFields):
    intact: Literal[True]


class RemovedWeights(TypedDict):
    """`versions_kept`: the bucket is versioned, and keeps them as earlier versions."""

    name: str
    bytes: int
    versions_kept: bool


class TransferJobResult(TypedDict):
    job: str
    complete: bool


OUTPUTS: Final[Mapping[str, CommandOutput]] = {
    "up": CommandOutput(results=(UpResult, SeveralUpResult), rows=(UpOutcomeRow,)),
    "plan": CommandOutput(results=(Merged("PlanCommand", (PlanFields, PlanResult)),)),
    "compile": CommandOutput(results=(CompileResult, CompileStopResult)),
    "wait": CommandOutput(results=(Status,)),
    "status": CommandOutput(results=(Status,), rows=(Merged("StatusRead", (ReadAt, Status)),)),
    "ls": CommandOutput(results=(DeploymentCount,), rows=(ListedDeploymentRow,)),
    "logs": CommandOutput(results=(LogsResult,), rows=(LogRow,)),
    "diagnose": CommandOutput(results=(DiagnoseResult,)),
    "rollback": CommandOutput(results=(RollbackResult,)),
    "scale": CommandOutput(results=(ScaleResult,)),
    "extend": CommandOutput(results=(ExtendResult,)),
    "pipeline": CommandOutput(results=(PipelineResult,)),
    "down": CommandOutput(results=(DownResult, SeveralDownResult), rows=(OutcomeRow,)),
    "dashboard": CommandOutput(results=(DashboardResult, DashboardBodyResult)),
    "cost": CommandOutput(results=(CostResult,), rows=(UsageRow,)),
    "gc": CommandOutput(results=(GcResult, IdleResult), rows=(ExpiredRow, IdleRow, OrphanedWeights)),
    "unlock": CommandOutput(results=(UnlockResult,)),
    "weights push": CommandOutput(results=(PushResult,)),
    "weights ls": CommandOutput(results=(WeightsCount,), rows=(WeightsRow,)),
    "weights verify": CommandOutput(results=(VerifyResult,)),
    "weights rm": CommandOutput(results=(RemovedWeights,)),
    "weights copy": CommandOutput(results=(WeightsFields,)),
    "weights job": CommandOutput(results=(TransferJobResult,)),
}
