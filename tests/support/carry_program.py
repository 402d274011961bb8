"""`python -m tests.support.carry_program S3 BUCKET FOLDER ENGINE`: a folder's files sent by an engine, to be ended."""

from __future__ import annotations

import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any, Literal

from lmi_deploy.adapters.clock import SystemClock
from lmi_deploy.adapters.model_folder import FolderFiles, ModelFolder
from lmi_deploy.adapters.obstore.carrier import Obstore
from lmi_deploy.adapters.outside import Errand
from lmi_deploy.adapters.s5cmd import S5cmd
from lmi_deploy.core.events import Event
from lmi_deploy.core.weights import Manifest, Travel
from lmi_deploy.transfer.settings import TransferSettings
from lmi_deploy.transfer.weights import BucketWeights
from tests.support.s3 import S3Server

ACCOUNT = "111122223333"
Engine = Literal["own", "s5cmd", "obstore"]


def bringing(server: S3Server, bucket: str, folder: Path, engine: Engine) -> Generator[Event, None, Manifest]:
    errand = Errand(region=server.region, endpoint=server.url, owner=server.owner, retries=1)
    carrying: tuple[Any, ...] = (server.session(), errand, {"PATH": "/usr/bin:/bin"})
    weights = BucketWeights(
        store=server.store(bucket, clock=SystemClock()),
        owner=server.owner,
        clock=SystemClock(),
        settings=TransferSettings(streams=2),
        where=bucket,
        carriers={"s5cmd": S5cmd(*carrying), "obstore": Obstore(*carrying)},
    )
    hub, travel = ModelFolder(), Travel(engine=engine)
    listing = hub.listing(str(folder), "main")
    return weights.bring(listing, listing.files, hub, travel=travel, here=FolderFiles, key="push")


def brought(server: S3Server, bucket: str, folder: Path, engine: Engine) -> str:
    """The weights' name."""
    going = bringing(server, bucket, folder, engine)
    while True:
        try:
            next(going)
        except StopIteration as end:
            return str(end.value.name)


def main(s3: str, bucket: str, folder: str, engine: Engine) -> None:
    print(brought(S3Server(url=s3, access=ACCOUNT, owner=ACCOUNT), bucket, Path(folder), engine))


if __name__ == "__main__":
    main(*sys.argv[1:])  # type: ignore[arg-type]
