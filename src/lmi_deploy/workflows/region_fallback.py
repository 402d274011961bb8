"""`endpoint.regions`: where the deployment is, and the next region if one has no capacity or too small a quota."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

from lmi_deploy.domain.currency import format_price
from lmi_deploy.domain.events import Event, Notice
from lmi_deploy.domain.observed_state import Observed
from lmi_deploy.domain.recipe_keys import Recipe
from lmi_deploy.domain.record import DeploymentRef
from lmi_deploy.errors import LmiError, NoCapacity, QuotaExceeded, Refused
from lmi_deploy.workflows import down
from lmi_deploy.workflows.dependencies import Dependencies
from lmi_deploy.workflows.deployment_plan import DeploymentPlan, NextRegion

Prepare = Callable[[Recipe], DeploymentPlan]


def in_its_region(recipe: Recipe, deps: Dependencies) -> Recipe:
    """With the region in which the deployment exists; unchanged if it exists in none."""
    found = _existing(recipe, deps)
    return recipe.in_region(found.ref.region) if found else recipe


def prepare_in_regions(recipe: Recipe, deps: Dependencies, prepare: Prepare) -> DeploymentPlan:
    """In the region in which it exists, else in the first whose quota suffices. An endpoint in service stays there."""
    found = _existing(recipe, deps)
    if found is None:
        return _first_possible(recipe, _order(recipe), deps, prepare)
    recipe = recipe.in_region(found.ref.region)
    plan = prepare(recipe)
    return plan if found.serving else _with_next(plan, recipe, _order(recipe)[1:], deps, prepare)


def leave_region(
    deployment: DeploymentPlan, error: NoCapacity | QuotaExceeded, deps: Dependencies, *, most: float | None
) -> Generator[Event, None, DeploymentPlan]:
    """Delete what was created in this region, and plan for the next one. The error, if there is none, or if something
    serves here. Refused if the next one costs more than `most` an hour.
    """
    following, ref = deployment.following, deployment.ref
    observed = deployment.target.observe(ref)
    if following is None or observed.serving is not None:
        raise error
    yield Notice(text=f"{ref.region}: {error.message}")
    yield Notice(text=f"trying the recipe's next region, {following.region}; {ref.region} is cleared first")
    yield from down.execute(down.prepare(ref, deps), deps)
    for name in deployment.target.weights_named(observed):
        command = f"lmi weights rm {name} --region {ref.region}"
        yield Notice(text=f"{name} stays in the bucket in {ref.region}, to be copied; `{command}` deletes it")
    plan = following.prepare()
    plan.require_possible()
    plan.require_affordable(most)
    yield from (Notice(text=notice) for notice in plan.notices)
    yield Notice(text=f"{plan.ref.region}: {plan.estimate.figure('cost')}")
    return plan


def _order(recipe: Recipe) -> tuple[str, ...]:
    """The recipe's region, then the others."""
    first, regions = recipe.endpoint.region, recipe.endpoint.regions
    return tuple(sorted(regions, key=lambda region: region != first))


def _existing(recipe: Recipe, deps: Dependencies) -> Observed | None:
    """None if it exists in no region; Refused if it exists in several."""
    target, regions = deps.targets[recipe.endpoint.target], recipe.endpoint.regions
    refs = [DeploymentRef(name=recipe.name, target=recipe.endpoint.target, region=one) for one in regions]
    with ThreadPoolExecutor(len(refs)) as pool:
        observed: list[Observed] = list(pool.map(target.observe, refs))
    found = [one for one in observed if one.exists]
    if len(found) > 1:
        places = " and ".join(one.ref.region for one in found)
        raise Refused(
            f"{recipe.name} exists in {places}",
            hint=f"delete one: `{found[-1].ref.command('down')}`",
        )
    return found[0] if found else None


def _first_possible(
    recipe: Recipe, order: Sequence[str], deps: Dependencies, prepare: Prepare
) -> DeploymentPlan:
    notices: list[str] = []
    for number, region in enumerate(order):
        here = recipe.in_region(region)
        is_last = number == len(order) - 1
        try:
            plan = prepare(here)
            if isinstance(plan.refusal, QuotaExceeded) and not is_last:
                raise plan.refusal
        except (NoCapacity, QuotaExceeded) as error:
            if is_last:
                error.details = (*notices, *error.details)
                raise
            notices.append(f"not in {region}: {'; '.join(error.details) or error.message}")
            continue
        plan = _with_next(plan, here, order[number + 1 :], deps, prepare)
        if plan.refusal is None:
            return replace(plan, notices=(*notices, *plan.notices))
        plan.refusal.details = (*notices, *plan.refusal.details)
        return plan
    raise AssertionError("a recipe with regions names two at least")


def _with_next(
    plan: DeploymentPlan, recipe: Recipe, rest: Sequence[str], deps: Dependencies, prepare: Prepare
) -> DeploymentPlan:
    if not rest or plan.plan.empty:
        return plan
    places = ", then ".join(_priced(region, plan, deps) for region in rest)
    notice = f"without capacity in {plan.ref.region}, lmi tries {places}"
    following = NextRegion(region=rest[0], prepare=partial(_first_possible, recipe, rest, deps, prepare))
    return replace(plan, notices=(*plan.notices, notice), following=following)


def _priced(region: str, plan: DeploymentPlan, deps: Dependencies) -> str:
    place = plan.spec.cloud
    instance, *others = place.placements[0].types
    try:
        price = deps.cloud(region).prices.hourly(instance)
    except LmiError:
        price = None
    cost = f"{format_price(place.count * price.hourly, price.currency)} an hour" if price else "price unknown"
    pools = f", or {' or '.join(others)}" if others else ""
    return f"{region} ({place.count} x {instance}: {cost}{pools})"
