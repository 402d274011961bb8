"""A corrupt file in the cache: reported, quarantined and downloaded again; offline it stays in place."""

import os
from pathlib import Path

import pytest
from huggingface_hub import scan_cache_dir, snapshot_download

from lmi_deploy.domain.content_hashes import oid_of
from lmi_deploy.domain.gathered_facts import FileEntry, ModelListing, OidKind
from lmi_deploy.errors import IntegrityError
from tests.support.hub import LocalHub
from tests.support.hub_client import FILES, WEIGHTS, HubClient, contents

CORRUPT = b"x" + WEIGHTS[1:]
CONFIG = FILES["config.json"]


def blob(client: HubClient, content: bytes = WEIGHTS, kind: OidKind = "sha256") -> Path:
    return client.home / "hub/models--org--m/blobs" / oid_of(content, kind)


def corrupt_file(path: Path, content: bytes = CORRUPT) -> None:
    """As a failing disk does it: the modification time does not change."""
    before = path.stat()
    path.write_bytes(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def rechecked(client: HubClient, listing: ModelListing, files: tuple[FileEntry, ...] = ()) -> bool:
    checking = client.adapter.recheck(listing, files or listing.files, key="weights")
    try:
        while True:
            client.collect(next(checking))
    except StopIteration as end:
        return bool(end.value)


def offline(hub: LocalHub, client: HubClient) -> HubClient:
    return HubClient(hub, client.home, {"HF_HUB_OFFLINE": "1"})


def test_corrupt_file_is_quarantined_and_reported(client: HubClient) -> None:
    listing = client.listed()
    client.fetch(listing)
    blob(client).write_bytes(CORRUPT)
    folder, _ = client.fetch(listing)
    quarantined = blob(client).with_suffix(".damaged")
    assert contents(folder) == FILES
    assert quarantined.read_bytes() == CORRUPT
    assert client.notices == [
        f"model.safetensors: the file in the cache differs from the Hub's (sha256 {oid_of(WEIGHTS, 'sha256')}): "
        f"renamed to {quarantined}, and downloaded again"
    ]


def test_huggingface_hub_ignores_quarantined_files(client: HubClient, hub: LocalHub) -> None:
    listing = client.listed()
    client.fetch(listing)
    blob(client).write_bytes(CORRUPT)
    folder, _ = client.fetch(listing)
    cache = client.home / "hub"
    assert scan_cache_dir(cache).warnings == []
    assert snapshot_download("org/m", cache_dir=cache, endpoint=hub.url) == str(folder)
    assert contents(folder) == FILES


def test_edited_file_is_quarantined_and_not_lost(client: HubClient) -> None:
    listing = client.listed()
    folder, _ = client.fetch(listing)
    (folder / "config.json").write_bytes(b'{"mine": 1}')
    client.fetch(listing)
    assert (folder / "config.json").read_bytes() == CONFIG
    quarantined = blob(client, CONFIG, "git-sha1").with_suffix(".damaged")
    assert quarantined.read_bytes() == b'{"mine": 1}'
    assert str(quarantined) in client.notices[0]


def test_without_symlinks_the_file_in_the_snapshot_is_quarantined(hub: LocalHub, tmp_path: Path) -> None:
    client = HubClient(hub, tmp_path, {"HF_HUB_DISABLE_SYMLINKS": "1"})
    listing = client.listed()
    folder, _ = client.fetch(listing)
    (folder / "model.safetensors").write_bytes(CORRUPT)
    client.fetch(listing)
    assert contents(folder) == FILES
    assert blob(client).with_suffix(".damaged").read_bytes() == CORRUPT


def test_foreign_symlink_is_removed_and_its_target_kept(client: HubClient, tmp_path: Path) -> None:
    listing = client.listed()
    folder, _ = client.fetch(listing)
    expected = tmp_path / "of-somebody-else"
    expected.write_bytes(CORRUPT)
    blob(client).unlink()
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors").symlink_to(expected)
    client.fetch(listing)
    assert contents(folder) == FILES
    assert expected.read_bytes() == CORRUPT


def test_blob_behind_a_corrupt_snapshot_file_is_checked(client: HubClient) -> None:
    listing = client.listed()
    folder, _ = client.fetch(listing)
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors").write_bytes(CORRUPT)
    corrupt_file(blob(client))
    client.fetch(listing)
    assert contents(folder) == FILES


def test_recheck_ignores_the_ledger(client: HubClient, tmp_path: Path) -> None:
    listing = client.listed()
    client.adapter = client.another(tmp_path / "checked")
    client.fetch(listing)
    corrupt_file(blob(client))
    folder, _ = client.fetch(listing)
    assert contents(folder)["model.safetensors"] == CORRUPT, "nothing tells that it changed"
    assert rechecked(client, listing) is True
    assert "renamed to" in client.notices[0]
    client.fetch(listing)
    assert contents(folder) == FILES
    assert rechecked(client, listing) is False


def test_offline_corrupt_file_stays_and_the_remedy_is_reported(client: HubClient, hub: LocalHub) -> None:
    listing = client.listed()
    client.fetch(listing)
    blob(client).write_bytes(CORRUPT)
    local = offline(hub, client)
    with pytest.raises(IntegrityError, match=r"org/m: model\.safetensors: .*sha256 ") as caught:
        local.fetch(local.listed())
    assert caught.value.exit_code == 6
    place = client.home / "hub/models--org--m/snapshots" / listing.commit / "model.safetensors"
    assert str(place) in caught.value.message
    assert "unset HF_HUB_OFFLINE" in caught.value.hint
    assert blob(client).read_bytes() == CORRUPT
    with pytest.raises(IntegrityError, match="HF_HUB_OFFLINE is set"):
        rechecked(local, listing)


def test_corrupt_file_in_an_unwritable_cache_is_an_integrity_error(client: HubClient) -> None:
    listing = client.listed()
    client.fetch(listing)
    blob(client).write_bytes(CORRUPT)
    locks = client.home / "hub/.locks"
    for path in sorted(locks.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    locks.rmdir()
    locks.write_text("as good as read-only, for root too")
    with pytest.raises(IntegrityError, match=r"model\.safetensors: .*cannot be renamed") as caught:
        client.fetch(listing)
    assert "HF_HUB_CACHE" in caught.value.hint
    assert blob(client).read_bytes() == CORRUPT


def test_small_file_with_a_corrupt_cache_copy_is_read_from_the_hub(client: HubClient, hub: LocalHub) -> None:
    listing = client.listed()
    client.fetch(listing)
    corrupt_file(blob(client, CONFIG, "git-sha1"), b"?" * len(CONFIG))
    assert client.adapter.read(listing, "config.json") == CONFIG
    local = offline(hub, client)
    with pytest.raises(IntegrityError, match=r"config\.json.*HF_HUB_OFFLINE is set"):
        local.adapter.read(local.listed(), "config.json")


def test_refresh_reads_a_range_from_the_hub(client: HubClient, hub: LocalHub) -> None:
    listing = client.listed()
    client.fetch(listing)
    corrupt_file(blob(client))
    assert client.adapter.read(listing, "model.safetensors", length=9) == CORRUPT[:9]
    assert client.adapter.read(listing, "model.safetensors", length=9, refresh=True) == WEIGHTS[:9]
    local = offline(hub, client)
    assert local.adapter.read(local.listed(), "config.json", length=3, refresh=True) == CONFIG[:3], (
        "it is right"
    )
    with pytest.raises(IntegrityError, match="HF_HUB_OFFLINE is set"):
        local.adapter.read(local.listed(), "model.safetensors", length=9, refresh=True)
