"""`lmi weights`: models in a bucket, ahead of any deployment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from lmi_deploy.cli.commands.weights_job import job
from lmi_deploy.cli.context import CommandContext, open_context
from lmi_deploy.cli.options import json_option, recipe_argument, recipe_options, yes_option
from lmi_deploy.cli.prompts import confirm
from lmi_deploy.cli.recipe_loading import read_recipe
from lmi_deploy.domain.number_text import counted, size_text
from lmi_deploy.domain.weights import BucketRequest, Manifest
from lmi_deploy.errors import IntegrityError
from lmi_deploy.workflows import weights as steps

F = TypeVar("F", bound=Callable[..., Any])
_SPARE = ("created", "files")
"""Columns that `--json` also contains, least needed first."""


def bucket_options(command: F) -> F:
    """Which bucket."""
    command = click.option("--profile", default="", help="The AWS profile to use.")(command)
    command = click.option("--region", default="", help="The region of the bucket.")(command)
    return click.option("--bucket", default="", help="The bucket.  [default: the account's default bucket]")(
        command
    )


@click.group("weights")
def command() -> None:
    """Manage weights in a bucket: transfer them before a deployment, list, verify, copy and remove them.

    Weights are content-addressed: two recipes with the same files share them, and they are either complete or absent.
    """


@command.command("push")
@recipe_argument
@recipe_options
@bucket_options
@click.option(
    "--create-bucket", is_flag=True, help="Create the account's default bucket if it does not exist."
)
@json_option
def push(
    *,
    recipe: str | None,
    overlay: str | None,
    sets: tuple[str, ...],
    bucket: str,
    region: str,
    profile: str,
    create_bucket: bool,
    as_json: bool,
) -> None:
    """Transfer the weights of RECIPE to the bucket, without the files that are already there.

    lmi streams files from the Hub to S3 without storing them on disk, and verifies each against the Hub's own hash
    before it becomes an object. Run an interrupted push again to continue it.
    """
    context = open_context(as_json=as_json)
    read = read_recipe(recipe, overlay=overlay, sets=sets, deploying=False)
    bucket_request = BucketRequest(bucket=bucket, region=region, profile=profile, create=create_bucket)
    store = context.deps.weights(steps.bucket_of(read, bucket_request), read.weights.memory_mb)
    selection = steps.choose_weights(read, context.deps)
    count = f"{len(selection.weights.files)} files, {size_text(selection.weights.size)}"
    context.view.note(f"{count}: {store.address(selection.name)}")
    manifest = context.outcome(steps.push(read, selection, store, context.deps))
    if advice := store.advice():
        context.view.note(advice)
    context.view.result(_fields(manifest, store), store.address(manifest.name))


@command.command("ls")
@bucket_options
@json_option
def ls(*, bucket: str, region: str, profile: str, as_json: bool) -> None:
    """List the weights in the bucket, their sizes, and the deployments that use them."""
    context, store = _open(bucket, region, profile, as_json=as_json)
    used = store.references()
    found = store.all()
    context.view.rows([{**_row(m), "used_by": used.get(m.name, "")} for m in found], spare=_SPARE)
    context.view.note(f"{counted(len(found), 'model')} in {store.where}")
    context.view.result({"weights": len(found), "bytes": sum(m.size for m in found)})


@command.command("verify")
@click.argument("name")
@bucket_options
@click.option("--deep", is_flag=True, help="Read every byte and compare its sha256.")
@json_option
def verify(*, name: str, bucket: str, region: str, profile: str, deep: bool, as_json: bool) -> None:
    """Verify weights by size and S3's checksums, or with --deep by hashing every byte."""
    context, store = _open(bucket, region, profile, as_json=as_json)
    manifest = store.find(name)
    issues = context.outcome(store.verify(manifest, deep=deep, key="verify"))
    if issues:
        raise IntegrityError(
            f"{manifest.name}: {len(issues)} of {len(manifest.files)} files differ from the manifest",
            hint="remove it with `lmi weights rm`, then push again",
            details=[f"{issue.path}: {issue.why}" for issue in issues],
        )
    context.view.result({**_fields(manifest, store), "intact": True}, f"{manifest.name}: intact")


@command.command("rm")
@click.argument("name")
@bucket_options
@yes_option
@json_option
def rm(*, name: str, bucket: str, region: str, profile: str, yes: bool, as_json: bool) -> None:
    """Remove weights that no deployment uses."""
    context, store = _open(bucket, region, profile, as_json=as_json)
    manifest = store.find(name)
    confirm(f"Remove {manifest.name} ({size_text(manifest.size)})?", yes=yes)
    freed = store.remove(manifest.name)
    context.view.note(f"freed {size_text(freed)}")
    context.view.result({"name": manifest.name, "bytes": freed})


@command.command("copy")
@click.argument("name")
@bucket_options
@click.option("--to-bucket", required=True, help="Where to.")
@click.option("--to-region", default="", help="Its region.")
@json_option
def copy(
    *, name: str, bucket: str, region: str, profile: str, to_bucket: str, to_region: str, as_json: bool
) -> None:
    """Copy weights to another bucket, in any region, inside S3: no byte passes through this machine."""
    context, origin = _open(bucket, region, profile, as_json=as_json)
    target = context.deps.weights(BucketRequest(bucket=to_bucket, region=to_region, profile=profile), None)
    manifest = origin.find(name)
    copied = context.outcome(steps.copy(manifest, origin, target, context.deps.clock))
    context.view.result(_fields(copied, target), target.address(copied.name))


command.add_command(job)


def _open(bucket: str, region: str, profile: str, *, as_json: bool) -> tuple[CommandContext, steps.Weights]:
    context = open_context(as_json=as_json)
    return context, context.deps.weights(BucketRequest(bucket=bucket, region=region, profile=profile), None)


def _row(manifest: Manifest) -> dict[str, Any]:
    return {
        "name": manifest.name,
        "files": len(manifest.files),
        "size": manifest.size,
        "created": manifest.created,
    }


def _fields(manifest: Manifest, store: steps.Weights) -> dict[str, Any]:
    return {**_row(manifest), "address": store.address(manifest.name), "commit": manifest.commit}
