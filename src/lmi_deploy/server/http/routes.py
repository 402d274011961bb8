"""Routes of the server: /ping, inference and management; the form of refusals; error rates that turn /ping to 503."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from lmi_deploy.server import error_responses
from lmi_deploy.server.error_responses import ErrorReply
from lmi_deploy.server.http import responses
from lmi_deploy.server.http.access_control import Access
from lmi_deploy.server.http.client_connection import Application, ConnectionClosed, Exchange
from lmi_deploy.server.http.responses import json_response
from lmi_deploy.server.inference_api import InferenceApi
from lmi_deploy.server.log import Log
from lmi_deploy.server.management_api import ManagementApi
from lmi_deploy.server.models.model_registry import Models, health
from lmi_deploy.server.models.property_values import InvalidSettings, hash_order
from lmi_deploy.server.server_settings import ServerSettings

_INFERENCE = re.compile(
    r"/(ping|invocations|predictions|v1/chat/completions)([/?].*)?|/models/.+/invoke", re.DOTALL
)
_MANAGEMENT = re.compile(r"/(models|workflows|adapters|server)([/?].*)?", re.DOTALL)
_METRICS = re.compile(r"/server/metrics(\?.*)?", re.DOTALL)
_RATE = re.compile(r"(\d+)/PT(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?")


@dataclass(slots=True, kw_only=True, eq=False)
class FrontEnd:
    """Inference and management on one port, on two ports, or inference alone.

    `access` is the policy of the first port, `second` that of the separate management port.
    """

    inference: InferenceApi
    management: ManagementApi
    models: Models
    settings: ServerSettings
    access: Access
    second: Access
    panic: Callable[[], None]
    log: Log
    _rates: Rates = field(init=False)

    def __post_init__(self) -> None:
        self._rates = Rates(self.settings.keys)

    async def both(self, exchange: Exchange) -> None:
        """Everything, as on the one port of the default."""
        await self._route(exchange, self._infer, self._manage, self.access)

    async def inference_only(self, exchange: Exchange) -> None:
        await self._route(exchange, self._infer, _nothing, self.access)

    async def inference_and_metrics(self, exchange: Exchange) -> None:
        """For a server that is managed over its control socket: the read-only routes stay on the port that is
        scraped.
        """
        is_metrics = _METRICS.fullmatch(exchange.request.target)
        await self._route(exchange, self._infer, self._manage if is_metrics else _unmanaged, self.access)

    async def management_only(self, exchange: Exchange) -> None:
        await self._route(exchange, _nothing, self._manage, self.second)

    async def _route(
        self, exchange: Exchange, inference: Application, others: Application, access: Access
    ) -> None:
        try:
            access.check_host(exchange.request)
            await (inference if _INFERENCE.fullmatch(exchange.request.target) else others)(exchange)
        except ErrorReply as refusal:
            await self._refuse(exchange, refusal)
        except (OSError, EOFError, ConnectionClosed):
            raise  # the client left, or must see that the response is cut off here
        except Exception as exc:
            self.log.defect(f"{exchange.request.method} {exchange.request.target[:200]} failed", exc)
            if exchange.status:
                raise ConnectionClosed from exc
            message = "The request could not be handled: see the server's log."
            await self._refuse(exchange, ErrorReply(500, "InternalServerException", message))
        else:
            self._count("model", "server", status=exchange.status)

    async def _refuse(self, exchange: Exchange, refusal: ErrorReply) -> None:
        status = refusal.status_by(self.settings.keys)
        if refusal.kind.startswith("Wlm"):
            self.log.djl(
                "InferenceRequestHandler",
                f"RequestId=[{exchange.request_id}]: {refusal.message}",
                level="WARN",
                causes=(f"ai.djl.serving.wlm.util.{refusal.kind}: {refusal.message}",),
            )
        await exchange.reply(responses.error_response(refusal, status))
        self._count("wlm" if refusal.kind.startswith("Wlm") else "server", status=status)

    def _count(self, *kinds: str, status: int) -> None:
        if status >= 500 or status == 424:
            self._rates.error(kinds, asyncio.get_running_loop().time())

    async def _infer(self, exchange: Exchange) -> None:
        if self.settings.fail_fast and any(pool.failed for pool in self.models):
            self.panic()
            raise ConnectionClosed
        if not exchange.request.target.startswith("/ping"):
            await self.inference(exchange)
            return
        states = {pool.settings.name: {"status": health(pool)} for pool in self.models}
        status = 503 if self._rates.tripped else 200
        if any(pool.failed for pool in self.models):
            status = 500
        elif self.settings.allow_multi_status and any(not pool.has_started for pool in self.models):
            status = 207
        await exchange.reply(json_response({name: states[name] for name in hash_order(states)}, status))

    async def _manage(self, exchange: Exchange) -> None:
        self.access.check_origin(exchange.request)
        await exchange.reply(await self.management.reply(exchange.request))


async def _nothing(exchange: Exchange) -> None:
    raise error_responses.unknown_path()


async def _unmanaged(exchange: Exchange) -> None:
    if not _MANAGEMENT.fullmatch(exchange.request.target):
        raise error_responses.unknown_path()
    message = (
        "This server is managed over its control socket: every user of the machine can reach the port. "
        "Start `lmi serve` with --management to manage models over the port, too."
    )
    raise ErrorReply(403, "ForbiddenException", message)


class Rates:
    """The limits `error_rate_*` of config.properties: `error_rate_any=5/PT1M` trips at the sixth error within a minute,
    permanently.
    """

    def __init__(self, keys: Mapping[str, str]) -> None:
        stated = ((kind, f"error_rate_{kind}") for kind in ("wlm", "server", "model", "any"))
        self._rates = {kind: _Rate(key, keys[key]) for kind, key in stated if key in keys}

    @property
    def tripped(self) -> bool:
        return any(rate.tripped for rate in self._rates.values())

    def error(self, kinds: Iterable[str], now: float) -> None:
        """One error, which counts as each of these kinds, and once as any."""
        for name in (*kinds, "any"):
            if name in self._rates:
                self._rates[name].error(now)


class _Rate:
    """One limit: so many errors within so many seconds."""

    def __init__(self, key: str, text: str) -> None:
        found = _RATE.fullmatch(text.strip().upper())
        if found is None or not any(found.groups()[1:]):
            raise InvalidSettings(f"{key}={text}: write a number and an ISO-8601 duration, such as 5/PT1M")
        hours, minutes, seconds = (float(part or 0) for part in found.groups()[1:])
        self.tripped = False
        self._most = int(found[1])
        self._window = hours * 3600 + minutes * 60 + seconds
        self._errors: deque[float] = deque()

    def error(self, now: float) -> None:
        self._errors.append(now)
        while self._errors and now - self._errors[0] > self._window:
            self._errors.popleft()
        self.tripped = self.tripped or len(self._errors) > self._most
