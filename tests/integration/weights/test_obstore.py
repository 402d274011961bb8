"""`weights.engine: obstore`: the real package in its own process against versitygw; wrong bytes, wrong keys,
killed."""

from __future__ import annotations

import hashlib
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path

import pytest

from lmi_deploy.aws.s3.uploaders.external_program import UploadTarget
from lmi_deploy.aws.s3.uploaders.obstore import Obstore
from lmi_deploy.domain.events import Event
from lmi_deploy.domain.gathered_facts import ModelListing
from lmi_deploy.domain.weights import Manifest, weights_prefix
from lmi_deploy.emulator.faults.rules import Answer, Drop, FaultRule
from lmi_deploy.errors import AccessError, IntegrityError, NotInstalled, TransferFailed
from lmi_deploy.host.clock import SystemClock
from lmi_deploy.sources.local_folder import LocalModel
from lmi_deploy.weights.bucket_weights import BucketWeights
from lmi_deploy.weights.transfer_settings import TransferSettings
from lmi_deploy.weights.weights_maintenance import give_up, orphans
from tests.support.generators import finished, result_of
from tests.support.proxy import Proxy, proxied
from tests.support.s3_servers import S3Server

pytestmark = pytest.mark.skipif(find_spec("obstore") is None, reason="obstore is not installed")
FILES = {
    "config.json": b'{"a": 1}',
    "empty": b"",
    "exactly-a-part.bin": random.Random(1).randbytes(8 << 20),
    "model.safetensors": random.Random(2).randbytes((20 << 20) + 7),
    "sub/it's [a] * name?.txt": b"words",
}


@dataclass
class Place:
    """A bucket on a server, the way to it, and a folder to send."""

    server: S3Server
    bucket: str
    folder: Path
    by: S3Server
    kms_key: str = ""

    def weights(self) -> BucketWeights:
        server, by = self.server, self.by
        target = UploadTarget(
            region=by.region, endpoint=by.url, owner=server.owner, kms_key=self.kms_key, retries=1
        )
        return BucketWeights(
            store=server.store(self.bucket),
            owner=server.owner,
            clock=SystemClock(),
            settings=TransferSettings(),
            where=self.bucket,
            uploaders={"obstore": Obstore(by.session(), target, {"PATH": "/usr/bin:/bin"})},
        )

    def listing(self) -> ModelListing:
        return LocalModel().listing(str(self.folder), "main")

    def stored_keys(self) -> set[str]:
        return {one.key for one in self.server.store(self.bucket).list("")}


@pytest.fixture
def proxy(versity: S3Server) -> Iterator[Proxy]:
    with proxied(versity.url) as proxy:
        yield proxy


@pytest.fixture
def place(versity: S3Server, proxy: Proxy, bucket: str, tmp_path: Path) -> Place:
    versity.make_bucket(bucket)
    folder = tmp_path / "model"
    for path, content in FILES.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    return Place(versity, bucket, folder, versity.behind_proxy(proxy.url))


def upload(place: Place, listing: ModelListing | None = None) -> tuple[Manifest, list[Event]]:
    found = listing or place.listing()
    return finished(
        place.weights().upload_files(found, found.files, place.folder, engine="obstore", key="push")
    )


def flaws(place: Place, manifest: Manifest, *, deep: bool) -> tuple[object, ...]:
    return result_of(place.weights().verify(manifest, deep=deep, key="verify"))


def test_all_bytes_are_uploaded_and_listed_in_the_manifest(place: Place, proxy: Proxy) -> None:
    manifest, events = upload(place)
    prefix, store = weights_prefix(manifest.name), place.server.store(place.bucket)
    assert {path: b"".join(store.read(prefix + path)) for path in FILES} == FILES
    assert {file.path: file.sha256 for file in manifest.files} == {
        path: hashlib.sha256(content).hexdigest() for path, content in FILES.items()
    }
    assert "uploader: obstore 0." in getattr(events[0], "text", "")
    assert flaws(place, manifest, deep=False) == flaws(place, manifest, deep=True) == ()
    sent = [passed for passed in proxy.log if passed.method == "PUT"]
    assert len(sent) == 7
    assert all("x-amz-checksum-sha256" in passed.headers for passed in sent)


def test_every_request_states_the_expected_owner(place: Place, proxy: Proxy) -> None:
    upload(place)
    assert {passed.headers.get("x-amz-expected-bucket-owner") for passed in proxy.log} == {place.server.owner}
    signed = [passed.headers["Authorization"].partition("SignedHeaders=")[2] for passed in proxy.log]
    assert all("x-amz-expected-bucket-owner" in text for text in signed)


def test_complete_files_are_not_uploaded_again(place: Place, proxy: Proxy) -> None:
    manifest, _ = upload(place)
    prefix = weights_prefix(manifest.name)
    place.server.store(place.bucket).delete([f"manifests/{manifest.name}.json", f"{prefix}config.json"])
    proxy.clear()
    again, _ = upload(place)
    assert [passed.path.rpartition("/")[2] for passed in proxy.log] == ["config.json"]
    assert [file.sha256 for file in again.files] == [file.sha256 for file in manifest.files]


@pytest.mark.parametrize("path", ["config.json", "model.safetensors"])
def test_file_changed_after_listing_creates_no_object(place: Place, path: str) -> None:
    listing = place.listing()
    (place.folder / path).write_bytes(FILES[path][:-1] + b"?")
    with pytest.raises(IntegrityError, match=f"{path}: .* but its source has"):
        upload(place, listing)
    assert not [key for key in place.stored_keys() if key.endswith(path) or key.startswith("manifests/")]
    store = place.server.store(place.bucket)
    # Requests in flight may arrive after the engine was ended: `lmi gc` removes such an upload.
    give_up(store, orphans(store, before=datetime.now(UTC) + timedelta(days=1)))
    assert store.uploads("") == ()


def test_byte_corrupted_in_transit_creates_no_object(place: Place, proxy: Proxy) -> None:
    proxy.tamper = lambda call, body: b"?" + body[1:] if "config.json" in call.path else body
    with pytest.raises(TransferFailed, match="1 of 5 files failed"):
        upload(place)
    proxy.tamper = None
    assert not [
        key for key in place.stored_keys() if key.endswith("config.json") or key.startswith("manifests/")
    ]
    manifest, _ = upload(place)
    assert flaws(place, manifest, deep=True) == ()


def test_transient_fault_is_retried(place: Place, proxy: Proxy) -> None:
    proxy.fail(FaultRule(do=Answer(503), method="PUT"), FaultRule(do=Drop(), method="PUT", nth=3))
    manifest, _ = upload(place)
    assert flaws(place, manifest, deep=True) == ()


def test_wrong_credentials_are_reported_without_the_secret(place: Place) -> None:
    wrong = replace(place, by=replace(place.by, secret="another-secret-than-the-right-one"))
    with pytest.raises(AccessError, match="secret key does not belong") as error:
        upload(wrong)
    assert "another-secret" not in f"{error.value} {error.value.hint} {error.value.details}"
    assert place.stored_keys() == set()


def test_kms_key_is_sent(place: Place, proxy: Proxy) -> None:
    upload(replace(place, kms_key="key-1"))
    started = [passed.headers for passed in proxy.log if "partNumber" not in passed.path]
    requests = [headers.get("x-amz-server-side-encryption-aws-kms-key-id") for headers in started]
    assert requests.count("key-1") >= len(FILES)


def test_missing_obstore_package_says_how_to_install_it(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    weights = place.weights()
    assert weights.engines == frozenset()
    with pytest.raises(NotInstalled, match="not installed") as error:
        upload(place)
    assert "[obstore]'" in error.value.hint.partition("-m pip install ")[2]
