"""A home that cannot be written stops an `up` before anything is made in the account."""

from __future__ import annotations

from pathlib import Path

from tests.support.cloud_app import CloudHouse


def test_an_unwritable_home_is_told_before_anything_is_made(house: CloudHouse) -> None:
    Path("state").write_text("a file where the state folder would be")
    ran = house.lmi("up", "--yes")
    assert ran.code == 1
    assert "the disk refused" in ran.err
    assert "LMI_STATE_HOME" in ran.err
    assert house.kept_in_cloud() == []
    assert house.cloud.account.buckets == {}
    Path("state").unlink()
    house.up()
    assert house.lmi("ls").out
