"""Complete an `up` that was detached or interrupted: wait, probe, settle. Also for a rollback."""

from __future__ import annotations

from collections.abc import Iterator

from lmi_deploy.domain.events import Event
from lmi_deploy.domain.record import DeploymentRef
from lmi_deploy.workflows.dependencies import Dependencies
from lmi_deploy.workflows.deployment_lock import locked
from lmi_deploy.workflows.generation_switch import apply_generation
from lmi_deploy.workflows.interruption import interrupted


def wait(
    ref: DeploymentRef, deps: Dependencies, *, timeout: int | None, rollback: bool = True
) -> Iterator[Event]:
    """Continue what the record says was started; does nothing if nothing is in progress. `timeout` in seconds.

    `rollback`: to the previous generation, if the probe fails.
    """
    target = deps.targets[ref.target]
    observed = target.observe(ref)
    if target.plan_wait(observed, timeout=timeout)[0].empty:
        return
    with locked(observed.ref, deps):
        plan, pending = target.plan_wait(target.observe(observed.ref), timeout=timeout)
        try:
            yield from apply_generation(observed.ref, plan, pending, deps, returns=rollback)
        except KeyboardInterrupt:
            limit = "" if timeout is None else f" --timeout {timeout}"
            again = observed.ref.command("wait") + limit + " --no-rollback" * (not rollback)
            hint = f"the deployment continues. Run `{again}` to wait again"
            raise interrupted(ref, deps, hint=hint) from None
