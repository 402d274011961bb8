"""Eventual consistency: what was made a moment ago is waited for, with a word after a moment, for a minute at most."""

from __future__ import annotations

import pytest

from lmi_deploy.errors import NotFound
from lmi_deploy.targets.sagemaker.propagation import Propagation
from tests.support.cloud_app import RECIPE, CloudHouse, write_recipe

BY_JOB = RECIPE + "weights: {via: job}\n"


@pytest.mark.parametrize("lag", ["read_lag", "role_lag"])
@pytest.mark.parametrize("recipe", [RECIPE, BY_JOB], ids=["from here", "by a job"])
def test_what_was_just_made_is_waited_for(house: CloudHouse, lag: str, recipe: str) -> None:
    write_recipe(recipe)
    setattr(house.cloud.world, lag, 30.0)
    lines = house.up("--json").lines
    notices = [line["text"] for line in lines if "everywhere yet" in line.get("text", "")]
    assert all(text.endswith("it is asked again, for 60 s at most") for text in notices)
    assert 1 <= len(notices) <= 2
    told = [line for line in lines if "everywhere yet" in line.get("note", "")]
    first = told[0]
    assert (first["unit"], first["total"]) == ("seconds", 60.0)
    assert 2 <= first["done"] <= 10
    assert told[-1]["done"] <= 30
    assert house.lmi("status", "tiny").code == 0
    house.up("--set", "options.dtype=fp32")


@pytest.mark.parametrize(
    ("lag", "what"),
    [("read_lag", "the model tiny-"), ("role_lag", "the role lmi-endpoint")],
)
def test_after_a_minute_it_is_an_error_that_says_so(house: CloudHouse, lag: str, what: str) -> None:
    setattr(house.cloud.world, lag, 1e9)
    begun = house.clock.passed
    ran = house.lmi("up", "--yes", "--json")
    assert ran.code == 1
    assert 60 <= house.clock.passed - begun <= 65
    error = ran.result["error"]
    assert what in error["message"]
    assert "was waited for for 60 s" in error["message"]
    assert "run the same command again" in error["hint"]


def test_what_nobody_made_is_not_waited_for(house: CloudHouse) -> None:
    cloud = house.cloud.cloud()
    propagation = Propagation(cloud=cloud, clock=house.clock)
    arn = house.cloud.world.arn("model", "mistyped")

    def request() -> None:
        raise NotFound("model mistyped: not found", arn=arn)

    with pytest.raises(NotFound):
        list(propagation.until_found("model", "mistyped", request, key="k"))
    propagation.made.add("other")
    with pytest.raises(NotFound):
        list(propagation.until_found("model", "other", request, key="k"))
    assert house.clock.passed == 0


def test_a_role_that_iam_says_is_not_there_is_not_waited_for(house: CloudHouse) -> None:
    house.cloud.world.role_lag = 1e9
    cloud = house.cloud.cloud()
    house.cloud.roles.absent.add("r")
    with pytest.raises(Exception, match="Could not assume role"):
        list(
            Propagation(cloud=cloud, clock=house.clock).until_assumable(
                "r", lambda: house.cloud.world.require_role("model m"), key="k"
            )
        )
    assert house.clock.passed == 0


def test_what_the_tag_search_still_lists_is_made_again(house: CloudHouse) -> None:
    """After a `down` it goes on listing what is gone, for minutes."""
    house.cloud.world.tag_lag = 600.0
    house.up()
    house.clock.sleep(700)
    assert house.lmi("down", "tiny", "--yes").code == 0
    house.up()
    assert house.lmi("status", "tiny").code == 0
    house.up("--set", "options.dtype=fp32")
    house.clock.sleep(700)
    (gone, current) = (generation.server for generation in house.record().generations)
    world = house.cloud.world
    assert (world.endpoints["tiny"].seen.config, gone in world.configs) == (current, True)
    house.cloud.cloud().hosting.delete_endpoint_config(gone)
    ran = house.lmi("rollback", "tiny", "--yes")
    assert (ran.code, "no earlier generation" in ran.err) == (1, True), ran.err


def test_tags_are_compared_with_the_endpoints_own(house: CloudHouse) -> None:
    """The tag search shows those of an earlier `up`: neither put again, nor taken for the ones of now."""
    house.cloud.world.tag_lag = 600.0
    one, other = ("--set", "endpoint.tags.team=blue"), ("--set", "endpoint.tags.team=red")
    house.up(*one)
    house.clock.sleep(700)
    house.up(*other)
    assert house.lmi("plan", *other, "--exit-code").code == 0
    house.up(*one)
    world = house.cloud.world
    assert dict(world.tags[world.arn("endpoint", "tiny")])["team"] == "blue"
