"""What others do to the parts of a deployment that serves: its tags taken away, its config and model deleted."""

from __future__ import annotations

import pytest

from lmi_deploy.domain.recipe import Pairs
from lmi_deploy.domain.sagemaker.settings import TAG, EndpointConfigSettings, SeenEndpoint, SeenEndpointConfig
from tests.functional.sagemaker.test_lifecycle import CHANGED, steps
from tests.support.cloud_app import CloudHouse, write_recipe
from tests.support.fake_hosting import Endpoint

PRICE = "$1.41 an hour"
OTHERS: tuple[Pairs | None, ...] = (None, (), ((TAG, "other"),), (("team", "blue"),))
"""What becomes of the endpoint's tags; None: all but the deployment's name stay."""


def take_tags(house: CloudHouse, tags: Pairs | None) -> None:
    world = house.cloud.world
    arn = world.arn("endpoint", "tiny")
    left = tuple(pair for pair in world.tags[arn] if pair[0] != TAG)
    world.tags[arn] = left if tags is None else tags


def everything(house: CloudHouse) -> object:
    world = house.cloud.world
    objects = {key: found.etag for store in house.cloud.stores.values() for key, found in listed(store)}
    return {**world.endpoints}, {**world.configs}, {**world.models}, {**world.tags}, objects


def listed(store: object) -> list[tuple[str, object]]:
    return [(found.key, found) for found in store.list("") if not found.key.endswith("/lock.json")]  # type: ignore[attr-defined]


@pytest.mark.parametrize("tags", OTHERS)
@pytest.mark.parametrize("recorded", [True, False])
def test_down_refuses_while_the_endpoint_lives_on_without_its_tag(
    house: CloudHouse, tags: Pairs | None, *, recorded: bool
) -> None:
    house.up()
    if not recorded:
        house.depot().records.remove("tiny")
    take_tags(house, tags)
    before = everything(house)
    for command in (("down", "tiny", "--yes", "--purge"), ("up", "--yes"), ("up", "--yes", *CHANGED)):
        ran = house.lmi(*command)
        assert ran.code == 5, (command, ran.err)
        assert "an endpoint of that name is there, and is not ours" in ran.err
        assert "aws sagemaker add-tags --region us-east-1 --resource-arn" in ran.err
        assert everything(house) == before, command
    assert PRICE in house.lmi("down", "tiny", "--yes").err
    status = house.lmi("status", "tiny", "--json")
    assert (status.code, status.result["standing"]) == (4, "drifted")
    assert PRICE in status.result["cost"]
    assert "tiny" in house.lmi("ls", "--all").out
    house.lmi("gc", "--yes")
    assert everything(house) == before
    world = house.cloud.world
    world.tags[world.arn("endpoint", "tiny")] = ((TAG, "tiny"),)
    assert house.lmi("down", "tiny", "--yes").code == 0
    assert house.kept_in_cloud() == []


def test_an_index_that_still_shows_the_tag_is_not_believed(house: CloudHouse) -> None:
    """The tag search lags: what is deleted is asked of SageMaker itself."""
    house.up()
    world = house.cloud.world
    arn = world.arn("endpoint", "tiny")
    indexed = dict(world.tags)
    real = world.resources
    world.resources = lambda: (  # type: ignore[method-assign]
        found if found.arn != arn else type(found)(kind="endpoint", name="tiny", arn=arn, tags=indexed[arn])
        for found in real()
    )
    take_tags(house, (("team", "blue"),))
    before = everything(house)
    assert house.lmi("down", "tiny", "--yes").code == 5
    assert everything(house) == before


def test_a_model_that_a_foreign_endpoint_runs_is_not_deleted(house: CloudHouse) -> None:
    """Somebody deleted the endpoint and created one of that name, with a config of their own around our model."""
    house.up()
    world = house.cloud.world
    (model,) = world.models
    settings = EndpointConfigSettings(
        model=model, instance="ml.g5.xlarge", count=1, model_download=60, startup=60
    )
    arn = world.arn("endpoint-config", "theirs")
    world.configs["theirs"] = SeenEndpointConfig(name="theirs", arn=arn, settings=settings, models=(model,))
    world.tagged("endpoint-config", "theirs", ())
    seen = SeenEndpoint(name="tiny", arn=world.arn("endpoint", "tiny"), status="InService", config="theirs")
    world.endpoints["tiny"] = Endpoint(seen)
    world.tags[seen.arn] = ()
    before = everything(house)
    ran = house.lmi("down", "tiny", "--yes")
    assert (ran.code, f"its model {model} carries the tag" in ran.err) == (5, True), ran.err
    assert everything(house) == before


@pytest.mark.parametrize("lost", [("model",), ("endpoint-config",), ("model", "endpoint-config")])
def test_a_config_or_model_deleted_by_hand_is_drift_and_created_again(
    house: CloudHouse, lost: tuple[str, ...]
) -> None:
    house.up()
    world = house.cloud.world
    tables = {"model": world.models, "endpoint-config": world.configs}
    for kind in lost:
        tables[kind].clear()
        for arn in [arn for arn in world.tags if f":{kind}/" in arn]:
            del world.tags[arn]
    status = house.lmi("status", "tiny", "--json")
    assert (status.code, status.result["standing"]) == (4, "drifted")
    for kind in lost:
        assert f"{kind.replace('-', ' ')} tiny-" in status.result["why"]
    changed = house.lmi("plan", *CHANGED)
    assert ("deletes the endpoint tiny and creates it again" in changed.err) == ("endpoint-config" in lost)
    assert "deleted, not by lmi" in house.lmi("plan").err
    ran = house.lmi("up", "--yes", "--json")
    named = {"model": "CreateModel", "endpoint-config": "CreateEndpointConfig"}
    assert steps(ran.lines) == [named[kind] for kind in lost]
    assert house.lmi("status", "tiny").code == 0
    assert "DeleteEndpoint" not in steps(house.lmi("up", "--yes", "--json", *CHANGED).lines)


def test_a_foreign_endpoint_stands_beside_what_an_up_left(house: CloudHouse) -> None:
    """It uses nothing of ours: what is ours goes, and it is left alone."""
    house.up()
    world = house.cloud.world
    theirs = SeenEndpoint(name="tiny", arn=world.arn("endpoint", "tiny"), status="InService", config="theirs")
    world.endpoints["tiny"] = Endpoint(theirs)
    world.tags[theirs.arn] = (("team", "blue"),)
    ran = house.lmi("down", "tiny", "--yes")
    assert ran.code == 0, ran.err
    assert "an endpoint of that name is there, and is not ours" in ran.err
    assert world.endpoints["tiny"].seen == theirs
    assert not world.models
    write_recipe()
    assert house.lmi("up", "--yes").code == 5
