"""Whose weights, artifact or model an action writes: those of the version that serves, or of its candidate."""

from __future__ import annotations

from dataclasses import dataclass

from lmi_deploy.domain.deployment_artifact import Artifact
from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.sagemaker.s3_layout import artifact_id, weights_of
from lmi_deploy.engines.inference_codec import Codec
from lmi_deploy.engines.registry import ENGINES
from lmi_deploy.targets.sagemaker.desired_state import desired_state
from lmi_deploy.targets.sagemaker.plan.storage_actions import transfer_job_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """Each question is answered by the spec of a version: what both have is that of the first."""

    spec: Spec
    artifact: Artifact

    @property
    def codecs(self) -> tuple[Codec, ...]:
        """How requests to each of them are encoded: of the version that serves, then of its candidate."""
        second = self.spec.candidate
        specs = (self.spec, *((second.spec,) if second else ()))
        return tuple(
            Codec(
                ENGINES[one.engine.name],
                one.engine.handler,
                one.model.task,
                one.name if one.has_adapter_components else "",
            )
            for one in specs
        )

    def of_weights(self, name: str) -> Spec:
        own = {weights_of(self.spec), *(each.weights_name for each in self.spec.weights.additional)}
        return self._candidate_unless(own=name in own)

    def of_artifact(self, stored: str) -> tuple[Spec, Artifact]:
        second = self.spec.candidate
        if second is not None and stored == artifact_id(second.spec, second.artifact):
            return second.spec, second.artifact
        return self.spec, self.artifact  # or its copy for an exported stack, which has another name

    def of_model(self, name: str) -> Spec:
        return self._candidate_unless(own=name == desired_state(self.spec, self.artifact).model)

    def of_job(self, name: str) -> Spec:
        return self._candidate_unless(own=self.spec.cloud.job is None or name == transfer_job_name(self.spec))

    def _candidate_unless(self, *, own: bool) -> Spec:
        second = self.spec.candidate
        return self.spec if own or second is None else second.spec
