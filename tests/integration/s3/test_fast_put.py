"""Fast PUTs: equal to botocore's for the server; a failed one is repeated by botocore."""

from collections.abc import Iterator

import pytest

from lmi_deploy.aws.s3.client_factory import S3Settings
from lmi_deploy.aws.s3.object_store import S3Store
from lmi_deploy.domain.crc32 import crc32_of
from lmi_deploy.emulator.faults.rules import Action, Answer, Drop, FaultRule, Lose
from lmi_deploy.errors import Conflict
from tests.support.frozen_clock import FrozenClock
from tests.support.proxy import Passed, Proxy, proxied
from tests.support.s3_servers import S3Server

BOTOCORES = "amz-sdk-invocation-id"
"""A header that fast_put adds to each of its requests."""
OF_THE_MOMENT = {"authorization", "x-amz-date", "x-amz-content-sha256", "x-amz-checksum-crc32", BOTOCORES}
FAULTS: dict[str, Action] = {
    "refused": Answer(503),
    "dropped": Drop(),
    "reply-lost": Lose(),
    "without-a-reason": Answer(400),
}


@pytest.fixture
def proxy(versity: S3Server) -> Iterator[Proxy]:
    with proxied(versity.url) as proxy:
        yield proxy


@pytest.fixture
def store(versity: S3Server, proxy: Proxy, bucket: str) -> S3Store:
    versity.make_bucket(bucket)
    settings = S3Settings(attempts=2, stall_seconds=0.5)
    created = versity.behind_proxy(proxy.url).store(bucket, clock=FrozenClock(), settings=settings)
    created.put("example", b"the first")
    return created


def headers(passed: Passed) -> dict[str, str]:
    found = {name.lower(): value for name, value in passed.headers.items()}
    return {
        name: value
        for name, value in found.items()
        if name not in OF_THE_MOMENT and not name.startswith("amz-sdk")
    }


def lean(proxy: Proxy) -> list[bool]:
    return [BOTOCORES not in {name.lower() for name in passed.headers} for passed in proxy.log]


def test_fast_put_sends_the_same_headers_as_botocore(store: S3Store, proxy: Proxy) -> None:
    store.put("folder/with space+ä~(1).json", b"a second!")
    assert lean(proxy) == [False, True]
    assert headers(proxy.log[0]) == headers(proxy.log[1])
    found = store.get("folder/with space+ä~(1).json")
    assert found is not None
    assert found[0] == b"a second!"


def test_parts_use_fast_put(store: S3Store, proxy: Proxy) -> None:
    content = bytes(range(256)) * 4096
    upload = store.create_multipart("whole")
    part = store.put_part(upload, 1, memoryview(content), crc32=crc32_of(content))
    assert lean(proxy)[-1]
    store.complete(upload, [part], crc32=crc32_of(content), size=len(content))
    assert b"".join(store.read("whole")) == content


def test_conditional_put_does_not_use_fast_put(store: S3Store, proxy: Proxy) -> None:
    store.put("once", b"x", if_absent=True)
    with pytest.raises(Conflict):
        store.put("once", b"y", if_absent=True)
    assert True not in lean(proxy)


@pytest.mark.parametrize("fault", FAULTS)
def test_failed_fast_put_is_retried_by_botocore(fault: str, store: S3Store, proxy: Proxy) -> None:
    proxy.fail(FaultRule(do=FAULTS[fault], method="PUT"))
    content = bytes(range(256)) * 512
    store.put("k", content)
    assert lean(proxy)[1:3] == [True, False]
    found = store.get("k")
    assert found is not None
    assert found[0] == content


def test_flipped_byte_is_refused_and_sent_again(store: S3Store, proxy: Proxy) -> None:
    flips = iter([1])
    proxy.tamper = lambda call, body: bytes([body[0] ^ next(flips, 0)]) + body[1:]
    store.put("k", b"some bytes")
    proxy.tamper = None
    assert lean(proxy)[1:] == [True, False]
    found = store.get("k")
    assert found is not None
    assert found[0] == b"some bytes"
