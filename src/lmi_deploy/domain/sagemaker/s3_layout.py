"""How a container on SageMaker comes to its weights: what lies where in the bucket, and what fills the artifact's slot.

Everything follows from the spec, so that the plan, the writes and a later look agree on it.
"""

from __future__ import annotations

from typing import Final

from lmi_deploy.domain.artifact import Artifact
from lmi_deploy.domain.naming import digest, short
from lmi_deploy.domain.sagemaker.settings import MODEL_FOLDER, MOUNTS, WEIGHTS_CHANNEL, Mount
from lmi_deploy.domain.spec import Spec
from lmi_deploy.domain.weights import weights_name, weights_prefix

ARTIFACTS: Final = "artifacts/"
WRITTEN_LAST: Final = "serving.properties"
"""The object that makes a stored artifact whole: without it the prefix is a beginning that nobody finished."""
_ID_LENGTH: Final = 16


def weights_of(spec: Spec) -> str:
    """The name of the chosen files in any bucket."""
    return weights_name(spec.model.model_id, spec.model.commit, spec.weights.files)


def weights_address(spec: Spec) -> str:
    return f"s3://{spec.cloud.bucket}/{weights_prefix(weights_of(spec))}"


def weights_placeholder_value(spec: Spec) -> str:
    """What stands for the weights in serving.properties."""
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
    """Names all that is stored of the artifact: what serves from it is never overwritten."""
    bundled = weights_of(spec) if spec.cloud.delivery == "artifact" else ""
    return short(
        digest([artifact.digest, weights_placeholder_value(spec), spec.cloud.delivery, bundled]), _ID_LENGTH
    )


def artifacts_prefix(deployment: str) -> str:
    """Where every stored artifact of a deployment lies."""
    return f"{ARTIFACTS}{deployment}/"


def artifact_prefix(deployment: str, stored: str) -> str:
    return f"{artifacts_prefix(deployment)}{stored}/"


def artifact_address(spec: Spec, artifact: Artifact) -> str:
    """What CreateModel is told: SageMaker lays its objects out in /opt/ml/model."""
    return f"s3://{spec.cloud.bucket}/{artifact_prefix(spec.name, artifact_id(spec, artifact))}"


def bundled_weights(spec: Spec, artifact: Artifact) -> tuple[tuple[str, int], ...]:
    """Path and size of the weights that are copied beside the artifact; a file of ours goes before one of that name."""
    if spec.cloud.delivery != "artifact":
        return ()
    own = {file.path for file in artifact.files}
    return tuple((file.path, file.size) for file in spec.weights.files if file.path not in own)
