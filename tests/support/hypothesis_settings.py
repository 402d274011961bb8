"""Settings of single property tests, on top of the profile that tests/conftest.py has chosen."""

from hypothesis import HealthCheck, settings

FEW = 25
"""The examples of a property test in `make test`."""
_USUAL = 100
"""The examples of a property test that the counts below are relative to."""


def examples(count: int, *, shared_fixture: bool = False) -> settings:
    """`count` examples, of a usual 100: as many times more or less as the profile has, but not less than its own
    number because of that. `shared_fixture`: all examples of the test use the same function-scoped fixture, on
    purpose.
    """
    profile = settings()
    scaled = settings(profile, max_examples=scaled_count(count))
    if not shared_fixture:
        return scaled
    suppressed = (*profile.suppress_health_check, HealthCheck.function_scoped_fixture)
    return settings(scaled, suppress_health_check=suppressed)


def scaled_count(count: int) -> int:
    """For loops over random cases of one's own."""
    own = settings().max_examples
    return max(min(count, own), count * own // _USUAL)
