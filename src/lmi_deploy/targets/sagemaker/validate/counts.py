"""Numbers of environment variables and tags."""

from __future__ import annotations

from collections.abc import Iterator

from lmi_deploy.catalog import sagemaker_limits
from lmi_deploy.domain.recipe_keys import Recipe
from lmi_deploy.domain.sagemaker.tags import OWN
from lmi_deploy.engines.djl_engine import ENVIRONMENT as OUR_ENVIRONMENT
from lmi_deploy.recipe.checks.issue import Issue, Rule

OUR_TAGS = len(OWN)
"""The number of tags that lmi sets itself."""


def _environment(recipe: Recipe) -> Iterator[Issue]:
    most = sagemaker_limits.bounds("environment")[1]
    names = {name for name, _ in (*recipe.container.environment, *OUR_ENVIRONMENT)}
    if len(names) > most:
        what = (
            f"{len(names)} variables, including {', '.join((name for name, _ in OUR_ENVIRONMENT))}, which lmi "
            "sets"
        )
        yield Issue(path="container.environment", what=what, hint=f"SageMaker accepts {most}")


def _tags(recipe: Recipe) -> Iterator[Issue]:
    most = sagemaker_limits.bounds("tags")[1] - OUR_TAGS
    if len(recipe.endpoint.tags) > most:
        what = (
            f"{len(recipe.endpoint.tags)} tags; SageMaker accepts {most + OUR_TAGS}, and lmi needs {OUR_TAGS} of "
            "them"
        )
        yield Issue(path="endpoint.tags", what=what, hint=f"at most {most}")


RULES: tuple[Rule, ...] = (_environment, _tags)
