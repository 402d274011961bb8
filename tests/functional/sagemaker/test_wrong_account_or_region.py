"""In the wrong account or region nothing is found, nothing is forgotten, and it is said where one was brought up."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.cloud_app import RECIPE, CloudHouse, write_recipe
from tests.support.fake_cloud import FakeCloud

OURS, THEIRS = "111122223333", "444455556666"


@pytest.fixture
def elsewhere(house: CloudHouse) -> FakeCloud:
    """The account that the deployment is in, from which the credentials then point away."""
    house.up()
    return house.cloud


def move(house: CloudHouse, *, account: str = OURS, region: str = "us-east-1") -> None:
    house.cloud = FakeCloud(house.clock)
    caller = replace(house.cloud.world.caller, account=account, region=region)
    house.cloud.world.caller = house.cloud.account.caller = caller


def known(house: CloudHouse) -> list[str]:
    return sorted(path.name for path in Path(house.root, "state", "elsewhere").iterdir())


def test_down_in_the_wrong_account_forgets_nothing(house: CloudHouse, elsewhere: FakeCloud) -> None:
    before = known(house)
    assert before == [f"tiny.us-east-1.{OURS}.json"]
    move(house, account=THEIRS)
    by_name = house.lmi("down", "tiny", "--yes")
    assert by_name.code == 1
    assert f"tiny is in account {OURS}, us-east-1; these credentials are of account {THEIRS}" in by_name.err
    by_recipe = house.lmi("down", "tiny.yaml", "--yes")
    assert by_recipe.code == 5
    assert f"nothing of it is in account {THEIRS}, us-east-1" in by_recipe.err
    assert f"this machine brought one up in account {OURS}, us-east-1" in by_recipe.err
    status = house.lmi("status", "tiny.yaml", "--json")
    assert (status.code, OURS in status.result["why"], THEIRS in status.result["why"]) == (4, True, True)
    assert f"unknown: tiny is in account {OURS}" in house.lmi("ls").out
    assert known(house) == before
    house.cloud = elsewhere
    ran = house.lmi("down", "tiny", "--yes", "--json")
    assert (ran.code, ran.result["account"], ran.result["region"]) == (0, OURS, "us-east-1")
    assert known(house) == []


def test_down_in_the_wrong_region_forgets_nothing(house: CloudHouse, elsewhere: FakeCloud) -> None:
    before = known(house)
    move(house, region="eu-west-1")
    ran = house.lmi("down", "tiny.yaml", "--yes")
    assert ran.code == 5
    assert f"nothing of it is in account {OURS}, eu-west-1" in ran.err
    assert "lmi down tiny --region us-east-1" in ran.err
    named = house.lmi("down", "tiny", "--region", "eu-west-1", "--yes")
    assert (named.code, f"brought one up in account {OURS}, us-east-1" in named.err) == (0, True)
    assert known(house) == before


def test_one_name_in_two_accounts(house: CloudHouse, elsewhere: FakeCloud) -> None:
    move(house, account=THEIRS)
    house.up("tiny.yaml")
    assert known(house) == [f"tiny.us-east-1.{OURS}.json", f"tiny.us-east-1.{THEIRS}.json"]
    assert house.lmi("status", "tiny").code == 0
    down = house.lmi("down", "tiny", "--yes", "--json")
    assert (down.code, down.result["account"]) == (0, THEIRS)
    assert known(house) == [f"tiny.us-east-1.{OURS}.json"]
    house.cloud = elsewhere
    assert house.lmi("status", "tiny").code == 0


def test_each_answer_names_account_and_region(house: CloudHouse, elsewhere: FakeCloud) -> None:
    place = {"account": OURS, "region": "us-east-1"}
    write_recipe(RECIPE + "options: {dtype: fp32}\n")
    for command in (("up", "--yes"), ("extend", "tiny", "8h"), ("rollback", "tiny", "--yes")):
        assert place.items() <= house.lmi(*command, "--json").result.items(), command
    assert place.items() <= house.lmi("status", "tiny", "--json").result["ref"].items()
    assert f"account {OURS}, us-east-1" in house.lmi("status", "tiny").out
    asked = house.lmi("down", "tiny", stdin=b"n\n", terminal=True)
    assert f"Delete tiny (account {OURS}, us-east-1)? [y/N] " in asked.err
    assert place.items() <= house.lmi("down", "tiny", "--yes", "--json").result.items()
    again = house.lmi("down", "tiny", "--yes", "--json")
    assert (again.code, place.items() <= again.result.items()) == (0, True)
