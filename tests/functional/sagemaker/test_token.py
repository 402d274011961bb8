"""`lmi token`: the token alone on stdout; what else one needs on stderr, or beside it."""

from __future__ import annotations

import pytest

from tests.support.cloud_app import CloudApp

BASE = "https://runtime.sagemaker.us-east-1.amazonaws.com/endpoints/tiny/openai/v1"


def test_token_is_all_of_stdout(app: CloudApp) -> None:
    app.up()
    result = app.lmi("token", "tiny")
    assert (result.code, result.out) == (0, "sagemaker-api-key-of-111122223333-for-3600\n")
    assert f"base URL: {BASE}\nvalid until " in result.err
    assert "sagemaker-api-key" not in result.err


def test_json_has_the_token_its_end_and_the_base_url(app: CloudApp) -> None:
    app.up()
    result = app.lmi("token", "tiny", "--expires", "15m", "--json")
    assert (result.code, result.err, len(result.lines)) == (0, "", 1)
    fields = result.result
    assert (fields["token"], fields["base_url"]) == ("sagemaker-api-key-of-111122223333-for-900", BASE)
    assert fields["expires_at"] > app.clock.now().isoformat()


@pytest.mark.parametrize("duration", ["13h", "1", "soon"])
def test_token_lasts_from_a_minute_to_twelve_hours(app: CloudApp, duration: str) -> None:
    app.up()
    result = app.lmi("token", "tiny", "--expires", duration)
    assert (result.code, result.out) == (2, "")
    assert duration in result.err


def test_no_token_without_an_endpoint(app: CloudApp) -> None:
    result = app.lmi("token", "tiny", "--target", "sagemaker")
    assert (result.code, result.out) == (1, "")
    assert "tiny: no such deployment is running" in result.err
