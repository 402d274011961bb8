"""The management API: models listed, described, registered, scaled and unregistered."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from pathlib import Path
from urllib.parse import unquote

from lmi_deploy.server import error_responses
from lmi_deploy.server.adapter_api import AdapterRequest
from lmi_deploy.server.error_responses import ErrorReply
from lmi_deploy.server.http import form_parsing
from lmi_deploy.server.http.request_head_parser import ReceivedRequest
from lmi_deploy.server.http.responses import Response, json_response, list_response, status_response
from lmi_deploy.server.log import Log
from lmi_deploy.server.models.archives import BadArchive, is_archive
from lmi_deploy.server.models.folder_permissions import require_safe
from lmi_deploy.server.models.model_registry import Models, described, listed
from lmi_deploy.server.models.property_values import InvalidSettings
from lmi_deploy.server.models.registration_request import Registration, read_registration
from lmi_deploy.server.models.serving_properties import UnknownEngine
from lmi_deploy.server.prometheus_metrics import PrometheusMetrics
from lmi_deploy.server.workers.djl_protocol import Entry
from lmi_deploy.server.workers.pool import Pool
from lmi_deploy.server.workers.worker import LoadFailure
from lmi_deploy.server.workers.worker_group import WorkerGroupStatus

# Java knows these schemes; any other, such as `s3`, is not a URL to DJLServing without a plug-in.
_READABLE = ("", "file", "http", "https", "jar", "djl")
_METRICS_TYPE = (("content-type", "text/plain; version=0.0.4; charset=utf-8"),)
_NO_METRICS = (
    "Prometheus is not enabled, set SERVING_PROMETHEUS environment var to true to enable prometheus metrics"
)


class ManagementApi:
    """Handles /models, /workflows and /server."""

    def __init__(self, models: Models, log: Log, metrics: PrometheusMetrics) -> None:
        self._models = models
        self._log = log
        self._metrics = metrics

        self._background: set[asyncio.Task[None]] = set()

    async def reply(self, request: ReceivedRequest) -> Response:
        """`ErrorReply` for an unknown or forbidden request."""
        path, entries = form_parsing.split_target(request.target)
        requested = {str(key): blob.decode("utf-8", "replace") for key, blob in reversed(entries)}
        parts = [unquote(part) for part in path.strip("/").split("/")]
        match parts[0], len(parts):
            case "adapters", _:
                return await AdapterRequest(self._models, self._log, request, entries).reply(parts[1:])
            case "models", _ if parts[2:3] == ["adapters"]:
                call = AdapterRequest(self._models, self._log, request, entries, model=parts[1])
                return await call.reply(parts[3:])
            case ("models" | "workflows") as what, 1:
                if request.method == "GET":
                    return self._listing(what, requested)
                if request.method != "POST":
                    raise error_responses.wrong_method()
                noun = "Model" if what == "models" else "Workflow"
                return await self._register(read_registration(request, requested), noun)
            case (("models" | "workflows"), _):
                return await self._one(request.method, parts[1:], requested)
            case "server", 2:
                return self._server(request.method, parts[1], entries)
            case _ if request.method == "OPTIONS" and path == "/":
                return json_response({})
            case _:
                raise error_responses.unknown_path()

    async def _one(self, method: str, parts: Sequence[str], requested: dict[str, str]) -> Response:
        name, version = parts[0], parts[1] if len(parts) > 1 else None
        match method:
            case "GET":
                return self._describe(name, version)
            case "PUT":
                return await self._scale(self._models.versions(name, version), requested)
            case "DELETE":
                for pool in self._models.versions(name, version):
                    await self._models.remove(pool)
                return status_response(f'Model or workflow "{name}" unregistered')
            case _:
                raise error_responses.wrong_method()

    def _listing(self, what: str, requested: dict[str, str]) -> Response:
        pools = sorted(self._models, key=lambda pool: pool.settings.name)
        if what == "models":
            return list_response(what, [listed(pool) for pool in pools], requested)
        # This list names a next page even if there is none: so does the real server.
        names = [{"workflowName": pool.settings.name} for pool in pools]
        return list_response(what, names, requested, always_next=True)

    def _describe(self, name: str, version: str | None) -> Response:
        if name not in {pool.settings.name for pool in self._models}:
            raise error_responses.unknown_model(name, "Workflow")
        try:
            pools = self._models.versions(name, version)
        except ErrorReply as exc:
            raise error_responses.unknown_model(f"Workflow not found: {name}/{version}", "Workflow") from exc
        return json_response([described(pool, startup=name in self._models.startup) for pool in pools])

    async def _register(self, requested: Registration, noun: str) -> Response:
        self._check_name(requested)
        pool = self._added(requested, await self._folder(requested))
        if not requested.synchronous:
            self._later(self._load(pool))
            return status_response(f'{noun} "{requested.name}" registration scheduled.', 202)
        await self._load(pool, reported=True)
        return status_response(f'{noun} "{requested.name}" registered.')

    def _check_name(self, requested: Registration) -> None:
        if self._models.has(requested.name, requested.version):
            named = requested.name if requested.version is None else f"{requested.name}:{requested.version}"
            message = f"Workflow {named} is already registered."
            raise ErrorReply(409, "BadRequestException", message, reason=message)

    async def _folder(self, requested: Registration) -> Path:
        """The folder to serve: the given one or the extracted archive. Other users must not be able to change it."""
        archived = is_archive(requested.folder)
        if requested.scheme not in _READABLE:
            raise ErrorReply(500, "IllegalArgumentException", f"Malformed URL: {requested.url}")
        if not archived and not requested.folder.is_dir():
            raise ErrorReply(404, "ModelNotFoundException", f"Invalid model url: {requested.url}")
        path = await require_safe(requested.folder, self._log, "a model was not registered")
        try:
            return await asyncio.to_thread(self._models.archives.extract, path) if archived else path
        except BadArchive as exc:
            self._log.warn("a model was not registered", why=exc)
            raise ErrorReply(400, "BadRequestException", str(exc)) from exc

    def _added(self, requested: Registration, folder: Path) -> Pool:
        try:
            self._check_name(requested)  # the name may have been taken meanwhile
            return self._models.add(folder, requested.name, overrides=requested.over)
        except (UnknownEngine, InvalidSettings, ErrorReply) as exc:
            self._models.archives.remove(folder)
            if isinstance(exc, UnknownEngine):
                message = f"Failed to detect engine of the model: {folder}"
                raise ErrorReply(404, "ModelNotFoundException", message) from exc
            if isinstance(exc, InvalidSettings):
                raise ErrorReply(500, "EngineException", str(exc)) from exc
            raise

    async def _load(self, pool: Pool, *, reported: bool = False) -> None:
        try:
            await pool.load()
        except LoadFailure as exc:
            self._log.error("a registered model did not load", model=pool.settings.name, why=exc)
            if reported:
                await self._models.remove(pool)
                raise error_responses.not_loaded(exc.text) from exc

    async def _scale(self, pools: Sequence[Pool], requested: dict[str, str]) -> Response:
        """Scale all pools alike; those before one that is not ready stay scaled, as in the real server."""
        low, high = (_bound(requested, key) for key in ("min_worker", "max_worker"))
        lines = []
        for pool in pools:
            name = pool.settings.name
            if pool.status is not WorkerGroupStatus.READY:
                raise ErrorReply(
                    503, "ServiceUnavailableException", f"Model or workflow is not ready: {name}"
                )
            await pool.scale(low, high)
            bounds = f"min workers:{low} max workers:{high}"
            lines.append(f'Workflow "{name}" worker scaled. New Worker configuration {bounds}')
        return status_response("\n".join(lines))

    def _server(self, method: str, what: str, entries: Sequence[Entry]) -> Response:
        if what not in ("logging", "metrics"):
            raise error_responses.unknown_path()
        if method != "GET" and (what, method) != ("logging", "POST"):
            raise error_responses.wrong_method()
        if what == "logging":
            # The level does not change: this server's only log contains everything.
            return status_response("OK")
        if not self._metrics.is_enabled:
            raise error_responses.bad_request(_NO_METRICS)
        names = {blob.decode("utf-8", "replace") for key, blob in entries if key == "name[]"}
        return Response(200, _METRICS_TYPE, self._metrics.text(names).encode())

    def _later(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)


def _bound(requested: dict[str, str], key: str) -> int:
    """-1: unchanged."""
    try:
        return int(requested.get(key) or -1)
    except ValueError as exc:
        message = f'For input string: "{requested[key]}"'
        reason = f"parameter is invalid number.{message}"
        raise ErrorReply(400, "BadRequestException", message, reason=reason) from exc
