"""A push from the Hub, or from a folder, into each of the S3 servers."""

from pathlib import Path

import pytest

from lmi_deploy.domain.crc32 import crc32_of
from lmi_deploy.domain.weights import Manifest, weights_name, weights_prefix
from lmi_deploy.errors import IntegrityError
from lmi_deploy.ports.object_store import ObjectStore
from lmi_deploy.sources.local_folder import LocalModel
from lmi_deploy.weights.cross_bucket_copy import CopyRoute, copy_weights
from lmi_deploy.weights.manifest_comparison import compare_listing
from lmi_deploy.weights.manifests import read_manifest
from lmi_deploy.weights.part_size import USUAL
from lmi_deploy.weights.weights_maintenance import remove, verify
from tests.integration.weights.conftest import FILES, NOISE
from tests.support.generators import result_of
from tests.support.hub import LocalHub
from tests.support.hub_client import HubClient
from tests.support.push import push_context, pushed
from tests.support.s3_servers import S3Server


def stored_objects(store: ObjectStore, name: str) -> dict[str, bytes]:
    prefix = weights_prefix(name)
    return {found.key.removeprefix(prefix): b"".join(store.read(found.key)) for found in store.list(prefix)}


def test_hub_model_is_pushed_and_a_second_push_uploads_nothing(
    hub: LocalHub, client: HubClient, store: ObjectStore
) -> None:
    listing = client.listed()
    manifest, _ = pushed(listing, push_context(client.adapter, store))
    assert stored_objects(store, manifest.name) == FILES
    requested = len(hub.log.all())
    assert pushed(listing, push_context(client.adapter, store))[0] == manifest
    assert len(hub.log.all()) == requested
    assert result_of(verify(store, manifest, key="v")) == ()
    assert result_of(verify(store, manifest, key="v", deep=True)) == ()


def test_folders_share_files_and_removing_one_keeps_the_other(tmp_path: Path, store: ObjectStore) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(NOISE)
    source = LocalModel()
    first, _ = pushed(source.listing(str(folder), ""), push_context(source, store))
    (folder / "config.json").write_bytes(b"{}")
    second, _ = pushed(source.listing(str(folder), ""), push_context(source, store))
    assert stored_objects(store, first.name) == {"model.safetensors": NOISE}
    assert stored_objects(store, second.name) == {"model.safetensors": NOISE, "config.json": b"{}"}
    assert result_of(verify(store, second, key="v")) == ()
    remove(store, first.name, used={second.name: "other"})
    assert stored_objects(store, first.name) == {}
    assert read_manifest(store, first.name) is None
    assert result_of(verify(store, second, key="v")) == ()


def test_folder_changed_after_listing_is_an_integrity_error(tmp_path: Path, store: ObjectStore) -> None:
    (tmp_path / "a.bin").write_bytes(b"one")
    source = LocalModel()
    listing = source.listing(str(tmp_path), "")
    (tmp_path / "a.bin").write_bytes(b"two")
    with pytest.raises(IntegrityError, match=r"a\.bin"):
        pushed(listing, push_context(source, store))
    assert not list(store.list(""))


def test_object_of_a_killed_push_is_reused(hub: LocalHub, client: HubClient, store: ObjectStore) -> None:
    listing = client.listed()
    manifest, _ = pushed(listing, push_context(client.adapter, store))
    store.delete([f"manifests/{manifest.name}.json"])
    hub.log.clear()
    again, _ = pushed(listing, push_context(client.adapter, store))
    assert again.files == manifest.files
    assert not [request for request in hub.log.all() if "model.safetensors" in request.path]


def _left_by_another_tool(store: ObjectStore, key: str, body: bytes, metadata: dict[str, str]) -> None:
    """An object of another tool's multipart upload: our part size, a full-object CRC32."""
    upload = store.create_multipart(key, metadata=metadata)
    cut = [body[start : start + USUAL] for start in range(0, len(body), USUAL)]
    parts = [
        store.put_part(upload, number, memoryview(chunk), crc32=crc32_of(chunk))
        for number, chunk in enumerate(cut, 1)
    ]
    store.complete(upload, parts, crc32=crc32_of(body), size=len(body))


@pytest.mark.parametrize("recorded", [{}, {"lmi-oid": f"sha256:{'0' * 64}"}, {"other": "metadata"}])
def test_object_without_our_hash_is_verified_before_reuse(
    recorded: dict[str, str], hub: LocalHub, client: HubClient, store: ObjectStore
) -> None:
    listing = client.listed()
    key = f"{weights_prefix(weights_name(listing.model_id, listing.commit, listing.files))}model.safetensors"
    _left_by_another_tool(store, key, bytes(len(NOISE)), recorded)
    manifest, _ = pushed(listing, push_context(client.adapter, store))
    assert stored_objects(store, manifest.name) == FILES
    assert result_of(verify(store, manifest, key="v", deep=True)) == ()
    assert [request for request in hub.log.all() if "model.safetensors" in request.path]


def test_object_of_an_older_lmi_is_hashed_and_not_uploaded_again(
    hub: LocalHub, client: HubClient, store: ObjectStore
) -> None:
    listing = client.listed()
    key = f"{weights_prefix(weights_name(listing.model_id, listing.commit, listing.files))}model.safetensors"
    _left_by_another_tool(store, key, NOISE, {})
    hub.log.clear()
    manifest, _ = pushed(listing, push_context(client.adapter, store))
    assert stored_objects(store, manifest.name) == FILES
    assert result_of(verify(store, manifest, key="v")) == ()
    assert not [request for request in hub.log.all() if "model.safetensors" in request.path]


def test_object_of_another_upload_engine_is_verified_by_hash_and_etag(
    hub: LocalHub, client: HubClient, bucket: str, versity: S3Server
) -> None:
    """s5cmd and obstore store no full-object CRC32."""
    versity.make_bucket(bucket)
    store, listing = versity.store(bucket), client.listed()
    key = f"{weights_prefix(weights_name(listing.model_id, listing.commit, listing.files))}model.safetensors"
    versity.api().put_object(Bucket=bucket, Key=key, Body=NOISE, ChecksumAlgorithm="SHA256")
    hub.log.clear()
    manifest, _ = pushed(listing, push_context(client.adapter, store))
    assert result_of(verify(store, manifest, key="v")) == ()
    assert not [request for request in hub.log.all() if "model.safetensors" in request.path]


def test_weights_are_copied_to_another_bucket(client: HubClient, versity: S3Server, bucket: str) -> None:
    versity.make_bucket(bucket)
    versity.make_bucket(f"{bucket}-far")
    local, remote = versity.store(bucket), versity.store(f"{bucket}-far")
    by = push_context(client.adapter, local)
    manifest, _ = pushed(client.listed(), by)
    route = CopyRoute(origin=local, target=remote, owner=versity.owner, clock=by.clock, settings=by.settings)
    copied = result_of(copy_weights(manifest.name, route=route, key="c"))
    assert isinstance(copied, Manifest)
    assert {(f.path, f.sha256, f.checksum) for f in copied.files} == {
        (f.path, f.sha256, f.checksum) for f in manifest.files
    }
    listed = {stored.key: stored for stored in remote.list(weights_prefix(manifest.name))}
    assert compare_listing(remote, copied, listed) == ()
    assert stored_objects(remote, manifest.name) == FILES
