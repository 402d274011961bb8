"""Settings of single property tests, on top of the profile that tests/conftest.py has chosen."""

from hypothesis import HealthCheck, settings

_HYPOTHESIS_DEFAULT = 100


def examples(count: int, *, shared_fixture: bool = False) -> settings:
    """`count` examples, multiplied as the profile says (`fuzz`). `shared_fixture`: all examples of the test
    use the same function-scoped fixture, on purpose."""
    profile = settings()
    scaled = settings(profile, max_examples=count * profile.max_examples // _HYPOTHESIS_DEFAULT)
    if not shared_fixture:
        return scaled
    suppressed = (*profile.suppress_health_check, HealthCheck.function_scoped_fixture)
    return settings(scaled, suppress_health_check=suppressed)
