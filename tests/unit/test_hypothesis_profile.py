"""Property tests pass on a busy machine: no result depends on the clock."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.support.hypothesis_settings import examples

TESTS = Path(__file__).parents[1]
OF_THE_PROFILE = ("deadline=", "too_slow", "derandomize", "database=")


@pytest.mark.parametrize("name", ["local", "ci", "fuzz"])
def test_profile_has_no_deadline(name: str) -> None:
    profile = settings.get_profile(name)
    assert profile.deadline is None
    assert HealthCheck.too_slow in profile.suppress_health_check


def test_ci_profile_is_deterministic() -> None:
    profile = settings.get_profile("ci")
    assert profile.derandomize
    assert profile.database is None


def test_current_run_uses_one_of_the_profiles() -> None:
    assert settings.get_current_profile_name() in ("local", "ci", "fuzz")


def test_test_with_its_own_example_count_follows_the_profile() -> None:
    own = settings().max_examples
    assert examples(1000).max_examples == 10 * own
    assert examples(10).max_examples == max(10, own // 10)
    assert examples(30).deadline is None
    both = (HealthCheck.too_slow, HealthCheck.function_scoped_fixture)
    assert set(examples(30, shared_fixture=True).suppress_health_check) == set(both)


def test_no_test_overrides_a_setting_of_the_profile() -> None:
    own = (TESTS / "conftest.py", Path(__file__))
    for path in TESTS.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if path not in own and "from hypothesis import" in text:
            assert not [word for word in OF_THE_PROFILE if word in text], path
