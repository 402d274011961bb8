"""One writer a deployment: an object that a conditional write makes, and that its holder renews."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final

from lmi_deploy.adapters.aws.tries import Tell, silent
from lmi_deploy.adapters.s3.holder import Holder, is_gone, myself, read_holder
from lmi_deploy.adapters.s3.journal import deployment_prefix
from lmi_deploy.errors import LmiError, Refused
from lmi_deploy.ports.clock import Clock
from lmi_deploy.ports.object_store import Conflict, ObjectStore, Stored

_TRIES: Final = 5
_PATIENCE: Final = 30.0
"""Seconds for a renewal that is on its way when the lock is given back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """A lock lasts `lasts` seconds from its last renewal, which comes `every` so many."""

    lasts: float = 90.0
    every: float = 20.0


class BucketLock:
    """The port Lock. `command` is told to who is refused; `tell` hears of a take-over."""

    def __init__(
        self,
        store: ObjectStore,
        clock: Clock,
        *,
        command: str,
        tell: Tell = silent,
        terms: Terms | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._command = command
        self._tell = tell
        self._terms = terms or Terms()

    @contextmanager
    def hold(self, name: str) -> Iterator[None]:
        key = _key(name)
        mine = myself(self._command, secrets.token_hex(4), self._clock.now(), lasts=self._terms.lasts)
        held = _Held(self._store, key, mine, self._take(name, key, mine))
        renewing = threading.Thread(
            target=held.renew_until_released,
            args=(self._clock, self._terms),
            daemon=True,
            name=f"lock {name}",
        )
        renewing.start()
        try:
            yield
        finally:
            held.released.set()
            renewing.join(_PATIENCE)
            held.give_back(self._tell)
        if held.lost:
            raise Refused(
                f"{name}: the lock was taken from us while we held it, by {self.holder(name) or 'somebody'}",
                hint="look at what is there (`lmi status`), then run the same command again",
            )

    def holder(self, name: str) -> str:
        found = self._store.get(_key(name))
        if found is None:
            return ""
        holder = read_holder(found[0])
        return "" if is_gone(holder, self._clock.now()) else holder.words

    def unlock(self, name: str, lock_id: str) -> str:
        """End a lock whose holder is known to be dead; who held it, in words. Refused where it is another lock."""
        found = self._store.get(_key(name))
        if found is None:
            return ""
        holder = read_holder(found[0])
        if holder.id != lock_id:
            raise Refused(
                f"{name}: the lock is {holder.id}, not {lock_id}: held by {holder.words}",
                hint=f"if that one is dead, too: lmi unlock {name} {holder.id}",
            )
        try:
            self._store.remove(_key(name), if_etag=found[1].etag)
        except Conflict as exc:
            raise Refused(
                f"{name}: the lock {lock_id} is being renewed: its holder is alive",
                hint=f"end it first: {holder.words}",
            ) from exc
        return holder.words

    def sweep(self, name: str) -> None:
        found = self._store.get(_key(name))
        if found is not None and is_gone(read_holder(found[0]), self._clock.now()):
            with suppress(Conflict):
                self._store.remove(_key(name), if_etag=found[1].etag)

    def _take(self, name: str, key: str, mine: Holder) -> Stored:
        for _ in range(_TRIES):
            try:
                return self._store.put(key, mine.text, if_absent=True)
            except Conflict:
                taken = self._take_over(name, key, mine)
                if taken is not None:
                    return taken
        raise Refused(f"{name}: locked by others, one after the other", hint="run the same command again")

    def _take_over(self, name: str, key: str, mine: Holder) -> Stored | None:
        """The lock of somebody who is gone; None where it is free now, or somebody else was faster."""
        found = self._store.get(key)
        if found is None:
            return None
        holder = read_holder(found[0])
        why = is_gone(holder, self._clock.now())
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


class _Held:
    """A lock that we have: `seen` is its last version."""

    def __init__(self, store: ObjectStore, key: str, mine: Holder, seen: Stored) -> None:
        self.released = threading.Event()
        self._store = store
        self._key = key
        self._mine = mine
        self._seen = seen
        self.lost = False

    def renew_until_released(self, clock: Clock, terms: Terms) -> None:
        while not self.released.wait(terms.every):
            self._mine = self._mine.until(clock.now(), terms.lasts)
            try:
                self._seen = self._store.put(self._key, self._mine.text, if_etag=self._seen.etag)
            except Conflict:
                self.lost = True
                return
            except LmiError:
                # Not a reason to stop the work: the lock lasts for several renewals, and the next one is soon.
                continue

    def give_back(self, tell: Tell) -> None:
        """Failing at it is not worth more than a word: the lock ends by itself."""
        if self.lost:
            return
        try:
            self._store.remove(self._key, if_etag=self._seen.etag)
        except Conflict:
            self.lost = True
        except LmiError as exc:
            tell(f"the lock was not released, it ends by itself at {self._mine.expires}: {exc.message}")


def _key(name: str) -> str:
    return f"{deployment_prefix(name)}lock.json"
