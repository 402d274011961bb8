"""One writer per deployment: an object that is created by a conditional write, and renewed by its holder."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import KW_ONLY, dataclass, field
from typing import Final

from lmi_deploy.aws.lock.lock_fencing import LeaseGuard
from lmi_deploy.aws.lock.lock_owner import (
    LockOwner,
    abandoned_reason,
    age_of,
    current_owner,
    is_renewed,
    read_lock_owner,
)
from lmi_deploy.aws.lock.lock_renewal import BucketLease, ClockReading, LeaseSettings
from lmi_deploy.aws.s3.record_journal import deployment_prefix
from lmi_deploy.domain.record import command_for
from lmi_deploy.errors import Conflict, Locked, Refused
from lmi_deploy.ports.clock import Clock
from lmi_deploy.ports.message_callback import Notify, ignore
from lmi_deploy.ports.object_store import ObjectStore, StoredObject

_TRIES: Final = 5
_TIMEOUT: Final = 30.0
"""Seconds to wait for a running renewal when the lock is released."""


@dataclass
class BucketLock:
    """The port Lock. `command` is shown to a process that is refused; `notify` reports a take-over; `guard` checks
    before requests; `region` is that of the deployments.
    """

    store: ObjectStore
    clock: Clock
    _: KW_ONLY
    command: str
    notify: Notify = ignore
    settings: LeaseSettings = field(default_factory=LeaseSettings)
    guard: LeaseGuard = field(default_factory=LeaseGuard)
    region: str = ""

    @contextmanager
    def hold(self, name: str) -> Iterator[None]:
        inventory = self._take(name, _key(name))
        renewing = threading.Thread(target=inventory.renew_until_released, daemon=True, name=f"lock {name}")
        renewing.start()
        try:
            with self.guard.watch(inventory):
                yield
        finally:
            inventory.released.set()
            renewing.join(_TIMEOUT)
            inventory.release(self.notify)
        if inventory.is_lost:
            raise inventory.loss()

    def holder(self, name: str) -> str:
        found = self.store.get(_key(name))
        if found is None:
            return ""
        owner = read_lock_owner(found[0])
        return "" if self._is_abandoned(owner, found[1]) else owner.words

    def unlock(self, name: str, lock_id: str, *, force: bool = False) -> str:
        for _ in range(_TRIES):
            found = self.store.get(_key(name))
            if found is None:
                return ""
            owner, age = read_lock_owner(found[0]), age_of(found[1], self.clock.now())
            unlock = self._unlock_command(name, owner)
            _require_endable(name, lock_id, owner, None if force else age, unlock=unlock)
            try:
                self.store.remove(_key(name), if_etag=found[1].etag)
            except Conflict:
                continue  # renewed meanwhile: looked at again
            return owner.words
        raise Refused(f"{name}: the lock {lock_id} is being renewed", hint="run the same command again")

    def sweep(self, name: str) -> None:
        found = self.store.get(_key(name))
        if found is not None and self._is_abandoned(read_lock_owner(found[0]), found[1]):
            with suppress(Conflict):
                self.store.remove(_key(name), if_etag=found[1].etag)

    def _take(self, name: str, key: str) -> BucketLease:
        for _ in range(_TRIES):
            started = ClockReading.now(self.clock)
            own = current_owner(self.command, secrets.token_hex(4), started.wall, lasts=self.settings.lasts)
            try:
                observed = self.store.put(key, own.text, if_absent=True)
            except Conflict:
                used = self._take_over(name, key, own)
                if used is None:
                    continue
                observed = used
            return BucketLease(
                name=name,
                key=key,
                store=self.store,
                clock=self.clock,
                settings=self.settings,
                guard=self.guard,
                owner=own,
                stored=observed,
                renewed=started,
                region=self.region,
            )
        raise Locked(f"{name}: locked by several other processes in turn", hint="run the same command again")

    def _take_over(self, name: str, key: str, own: LockOwner) -> StoredObject | None:
        """The lock of a holder that no longer exists; None if it is free now, or another process was faster."""
        found = self.store.get(key)
        if found is None:
            return None
        owner = read_lock_owner(found[0])
        why = self._is_abandoned(owner, found[1])
        if not why:
            raise Locked(
                f"{name}: locked by {owner.words}",
                hint=f"wait until it has ended; if you know that it is dead, run: {self._unlock_command(name, owner)}",
            )
        try:
            used = self.store.put(key, own.text, if_etag=found[1].etag)
        except Conflict:
            return None
        self.notify(f"{name}: took over the lock of {owner.words}: {why}")
        return used

    def _unlock_command(self, name: str, owner: LockOwner) -> str:
        return f"{command_for('unlock', name, self.region)} {owner.id}"

    def _is_abandoned(self, owner: LockOwner, lock: StoredObject) -> str:
        return abandoned_reason(owner, age_of(lock, self.clock.now()))


def _require_endable(name: str, lock_id: str, owner: LockOwner, age: float | None, *, unlock: str) -> None:
    """Refused for another lock, and for one that was renewed a moment ago. `age` is None with `--force`."""
    if owner.id != lock_id:
        raise Refused(
            f"{name}: the lock is {owner.id}, not {lock_id}: held by {owner.words}",
            hint=f"if you know that this one is dead, run: {unlock}",
        )
    if age is not None and is_renewed(owner, age):
        raise Refused(
            f"{name}: the lock {lock_id} was renewed {max(age, 0):.0f} s ago, its holder is running: {owner.words}",
            hint=f"stop that command; or wait: without renewals the lock expires after {owner.lasts:.0f} s; or "
            f"remove it anyway: {unlock} --force",
        )


def _key(name: str) -> str:
    return f"{deployment_prefix(name)}lock.json"
