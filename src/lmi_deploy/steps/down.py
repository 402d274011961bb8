"""Take a deployment away, then look again: nothing left is verified, not assumed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lmi_deploy.core.events import Event
from lmi_deploy.core.plan import Plan
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
    with deps.lock.hold(ref.name):
        fresh = prepare(ref, deps)
        yield from apply(fresh.plan, target.ending(ref), deps.journal(ref), deps.clock)
        left = target.observe(ref)
        if left.exists or left.servers:
            names = ", ".join(server.server for server in left.servers) or "its folder"
            raise DeployFailed(f"{ref.name}: still there after down: {names}", hint="run `lmi down` again")
