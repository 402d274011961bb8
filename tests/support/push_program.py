"""`python -m tests.support.push_program HUB S3 BUCKET HOME`: one push in a process of its own, to be killed."""

from __future__ import annotations

import sys
from pathlib import Path

from lmi_deploy.host.clock import SystemClock
from lmi_deploy.sources.hub import HubSettings, HuggingFaceHub
from tests.support.push import push_context, pushed
from tests.support.s3_servers import S3Server


def main(hub: str, s3: str, bucket: str, home: str) -> None:
    settings = HubSettings.read({"HF_ENDPOINT": hub, "HF_HOME": home}, Path(home))
    source = HuggingFaceHub(settings, SystemClock())
    account = "111122223333"
    store = S3Server(url=s3, access=account, owner=account).store(bucket, clock=SystemClock())
    manifest, _ = pushed(source.listing("org/m", "main"), push_context(source, store, streams=2))
    print(manifest.name)


if __name__ == "__main__":
    main(*sys.argv[1:])
