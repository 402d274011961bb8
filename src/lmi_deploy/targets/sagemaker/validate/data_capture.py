"""Where SageMaker writes captured requests and responses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from lmi_deploy.domain.default_bucket import account_of
from lmi_deploy.domain.recipe_keys import Recipe
from lmi_deploy.domain.s3_address import SCHEME, read_prefix
from lmi_deploy.recipe.checks.issue import Issue, Rule

_OURS: Final = ("artifacts", "deployments", "jobs", "manifests", "weights")
"""The first folders of what `lmi` stores in its bucket, and deletes from it."""
_KEY: Final = "endpoint.data_capture.output"


def _output(recipe: Recipe) -> Iterator[Issue]:
    capture = recipe.endpoint.data_capture
    if capture is None:
        return
    place = read_prefix(capture.output)
    folder = place.path.partition("/")[0]
    is_ours = place.bucket == recipe.endpoint.bucket or bool(account_of(place.bucket))
    if not capture.output.startswith(SCHEME) or not place.bucket:
        yield Issue(path=_KEY, what="is not an S3 address", hint="such as s3://my-bucket/captured/")
    elif is_ours and (not folder or folder in _OURS):
        what = f"lmi keeps its own objects there, and deletes those under {', '.join(_OURS)}"
        yield Issue(path=_KEY, what=what, hint=f"such as s3://{place.bucket}/captured/{recipe.name}/")


RULES: tuple[Rule, ...] = (_output,)
