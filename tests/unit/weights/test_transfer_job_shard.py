"""A transfer split into the shards of several instances: each uploads its own, and the last one writes the
manifest."""

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmi_deploy.domain.gathered_facts import FileEntry
from lmi_deploy.domain.sagemaker.transfer_job import JobRequest, order_text, read_order, shard_of
from lmi_deploy.domain.weights import Manifest, weights_prefix
from lmi_deploy.errors import IntegrityError, Refused
from lmi_deploy.weights.manifests import read_manifest
from lmi_deploy.weights.transfer_job_shard import push_shard
from tests.support.fake_source import GeneratedSource
from tests.support.fake_store import FakeStore
from tests.support.generators import result_of
from tests.support.push import push_context, pushed

NOISE = random.Random(4).randbytes(12 << 20)
FILES = {"config.json": b"{}", "a.safetensors": NOISE, "b.safetensors": NOISE[1:], "c.safetensors": NOISE[2:]}
SOURCE = GeneratedSource(FILES, git=frozenset({"config.json"}))


def order(source: GeneratedSource = SOURCE) -> JobRequest:
    return JobRequest(
        job="tiny-0123456789",
        bucket="models",
        owner="111122223333",
        kms_key="",
        listings=(source.listing(),),
        token_secret="",
        memory=256_000_000,
    )


def shard(
    number: int, store: FakeStore, *, count: int = 2, source: GeneratedSource = SOURCE
) -> Manifest | None:
    [manifest] = result_of(
        push_shard(order(source), number=number, count=count, context=push_context(source, store), key="job")
    )
    return manifest


@pytest.mark.parametrize("first", [0, 1])
def test_last_shard_writes_the_manifest(first: int) -> None:
    store = FakeStore()
    assert shard(first, store) is None
    manifest = shard(1 - first, store)
    assert manifest is not None
    assert read_manifest(store, manifest.name) == manifest
    prefix = weights_prefix(manifest.name)
    assert {
        key.removeprefix(prefix): body for key, body in store.objects.items() if key.startswith(prefix)
    } == FILES


def test_shards_write_the_same_manifest_as_one_push() -> None:
    alone, together = FakeStore(), FakeStore()
    by_hand, _ = pushed(SOURCE.listing(), push_context(SOURCE, alone))
    shard(0, together)
    by_job = shard(1, together)
    assert by_job is not None
    assert replace(by_job, created="") == replace(by_hand, created="")


def test_interrupted_job_is_continued() -> None:
    store = FakeStore()
    shard(0, store)
    sent = store.sent
    shard(0, store)
    assert store.sent - sent < 1000  # its own small files, and the note
    assert shard(1, store) is not None


def test_existing_objects_are_not_uploaded_again() -> None:
    store = FakeStore()
    pushed(SOURCE.listing(), push_context(SOURCE, store))
    sent = store.sent
    assert shard(1, store, count=7) is not None
    assert store.sent == sent


def test_foreign_object_under_the_prefix_is_refused() -> None:
    store = FakeStore()
    shard(0, store)
    prefix = next(key for key in store.objects if key.startswith("weights/")).rpartition("/")[0]
    store.objects[f"{prefix}/readme.txt"] = b"?"
    with pytest.raises(Refused, match="not part of this model"):
        shard(1, store)


def test_corrupted_byte_leaves_no_manifest() -> None:
    store, listing = FakeStore(), SOURCE.listing()
    flipped = GeneratedSource({**FILES, "a.safetensors": b"x" + NOISE[1:]}, git=frozenset({"config.json"}))
    numbers = [n for n in (0, 1) if any(f.path == "a.safetensors" for f in shard_of(listing.files, n, 2))]
    with pytest.raises(IntegrityError):
        result_of(
            push_shard(order(), number=numbers[0], count=2, context=push_context(flipped, store), key="job")
        )
    assert shard(1 - numbers[0], store) is None
    assert not [key for key in store.objects if key.startswith("manifests/")]


def test_job_request_is_read_back_equal() -> None:
    assert read_order(order_text(order())) == order()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": 1}', '{"schema": 2, "listings": [{}]}'])
def test_invalid_job_request_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        read_order(text)


entries = st.lists(st.integers(0, 10**12), max_size=40).map(
    lambda sizes: tuple(
        FileEntry(path=f"{number:03}", size=size, oid=f"{number:064}", kind="sha256")
        for number, size in enumerate(sizes)
    )
)


@given(entries, st.integers(1, 9))
def test_shards_are_a_balanced_partition(files: tuple[FileEntry, ...], count: int) -> None:
    shards = [shard_of(files, number, count) for number in range(count)]
    assert sorted(file.path for shard in shards for file in shard) == [file.path for file in files]
    loads = [sum(file.size for file in shard) for shard in shards]
    assert max(loads) - min(loads) <= max((file.size for file in files), default=0)
