"""The same tests on the fake, on moto and on versitygw."""

from tests.support.object_store_fixtures import *  # noqa: F403
