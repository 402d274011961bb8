"""Objects of a bucket: written with a checksum and under conditions, read in ranges."""

import os
from collections.abc import Iterable

import pytest

from lmi_deploy.domain.crc32 import crc32_of
from lmi_deploy.errors import Conflict, IntegrityError, NotFound, UsageRefused
from lmi_deploy.ports.object_store import ObjectStore
from tests.support.s3_servers import S3Server

BODY = b"the bytes" * 300_000


def _joined(chunks: Iterable[bytes]) -> bytes:
    return b"".join(chunks)


def test_stored_object_is_found_with_its_checksum(store: ObjectStore) -> None:
    put = store.put("a/b.json", b"{}")
    assert (put.key, put.size, put.checksum, put.algorithm) == ("a/b.json", 2, crc32_of(b"{}"), "CRC32")
    found = store.head("a/b.json")
    assert found is not None
    assert (found.size, found.etag, found.checksum, found.algorithm) == (
        2,
        put.etag,
        crc32_of(b"{}"),
        "CRC32",
    )
    assert store.head("a/b") is None
    assert store.get("a/b") is None


@pytest.mark.parametrize("key", ["plain", "with space", "a+b=c&d", "umlaut-ä-語", "tilde~(1)!'*"])
def test_keys_with_special_characters_are_kept_exactly(store: ObjectStore, key: str) -> None:
    store.put(key, b"x")
    assert [found.key for found in store.list("")] == [key]
    got = store.get(key)
    assert got is not None
    assert got[0] == b"x"
    store.delete([key])
    assert list(store.list("")) == []


@pytest.mark.parametrize(
    "key",
    ["", "/a", "../b", "a/../b", "a/./b", "a//b", "a/", "nul\0", "line\nfeed", "x" * 1025, "a\\b", "\ud800"],
)
def test_ambiguous_key_is_never_written(strict: ObjectStore, key: str) -> None:
    strict.put("from", b"x")
    for write in (
        lambda: strict.put(key, b"x"),
        lambda: strict.create_multipart(key),
        lambda: strict.copy("from", key, size=1),
    ):
        with pytest.raises(UsageRefused) as caught:
            write()
        assert caught.value.hint
    assert [found.key for found in strict.list("")] == ["from"]


def test_list_is_sorted_by_key_under_a_prefix(store: ObjectStore) -> None:
    for key in ("w/b", "w/a", "x/c", "w2/d"):
        store.put(key, key.encode())
    assert [(found.key, found.size) for found in store.list("w/")] == [("w/a", 3), ("w/b", 3)]


def test_list_and_delete_work_for_more_than_one_page(strict: ObjectStore) -> None:
    keys = [f"many/{number:04}" for number in range(1003)]
    for key in keys:
        strict.put(key, b"")
    assert [found.key for found in strict.list("many/")] == keys
    strict.delete([*keys, "never-there"])
    assert list(strict.list("")) == []


@pytest.mark.parametrize(
    ("start", "length"),
    [(0, None), (0, 10), (5, 10), (2_000_000, 700_000), (2_699_990, None), (2_699_990, 100), (7, 0)],
)
def test_ranged_reads_are_exact(store: ObjectStore, start: int, length: int | None) -> None:
    store.put("k", BODY)
    expected = BODY[start:] if length is None else BODY[start : start + length]
    assert _joined(store.read("k", start=start, length=length)) == expected


def test_empty_object_can_be_stored_and_read(store: ObjectStore) -> None:
    store.put("empty", b"")
    assert _joined(store.read("empty")) == b""
    got = store.get("empty")
    assert got is not None
    assert got[0] == b""


def test_reading_a_missing_object_is_an_error(store: ObjectStore) -> None:
    with pytest.raises(NotFound, match="no such object") as caught:
        _joined(store.read("nothing"))
    assert caught.value.hint


def test_reading_with_an_old_etag_is_a_conflict(store: ObjectStore) -> None:
    first = store.put("k", b"one")
    store.put("k", b"two")
    with pytest.raises(Conflict):
        _joined(store.read("k", etag=first.etag))


def test_wrong_checksum_creates_no_object(strict: ObjectStore) -> None:
    with pytest.raises(IntegrityError):
        strict.put("k", b"bytes", crc32=crc32_of(b"other"))
    assert strict.head("k") is None


def test_put_if_absent_succeeds_only_once(store: ObjectStore) -> None:
    store.put("lock", b"mine", if_absent=True)
    with pytest.raises(Conflict) as caught:
        store.put("lock", b"theirs", if_absent=True)
    assert caught.value.hint
    got = store.get("lock")
    assert got is not None
    assert got[0] == b"mine"


def test_put_if_etag_needs_the_current_version(store: ObjectStore) -> None:
    first = store.put("lock", b"one")
    second = store.put("lock", b"two", if_etag=first.etag)
    with pytest.raises(Conflict):
        store.put("lock", b"three", if_etag=first.etag)
    store.put("lock", b"four", if_etag=second.etag)
    with pytest.raises(Conflict):
        store.put("absent", b"x", if_etag=first.etag)


def test_remove_if_etag_needs_the_current_version(store: ObjectStore) -> None:
    first = store.put("lock", b"one")
    second = store.put("lock", b"two")
    with pytest.raises(Conflict):
        store.remove("lock", if_etag=first.etag)
    assert store.head("lock") is not None
    store.remove("lock", if_etag=second.etag)
    store.remove("lock", if_etag=second.etag)
    assert store.head("lock") is None


def test_copy_has_the_same_bytes_and_a_checksum(store: ObjectStore) -> None:
    body = os.urandom(100_000)
    created = store.put("from/a", body)
    copied = store.copy("from/a", "to/a b", size=len(body), etag=created.etag)
    assert (copied.size, copied.checksum) == (len(body), crc32_of(body))
    found = store.head("to/a b")
    assert found is not None
    assert (found.size, found.checksum) == (len(body), crc32_of(body))
    assert _joined(store.read("to/a b")) == body


def test_replaced_source_is_not_copied(strict: ObjectStore) -> None:
    first = strict.put("from", b"one")
    strict.put("from", b"two")
    with pytest.raises(Conflict):
        strict.copy("from", "to", size=3, etag=first.etag)
    assert strict.head("to") is None


def test_copying_a_missing_source_is_an_error(store: ObjectStore) -> None:
    with pytest.raises(NotFound):
        store.copy("nothing", "to", size=3)


def test_versioned_bucket_keeps_what_is_deleted_until_its_versions_are(moto: S3Server, bucket: str) -> None:
    moto.make_bucket(bucket)
    moto.api().put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    store, key = moto.store(bucket), "weights/model"
    store.put(key, b"older")
    store.put(key, b"newer one")
    store.put("weights-of-others", b"stays")
    assert store.delete([key])
    assert store.head(key) is None
    assert store.delete_versions("weights/") == len(b"older" + b"newer one")
    left = moto.api().list_object_versions(Bucket=bucket)
    assert [one["Key"] for one in left["Versions"]] == ["weights-of-others"]
    assert "DeleteMarkers" not in left
