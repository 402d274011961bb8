"""The management API of LoRA adapters: list, register, describe, update and unregister.

After `AdapterManagementRequestHandler` of DJLServing (deepjavalibrary/djl-serving@10d0a8e0, serving/src/main/java):
the handler is asked first, and the server registers the adapter only after the handler agreed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from lmi_deploy.server import error_responses, sagemaker_differences
from lmi_deploy.server.error_responses import ErrorReply
from lmi_deploy.server.http.request_head_parser import ReceivedRequest
from lmi_deploy.server.http.responses import Response, json_response, list_response, status_response
from lmi_deploy.server.log import Log
from lmi_deploy.server.models.folder_permissions import require_safe
from lmi_deploy.server.models.lora_adapters import AdapterResult, LoraAdapter, adapter_result
from lmi_deploy.server.models.model_registry import Models
from lmi_deploy.server.workers.batch_queue import QueuedRequest
from lmi_deploy.server.workers.djl_protocol import Entry
from lmi_deploy.server.workers.pool import Pool

ALIAS = "x-amzn-sagemaker-adapter-alias"
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):\S+")
_NO_MODEL = "The adapter must be prefixed with a model unless there is only a single startup model used."


class AdapterRequest:
    """One request to /adapters, or to /models/NAME/adapters with `model`."""

    def __init__(
        self,
        models: Models,
        log: Log,
        request: ReceivedRequest,
        query: Sequence[Entry],
        *,
        model: str | None = None,
    ) -> None:
        """`ErrorReply` if no model is named, and several or none are of the start."""
        name = model if model is not None else models.startup_name()
        if name is None:
            raise error_responses.bad_request(_NO_MODEL)
        self._models = models
        self._log = log
        self._name = name
        self._method = request.method
        self._alias = request.header(ALIAS)
        self._query = [(str(key), blob.decode("utf-8", "replace")) for key, blob in query]

    async def reply(self, parts: Sequence[str]) -> Response:
        """`parts`: the path after `adapters`. `ErrorReply` for an unknown, forbidden or failed request."""
        match self._method, len(parts):
            case "GET", 0:
                shown = [adapter.described() for adapter in self._pool().adapters]
                return list_response("adapters", shown, dict(reversed(self._query)))
            case "POST", 0:
                return await self._register()
            case "GET", _:
                return json_response(self._adapter(self._pool(), parts[0]).described())
            case "POST", 2 if parts[1].lower() == "update":
                return await self._update(parts[0])
            case "DELETE", size if size:
                return await self._unregister(parts[0])
            case _:
                raise error_responses.wrong_method()

    async def _register(self) -> Response:
        pool = self._pool()
        name, src = self._required("name"), self._required("src")
        scheme = _SCHEME.fullmatch(src)
        if scheme is not None and scheme[1] != "file":
            raise ErrorReply(409, "IllegalArgumentException", "URL adapters are not currently supported")
        await self._check_permissions(pool, src)
        adapter = LoraAdapter(name=name, src=src, alias=self._alias, options=self._options())
        if len(pool.running) > 1:
            self._log.warn(
                sagemaker_differences.ONE_WORKER, model=self._name, adapter=name, workers=len(pool.running)
            )
        outcome = await self._submit(pool, adapter.call("register_adapter"))
        pool.adapters.add(adapter)
        return status_response(outcome.message, outcome.code)

    async def _update(self, name: str) -> Response:
        pool = self._pool()
        adapter = self._adapter(pool, name).updated(self._options(), self._alias)
        await self._check_permissions(pool, adapter.src)
        outcome = await self._submit(pool, adapter.call("update_adapter"))
        pool.adapters.replace(adapter)
        return status_response(outcome.message, outcome.code)

    async def _unregister(self, name: str) -> Response:
        pool = self._pool()
        adapter = self._adapter(pool, name).updated({}, self._alias)
        outcome = await self._submit(pool, adapter.call("unregister_adapter", named_only=True))
        pool.adapters.remove(name)
        return status_response(outcome.message, outcome.code)

    def _pool(self) -> Pool:
        try:
            pool = self._models.versions(self._name)[0]  # the first registered one
        except ErrorReply as exc:
            raise _not_found(f"The model {self._name} was not found") from exc
        if not pool.settings.enable_lora:
            raise error_responses.bad_request("LoRA is not enabled.")
        return pool

    def _adapter(self, pool: Pool, name: str) -> LoraAdapter:
        adapter = pool.adapters.named(name)
        if adapter is None:
            raise _not_found(f"The adapter {name if self._alias is None else self._alias} was not found")
        return adapter

    def _required(self, key: str) -> str:
        value = next((value for name, value in self._query if name == key), None)
        if value is None:
            raise error_responses.bad_request(f"Parameter {key} is required.")
        return value

    def _options(self) -> dict[str, str]:
        """Every parameter that occurs once."""
        times = Counter(key for key, _ in self._query)
        return {key: value for key, value in self._query if times[key] == 1}

    async def _check_permissions(self, pool: Pool, src: str) -> None:
        """An adapter may contain a model.py, which 0.36 runs: so it is checked like a model's folder."""
        path = pool.settings.folder / src
        if not path.exists():
            return  # the handler decides
        await require_safe(path, self._log, "an adapter was not registered")

    async def _submit(self, pool: Pool, job: QueuedRequest) -> AdapterResult:
        await pool.submit(job)
        outcome = await adapter_result(job, pool.settings)
        if outcome.code >= 300:
            raise ErrorReply(outcome.code, "BadRequestException", outcome.message)
        return outcome


def _not_found(message: str) -> ErrorReply:
    return ErrorReply(404, "BadRequestException", message, reason=message)
