"""The far sides of port suites: S3 and a local Hub."""

from tests.support.s3_and_hub_fixtures import *  # noqa: F403
