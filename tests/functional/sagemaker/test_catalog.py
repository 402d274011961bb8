"""`lmi catalog`: the known tables, refreshed prices, and `instance_type: auto` after prices change."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lmi_deploy.errors import AccessError, CloudError
from tests.support.cloud_app import MODEL, CloudApp
from tests.support.local_app import LocalApp, Ran
from tests.support.model_shapes import LLAMA_8B

REFRESH = ("catalog", "refresh", "--region", "us-east-1")
AUTO = ("--set", "engine=vllm", "--set", "instance_type=auto", "--set", "options.max_model_len=4096")


def known(app: CloudApp) -> dict[str, float]:
    lines = app.lmi("instances", "--all", "--json").lines
    return {line["instance"]: line["usd_per_hour"] for line in lines if line.get("usd_per_hour")}


def test_catalog_lists_each_table_with_source_and_date(app: CloudApp) -> None:
    result = app.lmi("catalog", "--json")
    assert result.code == 0
    rows = [line for line in result.lines if line["event"] == "row"]
    assert {"images", "instance types", "options of LMI", "known failures", "prices"} <= {
        row["table"] for row in rows
    }
    assert all(row["date"] and row["source"] and row["entries"] for row in rows)
    (types,) = (row["entries"] for row in rows if row["table"] == "instance types")
    assert types == "277 types, 272 described"
    assert {row["region"] for row in rows if row["table"] == "prices"} == {
        *("eu-west-1", "us-east-1", "us-west-2"),
    }
    assert [warning.partition(" are older")[0] for warning in result.result["warnings"]] == [
        "5 of 5 prices of eu-west-1",
        "33 of 36 prices of us-east-1",
        "22 of 22 prices of us-west-2",
    ]


def test_refresh_reports_the_changes_and_is_used_from_then_on(app: CloudApp) -> None:
    before = known(app)
    app.cloud.prices.hourly_of = {**before, "ml.g5.xlarge": 1.0, "ml.p5en.48xlarge": 60.0}
    del app.cloud.prices.hourly_of["ml.g5.2xlarge"]
    result = app.lmi(*REFRESH, "--json")
    assert result.code == 0, result.err
    (found,) = result.result["refreshed"]
    assert found == {
        "region": "us-east-1",
        "date": "2026-11-21",
        "prices": len(before),
        "changed": ["ml.g5.xlarge"],
        "new": ["ml.p5en.48xlarge"],
        "gone": ["ml.g5.2xlarge"],
    }
    assert known(app) == app.cloud.prices.hourly_of
    assert "none changed" in app.lmi(*REFRESH).err


def test_refreshed_prices_older_than_half_a_year_are_warned_of(app: CloudApp) -> None:
    assert app.lmi(*REFRESH).code == 0
    app.clock.passed = 200 * 86400.0
    (warning,) = app.lmi("instances", "--json").result["warnings"]
    assert warning.startswith("2 of 2 prices of us-east-1 are older than half a year or of unknown age")
    app.cloud.prices.date = "2027-06-01"
    assert app.lmi(*REFRESH).code == 0
    assert app.lmi("instances", "--json").result["warnings"] == []


def test_region_without_prices_is_refused_and_the_others_are_kept(app: CloudApp) -> None:
    app.cloud.prices.hourly_of = {"ml.g5.xlarge": 1.0}
    result = app.lmi(*REFRESH, "--region", "eu-north-1")
    assert result.code == 1
    assert "error: eu-north-1: no hosting prices" in result.err
    assert known(app) == {"ml.g5.xlarge": 1.0}


@pytest.mark.parametrize(
    ("error", "code"), [(AccessError("denied", hint="ask"), 1), (KeyboardInterrupt(), 130)]
)
def test_denied_or_interrupted_refresh_changes_nothing(
    app: CloudApp, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int
) -> None:
    app.cloud.prices.hourly_of = {"ml.g5.xlarge": 1.0}
    assert app.lmi(*REFRESH).code == 0
    app.cloud.prices.interrupted_by = error
    assert app.lmi(*REFRESH).code == code
    assert known(app) == {"ml.g5.xlarge": 1.0}


def test_unknown_region_is_refused_before_a_request(app: CloudApp) -> None:
    result = app.lmi("catalog", "refresh", "--region", "../us-east-1")
    assert result.code == 2
    assert "../us-east-1: no such AWS region" in result.err
    assert app.lmi("catalog", "refersh").code == 2


def test_refresh_without_credentials_needs_a_region(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = LocalApp(tmp_path).lmi("catalog", "refresh")
    assert result.code == 2
    assert "--region: not given, and the one of the credentials is unknown: no cloud here" in result.err


@pytest.fixture
def small(app: CloudApp) -> CloudApp:
    app.hub.models[MODEL]["config.json"] = json.dumps(LLAMA_8B).encode()
    return app


def instance_of(app: CloudApp) -> str:
    observed = app.observe()
    assert observed.config is not None
    return observed.config.settings.instance


def planned(app: CloudApp, *more: str) -> Ran:
    result = app.lmi("plan", *AUTO, *more)
    assert result.code == 0, result.err
    return result


def cheaper(app: CloudApp, name: str) -> None:
    """The list makes one type cheaper than all others."""
    app.cloud.prices.hourly_of = {**known(app), name: 0.01}
    assert app.lmi(*REFRESH).code == 0


def test_auto_keeps_the_type_when_prices_change(small: CloudApp) -> None:
    assert small.lmi("up", "--yes", *AUTO).code == 0
    first = instance_of(small)
    cheaper(small, "ml.g6e.2xlarge")
    assert small.lmi("plan", *AUTO, "--exit-code").code == 0
    result = planned(small)
    assert f"instance_type auto: {first}, " in result.err
    assert "the deployment's type, which still holds the model (fits); " in result.err
    assert (
        "ml.g6e.2xlarge costs 0.01: to move there, run once with `--set instance_type=ml.g6e.2xlarge`"
        in result.err
    )
    assert small.lmi("up", "--yes", *AUTO).code == 0
    assert instance_of(small) == first


def test_auto_keeps_a_type_that_lost_its_price(small: CloudApp) -> None:
    assert small.lmi("up", "--yes", *AUTO).code == 0
    first = instance_of(small)
    small.cloud.prices.hourly_of = {"ml.g6e.2xlarge": 2.8}
    assert small.lmi(*REFRESH).code == 0
    assert f"instance_type auto: {first}, at an unknown price in us-east-1, the" in planned(small).err
    assert small.lmi("plan", *AUTO, "--exit-code").code == 0


def test_auto_keeps_the_type_when_the_record_is_lost(small: CloudApp) -> None:
    assert small.lmi("up", "--yes", *AUTO).code == 0
    first = instance_of(small)
    cheaper(small, "ml.g6e.2xlarge")
    small.depot().records.remove("tiny")
    assert f"instance_type auto: {first}, " in planned(small).err
    assert small.lmi("up", "--yes", *AUTO).code == 0
    assert instance_of(small) == first


def test_type_named_once_moves_the_deployment_and_auto_keeps_it(small: CloudApp) -> None:
    assert small.lmi("up", "--yes", *AUTO).code == 0
    moved = (*AUTO, "--set", "instance_type=ml.g6e.2xlarge")
    assert small.lmi("up", "--yes", *moved).code == 0
    assert instance_of(small) == "ml.g6e.2xlarge"
    assert small.lmi("plan", *AUTO, "--exit-code").code == 0


def test_auto_chooses_again_when_its_type_no_longer_holds_the_model(small: CloudApp) -> None:
    assert small.lmi("up", "--yes", *AUTO).code == 0
    first = instance_of(small)
    result = planned(small, "--set", "tensor_parallel_degree=2")
    assert f"; {first}, the deployment's type, no longer holds it" in result.err
    assert "the cheapest that holds the model" in result.err


def test_auto_takes_the_cheapest_after_down(small: CloudApp) -> None:
    assert small.lmi("up", "--yes", *AUTO).code == 0
    cheaper(small, "ml.g6e.2xlarge")
    assert small.lmi("down", "tiny", "--yes").code == 0
    assert (
        "instance_type auto: ml.g6e.2xlarge, 0.01 USD per hour in us-east-1, the cheapest"
        in planned(small).err
    )


def test_plan_with_auto_warns_of_old_and_damaged_prices(small: CloudApp) -> None:
    old = "prices of us-east-1 are older than half a year"
    assert f"33 of 36 {old}" in planned(small).err
    assert small.lmi(*REFRESH).code == 0
    assert old not in planned(small).err
    (small.root / "cache" / "prices" / "us-east-1.json").write_text("{")
    assert "us-east-1.json: damaged; the packaged prices are used instead" in planned(small).err


@pytest.fixture
def online(small: CloudApp) -> CloudApp:
    """`lmi` reads the list by itself; it makes one type cheaper than all others, and has all that are packaged."""
    small.refreshes_prices = True
    small.cloud.prices.hourly_of = {**known(small), "ml.g6e.2xlarge": 0.01}
    return small


def test_old_prices_are_refreshed_where_types_are_compared(online: CloudApp) -> None:
    assert "ml.g6e.2xlarge, 0.01 USD per hour in us-east-1, the cheapest" in planned(online).err
    online.cloud.prices.hourly_of["ml.g6e.2xlarge"] = 0.02
    online.clock.passed = 7 * 86400.0
    assert "ml.g6e.2xlarge, 0.01 USD" in planned(online).err
    online.clock.passed = 8 * 86400.0
    assert "ml.g6e.2xlarge, 0.02 USD" in planned(online).err


def test_new_recipe_has_the_price_of_today(online: CloudApp) -> None:
    result = online.lmi("init", MODEL, "-o", "new.yaml", "--json")
    assert result.result["instance_type"] == "ml.g6e.2xlarge", result.err
    assert "price" not in " ".join(result.result["notes"])


def test_list_that_cannot_be_read_is_a_notice_and_asked_once_a_day(online: CloudApp) -> None:
    online.cloud.prices.interrupted_by = CloudError("no route", hint="")
    notice = "no route; lmi goes on with the prices that it has, and tries again tomorrow"
    assert notice in planned(online).err
    assert "no route" not in planned(online).err
    online.clock.passed = 86400.0
    assert notice in planned(online).err


def test_without_leave_the_list_is_not_read(online: CloudApp) -> None:
    online.refreshes_prices = False
    assert "ml.g6e.2xlarge, 0.01" not in planned(online).err


def test_price_that_the_api_does_not_give_is_looked_up_in_the_list(online: CloudApp) -> None:
    """Without the permission for the API, the tables of this machine are all that there is."""
    fake = online.cloud.prices
    fake.hourly_of, fake.only_listed = {}, {"ml.g5.xlarge": 1.41, "ml.g6.xlarge": 1.2}
    fake.known = lambda instance: online.price_cache.read().price(instance, "us-east-1")
    result = online.lmi("plan", "--max-hourly", "2")
    assert (result.code, "cost: $1.41 an hour (1 x ml.g5.xlarge; a fake of 2026-11-01)" in result.out) == (
        0,
        True,
    )


def test_unknown_price_is_said_with_the_way_to_it(app: CloudApp) -> None:
    app.cloud.prices.hourly_of = {}
    way = "`lmi catalog refresh --region us-east-1` reads AWS's price list"
    assert f"a price is unknown: {way}" in app.lmi("plan").err
    refused = app.lmi("plan", "--max-hourly", "9")
    assert (refused.code, way in refused.err) == (5, True)


def test_old_price_in_a_plan_is_said_with_its_age(app: CloudApp) -> None:
    app.clock.passed = 200 * 86400.0
    app.cloud.prices.hourly_of["ml.g6.xlarge"] = 1.2
    words = "the price of ml.g5.xlarge and ml.g6.xlarge is older than half a year, or of unknown age: `lmi catalog"
    assert words in app.lmi("plan").err
    app.cloud.prices.date = "2027-06-01"
    assert words not in app.lmi("plan").err
