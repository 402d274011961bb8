"""A model server on this machine: its process, its phase and its record."""

from __future__ import annotations

from lmi_deploy.domain.local_actions import ProbeServer
from lmi_deploy.domain.observed_state import LocalObserved
from lmi_deploy.domain.record import DeploymentStatus, Record


def status_of(observed: LocalObserved) -> tuple[DeploymentStatus, str]:
    """The state, and the reason if it is not in sync."""
    current = observed.record.current if observed.record else None
    phases = {server.phase: server for server in observed.servers}
    if not observed.exists:
        return "absent", "no such deployment on this machine"
    if current and observed.serving == current.server:
        return "in-step", ""
    if "failed" in phases:
        return "failed", phases["failed"].failure
    if current and any(s.server == current.server and s.phase == "starting" for s in observed.servers):
        return "starting", "its process runs but does not respond: it is restarting, or it hangs"
    if phases.keys() & {"starting", "loading"}:
        return "starting", "the model server is loading the model"
    if observed.serving and observed.record is None:
        return "drifted", "it serves, but its record is missing or unreadable; `lmi up` repairs it"
    if observed.serving:
        return "drifted", "it serves another generation than the record says; `lmi up` repairs it"
    if current:
        return (
            "drifted",
            "its model server has ended (killed, or the machine restarted); `lmi up` starts it again",
        )
    return _unfinished(observed)


def fingerprint(observed: LocalObserved) -> list[object]:
    """The state that a plan depends on: without what changes by itself between two reads."""
    current = observed.record.current if observed.record else None
    return [
        current.server if current else "",
        observed.serving,
        sorted(server.server for server in observed.servers),
    ]


def _unfinished(observed: LocalObserved) -> tuple[DeploymentStatus, str]:
    """Of a first `up` that was detached or interrupted."""
    record = observed.record
    pending = record.coming.server if record and record.coming else None
    ready = any(server.phase == "ready" and server.server == pending for server in observed.servers)
    if record and pending and ready and not probe_unanswered(record, pending):
        return "starting", "its model server is ready, but no probe was sent yet; `lmi wait` sends it"
    return "failed", "an `lmi up` did not finish; `lmi up` continues, `lmi down` deletes it"


def probe_unanswered(record: Record, server: str) -> bool:
    """Whether a probe was sent to the server without a response."""
    probes = record.started(ProbeServer)
    return any(probe.outcome is None and probe.names.get("server") == server for probe in probes)
