"""The management API: models listed, described, registered, scaled and unregistered."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine, Sequence
from pathlib import Path
from urllib.parse import unquote

from lmi_deploy.server import forms, refusals
from lmi_deploy.server.answers import Reply, json_reply
from lmi_deploy.server.httpwire import Request
from lmi_deploy.server.log import Log
from lmi_deploy.server.metrics import Metrics
from lmi_deploy.server.models import Models, described, listed
from lmi_deploy.server.pool import Pool
from lmi_deploy.server.properties import BadSettings
from lmi_deploy.server.refusals import Refusal
from lmi_deploy.server.wire import Entry
from lmi_deploy.server.worker import LoadFailure

_METRICS_TYPE = (("content-type", "text/plain; version=0.0.4; charset=utf-8"),)
_NO_METRICS = (
    "Prometheus is not enabled, set SERVING_PROMETHEUS environment var to true to enable prometheus metrics"
)


class Management:
    """Answers for /models, /workflows and /server."""

    def __init__(self, models: Models, log: Log, metrics: Metrics) -> None:
        self._models = models
        self._log = log
        self._metrics = metrics
        self._background: set[asyncio.Task[None]] = set()

    async def reply(self, request: Request) -> Reply:
        """`Refusal` for what is unknown or not allowed."""
        path, entries = forms.split_target(request.target)
        asked = {str(key): blob.decode("utf-8", "replace") for key, blob in reversed(entries)}
        parts = [unquote(part) for part in path.strip("/").split("/")]
        match parts[0], len(parts):
            case ("models" | "workflows") as what, 1:
                return await self._collection(request, what, asked)
            case (("models" | "workflows"), _):
                return await self._one(request.method, "/".join(parts[1:]), asked)
            case "server", 2:
                return self._server(request.method, parts[1], entries)
            case _ if request.method == "OPTIONS" and path == "/":
                return json_reply({})
            case _:
                raise refusals.unknown_path()

    async def _collection(self, request: Request, what: str, asked: dict[str, str]) -> Reply:
        if request.method == "GET":
            return self._listing(what, asked)
        if request.method == "POST":
            return await self._register(_with_body(asked, request.body))
        raise refusals.wrong_method()

    async def _one(self, method: str, name: str, asked: dict[str, str]) -> Reply:
        match method:
            case "GET":
                return self._describe(name)
            case "PUT":
                return await self._scale(self._models.named(name), asked)
            case "DELETE":
                self._models.named(name)
                await self._models.remove(name)
                return _status(f'Model or workflow "{name}" unregistered')
            case _:
                raise refusals.wrong_method()

    def _listing(self, what: str, asked: dict[str, str]) -> Reply:
        limit, start = (_number(asked, key, usual) for key, usual in (("limit", 100), ("next_page_token", 0)))
        pools = sorted(self._models, key=lambda pool: pool.settings.name)
        page = pools[start : start + limit]
        shown: dict[str, object] = {}
        # A list of workflows names a next page even where there is none: so does the real server.
        if start + limit < len(pools) or what == "workflows":
            shown["nextPageToken"] = str(min(start + limit, len(pools)))
        shown[what] = [
            listed(pool) if what == "models" else {"workflowName": pool.settings.name} for pool in page
        ]
        return json_reply(shown)

    def _describe(self, name: str) -> Reply:
        if "/" in name:
            raise refusals.unknown_model(f"Workflow not found: {name}", "Workflow")
        try:
            pool = self._models.named(name)
        except Refusal as exc:
            raise refusals.unknown_model(name, "Workflow") from exc
        return json_reply([described(pool, startup=name in self._models.startup)])

    async def _register(self, asked: dict[str, str]) -> Reply:
        if "url" not in asked and "model_url" in asked:
            cause = 'Cannot invoke "String.startsWith(String)" because "<parameter1>" is null'
            raise Refusal(500, "NullPointerException", cause)
        if "url" not in asked:
            raise refusals.bad_request("Parameter url is required.")
        folder = Path(asked["url"].removeprefix("file://").removeprefix("file:"))
        name = asked.get("model_name") or folder.name
        if name in {pool.settings.name for pool in self._models}:
            raise Refusal(
                409,
                "BadRequestException",
                message := f"Workflow {name} is already registered.",
                reason=message,
            )
        if not folder.is_dir():
            raise Refusal(404, "ModelNotFoundException", f"Invalid model url: {asked['url']}")
        pool = self._added(folder, name, asked)
        if asked.get("synchronous", "true").lower() == "false":
            self._later(self._load(pool))
            return _status(f'Model "{name}" registration scheduled.', 202)
        await self._load(pool, told=True)
        return _status(f'Model "{name}" registered.')

    def _added(self, folder: Path, name: str, asked: dict[str, str]) -> Pool:
        try:
            pool = self._models.add(folder, name, version=asked.get("model_version"))
        except BadSettings as exc:
            raise Refusal(500, "EngineException", str(exc)) from exc
        pool.low, pool.high = _bounds(pool, asked)
        return pool

    async def _load(self, pool: Pool, *, told: bool = False) -> None:
        try:
            await pool.load()
        except LoadFailure as exc:
            self._log.error("a registered model did not load", model=pool.settings.name, why=exc)
            if told:
                await self._models.remove(pool.settings.name)
                raise Refusal(500, "EngineException", str(exc)) from exc

    async def _scale(self, pool: Pool, asked: dict[str, str]) -> Reply:
        low, high = _bounds(pool, asked)
        await pool.scale(low, high)
        bounds = f"min workers:{low} max workers:{high}"
        return _status(f'Workflow "{pool.settings.name}" worker scaled. New Worker configuration {bounds}')

    def _server(self, method: str, what: str, entries: Sequence[Entry]) -> Reply:
        if what not in ("logging", "metrics"):
            raise refusals.unknown_path()
        if method != "GET":
            raise refusals.wrong_method()
        if what == "logging":
            return _status("OK")
        if not self._metrics.kept:
            raise refusals.bad_request(_NO_METRICS)
        names = {blob.decode("utf-8", "replace") for key, blob in entries if key == "name[]"}
        return Reply(200, _METRICS_TYPE, self._metrics.text(names).encode())

    def _later(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)


def _status(text: str, code: int = 200) -> Reply:
    return json_reply({"status": text}, code)


def _with_body(asked: dict[str, str], body: bytes) -> dict[str, str]:
    """Keys of a JSON body under those of the query."""
    try:
        said = json.loads(body) if body else {}
    except ValueError:
        return asked
    return {key: str(value) for key, value in said.items()} | asked if isinstance(said, dict) else asked


def _number(asked: dict[str, str], key: str, usual: int) -> int:
    try:
        return int(asked.get(key, usual))
    except ValueError as exc:
        raise Refusal(409, "NumberFormatException", f'For input string: "{asked[key]}"') from exc


def _bounds(pool: Pool, asked: dict[str, str]) -> tuple[int, int]:
    try:
        low = int(asked.get("min_worker", pool.low))
        high = int(asked.get("max_worker", max(pool.high, low)))
    except ValueError as exc:
        why = str(exc).split(": ", 1)[1].strip("'")
        message = f'For input string: "{why}"'
        raise Refusal(
            400, "BadRequestException", message, reason=f"parameter is invalid number.{message}"
        ) from exc
    return min(low, high), high
