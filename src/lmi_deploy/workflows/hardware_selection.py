"""The hardware of a recipe: the cheapest instance type that holds the model, or this machine.

For `instance_type: auto`, and for a recipe that `lmi init` writes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from lmi_deploy.catalog import instances
from lmi_deploy.catalog.vllm_arguments import images, least_capability
from lmi_deploy.domain.byte_units import GIB
from lmi_deploy.domain.number_text import gib_text
from lmi_deploy.domain.price_table import PriceTable, reads_the_list
from lmi_deploy.domain.recipe_endpoint_keys import TargetName
from lmi_deploy.domain.recipe_keys import AUTO_INSTANCE, Recipe
from lmi_deploy.errors import Unresolvable, UsageRefused
from lmi_deploy.planning.model_compatibility import review_model
from lmi_deploy.planning.recipe_generation import InitEngine
from lmi_deploy.sizing.devices import instance_devices
from lmi_deploy.sizing.fit_assessment import Checkpoint, Fit
from lmi_deploy.sizing.fitting_instances import FittingInstance, cheapest_fitting, unpriced_fitting
from lmi_deploy.sizing.longest_context import (
    USUAL_REGION,
    instance_by_size,
    longest_fitting,
    size_of,
)
from lmi_deploy.sizing.sizing_request import SizingRequest
from lmi_deploy.sizing.tensors import CannotTell
from lmi_deploy.workflows.dependencies import Dependencies
from lmi_deploy.workflows.fit import (
    FitRequest,
    does_not_fit,
    instance_request,
    judge,
    request_of,
    sizing_request,
)
from lmi_deploy.workflows.price_refresh import current_prices, price_table


def choose_instance(
    recipe: Recipe,
    checkpoint: Callable[[], Checkpoint],
    deps: Dependencies,
    *,
    region: str = "",
    current: str = "",
) -> tuple[Recipe, tuple[str, ...]]:
    """`instance_type: auto` replaced by a type that can run the model: by `current`, the type that the deployment has,
    else by the cheapest with a known price. With it the reason, and warnings about the prices.

    Unresolvable if there is none, or if the engine refuses the model on every type. If the recipe names its types, it
    is unchanged, and `checkpoint` is not read.
    """
    if recipe.instance_type != AUTO_INSTANCE:
        return recipe, ()
    table, model = current_prices(region or USUAL_REGION, deps), checkpoint()
    prices = table.of(region or USUAL_REGION)
    # What the engine refuses on any type is said as it is, and not as "no type holds the model".
    review_model(recipe, model.table, files=model.files).require()
    accepts = _acceptance(recipe, model, deps)
    try:
        request = sizing_request(request_of(recipe, None))
        cheapest = cheapest_fitting(model, request, prices, accepts=accepts)
        kept = cheapest_fitting(
            model, request, prices, accepts=lambda name: name == current and accepts(name)
        )
        others = unpriced_fitting(model, request, prices)
    except CannotTell as reason:
        raise Unresolvable(
            f"instance_type: auto cannot be chosen: {reason}",
            hint="name a type; `lmi fit` shows the calculation",
        ) from None
    chosen = kept or cheapest
    if chosen is None or (chosen.usd_per_hour is None and not kept):
        raise Unresolvable(
            f"instance_type: auto: no type with a known price in {prices.region} holds {recipe.model_id}",
            hint="name a type (`lmi instances --fits RECIPE` lists all, also unpriced ones), or reduce max_model_len. "
            f"{reads_the_list(prices.region)}",
        )
    words = (
        f"instance_type auto: {_with_price(chosen, prices.region)}, {_why_chosen(chosen, cheapest, current)}"
    )
    warnings = table.warnings(deps.clock.now().date(), prices.region)
    lines = (words, *warnings, *filter(None, [others]))
    return replace(recipe, instance_type=(chosen.instance,)), lines


def _acceptance(recipe: Recipe, model: Checkpoint, deps: Dependencies) -> Callable[[str], bool]:
    """Whether engine and target accept the recipe with an instance type."""

    def accepts(instance: str) -> bool:
        candidate = replace(recipe, instance_type=(instance,))
        refused = review_model(candidate, model.table, files=model.files).mistakes
        return not refused and not any(deps.target_issues(candidate))

    return accepts


def _with_price(one: FittingInstance, region: str) -> str:
    usd = one.usd_per_hour
    price = "at an unknown price" if usd is None else f"{usd:.2f} USD per hour"
    return f"{one.instance}, {price} in {region}"


def _why_chosen(chosen: FittingInstance, cheapest: FittingInstance | None, current: str) -> str:
    """With the way to a cheaper type, or why the deployment's own is none."""
    if chosen.instance != current:
        other = f"; {current}, the deployment's type, no longer holds it" if current else ""
        return f"the cheapest that holds the model ({chosen.fit.verdict}){other}"
    other = ""
    lowest = cheapest.usd_per_hour if cheapest else None
    if cheapest and lowest is not None and lowest < (chosen.usd_per_hour or 0):
        name = cheapest.instance
        other = f"; {name} costs {lowest:.2f}: to move there, run once with `--set instance_type={name}`"
    return f"the deployment's type, which still holds the model ({chosen.fit.verdict}){other}"


@dataclass(frozen=True, slots=True, kw_only=True)
class InitRequest:
    """None leaves a choice to lmi. `written_id` is the model id for the recipe, if its folder is not this one."""

    model_id: str
    revision: str = "main"
    target: TargetName | None = None
    region: str = ""
    engine: InitEngine | None = None
    instance: str | None = None
    context: int | None = None
    users: int | None = None
    plain: bool = False
    written_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """The part of a Choice that depends on the machine. `context` is the longest sequence with room to spare."""

    instance: str = ""
    price: str = ""
    unpriced: str = ""
    """That there are types whose price is not known; empty if none, and if the user named the type."""
    why: str
    degree: int | None = None
    context: int | None = None
    fit: Fit | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceChoice:
    """The choice of an instance type for a new recipe."""

    init_request: InitRequest
    fit_request: FitRequest
    checkpoint: Checkpoint
    prices: PriceTable

    def make(self) -> Hardware:
        """The type that was asked for, or the cheapest that holds the model."""
        init_request = self.init_request
        if init_request.instance and instances.instance(init_request.instance) is None:
            what = f"--instance {init_request.instance}: SageMaker has no such type for endpoints"
            raise UsageRefused(what, hint="`lmi instances` lists those with accelerators")
        try:
            request = instance_request(self.fit_request, self.checkpoint)
            if init_request.instance:
                return self._judged(init_request.instance, request)
            region = init_request.region if init_request.region in self.prices.regions else USUAL_REGION
            found = cheapest_fitting(self.checkpoint, request, self.prices.of(region))
            others = unpriced_fitting(self.checkpoint, request, self.prices.of(init_request.region))
        except CannotTell as reason:
            return self._by_size(str(reason))
        if found is None:
            what = f"{request.context} tokens x {request.sequences or 1}"
            raise Unresolvable(
                f"{self.fit_request.model_id}: no instance type holds it with {what}",
                hint="use fewer --users, a shorter --context or a quantized model; `lmi fit` shows the calculation",
            )
        return replace(self._judged(found.instance, request), unpriced=others)

    def _judged(self, name: str, request: SizingRequest) -> Hardware:
        init_request, checkpoint = self.init_request, self.checkpoint
        fit_request = replace(self.fit_request, instances=(name,), context=request.context)
        outcome = judge(fit_request, checkpoint, self.prices, help_tight=False)
        fit = outcome.fit
        if fit.verdict == "unknown":
            return self._by_size(fit.reason)
        if fit.verdict == "does-not-fit":
            change = "change one of these, or " if outcome.remedies else ""
            raise does_not_fit(fit_request.model_id, name, outcome, hint=f"{change}omit --instance")
        request = replace(request, degree=fit.degree)
        longest = init_request.context or longest_fitting(
            checkpoint, request, instance_devices(name), most=fit.max_context
        )
        is_priced = self.prices.price(name, init_request.region) is not None
        return Hardware(
            instance=name,
            price=self._price(name),
            why=_arithmetic(fit, name, cheapest=init_request.instance is None and is_priced),
            degree=fit.degree,
            context=longest or fit.context,
            fit=fit,
        )

    def _by_size(self, reason: str) -> Hardware:
        """A choice all the same, which says that it is none of the fit."""
        init_request, size = self.init_request, size_of(self.checkpoint)
        # `lmi init` writes the newest image that lmi knows.
        least = least_capability(images()[-1]) if self.fit_request.engine == "vllm" else None
        prices = self.prices.of(USUAL_REGION)
        found = instance_by_size(size, prices, least_capability=least) if size else None
        name = init_request.instance or (found.instance if found else "")
        if not name:
            raise Unresolvable(f"lmi cannot choose an instance type: {reason}", hint="add --instance TYPE")
        by = (
            "you named it"
            if init_request.instance or found is None
            else f"chosen by the size of the weights: {found.why}"
        )
        return Hardware(
            instance=name,
            price=self._price(name),
            why=f"lmi cannot compute whether the model fits ({reason}); {by}",
            context=init_request.context,
        )

    def _price(self, name: str) -> str:
        requested = self.init_request.region
        for region in dict.fromkeys((requested, USUAL_REGION)):
            if found := self.prices.price(name, region):
                here = "" if region == requested else f"; in {requested} it is unknown"
                return f"{found.hourly:g} {found.currency} an hour in {region} ({found.source}){here}"
        return f"its price is unknown: {reads_the_list(requested)}"


def judge_this_machine(fit_request: FitRequest, checkpoint: Checkpoint, deps: Dependencies) -> Hardware:
    """This machine, with one device, as `endpoint.target: local` runs it."""
    try:
        context = instance_request(fit_request, checkpoint).context
    except CannotTell as reason:
        return Hardware(
            why=f"lmi cannot compute whether the model fits this machine: {reason}",
            context=fit_request.context,
        )
    outcome = judge(
        replace(fit_request, machine=deps.machine(), context=context),
        checkpoint,
        price_table(deps),
        help_tight=False,
    )
    fit = outcome.fit
    if fit.verdict == "unknown":
        return Hardware(
            why=f"lmi cannot compute whether the model fits this machine: {fit.reason}",
            context=fit_request.context,
        )
    if fit.verdict == "does-not-fit":
        hint = "add --target sagemaker: lmi then takes the cheapest instance type that holds the model"
        raise does_not_fit(fit_request.model_id, "this machine", outcome, hint=hint)
    return Hardware(
        why=_arithmetic(fit, "this machine"), context=fit_request.context or fit.max_context, fit=fit
    )


def _arithmetic(fit: Fit, where: str, *, cheapest: bool = False) -> str:
    weights = fit.parts.get("weights", 0) / GIB
    one = f"one of its {fit.degree} devices" if fit.degree > 1 else "its device"
    usable = fit.devices.memory / (fit.devices.cores or 1) / GIB if fit.devices else 0
    cache = f", {gib_text(fit.cache, 2)} are left for the KV cache" if fit.cache > 0 else ""
    first = (
        "The cheapest type with a known price that holds the model"
        if cheapest
        else f"The model {fit.verdict} on {where}"
    )
    if fit.verdict == "tight":
        first = f"{first}, tightly"
    return f"{first}: {weights:.2f} GiB of weights on {usable:.2f} GiB of {one}{cache}."
