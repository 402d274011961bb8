"""The comment at the top of an export: where it comes from, what must exist, and what only `lmi up` does."""

from __future__ import annotations

from collections.abc import Iterator

from lmi_deploy import __version__
from lmi_deploy.domain.deployment_artifact import Artifact
from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.number_text import counted, seconds_text, size_text
from lmi_deploy.domain.sagemaker.exported_stack import (
    WRITTEN_BY,
    RequiredObjects,
    exported_address,
    loaded_weights,
)
from lmi_deploy.domain.sagemaker.s3_layout import copied_objects, weights_of
from lmi_deploy.domain.sagemaker.tags import spec_digest
from lmi_deploy.domain.weights import weights_prefix


def required_objects(spec: Spec, artifact: Artifact) -> tuple[RequiredObjects, ...]:
    copied = copied_objects(spec, artifact)
    count = counted(len(artifact.files) + len(copied), "file")
    sizes = {
        weights_of(spec): (spec.weights.size, f"the weights of {spec.model.model_id}"),
        **{
            each.weights_name: (each.size, f"the {each.title} {each.model_id}")
            for each in spec.weights.additional
        },
    }
    weights = (
        RequiredObjects(
            address=f"s3://{spec.cloud.bucket}/{weights_prefix(name)}",
            what=f"{sizes[name][1]}, {size_text(sizes[name][0])}",
        )
        for name in loaded_weights(spec)
    )
    return (
        RequiredObjects(address=exported_address(spec, artifact), what=f"the artifact, {count}"),
        *weights,
        *_in_place(spec),
    )


def _in_place(spec: Spec) -> Iterator[RequiredObjects]:
    weights = spec.weights.in_place
    if weights is not None:
        what = f"the weights of {spec.model.model_id} in place, {size_text(spec.weights.size)}; lmi never uploads them"
        yield RequiredObjects(address=weights.address, what=what)


def header(spec: Spec, artifact: Artifact) -> tuple[str, ...]:
    """Lines without a comment sign; the same for the same recipe and version of lmi."""
    return (
        f"{WRITTEN_BY} {__version__} from the recipe {spec.name} (spec {spec_digest(spec)}, artifact "
        f"{artifact.digest[:16]}).",
        "Change the recipe and export again: the next export replaces changes that are made here.",
        "",
        "These objects must be in S3 before the stack is applied; `lmi export RECIPE --upload` puts them there:",
        *(f"  {each.address}  ({each.what})" for each in required_objects(spec, artifact)),
        "",
        "The resources belong to the stack. `lmi down` and `lmi gc` never change them, and keep these objects.",
        "What `lmi up` does and this stack does not:",
        *(f"- {line}" for line in _left_to_lmi(spec)),
    )


def _left_to_lmi(spec: Spec) -> Iterator[str]:
    place = spec.cloud
    yield "check permissions, quotas and the fit of the model before anything is created"
    yield "send a real request at the end, and return to the previous version if it is not answered"
    yield "explain a failure by the log of the container"
    if len(place.placements) > 1:
        others = ", ".join(placement.instance for placement in place.placements[1:])
        yield f"try the next instance type where {place.placements[0].instance} cannot be had: {others}"
    if place.ttl:
        yield f"delete the endpoint when its ttl is over ({seconds_text(place.ttl)})"
    if place.travel.via == "job":
        yield "move the weights by a job near the bucket (`lmi export --upload` does)"
    if spec.weights.compiled:
        yield "refuse weights that are not the result of `lmi compile`"
    if place.asynchronous is not None:
        yield "delete the requests and responses in the bucket with the endpoint"
