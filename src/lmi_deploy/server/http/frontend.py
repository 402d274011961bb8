"""Routes of the server, and the form of refusals."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass, field

from lmi_deploy.server import error_responses
from lmi_deploy.server.error_rate import Rates
from lmi_deploy.server.error_responses import ErrorReply
from lmi_deploy.server.http import responses
from lmi_deploy.server.http.access import Access
from lmi_deploy.server.http.connection import Application, ConnectionClosed, Exchange
from lmi_deploy.server.http.responses import Response, json_response
from lmi_deploy.server.inference import Inference
from lmi_deploy.server.log import Log
from lmi_deploy.server.management import Management
from lmi_deploy.server.models.properties import hash_order
from lmi_deploy.server.models.registry import Models, health
from lmi_deploy.server.settings import ServerSettings

_INFERENCE = re.compile(
    r"/(ping|invocations|predictions|v1/chat/completions)([/?].*)?|/models/.+/invoke", re.DOTALL
)
_METRICS = re.compile(r"/server/metrics(\?.*)?", re.DOTALL)


@dataclass(slots=True, kw_only=True, eq=False)
class FrontEnd:
    """Inference and management on one port, on two ports, or inference alone.

    `access` is the policy of the first port, `second` that of the separate management port.
    """

    inference: Inference
    management: Management
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
        inferred = _INFERENCE.fullmatch(exchange.request.target)
        await self._guarded(exchange, self._inferred if inferred else self._managed, self.access)

    async def inference_only(self, exchange: Exchange) -> None:
        inferred = _INFERENCE.fullmatch(exchange.request.target)
        await self._guarded(exchange, self._inferred if inferred else _nothing, self.access)

    async def inference_and_metrics(self, exchange: Exchange) -> None:
        """For a server that is managed over its control socket: the read-only routes stay on the port that is
        scraped.
        """
        response = self._managed if _METRICS.fullmatch(exchange.request.target) else _nothing
        inferred = _INFERENCE.fullmatch(exchange.request.target)
        await self._guarded(exchange, self._inferred if inferred else response, self.access)

    async def management_only(self, exchange: Exchange) -> None:
        inferred = _INFERENCE.fullmatch(exchange.request.target)
        await self._guarded(exchange, _nothing if inferred else self._managed, self.second)

    async def _guarded(self, exchange: Exchange, response: Application, access: Access) -> None:
        try:
            access.check_host(exchange.request)
            await response(exchange)
        except ErrorReply as refusal:
            await self._refuse(exchange, refusal)
        except (OSError, EOFError, ConnectionClosed):
            raise  # the client left, or must see that the response is cut off here
        except Exception as exc:
            self.log.defect(f"{exchange.request.method} {exchange.request.target[:200]} failed", exc)
            if exchange.status:
                raise ConnectionClosed from exc
            await self._refuse(exchange, error_responses.defect())
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

    async def _inferred(self, exchange: Exchange) -> None:
        if self.settings.fail_fast and any(pool.failed for pool in self.models):
            self.panic()
            raise ConnectionClosed
        if exchange.request.target.startswith("/ping"):
            for _ in range(
                2
            ):  # the refusal of a request that arrived in the same piece overtakes it, as in the real server
                await asyncio.sleep(0)
            await exchange.reply(self._ping())
        else:
            await self.inference(exchange)

    async def _managed(self, exchange: Exchange) -> None:
        self.access.check_origin(exchange.request)
        await exchange.reply(await self.management.reply(exchange.request))

    def _ping(self) -> Response:
        states = {pool.settings.name: {"status": health(pool)} for pool in self.models}
        shown = {name: states[name] for name in hash_order(states)}
        if any(pool.failed for pool in self.models):
            return json_response(shown, 500)
        if self.settings.allow_multi_status and any(not pool.has_started for pool in self.models):
            return json_response(shown, 207)
        return json_response(shown, 503 if self._rates.tripped else 200)


async def _nothing(exchange: Exchange) -> None:
    raise error_responses.unknown_path()
