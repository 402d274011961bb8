"""The S3 adapter before moto and versitygw."""

from tests.support.object_store_fixtures import _quiet, overwriting, strict

__all__ = ["_quiet", "overwriting", "strict"]
