"""The S3 adapter with moto and versitygw."""

from tests.support.object_store_fixtures import *  # noqa: F403
