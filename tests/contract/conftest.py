"""The far sides of port suites: S3 and a local Hub."""

from tests.support.s3_and_hub_fixtures import (
    bucket,
    client,
    hub,
    moto,
    proxy,
    quiet_environment,
    running_proxy,
    store,
    versity,
)

__all__ = [
    "bucket",
    "client",
    "hub",
    "moto",
    "proxy",
    "quiet_environment",
    "running_proxy",
    "store",
    "versity",
]
