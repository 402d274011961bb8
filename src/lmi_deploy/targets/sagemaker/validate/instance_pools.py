"""Instance pools: what they need, and what lmi does not combine with them.

Sources: botocore's service model, ProductionVariant, InstancePools; SageMaker developer guide, "Deploy to multiple
instance types with instance pools".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from lmi_deploy.domain.recipe_keys import AUTO_INSTANCE, Recipe
from lmi_deploy.recipe.checks.issue import Issue, Rule

_KEY: Final = "endpoint.instance_pools"
_NOT_WITH: Final = {
    "share": "not yet: a shared endpoint has one type, by which lmi places the copies",
    "candidate": "not yet: each version has one type",
}
"""Keys of the group endpoint, and why they do not go with instance pools."""


def _pools(recipe: Recipe) -> Iterator[Issue]:
    endpoint = recipe.endpoint
    if endpoint.instance_pools is None:
        return
    if recipe.instance_type == AUTO_INSTANCE or len(recipe.instance_type) == 1:
        what = f"names one type, and {_KEY} needs several"
        hint = f"list two to five types, the preferred one first, or remove {_KEY}"
        yield Issue(path="instance_type", what=what, hint=hint, depends_on=(_KEY,))
    for key, why in _NOT_WITH.items():
        if getattr(endpoint, key):
            what = f"cannot be combined with {_KEY}: {why}"
            yield Issue(path=f"endpoint.{key}", what=what, hint="remove one of them", depends_on=(_KEY,))
    if recipe.compile is not None:
        what = f"cannot be combined with {_KEY}: a model is compiled for one type"
        yield Issue(path="compile", what=what, hint="remove one of them", depends_on=(_KEY,))


RULES: tuple[Rule, ...] = (_pools,)
