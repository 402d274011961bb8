"""kill -9 at any moment: the next push continues with the parts in S3 and sends none of them again."""

import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lmi_deploy.aws.s3.object_store import S3Store
from tests.integration.weights.test_push import stored_objects
from tests.support.hub import LocalHub, serve_hub
from tests.support.hub_client import HubClient
from tests.support.proxy import Proxy
from tests.support.push import push_context, pushed
from tests.support.s3_servers import S3Server

pytestmark = pytest.mark.landing

PART = 8 << 20
FILES = {
    "a.safetensors": random.Random(7).randbytes(4 * PART + 5),
    "b.safetensors": random.Random(8).randbytes(2 * PART),
    "config.json": b"{}",
}


@pytest.fixture(scope="module")
def running_hub() -> Iterator[LocalHub]:
    with serve_hub({"org/m": FILES}) as hub:
        yield hub


@pytest.fixture
def store(versity: S3Server, bucket: str) -> S3Store:
    versity.make_bucket(bucket)
    return versity.store(bucket)


Program = Callable[[], subprocess.Popen[str]]


@pytest.fixture
def program(hub: LocalHub, proxy: Proxy, bucket: str, tmp_path: Path) -> Iterator[Program]:
    started: list[subprocess.Popen[str]] = []
    words = [sys.executable, "-m", "tests.support.push_program", hub.url, proxy.url, bucket, str(tmp_path)]

    def start() -> subprocess.Popen[str]:
        started.append(subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def parts_sent(proxy: Proxy) -> set[str]:
    """Parts that S3 has received, as `file:number`."""
    done = [passed for passed in proxy.requests("PUT", "partNumber") if passed.status == 200]
    return {
        f"{passed.path.partition('?')[0][-13:]}:{passed.path.partition('partNumber=')[2][:1]}"
        for passed in done
    }


@pytest.mark.parametrize("after", [1, 3, 5, 7])
def test_next_push_uploads_only_the_missing_parts(
    after: int, client: HubClient, store: S3Store, proxy: Proxy, versity: S3Server, program: Program
) -> None:
    killed = program()
    until = time.monotonic() + 30
    while len(parts_sent(proxy)) < after and killed.poll() is None and time.monotonic() < until:
        time.sleep(0.001)
    killed.kill()
    killed.wait()
    time.sleep(0.2)  # the proxy may still pass on requests in flight
    existing = sum(part.size for upload in store.uploads("") for part in store.parts(upload))
    full = sum(found.size for found in store.list("weights/"))
    proxy.clear()
    again = versity.behind_proxy(proxy.url).store(store.bucket)
    manifest, _ = pushed(client.listed(), push_context(client.adapter, again))
    assert stored_objects(store, manifest.name) == FILES
    assert store.uploads("") == ()
    sent = sum(passed.size for passed in proxy.requests("PUT", "partNumber"))
    total = sum(len(body) for path, body in FILES.items() if path.endswith(".safetensors"))
    assert sent == total - existing - sum_of_large(full)


def sum_of_large(total: int) -> int:
    """Of the bytes in complete objects, those sent in parts."""
    return total - total % PART + (5 if total % PART in (5, 7) else 0)


def test_two_concurrent_pushes_end_with_one_manifest(store: S3Store, program: Program) -> None:
    both = [program(), program()]
    messages = [process.communicate(timeout=60) for process in both]
    assert [process.returncode for process in both] == [0, 0], messages
    assert messages[0][0] == messages[1][0]
    assert stored_objects(store, messages[0][0].strip()) == FILES
    assert len(list(store.list("manifests/"))) == 1
    assert store.uploads("") == ()
