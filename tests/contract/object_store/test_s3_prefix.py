"""A prefix in a bucket as a model: listed, read, downloaded; on the fake, on moto and on versitygw."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from lmi_deploy.aws.account import bucket_region
from lmi_deploy.aws.s3.client_factory import S3Settings
from lmi_deploy.domain.events import Event
from lmi_deploy.domain.gathered_facts import FileEntry, ModelListing, in_place_listing
from lmi_deploy.domain.weights import weights_name, weights_prefix
from lmi_deploy.errors import AccessError, IntegrityError, LmiError, NotFound
from lmi_deploy.host.clock import SystemClock
from lmi_deploy.ports.object_store import ObjectStore
from lmi_deploy.ports.source import BytesRead, ObjectLocation
from lmi_deploy.sources.s3_prefix import S3Models
from lmi_deploy.weights.manifests import read_manifest
from tests.support.fake_source import GeneratedSource
from tests.support.fake_store import FakeStore
from tests.support.fakes import FakeClock
from tests.support.generators import finished
from tests.support.push import push_context, pushed
from tests.support.s3_servers import S3Server

FILES = {
    "config.json": b"{}",
    "nested/part.safetensors": bytes(range(256)) * 9000,
    "weights.safetensors": b"w" * 3_000_000,
}


def models(store: ObjectStore, home: Path) -> S3Models:
    return S3Models(lambda bucket: store, read_manifest, cache=home, clock=SystemClock())


def put_model(store: ObjectStore, prefix: str = "some/model/") -> str:
    for path, content in FILES.items():
        store.put(prefix + path, content)
    return f"s3://{store.bucket}/{prefix}"


def download(
    hub: S3Models, listing: ModelListing, files: tuple[FileEntry, ...] = ()
) -> tuple[Path, list[Event]]:
    return finished(hub.fetch(listing, files or listing.files, key="weights"))


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


def test_listing_has_the_sha256_of_every_file(store: ObjectStore, tmp_path: Path) -> None:
    address = put_model(store)
    store.put("some/models-of-others/x", b"x")
    listing = models(store, tmp_path).listing(address, "main")
    assert {entry.path: (entry.size, entry.oid, entry.kind) for entry in listing.files} == {
        path: (len(content), hashlib.sha256(content).hexdigest(), "sha256") for path, content in FILES.items()
    }
    assert (listing.model_id, listing.source, len(listing.commit)) == (address, "s3", 40)
    assert models(store, tmp_path).listing(address.rstrip("/"), "main") == listing


def test_folder_placeholder_of_the_s3_console_is_not_a_file(
    moto: S3Server, bucket: str, tmp_path: Path
) -> None:
    moto.make_bucket(bucket)
    moto.api().put_object(Bucket=bucket, Key="some/model/empty-folder/", Body=b"")
    store = moto.store(bucket)
    listing = models(store, tmp_path).listing(put_model(store), "main")
    assert {entry.path for entry in listing.files} == FILES.keys()


def test_commit_changes_with_the_content(store: ObjectStore, tmp_path: Path) -> None:
    address = put_model(store)
    before = models(store, tmp_path).listing(address, "main")
    store.put("some/model/config.json", b"[]")
    assert models(store, tmp_path).listing(address, "main").commit != before.commit


def test_object_is_read_for_its_hash_only_once(tmp_path: Path) -> None:
    store = FakeStore()
    address = put_model(store)
    models(store, tmp_path).listing(address, "main")
    assert store.calls.count("read") == len(FILES)
    models(store, tmp_path).listing(address, "main")
    assert store.calls.count("read") == len(FILES)
    (tmp_path / "s3-hashed").write_bytes((tmp_path / "s3-hashed").read_bytes()[:-20])
    models(store, tmp_path).listing(address, "main")
    assert store.calls.count("read") == len(FILES) + 1, "the line that was cut is read again, and no other"


def test_object_with_a_sha256_checksum_is_not_read(versity: S3Server, bucket: str, tmp_path: Path) -> None:
    versity.make_bucket(bucket)
    versity.api().put_object(Bucket=bucket, Key="m/a", Body=b"abc", ChecksumAlgorithm="SHA256")
    store = versity.store(bucket)
    assert [entry.oid for entry in models(store, tmp_path).listing(f"s3://{bucket}/m", "main").files] == [
        hashlib.sha256(b"abc").hexdigest()
    ]


def test_weights_uploaded_by_lmi_keep_commit_hashes_and_name(store: ObjectStore, tmp_path: Path) -> None:
    source = GeneratedSource(FILES, git=frozenset({"config.json"}))
    manifest, _ = pushed(source.listing(), push_context(source, store))
    address = f"s3://{store.bucket}/{weights_prefix(manifest.name)}"
    listing = models(store, tmp_path).listing(address, "main")
    assert listing.files == source.listing().files
    assert weights_name(listing.model_id, listing.commit, listing.files) == manifest.name
    folder, _ = download(models(store, tmp_path), listing)
    assert contents(folder) == FILES
    again, events = pushed(listing, push_context(models(store, tmp_path), store))
    assert again == manifest, "pushed where it is already"
    assert getattr(events[-1], "note", "") == "all already in the bucket"


def test_weights_without_a_manifest_are_refused(store: ObjectStore, tmp_path: Path) -> None:
    source = GeneratedSource(FILES)
    manifest, _ = pushed(source.listing(), push_context(source, store))
    address = f"s3://{store.bucket}/{weights_prefix(manifest.name)}"
    store.put(f"{weights_prefix(manifest.name)}extra", b"x")
    with pytest.raises(IntegrityError, match="differ from its manifest"):
        models(store, tmp_path).listing(address, "main")
    store.delete([f"manifests/{manifest.name}.json"])
    with pytest.raises(NotFound, match="incomplete"):
        models(store, tmp_path).listing(address, "main")


def test_foreign_prefix_can_be_pushed_as_weights(store: ObjectStore, tmp_path: Path) -> None:
    hub = models(store, tmp_path)
    listing = hub.listing(put_model(store), "main")
    manifest, _ = pushed(listing, push_context(hub, store))
    assert manifest.name.startswith(f"{store.bucket}--model/{listing.commit}-")
    assert manifest.source == "s3"
    prefix = weights_prefix(manifest.name)
    assert {one.key.removeprefix(prefix) for one in store.list(prefix)} == set(FILES)


def test_ranges_of_a_file_are_read(store: ObjectStore, tmp_path: Path) -> None:
    hub = models(store, tmp_path)
    listing = hub.listing(put_model(store), "main")
    assert (
        hub.read(listing, "nested/part.safetensors", start=250, length=8)
        == FILES["nested/part.safetensors"][250:258]
    )
    buffer = bytearray(2_000_000)
    assert [one.come for one in hub.read_into(listing, "weights.safetensors", memoryview(buffer), start=1)][
        -1
    ] == 2_000_000
    assert buffer == FILES["weights.safetensors"][1:2_000_001]


def test_files_are_verified_and_downloaded_once(store: ObjectStore, tmp_path: Path) -> None:
    hub = models(store, tmp_path)
    listing = hub.listing(put_model(store), "main")
    total = sum(len(content) for content in FILES.values())
    assert hub.missing(listing, listing.files) == total
    folder, events = download(hub, listing)
    assert contents(folder) == FILES
    assert folder == hub.folder(listing)
    assert (events[-1].done, events[-1].total) == (total, total)
    assert hub.missing(listing, listing.files) == 0
    assert download(models(store, tmp_path), listing) == (folder, [])
    assert [path.name for path in folder.parent.iterdir()] == [folder.name], "nothing is left beside it"


def test_recheck_finds_a_file_corrupted_on_disk(store: ObjectStore, tmp_path: Path) -> None:
    hub = models(store, tmp_path)
    listing = hub.listing(put_model(store), "main")
    folder, _ = download(hub, listing)
    corrupt, before = folder / "config.json", (folder / "config.json").stat()
    corrupt.write_bytes(b"??")
    os.utime(corrupt, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert contents(download(hub, listing)[0])["config.json"] == b"??", "nothing tells that it changed"
    messages = [getattr(event, "text", "") for event in hub.recheck(listing, listing.files, key="weights")]
    assert f"{corrupt}: the file was damaged; removed and downloaded again" in messages
    assert contents(download(hub, listing)[0]) == FILES


def test_file_changed_on_disk_is_downloaded_again(store: ObjectStore, tmp_path: Path) -> None:
    hub = models(store, tmp_path)
    listing = hub.listing(put_model(store), "main")
    folder, _ = download(hub, listing)
    (folder / "config.json").write_bytes(b"[]")
    download(models(store, tmp_path), listing)
    assert contents(folder) == FILES


class Cut:
    """A bucket whose reads of large files always end after some bytes."""

    def __init__(self, store: FakeStore, after: int) -> None:
        self._store, self._after = store, after
        self.offsets: list[int] = []

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    def read(self, key: str, *, start: int = 0, length: int | None = None, etag: str = "") -> Iterator[bytes]:
        self.offsets.append(start)
        for at, chunk in enumerate(self._store.read(key, start=start, length=length, etag=etag)):
            if at * len(chunk) >= self._after:
                raise LmiError("the network is gone", hint="again")
            yield chunk


def test_interrupted_download_resumes_where_it_stopped(tmp_path: Path) -> None:
    store = FakeStore()
    listing = models(store, tmp_path).listing(put_model(store), "main")
    large = tuple(entry for entry in listing.files if entry.path == "weights.safetensors")
    cut = Cut(store, 1 << 20)
    with pytest.raises(LmiError, match="the network is gone"):
        download(models(cut, tmp_path), listing, large)  # type: ignore[arg-type]
    full = Cut(store, 1 << 30)
    folder, _ = download(models(full, tmp_path), listing, large)  # type: ignore[arg-type]
    assert full.offsets == [1 << 20]
    assert contents(folder) == {"weights.safetensors": FILES["weights.safetensors"]}


def test_corrupted_download_is_not_kept(store: ObjectStore, tmp_path: Path) -> None:
    hub = models(store, tmp_path)
    listing = hub.listing(put_model(store), "main")
    store.put("some/model/weights.safetensors", b"v" + FILES["weights.safetensors"][1:])
    with pytest.raises(IntegrityError, match=r"weights\.safetensors: sha256 .*, but"):
        download(models(store, tmp_path), listing)
    assert set(contents(hub.folder(listing))) == FILES.keys() - {"weights.safetensors"}


def test_object_replaced_during_the_run_is_reported(store: ObjectStore, tmp_path: Path) -> None:
    hub = models(store, tmp_path)
    listing = hub.listing(put_model(store), "main")
    store.put("some/model/config.json", b"[]")
    with pytest.raises(LmiError, match=r"config\.json"):
        hub.read(listing, "config.json")


@pytest.mark.parametrize("key", ["../../etc/passwd", "a//b", "a/./b", "a\\b", "a\nb"])
def test_unsafe_key_is_refused(key: str, tmp_path: Path) -> None:
    store = FakeStore()
    store.objects |= {"m/good": b"x", f"m/{key}": b"x"}
    with pytest.raises(IntegrityError, match="cannot be a file of a model"):
        models(store, tmp_path).listing("s3://fake/m/", "main")
    assert not list(tmp_path.rglob("*"))


def test_keys_that_do_not_fit_one_folder_are_refused(tmp_path: Path) -> None:
    store = FakeStore(objects={"m/a": b"x", "m/a/b": b"y"})
    with pytest.raises(IntegrityError, match="cannot be in one folder"):
        models(store, tmp_path).listing("s3://fake/m", "main")


def test_unsafe_label_stays_inside_the_models_folder(tmp_path: Path) -> None:
    name = f"weights/../{'0' * 40}-{'0' * 8}/x"
    hub = models(FakeStore(objects={name: b"x"}), tmp_path)
    listing = hub.listing(f"s3://fake/{name[:-2]}", "main")
    assert hub.folder(listing).resolve().is_relative_to(tmp_path / "models")


def test_empty_prefix_is_an_error_that_says_what_to_list(store: ObjectStore, tmp_path: Path) -> None:
    put_model(store)
    with pytest.raises(NotFound, match="no objects under this prefix") as error:
        models(store, tmp_path).listing(f"s3://{store.bucket}/some/modle", "main")
    assert error.value.hint == f"aws s3 ls s3://{store.bucket}/some/ lists the objects"
    with pytest.raises(NotFound, match="an object, not a prefix"):
        models(store, tmp_path).listing(f"s3://{store.bucket}/some/model/config.json", "main")


def test_foreign_bucket_is_not_read(versity: S3Server, bucket: str) -> None:
    versity.make_bucket(bucket)
    store = versity.store(bucket, owner="999999999999")
    with pytest.raises(AccessError):
        models(store, Path("unused")).listing(f"s3://{bucket}/m", "main")


def test_bucket_region_is_looked_up(moto: S3Server, bucket: str) -> None:
    west = replace(moto, region="us-west-2")
    place = {"LocationConstraint": "us-west-2"}
    west.api().create_bucket(Bucket=bucket, CreateBucketConfiguration=place)
    settings = S3Settings(endpoint_url=moto.url)
    requests = bucket_region(moto.session(), bucket, moto.owner, clock=SystemClock(), settings=settings)
    assert requests == "us-west-2"
    with pytest.raises(NotFound):
        bucket_region(moto.session(), f"{bucket}-no", moto.owner, clock=SystemClock(), settings=settings)


def test_prefix_in_the_same_bucket_is_copied_inside_s3(strict: ObjectStore, tmp_path: Path) -> None:
    hub = models(strict, tmp_path)
    listing = hub.listing(put_model(strict), "main")
    requests: list[str] = []
    spied = RecordingHub(hub, requests)
    manifest, _ = pushed(listing, push_context(spied, strict))
    assert requests == [], "no byte passed here"
    prefix = weights_prefix(manifest.name)
    assert {path: b"".join(strict.read(prefix + path)) for path in FILES} == FILES
    assert all(file.checksum for file in manifest.files)


def test_object_changed_after_listing_is_not_copied(strict: ObjectStore, tmp_path: Path) -> None:
    hub = models(strict, tmp_path)
    listing = hub.listing(put_model(strict), "main")
    strict.put("some/model/config.json", b"[]")
    with pytest.raises(LmiError, match=r"config\.json"):
        pushed(listing, push_context(hub, strict))
    assert not [one.key for one in strict.list("weights/") if one.key.endswith("config.json")]
    assert not list(strict.list("manifests/"))


class RecordingHub:
    """The same models, and a log of every file that was read."""

    def __init__(self, hub: S3Models, requests: list[str]) -> None:
        self._hub, self._requests = hub, requests

    def locate(self, listing: ModelListing, path: str) -> ObjectLocation | None:
        return self._hub.locate(listing, path)

    def read_into(
        self, listing: ModelListing, path: str, buffer: memoryview, *, start: int
    ) -> Iterator[BytesRead]:
        self._requests.append(path)
        return self._hub.read_into(listing, path, buffer, start=start)


class Slow(FakeStore):
    """Reading any object takes a minute."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__()
        self.clock = clock

    def read(self, key: str, *, start: int = 0, length: int | None = None, etag: str = "") -> Iterator[bytes]:
        self.clock.sleep(60)
        return super().read(key, start=start, length=length, etag=etag)


def test_slow_hashing_reports_progress(tmp_path: Path) -> None:
    clock, lines = FakeClock(), list[str]()
    store = Slow(clock)
    address = put_model(store)
    hub = S3Models(lambda bucket: store, read_manifest, cache=tmp_path, clock=clock, notify=lines.append)
    hub.listing(address, "main")
    assert lines
    assert all(line.startswith(f"hashing {address}: ") for line in lines)
    result = len(lines)
    hub.listing(address, "main")
    assert len(lines) == result  # cached by now


def test_objects_in_place_are_known_by_their_etags_without_a_read(store: ObjectStore, tmp_path: Path) -> None:
    address = put_model(store)
    hub = models(store, tmp_path)
    weights = hub.in_place(address)
    assert [(file.path, file.size) for file in weights.files] == [
        (path, len(FILES[path])) for path in sorted(FILES)
    ]
    assert weights.kms_keys == ()
    listing = in_place_listing(weights)
    assert {entry.kind for entry in listing.files} == {"etag"}
    assert hub.read(listing, "config.json") == b"{}"
    store.put("some/model/config.json", b"{ }")
    assert models(store, tmp_path).in_place(address).commit != weights.commit


def test_object_replaced_after_it_was_listed_in_place_is_not_read(store: ObjectStore, tmp_path: Path) -> None:
    address = put_model(store)
    hub = models(store, tmp_path)
    listing = in_place_listing(hub.in_place(address))
    store.put("some/model/config.json", b"{ }")
    with pytest.raises(LmiError):
        hub.read(listing, "config.json")


def test_empty_prefix_in_place_is_an_error(store: ObjectStore, tmp_path: Path) -> None:
    put_model(store)
    with pytest.raises(NotFound, match="no objects under this prefix"):
        models(store, tmp_path).in_place(f"s3://{store.bucket}/some/modle")
