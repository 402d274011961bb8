"""`endpoint.regions`: several regions for one deployment, so nothing of the recipe may be tied to one of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from lmi_deploy.domain.recipe_endpoint_keys import Asynchronous
from lmi_deploy.domain.recipe_keys import Recipe
from lmi_deploy.recipe.checks.issue import Issue, Rule
from lmi_deploy.targets.sagemaker.validate.images import problem_in

MOST: Final = 5
"""Each region that has no capacity takes minutes, and its bucket a copy of the weights."""
_KEY: Final = "endpoint.regions"


def _count(recipe: Recipe) -> Iterator[Issue]:
    endpoint = recipe.endpoint
    regions = endpoint.regions
    if len(regions) == 1:
        yield Issue(path=_KEY, what="names one region", hint=f"write endpoint.region: {regions[0]}")
    elif len(regions) > MOST:
        yield Issue(path=_KEY, what=f"names {len(regions)} regions", hint=f"name at most {MOST}")
    elif twice := next((region for region in regions if regions.count(region) > 1), ""):
        yield Issue(path=_KEY, what=f"names {twice} twice", hint="remove one of them")
    elif regions and endpoint.region is not None and endpoint.region not in regions:
        what = f"does not contain endpoint.region, {endpoint.region}"
        hint = "add it, or remove endpoint.region: lmi then begins with the first one"
        yield Issue(path=_KEY, what=what, hint=hint, depends_on=("endpoint.region",))


def _tied(recipe: Recipe) -> Iterator[Issue]:
    """What is in one region only. https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateModel.html: the
    artifacts "must be in an S3 bucket that is in the same AWS region as the model or endpoint".
    """
    if len(recipe.endpoint.regions) < 2:
        return
    for path, why in _ties(recipe):
        what = f"cannot be combined with {_KEY}: {why}"
        yield Issue(path=path, what=what, hint=f"remove it, or {_KEY}", depends_on=(_KEY,))


def _ties(recipe: Recipe) -> Iterator[tuple[str, str]]:
    endpoint, bucket = recipe.endpoint, "a bucket is in one region"
    key = endpoint.kms_key or ""
    alarms = endpoint.update.alarms if endpoint.update else ()
    found: dict[str, tuple[object, str]] = {
        "endpoint.bucket": (endpoint.bucket, f"{bucket}, and each region has its own"),
        "endpoint.vpc": (endpoint.vpc, "subnets and security groups are in one region"),
        "endpoint.share": (endpoint.share, "the other models stay in the region of the shared endpoint"),
        "endpoint.kms_key": (key.startswith("arn:"), "this key is in one region; an alias may exist in each"),
        "endpoint.data_capture": (endpoint.data_capture, bucket),
        "endpoint.update.alarms": (alarms, "an alarm is in one region"),
        "endpoint.alarms": (endpoint.alarms, "its topic is in one region"),
        "weights.in_place": (recipe.weights.in_place, bucket),
        "compile": (recipe.compile, "its result is in the bucket of one region"),
        **_of_a_queue(endpoint.asynchronous),
    }
    yield from ((path, why) for path, (given, why) in found.items() if given)


def _of_a_queue(queue: Asynchronous | None) -> dict[str, tuple[object, str]]:
    if queue is None:
        return {}
    topic = "a topic is in one region"
    return {
        "endpoint.asynchronous.output": (queue.output, "a bucket is in one region"),
        "endpoint.asynchronous.success_topic": (queue.success_topic, topic),
        "endpoint.asynchronous.error_topic": (queue.error_topic, topic),
    }


def _images(recipe: Recipe) -> Iterator[Issue]:
    regions = recipe.endpoint.regions
    if len(regions) < 2 or recipe.container.build is not None:
        return
    for region in regions:
        if region != recipe.endpoint.region and (what := problem_in(recipe, region)):
            yield Issue(path=_KEY, what=what, hint=f"remove {region}", depends_on=("container", "engine"))


RULES: tuple[Rule, ...] = (_count, _tied, _images)
