"""Weights of an external uploader, verified in S3: with KMS, with missing files, copied on."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import pytest

from lmi_deploy.domain.events import Event
from lmi_deploy.domain.weights import Manifest, weights_prefix
from lmi_deploy.errors import LmiError, Refused, TransferFailed, UsageRefused
from lmi_deploy.ports.external_uploader import UploadedFile, UploadItem
from lmi_deploy.ports.object_store import StoredObject
from lmi_deploy.sources.local_folder import LocalModel
from lmi_deploy.weights.bucket_weights import BucketWeights
from lmi_deploy.weights.push import push
from lmi_deploy.weights.transfer_settings import TransferSettings
from tests.support.fake_store import FakeStore
from tests.support.fakes import FakeClock
from tests.support.generators import finished
from tests.support.push import push_context

T = TypeVar("T")
FILES = {"a.bin": b"a" * 1000, "config.json": b"{}"}


@dataclass
class ScriptedUploader:
    """An engine in this process; `takes` selects the files it uploads."""

    store: FakeStore
    accepts: Callable[[UploadItem], bool] = lambda load: True
    name: str = "porter 1"
    present: bool = True
    hashes: bool = False

    def upload_files(
        self, loads: Sequence[UploadItem], *, bucket: str
    ) -> Generator[UploadedFile | None, None, None]:
        assert bucket == self.store.bucket
        for load in loads:
            yield None
            if self.accepts(load):
                self.store.put(load.key, load.path.read_bytes())
                yield UploadedFile(key=load.key)


class Encrypting(FakeStore):
    """Its ETags are no hashes, as with a KMS key, and it stores no checksums."""

    def _stored(self, key: str) -> StoredObject:
        return replace(super()._stored(key), etag=f'"{len(key):032x}"', checksum="", algorithm="")


def weights(store: FakeStore, takes: Callable[[UploadItem], bool] = lambda load: True) -> BucketWeights:
    return BucketWeights(
        store=store,
        owner="111122223333",
        clock=FakeClock(),
        settings=TransferSettings(),
        where=store.bucket,
        uploaders={"porter": ScriptedUploader(store, takes)},
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for path, content in FILES.items():
        (tmp_path / path).write_bytes(content)
    return tmp_path


def upload(manifests: BucketWeights, folder: Path) -> tuple[Manifest, list[Event]]:
    listing = LocalModel().listing(str(folder), "main")
    return finished(manifests.upload_files(listing, listing.files, folder, engine="porter", key="push"))


def test_object_encrypted_with_kms_is_read_back_and_verifiable(folder: Path) -> None:
    store = Encrypting()
    manifest, events = upload(weights(store), folder)
    assert [note for event in events if "back" in (note := getattr(event, "note", ""))] == [
        "reading a.bin back",
        "reading config.json back",
    ]
    reads = store.calls.count("read")
    assert finished(weights(store).verify(manifest, deep=False, key="v"))[0] == ()
    assert store.calls.count("read") == reads
    assert finished(weights(store).verify(manifest, deep=True, key="v"))[0] == ()


@pytest.mark.parametrize("engine", ["own", "porter"])
@pytest.mark.parametrize("content", [b"b" * 1000, b"a" * 10, None])
def test_file_that_changes_during_a_push_is_named(folder: Path, content: bytes | None, engine: str) -> None:
    """Of the same size, shorter, gone."""
    model, store = LocalModel(), FakeStore()
    listing = model.listing(str(folder), "main")
    (folder / "a.bin").unlink() if content is None else (folder / "a.bin").write_bytes(content)
    steps = (
        weights(store).upload_files(listing, listing.files, folder, engine=engine, key="push")
        if engine == "porter"
        else push(listing, listing.files, push_context=push_context(model, store), key="push")
    )
    with pytest.raises(LmiError, match=r"a\.bin") as caught:
        finished(steps)
    assert "another program writes to it: run the same command again" in caught.value.hint
    assert not [key for key in store.objects if key.endswith("a.bin") or key.startswith("manifests/")]


def test_file_the_engine_skipped_is_an_error(folder: Path) -> None:
    store = FakeStore()
    with pytest.raises(TransferFailed, match=r"config\.json: it was sent, but S3 does not have it"):
        upload(weights(store, takes=lambda load: load.size > 2), folder)
    assert not [key for key in store.objects if key.startswith("manifests/")]


def test_foreign_object_under_the_prefix_is_refused_first(folder: Path) -> None:
    store = FakeStore()
    manifest, _ = upload(weights(store), folder)
    store.objects.pop(f"manifests/{manifest.name}.json")
    store.put(f"{weights_prefix(manifest.name)}stranger", b"x")
    with pytest.raises(Refused, match="not part of this model"):
        upload(weights(store, takes=lambda load: pytest.fail("nothing is to be sent")), folder)


def test_externally_uploaded_weights_can_be_copied(folder: Path) -> None:
    store = FakeStore()
    manifest, _ = upload(weights(store), folder)
    assert all(file.etag for file in manifest.files)
    other = FakeStore(bucket="other", others={"fake": store})
    copied, _ = finished(weights(other).copy_from(weights(store), manifest.name, key="copy"))
    assert [file.checksum for file in copied.files] == [file.checksum for file in manifest.files]
    assert weights(other).flaws(copied.name) == ()
    assert finished(weights(other).verify(copied, deep=False, key="v"))[0] == ()


def test_missing_engine_is_an_error(folder: Path) -> None:
    with pytest.raises(UsageRefused, match="porter is not installed"):
        upload(replace(weights(FakeStore()), uploaders={}), folder)
