"""LoRA adapters of one model: which are registered, and the requests about them to a worker's handler.

After `Adapter`, `PyAdapter` and `ModelInfo` of DJLServing (deepjavalibrary/djl-serving, folder wlm) and the functions
`register_adapter`, `update_adapter` and `unregister_adapter` of its Python side (djl_python/huggingface.py and
async_utils.py in 0.34, adapter_manager_mixin.py in 0.36).
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from lmi_deploy.server import error_responses
from lmi_deploy.server.error_responses import ErrorReply
from lmi_deploy.server.models.property_values import hash_order, parse_bool
from lmi_deploy.server.models.serving_properties import ServingProperties
from lmi_deploy.server.workers.batch_queue import QueuedRequest
from lmi_deploy.server.workers.djl_protocol import Entry, WorkerResponse, alphabetical
from lmi_deploy.server.workers.worker import LoadFailure
from lmi_deploy.server.workers.worker_group import WorkerFailed, WorkerSession

FOLDER = "adapters"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoraAdapter:
    """One adapter. `options` is the whole query it was registered with: the handler gets it as content."""

    name: str
    src: str
    alias: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def preload(self) -> bool:
        return parse_bool(self.options.get("preload", "true"))

    @property
    def pin(self) -> bool:
        return parse_bool(self.options.get("pin", "false"))

    def described(self) -> dict[str, object]:
        """As GET /models/NAME/adapters/NAME shows it."""
        return {"name": self.name, "src": self.src, "preload": self.preload, "pin": self.pin}

    def updated(self, options: Mapping[str, str], alias: str | None) -> LoraAdapter:
        """With new options over the old ones; the name stays."""
        options = {**self.options, **options}
        src = options.get("src", self.src)
        return dataclasses.replace(self, src=src, alias=alias or self.alias, options=options)

    def call(self, handler: str, *, named_only: bool = False) -> QueuedRequest:
        """A call of one of the handler's functions; it does not share a batch with requests of clients."""
        properties = [("handler", handler), ("name", self.name)]
        if self.alias is not None:
            properties.append(("alias", self.alias))
        content: list[Entry] = []
        if not named_only:
            properties.append(("src", self.src))
            content = [(key, self.options[key].encode()) for key in hash_order(self.options)]
        future: asyncio.Future[WorkerResponse] = asyncio.get_running_loop().create_future()
        return QueuedRequest(alphabetical(properties), content, lambda: False, future, alone=True)


@dataclass(frozen=True, slots=True)
class AdapterResult:
    """The handler's response; a code of 300 or more is a failure."""

    code: int
    message: str


async def adapter_result(job: QueuedRequest, settings: ServingProperties) -> AdapterResult:
    """The handler's response; `ErrorReply` when there is none within predict_timeout, which a synchronous worker
    enforces.

    A synchronous handler reports the outcome by code and message of its Output, an asynchronous one by the first
    piece.
    """
    try:
        async with asyncio.timeout(settings.limits.predict_timeout if settings.async_mode else None):
            response = await job.response
            if not response.streamed:
                return AdapterResult(response.code, response.message)
            frame = await job.frames.get()
    except TimeoutError as exc:
        raise error_responses.timed_out() from exc
    finally:
        job.abandon()
    if frame.lost:
        raise error_responses.disconnected()
    text = frame.blob.decode("utf-8", "replace").strip()
    failed_because = response.code >= 300 and response.message not in ("", "OK")
    return AdapterResult(response.code, response.message if failed_because else text)


class LoraAdapters:
    """The adapters of one model, by name; every worker that starts receives all of them."""

    def __init__(self, settings: ServingProperties, failed: Callable[[str, str], None]) -> None:
        """The adapters in the model's folder `adapters` are registered from the start.

        `failed` gets name and reason of each adapter that a starting worker refuses.
        """
        folder = settings.folder / FOLDER
        found = sorted(folder.iterdir()) if folder.is_dir() else []
        self._kept = {path.name: LoraAdapter(name=path.name, src=str(path)) for path in found}
        self._settings = settings
        self._failed = failed

    def __iter__(self) -> Iterator[LoraAdapter]:
        """In the order of the real server's hash table."""
        return iter([self._kept[name] for name in hash_order(self._kept)])

    def named(self, name: str) -> LoraAdapter | None:
        return self._kept.get(name)

    def add(self, adapter: LoraAdapter) -> None:
        """`ErrorReply` 409 for a name that is taken."""
        if adapter.name in self._kept:
            message = (
                f"The adapter {adapter.alias or adapter.name} already exists. If you want to replace it, please "
                "unregister before registering a new adapter with the same name."
            )
            raise ErrorReply(409, "IllegalArgumentException", message)
        self._kept[adapter.name] = adapter

    def replace(self, adapter: LoraAdapter) -> None:
        self._kept[adapter.name] = adapter

    def remove(self, name: str) -> None:
        self._kept.pop(name, None)

    def refused(self, name: str | None) -> str:
        """Why a request that names this adapter in its query or form is not run; empty if it is."""
        return f"The adapter {name} has not been registered" if name not in (None, *self._kept) else ""

    async def introduce_to(self, session: WorkerSession) -> None:
        """Register all of them with a worker that has just started; `LoadFailure` when it does not outlive that."""
        for adapter in self:
            job = adapter.call("register_adapter")
            try:
                await session.serve((job,), lambda: None)
                outcome = await adapter_result(job, self._settings)
            except WorkerFailed as exc:
                why = f"register_adapter of {adapter.name}: {exc.text}"
                raise LoadFailure("adapters", why, worker_exit=None, last_lines=()) from exc
            except ErrorReply as exc:
                self._failed(adapter.name, str(exc))
            else:
                if outcome.code >= 300:
                    self._failed(adapter.name, f"{outcome.code} {outcome.message}")
