"""What a container without network access cannot do."""

from __future__ import annotations

import re
from collections.abc import Iterator

from lmi_deploy.domain.recipe_keys import Recipe
from lmi_deploy.recipe.checks.issue import Issue, Rule
from lmi_deploy.recipe.yaml.tree import quoted

_CUT = "endpoint.network_isolation gives the container no network"
_HUB_OPTIONS = (
    "tokenizer",
    "hf_config_path",
    "draft_model_id",
    "speculative_model",
    "speculative_draft_model",
)
"""Options that may name another model on the Hub, which the server would download at its start."""
_HUB_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*")


def _delivery(recipe: Recipe) -> Iterator[Issue]:
    if recipe.endpoint.network_isolation and recipe.weights.deliver == "s3":
        what = f"with s3 the container downloads the weights itself, but {_CUT}"
        hint = "write mount, or omit it: the default is then mount"
        yield _complaint("weights.deliver", what, hint)


def _packages(recipe: Recipe) -> Iterator[Issue]:
    if recipe.endpoint.network_isolation and recipe.requirements is not None:
        what = f"the server installs these when it starts, but {_CUT}"
        yield _complaint("requirements", what, "use an image that contains them: container.image")


def _hub_ids(recipe: Recipe) -> Iterator[Issue]:
    if not recipe.endpoint.network_isolation:
        return
    for name, value in recipe.options:
        if name in _HUB_OPTIONS and _HUB_ID.fullmatch(value):
            yield _complaint(f"options.{name}", f"{value} would be downloaded from the Hub, but {_CUT}", "")
    for name, value in recipe.container.environment:
        if name == "HF_ENDPOINT" or value.startswith(("s3://", "hf://")):
            what = f"{quoted(value)} is an address, but {_CUT}"
            yield _complaint(f"container.environment.{name}", what, "omit it")


def _complaint(path: str, what: str, hint: str) -> Issue:
    return Issue(path=path, what=what, hint=hint, depends_on=("endpoint.network_isolation",))


RULES: tuple[Rule, ...] = (_delivery, _packages, _hub_ids)
