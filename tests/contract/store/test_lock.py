"""The lock in the bucket: one holder, renewed, taken over when its holder is gone, ended by hand when one knows."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest

from lmi_deploy.adapters.clock import SystemClock
from lmi_deploy.adapters.s3.lock import BucketLock, Terms
from lmi_deploy.errors import Refused, UsageRefused
from lmi_deploy.ports.clock import Clock
from lmi_deploy.ports.lock import Lock
from lmi_deploy.ports.object_store import ObjectStore
from tests.support.fake_store import FakeStore
from tests.support.s3 import S3Server

KEY = "deployments/tiny/lock.json"
NOW = datetime(2026, 11, 21, 10, tzinfo=UTC)


class Moment:
    """A clock that is set."""

    def __init__(self, now: datetime = NOW) -> None:
        self.at = now

    def now(self) -> datetime:
        return self.at

    def monotonic(self) -> float:
        return self.at.timestamp()

    def sleep(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)


def lock(store: ObjectStore, clock: Clock | None = None, *, told: list[str] | None = None) -> BucketLock:
    told = [] if told is None else told
    return BucketLock(store, clock or Moment(), command="lmi up", tell=told.append)


def held(store: ObjectStore) -> dict[str, str]:
    found = store.get(KEY)
    assert found is not None
    kept: dict[str, str] = json.loads(found[0])
    return kept


def test_held_while_it_lasts_and_nothing_left_behind(strict: ObjectStore) -> None:
    with lock(strict).hold("tiny"):
        assert held(strict)["expires"] == (NOW + timedelta(seconds=90)).isoformat()
        assert f"lmi up (pid {os.getpid()} on " in lock(strict).holder("tiny")
        with lock(strict).hold("other"):
            pass
    assert list(strict.list("")) == []
    assert lock(strict).holder("tiny") == ""
    with pytest.raises(KeyError):
        with lock(strict).hold("tiny"):
            raise KeyError
    assert list(strict.list("")) == []


def test_who_comes_second_is_told_who_holds_it_and_how_to_end_it(strict: ObjectStore) -> None:
    with lock(strict).hold("tiny"):
        with pytest.raises(Refused, match=rf"tiny: locked by lmi up \(pid {os.getpid()} on ") as caught:
            with lock(strict).hold("tiny"):
                pass
        assert caught.value.exit_code == 5
        assert f"lmi unlock tiny {held(strict)['id']}" in caught.value.hint


def test_of_many_at_once_one_has_it(strict: ObjectStore) -> None:
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


def test_a_lock_past_its_time_is_taken_over_and_said(strict: ObjectStore) -> None:
    clock, told = Moment(), list[str]()
    strict.put(KEY, _lock_of(id="abc"))
    clock.sleep(89)
    with pytest.raises(Refused), lock(strict, clock).hold("tiny"):
        pass
    assert "on other" in lock(strict, clock).holder("tiny")
    clock.sleep(2)
    assert lock(strict, clock).holder("tiny") == ""
    with lock(strict, clock, told=told).hold("tiny"):
        assert "took over the lock of lmi up (pid 7 on other" in told[0]
        assert "not renewed since 2026-11-21T10:01:30" in told[0]
    assert list(strict.list("")) == []


def test_who_lost_it_says_so_at_the_end(strict: ObjectStore) -> None:
    with pytest.raises(Refused, match="taken from us while we held it, by lmi up") as caught:
        with lock(strict).hold("tiny"):
            strict.put(KEY, _lock_of())
    assert caught.value.exit_code == 5
    assert caught.value.hint
    assert held(strict)["id"] == "abc"


def test_a_lock_of_a_host_that_we_cannot_see_is_respected_until_then(strict: ObjectStore) -> None:
    strict.put(KEY, _lock_of(pid=2**22 + 1, started="x"))
    with pytest.raises(Refused, match="on other"), lock(strict).hold("tiny"):
        pass


def test_an_unreadable_lock_is_a_lock_that_one_can_end(strict: ObjectStore) -> None:
    strict.put(KEY, b"{")
    with pytest.raises(Refused, match="cannot be read") as caught, lock(strict).hold("tiny"):
        pass
    assert "lmi unlock tiny unreadable" in caught.value.hint
    lock(strict).unlock("tiny", "unreadable")
    with lock(strict).hold("tiny"):
        pass


def test_unlock_ends_the_lock_of_that_id_and_no_other(strict: ObjectStore) -> None:
    strict.put(KEY, _lock_of(id="abc"))
    with pytest.raises(Refused, match="the lock is abc, not abd") as caught:
        lock(strict).unlock("tiny", "abd")
    assert "lmi unlock tiny abc" in caught.value.hint
    assert "pid 7 on other" in lock(strict).unlock("tiny", "abc")
    assert lock(strict).unlock("tiny", "abc") == ""
    with lock(strict).hold("tiny"):
        pass


def _lock_of(**changed: object) -> bytes:
    theirs = {
        "id": "abc",
        "command": "lmi up",
        "host": "other",
        "machine": "other/boot/",
        "pid": 7,
        "started": "boot/1",
        "since": NOW.isoformat(),
        "expires": (NOW + timedelta(seconds=90)).isoformat(),
    }
    return json.dumps({**theirs, **changed}).encode()


class Renewed(FakeStore):
    """Counts renewals, and says so."""

    def __init__(self) -> None:
        super().__init__()
        self.renewals = threading.Semaphore(0)

    def put(self, key, body, **conditions):  # type: ignore[no-untyped-def]
        made = super().put(key, body, **conditions)
        if conditions.get("if_etag"):
            self.renewals.release()
        return made


def test_it_is_renewed_as_long_as_it_is_held() -> None:
    store, clock = Renewed(), Moment()
    often = BucketLock(store, clock, command="lmi up", terms=Terms(every=0.01))
    with often.hold("tiny"):
        clock.sleep(80)
        for _ in range(3):
            assert store.renewals.acquire(timeout=10)
        clock.sleep(80)
        assert "lmi up" in lock(store, clock).holder("tiny")
    assert store.objects == {}


def test_a_lock_that_is_lost_is_not_removed_from_who_has_it() -> None:
    store = FakeStore()
    with pytest.raises(Refused, match="taken from us"):
        with BucketLock(store, Moment(), command="lmi up", terms=Terms(every=0.01)).hold("tiny"):
            store.put(KEY, _lock_of(id="theirs"))
    assert held(store)["id"] == "theirs"


@pytest.mark.parametrize("name", ["../x", "", "a/b", "A"])
def test_a_name_is_a_name(name: str) -> None:
    with pytest.raises(UsageRefused), lock(FakeStore()).hold(name):
        pass


HOLDER = """
import sys
import boto3
from lmi_deploy.adapters.clock import SystemClock
from lmi_deploy.adapters.s3.lock import BucketLock
from tests.support.s3 import S3Server
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


def test_the_lock_of_a_killed_process_of_this_host_is_taken_over_at_once(
    versity: S3Server, bucket: str
) -> None:
    versity.make_bucket(bucket)
    store, told = versity.store(bucket), list[str]()
    ours: Lock = BucketLock(store, SystemClock(), command="lmi up", tell=told.append)
    with _other_holder(versity, bucket) as other:
        with pytest.raises(Refused, match=rf"locked by lmi up \(pid {other.pid} on "), ours.hold("tiny"):
            pass
        os.kill(other.pid, signal.SIGKILL)
        other.wait()
        assert ours.holder("tiny") == ""
        with ours.hold("tiny"):
            assert told[0].endswith("its process is gone")
    assert list(store.list("")) == []
