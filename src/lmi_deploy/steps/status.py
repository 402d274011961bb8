"""Is a deployment what its record says: in step, drifted, absent, starting, failed and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lmi_deploy.core.record import DeploymentRef, Observed, SeenServer, Standing
from lmi_deploy.decide.diagnose import Diagnosis
from lmi_deploy.errors import NotFound
from lmi_deploy.steps.deps import Deps
from lmi_deploy.steps.diagnose import advice, of_log

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
    cause: str = ""
    remedy: str = ""
    """Where it failed and its log says why."""


def status(ref: DeploymentRef, deps: Deps) -> Status:
    """Never resolves: it works when the Hub is down or the model gone."""
    observed = deps.targets[ref.target].observe(ref)
    standing, why = judge(observed)
    current = observed.record.current if observed.record else None
    found = _diagnosis(ref, deps, current.summary if current else {}) if standing == "failed" else None
    server = next((s for s in observed.servers if s.server == observed.serving), None)
    return Status(
        ref=ref,
        standing=standing,
        why=why,
        address=f"http://{current.host}:{current.port}" if current else "",
        server=server or next(iter(observed.servers), None),
        summary={key: str(value) for key, value in current.summary.items()} if current else {},
        since=current.since if current else "",
        cause=found.cause if found else "",
        remedy=advice(found) if found else "",
    )


def _diagnosis(ref: DeploymentRef, deps: Deps, summary: Mapping[str, str]) -> Diagnosis | None:
    try:
        return of_log(deps.targets[ref.target].logs(ref, follow=False), str(summary.get("engine", "")))
    except NotFound:  # nothing was started, so there is no log
        return None


def judge(observed: Observed) -> tuple[Standing, str]:
    """The standing, and the reason when it is not in step."""
    current = observed.record.current if observed.record else None
    phases = {server.phase: server for server in observed.servers}
    if not observed.exists:
        return "absent", "nothing of that name is here"
    if current and observed.serving == current.server:
        return "in-step", ""
    if "failed" in phases:
        return "failed", why_failed(phases["failed"])
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


def why_failed(server: SeenServer) -> str:
    """What it said last, and what it means that it still runs."""
    if server.pid is None:
        return server.message or "the model server failed; `lmi logs` says why"
    # It runs, but its model is FAILED for good, which people should see here before they see it in the cloud.
    return (
        f"{server.message or 'its worker was lost'}; as in the cloud the model is now FAILED: /ping is 500 and every "
        "request 503 until it is started again, by `lmi up` (properties.retry_threshold allows more failures)"
    )
