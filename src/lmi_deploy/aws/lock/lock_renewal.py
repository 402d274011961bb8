"""A lock that we hold: renewed in time, and checked before anything is changed under it."""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Self

from lmi_deploy.aws.lock.lock_fencing import LeaseGuard
from lmi_deploy.aws.lock.lock_owner import LockOwner, read_lock_owner
from lmi_deploy.domain.record import command_for
from lmi_deploy.errors import Conflict, LmiError, LockLost, UsageRefused
from lmi_deploy.ports.clock import Clock
from lmi_deploy.ports.message_callback import Notify
from lmi_deploy.ports.object_store import ObjectStore, StoredObject

LASTS: Final = 90.0
_BOUNDS: Final = (2.0, 3600.0)
_TRIES: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseSettings:
    """A lock lasts `lasts` seconds from its last renewal, and is renewed every `every` seconds.

    In its last `margin` seconds no request is started without a renewal: a request may take that long.
    """

    lasts: float = LASTS
    every: float = LASTS / 4.5
    margin: float = LASTS / 3

    @classmethod
    def lasting(cls, seconds: float) -> Self:
        return cls(lasts=seconds, every=seconds / 4.5, margin=seconds / 3)

    @classmethod
    def parse(cls, text: str, origin: str) -> Self:
        """Parse a setting; UsageRefused if it is not a number of seconds."""
        least, most = _BOUNDS
        try:
            seconds = float(text)
        except ValueError:
            seconds = 0.0
        if not least <= seconds <= most:
            raise UsageRefused(
                f"{origin}={text}: not a number of seconds from {least:g} to {most:g}",
                hint=f"set a number in this range, or unset it: a lock lasts {LASTS:g} s from its last renewal",
            )
        return cls.lasting(seconds)


@dataclass(frozen=True, slots=True)
class ClockReading:
    """One moment by both clocks: the wall clock advances while the machine sleeps, the monotonic clock never jumps."""

    wall: datetime
    monotonic: float

    @classmethod
    def now(cls, clock: Clock) -> Self:
        return cls(clock.now(), clock.monotonic())

    def elapsed(self, clock: Clock) -> float:
        """Seconds since then, by the clock that counts more. A wall clock that was set back counts as forever."""
        wall = (clock.now() - self.wall).total_seconds()
        return max(wall, clock.monotonic() - self.monotonic) if wall >= 0 else float("inf")


@dataclass(slots=True, kw_only=True)
class BucketLease:
    """The lease of one deployment's lock. `stored` is the version that we wrote last, `renewed` the start time of
    that write.
    """

    name: str
    key: str
    store: ObjectStore
    clock: Clock
    settings: LeaseSettings
    guard: LeaseGuard
    owner: LockOwner
    stored: StoredObject
    renewed: ClockReading
    region: str
    released: threading.Event = field(default_factory=threading.Event)
    is_lost: bool = False
    _renewing: threading.Lock = field(default_factory=threading.Lock)

    def ensure(self) -> None:
        """LockLost if it is no longer ours, or its state is unknown."""
        if self._is_certain():
            return
        with self._renewing:
            if self._is_certain():
                return
            try:
                self._renew()
            except LmiError as why:
                raise LockLost(
                    f"{self.name}: the lock could not be renewed in time: {why.message}; nothing was changed after "
                    "that",
                    hint=f"check `{command_for('status', self.name, self.region)}`, then run the same command again",
                ) from why
            if self.is_lost:
                raise self.loss()

    def renew_until_released(self) -> None:
        while not self.released.wait(self.settings.every):
            with self._renewing:
                if self.is_lost:
                    return
                try:
                    self._renew()
                except LmiError:
                    # No reason to stop the work: the lock lasts for several renewals, and the next one is soon.
                    continue

    def release(self, notify: Notify) -> None:
        """Best effort: a failed release is only reported; the lock expires by itself."""
        try:
            for _ in range(_TRIES):
                if self.is_lost:
                    return
                with suppress(Conflict):
                    self.store.remove(self.key, if_etag=self.stored.etag)
                    return
                self.is_lost = not self._is_still_owned()
        except LmiError as why:
            notify(
                f"the lock could not be released and expires in {self.settings.lasts:.0f} s: {why.message}"
            )

    def loss(self) -> LockLost:
        """The error, with the current holder if it can be read."""
        try:
            found = self.store.get(self.key)
        except LmiError:
            found = None
        used = f"{read_lock_owner(found[0]).words} holds it now" if found else "it was removed"
        return LockLost(
            f"{self.name}: the lock was lost, {used}; nothing was changed after that",
            hint=f"check `{command_for('status', self.name, self.region)}`, then run the same command again",
        )

    def _is_certain(self) -> bool:
        usable = self.settings.lasts - self.settings.margin
        return not self.is_lost and self.renewed.elapsed(self.clock) < usable

    def _renew(self) -> None:
        for _ in range(_TRIES):
            started = ClockReading.now(self.clock)
            text = self.owner.at(started.wall).text
            try:
                with self.guard.exempt():
                    self.stored = self.store.put(self.key, text, if_etag=self.stored.etag)
            except Conflict:
                if not self._is_still_owned():
                    break
            else:
                self.renewed = started
                return
        self.is_lost = True

    def _is_still_owned(self) -> bool:
        """Whether the unexpected version is our own, written by a renewal that was reported as failed."""
        found = self.store.get(self.key)
        if found is None or read_lock_owner(found[0]).id != self.owner.id:
            return False
        self.stored = found[1]
        return True
