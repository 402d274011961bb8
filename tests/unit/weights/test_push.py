"""A push on a bucket in memory: what is sent, what is not, what is refused."""

import hashlib
import os
import random
import threading
from dataclasses import replace

import pytest

from lmi_deploy.domain.byte_units import MIB
from lmi_deploy.domain.crc32 import crc32_of
from lmi_deploy.domain.events import Progress
from lmi_deploy.domain.weights import manifest_key, weights_name, weights_prefix
from lmi_deploy.errors import AccessError, IntegrityError, Interrupted, LmiError, Refused, TransferFailed
from lmi_deploy.ports.object_store import MultipartUpload, Part
from lmi_deploy.weights.manifests import as_bytes, parse_manifest, read_manifest
from lmi_deploy.weights.part_size import USUAL
from lmi_deploy.weights.push import push
from tests.support.fake_source import GeneratedSource
from tests.support.fake_store import FakeStore
from tests.support.push import push_context, pushed

NOISE = random.Random(3).randbytes(32 * MIB)
FILES = {
    "config.json": b'{"a": 1}',
    "empty": b"",
    "model-1.safetensors": NOISE[: 16 * MIB + 3],
    "model-2.safetensors": NOISE[5 : 9 * MIB],
    "sub/tokenizer.json": NOISE[:MIB],
    "big.json": NOISE[7 : 8 * MIB + 9],
}
GIT = frozenset({"config.json", "empty", "sub/tokenizer.json", "big.json"})
TOTAL = sum(map(len, FILES.values()))


@pytest.fixture
def source() -> GeneratedSource:
    return GeneratedSource(FILES, git=GIT)


@pytest.fixture
def store() -> FakeStore:
    return FakeStore()


def stored_objects(store: FakeStore, name: str) -> dict[str, bytes]:
    prefix = weights_prefix(name)
    return {key.removeprefix(prefix): body for key, body in store.objects.items() if key.startswith(prefix)}


def test_all_bytes_are_uploaded_and_listed_in_the_manifest(source: GeneratedSource, store: FakeStore) -> None:
    manifest, events = pushed(source.listing(), push_context(source, store))
    assert stored_objects(store, manifest.name) == FILES
    assert manifest.name == weights_name("org/model", "c" * 40, source.listing().files)
    assert parse_manifest(store.objects[manifest_key(manifest.name)], "m") == manifest
    assert {file.path: (file.size, file.sha256, file.checksum) for file in manifest.files} == {
        path: (len(body), hashlib.sha256(body).hexdigest(), crc32_of(body)) for path, body in FILES.items()
    }
    last = [event for event in events if isinstance(event, Progress)][-1]
    assert (last.done, last.total, last.unit) == (TOTAL, TOTAL, "bytes")


def test_second_push_uploads_nothing_with_at_most_three_calls(
    source: GeneratedSource, store: FakeStore
) -> None:
    first, _ = pushed(source.listing(), push_context(source, store))
    sent = store.sent
    store.calls.clear()
    source.requests.clear()
    again, _ = pushed(source.listing(), push_context(source, store))
    assert (again, store.sent, source.requests) == (first, sent, [])
    assert len(store.calls) <= 3


def test_manifest_is_written_last(source: GeneratedSource, store: FakeStore) -> None:
    pushed(source.listing(), push_context(source, store))
    writes = [call for call in store.calls if call in ("put", "put_part", "complete")]
    assert writes[-1] == "put"
    assert writes.count("complete") == 3


def test_file_of_another_selection_is_copied_inside_the_bucket(
    source: GeneratedSource, store: FakeStore
) -> None:
    listing = source.listing()
    pushed(listing, push_context(source, store))
    sent = store.sent
    store.calls.clear()
    source.requests.clear()
    only = tuple(entry for entry in listing.files if entry.path != "big.json")
    manifest, _ = pushed(listing, push_context(source, store), files=only)
    assert store.calls.count("copy") == len(only)
    assert source.requests == []
    assert store.sent - sent == len(as_bytes(manifest))
    assert stored_objects(store, manifest.name) == {
        path: body for path, body in FILES.items() if path != "big.json"
    }


def test_copy_that_differs_from_its_manifest_is_uploaded_instead(
    source: GeneratedSource, store: FakeStore
) -> None:
    listing = source.listing()
    first, _ = pushed(listing, push_context(source, store))
    store.objects[f"{weights_prefix(first.name)}big.json"] = bytes(len(FILES["big.json"]))
    only = tuple(entry for entry in listing.files if entry.path == "big.json")
    manifest, _ = pushed(listing, push_context(source, store), files=only)
    assert stored_objects(store, manifest.name) == {"big.json": FILES["big.json"]}


class Flipping:
    """Wrong bytes for one file, in the given number of reads of its first part."""

    def __init__(self, path: str, times: int) -> None:
        self.path, self.left = path, times

    def __call__(self, path: str, start: int, buffer: memoryview) -> None:
        if path == self.path and start == 0 and self.left:
            self.left -= 1
            buffer[len(buffer) // 2] ^= 1


@pytest.mark.parametrize("path", ["model-1.safetensors", "config.json", "big.json"])
def test_corrupted_byte_is_read_again(path: str, source: GeneratedSource, store: FakeStore) -> None:
    source.twist = Flipping(path, times=1)
    manifest, _ = pushed(source.listing(), push_context(source, store))
    assert stored_objects(store, manifest.name) == FILES
    assert store.uploads("") == ()


@pytest.mark.parametrize("path", ["model-1.safetensors", "config.json", "big.json"])
def test_bytes_that_stay_corrupt_create_no_object(
    path: str, source: GeneratedSource, store: FakeStore
) -> None:
    source.twist = Flipping(path, times=9)
    with pytest.raises(IntegrityError, match=path) as caught:
        pushed(source.listing(), push_context(source, store))
    assert caught.value.exit_code == 6
    assert caught.value.hint
    full = {key.split("/", 3)[-1]: body for key, body in store.objects.items()}
    assert full == {name: body for name, body in FILES.items() if name != path}
    assert store.uploads("") == ()


def test_memory_is_bounded_whatever_the_file_size(store: FakeStore) -> None:
    """A late part delays the others: they are queued for hashing, each in its buffer."""
    late = threading.Event()
    waited: list[int] = []

    def hold_back(path: str, start: int, buffer: memoryview) -> None:
        if start == 0:
            late.wait(0.5)
        waited.append(start)

    source = GeneratedSource({"model.safetensors": NOISE}, twist=hold_back)
    by = push_context(source, store, memory=100_000_000 + 3 * USUAL)
    manifest, _ = pushed(source.listing(), by)
    assert stored_objects(store, manifest.name) == {"model.safetensors": NOISE}
    assert max(at for at in waited[: waited.index(0)] or [0]) <= 2 * USUAL
    assert len(source.buffers) <= 3
    assert sum(source.buffers.values()) <= 3 * USUAL


def test_two_buffers_suffice_for_any_number_of_files(source: GeneratedSource, store: FakeStore) -> None:
    manifest, _ = pushed(source.listing(), push_context(source, store, memory=100_000_000 + 2 * USUAL))
    assert stored_objects(store, manifest.name) == FILES
    assert len(source.buffers) <= 2


def test_parts_of_two_large_files_alternate(source: GeneratedSource, store: FakeStore) -> None:
    pushed(source.listing(), push_context(source, store, streams=2))
    order = [path for path, _, _ in source.requests if path.endswith(".safetensors")]
    assert order[:4].count("model-2.safetensors") == 2


def test_foreign_object_under_the_prefix_is_refused_before_any_upload(
    source: GeneratedSource, store: FakeStore
) -> None:
    name = weights_name("org/model", "c" * 40, source.listing().files)
    store.objects[f"{weights_prefix(name)}other.bin"] = b"of somebody else"
    with pytest.raises(Refused, match=r"other\.bin"):
        pushed(source.listing(), push_context(source, store))
    assert (store.sent, source.requests) == (0, [])


class FailingUploads(FakeStore):
    """Parts from the third on fail; `error` is the kind."""

    error: type[LmiError] = TransferFailed
    left = 0

    def put_part(self, upload: MultipartUpload, number: int, body: memoryview, *, crc32: str) -> Part:
        if "model-1" in upload.key and number >= 3 and self.left:
            self.left -= 1
            raise self.error(f"{upload.key}: part {number} failed", hint="for a test")
        return super().put_part(upload, number, body, crc32=crc32)


def test_uploaded_parts_are_kept_and_not_sent_again(source: GeneratedSource) -> None:
    store = FailingUploads()
    store.left = 1
    with pytest.raises(TransferFailed, match="1 of 6 files failed") as caught:
        pushed(source.listing(), push_context(source, store))
    assert "5 files are complete" in caught.value.hint
    (upload,) = store.uploads("")
    kept = sum(part.size for part in store.parts(upload))
    assert kept
    sent = store.sent
    manifest, _ = pushed(source.listing(), push_context(source, store))
    assert stored_objects(store, manifest.name) == FILES
    # big.json has no sha256 at its source: the object is read back for it, and not sent again.
    assert store.sent - sent - len(as_bytes(manifest)) == len(FILES["model-1.safetensors"]) - kept


def test_access_error_ends_the_push(source: GeneratedSource) -> None:
    store = FailingUploads()
    store.left, store.error = 99, AccessError
    with pytest.raises(AccessError):
        pushed(source.listing(), push_context(source, store))
    assert not [key for key in store.objects if key.startswith("manifests/")]


def test_part_changed_in_the_bucket_is_sent_again(source: GeneratedSource, store: FakeStore) -> None:
    listing = source.listing()
    name = weights_name("org/model", "c" * 40, listing.files)
    key = f"{weights_prefix(name)}model-1.safetensors"
    upload = store.create_multipart(key)
    wrong, right = os.urandom(USUAL), FILES["model-1.safetensors"][USUAL : 2 * USUAL]
    for number, body in ((1, wrong), (2, right), (3, b"of another size")):
        store.put_part(upload, number, memoryview(body), crc32=crc32_of(body))
    sent = store.sent
    manifest, _ = pushed(listing, push_context(source, store))
    assert stored_objects(store, name) == FILES
    assert store.sent - sent - len(as_bytes(manifest)) == TOTAL - USUAL


def test_most_complete_upload_continues_and_others_are_aborted(
    source: GeneratedSource, store: FakeStore
) -> None:
    listing = source.listing()
    key = f"{weights_prefix(weights_name('org/model', 'c' * 40, listing.files))}model-1.safetensors"
    for count in (1, 2, 0):
        upload = store.create_multipart(key)
        for number in range(1, count + 1):
            body = FILES["model-1.safetensors"][(number - 1) * USUAL : number * USUAL]
            store.put_part(upload, number, memoryview(body), crc32=crc32_of(body))
    sent = store.sent
    manifest, _ = pushed(listing, push_context(source, store))
    assert store.sent - sent - len(as_bytes(manifest)) == TOTAL - 2 * USUAL
    assert store.uploads("") == ()


def test_two_concurrent_pushes_end_with_one_manifest(store: FakeStore) -> None:
    sources = [GeneratedSource(FILES, git=GIT), GeneratedSource(FILES, git=GIT)]
    ended: list[object] = []

    def run(source: GeneratedSource) -> None:
        try:
            ended.append(pushed(source.listing(), push_context(source, store))[0])
        except LmiError as exc:
            ended.append(exc)

    threads = [threading.Thread(target=run, args=(source,)) for source in sources]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    first, second = ended
    assert first == second == read_manifest(store, getattr(first, "name", ""))
    assert stored_objects(store, getattr(first, "name", "")) == FILES
    assert store.uploads("") == ()


def test_upload_aborted_by_others_is_started_again(source: GeneratedSource, store: FakeStore) -> None:
    aborted = threading.Event()

    def abort(path: str, start: int, buffer: memoryview) -> None:
        if path == "model-1.safetensors" and start == 2 * USUAL and not aborted.is_set():
            aborted.set()
            for upload in store.uploads(""):
                store.abort(upload)

    source.twist = abort
    manifest, _ = pushed(source.listing(), push_context(source, store, streams=2))
    assert stored_objects(store, manifest.name) == FILES


def test_ctrl_c_reports_progress_and_how_to_continue(source: GeneratedSource, store: FakeStore) -> None:
    pushing = push(
        source.listing(), source.listing().files, push_context=push_context(source, store), key="weights"
    )
    next(pushing)
    with pytest.raises(Interrupted, match=r"of [0-9.]+ MB are in fake") as caught:
        pushing.throw(KeyboardInterrupt)
    assert "continues" in caught.value.hint
    assert caught.value.exit_code == 130
    manifest, _ = pushed(source.listing(), push_context(source, store))
    assert stored_objects(store, manifest.name) == FILES


def test_bug_in_a_worker_is_raised(source: GeneratedSource, store: FakeStore) -> None:
    def crash(path: str, start: int, buffer: memoryview) -> None:
        raise ZeroDivisionError

    source.twist = crash
    with pytest.raises(ZeroDivisionError):
        pushed(source.listing(), push_context(source, store))


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b'{"schema": 1}', b'{"schema": 1, "files": [{"x": 1}]}'])
def test_invalid_manifest_is_an_error(text: bytes) -> None:
    with pytest.raises(IntegrityError, match="not a manifest"):
        parse_manifest(text, "manifests/x.json")


def test_manifest_of_a_newer_lmi_is_refused() -> None:
    with pytest.raises(Refused, match="schema 2"):
        parse_manifest(b'{"schema": 2}', "manifests/x.json")


def test_manifest_of_other_content_is_never_overwritten(source: GeneratedSource, store: FakeStore) -> None:
    manifest, _ = pushed(source.listing(), push_context(source, store))
    other = replace(manifest, files=manifest.files[1:])
    store.objects[manifest_key(manifest.name)] = as_bytes(other)
    with pytest.raises(IntegrityError, match="wrote a different manifest"):
        pushed(source.listing(), push_context(source, store))


def test_empty_listing_can_be_pushed(store: FakeStore) -> None:
    source = GeneratedSource({})
    manifest, _ = pushed(source.listing(), push_context(source, store))
    assert manifest.files == ()
