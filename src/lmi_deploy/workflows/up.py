"""Recipe to answering deployment: `plan` is `up` stopped before `apply`."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

from lmi_deploy.domain.action import Phase
from lmi_deploy.domain.deployment_artifact import Artifact
from lmi_deploy.domain.deployment_spec import CandidateSpec, Spec
from lmi_deploy.domain.events import Event, Notice
from lmi_deploy.domain.gathered_facts import CloudFacts, CompiledModel, Facts
from lmi_deploy.domain.local_actions import BuildEnvironment, BuildImage, FetchWeights
from lmi_deploy.domain.recipe_keys import Recipe
from lmi_deploy.domain.sagemaker.actions import PushWeights
from lmi_deploy.domain.sagemaker.component_actions import CreateSharedEndpoint, DeleteSharedEndpoint
from lmi_deploy.domain.sagemaker.scaling_actions import SetInstanceCount
from lmi_deploy.errors import (
    DeployFailed,
    LmiError,
    NoCapacity,
    NoCredentials,
    NotCompiled,
    QuotaExceeded,
    SharedEndpointGone,
    UsageRefused,
)
from lmi_deploy.planning.adapter_checks import adapter_notes
from lmi_deploy.planning.additional_models import with_adapter_options
from lmi_deploy.planning.model_compatibility import ModelReview
from lmi_deploy.planning.render import render
from lmi_deploy.planning.resolve import resolve
from lmi_deploy.planning.stale_plan_check import require_agreed
from lmi_deploy.recipe.checks.notices import notices as recipe_notices
from lmi_deploy.sizing.longest_context import USUAL_REGION
from lmi_deploy.targets.model_compiler import ModelCompiler
from lmi_deploy.workflows.apply import apply
from lmi_deploy.workflows.dependencies import Dependencies
from lmi_deploy.workflows.deploy import AS_USUAL, DeployOptions, deploy, send_probe
from lmi_deploy.workflows.deployment_lock import locked
from lmi_deploy.workflows.deployment_plan import DeploymentPlan, make_plan
from lmi_deploy.workflows.fit import require_fit
from lmi_deploy.workflows.gather_facts import gather, gather_model
from lmi_deploy.workflows.handler_dry_run import NoJournal
from lmi_deploy.workflows.handler_validation import check_own_code
from lmi_deploy.workflows.hardware_selection import choose_instance
from lmi_deploy.workflows.model_validation import review_with_draft
from lmi_deploy.workflows.price_refresh import price_table
from lmi_deploy.workflows.region_fallback import leave_region, prepare_in_regions
from lmi_deploy.workflows.safetensors_headers import gathered_checkpoint

_SHARED_ENDPOINT = (CreateSharedEndpoint, DeleteSharedEndpoint)
"""Other deployments create and delete it between a plan and the lock of this one, and may have made it smaller."""
_GONE_AGAIN: Final = 5
"""How often an `up` creates a shared endpoint again that others delete."""
_NO_ACCOUNT: Final = "000000000000"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedRecipe:
    """A recipe with the facts it needs, and without a choice that is left."""

    recipe: Recipe
    facts: Facts
    spec: Spec
    of_instance: tuple[str, ...]
    """Why it is this instance type, and warnings of its price; empty if the recipe names its types."""
    candidate: ResolvedRecipe | None = None
    """What `endpoint.candidate` names, in the same way."""


def resolve_recipe(recipe: Recipe, deps: Dependencies) -> ResolvedRecipe:
    """Reads the model's repository and the account; of what is deployed the instance type alone, for `auto`."""
    resolved = _resolve_version(recipe, deps)
    given = recipe.endpoint.candidate
    if recipe.candidate is None or given is None:
        return resolved
    with of_candidate():
        second = _resolve_version(recipe.candidate, deps)
        artifact = render(second.spec)
    candidate = CandidateSpec(
        spec=second.spec,
        artifact=artifact,
        percent=given.shadow_percent or given.traffic_percent or 0,
        shadow=given.shadow_percent is not None,
    )
    return replace(resolved, spec=replace(resolved.spec, candidate=candidate), candidate=second)


@contextmanager
def of_candidate() -> Iterator[None]:
    """Says of an error that it is about the candidate."""
    try:
        yield
    except LmiError as error:
        error.message = f"endpoint.candidate: {error.message}"
        raise


def rendered_files(recipe: Recipe, deps: Dependencies) -> Artifact:
    """The files that are deployed. They are the same in every account: without credentials, none is asked."""
    try:
        return render(resolve_recipe(recipe, deps).spec)
    except NoCredentials:
        region = recipe.endpoint.region or USUAL_REGION
        cloud = CloudFacts(
            account=_NO_ACCOUNT, partition="aws", region=region, principal="", bucket=_NO_ACCOUNT
        )
        return render(_resolved(recipe, replace(gather_model(recipe, deps), cloud=cloud), deps).spec)


def _resolve_version(recipe: Recipe, deps: Dependencies) -> ResolvedRecipe:
    return _resolved(recipe, gather(recipe, deps), deps)


def _resolved(recipe: Recipe, facts: Facts, deps: Dependencies) -> ResolvedRecipe:
    recipe = with_adapter_options(recipe, facts)
    region, current = (facts.cloud.region, facts.cloud.instance) if facts.cloud else ("", "")
    recipe, of_instance = choose_instance(
        recipe, lambda: gathered_checkpoint(facts), deps, region=region, current=current
    )
    spec = resolve(recipe, facts, deps.targets[recipe.endpoint.target].place_of)
    return ResolvedRecipe(recipe=recipe, facts=facts, spec=spec, of_instance=of_instance)


def serving_result(resolved: ResolvedRecipe, deps: Dependencies) -> ResolvedRecipe:
    """Of a recipe with `compile`: with the result instead of the model's own weights. NotCompiled if there is none."""
    recipe = resolved.recipe
    if recipe.compile is None:
        return resolved
    found = compiler_for(recipe, deps).compiled(resolved.spec)
    if found is None:
        raise NotCompiled(
            f"{recipe.name}: its model is not compiled yet, and a recipe with `compile` never compiles at start-up",
            hint=f"run `lmi compile {recipe.arguments}` first; nothing was changed",
        )
    return with_result(resolved, found, deps)


def with_result(resolved: ResolvedRecipe, found: CompiledModel, deps: Dependencies) -> ResolvedRecipe:
    """With this result of a compile instead of the model's own weights."""
    facts = replace(resolved.facts, compiled=found)
    spec = resolve(resolved.recipe, facts, deps.targets[resolved.recipe.endpoint.target].place_of)
    return replace(resolved, facts=facts, spec=replace(spec, candidate=resolved.spec.candidate))


def compiler_for(recipe: Recipe, deps: Dependencies) -> ModelCompiler:
    """UsageRefused if the recipe's target compiles nothing."""
    compiler = deps.compilers.get(recipe.endpoint.target)
    if compiler is None:
        raise UsageRefused(
            f"endpoint.target: {recipe.endpoint.target} compiles no models ahead of time",
            hint="remove compile from the recipe, or use target sagemaker",
        )
    return compiler


def prepare(
    recipe: Recipe, deps: Dependencies, *, probe: bool = True, priced: bool = False, force_fit: bool = False
) -> DeploymentPlan:
    """A plan that can be carried out: raises what `preview` finds to forbid it."""
    deployment = preview(recipe, deps, probe=probe, priced=priced, force_fit=force_fit)
    deployment.require_possible()
    return deployment


def preview(
    recipe: Recipe, deps: Dependencies, *, probe: bool = True, priced: bool = False, force_fit: bool = False
) -> DeploymentPlan:
    """Everything up to the plan, and what forbids it: reads only. `priced`: with costs even if nothing is to be done.

    A plan that loads a model is refused if the model does not fit or the engine refuses it, unless `force_fit`.
    """

    def prepare_here(recipe: Recipe) -> DeploymentPlan:
        resolved = serving_result(resolve_recipe(recipe, deps), deps)
        return prepare_resolved(resolved, deps, probe=probe, priced=priced, force_fit=force_fit)

    if recipe.endpoint.regions:
        return prepare_in_regions(recipe, deps, prepare_here)
    return prepare_here(recipe)


def prepare_resolved(
    resolved: ResolvedRecipe,
    deps: Dependencies,
    *,
    probe: bool = True,
    priced: bool = False,
    force_fit: bool = False,
) -> DeploymentPlan:
    """The same, from a recipe that is resolved already."""
    recipe, facts, spec = resolved.recipe, resolved.facts, resolved.spec
    target = deps.targets[recipe.endpoint.target]
    of_code = check_own_code(recipe, spec, tried_here=target.billed)
    deployment = make_plan(spec, render(spec), deps, probe=probe, priced=priced)
    plan, estimate = deployment.plan, deployment.estimate
    loads = plan.has_action(Phase.START)
    review = _reviewed(resolved, deps, force_fit=force_fit) if loads else ModelReview()
    if not plan.empty:
        fits = require_fit(recipe, facts, price_table(deps), force=force_fit or not loads)
        estimate = estimate.plus("fit", fits)
    of_candidate_alone: tuple[str, ...] = ()
    if resolved.candidate is not None and loads:
        fits, of_candidate_alone = _check_candidate(resolved.candidate, deps, force_fit=force_fit)
        estimate = estimate.plus("candidate fit", fits)
    _require_disk_space(deployment, deps)
    deployment = replace(deployment, author=deps.who(spec.ref, recipe.origin))
    # An `up` that changes nothing asks no more than it must; `plan` and `status` look at all rights of the role.
    findings = target.preflight(spec, plan, recipe.arguments, quick=plan.empty and not priced)
    lines = (
        *target.notices(deployment.observed, plan),
        *filter(None, (deployment.other_recipe,)),
        *(of_code if any(action.starts_code for action in plan.actions) else ()),
        *target.plan_notices(recipe, facts, spec, plan),
        *resolved.of_instance,
        *deployment.notices,
        *(recipe_notices(recipe) if loads else ()),
        *review.notes,
        *(adapter_notes(recipe, facts) if loads else ()),
        *of_candidate_alone,
        *findings.notices,
    )
    return replace(
        deployment,
        estimate=estimate,
        recipe=recipe.arguments,
        notices=lines,
        refusal=findings.refusal,
    )


def _reviewed(resolved: ResolvedRecipe, deps: Dependencies, *, force_fit: bool) -> ModelReview:
    """Refused if the engine refuses the model, unless `force_fit`."""
    facts = resolved.facts
    files = [file.path for file in facts.listing.files]
    review = review_with_draft(resolved.recipe, facts.config, deps, machine=facts.machine, files=files)
    if not force_fit:
        review.require()
    return review


def _check_candidate(
    second: ResolvedRecipe, deps: Dependencies, *, force_fit: bool
) -> tuple[str, tuple[str, ...]]:
    """Whether it fits, and its notices. Refused as the version that serves would be."""
    recipe, facts = second.recipe, second.facts
    with of_candidate():
        # The last line is about a warm-up call on this machine, which only the version that serves gets.
        of_code = check_own_code(recipe, second.spec, tried_here=False)[:-1]
        review = _reviewed(second, deps, force_fit=force_fit)
        fits = require_fit(recipe, facts, price_table(deps), force=force_fit)
    lines = (*of_code, *recipe_notices(recipe), *review.notes, *adapter_notes(recipe, facts))
    return fits, tuple(f"candidate: {line}" for line in lines)


def _require_disk_space(deployment: DeploymentPlan, deps: Dependencies) -> None:
    """For what the plan stores on this machine: the weights, and a new serving environment."""
    for action in deployment.plan.actions:
        match action:
            case FetchWeights() | PushWeights(via="snapshot"):
                for listing in deployment.spec.listings:
                    if (listing.model_id, listing.commit) == (action.model_id, action.commit):
                        deps.hub(listing.model_id).require_space(listing, listing.files)
            case BuildEnvironment():
                contents = (action.packages, action.requirements, action.setup)
                deps.environments.require_space(action.environment, *contents)
            case BuildImage():
                if why := deps.images.lacking():
                    raise DeployFailed(
                        f"container.build: this machine cannot build images: {why}",
                        hint="install docker, podman or finch; or run the same command once on a machine that has "
                        "one: the image is then in ECR",
                    )
            case _:
                pass


def execute(
    deployment: DeploymentPlan, deps: Dependencies, options: DeployOptions = AS_USUAL
) -> Generator[Event, None, DeploymentPlan]:
    """Carry out the plan and probe the result. An empty plan takes no lock, and is still probed.

    Returns the plan that was carried out in the end: of a recipe with `endpoint.regions` maybe that of another region.
    """
    deployment.require_possible()
    left = _GONE_AGAIN if options.unattended else 0
    while True:
        try:
            yield from _execute(deployment, deps, options)
        except SharedEndpointGone as gone:
            if not left:
                raise
            left -= 1
            yield Notice(text=f"{gone.message}; lmi creates it again")
        except (NoCapacity, QuotaExceeded) as error:
            deployment = yield from leave_region(deployment, error, deps, most=options.max_hourly)
        else:
            return deployment


def _execute(deployment: DeploymentPlan, deps: Dependencies, options: DeployOptions) -> Iterator[Event]:
    target = deployment.target
    if deployment.plan.empty and _record_matches(deployment):
        if options.probe:
            yield from send_probe(deployment, deps)
        return
    target.remember(deployment.ref)
    # The lock and the record are stored in the bucket: it is created before them.
    bootstrap = tuple(action for action in deployment.plan.actions if action.phase is Phase.BOOTSTRAP)
    perform = target.deploy_actions(deployment.spec, deployment.artifact, deps.hub)
    yield from apply(replace(deployment.plan, actions=bootstrap), perform, NoJournal(), deps.clock)
    with locked(deployment.ref, deps):
        fresh = make_plan(
            deployment.spec, deployment.artifact, deps, probe=options.probe, before=deployment.inventory
        )
        fresh = replace(fresh, author=deployment.author)
        counts = (SetInstanceCount,) if deployment.spec.shares_endpoint else ()
        free = (*_SHARED_ENDPOINT, *counts) if options.unattended else ()
        require_agreed(deployment.plan, fresh.plan, free=free)
        new = [action for action in fresh.plan.actions if isinstance(action, free)]
        if any(action not in deployment.plan.actions for action in new):
            fresh.require_affordable(options.max_hourly)
            titles = ", ".join(action.title for action in new)
            yield Notice(text=f"the shared endpoint has changed: lmi will also {titles}")
            yield Notice(text=fresh.estimate.figure("cost"))
        yield from deploy(fresh, deps, options)


def _record_matches(deployment: DeploymentPlan) -> bool:
    """Whether the record of the current generation matches the recipe, and no other generation is pending."""
    record = deployment.observed.record
    if record is None or record.current is None or record.coming is not None:
        return False
    return record.current.serving == deployment.target.serving(deployment.spec, deployment.artifact)
