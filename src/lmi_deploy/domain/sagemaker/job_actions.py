"""The actions of jobs near the bucket: they transfer or compile weights."""

from __future__ import annotations

from dataclasses import dataclass

from lmi_deploy.domain.action import ActionBase, Phase
from lmi_deploy.domain.sagemaker.optimization_job import OptimizationSettings
from lmi_deploy.domain.sagemaker.transfer_job import JobKind, JobSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTransferJob(ActionBase):
    """The same by a processing job near the bucket. Its input in the bucket is added when it starts."""

    phase = Phase.STORE
    binding = True
    job: str
    weights: str
    model_id: str
    commit: str
    size: int
    settings: JobSettings

    @property
    def title(self) -> str:
        return (
            f"move {self.model_id} to the bucket by a job on {self.settings.count} x {self.settings.instance}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCompileJob(ActionBase):
    """A job that compiles the weights in the bucket. Its input and its output are added when it starts."""

    phase = Phase.STORE
    binding = True
    job: str
    model_id: str
    result: str
    """The identity of what it makes."""
    compiler: str
    """In words."""
    settings: JobSettings | OptimizationSettings

    @property
    def title(self) -> str:
        return f"compile {self.model_id} by {self.compiler}, as {self.settings.title}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StopTransferJob(ActionBase):
    phase = Phase.STORE
    verb = "stop the job"
    job: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StopCompileJob(ActionBase):
    """Nothing of it stays: not its order, and not its output."""

    phase = Phase.STORE
    verb = "stop the compile job"
    job: str
    of: JobKind
