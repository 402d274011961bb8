"""`weights.engine: s5cmd`: the real program against moto and versitygw; wrong bytes, wrong keys, killed."""

from __future__ import annotations

import hashlib
import os
import random
import signal
import stat
import subprocess
import sys
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import boto3
import pytest

from lmi_deploy.aws.s3.uploaders.external_program import UploadTarget
from lmi_deploy.aws.s3.uploaders.s5cmd import S5cmd, find_program
from lmi_deploy.domain.events import Event
from lmi_deploy.domain.gathered_facts import ModelListing
from lmi_deploy.domain.weights import Manifest, weights_prefix
from lmi_deploy.errors import AccessError, IntegrityError, LmiError, TransferFailed
from lmi_deploy.host.clock import SystemClock
from lmi_deploy.host.processes import identity
from lmi_deploy.ports.external_uploader import UploadItem
from lmi_deploy.ports.object_store import ObjectStore
from lmi_deploy.sources.local_folder import LocalModel
from lmi_deploy.weights.bucket_weights import BucketWeights
from lmi_deploy.weights.transfer_settings import TransferSettings
from tests.support.generators import finished, result_of
from tests.support.s3_servers import S3Server

pytestmark = pytest.mark.landing

FILES = {
    "config.json": b'{"a": 1}',
    "empty": b"",
    "exactly-a-part.bin": random.Random(1).randbytes(8 << 20),
    "model.safetensors": random.Random(2).randbytes((20 << 20) + 7),
    "sub/it's [a] * name?.txt": b"words",
}
SECRET_ENVIRONMENT = {"PATH": "/usr/bin:/bin", "AWS_PROFILE": "not-to-be-passed-on"}


@dataclass
class Place:
    """A bucket on a server, and a folder to send there."""

    server: S3Server
    bucket: str
    folder: Path

    def weights(self, *, program: Path | None = None, server: S3Server | None = None) -> BucketWeights:
        by = server or self.server
        target = UploadTarget(region=by.region, endpoint=by.url, retries=1)
        return BucketWeights(
            store=self.server.store(self.bucket),
            owner=self.server.owner,
            clock=SystemClock(),
            settings=TransferSettings(),
            where=self.bucket,
            uploaders={"s5cmd": S5cmd(by.session(), target, SECRET_ENVIRONMENT, program=program)},
        )

    @property
    def store(self) -> ObjectStore:
        return self.server.store(self.bucket)

    def listing(self) -> ModelListing:
        return LocalModel().listing(str(self.folder), "main")


@pytest.fixture(params=["moto", "versity"])
def place(request: pytest.FixtureRequest, bucket: str, tmp_path: Path) -> Place:
    server: S3Server = request.getfixturevalue(request.param)
    return _place(server, bucket, tmp_path)


@pytest.fixture
def strict(versity: S3Server, bucket: str, tmp_path: Path) -> Place:
    """A server that checks signatures and owners."""
    return _place(versity, bucket, tmp_path)


def _place(server: S3Server, bucket: str, tmp_path: Path) -> Place:
    server.make_bucket(bucket)
    folder = tmp_path / "model"
    for path, content in FILES.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    return Place(server, bucket, folder)


def upload(place: Place, weights: BucketWeights | None = None) -> tuple[Manifest, list[Event]]:
    listing = place.listing()
    by = weights or place.weights()
    return finished(by.upload_files(listing, listing.files, place.folder, engine="s5cmd", key="push"))


def flaws(place: Place, manifest: Manifest, *, deep: bool) -> tuple[object, ...]:
    return result_of(place.weights().verify(manifest, deep=deep, key="verify"))


def stored_keys(place: Place) -> set[str]:
    return {one.key for one in place.store.list("")}


def wrapped(tmp_path: Path, script: str) -> Path:
    """A program in the place of s5cmd; `$S5CMD` is the real one."""
    program = tmp_path / "instead"
    program.write_text(f"#!/bin/sh\nS5CMD={find_program()}\n{script}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program


def test_all_bytes_are_uploaded_and_listed_in_the_manifest(place: Place) -> None:
    manifest, events = upload(place)
    prefix = weights_prefix(manifest.name)
    assert {path: b"".join(place.store.read(prefix + path)) for path in FILES} == FILES
    assert {file.path: file.sha256 for file in manifest.files} == {
        path: hashlib.sha256(content).hexdigest() for path, content in FILES.items()
    }
    assert "uploader: s5cmd" in getattr(events[0], "text", "")
    assert getattr(events[-1], "done", None) == manifest.size
    assert flaws(place, manifest, deep=False) == ()
    assert flaws(place, manifest, deep=True) == ()


def test_second_push_uploads_nothing(place: Place, tmp_path: Path) -> None:
    manifest, _ = upload(place)
    again, events = upload(place, place.weights(program=wrapped(tmp_path, "exit 9")))
    assert again == manifest
    assert getattr(events[-1], "note", "") == "all already in the bucket"


def test_complete_files_are_not_uploaded_again(place: Place, tmp_path: Path) -> None:
    manifest, _ = upload(place)
    prefix = weights_prefix(manifest.name)
    place.store.delete([f"manifests/{manifest.name}.json", f"{prefix}config.json"])
    counting = wrapped(tmp_path, f'tee -a {tmp_path}/commands | "$S5CMD" "$@"')
    upload(place, place.weights(program=counting))
    commands = (tmp_path / "commands").read_text().splitlines()
    assert [line.split()[-1] for line in commands] == [f"s3://{place.bucket}/{prefix}config.json"]


def test_file_changed_after_listing_is_not_uploaded(place: Place) -> None:
    listing = place.listing()
    (place.folder / "config.json").write_bytes(b'{"a": 2}')
    with pytest.raises(IntegrityError, match=r"config\.json"):
        list(place.weights().upload_files(listing, listing.files, place.folder, engine="s5cmd", key="push"))
    assert stored_keys(place) == set()


def test_byte_corrupted_in_transit_creates_no_object(place: Place, tmp_path: Path) -> None:
    """The engine sends another file of the same size under the key."""
    other = tmp_path / "other"
    other.write_bytes(b'{"a": 3}')
    lying = wrapped(tmp_path, f'sed \'s#[^ ]*config.json s3#{other} s3#\' | "$S5CMD" "$@"')
    with pytest.raises(IntegrityError, match=r"config\.json: 8 bytes with sha256 .* arrived"):
        upload(place, place.weights(program=lying))
    assert not [
        key for key in stored_keys(place) if key.endswith("config.json") or key.startswith("manifests/")
    ]
    manifest, _ = upload(place)
    assert flaws(place, manifest, deep=True) == ()


def test_wrong_credentials_are_reported_without_the_secret(strict: Place) -> None:
    wrong = replace(strict.server, secret="another-secret-than-the-right-one")
    with pytest.raises(AccessError, match="secret key does not belong") as error:
        upload(strict, strict.weights(server=wrong))
    assert "another-secret" not in f"{error.value} {error.value.hint} {error.value.details}"
    assert stored_keys(strict) == set()


def test_bucket_owner_is_checked_before_s5cmd_starts(strict: Place, tmp_path: Path) -> None:
    weights = replace(
        strict.weights(program=wrapped(tmp_path, f"touch {tmp_path}/started; cat")),
        store=strict.server.store(strict.bucket, owner="999999999999"),
    )
    with pytest.raises(AccessError):
        upload(strict, weights)
    assert not (tmp_path / "started").exists()


def test_credentials_are_passed_only_by_environment(place: Place, tmp_path: Path) -> None:
    observed = wrapped(tmp_path, f'env > {tmp_path}/env; echo "$@" > {tmp_path}/argv; "$S5CMD" "$@"')
    upload(place, place.weights(program=observed))
    environment = (tmp_path / "env").read_text()
    assert f"AWS_SECRET_ACCESS_KEY={place.server.secret}\n" in environment
    assert "AWS_PROFILE" not in environment
    assert place.server.secret not in (tmp_path / "argv").read_text()


def test_killed_s5cmd_leaves_no_partial_object_and_the_next_push_completes(
    strict: Place, tmp_path: Path
) -> None:
    store = strict.store
    dying = wrapped(tmp_path, f'head -1 > {tmp_path}/first; "$S5CMD" "$@" < {tmp_path}/first; kill -9 $$')
    with pytest.raises(TransferFailed, match="was ended by signal 9"):
        upload(strict, strict.weights(program=dying))
    kept = stored_keys(strict)
    assert {key.rpartition("/")[2] for key in kept} == {"model.safetensors"}
    assert store.uploads("") == ()
    manifest, _ = upload(strict)
    assert flaws(strict, manifest, deep=True) == ()


def test_closed_upload_ends_s5cmd(strict: Place, tmp_path: Path) -> None:
    hanging = wrapped(tmp_path, f"echo $$ > {tmp_path}/pid; exec sleep 600")
    by = S5cmd(strict.server.session(), UploadTarget(region="us-east-1"), os.environ, program=hanging)
    load = UploadItem(path=strict.folder / "config.json", key="k", size=8, part=8 << 20)
    with closing(by.upload_files([load], bucket=strict.bucket)) as carrying:
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
            next(carrying)
        pid = int((tmp_path / "pid").read_text())
        os.kill(pid, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)


def test_missing_credentials_are_reported_before_s5cmd_starts(tmp_path: Path) -> None:
    by = S5cmd(boto3.Session, UploadTarget(region="us-east-1"), {}, program=wrapped(tmp_path, "exit 0"))
    with pytest.raises(AccessError, match="none found"):
        list(by.upload_files([], bucket="b"))


def test_missing_s5cmd_is_an_error(place: Place, tmp_path: Path) -> None:
    with pytest.raises(LmiError, match="No such file"):
        upload(place, place.weights(program=tmp_path / "absent"))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a child when its parent is killed")
def test_s5cmd_ends_when_lmi_is_killed(tmp_path: Path) -> None:
    hanging = wrapped(tmp_path, f"echo $$ > {tmp_path}/pid; exec sleep 600")
    program = (
        "import boto3\nfrom pathlib import Path\n"
        "from lmi_deploy.aws.s3.uploaders.external_program import UploadTarget\n"
        "from lmi_deploy.aws.s3.uploaders.s5cmd import S5cmd\n"
        "session = lambda: boto3.Session(aws_access_key_id='a', aws_secret_access_key='b')\n"
        f"by = S5cmd(session, UploadTarget(region='us-east-1'), {{}}, program=Path({str(hanging)!r}))\n"
        "list(by.upload_files([], bucket='b'))\n"
    )
    clock = SystemClock()
    with subprocess.Popen([sys.executable, "-c", program]) as parent:
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
            assert parent.poll() is None
            clock.sleep(0.02)
        parent.kill()
    engine = int((tmp_path / "pid").read_text())
    deadline = clock.monotonic() + 10
    while identity(engine) is not None:
        assert clock.monotonic() < deadline
        clock.sleep(0.02)
