"""Sign by the service's clock if ours is wrong by more than AWS tolerates (S3 15 minutes, the others 5)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import cache
from typing import Any, Final

_SCHEMES: Final = {
    "v4": ("lmi-v4", "SigV4Auth"),
    "s3v4": ("lmi-s3v4", "S3SigV4Auth"),
    "s3": ("lmi-s3v4", "S3SigV4Auth"),
}
_SHIFT: Final = "lmi_shift"
_STAMP: Final = "%Y%m%dT%H%M%SZ"
FORGIVEN: Final = timedelta(minutes=15)


class ClockSkew:
    """The difference between the service's clock and ours, once a response has shown it."""

    def __init__(self) -> None:
        self.offset = timedelta(0)

    def learn(self, date: str, now: datetime, least: timedelta) -> bool:
        """From the Date header of a response; False if that gives nothing new, or a difference below `least`."""
        try:
            other = parsedate_to_datetime(date)
        except ValueError:
            return False
        offset = other.astimezone(UTC) - now
        if abs(offset - self.offset) < max(least, timedelta(seconds=30)):
            return False
        self.offset = offset
        return True

    def attach(self, client: Any) -> None:
        """Every later request that `client` signs uses this offset."""
        service = client.meta.service_model.service_id.hyphenize()
        client.meta.events.register_first(f"choose-signer.{service}", self._choose)
        client.meta.events.register(f"before-sign.{service}", self._sign_with_offset)

    def _choose(self, signature_version: Any, signing_name: str, **_: Any) -> str | None:
        # Only if a difference is known: every other request is signed exactly as by botocore.
        if not self.offset or signature_version not in _SCHEMES:
            return None
        return _scheme("s3v4" if signing_name == "s3" else signature_version)

    def _sign_with_offset(self, request: Any, **_: Any) -> None:
        request.context[_SHIFT] = self.offset


@cache
def _scheme(signature_version: str) -> str:
    from botocore import auth

    scheme, name = _SCHEMES[signature_version]
    base: Any = getattr(auth, name)

    class ShiftedAuth(base):  # type: ignore[misc]
        """The time of the signature is read after it was set and before it is used."""

        def _modify_request_before_signing(self, request: Any) -> None:
            own = datetime.strptime(request.context["timestamp"], _STAMP)
            shifted = own + request.context.get(_SHIFT, timedelta(0))
            request.context["timestamp"] = shifted.strftime(_STAMP)
            super()._modify_request_before_signing(request)

    auth.AUTH_TYPE_MAPS[scheme] = ShiftedAuth
    return scheme
