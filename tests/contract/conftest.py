"""S3 servers and a local Hub for the port suites."""

from tests.support.s3_and_hub_fixtures import *  # noqa: F403
