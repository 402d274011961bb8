"""One plan carried out under the lock: recorded, proved, settled; elsewhere where an instance is not to be had."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace

from lmi_deploy.domain.events import Event, Finished, Notice
from lmi_deploy.domain.observed import Observed
from lmi_deploy.domain.plan import Action, AwaitReady, Plan, ProbeServer, TakeAddress
from lmi_deploy.domain.record import Generation
from lmi_deploy.domain.sagemaker.actions import AwaitService
from lmi_deploy.errors import RECORDED, UNBEGUN, LmiError, LockLost, NoCapacity, QuotaExceeded
from lmi_deploy.ports.journal import Journal
from lmi_deploy.targets.plan import CLEARING, PROBES, elsewhere, generation, proof
from lmi_deploy.targets.target import Perform, Target
from lmi_deploy.workflows.apply import apply
from lmi_deploy.workflows.dependencies import Deps
from lmi_deploy.workflows.deployment_plan import Case, look
from lmi_deploy.workflows.error_diagnosis import explain
from lmi_deploy.workflows.running_costs import interrupted, left_standing

_WAITS = (AwaitService, AwaitReady)
_SEEN = (AwaitReady, ProbeServer, TakeAddress)
"""Target local: `lmi wait` knows these by what is there; a probe that was begun and not ended would mean silence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """`detach`: end once the server is on its way; `lmi wait` does the rest."""

    probe: bool = True
    detach: bool = False


def bring(case: Case, deps: Deps, wish: Wish) -> Iterator[Event]:
    """Until it serves, on the first placement that can be had."""
    while True:
        begun = deps.clock.monotonic()
        try:
            yield from _Round(case, deps, wish).run()
            return
        except (NoCapacity, QuotaExceeded) as error:
            held = elsewhere(case.spec, case.artifact, case.plan, case.held)
            if held is None:
                raise
            waited = deps.clock.monotonic() - begun
            yield Notice(text=f"{error.message} (after {waited:.0f} s)")
            case = look(case.spec, case.artifact, deps, probe=wish.probe, before=held)
            cost = dict(case.plan.figures).get("cost", "")
            yield Notice(text=f"trying the recipe's next instance type: {cost}")


@dataclass(slots=True)
class _Round:
    case: Case
    deps: Deps
    wish: Wish
    took: int = 0

    def run(self) -> Iterator[Event]:
        try:
            yield from self._run()
        except KeyboardInterrupt:
            hint = RECORDED if split(self.case.plan)[0].actions else UNBEGUN
            raise interrupted(self.case.ref, self.deps, hint=hint) from None

    def _run(self) -> Iterator[Event]:
        case, deps = self.case, self.deps
        target, journal = self._target, deps.journal(case.ref)
        perform = target.raising(case.spec, case.artifact, deps.hub(case.spec.model.model_id))
        before, after = split(case.plan)
        if before.actions:
            journal.expect(self._generation())
        try:
            if self.wish.probe and self._unproved:
                yield from prove(case, target, deps)
            detached = yield from self._raise(before, perform, journal)
        except LockLost:
            raise
        except LmiError as error:
            explain(error, case.spec.engine.name)
            error.hint = "; ".join(filter(None, (error.hint, *self._advice(error))))
            raise
        if detached:
            return
        # Settled before the old generation is cleared away: from here on the new one is what serves.
        journal.settle(self._generation())
        yield from apply(after, perform, journal, deps.clock)

    def _raise(self, plan: Plan, perform: Perform, journal: Journal) -> Generator[Event, None, bool]:
        """Whether it ended before the wait for service, which was wished."""
        waits = next((n for n, a in enumerate(plan.actions) if isinstance(a, _WAITS)), len(plan.actions))
        now, later = plan.actions[:waits], plan.actions[waits:]
        yield from apply(replace(plan, actions=now), perform, journal, self.deps.clock)
        if self.wish.detach and later:
            yield from self._leave(later, journal)
            return True
        for event in apply(replace(plan, actions=later), perform, journal, self.deps.clock):
            if isinstance(event, Finished) and event.key.startswith(AwaitService.__name__):
                self.took = round(event.seconds)
            yield event
        return False

    def _leave(self, later: Sequence[Action], journal: Journal) -> Iterator[Event]:
        for action in later:
            if not isinstance(action, _SEEN):
                journal.intend(action)
        name = self.case.spec.name
        yield Notice(text=f"{name} is on its way; `lmi wait {name}` waits for it and asks for a real answer")

    @property
    def _unproved(self) -> bool:
        """Whether it serves what nobody asked yet: an earlier `up` ended before it did, and this one has no probe."""
        record = self.case.observed.record
        probed = any(isinstance(action, PROBES) for action in self.case.plan.actions)
        return self.case.plan.empty or (not probed and record is not None and record.coming is not None)

    @property
    def _target(self) -> Target:
        return self.deps.targets[self.case.spec.target]

    def _generation(self) -> Generation:
        case, since = self.case, self.deps.clock.now().isoformat(timespec="seconds")
        told = generation(case.spec, case.artifact, case.plan, case.observed, since=since)
        current = case.observed.record.current if case.observed.record else None
        known = current.took if current and current.server == told.server else 0
        return replace(told, took=self.took or known)

    def _seen(self) -> Observed | None:
        """The world after trouble; None where it cannot be looked at either."""
        try:
            return self._target.observe(self.case.ref)
        except LmiError:
            return None

    def _advice(self, error: LmiError) -> Iterator[str]:
        """What goes on as before although bringing up the new generation failed, and what keeps costing money."""
        seen = self._seen()
        if seen is None:
            return
        if seen.serving is not None and seen.serving == self.case.observed.serving:
            yield f"{self.case.spec.name} still serves as it did before, at {self._target.address(self.case.ref)}"
        if "costing" not in error.message:
            yield left_standing(seen, self.deps)


def prove(case: Case, target: Target, deps: Deps) -> Iterator[Event]:
    """One real inference of what serves already."""
    action = proof(case.spec, case.artifact)
    perform = target.raising(case.spec, case.artifact, deps.hub(case.spec.model.model_id))
    yield from perform[type(action)](action)


def split(plan: Plan) -> tuple[Plan, Plan]:
    """What brings the new generation up, and what clears the old one away."""
    cut = len(plan.actions)
    while cut and isinstance(plan.actions[cut - 1], CLEARING):
        cut -= 1
    return replace(plan, actions=plan.actions[:cut]), replace(plan, actions=plan.actions[cut:])
