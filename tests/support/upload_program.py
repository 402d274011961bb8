"""`python -m tests.support.upload_program S3 BUCKET FOLDER ENGINE`: a folder uploaded by an engine, to be
ended."""

from __future__ import annotations

import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any, Literal

from lmi_deploy.aws.s3.uploaders.external_program import UploadTarget
from lmi_deploy.aws.s3.uploaders.obstore import Obstore
from lmi_deploy.aws.s3.uploaders.s5cmd import S5cmd
from lmi_deploy.domain.events import Event
from lmi_deploy.domain.weights import Manifest, Travel
from lmi_deploy.host.clock import SystemClock
from lmi_deploy.sources.local_folder import LocalModel, LocalModelFiles
from lmi_deploy.weights.bucket_weights import BucketWeights
from lmi_deploy.weights.transfer_settings import TransferSettings
from tests.support.generators import result_of
from tests.support.s3_servers import S3Server

ACCOUNT = "111122223333"
Engine = Literal["own", "s5cmd", "obstore"]


def uploader(server: S3Server, bucket: str, folder: Path, engine: Engine) -> Generator[Event, None, Manifest]:
    target = UploadTarget(region=server.region, endpoint=server.url, owner=server.owner, retries=1)
    carrying: tuple[Any, ...] = (server.session(), target, {"PATH": "/usr/bin:/bin"})
    weights = BucketWeights(
        store=server.store(bucket, clock=SystemClock()),
        owner=server.owner,
        clock=SystemClock(),
        settings=TransferSettings(streams=2),
        where=bucket,
        uploaders={"s5cmd": S5cmd(*carrying), "obstore": Obstore(*carrying)},
    )
    hub, transfer_options = LocalModel(), Travel(engine=engine)
    listing = hub.listing(str(folder), "main")
    return weights.upload(
        listing, listing.files, hub, transfer_options=transfer_options, local=LocalModelFiles, key="push"
    )


def upload(server: S3Server, bucket: str, folder: Path, engine: Engine) -> str:
    """The weights' name."""
    return result_of(uploader(server, bucket, folder, engine)).name


def main(s3: str, bucket: str, folder: str, engine: Engine) -> None:
    print(upload(S3Server(url=s3, access=ACCOUNT, owner=ACCOUNT), bucket, Path(folder), engine))


if __name__ == "__main__":
    main(*sys.argv[1:])  # type: ignore[arg-type]
