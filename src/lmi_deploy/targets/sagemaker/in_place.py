"""Weights that an endpoint reads where their owner keeps them: in which buckets they may be, and notices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from lmi_deploy.domain.default_bucket import account_of
from lmi_deploy.domain.gathered_facts import Facts
from lmi_deploy.domain.number_text import counted, size_text
from lmi_deploy.domain.recipe_keys import Recipe
from lmi_deploy.domain.s3_address import Prefix
from lmi_deploy.errors import Unresolvable
from lmi_deploy.planning.file_selection import files_of

_OURS: Final = ("artifacts/", "async/", "deployments/", "jobs/", "manifests/")
"""Folders of a bucket of lmi whose objects it deletes."""


def require_outside(prefix: Prefix, bucket: str) -> None:
    """Unresolvable for objects that lmi writes, and deletes: they are no model of the user."""
    if prefix.bucket != bucket and not account_of(prefix.bucket):
        return
    if prefix.weights and prefix.bucket == bucket:
        raise Unresolvable(
            f"weights.in_place: lmi pushed {prefix.address} to this deployment's own bucket, and never copies it there",
            hint="omit weights.in_place",
        )
    if (
        not prefix.path
        or prefix.path.startswith(_OURS)
        or (prefix.path.startswith("weights/") and not prefix.weights)
    ):
        raise Unresolvable(
            f"weights.in_place: lmi keeps its own objects under {prefix.address}, and deletes them",
            hint="use a prefix that contains only the files of one model",
        )


def in_place_notices(recipe: Recipe, facts: Facts) -> Iterator[str]:
    """The container gets every object under the prefix, whether or not it needs it."""
    if facts.in_place is None:
        return
    chosen = files_of(recipe, facts.listing).files
    needed = {file.path for file in chosen}
    others = sorted(
        (file for file in facts.listing.files if file.path not in needed), key=lambda file: -file.size
    )
    size = sum(file.size for file in others)
    if size > _NOTICED:
        yield (
            f"{counted(len(others), 'object')} under {facts.in_place.address} ({size_text(size)}) "
            f"{'are' if len(others) > 1 else 'is'} not needed to serve, such as {others[0].path}; every instance "
            "downloads all objects under the prefix. To avoid this, keep the model's files under a prefix of their own"
        )


_NOTICED: Final = 100_000_000
"""Bytes below which the download hardly takes longer."""
