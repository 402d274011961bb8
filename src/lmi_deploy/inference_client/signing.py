"""Signatures of requests to one endpoint, with keys that are read outside the event loop and kept for a while."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from lmi_deploy.domain.inference_http import SigningKeys
from lmi_deploy.errors import LmiError
from lmi_deploy.inference_client.client import HttpAddress
from lmi_deploy.inference_client.sigv4 import RequestSigner
from lmi_deploy.ports.inference_endpoint import RequestSigning

_KEPT_SECONDS: Final = 60.0
"""botocore refreshes keys at least 10 minutes before they expire: asked once a minute, they never do."""


class EndpointSigner:
    """Belongs to one event loop."""

    def __init__(self, signing: RequestSigning) -> None:
        self._source = signing.keys
        self._headers = signing.headers
        self._signer = RequestSigner(signing.region, signing.service)
        self._keys: SigningKeys | None = None
        self._read_at = 0.0
        self._reading: asyncio.Task[None] | None = None

    async def headers(
        self, address: HttpAddress, headers: Sequence[tuple[str, str]], body: bytes
    ) -> list[tuple[str, str]]:
        """`headers`, those that each request needs, and the signature's. AccessError if there are no credentials."""
        if self._keys is None:
            await self._read(renew=False)
        signed = self.headers_now(address, headers, body)
        assert signed is not None
        return signed

    def headers_now(
        self, address: HttpAddress, headers: Sequence[tuple[str, str]], body: bytes
    ) -> list[tuple[str, str]] | None:
        """As `headers`; None if no keys have been read yet."""
        keys = self._keys
        if keys is None:
            return None
        self._refresh_in_time()
        named = {name.lower() for name, _ in headers}
        headers = [*headers, *(each for each in self._headers if each[0].lower() not in named)]
        signed = {"Host": address.authority, **dict(headers)}
        now = datetime.now(UTC)
        added = self._signer.sign(keys, path=address.path, headers=signed, body=body, now=now)
        return [*headers, *added.items()]

    async def renew(self) -> None:
        """The service refused the keys as expired. AccessError if there are no others."""
        await self._read(renew=True)

    def _refresh_in_time(self) -> None:
        is_reading = self._reading is not None and not self._reading.done()
        if time.monotonic() - self._read_at > _KEPT_SECONDS and not is_reading:
            self._reading = asyncio.create_task(self._refresh())

    async def _read(self, *, renew: bool) -> None:
        self._keys = await asyncio.to_thread(self._source, renew=renew)
        self._read_at = time.monotonic()

    async def _refresh(self) -> None:
        """While requests use the keys that are known; if it fails, the service says when they have expired."""
        self._read_at = time.monotonic()
        try:
            self._keys = await asyncio.to_thread(self._source)
        except LmiError:
            return
