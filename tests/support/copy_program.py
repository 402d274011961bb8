"""`python -m tests.support.copy_program S3 BUCKET SIZE`: `from` copied to `to` in many parts, to be killed."""

from __future__ import annotations

import sys

from lmi_deploy.aws.s3.client_factory import S3Settings
from lmi_deploy.host.clock import SystemClock
from tests.support.s3_servers import S3Server

PARTS = S3Settings(attempts=1, copy_part_size=5 << 20)
ACCOUNT = "111122223333"


def main(s3: str, bucket: str, size: str) -> None:
    server = S3Server(url=s3, access=ACCOUNT, owner=ACCOUNT)
    server.store(bucket, clock=SystemClock(), settings=PARTS).copy("from", "to", size=int(size))


if __name__ == "__main__":
    main(*sys.argv[1:])
