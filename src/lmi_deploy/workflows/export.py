"""Write a deployment as a stack of another tool, and put the objects that it reads into the bucket."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from lmi_deploy.domain.action import Phase
from lmi_deploy.domain.deployment_artifact import Artifact
from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.events import Event
from lmi_deploy.domain.plan import Plan
from lmi_deploy.domain.recipe_keys import Recipe
from lmi_deploy.domain.sagemaker.exported_stack import StackFormat
from lmi_deploy.domain.sagemaker.job_actions import RunTransferJob
from lmi_deploy.errors import Interrupted, UsageRefused
from lmi_deploy.planning.render import render
from lmi_deploy.planning.stale_plan_check import require_agreed
from lmi_deploy.targets.stack_exporter import StackExporter
from lmi_deploy.targets.stack_exporter import StackText as StackText
from lmi_deploy.workflows.apply import apply
from lmi_deploy.workflows.dependencies import Dependencies
from lmi_deploy.workflows.deployment_lock import locked
from lmi_deploy.workflows.fit import require_fit
from lmi_deploy.workflows.handler_dry_run import NoJournal
from lmi_deploy.workflows.handler_validation import check_own_code
from lmi_deploy.workflows.model_validation import review_with_draft
from lmi_deploy.workflows.price_refresh import price_table
from lmi_deploy.workflows.up import ResolvedRecipe, resolve_recipe, serving_result


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedExport:
    """One recipe, followed as far as its stack; `plan` is what puts the missing objects into the bucket."""

    spec: Spec
    artifact: Artifact
    exporter: StackExporter
    stack: StackText
    plan: Plan
    notices: tuple[str, ...]

    @property
    def starts_job(self) -> bool:
        """Whether the upload runs a machine that is billed."""
        return self.plan.has_action(RunTransferJob)


def prepare(
    recipe: Recipe,
    deps: Dependencies,
    stack_format: StackFormat,
    *,
    with_environment: bool = False,
    force_fit: bool = False,
) -> PreparedExport:
    """Reads only, and not what is deployed: the stack of an endpoint that another tool runs is exported again."""
    exporter = deps.exporters.get(recipe.endpoint.target)
    if exporter is None:
        raise UsageRefused(
            f"endpoint.target: {recipe.endpoint.target} cannot be exported: it has no resources of a cloud",
            hint="use target sagemaker, for example by an overlay or --set endpoint.target=sagemaker",
        )
    resolved = serving_result(resolve_recipe(recipe, deps), deps)
    spec, artifact = resolved.spec, render(resolved.spec)
    stack = exporter.export(spec, artifact, stack_format, with_environment=with_environment)
    notices = (*check_own_code(recipe, spec, tried_here=False), *resolved.of_instance)
    return PreparedExport(
        spec=spec,
        artifact=artifact,
        exporter=exporter,
        stack=stack,
        plan=exporter.upload_plan(spec, artifact, deps.hub),
        notices=(*notices, *_model_notes(resolved, deps, force_fit=force_fit)),
    )


def _model_notes(resolved: ResolvedRecipe, deps: Dependencies, *, force_fit: bool) -> tuple[str, ...]:
    """As for `lmi up`: Unresolvable if the model does not fit or its engine refuses it, unless `force_fit`."""
    facts = resolved.facts
    files = [file.path for file in facts.listing.files]
    review = review_with_draft(resolved.recipe, facts.config, deps, machine=facts.machine, files=files)
    if not force_fit:
        review.require()
    require_fit(resolved.recipe, facts, price_table(deps), force=force_fit)
    return review.notes


def upload(prepared: PreparedExport, deps: Dependencies) -> Iterator[Event]:
    """Put the missing objects into the bucket, under the deployment's lock. Run again, it continues."""
    if prepared.plan.empty:
        return
    spec, exporter = prepared.spec, prepared.exporter
    perform = exporter.upload_actions(spec, prepared.artifact, deps.hub)
    bootstrap = tuple(action for action in prepared.plan.actions if action.phase is Phase.BOOTSTRAP)
    try:
        yield from apply(replace(prepared.plan, actions=bootstrap), perform, NoJournal(), deps.clock)
        with locked(spec.ref, deps):
            fresh = exporter.upload_plan(spec, prepared.artifact, deps.hub)
            require_agreed(prepared.plan, fresh)
            yield from apply(fresh, perform, NoJournal(), deps.clock)
    except KeyboardInterrupt:
        job = f"; `{spec.ref.command('down')}` ends a job that still runs" if prepared.starts_job else ""
        raise Interrupted(
            "interrupted: the stack's objects are not complete",
            hint=f"run the same command again: it continues{job}",
        ) from None
