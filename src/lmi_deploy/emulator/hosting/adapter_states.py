"""LoRA adapters as inference components: files in the container of their base, registered by the container's own API.

Sources: SageMaker's API reference, InferenceComponentSpecification ("An adapter inference component is loaded by a base
inference component, and it uses the compute resources of the base"), InferenceComponentContainerSpecification
(ArtifactUrl: "a single gzip compressed tar archive (.tar.gz suffix)"). How SageMaker registers an adapter is in its
containers: POST /adapters, DELETE /adapters/NAME, and the headers X-Amzn-SageMaker-Adapter-Identifier and -Alias of
requests (deepjavalibrary/djl-serving, AdapterManagementRequestHandler; aws/model-hosting-container-standards, LoRA
module, which has no update; read on 2026-11-26). Which name it registers is not documented: here it is a new one for
each version, so that the earlier one answers until the new one is loaded; the alias is the component's name.
"""

from __future__ import annotations

import asyncio
import secrets
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import aiohttp

from lmi_deploy.emulator.context import EmulatorContext
from lmi_deploy.emulator.hosting.container_files import ContainerFiles
from lmi_deploy.emulator.hosting.failure_reasons import HostingFailed
from lmi_deploy.emulator.hosting.instances import HostingInstance
from lmi_deploy.emulator.hosting.resource_tasks import Key
from lmi_deploy.emulator.record_store import Row
from lmi_deploy.emulator.sagemaker.resources import INFERENCE_COMPONENT

IDENTIFIER: Final = "X-Amzn-SageMaker-Adapter-Identifier"
ALIAS: Final = "X-Amzn-SageMaker-Adapter-Alias"
LOADING: Final = 5.0
_TIMEOUT: Final = aiohttp.ClientTimeout(total=120.0)


def base_of(spec: Row) -> str:
    """The base of an adapter; empty for any other component."""
    return str(spec["description"].get("BaseInferenceComponentName", ""))


def identifier_of(row: Row, name: str) -> str:
    """What its base's container knows it by."""
    return str(row.get("identifier") or name)


@dataclass(frozen=True, slots=True)
class Adapters:
    context: EmulatorContext
    running: Mapping[Key, HostingInstance]
    """The containers of components."""

    async def load(self, key: Key, spec: Row, *, role: str) -> str:
        """Into the container of its base, beside an earlier version, under a new identifier, which is returned;
        HostingFailed with the container's words.
        """
        await self.context.clock.sleep(LOADING)
        instance, identifier = self.running.get((key[0], base_of(spec))), f"{key[1]}-{secrets.token_hex(4)}"
        if instance is not None:
            await self._load(key[1], identifier, spec, instance, role=role)
        return identifier

    async def load_all(self, base: Key, instance: HostingInstance, *, role: str) -> None:
        """Those of a component whose new container takes no requests yet."""
        for name, row in self._of(base):
            await self._load(name, identifier_of(row, name), row["spec"], instance, role=role)

    async def unload(self, region: str, spec: Row, identifier: str) -> None:
        instance = self.running.get((region, base_of(spec)))
        if instance is None:
            return
        if instance.port is not None:
            async with (
                aiohttp.ClientSession(timeout=_TIMEOUT) as session,
                session.delete(f"{_url(instance)}/{identifier}"),
            ):
                pass  # no request names it any more, whatever the container says
        await asyncio.to_thread(shutil.rmtree, _folder(instance, identifier), ignore_errors=True)

    def _of(self, base: Key) -> Iterator[tuple[str, Row]]:
        for name, row in list(self.context.table(INFERENCE_COMPONENT.table, base[0]).rows()):
            if base_of(row["spec"]) == base[1] and row["status"] in ("InService", "Updating"):
                yield name, row

    async def _load(
        self, name: str, identifier: str, spec: Row, instance: HostingInstance, *, role: str
    ) -> None:
        uri = str(spec["description"].get("Container", {}).get("ArtifactUrl", ""))
        files, place = ContainerFiles(self.context, instance.root, role), _folder(instance, identifier)
        await asyncio.to_thread(files.unpack_archive, uri, place)
        if instance.port is None:
            return
        params = {"name": identifier, "src": str(place)}
        async with (
            aiohttp.ClientSession(timeout=_TIMEOUT) as session,
            session.post(_url(instance), params=params, headers={ALIAS: name}) as response,
        ):
            if response.status >= 300:
                raise HostingFailed(f"Failed to load the adapter: {await response.text()}")


def _url(instance: HostingInstance) -> str:
    return f"http://127.0.0.1:{instance.port}/adapters"


def _folder(instance: HostingInstance, identifier: str) -> Path:
    return instance.root / "adapters" / identifier
