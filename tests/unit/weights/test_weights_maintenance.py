"""Weights in a bucket: verified, copied, removed; and the remains of failed pushes."""

import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from lmi_deploy.domain.crc32 import crc32_of
from lmi_deploy.domain.weights import Manifest, weights_prefix
from lmi_deploy.errors import IntegrityError, NotFound, Refused, TransferFailed
from lmi_deploy.host.clock import SystemClock
from lmi_deploy.ports.object_store import StoredObject
from lmi_deploy.weights.cross_bucket_copy import CopyRoute, copy_weights
from lmi_deploy.weights.manifest_comparison import compare_listing
from lmi_deploy.weights.manifests import manifests, read_manifest, write_manifest
from lmi_deploy.weights.transfer_settings import TransferSettings
from lmi_deploy.weights.weights_maintenance import (
    IntegrityIssue,
    give_up,
    orphans,
    remove,
    unfinished,
    verify,
)
from tests.support.fake_source import GeneratedSource
from tests.support.fake_store import FakeStore
from tests.support.generators import result_of
from tests.support.push import push_context, pushed

NOISE = random.Random(4).randbytes(9 << 20)
FILES = {"config.json": b"{}", "model.safetensors": NOISE, "empty": b""}
STARTED = f"org--model/{'c' * 40}-00112233"
LATER, EARLIER = datetime(2027, 1, 1, tzinfo=UTC), datetime(2025, 1, 1, tzinfo=UTC)


@pytest.fixture
def store() -> FakeStore:
    return FakeStore()


@pytest.fixture
def manifest(store: FakeStore) -> Manifest:
    source = GeneratedSource(FILES, git=frozenset({"config.json"}))
    return pushed(source.listing(), push_context(source, store))[0]


def listed(store: FakeStore, prefix: str) -> dict[str, StoredObject]:
    return {stored.key: stored for stored in store.list(prefix)}


@pytest.mark.parametrize("deep", [False, True])
def test_intact_weights_have_no_integrity_issue(deep: bool, store: FakeStore, manifest: Manifest) -> None:
    assert result_of(verify(store, manifest, key="v", deep=deep)) == ()
    assert ("read" in store.calls) == deep


@pytest.mark.parametrize("deep", [False, True])
def test_every_integrity_issue_is_named(deep: bool, store: FakeStore, manifest: Manifest) -> None:
    prefix = weights_prefix(manifest.name)
    store.objects[f"{prefix}model.safetensors"] = bytes(len(NOISE))
    store.objects[f"{prefix}config.json"] = b"{ }"
    del store.objects[f"{prefix}empty"]
    store.objects[f"{prefix}stranger"] = b"x"
    issues: tuple[IntegrityIssue, ...] = result_of(verify(store, manifest, key="v", deep=deep))
    response = {issue.path.removeprefix(prefix): issue.why for issue in issues}
    assert response.keys() == {"model.safetensors", "config.json", "empty", "stranger"}
    assert response["config.json"] == "3 bytes, but the manifest says 2"
    assert response["empty"] == "is missing"
    assert "manifest" in response["model.safetensors"]


def test_bytes_corrupted_in_s3_are_an_integrity_issue(store: FakeStore, manifest: Manifest) -> None:
    class Rotten(FakeStore):
        def read(
            self, key: str, *, start: int = 0, length: int | None = None, etag: str = ""
        ) -> Iterator[bytes]:
            if key.endswith("model.safetensors"):
                raise IntegrityError(f"s3://fake/{key}: the received data has CRC32 x", hint="look")
            return super().read(key, start=start, length=length, etag=etag)

    corrupt = Rotten(objects=store.objects)
    corrupt._etags = store._etags
    issues: tuple[IntegrityIssue, ...] = result_of(verify(corrupt, manifest, key="v", deep=True))
    assert [(issue.path, issue.why) for issue in issues] == [
        ("model.safetensors", "the received data has CRC32 x")
    ]


def test_listing_shows_missing_extra_resized_and_replaced_files(store: FakeStore, manifest: Manifest) -> None:
    prefix = weights_prefix(manifest.name)
    assert compare_listing(store, manifest, listed(store, prefix)) == ()
    store.put(f"{prefix}model.safetensors", bytes(len(NOISE)))
    store.put(f"{prefix}config.json", b"{ }")
    store.put(f"{prefix}more", b"x")
    del store.objects[f"{prefix}empty"]
    response = {issue.path: issue.why for issue in compare_listing(store, manifest, listed(store, prefix))}
    assert response == {
        "config.json": "3 bytes, but the manifest says 2",
        "empty": "is missing",
        "model.safetensors": "was replaced after it was verified",
        "more": "is not in the manifest",
    }


def test_another_version_of_the_same_bytes_is_no_integrity_issue(
    store: FakeStore, manifest: Manifest
) -> None:
    """As a second push leaves it; where KMS encrypts, the same bytes have another ETag."""
    prefix = weights_prefix(manifest.name)
    store.calls.clear()
    store._etags[f"{prefix}model.safetensors"] = '"another"'
    assert compare_listing(store, manifest, listed(store, prefix)) == ()
    assert store.calls == ["list", "head"]
    older = replace(manifest, files=tuple(replace(file, etag="") for file in manifest.files))
    assert compare_listing(store, older, listed(store, prefix)) == ()


def test_rewritten_manifest_has_the_current_versions(store: FakeStore, manifest: Manifest) -> None:
    newer = replace(manifest, files=tuple(replace(file, etag="newer") for file in manifest.files))
    assert write_manifest(store, newer) == manifest
    assert read_manifest(store, manifest.name) == newer


def test_used_weights_are_not_removed(store: FakeStore, manifest: Manifest) -> None:
    with pytest.raises(Refused, match="tiny uses these weights"):
        remove(store, manifest.name, used={manifest.name: ("tiny",)})
    assert read_manifest(store, manifest.name) == manifest


def test_unused_weights_are_removed_completely(store: FakeStore, manifest: Manifest) -> None:
    store.objects["weights/org--model/other/file"] = b"stays"
    store.create_multipart(f"{weights_prefix(manifest.name)}model.safetensors")
    assert remove(store, manifest.name, used={}).size == sum(map(len, FILES.values()))
    assert store.objects.keys() == {"weights/org--model/other/file"}
    assert store.uploads("") == ()
    with pytest.raises(NotFound, match="no such weights"):
        remove(store, manifest.name, used={})


def test_versions_of_removed_weights_are_found_by_their_full_name_alone(
    store: FakeStore, manifest: Manifest
) -> None:
    label = manifest.name.split("/")[0]
    with pytest.raises(NotFound, match="no such weights"):
        remove(store, label, used={}, versions=True)
    assert remove(store, manifest.name, used={}, versions=True).size == sum(map(len, FILES.values()))
    with pytest.raises(NotFound, match="no such weights"):
        remove(store, manifest.name, used={}, versions=True)


def test_abandoned_uploads_are_found_by_age(store: FakeStore) -> None:
    old = store.create_multipart(f"weights/{STARTED}/model.safetensors")
    for expected in ("somebody/elses", "weights/resnet/2019/model.pt"):
        store.create_multipart(expected)
    assert orphans(store, before=EARLIER) == ()
    assert orphans(store, before=LATER) == (old,)
    give_up(store, orphans(store, before=LATER))
    assert [upload.key for upload in store.uploads("")] == ["somebody/elses", "weights/resnet/2019/model.pt"]


def test_abandoned_uploads_of_an_artifact_are_found(store: FakeStore) -> None:
    """A killed process leaves them: the adapter that it packed, the weights that it copied."""
    left = store.create_multipart(f"artifacts/chat/{'0' * 16}/adapter.tar.gz")
    store.create_multipart("artifacts/build/app.zip")
    assert orphans(store, before=LATER) == (left,)
    assert unfinished(store, before=LATER) == ()


def test_upload_with_a_recent_part_is_still_running(store: FakeStore) -> None:
    """It started long before, together with the small files beside it."""
    store.objects[f"weights/{STARTED}/config.json"] = b"{}"
    running = store.create_multipart(f"weights/{STARTED}/model.safetensors")
    for number, used in enumerate((EARLIER, datetime(2026, 5, 2, tzinfo=UTC)), 1):
        store.part_modified = used.isoformat()
        store.put_part(running, number, memoryview(NOISE), crc32=crc32_of(NOISE))
    day_before = datetime(2026, 5, 1, tzinfo=UTC)
    assert orphans(store, before=day_before) == ()
    assert unfinished(store, before=day_before) == ()
    assert orphans(store, before=LATER) == (running,)
    assert [one.name for one in unfinished(store, before=LATER)] == [STARTED]


def test_objects_of_a_deployment_are_no_orphans(store: FakeStore) -> None:
    store.objects[f"weights/{STARTED}/a"] = b"12"
    assert unfinished(store, before=LATER, used=lambda: {STARTED}) == ()


def test_objects_without_a_manifest_are_found_by_age(store: FakeStore, manifest: Manifest) -> None:
    store.objects[f"weights/{STARTED}/a"] = b"12"
    store.objects[f"weights/{STARTED}/sub/b"] = b"345"
    for expected in ("weights/notes", "weights/resnet/2019/model.pt", "weights/a/b/c/d"):
        store.objects[expected] = b"somebody's own"
    (found,) = unfinished(store, before=LATER)
    assert (found.name, found.size, len(found.keys)) == (STARTED, 5, 2)
    assert unfinished(store, before=EARLIER) == ()
    assert [kept.name for kept in manifests(store)] == [manifest.name]


def route(origin: FakeStore, target: FakeStore) -> CopyRoute:
    return CopyRoute(
        origin=origin, target=target, owner="1" * 12, clock=SystemClock(), settings=TransferSettings()
    )


def versionless(manifest: Manifest) -> Manifest:
    """Without versions and times: a copy has the same bytes and its own versions of the objects."""
    return replace(manifest, files=tuple(replace(file, etag="") for file in manifest.files))


class FailingStore(FakeStore):
    """The first copies fail, as many as given."""

    refusals = 0

    def copy(
        self, source: str, key: str, *, size: int, bucket: str = "", owner: str = "", etag: str = ""
    ) -> StoredObject:
        if self.refusals:
            self.refusals -= 1
            raise TransferFailed(f"{key}: no", hint="for a test")
        return super().copy(source, key, size=size, bucket=bucket, owner=owner, etag=etag)


def test_weights_are_copied_to_another_bucket_inside_s3(store: FakeStore, manifest: Manifest) -> None:
    target = FailingStore(bucket="far", others={"fake": store})
    target.refusals = 1
    with pytest.raises(TransferFailed, match="1 of 3 files"):
        result_of(copy_weights(manifest.name, route=route(store, target), key="c"))
    assert read_manifest(target, manifest.name) is None
    target.calls.clear()
    copied = result_of(copy_weights(manifest.name, route=route(store, target), key="c"))
    assert versionless(copied) == versionless(manifest)
    assert target.calls.count("copy") == 1
    prefix = weights_prefix(manifest.name)
    files = {key: body for key, body in store.objects.items() if key.startswith(prefix)}
    assert {key: body for key, body in target.objects.items() if key.startswith(prefix)} == files
    assert target.sent < 2000


def test_changed_source_is_not_copied(store: FakeStore, manifest: Manifest) -> None:
    store.objects[f"{weights_prefix(manifest.name)}model.safetensors"] = bytes(len(NOISE))
    target = FakeStore(bucket="far", others={"fake": store})
    with pytest.raises(IntegrityError, match=crc32_of(NOISE).replace("+", r"\+")):
        result_of(copy_weights(manifest.name, route=route(store, target), key="c"))
    assert read_manifest(target, manifest.name) is None
    assert not [key for key in target.objects if key.endswith("model.safetensors")]


def test_weights_without_a_manifest_are_not_copied(store: FakeStore) -> None:
    with pytest.raises(NotFound, match="no such weights"):
        result_of(copy_weights("org--model/none", route=route(store, FakeStore()), key="c"))
