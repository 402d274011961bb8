"""Fixtures of several folders: S3 (a fake, moto, versitygw), a proxy before it, a local Hub."""

from tests.support.s3_and_hub_fixtures import *  # noqa: F403
