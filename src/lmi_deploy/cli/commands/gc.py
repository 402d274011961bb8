"""`lmi gc`: delete what interrupted runs left in an account and in a bucket, and what has expired."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import timedelta

import click

from lmi_deploy.cli.commands.weights import bucket_options
from lmi_deploy.cli.context import CommandContext, open_context
from lmi_deploy.cli.prompts import can_ask, confirm
from lmi_deploy.cli.shared_options import json_option, yes_option
from lmi_deploy.domain.deployment_list import OrphanedDeployment
from lmi_deploy.domain.number_text import counted
from lmi_deploy.domain.record import DeploymentRef
from lmi_deploy.domain.sagemaker.expiry import duration_text
from lmi_deploy.domain.weights import BucketRequest
from lmi_deploy.errors import (
    AccessError,
    DeployFailed,
    Interrupted,
    LmiError,
    NotFound,
    Refused,
    UsageRefused,
)
from lmi_deploy.workflows import down
from lmi_deploy.workflows.extend import read_duration
from lmi_deploy.workflows.idle import IDLE, idle_deployments, in_use
from lmi_deploy.workflows.list_deployments import AT_ONCE


@click.command("gc")
@bucket_options
@click.option(
    "--older-than",
    default=24.0,
    show_default=True,
    help="Only uploads without a new part for this many hours; 0: all.",
)
@click.option(
    "--deployments/--no-deployments", default=True, help="Also look for expired deployments and orphans."
)
@click.option(
    "--idle",
    metavar="DURATION",
    help="Instead: delete deployments in AWS without a request for so long (15m to 63d), by CloudWatch's metrics.",
)
@click.option("--all-regions", is_flag=True, help="In every region that is enabled for the account.")
@yes_option
@json_option
def command(
    *,
    bucket_request: BucketRequest,
    older_than: float,
    deployments: bool,
    all_regions: bool,
    idle: str | None,
    yes: bool,
    as_json: bool,
) -> None:
    """Find and remove expired deployments and leftovers of interrupted runs.

    In the account: deployments that have expired (`ttl`, `lmi extend`), and resources with the tag of lmi but without
    a record or an endpoint. In the bucket: incomplete uploads, and objects without a manifest. lmi checks only
    resources with its tag and objects under its prefixes. It lists all of them before it asks you.
    """
    if all_regions and (idle or bucket_request.bucket or bucket_request.region):
        raise UsageRefused(
            "--all-regions: it goes with neither --idle, --bucket nor --region", hint="omit one of them"
        )
    context = open_context(as_json=as_json)
    if idle:
        _idle(context, bucket_request, idle, yes=yes)
        return
    requests = [bucket_request]
    if all_regions:
        deps = context.deps.for_profile(bucket_request.profile) if bucket_request.profile else context.deps
        requests = [replace(bucket_request, region=region) for region in deps.cloud("").account.regions()]
    ended = CleanupResult()
    if deployments:
        _deployments(context, [request.region for request in requests], ended, yes=yes)
    kept = (
        f"no leftover was removed; {counted(ended.count, 'deployment')} deleted before"
        if ended.count
        else "nothing was changed"
    )
    freed = sum(_bucket(context, request, older_than, yes=yes, kept=kept) for request in requests)
    ended.require_all(freed)
    context.view.result({"freed": freed, "ended": ended.count, "kept": ended.skipped})


@dataclass
class CleanupResult:
    """The results for the deployments that were to be deleted."""

    count: int = 0
    skipped: list[str] = field(default_factory=list)
    """Those that are in use after all."""
    failed: dict[str, LmiError] = field(default_factory=dict)
    unlisted: dict[str, LmiError] = field(default_factory=dict)
    """Regions whose deployments could not be listed."""

    def require_all(self, freed: int) -> None:
        """A summary error with the most serious exit code: Refused if all of them were refused."""
        if self.unlisted and not self.failed:
            raise AccessError(
                f"{counted(len(self.unlisted), 'region')} could not be listed: {', '.join(self.unlisted)}",
                hint="fix the reasons above, then run `lmi gc` again",
                details=[f"{region}: {error.message}" for region, error in self.unlisted.items()],
            )
        if not self.failed:
            return
        refused = all(isinstance(error, Refused) for error in self.failed.values())
        done = f"{counted(self.count, 'deployment')} deleted, {counted(freed, 'leftover')} removed"
        raise (Refused if refused else DeployFailed)(
            f"{counted(len(self.failed), 'deployment')} could not be deleted: {', '.join(self.failed)}; {done}",
            hint="fix the reasons above, then run `lmi gc` again",
            details=[
                f"{name}: {error.message.removeprefix(f'{name}: ')}" for name, error in self.failed.items()
            ],
        )


def _deployments(context: CommandContext, regions: Sequence[str], ended: CleanupResult, *, yes: bool) -> None:
    """A region that cannot be listed does not hide the others; the only one that was asked for is an error."""

    def listed(region: str) -> list[OrphanedDeployment] | LmiError:
        try:
            return [one for target in context.deps.targets.values() for one in target.list_orphans(region)]
        except LmiError as error:
            if len(regions) == 1:
                raise
            return error

    found = []
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for region, orphans in zip(regions, pool.map(listed, regions), strict=True):
            if isinstance(orphans, LmiError):
                context.view.note(f"  {region}: not listed: {orphans.message}")
                ended.unlisted[region] = orphans
            else:
                found += [one for one in orphans if one not in found]
    context.view.rows(
        [
            {"name": one.ref.name, "region": one.ref.region, "resources": one.resources, "why": one.why}
            for one in found
        ],
        spare=("resources", "region"),
    )
    jobs = [one.ref for one in found if one.jobs_only]
    whole = [one.ref for one in found if not one.jobs_only]
    if found:
        words = [counted(len(whole), "deployment")] * bool(whole) + [counted(len(jobs), "job")] * bool(jobs)
        confirm(f"Delete {' and '.join(words)}?", yes=yes)
    _end_each(context, whole, down.TeardownScope(unattended=True), ended)
    _end_each(context, jobs, down.TeardownScope(jobs_only=True), ended)


def _idle(context: CommandContext, request: BucketRequest, duration: str, *, yes: bool) -> None:
    window = timedelta(seconds=read_duration(duration, IDLE))
    deps = context.deps.for_profile(request.profile) if request.profile else context.deps
    context = CommandContext(context.view, deps)
    found = idle_deployments(request.region, window, deps)
    context.view.rows(
        [
            {
                "name": one.ref.name,
                "region": one.ref.region,
                "age": duration_text(int(one.age.total_seconds()) // 60 * 60),
                "why": f"no request for {duration}",
            }
            for one in found
        ],
        spare=("region",),
    )
    ended, listed_only = CleanupResult(), not yes and not can_ask()
    if not found:
        context.view.note(
            f"every endpoint of lmi had a request, a change or its creation in the last {duration}"
        )
    elif listed_only:
        context.view.note("nothing was deleted: there is no terminal to ask; --yes deletes these deployments")
    else:
        confirm(f"Delete {counted(len(found), 'deployment')}?", yes=yes)
        scope = down.TeardownScope(in_use=lambda observed: in_use(observed, window, deps))
        _end_each(context, [one.ref for one in found], scope, ended)
    ended.require_all(0)
    context.view.result({"idle": len(found), "ended": ended.count, "kept": ended.skipped})


def _end_each(
    context: CommandContext,
    refs: Sequence[DeploymentRef],
    scope: down.TeardownScope,
    ended: CleanupResult,
) -> None:
    for ref in refs:
        try:
            _end(context, ref, ended, scope)
        except Interrupted:
            raise
        except LmiError as error:
            context.view.note(f"  {ref.name}: not deleted: {error.message}")
            ended.failed[ref.name] = error


def _end(
    context: CommandContext, ref: DeploymentRef, ended: CleanupResult, scope: down.TeardownScope
) -> None:
    """Its own tags are checked again under its lock: it may be in use after all."""
    teardown = down.prepare(ref, context.deps, scope)
    for notice in teardown.notices:
        context.view.note(f"  {notice}")
    context.run(down.execute(teardown, context.deps))
    if scope.jobs_only:
        return
    if context.deps.targets[ref.target].observe_all(ref).exists:
        ended.skipped.append(ref.name)
    else:
        ended.count += 1


def _bucket(
    context: CommandContext, bucket_request: BucketRequest, older_than: float, *, yes: bool, kept: str
) -> int:
    try:
        store = context.deps.weights(bucket_request, None)
    except NotFound as none:
        if bucket_request.bucket:
            raise
        context.view.note(f"{none.message}: no leftovers")
        return 0
    before = context.deps.clock.now() - timedelta(hours=older_than)
    found = store.orphans(before=before)
    context.view.rows([dataclasses.asdict(one) for one in found])
    if not found:
        context.view.note(f"no leftovers older than {older_than:g} h in {store.where}")
    else:
        confirm(f"Remove {counted(len(found), 'leftover')}?", yes=yes, kept=kept)
        store.clear(before=before)
    return len(found)
