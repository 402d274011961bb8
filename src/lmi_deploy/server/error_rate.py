"""Error rates that turn /ping to 503: `error_rate_any=5/PT1M` trips at the sixth error within a minute, permanently."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Mapping

from lmi_deploy.server.models.property_values import InvalidSettings

KINDS = ("wlm", "server", "model", "any")
_RATE = re.compile(r"(\d+)/PT(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?")


class Rate:
    """One limit: so many errors within so many seconds."""

    def __init__(self, key: str, text: str) -> None:
        found = _RATE.fullmatch(text.strip().upper())
        if found is None or not any(found.groups()[1:]):
            raise InvalidSettings(
                f"{key}={text}: a number and an ISO-8601 duration are expected, as in 5/PT1M"
            )
        hours, minutes, seconds = (float(part or 0) for part in found.groups()[1:])
        self.tripped = False
        self._most = int(found[1])
        self._window = hours * 3600 + minutes * 60 + seconds
        self._errors: deque[float] = deque()

    def error(self, now: float) -> None:
        self._errors.append(now)
        while self._errors and now - self._errors[0] > self._window:
            self._errors.popleft()
        self.tripped = self.tripped or len(self._errors) > self._most


class Rates:
    """All limits of config.properties."""

    def __init__(self, keys: Mapping[str, str]) -> None:
        stated = ((kind, f"error_rate_{kind}") for kind in KINDS)
        self._rates = {kind: Rate(key, keys[key]) for kind, key in stated if key in keys}

    @property
    def tripped(self) -> bool:
        return any(rate.tripped for rate in self._rates.values())

    def error(self, kinds: Iterable[str], now: float) -> None:
        """One error, which counts as each of these kinds, and once as any."""
        for name in (*kinds, "any"):
            if name in self._rates:
                self._rates[name].error(now)
