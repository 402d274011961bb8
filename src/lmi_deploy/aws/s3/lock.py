"""One writer a deployment: an object that a conditional write makes, and that its holder renews."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from lmi_deploy.aws.lease_guard import LeaseGuard
from lmi_deploy.aws.retry import Tell, silent
from lmi_deploy.aws.s3.journal import deployment_prefix
from lmi_deploy.aws.s3.lease import HeldLock, LeaseSettings, Moment
from lmi_deploy.aws.s3.lock_owner import Holder, age_of, is_gone, is_renewed, myself, read_holder
from lmi_deploy.errors import Refused
from lmi_deploy.ports.clock import Clock
from lmi_deploy.ports.object_store import Conflict, ObjectStore, Stored

_TRIES: Final = 5
_PATIENCE: Final = 30.0
"""Seconds for a renewal that is on its way when the lock is given back."""


class BucketLock:
    """The port Lock. `command` is told to who is refused; `tell` hears of a take-over; `guard` asks before requests."""

    def __init__(
        self,
        store: ObjectStore,
        clock: Clock,
        *,
        command: str,
        tell: Tell = silent,
        settings: LeaseSettings | None = None,
        guard: LeaseGuard | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._command = command
        self._tell = tell
        self._settings = settings or LeaseSettings()
        self._guard = guard or LeaseGuard()

    @contextmanager
    def hold(self, name: str) -> Iterator[None]:
        held = self._take(name, _key(name))
        renewing = threading.Thread(target=held.renew_until_released, daemon=True, name=f"lock {name}")
        renewing.start()
        try:
            with self._guard.watch(held):
                yield
        finally:
            held.released.set()
            renewing.join(_PATIENCE)
            held.release(self._tell)
        if held.is_lost:
            raise held.loss()

    def holder(self, name: str) -> str:
        found = self._store.get(_key(name))
        if found is None:
            return ""
        holder = read_holder(found[0])
        return "" if self._is_gone(holder, found[1]) else holder.words

    def unlock(self, name: str, lock_id: str, *, force: bool = False) -> str:
        for _ in range(_TRIES):
            found = self._store.get(_key(name))
            if found is None:
                return ""
            holder, age = read_holder(found[0]), age_of(found[1], self._clock.now())
            _require_endable(name, lock_id, holder, None if force else age)
            try:
                self._store.remove(_key(name), if_etag=found[1].etag)
            except Conflict:
                continue  # renewed meanwhile: looked at again
            return holder.words
        raise Refused(f"{name}: the lock {lock_id} is being renewed", hint="run the same command again")

    def sweep(self, name: str) -> None:
        found = self._store.get(_key(name))
        if found is not None and self._is_gone(read_holder(found[0]), found[1]):
            with suppress(Conflict):
                self._store.remove(_key(name), if_etag=found[1].etag)

    def _take(self, name: str, key: str) -> HeldLock:
        for _ in range(_TRIES):
            begun = Moment.now(self._clock)
            mine = myself(self._command, secrets.token_hex(4), begun.wall, lasts=self._settings.lasts)
            try:
                seen = self._store.put(key, mine.text, if_absent=True)
            except Conflict:
                taken = self._take_over(name, key, mine)
                if taken is None:
                    continue
                seen = taken
            return HeldLock(
                name=name,
                key=key,
                store=self._store,
                clock=self._clock,
                settings=self._settings,
                guard=self._guard,
                owner=mine,
                seen=seen,
                renewed=begun,
            )
        raise Refused(f"{name}: locked by others, one after the other", hint="run the same command again")

    def _take_over(self, name: str, key: str, mine: Holder) -> Stored | None:
        """The lock of a holder that is gone; None where it is free now, or another process was faster."""
        found = self._store.get(key)
        if found is None:
            return None
        holder = read_holder(found[0])
        why = self._is_gone(holder, found[1])
        if not why:
            raise Refused(
                f"{name}: locked by {holder.words}",
                hint=f"wait until it has ended; if it is known to be dead: lmi unlock {name} {holder.id}",
            )
        try:
            taken = self._store.put(key, mine.text, if_etag=found[1].etag)
        except Conflict:
            return None
        self._tell(f"{name}: took over the lock of {holder.words}: {why}")
        return taken

    def _is_gone(self, holder: Holder, lock: Stored) -> str:
        return is_gone(holder, age_of(lock, self._clock.now()))


def _require_endable(name: str, lock_id: str, holder: Holder, age: float | None) -> None:
    """Refused for another lock, and for one that was renewed a moment ago. `age` is None where that was forced."""
    if holder.id != lock_id:
        raise Refused(
            f"{name}: the lock is {holder.id}, not {lock_id}: held by {holder.words}",
            hint=f"if that one is dead, too: lmi unlock {name} {holder.id}",
        )
    if age is not None and is_renewed(holder, age):
        raise Refused(
            f"{name}: the lock {lock_id} was renewed {max(age, 0):.0f} s ago, its holder is at work: {holder.words}",
            hint=f"end that command; or wait: without renewals the lock expires after {holder.lasts:.0f} s; "
            f"or take it away all the same: lmi unlock {name} {lock_id} --force",
        )


def _key(name: str) -> str:
    return f"{deployment_prefix(name)}lock.json"
