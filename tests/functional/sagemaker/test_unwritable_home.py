"""An unwritable state home stops an `up` before anything is created in the account."""

from __future__ import annotations

from pathlib import Path

from tests.support.cloud_app import CloudApp


def test_unwritable_state_home_is_reported_before_anything_is_created(app: CloudApp) -> None:
    Path("state").write_text("a file where the state folder would be")
    result = app.lmi("up", "--yes")
    assert result.code == 1
    assert "disk error" in result.err
    assert "LMI_STATE_HOME" in result.err
    assert app.cloud_resources() == []
    assert app.cloud.account.buckets == {}
    Path("state").unlink()
    app.up()
    assert app.lmi("ls").out
