"""The user's own cache: huggingface_hub's layout; cached files are used, also offline."""

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from huggingface_hub import hf_hub_download, scan_cache_dir, snapshot_download

from lmi_deploy.domain.content_hashes import oid_of
from lmi_deploy.emulator.faults.rules import FaultRule, Stall
from lmi_deploy.errors import NotFound, TransferFailed
from lmi_deploy.sources.hub.cache import RepoCache
from tests.support.hub import LocalHub, serve_hub
from tests.support.hub_client import FILES, SIZE, WEIGHTS, HubClient, contents

WEIGHTS_OID = oid_of(WEIGHTS, "sha256")


def test_one_request_returns_commit_files_sizes_and_hashes(client: HubClient, hub: LocalHub) -> None:
    listing = client.listed()
    assert [(entry.path, entry.size) for entry in listing.files] == [
        (k, len(v)) for k, v in sorted(FILES.items())
    ]
    kinds = {entry.path: entry.kind for entry in listing.files}
    assert kinds == {path: "sha256" if path == "model.safetensors" else "git-sha1" for path in FILES}
    assert all(entry.oid == oid_of(FILES[entry.path], entry.kind) for entry in listing.files)
    assert client.listed(revision=listing.commit) == listing
    assert [entry.path for entry in hub.log.all()] == [
        "/api/models/org/m/revision/main",
        f"/api/models/org/m/revision/{listing.commit}",
    ]


def test_huggingface_hub_finds_files_downloaded_by_lmi(client: HubClient, hub: LocalHub) -> None:
    folder, events = client.fetch(client.listed())
    assert events[-1].done == events[-1].total == sum(map(len, FILES.values()))
    assert {(event.key, event.unit) for event in events} == {("weights", "bytes")}
    hub.log.clear()
    cache = client.home / "hub"
    assert snapshot_download("org/m", cache_dir=cache, local_files_only=True) == str(folder)
    assert snapshot_download("org/m", cache_dir=cache, endpoint=hub.url) == str(folder)
    assert hub.log.bodies() == []
    scanned = scan_cache_dir(cache)
    assert scanned.warnings == []
    (repo,) = scanned.repos
    (revision,) = repo.revisions
    assert (repo.repo_id, revision.refs, revision.nb_files) == ("org/m", frozenset({"main"}), len(FILES))


def test_files_downloaded_by_huggingface_hub_are_used(client: HubClient, hub: LocalHub) -> None:
    hf_hub_download("org/m", "model.safetensors", endpoint=hub.url, cache_dir=client.home / "hub")
    listing = client.listed()
    assert client.adapter.missing(listing, listing.files) == sum(map(len, FILES.values())) - SIZE
    hub.log.clear()
    folder, _ = client.fetch(listing)
    assert contents(folder) == FILES
    assert client.adapter.missing(listing, listing.files) == 0
    assert not any("safetensors" in entry.path or "/cdn/" in entry.path for entry in hub.log.all())
    hub.log.clear()
    assert client.fetch(listing)[0] == folder
    assert client.adapter.read(listing, "model.safetensors", start=5, length=3) == WEIGHTS[5:8]
    assert hub.log.all() == []


def test_file_of_another_commit_is_linked_and_not_downloaded(tmp_path: Path) -> None:
    with serve_hub({"org/m": FILES}) as hub:
        client = HubClient(hub, tmp_path)
        client.fetch(client.listed())
        changed = {**FILES, "config.json": b"changed"}
        hub.publish("org/m", changed)
        listing = client.listed()
        assert client.adapter.missing(listing, listing.files) == len(b"changed")
        hub.log.clear()
        folder, _ = client.fetch(listing)
        assert contents(folder) == changed
        assert [entry.sent for entry in hub.log.bodies()] == [len(b"changed")]
        assert len(list((tmp_path / "hub/models--org--m/snapshots").iterdir())) == 2


def test_corrupt_cached_file_is_downloaded_again(client: HubClient, hub: LocalHub) -> None:
    listing = client.listed()
    client.fetch(listing)
    blob = client.home / "hub/models--org--m/blobs" / WEIGHTS_OID
    blob.write_bytes(b"x" + WEIGHTS[1:])
    folder, events = client.fetch(listing)
    assert contents(folder) == FILES
    assert events[0].note == "checking the files in the cache"


def test_ledger_skips_the_second_check_unless_the_file_changed(client: HubClient, tmp_path: Path) -> None:
    listing = client.listed()
    client.fetch(listing)
    ledger = tmp_path / "own" / "checked"
    for expected in (True, False):
        client.adapter = client.another(ledger)
        assert any("checking" in event.note for event in client.fetch(listing)[1]) is expected
    blob = client.home / "hub/models--org--m/blobs" / WEIGHTS_OID
    blob.write_bytes(b"x" + WEIGHTS[1:])
    os.utime(blob, ns=(1, 1))
    client.adapter = client.another(ledger)
    assert contents(client.fetch(listing)[0]) == FILES
    ledger.write_bytes(b"\xff\xfe rubbish")
    client.adapter = client.another(ledger)
    assert contents(client.fetch(listing)[0]) == FILES


def test_identical_files_are_downloaded_once(tmp_path: Path) -> None:
    files = {f"{name}.bin": WEIGHTS for name in "abcdefgh"}
    with serve_hub({"org/m": files}) as hub:
        client = HubClient(hub, tmp_path)
        folder, _ = client.fetch(client.listed())
        assert contents(folder) == files
        assert len([entry for entry in hub.log.all() if entry.path.startswith("/cdn/")]) == 1


def test_concurrent_commands_download_a_file_once(hub: LocalHub, tmp_path: Path) -> None:
    clients = [HubClient(hub, tmp_path) for _ in range(3)]
    hub.fail(FaultRule(do=Stall(1000, 0.2), path="^/cdn/", times=None))
    with ThreadPoolExecutor(3) as pool:
        folders = list(pool.map(lambda client: client.fetch(client.listed())[0], clients))
    assert len(set(folders)) == 1
    assert contents(folders[0]) == FILES
    assert sum(entry.sent for entry in hub.log.bodies() if entry.path.startswith("/cdn/")) == SIZE


def test_file_completed_by_another_program_is_hashed_before_use(hub: LocalHub, tmp_path: Path) -> None:
    """It took the lock first, as huggingface_hub does, and left other bytes of the same size."""
    client, ledger = HubClient(hub, tmp_path), tmp_path / "checked"
    client.adapter = client.another(ledger)
    listing = client.listed()
    entry, other = (
        next(entry for entry in listing.files if entry.path == path)
        for path in ("model.safetensors", "config.json")
    )
    cache = RepoCache(client.settings.cache, "org/m")
    cache.prepare()
    with ThreadPoolExecutor(1) as pool:
        with cache.locked(entry):
            fetching = pool.submit(client.fetch, listing)
            # The others come only after the cache was checked, and the largest file is requested first.
            while not cache.blob(other).exists():
                time.sleep(0.01)
            cache.blob(entry).write_bytes(b"x" + WEIGHTS[1:])
        folder, _ = fetching.result()
    assert contents(folder) == FILES
    assert entry.oid in ledger.read_text()
    assert (cache.blob(entry).with_suffix(".damaged")).read_bytes() == b"x" + WEIGHTS[1:]
    assert any("renamed to" in output for output in client.notices)


def test_small_file_behind_a_second_redirect_is_downloaded(hub: LocalHub, client: HubClient) -> None:
    hub.settings("org/m").resolve_cache = True
    try:
        listing = client.listed()
        assert client.adapter.read(listing, "config.json", start=3, length=4) == FILES["config.json"][3:7]
        assert contents(client.fetch(listing)[0]) == FILES
        expected = snapshot_download("org/m", endpoint=hub.url, cache_dir=client.home / "theirs")
        assert contents(Path(expected)) == FILES
    finally:
        hub.settings("org/m").resolve_cache = False
    assert {
        entry.status for entry in hub.log.all() if "/resolve/" in entry.path and "x.json" in entry.path
    } == {307}


def test_without_symlinks_the_snapshot_contains_the_files(hub: LocalHub, tmp_path: Path) -> None:
    client = HubClient(hub, tmp_path, {"HF_HUB_DISABLE_SYMLINKS": "1"})
    listing = client.listed()
    for _ in range(2):
        folder, _ = client.fetch(listing)
        assert contents(folder) == FILES
    assert not any(path.is_symlink() for path in folder.rglob("*"))
    assert len([entry for entry in hub.log.all() if entry.path.startswith("/cdn/")]) == 1


def test_offline_uses_the_cache_without_requests(client: HubClient, hub: LocalHub) -> None:
    online = client.listed()
    folder, _ = client.fetch(online)
    hub.log.clear()
    offline = HubClient(hub, client.home, {"HF_HUB_OFFLINE": "1"})
    for revision in ("main", online.commit):
        listing = offline.listed(revision=revision)
        assert (listing.commit, listing.files) == (online.commit, online.files)
        assert offline.fetch(listing)[0] == folder
        assert offline.adapter.read(listing, "config.json") == FILES["config.json"]
    assert hub.log.all() == []


def test_offline_error_names_what_is_missing(client: HubClient, hub: LocalHub) -> None:
    online = client.listed()
    offline = HubClient(hub, client.home, {"HF_HUB_OFFLINE": "1"})
    with pytest.raises(
        NotFound, match=r"org/m: revision 'main' is not in the cache at .* HF_HUB_OFFLINE is set"
    ):
        offline.listed()
    with pytest.raises(NotFound, match=r"org/m: config.json is not in the cache, and HF_HUB_OFFLINE is set"):
        offline.fetch(online)
    with pytest.raises(NotFound, match="HF_HUB_OFFLINE"):
        offline.adapter.read(online, "config.json")


def test_unwritable_cache_is_reported_with_its_variable(hub: LocalHub, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    client = HubClient(hub, tmp_path, {"HF_HUB_CACHE": str(tmp_path / "file")})
    with pytest.raises(TransferFailed) as caught:
        client.fetch(client.listed())
    assert f"the cache at {tmp_path / 'file'} fails: Not a directory" in caught.value.message
    assert "HF_HUB_CACHE" in caught.value.hint


def test_abandoned_download_leaves_no_thread(client: HubClient, hub: LocalHub) -> None:
    before = threading.active_count()
    fetching = client.adapter.fetch(client.listed(), client.listed().files, key="k")
    next(fetching)
    fetching.close()
    assert threading.active_count() == before
