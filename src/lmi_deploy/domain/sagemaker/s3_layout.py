"""How a container on SageMaker gets its weights: the layout of the bucket, and the value of the artifact's slot.

Everything is derived from the spec, so that the plan, the writes and later reads agree on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lmi_deploy.domain.deployment_artifact import MARKER, Artifact
from lmi_deploy.domain.deployment_spec import AdditionalModel, Spec
from lmi_deploy.domain.djl_serving import SERVING_PROPERTIES
from lmi_deploy.domain.sagemaker.resource_settings import (
    DRAFT_CHANNEL,
    MODEL_FOLDER,
    MOUNTS,
    WEIGHTS_CHANNEL,
    Mount,
)
from lmi_deploy.domain.settings_digest import digest, short
from lmi_deploy.domain.weights import weights_name, weights_prefix

ARTIFACTS: Final = "artifacts/"
ADAPTER_ARCHIVE: Final = "adapter.tar.gz"
"""The one object of the artifact of an adapter component."""
WRITTEN_LAST: Final = (SERVING_PROPERTIES, MARKER, ADAPTER_ARCHIVE)
"""The objects that complete a stored artifact: with none of them the prefix is an interrupted upload."""
_ID_LENGTH: Final = 16


def weights_of(spec: Spec) -> str:
    """The name of the chosen files in any bucket; weights in place have it in none."""
    commit = spec.weights.compiled or spec.model.commit
    return weights_name(spec.model.model_id, commit, spec.weights.files)


def stored_weights_of(spec: Spec) -> str:
    """Their name in the deployment's bucket; empty for weights in place."""
    return "" if spec.weights.in_place else weights_of(spec)


def weights_address(spec: Spec) -> str:
    if spec.weights.in_place is not None:
        return spec.weights.in_place.address
    return _address(spec, weights_of(spec))


def _address(spec: Spec, name: str) -> str:
    return f"s3://{spec.cloud.bucket}/{weights_prefix(name)}"


def weights_placeholder_value(spec: Spec) -> str:
    """The value for the weights in serving.properties."""
    match spec.cloud.delivery:
        case "s3":
            return weights_address(spec)
        case "mount":
            return f"{MOUNTS}/{WEIGHTS_CHANNEL}"
        case "artifact":
            return MODEL_FOLDER


def draft_location(spec: Spec) -> str:
    """Where the container finds the draft model; empty without one."""
    return f"{MOUNTS}/{DRAFT_CHANNEL}" if spec.weights.draft else ""


def mounts(spec: Spec) -> tuple[Mount, ...]:
    draft = spec.weights.draft
    weights = (Mount(channel=WEIGHTS_CHANNEL, uri=weights_address(spec)),)
    return (
        *(weights if spec.cloud.delivery == "mount" else ()),
        *((Mount(channel=DRAFT_CHANNEL, uri=_address(spec, draft.weights_name)),) if draft else ()),
    )


def artifact_id(spec: Spec, artifact: Artifact) -> str:
    """The name of the stored artifact: an artifact that an endpoint serves from is never overwritten."""
    # Of weights in place the address stays when an object changes: the artifact has another name then, and with it
    # the model, so that the endpoint is updated.
    named = spec.cloud.delivery == "artifact" or spec.weights.in_place is not None
    bundled = weights_of(spec) if named else ""
    chosen = [artifact.digest, weights_placeholder_value(spec), spec.cloud.delivery, bundled]
    return short(digest(chosen), _ID_LENGTH)


def stored_artifacts(spec: Spec, artifact: Artifact) -> tuple[str, ...]:
    """The names of the stored artifacts of all its variants."""
    second = spec.candidate
    also = (artifact_id(second.spec, second.artifact),) if second else ()
    return tuple(dict.fromkeys((artifact_id(spec, artifact), *also)))


def artifacts_prefix(deployment: str) -> str:
    """The prefix of every stored artifact of a deployment."""
    return f"{ARTIFACTS}{deployment}/"


def artifact_prefix(deployment: str, stored: str) -> str:
    return f"{artifacts_prefix(deployment)}{stored}/"


def artifact_address(spec: Spec, artifact: Artifact) -> str:
    """The address for CreateModel: SageMaker copies its objects to /opt/ml/model."""
    return f"s3://{spec.cloud.bucket}/{artifact_prefix(spec.name, artifact_id(spec, artifact))}"


def adapter_artifact_id(adapter: AdditionalModel) -> str:
    """By the content of its files alone."""
    files = [[file.path, file.size, file.oid] for file in adapter.files]
    return short(digest([ADAPTER_ARCHIVE, files]), _ID_LENGTH)


def adapter_address(spec: Spec, adapter: AdditionalModel) -> str:
    """For the component of an adapter."""
    prefix = artifact_prefix(spec.name, adapter_artifact_id(adapter))
    return f"s3://{spec.cloud.bucket}/{prefix}{ADAPTER_ARCHIVE}"


def adapter_artifact_of(address: str) -> str:
    """The stored artifact of such an address."""
    return address.removesuffix(f"/{ADAPTER_ARCHIVE}").rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class CopiedObject:
    """A stored file of a model that is copied into the artifact, inside S3."""

    origin: str
    """Its key in the bucket."""
    path: str
    """In the artifact."""
    size: int


def copied_objects(spec: Spec, artifact: Artifact) -> tuple[CopiedObject, ...]:
    """The adapters, and with delivery `artifact` the weights; a file of lmi replaces one of the same path."""
    own = {file.path for file in artifact.files}
    bundled = spec.weights.files if spec.cloud.delivery == "artifact" else ()
    prefix = weights_prefix(weights_of(spec))
    return (
        *(
            CopiedObject(prefix + file.path, file.path, file.size)
            for file in bundled
            if file.path not in {*own, *(copied.path for copied in artifact.copied)}
        ),
        *(
            CopiedObject(weights_prefix(file.weights) + file.source, file.path, file.size)
            for file in artifact.copied
        ),
    )
