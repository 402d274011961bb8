"""The actions of jobs near the bucket: they transfer or compile weights."""

from __future__ import annotations

from dataclasses import dataclass

from lmi_deploy.domain.action import ActionBase, Phase
from lmi_deploy.domain.sagemaker.optimization_job import OptimizationSettings
from lmi_deploy.domain.sagemaker.transfer_job import JobKind, JobSettings
from lmi_deploy.domain.settings_digest import digest_tag


@digest_tag("MovedModel")
@dataclass(frozen=True, slots=True, kw_only=True)
class MovedModel:
    """A model that a job transfers: the main one, or with `what` an additional one."""

    weights: str
    """Its name in the bucket."""
    model_id: str
    commit: str
    size: int
    what: str = ""

    @property
    def title(self) -> str:
        return f"the {self.what} ({self.model_id})" if self.what else self.model_id


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTransferJob(ActionBase):
    """The same by a processing job near the bucket. Its input in the bucket is added when it starts."""

    phase = Phase.STORE
    binding = True
    job: str
    models: tuple[MovedModel, ...]
    settings: JobSettings

    @property
    def title(self) -> str:
        titles = [model.title for model in self.models]
        what = " and ".join(filter(None, (", ".join(titles[:-1]), *titles[-1:])))
        return f"move {what} to the bucket by a job on {self.settings.count} x {self.settings.instance}"


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


JobAction = RunTransferJob | RunCompileJob | StopTransferJob | StopCompileJob
