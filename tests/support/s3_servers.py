"""S3 servers for tests: moto in this process, versitygw beside it; and our adapter with one of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import boto3

from lmi_deploy.aws.s3.client_factory import S3Settings
from lmi_deploy.aws.s3.object_store import BucketLocation, S3Store
from lmi_deploy.aws.session import SessionFactory
from lmi_deploy.ports.clock import Clock
from lmi_deploy.ports.message_callback import Notify, ignore
from tests.support.frozen_clock import FrozenClock
from tests.support.versitygw import running

REGION = "us-east-1"
SECRET = "a-secret-key-for-tests-only"


@dataclass(frozen=True)
class S3Server:
    """An endpoint and the credentials that it accepts. `owner` owns every bucket that they create."""

    url: str
    access: str
    owner: str
    secret: str = SECRET
    region: str = REGION

    def session(self) -> SessionFactory:
        """A new one each time, as the tool has it."""
        return lambda: boto3.Session(
            aws_access_key_id=self.access, aws_secret_access_key=self.secret, region_name=self.region
        )

    def behind_proxy(self, url: str) -> S3Server:
        """The same, through another address."""
        return replace(self, url=url)

    def api(self) -> Any:
        """A plain client, for the set-up and the checks of a test."""
        return _api(self)

    def make_bucket(self, name: str) -> None:
        self.api().create_bucket(Bucket=name)

    def store(
        self,
        bucket: str,
        *,
        clock: Clock | None = None,
        settings: S3Settings | None = None,
        owner: str = "",
        notify: Notify = ignore,
    ) -> S3Store:
        requests = settings or S3Settings(attempts=1, stall_seconds=5.0)
        return S3Store(
            lambda: _session(self),
            BucketLocation(bucket=bucket, owner=owner or self.owner),
            clock=clock or FrozenClock(),
            settings=replace(requests, endpoint_url=self.url),
            notify=notify,
        )


@cache
def _session(server: S3Server) -> Any:
    """The same session again: loading botocore's tables takes longer than most tests."""
    return server.session()()


@cache
def _api(server: S3Server) -> Any:
    from botocore.config import Config

    config = Config(retries={"total_max_attempts": 1}, s3={"addressing_style": "path"})
    return _session(server).client("s3", endpoint_url=server.url, config=config)


@contextmanager
def moto_s3() -> Iterator[S3Server]:
    """moto's server: most of S3, but it ignores the expected owner and checks few checksums."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield S3Server(url=f"http://{host}:{port}", access="testing", owner="123456789012")
    finally:
        server.stop()


@contextmanager
def versitygw_s3(root: Path, *, tls: tuple[Path, Path] | None = None) -> Iterator[S3Server]:
    """versitygw on a folder. What it lacks: lifecycle, encryption and public-access settings."""
    account = "111122223333"
    with running(root, access=account, secret=SECRET, tls=tls) as url:
        yield S3Server(url=url, access=account, owner=account)
