"""A push of files in the Hub's cache, one of them corrupt: it succeeds and reports the corrupt file."""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import pytest

from lmi_deploy.aws.s3.uploaders.external_program import UploadTarget
from lmi_deploy.aws.s3.uploaders.obstore import Obstore
from lmi_deploy.aws.s3.uploaders.s5cmd import S5cmd
from lmi_deploy.domain.events import Notice
from lmi_deploy.domain.weights import Travel
from lmi_deploy.emulator.faults.rules import FaultRule, Flip
from lmi_deploy.errors import IntegrityError
from lmi_deploy.host.clock import SystemClock
from lmi_deploy.sources.local_folder import LocalModelFiles
from lmi_deploy.weights.bucket_weights import BucketWeights
from lmi_deploy.weights.transfer_settings import TransferSettings
from tests.integration.weights.conftest import FILES, NOISE
from tests.integration.weights.test_push import stored_objects
from tests.support.fake_store import FakeStore
from tests.support.generators import finished
from tests.support.hub import LocalHub
from tests.support.hub_client import HubClient, contents
from tests.support.s3_servers import S3Server

Engine = Literal["own", "s5cmd", "obstore"]
ENGINES: dict[Engine, str] = {"own": "", "s5cmd": "", "obstore": "obstore"}
CORRUPT = {"model.safetensors": b"x" + NOISE[1:], "config.json": b"?" * len(FILES["config.json"])}


@dataclass
class Cached:
    """A downloaded model with a corrupt file whose modification time did not change."""

    client: HubClient
    folder: Path
    ledger: Path

    def corrupt_file(self, path: str) -> None:
        place = (self.folder / path).resolve()
        before = place.stat()
        place.write_bytes(CORRUPT[path])
        os.utime(place, ns=(before.st_atime_ns, before.st_mtime_ns))

    def pushed(self, weights: BucketWeights, transfer_options: Travel) -> tuple[str, list[str]]:
        """The weights' name, and the printed lines."""
        listing = self.client.listed()
        downloader = weights.upload(
            listing,
            listing.files,
            self.client.adapter,
            transfer_options=transfer_options,
            local=LocalModelFiles,
            key="push",
        )
        manifest, events = finished(downloader)
        return manifest.name, [event.text for event in events if isinstance(event, Notice)]


@pytest.fixture
def cached(client: HubClient, tmp_path: Path) -> Cached:
    ledger = tmp_path / "checked"
    client.adapter = client.another(ledger)
    return Cached(client, client.fetch(client.listed())[0], ledger)


@pytest.fixture
def weights(versity: S3Server, bucket: str) -> BucketWeights:
    versity.make_bucket(bucket)
    target = UploadTarget(region=versity.region, endpoint=versity.url, owner=versity.owner, retries=1)
    session, environ = versity.session(), {"PATH": "/usr/bin:/bin"}
    return BucketWeights(
        store=versity.store(bucket),
        owner=versity.owner,
        clock=SystemClock(),
        settings=TransferSettings(),
        where=bucket,
        uploaders={"s5cmd": S5cmd(session, target, environ), "obstore": Obstore(session, target, environ)},
    )


@pytest.mark.parametrize("path", CORRUPT)
@pytest.mark.parametrize("engine", ENGINES)
def test_corrupt_snapshot_is_repaired_and_pushed(
    path: str, engine: Engine, cached: Cached, weights: BucketWeights
) -> None:
    if ENGINES[engine] and find_spec(ENGINES[engine]) is None:
        pytest.skip(f"{engine} is not installed")
    cached.corrupt_file(path)
    name, lines = cached.pushed(weights, Travel(via="snapshot", engine=engine))
    assert stored_objects(weights.store, name) == FILES
    assert contents(cached.folder) == FILES
    assert [text for text in lines if path in text and "renamed to" in text]
    assert weights.store.uploads("") == ()


def test_snapshot_of_pushed_weights_downloads_nothing(client: HubClient, hub: LocalHub) -> None:
    memory = in_memory()
    name, _ = Cached(client, client.home, client.home / "none").pushed(memory, Travel())
    hub.log.clear()
    again, _ = Cached(client, client.home, client.home / "none").pushed(memory, Travel(via="snapshot"))
    assert again == name
    assert [
        entry.path for entry in hub.log.all() if "safetensors" in entry.path or "/cdn/" in entry.path
    ] == []


@pytest.mark.parametrize("path", CORRUPT)
def test_stream_from_a_corrupt_cache_continues_from_the_hub(path: str, cached: Cached) -> None:
    cached.corrupt_file(path)
    memory = in_memory()
    name, lines = cached.pushed(memory, Travel())
    assert stored_objects(memory.store, name) == FILES
    assert [text for text in lines if path in text and "renamed to" in text]


@pytest.mark.parametrize("via", ["stream", "snapshot"])
def test_offline_corrupt_file_is_reported_with_path_and_remedy(
    via: str, cached: Cached, hub: LocalHub
) -> None:
    cached.corrupt_file("model.safetensors")
    cached.client = HubClient(hub, cached.client.home, {"HF_HUB_OFFLINE": "1"})
    cached.client.adapter = cached.client.another(cached.ledger)
    memory = in_memory()
    with pytest.raises(IntegrityError, match=r"model\.safetensors.*HF_HUB_OFFLINE is set") as caught:
        cached.pushed(memory, Travel(via=via))
    assert str(cached.folder / "model.safetensors") in caught.value.message
    assert "unset HF_HUB_OFFLINE" in caught.value.hint
    assert (cached.folder / "model.safetensors").read_bytes() == CORRUPT["model.safetensors"]
    assert not list(memory.store.list("manifests/"))


def test_file_that_is_wrong_on_the_hub_is_not_retried_forever(client: HubClient, hub: LocalHub) -> None:
    hub.fail(FaultRule(do=Flip(40), path="^/cdn/", times=None))
    memory = in_memory()
    with pytest.raises(IntegrityError, match=r"model\.safetensors: sha256"):
        Cached(client, client.home, client.home / "none").pushed(memory, Travel())
    assert not list(memory.store.list("manifests/"))


def in_memory() -> BucketWeights:
    return BucketWeights(
        store=FakeStore(), owner="1", clock=SystemClock(), settings=TransferSettings(), where="memory"
    )
