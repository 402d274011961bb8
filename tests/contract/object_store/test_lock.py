"""The lock in the bucket: one owner, renewed, taken over when its owner is gone, removed by `lmi unlock`."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest

from lmi_deploy.aws.lock.bucket_lock import BucketLock
from lmi_deploy.aws.lock.lock_fencing import LeaseGuard
from lmi_deploy.aws.lock.lock_renewal import LeaseSettings
from lmi_deploy.errors import CloudError, LockLost, Refused, UsageRefused
from lmi_deploy.host.clock import SystemClock
from lmi_deploy.ports.clock import Clock
from lmi_deploy.ports.lock import Lock
from lmi_deploy.ports.object_store import ObjectStore
from tests.support.fake_store import FakeStore
from tests.support.s3_servers import S3Server

KEY = "deployments/tiny/lock.json"
NOW = datetime(2026, 11, 21, 10, tzinfo=UTC)


class Moment:
    """Two clocks set by the test: the wall clock and the monotonic clock."""

    def __init__(self, now: datetime = NOW) -> None:
        self.at = now
        self.passed = 0.0

    def now(self) -> datetime:
        return self.at

    def monotonic(self) -> float:
        return self.passed

    def sleep(self, seconds: float) -> None:
        self.set_wall(seconds)
        self.passed += seconds

    def set_wall(self, seconds: float) -> None:
        """As after a suspension, or when the wall clock is set by hand: the monotonic clock stays."""
        self.at += timedelta(seconds=seconds)


def lock(
    store: ObjectStore,
    clock: Clock | None = None,
    *,
    messages: list[str] | None = None,
    guard: LeaseGuard | None = None,
    settings: LeaseSettings | None = None,
) -> BucketLock:
    messages = [] if messages is None else messages
    return BucketLock(
        store,
        clock or Moment(),
        command="lmi up",
        notify=messages.append,
        guard=guard or LeaseGuard(),
        settings=settings or LeaseSettings(),
    )


def stored_lock(store: ObjectStore) -> dict[str, str]:
    found = store.get(KEY)
    assert found is not None
    kept: dict[str, str] = json.loads(found[0])
    return kept


@contextmanager
def hold_and_expect_loss(lock: BucketLock) -> Iterator[None]:
    with pytest.raises(LockLost):
        with lock.hold("tiny"):
            yield


def put_lock_of_another_host(store: ObjectStore) -> None:
    """So that this host cannot check whether its process is alive."""
    store.put(KEY, json.dumps({**stored_lock(store), "machine": "other/boot/", "host": "other"}).encode())


def test_lock_is_held_inside_the_block_and_deleted_after_it(strict: ObjectStore) -> None:
    with lock(strict).hold("tiny"):
        assert stored_lock(strict)["lasts"] == 90
        assert f"lmi up (pid {os.getpid()} on " in lock(strict).holder("tiny")
        with lock(strict).hold("other"):
            pass
    assert list(strict.list("")) == []
    assert lock(strict).holder("tiny") == ""
    with pytest.raises(KeyError):
        with lock(strict).hold("tiny"):
            raise KeyError
    assert list(strict.list("")) == []


def test_locked_error_names_the_owner_and_the_unlock_command(strict: ObjectStore) -> None:
    with lock(strict).hold("tiny"):
        with pytest.raises(Refused, match=rf"tiny: locked by lmi up \(pid {os.getpid()} on ") as caught:
            with lock(strict).hold("tiny"):
                pass
        assert caught.value.exit_code == 5
        assert f"lmi unlock tiny {stored_lock(strict)['id']}" in caught.value.hint


def test_one_of_many_concurrent_callers_gets_the_lock(strict: ObjectStore) -> None:
    ready, done, won, lost = threading.Barrier(6), threading.Barrier(6), [], []

    def run() -> None:
        ready.wait()
        try:
            with lock(strict).hold("tiny"):
                won.append(1)
                done.wait()
        except Refused:
            lost.append(1)
            done.wait()

    threads = [threading.Thread(target=run) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(won), len(lost)) == (1, 5)
    assert list(strict.list("")) == []


@pytest.mark.parametrize("own", [-3600, -120, 120, 3600])
@pytest.mark.parametrize("expected", [-120, 0, 120])
def test_lock_expires_by_the_clock_of_the_store_only(own: int, expected: int) -> None:
    s3, messages = Moment(), list[str]()
    store = FakeStore(clock=s3)
    first, second = Moment(NOW + timedelta(seconds=expected)), Moment(NOW + timedelta(seconds=own))
    guard = LeaseGuard()
    with hold_and_expect_loss(lock(store, first, guard=guard)):
        put_lock_of_another_host(store)
        for clock in (s3, first, second):
            clock.sleep(89)
        with pytest.raises(Refused, match="locked by lmi up"), lock(store, second).hold("tiny"):
            pass
        assert "on other" in lock(store, second).holder("tiny")
        for clock in (s3, first, second):
            clock.sleep(3)
        assert lock(store, second).holder("tiny") == ""
        with lock(store, second, messages=messages).hold("tiny"):
            assert "took over the lock of lmi up (pid" in messages[0]
            assert messages[0].endswith("it was not renewed for 92 s")
        with pytest.raises(LockLost):
            guard.check()
    assert store.objects == {}


@pytest.mark.parametrize("server", ["moto", "versity"])
@pytest.mark.parametrize("skew", [-120, 120])
def test_clock_skew_never_gives_a_lock_two_owners(
    server: str, skew: int, bucket: str, request: pytest.FixtureRequest
) -> None:
    s3: S3Server = request.getfixturevalue(server)
    s3.make_bucket(bucket)
    store, terms = s3.store(bucket), LeaseSettings(lasts=2, every=60, margin=1)
    now = datetime.now(UTC)
    existing, local = Moment(now + timedelta(seconds=skew)), Moment(now)
    started, guard = time.monotonic(), LeaseGuard()
    with hold_and_expect_loss(lock(store, existing, settings=terms, guard=guard)):
        put_lock_of_another_host(store)
        with pytest.raises(Refused, match="locked by"), lock(store, local, settings=terms).hold("tiny"):
            pass
        while lock(store, local).holder("tiny"):
            assert time.monotonic() - started < 20
            time.sleep(0.2)
        assert time.monotonic() - started > 2
        with lock(store, local, settings=terms).hold("tiny"):
            existing.sleep(3)
            with pytest.raises(LockLost, match=r"the lock was lost, lmi up .* holds it now"):
                guard.check()


def test_lost_lock_is_reported_when_the_block_ends(strict: ObjectStore) -> None:
    with pytest.raises(LockLost, match=r"the lock was lost, lmi up .* holds it now") as caught:
        with lock(strict).hold("tiny"):
            strict.put(KEY, _lock_of())
    assert caught.value.exit_code == 1
    assert caught.value.hint
    assert stored_lock(strict)["id"] == "abc"


@pytest.mark.parametrize("passes", ["both clocks", "the wall clock alone", "the monotonic clock alone"])
def test_guard_refuses_changes_when_the_lock_was_taken_during_suspension(
    strict: ObjectStore, passes: str
) -> None:
    clock, guard = Moment(), LeaseGuard()
    with hold_and_expect_loss(lock(strict, clock, guard=guard)):
        guard.check()
        strict.put(KEY, _lock_of())
        guard.check()  # by both clocks the lock has not expired yet
        match passes:
            case "both clocks":
                clock.sleep(97)
            case "the wall clock alone":
                clock.set_wall(97)
            case _:
                clock.passed += 97
        for _ in range(2):
            with pytest.raises(LockLost, match=r"lmi up .* holds it now; nothing was changed after that"):
                guard.check()
    guard.check()
    assert stored_lock(strict)["id"] == "abc"


@pytest.mark.parametrize("set_by", [-7200.0, 97.0])
def test_guard_renews_a_lock_that_may_have_expired(strict: ObjectStore, set_by: float) -> None:
    clock, guard = Moment(), LeaseGuard()
    with lock(strict, clock, guard=guard).hold("tiny"):
        before = stored_lock(strict)
        guard.check()
        assert stored_lock(strict) == before
        clock.set_wall(set_by)
        guard.check()
        assert stored_lock(strict) != before
        assert stored_lock(strict)["id"] == before["id"]
    assert list(strict.list("")) == []


def test_lost_reply_to_a_renewal_does_not_lose_the_lock() -> None:
    store, clock, guard = LostReplies(), Moment(), LeaseGuard()
    with lock(store, clock, guard=guard).hold("tiny"):
        store.losing = 1
        clock.sleep(80)
        with pytest.raises(LockLost, match="could not be renewed in time: the connection broke"):
            guard.check()
        guard.check()
        store.losing = 1
        clock.sleep(80)
        with pytest.raises(LockLost):
            guard.check()
    assert store.objects == {}


class LostReplies(FakeStore):
    """Executes each request but loses the reply, for the given number of times."""

    losing = 0

    def put(self, key, body, **conditions):  # type: ignore[no-untyped-def]
        created = super().put(key, body, **conditions)
        if self.losing:
            self.losing -= 1
            raise CloudError("the connection broke", hint="run it again")
        return created


def test_lock_of_another_host_is_respected_until_it_expires(strict: ObjectStore) -> None:
    strict.put(KEY, _lock_of(pid=2**22 + 1, started="x"))
    with pytest.raises(Refused, match="on other"), lock(strict).hold("tiny"):
        pass


def test_unreadable_lock_can_be_unlocked(strict: ObjectStore) -> None:
    strict.put(KEY, b"{")
    with pytest.raises(Refused, match="an unreadable lock") as caught, lock(strict).hold("tiny"):
        pass
    assert "lmi unlock tiny unreadable" in caught.value.hint
    with pytest.raises(Refused, match=r"was renewed \d+ s ago"):
        lock(strict).unlock("tiny", "unreadable")
    lock(strict).unlock("tiny", "unreadable", force=True)
    with lock(strict).hold("tiny"):
        pass


def test_unlock_removes_only_the_lock_with_that_id(strict: ObjectStore) -> None:
    strict.put(KEY, _lock_of(id="abc"))
    with pytest.raises(Refused, match="the lock is abc, not abd") as caught:
        lock(strict).unlock("tiny", "abd")
    assert "lmi unlock tiny abc" in caught.value.hint
    assert "pid 7 on other" in lock(strict).unlock("tiny", "abc", force=True)
    assert lock(strict).unlock("tiny", "abc") == ""
    with lock(strict).hold("tiny"):
        pass


def test_unlock_refuses_a_renewed_lock_unless_forced() -> None:
    clock, guard = Moment(), LeaseGuard()
    store = FakeStore(clock=clock)
    with hold_and_expect_loss(lock(store, clock, guard=guard)):
        own = stored_lock(store)["id"]
        clock.sleep(40)
        with pytest.raises(Refused, match=f"the lock {own} was renewed 40 s ago") as caught:
            lock(store, clock).unlock("tiny", own)
        assert f"lmi unlock tiny {own} --force" in caught.value.hint
        assert "expires after 90 s" in caught.value.hint
        assert "lmi up" in lock(store, clock).unlock("tiny", own, force=True)
        clock.sleep(40)
        with pytest.raises(LockLost, match="it was removed"):
            guard.check()
    store.put(KEY, _lock_of(id="abc"))
    clock.sleep(46)
    assert "pid 7 on other" in lock(store, clock).unlock("tiny", "abc")


def _lock_of(**changed: object) -> bytes:
    expected = {
        "id": "abc",
        "command": "lmi up",
        "host": "other",
        "machine": "other/boot/",
        "pid": 7,
        "started": "boot/1",
        "since": NOW.isoformat(),
        "renewed": NOW.isoformat(),
        "lasts": 90,
    }
    return json.dumps({**expected, **changed}).encode()


class Renewed(FakeStore):
    """Counts renewals and signals each one."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock=clock)
        self.renewals = threading.Semaphore(0)

    def put(self, key, body, **conditions):  # type: ignore[no-untyped-def]
        created = super().put(key, body, **conditions)
        if conditions.get("if_etag"):
            self.renewals.release()
        return created


def test_lock_is_renewed_while_it_is_held() -> None:
    clock = Moment()
    store = Renewed(clock=clock)
    often = BucketLock(store, clock, command="lmi up", settings=LeaseSettings(every=0.01))
    with often.hold("tiny"):
        clock.sleep(80)
        for _ in range(3):
            assert store.renewals.acquire(timeout=10)
        clock.sleep(80)
        assert "lmi up" in lock(store, clock).holder("tiny")
    assert store.objects == {}


def test_lost_lock_is_not_removed_from_its_new_owner() -> None:
    store = FakeStore()
    with pytest.raises(LockLost, match="holds it now"):
        with BucketLock(store, Moment(), command="lmi up", settings=LeaseSettings(every=0.01)).hold("tiny"):
            store.put(KEY, _lock_of(id="theirs"))
    assert stored_lock(store)["id"] == "theirs"


@pytest.mark.parametrize("name", ["../x", "", "a/b", "A"])
def test_bad_deployment_name_is_refused(name: str) -> None:
    with pytest.raises(UsageRefused), lock(FakeStore()).hold(name):
        pass


HOLDER = """
import sys
import boto3
from lmi_deploy.host.clock import SystemClock
from lmi_deploy.aws.lock.bucket_lock import BucketLock
from tests.support.s3_servers import S3Server
url, access, owner, bucket = sys.argv[1:]
store = S3Server(url=url, access=access, owner=owner).store(bucket)
with BucketLock(store, SystemClock(), command="lmi up").hold("tiny"):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def _other_holder(server: S3Server, bucket: str) -> Iterator[subprocess.Popen[str]]:
    words = [sys.executable, "-c", HOLDER, server.url, server.access, server.owner, bucket]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        try:
            yield other
        finally:
            other.kill()


def test_lock_of_a_killed_process_on_this_host_is_taken_over_immediately(
    versity: S3Server, bucket: str
) -> None:
    versity.make_bucket(bucket)
    store, messages = versity.store(bucket), list[str]()
    own: Lock = BucketLock(store, SystemClock(), command="lmi up", notify=messages.append)
    with _other_holder(versity, bucket) as other:
        with pytest.raises(Refused, match=rf"locked by lmi up \(pid {other.pid} on "), own.hold("tiny"):
            pass
        os.kill(other.pid, signal.SIGKILL)
        other.wait()
        assert own.holder("tiny") == ""
        with own.hold("tiny"):
            assert messages[0].endswith("its process has ended")
    assert list(store.list("")) == []
