"""boto3's clients: one per service, created late, with credentials that can be refreshed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from lmi_deploy.aws.clock_skew import ClockSkew
from lmi_deploy.aws.lock.lock_fencing import LeaseGuard
from lmi_deploy.aws.session import SessionFactory, credentials_explained, fresh_session

# A boto3 session makes one client at a time.
_making = threading.Lock()


class Clients:
    """One client, created at first use, safe to use from several threads; `renew` refreshes the credentials."""

    def __init__(
        self,
        session: SessionFactory,
        make: Callable[[Any], Any],
        *,
        clock_skew: ClockSkew | None = None,
        guard: LeaseGuard | None = None,
    ) -> None:
        self._factory = session
        self._make = make
        self.skew = clock_skew or ClockSkew()
        self._guard = guard
        self.reached = False
        """Whether any request was ever answered: an address that never answered is not retried for long."""
        self._lock = threading.Lock()
        self._created: Any = None
        self._session: Any = None

    @property
    def api(self) -> Any:
        with self._lock:
            if self._created is None:
                self._open(self._factory)
            return self._created

    @property
    def holds_lock(self) -> bool:
        """Whether this process holds the lock of a deployment."""
        return self._guard is not None and self._guard.is_watching

    @property
    def region(self) -> str:
        return str(self.api.meta.region_name)

    @property
    def partition(self) -> str:
        return str(self.api.meta.partition)

    @property
    def endpoint(self) -> str:
        """The URL that is in use."""
        return str(self.api.meta.endpoint_url)

    def renew(self, stale: Any) -> None:
        """A client with refreshed credentials in place of `stale`; another thread may have created it already."""
        with self._lock:
            if self._created is stale:
                self._open(lambda: fresh_session(self._factory, self._session))

    def _open(self, session: SessionFactory) -> None:
        with credentials_explained(), _making:
            self._session = session()
            client = self._make(self._session)
        self.skew.attach(client)
        if self._guard is not None:
            self._guard.attach(client)
        self._created = client
