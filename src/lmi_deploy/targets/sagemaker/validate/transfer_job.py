"""The transfer of the weights to the bucket: what a job inside AWS cannot do."""

from __future__ import annotations

from collections.abc import Iterator

from lmi_deploy.catalog.instances import has_local_disks
from lmi_deploy.domain.recipe_keys import Recipe
from lmi_deploy.recipe.checks.issue import Issue, Rule


def _source(recipe: Recipe) -> Iterator[Issue]:
    if recipe.weights.via == "job" and recipe.model_id.startswith(("/", "./", "../", "~", "s3://")):
        yield Issue(
            path="weights.via",
            what=f"a job downloads from the Hub, but {recipe.model_id} is not on the Hub",
            hint="omit it: lmi sends a folder from this machine, and copies S3 objects inside S3",
            depends_on=("model_id",),
        )


def _machines(recipe: Recipe) -> Iterator[Issue]:
    for key, given in (("job", recipe.weights.job), ("token_secret", recipe.weights.token_secret)):
        if given is not None and recipe.weights.via != "job":
            yield Issue(
                path=f"weights.{key}",
                what="has no effect without weights.via: job",
                hint="remove it, or write via: job",
                depends_on=("weights.via",),
            )


def _encrypted(recipe: Recipe) -> Iterator[Issue]:
    """SageMaker accepts no key for a job's volumes if the instance has local disks (ProcessingClusterConfig)."""
    job, key = recipe.weights.job, recipe.endpoint.kms_key
    if key and job is not None and job.instance_type and has_local_disks(job.instance_type):
        yield Issue(
            path="weights.job.instance_type",
            what=f"{job.instance_type} has local disks, and SageMaker accepts no endpoint.kms_key for jobs on such "
            "types",
            hint="omit it, or choose a type without local disks, such as ml.m5.4xlarge",
            depends_on=("endpoint.kms_key",),
        )


RULES: tuple[Rule, ...] = (_source, _machines, _encrypted)
