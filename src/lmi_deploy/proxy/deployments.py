"""The deployments behind the proxy: by name, from their records, looked up again while the proxy runs.

Records are read in a thread. A known one is used while it is read again, so that requests do not wait for it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from lmi_deploy.domain.recipe_endpoint_keys import TargetName
from lmi_deploy.domain.record import DeploymentRef
from lmi_deploy.engines.inference_codec import Codec, codec_of, streams_adapters
from lmi_deploy.engines.openai_support import OpenAIApi, openai_api
from lmi_deploy.errors import LmiError
from lmi_deploy.inference_client.client import HttpAddress
from lmi_deploy.inference_client.signing import EndpointSigner
from lmi_deploy.ports.inference_endpoint import InferenceEndpoint
from lmi_deploy.proxy.completion_translation import ServedModel
from lmi_deploy.proxy.concurrency_limit import RequestLimiter
from lmi_deploy.proxy.openai_error import NO_DEPLOYMENT, OpenAIError, bad_request, of_lmi_error, unknown_model
from lmi_deploy.proxy.stream_lines import ResponseIdentity
from lmi_deploy.targets.target import AnyTarget

LOCAL_SECONDS: Final = 1.0
"""The age at which what is known of a local deployment is read again: a file."""
REMOTE_SECONDS: Final = 30.0
"""The same on SageMaker, where it takes requests to AWS."""
LIST_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedDeployment:
    """All that a request to it needs."""

    name: str
    api: OpenAIApi
    codec: Codec
    endpoint: InferenceEndpoint
    address: HttpAddress
    stream_address: HttpAddress
    signer: EndpointSigner | None
    limiter: RequestLimiter
    adapters: tuple[str, ...] = ()
    """Its LoRA adapters; none are known of a server whose adapters a client registered."""
    streams_adapters: bool = True

    def model(self, adapter: str, key: str) -> ServedModel:
        """For one request; `key` is its own."""
        name = f"{self.name}:{adapter}" if adapter else self.name
        identity = ResponseIdentity(model=name, created=int(time.time()), key=key)
        return ServedModel(identity=identity, api=self.api, codec=self.codec, adapter=adapter)


@dataclass(slots=True)
class _Entry:
    name: str
    ref: DeploymentRef
    limiter: RequestLimiter
    found: ServedDeployment | None = None
    error: OpenAIError | None = None
    adapters: tuple[str, ...] = ()
    adapters_at: float = 0.0
    read_at: float = 0.0
    signer: EndpointSigner | None = None
    reading: asyncio.Task[None] | None = field(default=None, repr=False)

    @property
    def is_fresh(self) -> bool:
        limit = LOCAL_SECONDS if self.ref.is_here or self.found is None else REMOTE_SECONDS
        return time.monotonic() - self.read_at < limit


class Deployments:
    """`refs`: those that the user named; None is every one that this machine knows, now or later."""

    def __init__(
        self,
        targets: Mapping[TargetName, AnyTarget],
        refs: Iterable[DeploymentRef] | None,
        *,
        limiter: Callable[[str], RequestLimiter],
        list_adapters: Callable[[HttpAddress], Awaitable[tuple[str, ...]]],
    ) -> None:
        self._targets = targets
        self._limiter = limiter
        self._list_adapters = list_adapters
        self._lists = refs is None
        self._listed_at = 0.0
        self._entries: dict[str, _Entry] = {}
        self._add(() if refs is None else refs)

    async def names(self) -> tuple[str, ...]:
        await self._list()
        return tuple(self._entries)

    async def models(self) -> tuple[str, ...]:
        """What `find` accepts: the names, each followed by NAME:ADAPTER for the LoRA adapters that its server lists."""
        await self._list()
        await self._read_adapters()
        entries = self._entries.values()
        return tuple(
            x for entry in entries for x in (entry.name, *(f"{entry.name}:{y}" for y in entry.adapters))
        )

    async def find(self, model: object) -> tuple[ServedDeployment, str]:
        """The deployment, and the adapter: after a colon in the name, or the whole name. OpenAIError if there is none
        that answers.
        """
        name, _, adapter = (await self._name_of(model)).partition(":")
        if name not in self._entries:
            await self._list()
        if name not in self._entries and not adapter:
            name, adapter = await self._find_adapter(name)
        entry = self._entries.get(name)
        if entry is None:
            raise unknown_model(name, tuple(self._entries))
        if entry.found is None and not entry.is_fresh:
            await self._read(entry)
        elif not entry.is_fresh:
            self._read(entry)
        if entry.found is None:
            raise entry.error or unknown_model(name, tuple(self._entries))
        if adapter and entry.found.codec.handler.template:
            message = f"the model '{name}:{adapter}' does not exist: the handler of {name} has no adapters"
            raise OpenAIError(404, message, code="model_not_found", param="model")
        if adapter and entry.found.adapters and adapter not in entry.found.adapters:
            raise unknown_model(f"{name}:{adapter}", tuple(f"{name}:{one}" for one in entry.found.adapters))
        return entry.found, adapter

    async def read_again(self, deployment: ServedDeployment) -> ServedDeployment:
        """After a request could not be sent: the deployment may have moved."""
        entry = self._entries.get(deployment.name)
        if entry is None:
            raise unknown_model(deployment.name, tuple(self._entries))
        await self._read(entry)
        if entry.found is None:
            raise entry.error or unknown_model(deployment.name, tuple(self._entries))
        return entry.found

    async def _name_of(self, model: object) -> str:
        if isinstance(model, str) and model:
            return model
        names = await self.names()
        if model is not None or len(names) != 1:
            problem = f"expected one of {', '.join(names)}" if names else NO_DEPLOYMENT
            raise bad_request(problem, "model")
        return names[0]

    async def _find_adapter(self, adapter: str) -> tuple[str, str]:
        """The deployment that has it, and the adapter; if there is none, it is taken as the name of a deployment."""
        await self._read_adapters()
        names = [entry.name for entry in self._entries.values() if adapter in entry.adapters]
        if len(names) > 1:
            choice = " or ".join(f"{name}:{adapter}" for name in names)
            raise bad_request(f"{len(names)} deployments have an adapter {adapter}: use {choice}", "model")
        return (names[0], adapter) if names else (adapter, "")

    async def _read_adapters(self) -> None:
        """Of all deployments on this machine: a SageMaker endpoint does not list its adapters."""
        now = time.monotonic()
        entries = [entry for entry in self._entries.values() if entry.ref.target == "local"]
        await asyncio.gather(*(self._read(entry) for entry in entries if not entry.is_fresh))
        for entry in entries:
            url = entry.found.endpoint.adapters_url if entry.found else ""
            if now - entry.adapters_at >= LIST_SECONDS:
                entry.adapters = await self._list_adapters(HttpAddress.parse(url)) if url else ()
                entry.adapters_at = now

    def _add(self, refs: Iterable[DeploymentRef]) -> None:
        """A name that is there twice gets its place behind it."""
        known = {entry.ref for entry in self._entries.values()}
        for ref in refs:
            if ref not in known:
                name = f"{ref.name}@{ref.region or ref.target}" if ref.name in self._entries else ref.name
                self._entries[name] = _Entry(name, ref, self._limiter(name))

    async def _list(self) -> None:
        if not self._lists or time.monotonic() - self._listed_at < LIST_SECONDS:
            return
        self._listed_at = time.monotonic()
        targets = [*self._targets.values()]
        refs = await asyncio.to_thread(lambda: [ref for target in targets for ref in target.list_known()])
        for name in [name for name, entry in self._entries.items() if entry.ref not in refs]:
            del self._entries[name]
        self._add(refs)

    def _read(self, entry: _Entry) -> asyncio.Task[None]:
        """One reader at a time; those that wait for it share it."""
        if entry.reading is None or entry.reading.done():
            entry.reading = _background(self._read_now(entry))
        return entry.reading

    async def _read_now(self, entry: _Entry) -> None:
        try:
            entry.found = await asyncio.to_thread(self._served, entry)
            entry.error = None
        except LmiError as error:
            failed = of_lmi_error(error)
            # What cannot be looked up at the moment may still answer; what is gone does not.
            if failed.status == 404 or entry.found is None:
                entry.found, entry.error = None, failed
        except OpenAIError as error:
            entry.found, entry.error = None, error
        entry.read_at = time.monotonic()

    def _served(self, entry: _Entry) -> ServedDeployment:
        """Reads the record: in a thread."""
        ref = entry.ref
        target = self._targets[ref.target]
        record = target.read_record(ref)
        if record is None:
            message = f"{ref.name}: no such deployment is running"
            raise OpenAIError(404, message, code="model_not_found", param="model")
        if record.current is None:
            message = f"{ref.name} does not answer yet; `{ref.command('status')}` shows its state"
            raise OpenAIError(503, message, code="model_not_ready", retry_after=5)
        if record.current.serving.is_asynchronous:
            message = (
                f"{ref.name} is asynchronous: `{ref.command('invoke')} --async` sends requests to its queue"
            )
            raise bad_request(message, "model")
        codec = codec_of(record.current.serving, ref.name)
        shared = record.current.serving.shared
        endpoint = target.inference_endpoint(replace(ref, shared=shared))
        if entry.signer is None and endpoint.signing is not None:
            entry.signer = EndpointSigner(endpoint.signing)
        return ServedDeployment(
            name=entry.name,
            api=openai_api(codec),
            codec=codec,
            endpoint=endpoint,
            address=HttpAddress.parse(endpoint.url),
            stream_address=HttpAddress.parse(endpoint.stream_url),
            signer=entry.signer,
            limiter=entry.limiter,
            adapters=record.current.serving.adapters,
            streams_adapters=streams_adapters(record.current.serving),
        )


_tasks: Final[set[asyncio.Task[Any]]] = set()


def _background(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """A task that lives until its end: the loop itself refers to tasks only weakly."""
    task = asyncio.create_task(work)
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)
    return task
