"""The same tests on the fake, on moto and on versitygw."""

from tests.support.object_store_fixtures import _quiet, overwriting, strict

__all__ = ["_quiet", "overwriting", "strict"]
