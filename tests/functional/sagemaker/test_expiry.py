"""How long a deployment may live: told, moved, compared, and looked at again before anything is deleted for it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lmi_deploy.domain.sagemaker.settings import TAG_EXPIRES, TAG_TTL
from lmi_deploy.errors import CloudError
from tests.functional.sagemaker.test_lifecycle import CHANGED, steps
from tests.support.cloud_app import RECIPE, CloudHouse, write_recipe

HOUR = RECIPE + "ttl: 1h\n"


def tags(house: CloudHouse, name: str = "tiny") -> dict[str, str]:
    world = house.cloud.world
    return dict(world.tags[world.arn("endpoint", name)])


def expired(house: CloudHouse, *names: str) -> None:
    """Deployments that were brought up an hour and a bit ago, for an hour."""
    for name in names or ("tiny",):
        write_recipe(HOUR.replace("name: tiny", f"name: {name}"))
        house.up()
    house.clock.sleep(4000)


def in_between(house: CloudHouse, deed: Callable[[], object]) -> None:
    """Somebody acts after `gc` listed what has expired, and before it takes the lock."""
    real, waiting = house.cloud.depot, [deed]

    def depot(*args: object) -> object:
        found = real(*args)  # type: ignore[arg-type]
        hold = found.lock.hold if found else None

        def held(name: str) -> object:
            if waiting:
                waiting.pop()()
            return hold(name)  # type: ignore[misc]

        if found:
            object.__setattr__(found.lock, "hold", held)
        return found

    house.cloud.depot = depot  # type: ignore[method-assign, assignment]


def test_gc_spares_what_was_extended_while_its_question_waited(house: CloudHouse) -> None:
    expired(house)
    world = house.cloud.world
    arn = world.arn("endpoint", "tiny")
    later = (("lmi:deployment", "tiny"), (TAG_EXPIRES, "2999-01-01T00:00:00"))
    in_between(house, lambda: world.tags.update({arn: later}))
    ran = house.lmi("gc", "--yes", "--json")
    assert ran.code == 0, ran.out
    assert (ran.result["ended"], ran.result["kept"]) == (0, ["tiny"])
    assert "stays: it may live until 2999-01-01T00:00:00" in ran.out
    assert "tiny" in world.endpoints
    assert house.lmi("status", "tiny").code == 0


def test_gc_spares_what_was_brought_up_while_its_question_waited(house: CloudHouse) -> None:
    """Parts of an interrupted run, which an `up` has gone on with."""
    house.up()
    world, record = house.cloud.world, house.depot().records.read("tiny")
    assert record is not None
    kept = world.endpoints.pop("tiny")
    arn = world.arn("endpoint", "tiny")
    endpoint_tags = world.tags.pop(arn)
    house.depot().records.remove("tiny")

    def brought_up() -> None:
        world.endpoints["tiny"] = kept
        world.tags[arn] = endpoint_tags

    in_between(house, brought_up)
    ran = house.lmi("gc", "--yes", "--json")
    assert (ran.code, ran.result["kept"]) == (0, ["tiny"]), ran.out
    assert world.models
    assert world.configs


def test_gc_goes_on_past_what_is_locked_or_fails_and_sums_up(house: CloudHouse) -> None:
    expired(house, "tiny", "other", "third")
    with house.depot().lock.hold("other"):
        ran = house.lmi("gc", "--yes")
        assert ran.code == 5, ran.err
    assert (
        "1 deployment could not be taken away: other; 2 deployments taken away, 0 leftovers freed" in ran.err
    )
    assert "locked by lmi test" in ran.err
    assert [*house.cloud.world.endpoints] == ["other"]
    house.cloud.world.trouble.before["delete_endpoint"] = [CloudError("not now", hint="later")]
    failed = house.lmi("gc", "--yes", "--json")
    assert failed.code == 1
    assert "could not be taken away: other; 0 deployments" in failed.result["error"]["message"]
    assert house.lmi("gc", "--yes").code == 0
    assert house.cloud.world.endpoints == {}


def test_a_tag_that_names_no_time_zone_or_no_time(house: CloudHouse) -> None:
    house.up()
    world = house.cloud.world
    arn = world.arn("endpoint", "tiny")
    plain = world.tags[arn]
    world.tags[arn] = (*plain, (TAG_EXPIRES, "whenever"))
    assert "tiny" not in house.lmi("gc", "--yes").out
    world.tags[arn] = (*plain, (TAG_EXPIRES, "2001-01-01T00:00:00"))
    assert "expired at 2001-01-01T00:00:00" in house.lmi("gc", "--yes").out
    assert world.endpoints == {}


def test_a_ttl_added_changed_or_removed_is_a_change_of_the_plan(house: CloudHouse) -> None:
    house.up()
    write_recipe(HOUR)
    plan = house.lmi("plan", "--exit-code")
    assert (plan.code, "let tiny live for 1h from now" in plan.out) == (4, True)
    assert steps(house.lmi("up", "--yes", "--json").lines) == ["SetExpiry"]
    first = tags(house)
    assert first[TAG_TTL] == "3600"
    assert "nothing to do" in house.up().err
    write_recipe(RECIPE + "ttl: 8h\n")
    assert "ttl: 1h -> 8h" in house.lmi("plan").out
    house.up()
    assert tags(house)[TAG_EXPIRES] > first[TAG_EXPIRES]
    write_recipe(RECIPE)
    assert "ttl: 8h -> (none)" in house.lmi("plan").out
    house.up()
    assert not {TAG_EXPIRES, TAG_TTL} & tags(house).keys()


@pytest.mark.parametrize("changed", [(), CHANGED])
def test_an_up_does_not_undo_what_was_extended(house: CloudHouse, changed: tuple[str, ...]) -> None:
    write_recipe(HOUR)
    house.up()
    assert house.lmi("extend", "tiny", "7d").code == 0
    extended = tags(house)[TAG_EXPIRES]
    house.up(*changed)
    assert tags(house)[TAG_EXPIRES] == extended
    assert house.lmi("status", "tiny", "--json").result["expires"] == extended


def test_an_up_of_an_expired_deployment_says_so_and_moves_the_stamp(house: CloudHouse) -> None:
    expired(house)
    before = tags(house)[TAG_EXPIRES]
    plan = house.lmi("plan")
    assert f"tiny expired at {before}" in plan.err
    assert "let tiny live for 1h from now" in plan.out
    ran = house.up()
    assert f"tiny expired at {before}" in ran.err
    assert tags(house)[TAG_EXPIRES] > before
    assert "tiny" not in house.lmi("gc", "--yes").out
    assert "expired" not in house.lmi("plan").err


def test_an_up_of_what_was_extended_without_a_ttl_and_expired_removes_the_stamp(house: CloudHouse) -> None:
    house.up()
    assert house.lmi("extend", "tiny", "60").code == 0
    house.clock.sleep(100)
    assert "has no expiry any more: the recipe has no ttl" in house.up().err
    assert TAG_EXPIRES not in tags(house)


def test_an_expired_deployment_is_told_by_status_plan_and_ls(house: CloudHouse) -> None:
    write_recipe(HOUR)
    house.up()
    assert house.lmi("status", "tiny", "--json").result["expired"] is False
    house.clock.sleep(4000)
    status = house.lmi("status", "tiny", "--json")
    assert (status.code, status.result["standing"], status.result["expired"]) == (0, "in-step", True)
    assert (
        "(expired: `lmi gc` may delete it, `lmi extend tiny 8h` keeps it)" in house.lmi("status", "tiny").out
    )
    assert "expired at" in house.lmi("plan").err
    (row,) = (line for line in house.lmi("ls", "--json").lines if line["event"] == "row")
    assert (row["expired"], row["expires"]) == (True, status.result["expires"])
    assert house.lmi("ls").out.splitlines()[1].endswith("yes")


@pytest.mark.parametrize("duration", ["59s", "91d", "999999999d", "7", "0h", "soon", "8 h", "-1h"])
def test_extend_has_the_bound_of_ttl(house: CloudHouse, duration: str) -> None:
    house.up()
    ran = house.lmi("extend", "tiny", "--", duration)
    assert (ran.code, "seconds" in ran.err or "duration" in ran.err) == (2, True), ran.err
    assert TAG_EXPIRES not in tags(house)


def test_extend_waits_for_no_lock_that_somebody_holds(house: CloudHouse) -> None:
    house.up()
    with house.depot().lock.hold("tiny"):
        ran = house.lmi("extend", "tiny", "8h")
    assert (ran.code, "locked by" in ran.err) == (5, True)
