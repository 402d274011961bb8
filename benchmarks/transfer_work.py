"""`python -m benchmarks.transfer_work NAME [FOLDER]`: one contender's work as a process of its own."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lmi_deploy.domain.gathered_facts import ModelListing
    from lmi_deploy.ports.source import Source
    from lmi_deploy.sources.hub import HuggingFaceHub
    from lmi_deploy.weights.bucket_weights import BucketWeights

BUCKET = "bench"


def files(folder: str) -> list[Path]:
    return sorted(path for path in Path(folder).rglob("*") if path.is_file())


def lmi_stream(_: str) -> None:
    hub = _hub()
    _push(hub, hub.listing("org/model", "main"))


def lmi_fetch(_: str) -> None:
    hub = _hub()
    listing = hub.listing("org/model", "main")
    _ended(hub.fetch(listing, listing.files, key="weights"))


def lmi_folder(folder: str) -> None:
    """The hashes of the listing are told apart: the others compute none."""
    from lmi_deploy.sources.local_folder import LocalModel

    source = LocalModel()
    _push(source, source.listing(folder, ""))


def lmi_cached(folder: str) -> None:
    """From a folder whose hashes are known, as the Hub's cache knows them; by the engine of `auto`."""
    from lmi_deploy.domain.gathered_facts import FileEntry, ModelListing
    from lmi_deploy.sources.local_folder import LocalModel
    from lmi_deploy.weights.uploader_selection import OWN, choose_uploader

    known = [line.split(" ", 2) for line in Path(os.environ["BENCH_OIDS"]).read_text().splitlines()]
    entries = tuple(FileEntry(path=path, size=int(size), oid=oid, kind="sha256") for oid, size, path in known)
    listing = ModelListing(model_id=folder, commit="c" * 40, files=entries, source="folder")
    weights = _weights()
    chosen = choose_uploader("auto", entries, is_local=True, present=weights.engines)
    if chosen.engine == OWN:
        _ended(weights.push(listing, entries, LocalModel(), key="weights"))
    else:
        _ended(weights.upload_files(listing, entries, Path(folder), engine=chosen.engine, key="weights"))


def snapshot(_: str) -> None:
    from huggingface_hub import snapshot_download

    snapshot_download("org/model")


def boto3_files(folder: str) -> None:
    import boto3
    from boto3.s3.transfer import TransferConfig

    client = boto3.client("s3")
    several = TransferConfig(multipart_chunksize=64 << 20, max_concurrency=8)

    def send(path: Path) -> None:
        more = {"ChecksumAlgorithm": "SHA256"}
        client.upload_file(str(path), BUCKET, f"weights/{path.name}", ExtraArgs=more, Config=several)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(send, files(folder)))


def obstore_files(folder: str) -> None:
    from obstore import put
    from obstore.store import S3Store

    store = S3Store(BUCKET, prefix="weights", checksum_algorithm="sha256")

    def send(path: Path) -> None:
        put(store, path.name, path, chunk_size=16 << 20, max_concurrency=8)

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(send, files(folder)))


def _hub() -> HuggingFaceHub:
    from lmi_deploy.host.clock import SystemClock
    from lmi_deploy.sources.hub import HubSettings, HuggingFaceHub

    return HuggingFaceHub(HubSettings.read(os.environ, Path.home()), SystemClock())


def _push(source: Source, listing: ModelListing) -> None:
    _ended(_weights().push(listing, listing.files, source, key="weights"))


def _weights() -> BucketWeights:
    from lmi_deploy.cli import tune_gc

    tune_gc()  # as `lmi` does

    import boto3

    from lmi_deploy.aws.s3.client_factory import S3Settings
    from lmi_deploy.aws.s3.object_store import BucketLocation, S3Store
    from lmi_deploy.aws.s3.uploaders.external_program import UploadTarget
    from lmi_deploy.aws.s3.uploaders.obstore import Obstore
    from lmi_deploy.host.clock import SystemClock
    from lmi_deploy.weights.bucket_weights import BucketWeights
    from lmi_deploy.weights.transfer_settings import TransferSettings

    clock, place = SystemClock(), BucketLocation(bucket=BUCKET, owner="111122223333")
    store = S3Store(boto3.Session, place, clock=clock, settings=S3Settings())
    target = UploadTarget(region=os.environ["AWS_REGION"], endpoint=store.where, owner=place.owner)
    return BucketWeights(
        store=store,
        owner=place.owner,
        clock=clock,
        settings=TransferSettings(),
        where=BUCKET,
        uploaders={"obstore": Obstore(boto3.Session, target, os.environ)},
    )


def _ended(moving: Iterable[object]) -> None:
    for _ in moving:
        pass


WORK: dict[str, Callable[[str], None]] = {
    "lmi-stream": lmi_stream,
    "lmi-fetch": lmi_fetch,
    "lmi-folder": lmi_folder,
    "lmi-cached": lmi_cached,
    "snapshot": snapshot,
    "boto3": boto3_files,
    "obstore": obstore_files,
}

if __name__ == "__main__":
    WORK[sys.argv[1]](sys.argv[2] if len(sys.argv) > 2 else "")
