"""A prefix in a bucket as a model: listed, read, brought here; on the fake, on moto and on versitygw."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from lmi_deploy.aws.s3 import S3Settings
from lmi_deploy.aws.s3.bucket_region import bucket_region
from lmi_deploy.domain.events import Progress
from lmi_deploy.domain.facts import FileEntry, ModelListing
from lmi_deploy.domain.weights import weights_name, weights_prefix
from lmi_deploy.errors import AccessError, IntegrityError, LmiError, NotFound
from lmi_deploy.host.clock import SystemClock
from lmi_deploy.ports.object_store import ObjectStore
from lmi_deploy.ports.source import Arrived, Lying
from lmi_deploy.sources.s3_prefix import S3Models
from lmi_deploy.weights.manifests import read_manifest
from tests.support.fake_source import MadeUp
from tests.support.fake_store import FakeStore
from tests.support.fakes import FakeClock
from tests.support.push import pushed, way
from tests.support.s3_servers import S3Server

FILES = {
    "config.json": b"{}",
    "nested/part.safetensors": bytes(range(256)) * 9000,
    "weights.safetensors": b"w" * 3_000_000,
}


def models(store: ObjectStore, home: Path) -> S3Models:
    return S3Models(lambda bucket: store, read_manifest, cache=home, clock=SystemClock())


def laid(store: ObjectStore, prefix: str = "some/model/") -> str:
    for path, content in FILES.items():
        store.put(prefix + path, content)
    return f"s3://{store.bucket}/{prefix}"


def brought(
    hub: S3Models, listing: ModelListing, files: tuple[FileEntry, ...] = ()
) -> tuple[Path, list[Progress]]:
    fetching, said = hub.fetch(listing, files or listing.files, key="weights"), []
    try:
        while True:
            said.append(next(fetching))
    except StopIteration as end:
        folder: Path = end.value
        return folder, said


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


def test_a_prefix_is_listed_by_the_sha256_of_what_is_in_it(store: ObjectStore, tmp_path: Path) -> None:
    address = laid(store)
    store.put("some/models-of-others/x", b"x")
    listing = models(store, tmp_path).listing(address, "main")
    assert {entry.path: (entry.size, entry.oid, entry.kind) for entry in listing.files} == {
        path: (len(content), hashlib.sha256(content).hexdigest(), "sha256") for path, content in FILES.items()
    }
    assert (listing.model_id, listing.source, len(listing.commit)) == (address, "s3", 40)
    assert models(store, tmp_path).listing(address.rstrip("/"), "main") == listing


def test_what_a_console_puts_for_an_empty_folder_is_no_file(
    moto: S3Server, bucket: str, tmp_path: Path
) -> None:
    moto.make_bucket(bucket)
    moto.api().put_object(Bucket=bucket, Key="some/model/empty-folder/", Body=b"")
    store = moto.store(bucket)
    listing = models(store, tmp_path).listing(laid(store), "main")
    assert {entry.path for entry in listing.files} == FILES.keys()


def test_the_commit_is_that_of_the_content(store: ObjectStore, tmp_path: Path) -> None:
    address = laid(store)
    before = models(store, tmp_path).listing(address, "main")
    store.put("some/model/config.json", b"[]")
    assert models(store, tmp_path).listing(address, "main").commit != before.commit


def test_an_object_is_read_for_its_hash_once(tmp_path: Path) -> None:
    store = FakeStore()
    address = laid(store)
    models(store, tmp_path).listing(address, "main")
    assert store.calls.count("read") == len(FILES)
    models(store, tmp_path).listing(address, "main")
    assert store.calls.count("read") == len(FILES)
    (tmp_path / "s3-hashed").write_bytes((tmp_path / "s3-hashed").read_bytes()[:-20])
    models(store, tmp_path).listing(address, "main")
    assert store.calls.count("read") == len(FILES) + 1, "the line that was cut is read again, and no other"


def test_what_s3_vouches_for_by_sha256_is_not_read(versity: S3Server, bucket: str, tmp_path: Path) -> None:
    versity.make_bucket(bucket)
    versity.api().put_object(Bucket=bucket, Key="m/a", Body=b"abc", ChecksumAlgorithm="SHA256")
    store = versity.store(bucket)
    assert [entry.oid for entry in models(store, tmp_path).listing(f"s3://{bucket}/m", "main").files] == [
        hashlib.sha256(b"abc").hexdigest()
    ]


def test_weights_of_ours_keep_their_commit_hashes_and_name(store: ObjectStore, tmp_path: Path) -> None:
    source = MadeUp(FILES, git=frozenset({"config.json"}))
    manifest, _ = pushed(source.listing(), way(source, store))
    address = f"s3://{store.bucket}/{weights_prefix(manifest.name)}"
    listing = models(store, tmp_path).listing(address, "main")
    assert listing.files == source.listing().files
    assert weights_name(listing.model_id, listing.commit, listing.files) == manifest.name
    folder, _ = brought(models(store, tmp_path), listing)
    assert contents(folder) == FILES
    again, said = pushed(listing, way(models(store, tmp_path), store))
    assert again == manifest, "pushed where it is already"
    assert getattr(said[-1], "note", "") == "all there already"


def test_weights_without_their_manifest_are_none(store: ObjectStore, tmp_path: Path) -> None:
    source = MadeUp(FILES)
    manifest, _ = pushed(source.listing(), way(source, store))
    address = f"s3://{store.bucket}/{weights_prefix(manifest.name)}"
    store.put(f"{weights_prefix(manifest.name)}extra", b"x")
    with pytest.raises(IntegrityError, match="not those of its manifest"):
        models(store, tmp_path).listing(address, "main")
    store.delete([f"manifests/{manifest.name}.json"])
    with pytest.raises(NotFound, match="not complete"):
        models(store, tmp_path).listing(address, "main")


def test_a_foreign_prefix_becomes_weights(store: ObjectStore, tmp_path: Path) -> None:
    hub = models(store, tmp_path)
    listing = hub.listing(laid(store), "main")
    manifest, _ = pushed(listing, way(hub, store))
    assert manifest.name.startswith(f"{store.bucket}--model/{listing.commit}-")
    assert manifest.source == "s3"
    prefix = weights_prefix(manifest.name)
    assert {one.key.removeprefix(prefix) for one in store.list(prefix)} == set(FILES)


def test_parts_of_a_file_are_read(store: ObjectStore, tmp_path: Path) -> None:
    hub = models(store, tmp_path)
    listing = hub.listing(laid(store), "main")
    assert (
        hub.read(listing, "nested/part.safetensors", start=250, length=8)
        == FILES["nested/part.safetensors"][250:258]
    )
    buffer = bytearray(2_000_000)
    assert [one.come for one in hub.fill(listing, "weights.safetensors", memoryview(buffer), start=1)][
        -1
    ] == 2_000_000
    assert buffer == FILES["weights.safetensors"][1:2_000_001]


def test_files_come_verified_and_only_once(store: ObjectStore, tmp_path: Path) -> None:
    hub = models(store, tmp_path)
    listing = hub.listing(laid(store), "main")
    total = sum(len(content) for content in FILES.values())
    assert hub.missing(listing, listing.files) == total
    folder, said = brought(hub, listing)
    assert contents(folder) == FILES
    assert folder == hub.folder(listing)
    assert (said[-1].done, said[-1].total) == (total, total)
    assert hub.missing(listing, listing.files) == 0
    assert brought(models(store, tmp_path), listing) == (folder, [])
    assert [path.name for path in folder.parent.iterdir()] == [folder.name], "nothing is left beside it"


def test_a_file_that_rots_unseen_is_found_by_a_recheck(store: ObjectStore, tmp_path: Path) -> None:
    hub = models(store, tmp_path)
    listing = hub.listing(laid(store), "main")
    folder, _ = brought(hub, listing)
    rotten, before = folder / "config.json", (folder / "config.json").stat()
    rotten.write_bytes(b"??")
    os.utime(rotten, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert contents(brought(hub, listing)[0])["config.json"] == b"??", "nothing tells that it changed"
    told = [getattr(event, "text", "") for event in hub.recheck(listing, listing.files, key="weights")]
    assert f"{rotten}: it was damaged; removed, and fetched again" in told
    assert contents(brought(hub, listing)[0]) == FILES


def test_a_file_that_was_changed_here_is_brought_again(store: ObjectStore, tmp_path: Path) -> None:
    hub = models(store, tmp_path)
    listing = hub.listing(laid(store), "main")
    folder, _ = brought(hub, listing)
    (folder / "config.json").write_bytes(b"[]")
    brought(models(store, tmp_path), listing)
    assert contents(folder) == FILES


class Cut:
    """A bucket whose readings of large files break off for good after some bytes."""

    def __init__(self, store: FakeStore, after: int) -> None:
        self._store, self._after = store, after
        self.asked: list[int] = []

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    def read(self, key: str, *, start: int = 0, length: int | None = None, etag: str = "") -> Iterator[bytes]:
        self.asked.append(start)
        for at, chunk in enumerate(self._store.read(key, start=start, length=length, etag=etag)):
            if at * len(chunk) >= self._after:
                raise LmiError("the network is gone", hint="again")
            yield chunk


def test_what_came_is_kept_and_the_rest_asked_for(tmp_path: Path) -> None:
    store = FakeStore()
    listing = models(store, tmp_path).listing(laid(store), "main")
    large = tuple(entry for entry in listing.files if entry.path == "weights.safetensors")
    cut = Cut(store, 1 << 20)
    with pytest.raises(LmiError, match="the network is gone"):
        brought(models(cut, tmp_path), listing, large)  # type: ignore[arg-type]
    whole = Cut(store, 1 << 30)
    folder, _ = brought(models(whole, tmp_path), listing, large)  # type: ignore[arg-type]
    assert whole.asked == [1 << 20]
    assert contents(folder) == {"weights.safetensors": FILES["weights.safetensors"]}


def test_a_flipped_byte_gets_no_name(store: ObjectStore, tmp_path: Path) -> None:
    hub = models(store, tmp_path)
    listing = hub.listing(laid(store), "main")
    store.put("some/model/weights.safetensors", b"v" + FILES["weights.safetensors"][1:])
    with pytest.raises(IntegrityError, match=r"weights\.safetensors: sha256 .* came"):
        brought(models(store, tmp_path), listing)
    assert set(contents(hub.folder(listing))) == FILES.keys() - {"weights.safetensors"}


def test_an_object_that_is_replaced_meanwhile_is_told(store: ObjectStore, tmp_path: Path) -> None:
    hub = models(store, tmp_path)
    listing = hub.listing(laid(store), "main")
    store.put("some/model/config.json", b"[]")
    with pytest.raises(LmiError, match=r"config\.json"):
        hub.read(listing, "config.json")


@pytest.mark.parametrize("key", ["../../etc/passwd", "a//b", "a/./b", "a\\b", "a\nb"])
def test_a_hostile_key_is_no_file_of_a_model(key: str, tmp_path: Path) -> None:
    store = FakeStore()
    store.objects |= {"m/good": b"x", f"m/{key}": b"x"}
    with pytest.raises(IntegrityError, match="no file of a model"):
        models(store, tmp_path).listing("s3://fake/m/", "main")
    assert not list(tmp_path.rglob("*"))


def test_keys_that_one_folder_cannot_hold(tmp_path: Path) -> None:
    store = FakeStore(objects={"m/a": b"x", "m/a/b": b"y"})
    with pytest.raises(IntegrityError, match="cannot lie in one folder"):
        models(store, tmp_path).listing("s3://fake/m", "main")


def test_a_hostile_label_is_none_of_ours(tmp_path: Path) -> None:
    name = f"weights/../{'0' * 40}-{'0' * 8}/x"
    hub = models(FakeStore(objects={name: b"x"}), tmp_path)
    listing = hub.listing(f"s3://fake/{name[:-2]}", "main")
    assert hub.folder(listing).resolve().is_relative_to(tmp_path / "models")


def test_nothing_there_says_what_to_look_at(store: ObjectStore, tmp_path: Path) -> None:
    laid(store)
    with pytest.raises(NotFound, match="nothing under this prefix") as told:
        models(store, tmp_path).listing(f"s3://{store.bucket}/some/modle", "main")
    assert told.value.hint == f"aws s3 ls s3://{store.bucket}/some/ shows what there is"
    with pytest.raises(NotFound, match="is an object"):
        models(store, tmp_path).listing(f"s3://{store.bucket}/some/model/config.json", "main")


def test_a_bucket_that_is_not_ours_is_not_read(versity: S3Server, bucket: str) -> None:
    versity.make_bucket(bucket)
    store = versity.store(bucket, owner="999999999999")
    with pytest.raises(AccessError):
        models(store, Path("unused")).listing(f"s3://{bucket}/m", "main")


def test_a_bucket_says_where_it_is(moto: S3Server, bucket: str) -> None:
    west = replace(moto, region="us-west-2")
    place = {"LocationConstraint": "us-west-2"}
    west.api().create_bucket(Bucket=bucket, CreateBucketConfiguration=place)
    settings = S3Settings(endpoint_url=moto.url)
    asked = bucket_region(moto.session(), bucket, moto.owner, clock=SystemClock(), settings=settings)
    assert asked == "us-west-2"
    with pytest.raises(NotFound):
        bucket_region(moto.session(), f"{bucket}-no", moto.owner, clock=SystemClock(), settings=settings)


def test_a_prefix_in_the_same_bucket_is_copied_inside_s3(strict: ObjectStore, tmp_path: Path) -> None:
    hub = models(strict, tmp_path)
    listing = hub.listing(laid(strict), "main")
    asked: list[str] = []
    spied = Asked(hub, asked)
    manifest, _ = pushed(listing, way(spied, strict))
    assert asked == [], "no byte passed here"
    prefix = weights_prefix(manifest.name)
    assert {path: b"".join(strict.read(prefix + path)) for path in FILES} == FILES
    assert all(file.checksum for file in manifest.files)


def test_what_changed_since_it_was_listed_is_not_copied(strict: ObjectStore, tmp_path: Path) -> None:
    hub = models(strict, tmp_path)
    listing = hub.listing(laid(strict), "main")
    strict.put("some/model/config.json", b"[]")
    with pytest.raises(LmiError, match=r"config\.json"):
        pushed(listing, way(hub, strict))
    assert not [one.key for one in strict.list("weights/") if one.key.endswith("config.json")]
    assert not list(strict.list("manifests/"))


class Asked:
    """The same models, and a note of every file whose bytes were asked for."""

    def __init__(self, hub: S3Models, asked: list[str]) -> None:
        self._hub, self._asked = hub, asked

    def lies(self, listing: ModelListing, path: str) -> Lying | None:
        return self._hub.lies(listing, path)

    def fill(self, listing: ModelListing, path: str, buffer: memoryview, *, start: int) -> Iterator[Arrived]:
        self._asked.append(path)
        return self._hub.fill(listing, path, buffer, start=start)


class Slow(FakeStore):
    """Every object takes a minute to read."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__()
        self.clock = clock

    def read(self, key: str, *, start: int = 0, length: int | None = None, etag: str = "") -> Iterator[bytes]:
        self.clock.sleep(60)
        return super().read(key, start=start, length=length, etag=etag)


def test_hashing_that_takes_long_is_told_while_it_goes_on(tmp_path: Path) -> None:
    clock, said = FakeClock(), list[str]()
    store = Slow(clock)
    address = laid(store)
    hub = S3Models(lambda bucket: store, read_manifest, cache=tmp_path, clock=clock, tell=said.append)
    hub.listing(address, "main")
    assert said
    assert all(line.startswith(f"hashing {address}: ") for line in said)
    told = len(said)
    hub.listing(address, "main")
    assert len(said) == told  # known by now
