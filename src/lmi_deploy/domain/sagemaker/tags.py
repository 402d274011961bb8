"""The tags of our resources on SageMaker, by which any machine finds them again."""

from __future__ import annotations

from dataclasses import replace

from lmi_deploy import __version__
from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.recipe_keys import Pairs
from lmi_deploy.domain.sagemaker.resource_settings import (
    TAG,
    TAG_BUCKET,
    TAG_DRAFT,
    TAG_ENGINE,
    TAG_EXPIRES,
    TAG_PURPOSE,
    TAG_SCHEDULER,
    TAG_SPEC,
    TAG_TASK,
    TAG_TTL,
    TAG_VALUE_LENGTH,
    TAG_VERSION,
    TAG_WEIGHTS,
)
from lmi_deploy.domain.sagemaker.s3_layout import weights_of
from lmi_deploy.domain.settings_digest import digest, short
from lmi_deploy.domain.weights import Travel, weights_label

OWN = frozenset(
    {
        *(TAG, TAG_SPEC, TAG_BUCKET, TAG_VERSION, TAG_ENGINE, TAG_TASK),
        *(TAG_EXPIRES, TAG_TTL, TAG_SCHEDULER, TAG_WEIGHTS, TAG_DRAFT),
    }
)
BUCKET_TAGS = {TAG_PURPOSE: "weights and artifacts", TAG_VERSION: __version__}
"""Of a bucket that lmi creates."""
_STAMP = 16


def spec_digest(spec: Spec) -> str:
    """The spec in 16 hex digits. Without the time to live and its schedule, the update policy, the way of the
    weights' transfer, and the local paths of folders; the image's address contains the digest of its build.
    """
    model = replace(spec.model, model_id=weights_label(spec.model.model_id))
    additional = tuple(
        replace(each, model_id=weights_label(each.model_id)) for each in spec.weights.additional
    )
    place = replace(
        spec.cloud, ttl=0, scheduler_role="", travel=Travel(), job=None, compile=None, build=None, update=None
    )
    weights = replace(spec.weights, additional=additional)
    return short(digest(replace(spec, model=model, weights=weights, place=place)), _STAMP)


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
    weights = {TAG_WEIGHTS: weights_of(spec), TAG_DRAFT: draft}
    own |= {tag: name for tag, name in weights.items() if 0 < len(name) <= TAG_VALUE_LENGTH}
    return tuple(sorted({**dict(spec.cloud.tags), **own}.items()))
