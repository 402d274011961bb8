"""Carry out one plan under the lock: record, probe, settle; use another placement if an instance is not available."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from lmi_deploy.domain.action import Phase
from lmi_deploy.domain.events import Event, Notice
from lmi_deploy.domain.observed_state import Observed
from lmi_deploy.domain.plan import Action, Plan
from lmi_deploy.domain.record import Generation, ServingChange
from lmi_deploy.errors import RECORDED, UNBEGUN, LmiError, LockLost, NoCapacity, QuotaExceeded
from lmi_deploy.ports.journal import Journal
from lmi_deploy.targets.target import Perform
from lmi_deploy.workflows.apply import apply
from lmi_deploy.workflows.dependencies import Dependencies
from lmi_deploy.workflows.deployment_lock import journal_of
from lmi_deploy.workflows.deployment_plan import DeploymentPlan, make_plan
from lmi_deploy.workflows.error_diagnosis import explain
from lmi_deploy.workflows.generation_switch import PlanProgress, return_to_previous, split
from lmi_deploy.workflows.interruption import interrupted

_REPEATED = frozenset({Phase.WAIT, Phase.PROBE, Phase.SWITCH})
"""`lmi wait` plans these from the observed state. A recorded probe that did not finish would mean no response."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployOptions:
    """`detach`: return once the server is starting; `lmi wait` does the rest. `rollback`: to the previous generation,
    if the new one fails its probe while it serves. `max_hourly`: the most that another region of the recipe may cost,
    or a shared endpoint that is gone since the plan. `unattended`: no user agreed to one plan, so that such an
    endpoint is created again.
    """

    probe: bool = True
    detach: bool = False
    rollback: bool = True
    max_hourly: float | None = None
    unattended: bool = False


AS_USUAL: Final = DeployOptions()


def deploy(deployment: DeploymentPlan, deps: Dependencies, options: DeployOptions) -> Iterator[Event]:
    """Until it serves, on the first placement that can be had."""
    while True:
        started = deps.clock.monotonic()
        try:
            yield from _Attempt(deployment, deps, options).run()
            return
        except (NoCapacity, QuotaExceeded) as error:
            inventory = deployment.target.next_placement(
                deployment.spec, deployment.artifact, deployment.plan, deployment.inventory
            )
            if inventory is None:
                raise
            waited = deps.clock.monotonic() - started
            yield Notice(text=f"{error.message} (after {waited:.0f} s)")
            deployment = make_plan(
                deployment.spec, deployment.artifact, deps, probe=options.probe, before=inventory
            )
            cost = deployment.estimate.figure("cost")
            yield Notice(text=f"trying the recipe's next instance type: {cost}")


@dataclass(slots=True)
class _Attempt:
    case: DeploymentPlan
    deps: Dependencies
    options: DeployOptions
    progress: PlanProgress = field(default_factory=PlanProgress)

    def run(self) -> Iterator[Event]:
        try:
            yield from self._run()
        except KeyboardInterrupt:
            hint = RECORDED if split(self.case.plan)[0].actions else UNBEGUN
            raise interrupted(self.case.ref, self.deps, hint=hint) from None

    def _run(self) -> Iterator[Event]:
        deployment, deps = self.case, self.deps
        journal = journal_of(deployment.observed, deps)
        perform = deployment.target.deploy_actions(deployment.spec, deployment.artifact, deps.hub)
        before, after = split(deployment.plan)
        pending = self._generation()
        if before.actions:
            journal.set_pending(pending)
        try:
            if self.options.probe and self._probe_failed:
                yield from send_probe(deployment, deps)
            detached = yield from self._raise(before, perform, journal)
        except LockLost:
            raise
        except LmiError as error:
            explain(error, deployment.spec.engine.name)
            returned = False
            if self.options.rollback and self.progress.phase is Phase.PROBE:
                returned = yield from return_to_previous(deployment.ref, pending, error, deps)
            advice = self._advice(error, returned=returned)
            error.hint = "; ".join(filter(None, (error.hint, *advice)))
            raise
        if detached:
            return
        # Settled before the old generation is removed: from here on the new one is current.
        settled = replace(pending, since=self._since(pending), took=self.progress.took or pending.took)
        change = ServingChange(
            by=deployment.author, at=self._now(), before=deployment.observed.unrecorded_period
        )
        journal.commit(settled, change)
        yield from apply(after, perform, journal, deps.clock)

    def _raise(self, plan: Plan, perform: Perform, journal: Journal) -> Generator[Event, None, bool]:
        """Whether it stopped before the wait for service, as requested."""
        waits = next((n for n, a in enumerate(plan.actions) if a.phase is Phase.WAIT), len(plan.actions))
        now, later = plan.actions[:waits], plan.actions[waits:]
        first = apply(replace(plan, actions=now), perform, journal, self.deps.clock)
        yield from self.progress.followed(first)
        if self.options.detach and later:
            yield from self._leave(later, journal)
            return True
        rest = apply(replace(plan, actions=later), perform, journal, self.deps.clock)
        yield from self.progress.followed(rest)
        return False

    def _leave(self, later: Sequence[Action], journal: Journal) -> Iterator[Event]:
        for action in later:
            if action.phase not in _REPEATED:
                journal.begin(action)
        wait = self.case.ref.command("wait") + " --no-rollback" * (not self.options.rollback)
        yield Notice(text=f"{self.case.spec.name} is starting; `{wait}` waits until it answers the probe")

    @property
    def _probe_failed(self) -> bool:
        """Whether the current generation was never probed: an earlier `up` stopped before, and this one
        has no probe.
        """
        record = self.case.observed.record
        probed = self.case.plan.has_action(Phase.PROBE)
        return self.case.plan.empty or (not probed and record is not None and record.coming is not None)

    def _now(self) -> str:
        return self.deps.clock.now().isoformat(timespec="seconds")

    def _since(self, settled: Generation) -> str:
        """Now, unless the server that serves goes on: only scaling, shares or tags were changed around it."""
        record, plan = self.case.observed.record, self.case.plan
        current = record.current if record and record.coming is None else None
        starts = plan.has_action(Phase.START) or plan.has_action(Phase.SWITCH)
        same = current is not None and current.server == settled.server and not starts
        return current.since if same and current else self._now()

    def _generation(self) -> Generation:
        deployment = self.case
        deployed = deployment.target.generation(
            deployment.spec, deployment.artifact, deployment.plan, deployment.observed, since=self._now()
        )
        current = deployment.observed.record.current if deployment.observed.record else None
        known = current.took if current and current.server == deployed.server else 0
        return replace(deployed, took=known)

    def _advice(self, error: LmiError, *, returned: bool) -> Iterator[str]:
        """What remains unchanged although the new generation failed, and what keeps costing money. `returned`: the hint
        says already that the previous one serves.
        """
        target = self.case.target
        try:
            observed: Observed = target.observe(self.case.ref)
        except LmiError:  # it cannot be read either: expired credentials, throttling
            yield self._unread()
            return
        stayed = observed.serving is not None and observed.serving == self.case.observed.serving
        if stayed and not returned:
            yield f"the previous version of {self.case.spec.name} still serves, at {target.address(self.case.ref)}"
        if "costing" not in error.message:
            yield target.remaining_cost(observed)

    def _unread(self) -> str:
        """What was started on AWS, as the plan says; empty if nothing that costs."""
        case, ref = self.case, self.case.observed.ref
        if ref.is_here or not (Phase.START in self.progress.begun or case.observed.serving):
            return ""
        cost = case.estimate.figure("cost")
        return (
            f"{ref.name} could not be looked at again: if its endpoint exists, it costs {cost}, until "
            f"`{ref.command('down')}` deletes it"
        )


def send_probe(deployment: DeploymentPlan, deps: Dependencies) -> Iterator[Event]:
    """Send one probe to the current generation."""
    action = deployment.target.probe_action(deployment.spec, deployment.artifact)
    perform = deployment.target.deploy_actions(deployment.spec, deployment.artifact, deps.hub)
    yield from perform[type(action)](action)
