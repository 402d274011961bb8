"""In the wrong account or region nothing is found and nothing is forgotten, and the message names the right
one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.cloud_app import RECIPE, CloudApp, write_recipe
from tests.support.fake_cloud import FakeCloud

OURS, THEIRS = "111122223333", "444455556666"


@pytest.fixture
def deployed_account(app: CloudApp) -> FakeCloud:
    """The account of the deployment, from which the credentials then point away."""
    app.up()
    return app.cloud


def move(app: CloudApp, *, account: str = OURS, region: str = "us-east-1") -> None:
    app.cloud = FakeCloud(app.clock)
    caller = replace(app.cloud.account_state.caller, account=account, region=region)
    app.cloud.account_state.caller = app.cloud.account.caller = caller


def known(app: CloudApp) -> list[str]:
    return sorted(path.name for path in Path(app.root, "state", "elsewhere").iterdir())


def test_down_in_the_wrong_account_keeps_the_local_index(app: CloudApp, deployed_account: FakeCloud) -> None:
    before = known(app)
    assert before == [f"tiny.us-east-1.{OURS}.json"]
    move(app, account=THEIRS)
    by_name = app.lmi("down", "tiny", "--yes")
    assert by_name.code == 1
    assert (
        f"tiny is in account {OURS}, us-east-1, but these credentials belong to account {THEIRS}"
        in by_name.err
    )
    by_recipe = app.lmi("down", "tiny.yaml", "--yes")
    assert by_recipe.code == 5
    assert f"not found in account {THEIRS}, us-east-1" in by_recipe.err
    assert f"this machine has deployed one in account {OURS}, us-east-1" in by_recipe.err
    status = app.lmi("status", "tiny.yaml", "--json")
    assert (status.code, OURS in status.result["why"], THEIRS in status.result["why"]) == (4, True, True)
    assert f"unknown: tiny is in account {OURS}" in app.lmi("ls").out
    assert known(app) == before
    app.cloud = deployed_account
    result = app.lmi("down", "tiny", "--yes", "--json")
    assert (result.code, result.result["account"], result.result["region"]) == (0, OURS, "us-east-1")
    assert known(app) == []


def test_down_in_the_wrong_region_keeps_the_local_index(app: CloudApp, deployed_account: FakeCloud) -> None:
    before = known(app)
    move(app, region="eu-west-1")
    result = app.lmi("down", "tiny.yaml", "--yes")
    assert result.code == 5
    assert f"not found in account {OURS}, eu-west-1" in result.err
    assert "lmi down tiny --region us-east-1" in result.err
    named = app.lmi("down", "tiny", "--region", "eu-west-1", "--yes")
    assert (named.code, f"has deployed one in account {OURS}, us-east-1" in named.err) == (0, True)
    assert known(app) == before


def test_same_name_in_two_accounts_is_two_deployments(app: CloudApp, deployed_account: FakeCloud) -> None:
    move(app, account=THEIRS)
    app.up("tiny.yaml")
    assert known(app) == [f"tiny.us-east-1.{OURS}.json", f"tiny.us-east-1.{THEIRS}.json"]
    assert app.lmi("status", "tiny").code == 0
    down = app.lmi("down", "tiny", "--yes", "--json")
    assert (down.code, down.result["account"]) == (0, THEIRS)
    assert known(app) == [f"tiny.us-east-1.{OURS}.json"]
    app.cloud = deployed_account
    assert app.lmi("status", "tiny").code == 0


def test_every_result_names_account_and_region(app: CloudApp, deployed_account: FakeCloud) -> None:
    place = {"account": OURS, "region": "us-east-1"}
    write_recipe(RECIPE + "options: {dtype: fp32}\n")
    for command in (("up", "--yes"), ("extend", "tiny", "8h"), ("rollback", "tiny", "--yes")):
        assert place.items() <= app.lmi(*command, "--json").result.items(), command
    assert place.items() <= app.lmi("status", "tiny", "--json").result["ref"].items()
    assert f"account {OURS}, us-east-1" in app.lmi("status", "tiny").out
    requests = app.lmi("down", "tiny", stdin=b"n\n", terminal=True)
    assert f"Delete tiny (account {OURS}, us-east-1)? [y/N] " in requests.err
    assert place.items() <= app.lmi("down", "tiny", "--yes", "--json").result.items()
    again = app.lmi("down", "tiny", "--yes", "--json")
    assert (again.code, place.items() <= again.result.items()) == (0, True)


def test_logs_of_an_unknown_name_are_not_awaited(app: CloudApp) -> None:
    result = app.lmi("logs", "nobody", "--target", "sagemaker")
    assert result.code == 1
    assert "nobody: no such deployment in " in result.err
    assert "next: `lmi ls` lists the deployments" in result.err
