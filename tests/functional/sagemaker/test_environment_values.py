"""The values of container.environment go to the container, and are neither shown nor recorded."""

from __future__ import annotations

from lmi_deploy.domain.environment_digests import value_digest
from tests.support.cloud_app import RECIPE, CloudHouse, write_recipe

FIRST, SECOND = "canary-4711", "canary-0815"
RECORD = "deployments/tiny/record.json"


def recipe(value: str) -> str:
    return f"{RECIPE}container: {{environment: {{FEATURE_SERVER: {value}}}}}\n"


def record(house: CloudHouse) -> str:
    return house.cloud.stores[house.bucket].objects[RECORD].decode()


def test_an_environment_variable_is_planned_and_recorded_by_its_digest(house: CloudHouse) -> None:
    write_recipe(recipe(FIRST))
    shown = [house.lmi("plan", "--json").out, house.up("--json").out]
    [model] = house.cloud.world.models.values()
    assert ("FEATURE_SERVER", FIRST) in model.settings.environment
    write_recipe(recipe(SECOND))
    plan = house.lmi("plan")
    assert f"environment.FEATURE_SERVER: {value_digest(FIRST)} -> {value_digest(SECOND)}" in plan.out
    shown += [plan.out, house.lmi("plan", "--json").out, house.lmi("status", "tiny", "--json").out]
    assert not [text for text in (*shown, record(house)) if "canary" in text]


def test_an_interrupted_up_records_no_value(house: CloudHouse) -> None:
    write_recipe(recipe(FIRST))
    house.cloud.world.trouble.lost.append("create_model")
    assert house.lmi("up", "--yes").code != 0
    assert value_digest(FIRST) in record(house)
    assert FIRST not in record(house)


def test_a_record_of_an_older_lmi_shows_no_change_and_loses_its_values(house: CloudHouse) -> None:
    write_recipe(recipe(FIRST))
    house.up()
    objects = house.cloud.stores[house.bucket].objects
    objects[RECORD] = objects[RECORD].replace(value_digest(FIRST).encode(), FIRST.encode())
    write_recipe(recipe(FIRST) + "options: {dtype: fp32}\n")
    plan = house.lmi("plan").out
    assert "option.dtype" in plan
    assert "FEATURE_SERVER" not in plan
    house.up()
    assert FIRST not in record(house)
