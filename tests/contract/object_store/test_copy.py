"""Copies inside S3 in many parts: right bytes, a verified checksum, resumed after a kill -9."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from lmi_deploy.aws.s3.object_store import S3Store
from lmi_deploy.domain.crc32 import crc32_of
from lmi_deploy.emulator.faults.rules import Call, FaultRule
from lmi_deploy.errors import TransferFailed
from lmi_deploy.ports.object_store import StoredObject
from tests.integration.s3.test_faults import s3_error
from tests.support.copy_program import PARTS
from tests.support.proxy import Proxy, proxied
from tests.support.s3_servers import S3Server

PART_SIZE = PARTS.copy_part_size
BODY = os.urandom(8 * PART_SIZE + 11)


@pytest.fixture
def proxy(versity: S3Server) -> Iterator[Proxy]:
    with proxied(versity.url) as proxy:
        yield proxy


@pytest.fixture
def store(versity: S3Server, bucket: str) -> S3Store:
    """`from` has a checksum of another algorithm than ours."""
    # Where both have the same algorithm, versitygw 1.8 gives a part the checksum of the whole.
    versity.make_bucket(bucket)
    versity.api().put_object(Bucket=bucket, Key="from", Body=BODY, ChecksumAlgorithm="SHA256")
    return versity.store(bucket, settings=PARTS)


def copied_ranges(proxy: Proxy) -> list[str]:
    """The ranges that S3 copied."""
    done = [passed for passed in proxy.requests("PUT", "partNumber") if passed.status == 200]
    return sorted(passed.headers["x-amz-copy-source-range"] for passed in done)


def test_large_copy_has_one_checksum_over_all_parts(store: S3Store, versity: S3Server, proxy: Proxy) -> None:
    copied = (
        versity.behind_proxy(proxy.url).store(store.bucket, settings=PARTS).copy("from", "to", size=len(BODY))
    )
    assert b"".join(store.read("to")) == BODY
    assert (copied.size, copied.checksum, copied.algorithm) == (len(BODY), crc32_of(BODY), "CRC32")
    found = store.head("to")
    assert found is not None
    assert (found.etag, found.checksum, found.algorithm) == (copied.etag, copied.checksum, "CRC32")
    assert len(copied_ranges(proxy)) == 9
    assert store.uploads("") == ()


@pytest.mark.parametrize("after", [1, 4, 8])
def test_killed_copy_resumes_without_copying_a_part_twice(
    after: int, store: S3Store, versity: S3Server, proxy: Proxy
) -> None:
    words = [sys.executable, "-m", "tests.support.copy_program", proxy.url, store.bucket, str(len(BODY))]
    with subprocess.Popen(words) as killed:
        until = time.monotonic() + 60
        while len(copied_ranges(proxy)) < after and killed.poll() is None and time.monotonic() < until:
            time.sleep(0.001)
        killed.kill()
    time.sleep(0.3)  # the server finishes a copy it has started
    existing = [part.number for upload in store.uploads("to") for part in store.parts(upload)]
    if store.head("to") is not None:
        pytest.skip("it was done before it was killed")
    assert len(existing) >= after
    proxy.clear()
    copied = (
        versity.behind_proxy(proxy.url).store(store.bucket, settings=PARTS).copy("from", "to", size=len(BODY))
    )
    assert len(copied_ranges(proxy)) == 9 - len(existing)
    assert b"".join(store.read("to")) == BODY
    assert copied.checksum == crc32_of(BODY)
    assert store.uploads("") == ()


def test_failed_copy_keeps_the_parts_copied_before(store: S3Store, versity: S3Server, proxy: Proxy) -> None:
    by = versity.behind_proxy(proxy.url).store(store.bucket, settings=PARTS)
    proxy.fail(FaultRule(do=s3_error("InternalError", 500), method="PUT", path="partNumber=9", times=None))
    with pytest.raises(TransferFailed):
        by.copy("from", "to", size=len(BODY))
    assert len(copied_ranges(proxy)) == 8
    proxy.clear()
    by.copy("from", "to", size=len(BODY))
    assert len(copied_ranges(proxy)) == 1
    assert b"".join(store.read("to")) == BODY
    assert store.uploads("") == ()


def test_two_concurrent_copies_share_one_upload(store: S3Store, versity: S3Server, proxy: Proxy) -> None:
    copied: list[StoredObject] = []

    def overtake(call: Call, body: bytes) -> bytes:
        if "partNumber=9" in call.path and not copied:
            copied.append(store.copy("from", "to", size=len(BODY)))
        return body

    proxy.tamper = overtake
    own = (
        versity.behind_proxy(proxy.url).store(store.bucket, settings=PARTS).copy("from", "to", size=len(BODY))
    )
    assert (own.etag, own.checksum) == (copied[0].etag, crc32_of(BODY))
    assert b"".join(store.read("to")) == BODY
    assert store.uploads("") == ()


def test_parts_copied_from_another_source_are_copied_again(moto: S3Server, bucket: str) -> None:
    moto.make_bucket(bucket)
    store = moto.store(bucket, settings=PARTS)
    store.put("from", BODY)
    upload, wrong = store.create_multipart("to"), os.urandom(PART_SIZE)
    store.put_part(upload, 2, memoryview(wrong), crc32=crc32_of(wrong))
    copied = store.copy("from", "to", size=len(BODY))
    assert b"".join(store.read("to")) == BODY
    assert copied.checksum == crc32_of(BODY)
    assert store.uploads("") == ()


def test_parts_of_another_size_are_not_reused(moto: S3Server, bucket: str) -> None:
    moto.make_bucket(bucket)
    store = moto.store(bucket, settings=PARTS)
    store.put("from", BODY)
    part = BODY[: 8 << 20]
    store.put_part(store.create_multipart("to"), 1, memoryview(part), crc32=crc32_of(part))
    other = store.create_multipart("to-and-not-this-key")
    assert store.copy("from", "to", size=len(BODY)).checksum == crc32_of(BODY)
    assert [upload.upload_id for upload in store.uploads("")] == [other.upload_id]
