"""An engine in DJLServing: the model folder and the variables that its server starts from."""

from __future__ import annotations

from typing import ClassVar, Final

from lmi_deploy.catalog.package_files import templates
from lmi_deploy.domain.deployment_artifact import ArtifactFile
from lmi_deploy.domain.deployment_spec import EngineSpec, Spec
from lmi_deploy.domain.djl_serving import MODEL_PY, REQUIREMENTS_TXT, SERVING_PROPERTIES
from lmi_deploy.domain.recipe_keys import Pairs
from lmi_deploy.domain.sagemaker.resource_settings import Delivery
from lmi_deploy.engines.engine import InferenceEngine
from lmi_deploy.engines.serving_properties import serving_properties

ENVIRONMENT: Final[Pairs] = (("SERVING_FAIL_FAST", "true"),)
"""Without it a server whose model did not load stays up and healthy (DJLServing's ModelInfo)."""


class DjlEngine(InferenceEngine):
    deliveries: ClassVar[tuple[Delivery, ...]] = ("s3", "mount", "artifact")
    """The server downloads a model from S3 itself."""

    def artifact(self, spec: Spec) -> tuple[ArtifactFile, ...]:
        """serving.properties, model.py and requirements.txt, as far as the spec has them."""
        files = [ArtifactFile(SERVING_PROPERTIES, serving_properties(spec), slot="java-properties")]
        template = spec.engine.handler.template
        code = (templates() / template / MODEL_PY).read_bytes() if template else spec.inputs.model_py
        if code:
            files.append(ArtifactFile(MODEL_PY, code))
        if spec.inputs.requirements:
            files.append(ArtifactFile(REQUIREMENTS_TXT, spec.inputs.requirements))
        return tuple(files)

    def environment(self, spec: EngineSpec) -> Pairs:
        return ENVIRONMENT
