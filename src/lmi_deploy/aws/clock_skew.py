"""AWS's clock and ours: requests are signed by it if ours is wrong by more than AWS tolerates (S3 15 minutes, the
others 5), and what expires is judged by it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Final

from lmi_deploy.ports.clock import Clock

_SCHEMES: Final = {
    "v4": ("lmi-v4", "SigV4Auth"),
    "s3v4": ("lmi-s3v4", "S3SigV4Auth"),
    "s3": ("lmi-s3v4", "S3SigV4Auth"),
}
_SHIFT: Final = "lmi_shift"
_STAMP: Final = "%Y%m%dT%H%M%SZ"
FORGIVEN: Final = timedelta(minutes=15)
_NOTICED: Final = timedelta(seconds=30)
_TIMEKEEPERS: Final = frozenset(("sagemaker", "resource-groups-tagging-api"))
"""Services whose Date is AWS's time: a command that judges an expiry has asked one of them."""


class ClockSkew:
    """The difference between the service's clock and this machine, once a response has shown it."""

    def __init__(self) -> None:
        self.offset = timedelta(0)
        """With which requests are signed: from a response that refused a signature."""
        self.ahead = timedelta(0)
        """By how much AWS's clock is ahead of this machine's, from the latest response; 0 below 30 seconds."""

    def learn(self, date: str, now: datetime, least: timedelta) -> bool:
        """From the Date header of a response; False if that gives nothing new, or a difference below `least`."""
        offset = _difference(date, now)
        if offset is None or abs(offset - self.offset) < max(least, _NOTICED):
            return False
        self.offset = offset
        return True

    def attach(self, client: Any) -> None:
        """Every later request that `client` signs uses this offset."""
        service = client.meta.service_model.service_id.hyphenize()
        client.meta.events.register_first(f"choose-signer.{service}", self._choose)
        client.meta.events.register(f"before-sign.{service}", self._sign_with_offset)
        if service in _TIMEKEEPERS:
            client.meta.events.register(f"after-call.{service}", self._read_time)

    def _read_time(self, parsed: Any, **_: Any) -> None:
        metadata = parsed.get("ResponseMetadata", {}) if isinstance(parsed, dict) else {}
        ahead = _difference(metadata.get("HTTPHeaders", {}).get("date", ""), datetime.now(UTC))
        if ahead is not None and metadata.get("HTTPStatusCode") == 200:
            self.ahead = ahead if abs(ahead) > _NOTICED else timedelta(0)

    def _choose(self, signature_version: Any, signing_name: str, **_: Any) -> str | None:
        # Only if a difference is known: every other request is signed exactly as by botocore.
        if not self.offset or signature_version not in _SCHEMES:
            return None
        return _scheme("s3v4" if signing_name == "s3" else signature_version)

    def _sign_with_offset(self, request: Any, **_: Any) -> None:
        request.context[_SHIFT] = self.offset


@dataclass(frozen=True, slots=True)
class AwsClock:
    """This machine's clock, put right by AWS's time once SageMaker has answered, for what AWS keeps and others read."""

    own: Clock
    skew: ClockSkew

    def now(self) -> datetime:
        return self.own.now() + self.skew.ahead

    def monotonic(self) -> float:
        return self.own.monotonic()

    def sleep(self, seconds: float) -> None:
        self.own.sleep(seconds)


def _difference(date: str, now: datetime) -> timedelta | None:
    """How much later a Date header is than now; None if it is none."""
    from email.utils import parsedate_to_datetime

    try:
        return parsedate_to_datetime(date).astimezone(UTC) - now
    except ValueError:
        return None


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
