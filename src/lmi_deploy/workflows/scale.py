"""Another number of instances or copies, until the next `lmi up`: priced, set, waited for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lmi_deploy.domain.currency import format_price
from lmi_deploy.domain.dearest_type import dearest_type
from lmi_deploy.domain.events import Event
from lmi_deploy.domain.observed_state import Price
from lmi_deploy.domain.plan import Estimate, Plan
from lmi_deploy.domain.price_table import reads_the_list
from lmi_deploy.domain.record import DeploymentRef, ServingChange
from lmi_deploy.domain.sagemaker.scaling_actions import CountChange
from lmi_deploy.errors import Refused
from lmi_deploy.planning.stale_plan_check import require_agreed
from lmi_deploy.workflows.apply import apply
from lmi_deploy.workflows.dependencies import Dependencies
from lmi_deploy.workflows.deployment_lock import journal_of, locked
from lmi_deploy.workflows.extend import expired_words
from lmi_deploy.workflows.interruption import interrupted

_GOES_ON = "SageMaker continues; the same command waits for it again, `lmi status` shows it"


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedScaling:
    """What to show before the user agrees. Nothing is to be done if the plan is empty."""

    ref: DeploymentRef
    plan: Plan
    change: CountChange
    price: Price | None
    """Of an hour of one instance, with instance pools of the type that costs most; None if no source has it, and of
    copies, which cost nothing by themselves.
    """
    candidate_price: Price | None = None
    """The same of the candidate's instances."""
    expired: str = ""
    """When it expired, and what that means; empty if it has not."""

    @property
    def estimate(self) -> Estimate:
        if self.change.shared:
            cost = f"nothing by itself: the instances are those of the shared endpoint {self.change.shared}"
            return Estimate(figures=(("cost", cost),))
        return Estimate(
            figures=(
                ("cost now", self._cost(self.change.before)),
                ("cost then", self._cost(self.change.after)),
            )
        )

    def hourly(self, count: int) -> float | None:
        """Of so many instances and the candidate's; None if a price is unknown."""
        total = self._total(count)
        return None if total is None else round(total, 4)

    def _total(self, count: int) -> float | None:
        if self.price is None:
            return None
        if self.change.candidate is None:
            return count * self.price.hourly
        own, of_candidate = count * self.price.hourly, self.candidate_price
        return own + self.change.candidate[1] * of_candidate.hourly if of_candidate else None

    def _cost(self, count: int) -> str:
        what = f"{count} x {' or '.join(self.change.types) or 'an unknown instance type'}"
        if self.change.candidate is not None:
            instance, number = self.change.candidate
            what += f", and its candidate {number} x {instance or 'an unknown instance type'}"
        total = self._total(count)
        if self.price is None or total is None:
            return f"unknown: no source has the price ({what})"
        most = "at most " if len(self.change.types) > 1 else ""
        return f"{most}{format_price(total, self.price.currency)} an hour ({what}; {self.price.source})"

    @property
    def notices(self) -> tuple[str, ...]:
        """Who may change the number again, or delete it all."""
        return (*((f"it expired {self.expired}",) if self.expired else ()), *self._set_again())

    def _set_again(self) -> tuple[str, ...]:
        change, scaling = self.change, self.change.scaling
        if scaling is not None:
            return (
                f"autoscaling stays on ({scaling.words_of(change.of)}): its next alarm may change the number again. "
                "To hold it, change endpoint.autoscaling in the recipe, and run `lmi up`",
            )
        if change.after == change.recorded:
            return ()
        key = "endpoint.component.copies" if change.shared else "endpoint.count"
        return (
            f"the recipe of the last `lmi up` says {change.recorded}, and the next one sets {change.recorded} again. "
            f"To keep {change.after}, write {key}: {change.after}",
        )


def prepare_scaling(
    ref: DeploymentRef, deps: Dependencies, count: int, *, max_hourly: float | None = None
) -> PreparedScaling:
    """Reads only. Refused if it may cost more than `max_hourly`, or the price is unknown then."""
    target = deps.targets[ref.target]
    observed = target.observe_scaling(ref)
    plan, change = target.plan_count(observed, count)
    types = () if change.shared else change.types
    candidate = (change.candidate[0],) if change.candidate and change.candidate[0] else ()
    prices = [
        dearest_type(names, lambda name: deps.cloud(observed.ref.region).prices.hourly(name))[1]
        for names in (types, candidate)
    ]
    prepared = PreparedScaling(
        ref=observed.ref,
        plan=plan,
        change=change,
        price=prices[0],
        candidate_price=prices[1],
        expired=expired_words(target.details(observed), observed.ref),
    )
    cost = 0.0 if change.shared else prepared.hourly(count)
    if max_hourly is not None and not plan.empty and (cost is None or cost > max_hourly):
        hint = "allow more, or set fewer instances"
        if cost is None:
            hint = f"{reads_the_list(observed.ref.region)}; or omit --max-hourly"
        words = prepared.estimate.figure("cost then")
        raise Refused(f"--max-hourly {max_hourly:g}: {ref.name} would cost {words}", hint=hint)
    return prepared


def scale(prepared: PreparedScaling, deps: Dependencies) -> Iterator[Event]:
    """Set the number and wait until so many serve. Refused if that differs from the plan that was shown."""
    ref, target = prepared.ref, deps.targets[prepared.ref.target]
    with locked(ref, deps):
        observed = target.observe_scaling(ref)
        plan, _ = target.plan_count(observed, prepared.change.after)
        require_agreed(prepared.plan, plan)
        journal = journal_of(observed, deps)
        try:
            yield from apply(plan, target.teardown_actions(ref), journal, deps.clock)
        except KeyboardInterrupt:
            raise interrupted(ref, deps, hint=_GOES_ON) from None
        # The same generation serves: the action becomes history.
        change = ServingChange(
            kind="scale",
            by=deps.who(ref),
            at=deps.clock.now().isoformat(timespec="seconds"),
            before=observed.unrecorded_period,
            count=None if prepared.change.shared else prepared.change.after,
        )
        journal.commit(observed.record.current, change)
