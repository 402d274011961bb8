"""Is a deployment what its record says: in step, drifted, absent, starting, failed and why."""

from __future__ import annotations

from dataclasses import dataclass

from lmi_deploy.core.record import DeploymentRef, Observed, SeenServer, Standing
from lmi_deploy.steps.deps import Deps

EXIT: dict[Standing, int] = {"in-step": 0, "starting": 4, "drifted": 4, "absent": 4, "failed": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    ref: DeploymentRef
    standing: Standing
    why: str
    address: str
    server: SeenServer | None
    summary: dict[str, str]
    since: str


def status(ref: DeploymentRef, deps: Deps) -> Status:
    """Never resolves: it works when the Hub is down or the model gone."""
    observed = deps.targets[ref.target].observe(ref)
    standing, why = judge(observed)
    current = observed.record.current if observed.record else None
    server = next((s for s in observed.servers if s.server == observed.serving), None)
    return Status(
        ref=ref,
        standing=standing,
        why=why,
        address=f"http://{current.host}:{current.port}" if current else "",
        server=server or next(iter(observed.servers), None),
        summary={key: str(value) for key, value in current.summary.items()} if current else {},
        since=current.since if current else "",
    )


def judge(observed: Observed) -> tuple[Standing, str]:
    """The standing, and the reason when it is not in step."""
    current = observed.record.current if observed.record else None
    phases = {server.phase: server for server in observed.servers}
    if not observed.exists:
        return "absent", "nothing of that name is here"
    if current and observed.serving == current.server:
        return "in-step", ""
    if "failed" in phases:
        return "failed", phases["failed"].message or "the model server failed; `lmi logs` says why"
    if phases.keys() & {"starting", "loading"}:
        return "starting", "the model server is loading the model"
    if observed.serving:
        return "drifted", "another generation serves than the record says; `lmi up` settles it"
    if current:
        return (
            "drifted",
            "its model server is gone (killed, or the machine restarted); `lmi up` brings it back",
        )
    return "failed", "an `lmi up` did not finish; `lmi up` goes on from there, `lmi down` clears it away"
