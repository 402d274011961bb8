"""How the weights get to the bucket: what a job inside AWS cannot do."""

from __future__ import annotations

from collections.abc import Iterator

from lmi_deploy.core.recipe import Recipe
from lmi_deploy.decide.hosting.complaint import Complaint, Rule


def _source(recipe: Recipe) -> Iterator[Complaint]:
    if recipe.weights.via == "job" and recipe.model_id.startswith(("/", "./", "../", "~", "s3://")):
        yield Complaint(
            path="weights.via",
            what=f"job fetches from the Hub, and {recipe.model_id} is not there",
            hint="leave it out: a folder is sent from here, and S3 copies by itself",
            beside=("model_id",),
        )


def _machines(recipe: Recipe) -> Iterator[Complaint]:
    for key, given in (("job", recipe.weights.job), ("token_secret", recipe.weights.token_secret)):
        if given is not None and recipe.weights.via != "job":
            yield Complaint(
                path=f"weights.{key}",
                what="is of no use without weights.via: job",
                hint="remove it, or write via: job",
                beside=("weights.via",),
            )


RULES: tuple[Rule, ...] = (_source, _machines)
