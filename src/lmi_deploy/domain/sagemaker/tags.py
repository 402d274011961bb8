"""The tags of our resources on SageMaker, by which any machine finds them again."""

from __future__ import annotations

import re
from dataclasses import replace

from lmi_deploy import __version__
from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.in_place_weights import InPlaceWeights
from lmi_deploy.domain.recipe_keys import Pairs
from lmi_deploy.domain.sagemaker.resource_settings import (
    TAG,
    TAG_ADOPTED,
    TAG_BUCKET,
    TAG_DRAFT,
    TAG_ENGINE,
    TAG_EXPIRES,
    TAG_IN_PLACE,
    TAG_PURPOSE,
    TAG_SCHEDULER,
    TAG_SPEC,
    TAG_TASK,
    TAG_TTL,
    TAG_VALUE_LENGTH,
    TAG_VERSION,
    TAG_WEIGHTS,
)
from lmi_deploy.domain.sagemaker.s3_layout import stored_weights_of
from lmi_deploy.domain.settings_digest import digest, short
from lmi_deploy.domain.weights import Travel, weights_label

OWN = frozenset(
    {
        *(TAG, TAG_SPEC, TAG_BUCKET, TAG_VERSION, TAG_ENGINE, TAG_TASK),
        *(TAG_EXPIRES, TAG_TTL, TAG_SCHEDULER, TAG_WEIGHTS, TAG_DRAFT, TAG_IN_PLACE),
        TAG_ADOPTED,
    }
)
BUCKET_TAGS = {TAG_PURPOSE: "weights and artifacts", TAG_VERSION: __version__}
"""Of a bucket that lmi creates."""
_STAMP = 16
_TAG_VALUE = re.compile(r"[\w\s.:/=+@-]*")
"""SageMaker API reference, Tag: Value. S3 allows more characters in a key."""


def spec_digest(spec: Spec) -> str:
    """The spec in 16 hex digits. Without the time to live and its schedule, the update policy, the alarms, the way of
    the weights' transfer, and the local paths of folders; the image's address contains the digest of its build.
    """
    return short(digest(_described(spec)), _STAMP)


def _described(spec: Spec) -> Spec:
    """As far as it is in the digest."""
    model = replace(spec.model, model_id=weights_label(spec.model.model_id))
    additional = tuple(
        replace(each, model_id=weights_label(each.model_id)) for each in spec.weights.additional
    )
    place = replace(
        spec.cloud,
        ttl=0,
        scheduler_role="",
        travel=Travel(),
        job=None,
        compile=None,
        build=None,
        update=None,
        alarms=None,
    )
    in_place = spec.weights.in_place
    weights = replace(spec.weights, additional=additional, in_place=in_place and in_place.without_versions)
    candidate = spec.candidate and replace(spec.candidate, spec=_described(spec.candidate.spec))
    return replace(spec, model=model, weights=weights, place=place, candidate=candidate)


def weights_tags(stored: str, draft: str, in_place: InPlaceWeights | None) -> dict[str, str]:
    """The names of weights in the deployment's bucket, and the address of those in place, as far as a tag can have
    them.
    """
    address = in_place.address if in_place else ""
    named = {TAG_WEIGHTS: stored, TAG_DRAFT: draft, TAG_IN_PLACE: address}
    return {
        tag: value
        for tag, value in named.items()
        if 0 < len(value) <= TAG_VALUE_LENGTH and _TAG_VALUE.fullmatch(value)
    }


def compile_tags(spec: Spec) -> Pairs:
    """Of the job that compiles. Its deployment's `down` stops it; that of others, which may wait for the same job, does
    not.
    """
    own = {
        TAG: spec.name,
        TAG_BUCKET: spec.cloud.bucket,
        TAG_ENGINE: spec.engine.name,
        TAG_PURPOSE: "compile",
    }
    return tuple(sorted({**dict(spec.cloud.tags), **own}.items()))


def tags_of(spec: Spec) -> Pairs:
    """The user's own and ours, sorted by name; ours go before the user's of that name."""
    own = {
        TAG: spec.name,
        TAG_SPEC: spec_digest(spec),
        TAG_BUCKET: spec.cloud.bucket,
        TAG_ENGINE: spec.engine.name,
        TAG_TASK: spec.model.task or "custom",
    }
    draft = spec.weights.draft.weights_name if spec.weights.draft else ""
    own |= weights_tags(stored_weights_of(spec), draft, spec.weights.in_place)
    return tuple(sorted({**dict(spec.cloud.tags), **own}.items()))
