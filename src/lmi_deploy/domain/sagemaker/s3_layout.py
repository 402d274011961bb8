"""How a container on SageMaker gets its weights: the layout of the bucket, and the value of the artifact's slot.

Everything is derived from the spec, so that the plan, the writes and later reads agree on it.
"""

from __future__ import annotations

from typing import Final

from lmi_deploy.domain.deployment_artifact import MARKER, Artifact
from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.digests import digest, short
from lmi_deploy.domain.djl_serving import SERVING_PROPERTIES
from lmi_deploy.domain.sagemaker.resource_settings import MODEL_FOLDER, MOUNTS, WEIGHTS_CHANNEL, Mount
from lmi_deploy.domain.weights import weights_name, weights_prefix

ARTIFACTS: Final = "artifacts/"
WRITTEN_LAST: Final = (SERVING_PROPERTIES, MARKER)
"""The objects that complete a stored artifact: with none of them the prefix is an interrupted upload."""
_ID_LENGTH: Final = 16


def weights_of(spec: Spec) -> str:
    """The name of the chosen files in any bucket."""
    return weights_name(spec.model.model_id, spec.model.commit, spec.weights.files)


def weights_address(spec: Spec) -> str:
    return f"s3://{spec.cloud.bucket}/{weights_prefix(weights_of(spec))}"


def weights_placeholder_value(spec: Spec) -> str:
    """The value for the weights in serving.properties."""
    match spec.cloud.delivery:
        case "s3":
            return weights_address(spec)
        case "mount":
            return f"{MOUNTS}/{WEIGHTS_CHANNEL}"
        case "artifact":
            return MODEL_FOLDER


def mounts(spec: Spec) -> tuple[Mount, ...]:
    if spec.cloud.delivery != "mount":
        return ()
    return (Mount(channel=WEIGHTS_CHANNEL, uri=weights_address(spec)),)


def artifact_id(spec: Spec, artifact: Artifact) -> str:
    """The name of the stored artifact: an artifact that an endpoint serves from is never overwritten."""
    bundled = weights_of(spec) if spec.cloud.delivery == "artifact" else ""
    return short(
        digest([artifact.digest, weights_placeholder_value(spec), spec.cloud.delivery, bundled]), _ID_LENGTH
    )


def artifacts_prefix(deployment: str) -> str:
    """The prefix of every stored artifact of a deployment."""
    return f"{ARTIFACTS}{deployment}/"


def artifact_prefix(deployment: str, stored: str) -> str:
    return f"{artifacts_prefix(deployment)}{stored}/"


def artifact_address(spec: Spec, artifact: Artifact) -> str:
    """The address for CreateModel: SageMaker copies its objects to /opt/ml/model."""
    return f"s3://{spec.cloud.bucket}/{artifact_prefix(spec.name, artifact_id(spec, artifact))}"


def bundled_weights(spec: Spec, artifact: Artifact) -> tuple[tuple[str, int], ...]:
    """Path and size of the weights that are copied beside the artifact; a file of lmi replaces one of the same name."""
    if spec.cloud.delivery != "artifact":
        return ()
    own = {file.path for file in artifact.files}
    return tuple((file.path, file.size) for file in spec.weights.files if file.path not in own)
