"""`endpoint.scheduler_role`: AWS deletes the endpoint at its expiry, with no lmi running."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from lmi_deploy.domain.sagemaker.expiry import parse_moment
from lmi_deploy.domain.sagemaker.resource_settings import TAG_EXPIRES, TAG_SCHEDULER
from tests.functional.sagemaker.test_expiry import tags
from tests.support.cloud_app import RECIPE, CloudApp, write_recipe

SCHEDULED = RECIPE + "ttl: 8h\nendpoint: {scheduler_role: lmi-scheduler}\n"


def deployed(app: CloudApp, recipe: str = SCHEDULED) -> None:
    write_recipe(recipe)
    app.up()


def planned(app: CloudApp) -> list[str]:
    return [action["key"].partition(":")[0] for action in app.lmi("plan", "--json").result["actions"]]


def moment(text: str) -> datetime:
    found = parse_moment(text)
    assert found is not None
    return found


def at(app: CloudApp) -> datetime:
    return moment(app.cloud.schedules.found["tiny"].at)


def test_schedule_exists_before_the_endpoint_and_follows_its_tag(app: CloudApp) -> None:
    write_recipe(SCHEDULED)
    actions = planned(app)
    assert actions.index("ScheduleDeletion") < actions.index("CreateEndpoint")
    app.up()
    assert app.cloud.schedules.found["tiny"].role.endswith(":role/lmi-scheduler")
    assert tags(app)[TAG_SCHEDULER] == app.cloud.schedules.found["tiny"].role
    assert abs(at(app) - moment(tags(app)[TAG_EXPIRES])) < timedelta(minutes=5)
    assert planned(app) == []
    assert "EventBridge Scheduler deletes it" in app.lmi("status", "tiny").out


def test_extend_moves_the_schedule_and_down_removes_it(app: CloudApp) -> None:
    deployed(app)
    assert app.lmi("extend", "tiny", "2d").code == 0
    assert at(app) == moment(tags(app)[TAG_EXPIRES])
    assert planned(app) == []
    assert app.lmi("down", "tiny", "--yes").code == 0
    assert app.cloud.schedules.found == {}


def test_schedule_deleted_by_hand_is_created_again_at_the_old_time(app: CloudApp) -> None:
    deployed(app)
    expires = tags(app)[TAG_EXPIRES]
    app.cloud.schedules.found.clear()
    app.clock.sleep(3600)
    assert planned(app) == ["ScheduleDeletion"]
    app.up()
    assert (at(app), tags(app)[TAG_EXPIRES]) == (moment(expires), expires)


@pytest.mark.parametrize("changed", [RECIPE, RECIPE + "ttl: 8h\n"])
def test_schedule_ends_with_its_key_or_the_ttl(app: CloudApp, changed: str) -> None:
    deployed(app)
    deployed(app, changed)
    assert app.cloud.schedules.found == {}
    assert TAG_SCHEDULER not in tags(app)


def test_gc_removes_the_resources_that_a_scheduled_deletion_keeps(app: CloudApp) -> None:
    deployed(app)
    app.clock.sleep(9 * 3600)
    app.cloud.schedules.run_due(app.clock.now().isoformat())
    assert "tiny" not in app.cloud.account_state.endpoints
    listed = app.lmi("gc", "--yes")
    assert listed.code == 0, listed.err
    assert "its endpoint was deleted when it expired" in listed.out + listed.err
    assert not app.cloud.account_state.models
    assert not app.cloud.account_state.configs
    assert app.lmi("status", "tiny").code == 4


def test_left_schedule_never_deletes_a_later_endpoint(app: CloudApp) -> None:
    """The endpoint was deleted by hand; the next recipe has no ttl."""
    deployed(app)
    account = app.cloud.account_state
    account.endpoints.pop("tiny")
    account.tags.pop(account.arn("endpoint", "tiny"))
    deployed(app, RECIPE)
    assert app.cloud.schedules.found == {}


def test_foreign_schedule_of_that_name_is_refused_before_the_endpoint(app: CloudApp) -> None:
    app.cloud.schedules.foreign.add("lmi-tiny")
    write_recipe(SCHEDULED)
    result = app.lmi("up", "--yes")
    assert result.code == 5
    assert "schedule lmi-tiny" in result.err
    assert not app.cloud.account_state.endpoints


def test_without_a_role_the_plan_names_who_deletes(app: CloudApp) -> None:
    write_recipe(RECIPE + "ttl: 8h\n")
    assert "set endpoint.scheduler_role" in app.lmi("plan").err


def test_role_that_the_service_may_not_assume_stops_before_anything_is_created(app: CloudApp) -> None:
    write_recipe(SCHEDULED)
    role = f"arn:aws:iam::{app.cloud.account_state.caller.account}:role/lmi-scheduler"
    app.cloud.roles.distrusting[role] = "its trust policy does not let scheduler.amazonaws.com assume it"
    result = app.lmi("up", "--yes")
    assert result.code != 0
    assert "scheduler.amazonaws.com" in result.err
    assert not app.cloud.account_state.models
