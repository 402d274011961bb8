"""Signing by the service's clock where ours is wrong by more than S3 forgives (15 minutes)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import cache
from typing import Any, Final

_SCHEME: Final = "lmi-s3v4"
_SHIFT: Final = "lmi_shift"
_STAMP: Final = "%Y%m%dT%H%M%SZ"
FORGIVEN: Final = timedelta(minutes=15)


class Skew:
    """How far the service's clock is from ours, once it has said so."""

    def __init__(self) -> None:
        self.offset = timedelta(0)

    def learn(self, date: str, now: datetime, least: timedelta) -> bool:
        """From the Date header of its answer; False where that says nothing new, or tells of less than `least`."""
        try:
            theirs = parsedate_to_datetime(date)
        except ValueError:
            return False
        offset = theirs.astimezone(UTC) - now
        if abs(offset - self.offset) < max(least, timedelta(seconds=30)):
            return False
        self.offset = offset
        return True

    def attach(self, client: Any) -> None:
        """Every request that `client` signs from now on takes the offset of its time into account."""
        client.meta.events.register_first("choose-signer.s3", self._choose)
        client.meta.events.register("before-sign.s3", self._mark)

    def _choose(self, signature_version: Any, **_: Any) -> str | None:
        # Only where a shift is known: every other request is signed exactly as botocore would.
        return _scheme() if self.offset and signature_version in ("s3v4", "v4", "s3") else None

    def _mark(self, request: Any, **_: Any) -> None:
        request.context[_SHIFT] = self.offset


@cache
def _scheme() -> str:
    from botocore.auth import AUTH_TYPE_MAPS, S3SigV4Auth

    class ShiftedS3SigV4Auth(S3SigV4Auth):  # type: ignore[misc]
        """The time of the signature is read after it was set and before it is used."""

        def _modify_request_before_signing(self, request: Any) -> None:
            ours = datetime.strptime(request.context["timestamp"], _STAMP)
            shifted = ours + request.context.get(_SHIFT, timedelta(0))
            request.context["timestamp"] = shifted.strftime(_STAMP)
            super()._modify_request_before_signing(request)

    AUTH_TYPE_MAPS[_SCHEME] = ShiftedS3SigV4Auth
    return _SCHEME
