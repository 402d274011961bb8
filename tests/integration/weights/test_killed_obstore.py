"""An external uploader ended inside a part: the next push succeeds, and no billed upload remains."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path

import pytest

from lmi_deploy.aws.s3.object_store import S3Store
from lmi_deploy.emulator.faults.rules import Drop, FaultRule
from lmi_deploy.weights.weights_maintenance import give_up, orphans
from tests.integration.weights.test_push import stored_objects
from tests.support.proxy import Proxy, proxied
from tests.support.s3_servers import S3Server
from tests.support.upload_program import Engine, upload

pytestmark = [
    pytest.mark.skipif(find_spec("obstore") is None, reason="obstore is not installed"),
    pytest.mark.landing,
]
PART = 8 << 20
FILES = {
    "a.safetensors": random.Random(7).randbytes(4 * PART + 5),
    "b.safetensors": random.Random(8).randbytes(2 * PART),
    "config.json": b"{}",
}
PARTS = 7
NEXT: tuple[Engine, ...] = ("own", "s5cmd", "obstore")
Started = Callable[[str], subprocess.Popen[str]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    created = tmp_path / "model"
    created.mkdir()
    for path, content in FILES.items():
        (created / path).write_bytes(content)
    return created


@pytest.fixture
def proxy(versity: S3Server) -> Iterator[Proxy]:
    with proxied(versity.url) as proxy:
        yield proxy


@pytest.fixture
def store(versity: S3Server, bucket: str) -> S3Store:
    versity.make_bucket(bucket)
    return versity.store(bucket)


@pytest.fixture
def start(store: S3Store, folder: Path) -> Iterator[Started]:
    """A push by obstore to a server at this address."""
    running: list[subprocess.Popen[str]] = []

    def begin(url: str) -> subprocess.Popen[str]:
        words = [sys.executable, "-m", "tests.support.upload_program", url, store.bucket, str(folder)]
        running.append(
            subprocess.Popen([*words, "obstore"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        )
        return running[-1]

    yield begin
    for process in running:
        process.kill()
        process.communicate()


def until(existing: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    end = time.monotonic() + 60
    while not existing() and time.monotonic() < end:
        assert process.poll() is None, process.communicate()
        time.sleep(0.002)


def ended_by(process: subprocess.Popen[str], how: signal.Signals) -> None:
    process.send_signal(how)
    process.wait(30)
    time.sleep(0.3)  # requests in flight may still arrive


@pytest.mark.parametrize("engine", NEXT)
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_next_push_completes_a_killed_upload(
    how: signal.Signals,
    engine: Engine,
    store: S3Store,
    proxy: Proxy,
    versity: S3Server,
    folder: Path,
    start: Started,
) -> None:
    running = start(proxy.url)
    until(lambda: len(proxy.requests("PUT", "partNumber")) >= 2, running)
    ended_by(running, how)
    assert not list(store.list("manifests/"))
    name = upload(versity, store.bucket, folder, engine)
    assert stored_objects(store, name) == FILES
    assert store.uploads("") == ()


def test_killed_push_sends_nothing_more(store: S3Store, proxy: Proxy, start: Started) -> None:
    running = start(proxy.url)
    until(lambda: bool(proxy.requests("PUT", "partNumber=1")), running)
    ended_by(running, signal.SIGKILL)
    observed = len(proxy.log)
    time.sleep(1)
    assert len(proxy.log) == observed


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_gc_finds_uploads_of_a_killed_push(
    how: signal.Signals, store: S3Store, proxy: Proxy, start: Started
) -> None:
    running = start(proxy.url)
    until(lambda: len(proxy.requests("PUT", "partNumber")) >= 2, running)
    ended_by(running, how)
    left = store.uploads("")
    found = orphans(store, before=datetime.now(UTC) + timedelta(days=1))
    assert {upload.upload_id for upload in found} == {upload.upload_id for upload in left}
    if how is signal.SIGKILL:
        assert found
    give_up(store, found)
    assert store.uploads("") == ()


@pytest.mark.parametrize("engine", NEXT)
def test_lost_network_is_recovered_by_the_next_push(
    engine: Engine, store: S3Store, proxy: Proxy, versity: S3Server, folder: Path, start: Started
) -> None:
    proxy.fail(
        FaultRule(do=Drop(), path="partNumber=2", times=None),
        FaultRule(do=Drop(), method="DELETE", times=None),
    )
    running = start(proxy.url)
    _, err = running.communicate(timeout=90)
    assert running.returncode == 1
    assert "TransferFailed" in err
    assert store.uploads(""), "it could not be aborted"
    name = upload(versity, store.bucket, folder, engine)
    assert stored_objects(store, name) == FILES
    assert store.uploads("") == ()


def test_push_killed_inside_a_part_is_completed_by_the_next_push(
    store: S3Store, versity: S3Server, folder: Path, start: Started
) -> None:
    """Without a proxy, which would pass on the truncated request."""
    running = start(versity.url)
    until(lambda: bool(store.uploads("")), running)
    ended_by(running, signal.SIGKILL)
    assert stored_objects(store, upload(versity, store.bucket, folder, "own")) == FILES
    assert store.uploads("") == ()
