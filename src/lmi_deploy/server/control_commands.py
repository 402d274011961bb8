"""The commands of the control socket: status with a report on the workers, take over, stop, and those of DJLServing's
management API.
"""

from __future__ import annotations

import asyncio
import datetime
import json
import os
import socket
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import psutil

from lmi_deploy.server.control_socket import ControlError, Message, SocketHandover, Verb
from lmi_deploy.server.error_responses import ErrorReply
from lmi_deploy.server.http.listener import Listener
from lmi_deploy.server.http.request_head_parser import ReceivedRequest
from lmi_deploy.server.http.responses import error_response
from lmi_deploy.server.inference_api import Counts
from lmi_deploy.server.log import Log
from lmi_deploy.server.management_api import ManagementApi
from lmi_deploy.server.models.model_registry import Models
from lmi_deploy.server.workers.pool import Pool


@dataclass(slots=True)
class ServerState:
    """The state of the server."""

    phase: str = "loading"
    message: str = ""
    started_at: str = field(
        default_factory=lambda: datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlCommands:
    """The verbs of the control socket, over the parts of a running server."""

    state: ServerState
    model: str
    labels: Mapping[str, str]
    models: Models
    counts: Counts
    listener: Listener
    management: ManagementApi
    end: Callable[[], None]
    log: Log

    def verbs(self) -> Mapping[str, Verb]:
        return {
            "status": self.status,
            "take_over": self.take_over,
            "stop": self.stop,
            "manage": self.manage,
        }

    async def status(self, _: Message) -> Message:
        counts = self.counts
        why = ""
        if self.state.phase == "ready":
            failed = next((pool for pool in self.models if pool.failed), None)
            if failed is not None:
                why = failed.why_failed or "the model failed"
            elif _has_lost_workers(self.models):
                why = "the worker's Python process has ended (as on SageMaker, only a request discovers this)"
        return {
            "phase": "failed" if why else self.state.phase,
            "pid": os.getpid(),
            "port": self.listener.port,
            "model": self.model,
            "labels": dict(self.labels),
            "requests": {"served": counts.served, "failed": counts.failed, "in_flight": counts.in_flight},
            "workers": _workers_of(self.models),
            "started_at": self.state.started_at,
            "message": why or self.state.message,
        }

    async def stop(self, _: Message) -> Message:
        self.end()
        return {"phase": "draining"}

    async def take_over(self, requested: Message) -> Message:
        """Accept on the listening socket of another server, which then drains and exits."""
        if self.state.phase != "ready":
            raise ControlError(f"this server is {self.state.phase}: only a ready server can take over")
        handover = SocketHandover(str(requested.get("from")))
        try:
            listening = await asyncio.to_thread(handover.fetch)
            await self.listener.replace(listening)
            handover.confirm()
        finally:
            handover.close()
        self.log.event("took over", port=self.listener.port, of=requested.get("from"))
        return {"port": self.listener.port}

    async def manage(self, requested: Message) -> Message:
        """A request to the management API, as `method`, `target` and JSON `body`; its `status` and `body`."""
        body = requested.get("body")
        headers = [("content-type", "application/json")] if body is not None else []
        raw = json.dumps(body).encode() if body is not None else b""
        request = ReceivedRequest(
            str(requested.get("method") or "GET"), str(requested.get("target")), headers, raw
        )
        try:
            reply = await self.management.reply(request)
        except ErrorReply as refusal:
            reply = error_response(refusal, refusal.status)
        return {"status": reply.status, "body": reply.body.decode("utf-8", "replace")}

    def give_socket(self) -> socket.socket:
        """Our listening socket, for the server that takes over."""
        listening = self.listener.socket
        if self.state.phase != "ready" or listening is None:
            raise ControlError(f"this server is {self.state.phase}: it has no socket to hand over")
        return listening


def _workers_of(pools: Iterable[Pool]) -> list[dict[str, object]]:
    """Process id, resident bytes and phase of every worker that runs or is starting."""
    found: list[dict[str, object]] = []
    for pool in pools:
        for session in pool.starting:
            if session.pid is not None:
                found.append(_worker(session.pid, "loading"))
        for slot in pool.running:
            found.append(_worker(slot.session.pid, "busy" if slot.busy else "ready"))
    return found


def _has_lost_workers(pools: Iterable[Pool]) -> bool:
    """Whether a model has lost its last worker since the last request to it.

    HTTP clients see it only with their next request, as with the real server; the supervisor of the deployment sees
    it at once.
    """
    return any(
        pool.running and not any(_is_own_worker(slot.session.pid) for slot in pool.running) for pool in pools
    )


def _is_own_worker(pid: int | None) -> bool:
    """Whether it is a running child of this process: the number alone may now belong to another process."""
    try:
        process = psutil.Process(pid) if pid else None
        return process is not None and process.ppid() == os.getpid()
    except psutil.Error:
        return False


def _worker(pid: int | None, phase: str) -> dict[str, object]:
    try:
        resident = int(psutil.Process(pid).memory_info().rss) if pid else None
    except psutil.Error:
        resident = None
    return {"pid": pid, "rss_bytes": resident, "phase": phase}
