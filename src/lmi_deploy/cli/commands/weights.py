"""`lmi weights`: models in a bucket, ahead of any deployment."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import click

from lmi_deploy.api.recipe_loading import read_recipe
from lmi_deploy.cli.context import CommandContext, open_context
from lmi_deploy.cli.prompts import confirm
from lmi_deploy.cli.shared_options import json_option, recipe_argument, recipe_options, yes_option
from lmi_deploy.domain.number_text import counted, size_text
from lmi_deploy.domain.sagemaker.transfer_job import read_order
from lmi_deploy.domain.weights import BucketRequest, Manifest
from lmi_deploy.errors import IntegrityError, LmiError, NotFound, UsageRefused
from lmi_deploy.workflows import push_weights as steps

F = TypeVar("F", bound=Callable[..., Any])
_SPARE = ("compiled", "created", "files")
"""Columns that `--json` also contains, least needed first."""


def bucket_options(command: F) -> F:
    """Which bucket, as the argument `bucket_request`."""

    @functools.wraps(command)
    def with_request(*, bucket: str, region: str, profile: str, **given: Any) -> Any:
        return command(bucket_request=BucketRequest(bucket=bucket, region=region, profile=profile), **given)

    profile = click.option("--profile", default="", help="The AWS profile to use.")
    region = click.option("--region", default="", help="The region of the bucket.")
    bucket = click.option("--bucket", default="", help="The bucket.  [default: the account's default bucket]")
    return bucket(region(profile(with_request)))  # type: ignore[return-value]


@click.group("weights")
def command() -> None:
    """Manage weights in a bucket: transfer them before a deployment, list, verify, copy and remove them.

    Weights are content-addressed: two recipes with the same files share them, and they are either complete or absent.
    """


@command.command("push", short_help="Transfer the weights of a recipe to the bucket.")
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
    bucket_request: BucketRequest,
    create_bucket: bool,
    as_json: bool,
) -> None:
    """Transfer the weights of RECIPE to the bucket, except files that are already there.

    lmi streams files from the Hub to S3 without storing them on disk, and verifies each against the Hub's own hash
    before it becomes an object. Run an interrupted push again to continue it.
    """
    context = open_context(as_json=as_json)
    read = read_recipe(recipe, overlay=overlay, sets=sets, deploying=False)
    bucket_request = replace(bucket_request, create=create_bucket)
    store = context.deps.weights(steps.bucket_of(read, bucket_request), read.weights.memory_mb)
    selection = steps.choose_weights(read, context.deps)
    count = f"{len(selection.weights.files)} files, {size_text(selection.weights.size)}"
    context.view.note(f"{count}: {store.address(selection.name)}")
    for each in selection.weights.additional:
        words = f"{each.title}: {len(each.files)} files, {size_text(each.size)}"
        context.view.note(f"{words}: {store.address(each.weights_name)}")
    manifest, *additional = context.outcome(steps.push(read, selection, store, context.deps))
    if advice := store.advice():
        context.view.note(advice)
    also = [_fields(each, store) for each in additional]
    fields = {**_fields(manifest, store), **({"additional": also} if also else {})}
    context.view.result(fields, store.address(manifest.name))


@command.command("ls", short_help="List the weights in the bucket.")
@bucket_options
@json_option
def ls(*, bucket_request: BucketRequest, as_json: bool) -> None:
    """List the weights in the bucket, their sizes, and the deployments that use them."""
    context, store = _open(bucket_request, as_json=as_json)
    used = store.references()
    errors: dict[str, LmiError] = {}
    found = store.all(errors.__setitem__)
    has_results = any(m.compiled for m in found)
    rows = [
        {
            **_row(m),
            **({"compiled": m.compiled} if has_results else {}),
            "used_by": ", ".join(used.get(m.name, ())),
        }
        for m in found
    ]
    context.view.rows(rows, spare=_SPARE)
    context.view.note(f"{counted(len(found), 'model')} in {store.where}")
    if errors:
        raise IntegrityError(
            f"{counted(len(errors), 'manifest')} in {store.where} cannot be read: {', '.join(errors)}",
            hint="; ".join(dict.fromkeys(error.hint for error in errors.values())),
            details=[error.message for error in errors.values()],
        )
    context.view.result({"weights": len(found), "bytes": sum(m.size for m in found)})


@command.command("verify", short_help="Check weights by size and checksum.")
@click.argument("name")
@bucket_options
@click.option("--deep", is_flag=True, help="Read every byte and compare its sha256.")
@json_option
def verify(*, name: str, bucket_request: BucketRequest, deep: bool, as_json: bool) -> None:
    """Check weights by size and S3's checksums, or with --deep by hashing every byte."""
    context, store = _open(bucket_request, as_json=as_json)
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
@click.option(
    "--versions",
    is_flag=True,
    help="In a versioned bucket: delete every version for ever; also of weights that were removed (by full name).",
)
@yes_option
@json_option
def rm(*, name: str, bucket_request: BucketRequest, versions: bool, yes: bool, as_json: bool) -> None:
    """Remove weights that no deployment uses."""
    context, store = _open(bucket_request, as_json=as_json)
    try:
        manifest = store.find(name)
    except NotFound:
        if not versions:
            raise
        question = f"Remove every version of {name}?"
    else:
        name = manifest.name
        question = f"Remove {name} ({size_text(manifest.size)}){' with every version' if versions else ''}?"
    confirm(question, yes=yes)
    removed = store.remove(name, versions=versions)
    context.view.note(removed.words)
    context.view.result({"name": name, "bytes": removed.size, "versions_kept": removed.versions_kept})


@command.command("copy", short_help="Copy weights to another bucket, inside S3.")
@click.argument("name")
@bucket_options
@click.option("--to-bucket", required=True, help="The bucket to copy to.")
@click.option("--to-region", default="", help="The region of that bucket.")
@json_option
def copy(*, name: str, bucket_request: BucketRequest, to_bucket: str, to_region: str, as_json: bool) -> None:
    """Copy weights to another bucket, in any region. S3 copies them; no byte passes through this machine."""
    context, origin = _open(bucket_request, as_json=as_json)
    target = context.deps.weights(replace(bucket_request, bucket=to_bucket, region=to_region), None)
    manifest = origin.find(name)
    copied = context.outcome(steps.copy(manifest, origin, target, context.deps.clock))
    context.view.result(_fields(copied, target), target.address(copied.name))


@command.command("job", hidden=True)
@click.argument("order", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("resources", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@json_option
def job(*, order: Path, resources: Path, as_json: bool) -> None:
    """Transfer this instance's files of ORDER; RESOURCES is SageMaker's resourceconfig.json."""
    from lmi_deploy.composition.transfer_job import open_order

    context = open_context(as_json=as_json)
    required = _read(order, read_order)
    number, count = _read(resources, _place)
    weights, source = open_order(required)
    manifests = context.outcome(weights.push_shard(required, source, number=number, count=count, key="job"))
    state = "complete" if all(manifests) else "this part is done; other parts are still running"
    context.view.result({"job": required.job, "complete": all(manifests)}, state)


def _read(path: Path, reader: Any) -> Any:
    try:
        return reader(path.read_text("utf-8"))
    except ValueError as exc:
        raise UsageRefused(
            f"{path}: {exc}", hint="SageMaker starts this command; use `lmi weights push`"
        ) from exc


def _place(text: str) -> tuple[int, int]:
    found = json.loads(text)
    try:
        hosts = sorted(found["hosts"], key=lambda host: (len(host), host))
        return hosts.index(found["current_host"]), len(hosts)
    except (KeyError, TypeError) as exc:
        raise ValueError(f"not a resource configuration: {exc}") from exc


def _open(bucket_request: BucketRequest, *, as_json: bool) -> tuple[CommandContext, steps.WeightsStore]:
    context = open_context(as_json=as_json)
    return context, context.deps.weights(bucket_request, None)


def _row(manifest: Manifest) -> dict[str, Any]:
    return {
        "name": manifest.name,
        "files": len(manifest.files),
        "size": manifest.size,
        "created": manifest.created,
    }


def _fields(manifest: Manifest, store: steps.WeightsStore) -> dict[str, Any]:
    compiled = {"compiled": manifest.compiled} if manifest.compiled else {}
    return {**_row(manifest), "address": store.address(manifest.name), "commit": manifest.commit, **compiled}
