"""A second version on the same endpoint: what it needs, and what SageMaker or lmi does not combine with it.

Sources: botocore's service model, CreateEndpointConfig: with ShadowProductionVariants "you can only specify one
variant for ProductionVariants and one variant for ShadowProductionVariants"; SageMaker developer guide, "Exclusions":
no rolling deployment of "multi-variant inference endpoints".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from lmi_deploy.domain.recipe_keys import AUTO_INSTANCE, Recipe
from lmi_deploy.recipe.checks.issue import Issue, Rule

_KEY: Final = "endpoint.candidate"
_NOT_WITH: Final = {
    "share": "the model of a shared endpoint is an inference component, and components get their requests by name",
    "asynchronous": "SageMaker's asynchronous endpoints have one variant",
    "regions": "not yet: lmi moves no candidate to another region",
}
"""Keys of the group endpoint, and why they do not go with a candidate."""


def _complete(recipe: Recipe) -> Iterator[Issue]:
    given = recipe.endpoint.candidate
    if given is None:
        return
    if not (given.recipe or given.overlay or given.set):
        what = "does not say what it is: it has none of recipe, overlay and set"
        hint = "such as overlay: fp8, or set: {options.dtype: fp16}"
        yield Issue(path=_KEY, what=what, hint=hint, depends_on=_keys("recipe", "overlay", "set"))
    shares = [given.traffic_percent, given.shadow_percent]
    if shares == [None, None]:
        what = "has neither traffic_percent nor shadow_percent"
        hint = "such as traffic_percent: 10, its part of the requests"
        yield Issue(path=_KEY, what=what, hint=hint, depends_on=_keys("traffic_percent", "shadow_percent"))
    elif None not in shares:
        what = "cannot be combined with shadow_percent: a shadow variant answers no request"
        yield Issue(path=f"{_KEY}.traffic_percent", what=what, hint="keep one of them", depends_on=(_KEY,))


def _keys(*names: str) -> tuple[str, ...]:
    return tuple(f"{_KEY}.{name}" for name in names)


def _combined(recipe: Recipe) -> Iterator[Issue]:
    endpoint = recipe.endpoint
    if endpoint.candidate is None:
        return
    for key, why in _NOT_WITH.items():
        if getattr(endpoint, key):
            what = f"cannot be combined with {_KEY}: {why}"
            yield Issue(path=f"endpoint.{key}", what=what, hint="remove one of them", depends_on=(_KEY,))
    if recipe.instance_type == AUTO_INSTANCE or len(recipe.instance_type) > 1:
        what = f"cannot be combined with {_KEY}: not yet with `auto` or several types"
        yield Issue(path="instance_type", what=what, hint="write one type", depends_on=(_KEY,))
    if endpoint.update is not None and endpoint.update.policy == "rolling":
        what = f"cannot be combined with {_KEY}: SageMaker rolls no update out on an endpoint with several variants"
        hint = "use canary, linear or all-at-once"
        yield Issue(path="endpoint.update.policy", what=what, hint=hint, depends_on=(_KEY,))


def _own_name(recipe: Recipe) -> Iterator[Issue]:
    given = recipe.endpoint.candidate
    if given is not None and "name" in dict(given.set):
        what = "cannot be set: both versions are one deployment, with one name"
        yield Issue(path=f"{_KEY}.set.name", what=what, hint="remove it", depends_on=(_KEY,))


RULES: tuple[Rule, ...] = (_complete, _combined, _own_name)
