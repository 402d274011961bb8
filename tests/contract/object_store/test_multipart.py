"""Multipart uploads: no object before completion, parts can be found and continued, checksums are verified."""

import os
from datetime import datetime

import pytest

from lmi_deploy.domain.crc32 import crc32_of
from lmi_deploy.errors import IntegrityError, NotFound
from lmi_deploy.ports.object_store import MultipartUpload, ObjectStore, Part

PARTS = [os.urandom(5 << 20), os.urandom(5 << 20), os.urandom(12345)]
WHOLE = b"".join(PARTS)
NOTED = {"lmi-oid": "sha256:00ff", "x": "a b=c"}


def _send(store: ObjectStore, upload: MultipartUpload, number: int, content: bytes) -> Part:
    return store.put_part(upload, number, memoryview(content), crc32=crc32_of(content))


def _sent(store: ObjectStore, key: str = "w/model.safetensors") -> tuple[MultipartUpload, list[Part]]:
    upload = store.create_multipart(key, metadata=NOTED)
    return upload, [_send(store, upload, number, chunk) for number, chunk in enumerate(PARTS, 1)]


def test_completed_upload_is_all_parts_with_one_checksum(store: ObjectStore) -> None:
    upload, parts = _sent(store)
    assert store.head(upload.key) is None
    created = store.complete(upload, parts, crc32=crc32_of(WHOLE), size=len(WHOLE))
    assert (created.size, created.checksum, created.algorithm) == (len(WHOLE), crc32_of(WHOLE), "CRC32")
    found = store.head(upload.key)
    assert found is not None
    assert (found.size, found.checksum, found.etag) == (len(WHOLE), crc32_of(WHOLE), created.etag)
    assert found.metadata == NOTED
    assert b"".join(store.read(upload.key)) == WHOLE
    assert store.uploads("") == ()


def test_copy_does_not_take_over_metadata(store: ObjectStore) -> None:
    upload, parts = _sent(store)
    store.complete(upload, parts, crc32=crc32_of(WHOLE), size=len(WHOLE))
    store.copy(upload.key, "copy", size=len(WHOLE))
    copied = store.head("copy")
    assert copied is not None
    assert (copied.size, copied.metadata) == (len(WHOLE), {})


def test_overwritten_object_loses_its_metadata(overwriting: ObjectStore) -> None:
    upload, parts = _sent(overwriting)
    overwriting.complete(upload, parts, crc32=crc32_of(WHOLE), size=len(WHOLE))
    overwriting.put(upload.key, b"other")
    after = overwriting.head(upload.key)
    assert after is not None
    assert after.metadata == {}


def test_parts_may_be_sent_in_any_order_and_twice(store: ObjectStore) -> None:
    upload = store.create_multipart("k")
    last = _send(store, upload, 3, PARTS[2])
    _send(store, upload, 1, PARTS[1])
    first = _send(store, upload, 1, PARTS[0])
    second = _send(store, upload, 2, PARTS[1])
    store.complete(upload, [last, first, second], crc32=crc32_of(WHOLE), size=len(WHOLE))
    assert b"".join(store.read("k")) == WHOLE


def test_another_process_finds_the_upload_and_its_parts(strict: ObjectStore) -> None:
    upload, parts = _sent(strict, "w/one")
    strict.create_multipart("other/two")
    found = strict.uploads("w/")
    assert [(one.key, one.upload_id) for one in found] == [(upload.key, upload.upload_id)]
    assert found[0].started
    assert strict.parts(found[0]) == tuple(parts)
    assert all(datetime.fromisoformat(part.modified) for part in strict.parts(found[0]))
    strict.complete(found[0], strict.parts(found[0]), crc32=crc32_of(WHOLE), size=len(WHOLE))
    assert b"".join(strict.read("w/one")) == WHOLE


def test_corrupted_part_is_refused_and_not_stored(strict: ObjectStore) -> None:
    upload = strict.create_multipart("k")
    with pytest.raises(IntegrityError) as caught:
        strict.put_part(upload, 1, memoryview(PARTS[0]), crc32=crc32_of(PARTS[1]))
    assert caught.value.exit_code == 6
    assert strict.parts(upload) == ()


def test_wrong_total_checksum_creates_no_object(strict: ObjectStore) -> None:
    upload, parts = _sent(strict)
    with pytest.raises(IntegrityError):
        strict.complete(upload, parts, crc32=crc32_of(b"other"), size=len(WHOLE))
    assert strict.head(upload.key) is None


def test_wrong_total_size_creates_no_object(strict: ObjectStore) -> None:
    upload, parts = _sent(strict)
    with pytest.raises(IntegrityError):
        strict.complete(upload, parts, crc32=crc32_of(WHOLE), size=len(WHOLE) + 1)
    assert strict.head(upload.key) is None


def test_missing_part_creates_no_object(strict: ObjectStore) -> None:
    upload, parts = _sent(strict)
    with pytest.raises(IntegrityError):
        strict.complete(upload, [parts[0], parts[2]], crc32=crc32_of(WHOLE), size=len(WHOLE))
    assert strict.head(upload.key) is None


def test_aborted_upload_is_gone_and_abort_is_idempotent(strict: ObjectStore) -> None:
    upload, _ = _sent(strict)
    strict.abort(upload)
    strict.abort(upload)
    assert strict.uploads("") == ()
    assert strict.head(upload.key) is None
    with pytest.raises(NotFound):
        strict.parts(upload)
    with pytest.raises(NotFound):
        _send(strict, upload, 1, PARTS[0])


def test_part_may_be_a_slice_of_a_larger_buffer(store: ObjectStore) -> None:
    upload = store.create_multipart("k")
    window = memoryview(bytearray(WHOLE))[100:-100]
    part = store.put_part(upload, 1, window, crc32=crc32_of(window))
    store.complete(upload, [part], crc32=crc32_of(window), size=len(window))
    assert b"".join(store.read("k")) == WHOLE[100:-100]
