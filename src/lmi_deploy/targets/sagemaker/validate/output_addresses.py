"""Where SageMaker writes captured requests and responses, and those of asynchronous endpoints."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from lmi_deploy.domain.default_bucket import account_of
from lmi_deploy.domain.recipe_keys import Recipe
from lmi_deploy.domain.s3_address import SCHEME, read_prefix
from lmi_deploy.recipe.checks.issue import Issue, Rule

_OURS: Final = ("artifacts", "async", "deployments", "jobs", "manifests", "weights")
"""The first folders of what `lmi` stores in its bucket, and deletes from it."""


def _captured(recipe: Recipe) -> Iterator[Issue]:
    if capture := recipe.endpoint.data_capture:
        yield from _output(recipe, "endpoint.data_capture.output", capture.output, such="captured")


def _asynchronous(recipe: Recipe) -> Iterator[Issue]:
    given = recipe.endpoint.asynchronous
    if given is not None and given.output:
        yield from _output(recipe, "endpoint.asynchronous.output", given.output, such="answers")


def _output(recipe: Recipe, key: str, address: str, *, such: str) -> Iterator[Issue]:
    place = read_prefix(address)
    folder = place.path.partition("/")[0]
    is_ours = place.bucket == recipe.endpoint.bucket or bool(account_of(place.bucket))
    if not address.startswith(SCHEME) or not place.bucket:
        yield Issue(path=key, what="is not an S3 address", hint=f"such as s3://my-bucket/{such}/")
    elif is_ours and (not folder or folder in _OURS):
        what = f"lmi keeps its own objects there, and deletes those under {', '.join(_OURS)}"
        yield Issue(path=key, what=what, hint=f"such as s3://{place.bucket}/{such}/{recipe.name}/")


RULES: tuple[Rule, ...] = (_captured, _asynchronous)
