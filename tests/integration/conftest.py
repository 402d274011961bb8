"""The far sides of several folders: S3 (a fake, moto, versitygw), a network before it, a local Hub."""

from tests.support.s3_and_hub_fixtures import *  # noqa: F403
