"""`lmi bootstrap`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import click

from lmi_deploy.api.recipe_loading import read_recipe
from lmi_deploy.cli.context import CommandContext, open_context
from lmi_deploy.cli.prompts import confirm
from lmi_deploy.cli.shared_options import json_option, recipe_argument, recipe_options, yes_option
from lmi_deploy.cli.shared_policies import shared_option, shared_prefix
from lmi_deploy.domain.role_setup import ObservedSetup, SetupStep, WantedSetup, removal_steps, setup_steps
from lmi_deploy.errors import Refused, UsageRefused
from lmi_deploy.targets.sagemaker.permissions.bootstrap_policy import bootstrap_policy
from lmi_deploy.targets.sagemaker.permissions.pipeline_identity import EXAMPLE, parse_pipeline
from lmi_deploy.targets.sagemaker.permissions.rights_in_use import rights_in_use
from lmi_deploy.targets.sagemaker.permissions.team_setup import (
    UnneededRight,
    not_needed,
    team_setup,
    with_rights_in_use,
    with_what_is_allowed,
)
from lmi_deploy.workflows.bootstrap import (
    carry_out,
    deployments_of,
    generations_of,
    observe,
    refuse_foreign,
    require_unused,
    with_cost,
)
from lmi_deploy.workflows.up import resolve_recipe

if TYPE_CHECKING:
    from lmi_deploy.domain.deployment_spec import Spec
    from lmi_deploy.domain.record import DeploymentRef
    from lmi_deploy.ui.view import View


@click.command("bootstrap")
@recipe_argument
@recipe_options
@shared_option
@click.option(
    "--pipeline", metavar="REPOSITORY", help=f"Let a pipeline deploy, without access keys: {EXAMPLE}."
)
@click.option("--policy", is_flag=True, help="Only print the policy that this command itself needs.")
@click.option("--delete", is_flag=True, help="Delete the roles and policies that this command created.")
@click.option(
    "--prune",
    is_flag=True,
    help="Remove what the policies allow and neither RECIPE nor a running deployment needs.",
)
@yes_option
@json_option
def command(
    *,
    recipe: str | None,
    overlay: str | None,
    sets: tuple[str, ...],
    shared: str | None,
    pipeline: str | None,
    policy: bool,
    delete: bool,
    prune: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Create what RECIPE needs in a new AWS account: bucket, roles and policies.

    It shows each change and asks before the first one. It needs an identity that may create roles; afterwards, `lmi up`
    works with the permissions of the policy lmi-NAME-REGION-deployer alone. Running it again repairs what is missing or
    differs. Roles keep, or get back, what the deployments that run with them need, in every region. What else the
    policies allow stays, as other deployments may need it; --prune removes it. It never changes who may assume a role
    that it did not create. --delete keeps the bucket, with the weights in it, and the identity provider of a pipeline,
    which other roles may use.
    """
    if delete and prune:
        raise UsageRefused("--delete and --prune cannot be combined", hint="lmi bootstrap --help")
    context = open_context(as_json=as_json)
    read = read_recipe(recipe, overlay=overlay, sets=sets)
    prefix = shared_prefix(read, shared)
    identity = parse_pipeline(pipeline) if pipeline else None
    spec = resolve_recipe(read, context.deps).spec
    wanted = team_setup(spec, prefix=prefix, pipeline=identity)
    if policy:
        document = bootstrap_policy(spec, wanted, prefix=prefix).document
        context.view.result({"bootstrap": document}, json.dumps(document, indent=2))
        return
    cloud = context.deps.cloud(spec.cloud.region)
    observed = observe(wanted, cloud)
    existing = deployments_of(spec.name, prefix, context.deps, context.view.note)
    unneeded: list[UnneededRight] = []
    if delete:
        require_unused(wanted, cloud, [with_cost(ref, context.deps) for ref in existing])
        steps = [*removal_steps(wanted, observed)]
    else:
        wanted, unneeded = _with_rights(wanted, observed, existing, context, prune=prune)
        refuse_foreign(wanted, observed)
        steps = [*setup_steps(wanted, observed)]
    _ask(steps, context.view, sign="-" if delete else "+", account=spec.cloud.account, yes=yes)
    for done in carry_out(steps, wanted, cloud):
        context.view.note(f"done: {done.text}")
    for line in () if delete else _next(wanted, spec, is_kept=bool(unneeded) and not prune):
        context.view.note(line)
    more = {"deleted": delete, "pruned": prune, "not_needed": [each._asdict() for each in unneeded]}
    context.view.result({**_fields(wanted, steps, spec), **more})


def _with_rights(
    wanted: WantedSetup,
    observed: ObservedSetup,
    existing: Sequence[DeploymentRef],
    context: CommandContext,
    *,
    prune: bool,
) -> tuple[WantedSetup, list[UnneededRight]]:
    """With the rights of what runs, and without `prune` all that is allowed already; and what is more than needed."""
    view, deps = context.view, context.deps
    in_use = rights_in_use(generations_of(existing, deps, _refuse if prune else view.note))
    needed = with_rights_in_use(wanted, observed, in_use)
    unneeded = [*not_needed(needed, observed)]
    for policy, statement in unneeded:
        view.note(f"{'-' if prune else 'kept, though this recipe does not need it:'} {policy}: {statement}")
    if prune:
        for ref in existing if unneeded else ():
            view.note(f"may need it: {with_cost(ref, deps)}")
        return needed, unneeded
    if unneeded:
        view.note("other deployments may need it; --prune removes what nothing that runs needs")
    return with_rights_in_use(with_what_is_allowed(wanted, observed), observed, in_use), unneeded


def _refuse(unknown: str) -> None:
    raise Refused(
        f"{unknown}; --prune could remove what it needs",
        hint="read it with other credentials, or leave --prune out: nothing was changed",
    )


def _ask(steps: Sequence[SetupStep], view: View, *, sign: str, account: str, yes: bool) -> None:
    for step in steps:
        view.note(f"{sign} {step.text}")
    if not steps:
        view.note("nothing to delete" if sign == "-" else "everything is set up")
        return
    changes = "this change" if len(steps) == 1 else f"these {len(steps)} changes"
    confirm(f"Make {changes} in account {account}?", yes=yes)


def _fields(wanted: WantedSetup, steps: Sequence[SetupStep], spec: Spec) -> Mapping[str, object]:
    return {
        "account": spec.cloud.account,
        "changes": [{"change": step.change, "of": step.subject, "policy": step.policy} for step in steps],
        "bucket": wanted.bucket,
        "roles": {role.name: _arn(role.path + role.name, spec) for role in wanted.roles},
        "deployer_policy": wanted.policy.arn if wanted.policy else "",
    }


def _next(wanted: WantedSetup, spec: Spec, *, is_kept: bool) -> Iterator[str]:
    if wanted.policy is not None:
        yield "Let a person deploy:"
        yield f"  aws iam attach-user-policy --user-name YOUR-USER --policy-arn {wanted.policy.arn}"
    elif wanted.provider is None:
        yield (
            "The deployer's policy is too long for a managed policy, and was not written. Add it to your role as an "
            "inline policy, which may be longer: `lmi iam` prints the command. Or run `lmi bootstrap` again with "
            "--shared PREFIX: one policy for all deployments whose names start with PREFIX"
            f"{', or with --prune, if nothing that runs needs what is kept' if is_kept else ''}."
        )
    if wanted.provider is not None:
        role = wanted.roles[-1]
        yield f"The role of the pipeline: {_arn(role.path + role.name, spec)} (`lmi docs run-in-ci`)"


def _arn(path: str, spec: Spec) -> str:
    return f"arn:{spec.cloud.partition}:iam::{spec.cloud.account}:role{path}"
