"""Take a deployment away, then look again: nothing left is verified, not assumed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lmi_deploy.core.events import Event
from lmi_deploy.core.plan import Plan, title
from lmi_deploy.core.record import DeploymentRef
from lmi_deploy.decide.diff import teardown
from lmi_deploy.errors import DeployFailed
from lmi_deploy.steps.apply import apply
from lmi_deploy.steps.deps import Deps


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    ref: DeploymentRef
    plan: Plan


def prepare(ref: DeploymentRef, deps: Deps) -> Ending:
    """What would be taken away; an empty plan when there is nothing."""
    return Ending(ref=ref, plan=teardown(deps.targets[ref.target].observe(ref)))


def carry_out(ending: Ending, deps: Deps) -> Iterator[Event]:
    """Under the lock, from what is seen under it; DeployFailed names what is left."""
    if ending.plan.empty:
        return
    ref = ending.ref
    target = deps.targets[ref.target]
    with deps.lock(ref).hold(ref.name):
        fresh = prepare(ref, deps)
        yield from apply(fresh.plan, target.ending(ref), deps.journal(ref), deps.clock)
        left = teardown(target.observe(ref))
        if not left.empty:
            names = "; ".join(title(action) for action in left.actions)
            raise DeployFailed(f"{ref.name}: still to do after down: {names}", hint="run `lmi down` again")
