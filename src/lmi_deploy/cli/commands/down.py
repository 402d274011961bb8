"""`lmi down`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

import click

from lmi_deploy.api.deployment_lookup import TargetOptions, find_deployment, known, ref_fields
from lmi_deploy.cli.context import CommandContext, open_context
from lmi_deploy.cli.prompts import confirm
from lmi_deploy.cli.shared_options import (
    json_option,
    lock_timeout_option,
    names_argument,
    place_options,
    yes_option,
)
from lmi_deploy.domain.plan import Estimate
from lmi_deploy.errors import Interrupted, LmiError, NotFound, Refused, StalePlan, UsageRefused
from lmi_deploy.workflows import down
from lmi_deploy.workflows.list_deployments import look_in_other_regions


@click.command("down")
@names_argument
@place_options
@click.option(
    "--purge",
    is_flag=True,
    help="Also delete its weights in the bucket, unless another deployment uses them.",
)
@click.option("--logs", is_flag=True, help="Also delete its log group in CloudWatch.")
@click.option(
    "--if-missing",
    type=click.Choice(["ok", "fail"]),
    default="ok",
    show_default=True,
    help="If there is no such deployment in any region: fail ends with 1.",
)
@lock_timeout_option
@yes_option
@json_option
def command(
    *,
    names: tuple[str, ...],
    where: TargetOptions,
    yes: bool,
    as_json: bool,
    purge: bool,
    logs: bool,
    if_missing: str,
) -> None:
    """Delete deployments, and check that nothing is left.

    On AWS, lmi deletes only resources with the deployment's tag. It keeps the weights for the next `up` (--purge
    deletes them) and the cache on this machine (`lmi cache`). If there is no such deployment, all regions are looked
    at: the exit code is 5 if it is in another one, else 0. With --yes the name is required.

    With several names or recipes, lmi shows all plans and asks once. A failure of one leaves the others alone; the exit
    code is the highest of all.
    """
    if yes and not names:
        raise UsageRefused(
            "--yes needs the name of the deployment",
            hint="run `lmi down NAME --yes` or `lmi down RECIPE --yes`; `lmi ls` lists the deployments",
        )
    context = open_context(as_json=as_json)
    ends = [_End(name) for name in dict.fromkeys(names or ("",))]
    for end in ends:
        with end.failing():
            ref = find_deployment(end.name or None, context.deps, where)
            end.teardown = down.prepare(ref, context.deps, down.TeardownScope(purge=purge, logs=logs))
            _show(end.teardown, context, yes=yes, may_miss=if_missing == "ok")
    places = [_place(one.teardown) for one in ends if one.teardown and not one.teardown.plan.empty]
    if places:
        confirm(f"Delete {' and '.join(places)}?", yes=yes)
    for end in ends:
        with end.failing():
            if end.teardown is not None and end.error is None:
                end.result = _execute_waiting(end.teardown, context, yes=yes)
    if len(ends) > 1:
        context.view.rows([end.row for end in ends], spare=("error",))
    _require_all(ends)
    results = [end.result for end in ends]
    context.view.result({"deployments": results} if len(ends) > 1 else results[0])


@dataclass(slots=True)
class _End:
    """Of one of the names; empty: the only deployment."""

    name: str
    teardown: down.TeardownPlan | None = None
    result: dict[str, Any] = field(default_factory=dict)
    error: LmiError | None = None

    @contextmanager
    def failing(self) -> Iterator[None]:
        """An error is kept, so that the other deployments go on; Ctrl-C ends the command."""
        try:
            yield
        except Interrupted:
            raise
        except LmiError as error:
            self.error = error

    @property
    def row(self) -> dict[str, Any]:
        return {
            "deployment": self.teardown.ref.name if self.teardown else self.name,
            "outcome": "failed" if self.error else "ok",
            "error": self.error.message if self.error else "",
        }


def _require_all(ends: Sequence[_End]) -> None:
    """The error with the highest exit code; of several deployments with the errors of the others."""
    errors = {end.name: end.error for end in ends if end.error is not None}
    if not errors:
        return
    worst = max(errors.values(), key=lambda error: error.exit_code)
    if len(ends) > 1:
        others = [
            f"{name}: {error.message}; {error.hint}" for name, error in errors.items() if error is not worst
        ]
        worst.details = (*others, *worst.details)
        worst.message = f"{len(errors)} of {len(ends)} not deleted: {', '.join(errors)}. {worst.message}"
    raise worst


def _show(teardown: down.TeardownPlan, context: CommandContext, *, yes: bool, may_miss: bool) -> None:
    for notice in teardown.notices:
        context.view.note(f"  {notice}")
    if teardown.plan.empty:
        _report_absent(teardown, context, may_miss=may_miss)
        return
    if yes:
        context.view.note(f"delete {_place(teardown)}")
    context.view.plan(teardown.plan, Estimate())


def _place(teardown: down.TeardownPlan) -> str:
    return f"{teardown.ref.name} ({teardown.ref.place})"


def _execute_waiting(teardown: down.TeardownPlan, context: CommandContext, *, yes: bool) -> dict[str, Any]:
    """With --yes and --lock-timeout, what another lmi has made while this one waited for it is deleted, too."""
    wait = context.deps.lock_wait
    while True:
        try:
            return _execute(teardown, context)
        except StalePlan as stale:
            if not (yes and wait.waited):
                raise
            context.view.note(f"{stale.message}; planned again")
            wait.waited = False
            teardown = down.prepare(teardown.ref, context.deps, teardown.extent)


def _execute(teardown: down.TeardownPlan, context: CommandContext) -> dict[str, Any]:
    """The result, which the user sees, too."""
    view = context.view
    context.run(down.execute(teardown, context.deps))
    remaining = down.stored_after(teardown, context.deps)
    if not teardown.plan.empty:
        view.note(f"{_place(teardown)} is deleted: lmi looked again, and found nothing more to delete")
    for one in remaining:
        view.note(f"  {one.text}")
        if one.command:
            view.note(f"    {one.command}", copied=True)
    stored = [asdict(one) for one in remaining]
    return {**ref_fields(teardown.ref), "removed": len(teardown.plan.actions), "remaining": stored}


def _report_absent(teardown: down.TeardownPlan, context: CommandContext, *, may_miss: bool) -> None:
    """Refused if it is in another region: a pipeline must not take that for deleted."""
    ref = teardown.ref
    where = "here" if ref.is_here else f"in {ref.place}"
    if teardown.notices:
        return
    others = look_in_other_regions(ref, known(context.deps), context.deps)
    if others.found:
        places = " and ".join(sorted({one.region for one in others.found}))
        raise Refused(
            f"{ref.name}: not found {where}, but it exists in {places}",
            hint=f"nothing was deleted. `{others.found[0].command('down')}` deletes it there",
        )
    missing = f"{ref.name}: not found {where}{others.words}"
    if not may_miss:
        raise NotFound(missing, hint="check the name and the region: `lmi ls --all --all-regions` lists all")
    context.view.note(missing)
