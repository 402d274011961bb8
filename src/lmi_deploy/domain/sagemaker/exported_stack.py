"""An exported deployment in the bucket: the artifact that a stack serves from, and the claim on its weights.

A stack belongs to CloudFormation or Terraform: no record names its weights, and no tag of lmi its resources. What it
loads is kept apart from what lmi deploys, so that `up`, `down` and `gc` of a deployment of the same name leave it.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Final, Literal

from lmi_deploy.domain.deployment_artifact import Artifact
from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.sagemaker.s3_layout import artifact_id, artifact_prefix, weights_of

StackFormat = Literal["cloudformation", "terraform"]
WRITTEN_BY: Final = "Written by `lmi export`"
"""The start of the first comment of a stack: another export may replace a file that starts so."""
EXPORTED: Final = "exported"
"""The folder of exported artifacts among a deployment's artifacts, and of claims among its records."""
_CLAIM: Final = re.compile(rf"deployments/([^/]+)/{EXPORTED}/[^/]+\.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class RequiredObjects:
    """A prefix in S3 that a stack's model reads."""

    address: str
    what: str


def exported_id(spec: Spec, artifact: Artifact) -> str:
    """The name of the exported artifact among the deployment's artifacts."""
    return f"{EXPORTED}/{artifact_id(spec, artifact)}"


def is_exported(stored: str) -> bool:
    """Whether an artifact of this name belongs to a stack: no deployment replaces or removes it."""
    return stored.startswith(f"{EXPORTED}/")


def split_stored(key: str) -> tuple[str, str]:
    """Of a key below a deployment's artifacts: the artifact's name, and the path in it."""
    head, _, rest = key.partition("/")
    if head != EXPORTED:
        return head, rest
    stored, _, path = rest.partition("/")
    return f"{EXPORTED}/{stored}", path


def exported_address(spec: Spec, artifact: Artifact) -> str:
    return f"s3://{spec.cloud.bucket}/{artifact_prefix(spec.name, exported_id(spec, artifact))}"


def loaded_weights(spec: Spec) -> tuple[str, ...]:
    """The weights that the container reads from the deployment's bucket; adapters, and weights in the artifact, are
    copied, and weights in place are in a bucket of the user's own.
    """
    elsewhere = spec.cloud.delivery == "artifact" or spec.weights.in_place is not None
    main = () if elsewhere else (weights_of(spec),)
    return (*main, *((spec.weights.draft.weights_name,) if spec.weights.draft else ()))


def claim_key(deployment: str, stored: str) -> str:
    """Beside the deployment's record; outside of the artifact, all of whose objects SageMaker copies."""
    return f"deployments/{deployment}/{stored}.json"


def claim_text(spec: Spec) -> bytes:
    return json.dumps({"schema": 1, "deployment": spec.name, "weights": loaded_weights(spec)}).encode()


def claimant(key: str) -> str:
    """Who claims weights by the object with this key, in words; empty for any other object."""
    found = _CLAIM.fullmatch(key)
    return f"{found[1]} ({EXPORTED})" if found else ""


def claimed_weights(text: bytes) -> tuple[str, ...]:
    """ValueError if it is not a claim."""
    found = json.loads(text)
    names = found.get("weights") if isinstance(found, dict) else None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError("it lists no weights")
    return tuple(names)
