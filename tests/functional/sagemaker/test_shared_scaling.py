"""`endpoint.autoscaling` of a model on a shared endpoint: its copies, down to none, and `lmi scale`."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from lmi_deploy.domain.sagemaker.component_settings import ObservedComponent
from lmi_deploy.errors import AccessError, CloudError
from tests.functional.sagemaker.test_shared_endpoint import actions, up, write
from tests.support.cloud_app import CloudApp, while_waiting

SCALED = ", autoscaling: {min: 1, max: 4, concurrent_requests_per_model: 8}"
ZERO = (
    ", instance_scaling: {min: 0, max: 2}, "
    "autoscaling: {min: 0, max: 4, concurrent_requests_per_model: 8, scale_in_cooldown: 10m}"
)


def deployed(app: CloudApp, endpoint: str, **more: str) -> None:
    write("chat", endpoint=endpoint, **more)
    up(app, "chat")


def copies(app: CloudApp) -> int:
    return app.cloud.account_state.components["chat"].observed.copies


def by_autoscaling(app: CloudApp, number: int) -> None:
    app.cloud.cloud().components.set_copies("chat", number)
    app.clock.sleep(1000)


def changes(app: CloudApp) -> dict[str, tuple[str, str]]:
    found = app.lmi("plan", "chat.yaml", "--json").result["changes"]
    return {each["field"]: (each["before"], each["after"]) for each in found}


def test_copies_follow_the_load_and_are_no_drift(app: CloudApp) -> None:
    deployed(app, SCALED)
    live = app.cloud.scalers.components["chat"]
    assert (live.least, live.most, live.concurrency, live.steps) == (1, 4, 8.0, ())
    assert app.cloud.scalers.targets == {}
    by_autoscaling(app, 3)
    assert actions(app, "chat") == []
    status = app.lmi("status", "chat")
    assert status.code == 0, status.out
    assert "InService, 3 of 3 copies" in status.out
    assert "1 to 4 copies, 8 concurrent requests each" in status.out


def test_update_keeps_the_number_that_autoscaling_set(app: CloudApp) -> None:
    deployed(app, SCALED)
    by_autoscaling(app, 3)
    first = app.cloud.account_state.components["chat"].observed.settings
    write("chat", endpoint=SCALED, more="options: {dtype: fp32}")
    up(app, "chat")
    assert copies(app) == 3
    assert app.cloud.account_state.components["chat"].observed.settings.model != first.model
    assert app.lmi("status", "chat").code == 0
    assert app.lmi("rollback", "chat", "--yes").code == 0
    assert app.cloud.account_state.components["chat"].observed.settings == first
    assert app.lmi("status", "chat").code == 0


def test_scaling_is_changed_removed_and_repaired(app: CloudApp) -> None:
    deployed(app, SCALED)
    app.cloud.scalers.components["chat"] = replace(app.cloud.scalers.components["chat"], most=2)
    status = app.lmi("status", "chat")
    assert (status.code, "scaling: 1 to 2 copies instead of 1 to 4 copies" in status.out) == (4, True)
    assert actions(app, "chat") == ["set-scaling"]
    up(app, "chat")
    by_autoscaling(app, 4)
    write("chat")
    assert actions(app, "chat")[:2] == ["remove-scaling", "set-copy-count"]
    up(app, "chat")
    assert (copies(app), app.cloud.scalers.components) == (1, {})
    assert actions(app, "chat") == []


def test_down_ends_the_scaling_before_the_model(app: CloudApp) -> None:
    deployed(app, SCALED)
    assert app.lmi("down", "chat", "--yes").code == 0
    assert app.cloud.scalers.components == {}
    calls = app.cloud.account_state.calls
    assert calls.index("remove_scaling") < calls.index("delete_component")


def test_failed_model_leaves_no_scaling_behind(app: CloudApp) -> None:
    deployed(app, SCALED)
    state = app.cloud.account_state
    found = state.components["chat"]
    state.components["chat"] = replace(found, observed=replace(found.observed, status="Failed"))
    assert actions(app, "chat")[:2] == ["remove-scaling", "delete-inference-component"]
    up(app, "chat")
    assert app.cloud.scalers.components["chat"].most == 4


def test_zero_copies_have_the_step_from_zero_and_the_endpoint_managed_instances(app: CloudApp) -> None:
    deployed(app, ZERO)
    (config,) = app.cloud.account_state.configs.values()
    scaling = config.settings.instance_scaling
    assert scaling is not None
    assert (config.settings.count, scaling.min, scaling.max) == (1, 0, 2)
    (step,) = app.cloud.scalers.components["chat"].steps
    assert (step.name, step.metric, step.statistic, step.threshold) == (
        "from-zero",
        "NoCapacityInvocationFailures",
        "Sum",
        1.0,
    )
    assert (step.dimensions, step.minutes, step.cooldown) == ((("InferenceComponentName", "chat"),), 1, 60)
    assert app.lmi("plan", "chat.yaml", "--exit-code").code == 0


def test_price_of_a_shared_endpoint_begins_at_nothing(app: CloudApp) -> None:
    app.cloud.prices.hourly_of["ml.g5.12xlarge"] = 7.0
    write("chat", endpoint=ZERO)
    planned = app.lmi("plan", "chat.yaml").out
    assert "$0.00 to $14.00 an hour (0 to 2 x ml.g5.12xlarge" in planned
    assert "0 to 4 x (1 accelerator" in planned
    refused = app.lmi("up", "--yes", "chat.yaml", "--max-hourly", "10")
    assert (refused.code, "may cost $0.00 to $14.00" in refused.err) == (5, True)


def test_without_copies_it_is_in_step_and_up_sends_no_probe(app: CloudApp) -> None:
    deployed(app, ZERO)
    assert app.lmi("scale", "chat", "0", "--yes").code == 0
    assert copies(app) == 0
    status = app.lmi("status", "chat")
    assert (status.code, "InService, 0 of 0 copies" in status.out) == (0, True)
    again = app.lmi("up", "--yes", "chat.yaml")
    assert (again.code, copies(app)) == (0, 0), again.err
    assert "chat was not asked: it has no copy now" in again.err
    write("chat", endpoint=ZERO, more="options: {dtype: fp32}")
    up(app, "chat")
    assert copies(app) == 1


def test_all_recipes_of_an_endpoint_scale_its_instances_alike(app: CloudApp) -> None:
    deployed(app, ZERO)
    write("code")
    refused = app.lmi("plan", "code.yaml")
    assert (refused.code, "endpoint.instance_scaling 0 to 2, and this recipe says none" in refused.err) == (
        5,
        True,
    )
    write("code", endpoint=", instance_scaling: {min: 0, max: 2}, component: {copies: 3}")
    up(app, "code")
    assert "set_instance_count" not in app.cloud.account_state.calls
    write("code", endpoint=", instance_scaling: {min: 0, max: 2}, component: {copies: 8}")
    full = app.lmi("plan", "code.yaml")
    assert (full.code, "endpoint.instance_scaling.max: 3" in full.err) == (2, True), full.err


def test_lmi_scale_sets_copies(app: CloudApp) -> None:
    deployed(app, "")
    result = app.lmi("scale", "chat", "3", "--yes", "--max-hourly", "1")
    assert (result.code, copies(app), result.out.strip()) == (0, 3, "3"), result.err
    assert "nothing by itself: the instances are those of the shared endpoint team" in result.err
    assert "update_component" not in app.cloud.account_state.calls
    status = app.lmi("status", "chat")
    assert (status.code, "it has 3 copies (`lmi scale`, or another tool)" in status.out) == (4, True)
    plan = app.lmi("plan", "chat.yaml", "--json").result
    assert [each["action"] for each in plan["actions"]] == ["set-copy-count"]
    assert plan["changes"] == [{"field": "copies", "before": "3", "after": "1"}]
    up(app, "chat")
    assert (copies(app), app.lmi("status", "chat").code) == (1, 0)
    assert "has 1 copy already" in app.lmi("scale", "chat", "1").err


def test_lmi_scale_keeps_to_the_bounds(app: CloudApp) -> None:
    deployed(app, SCALED)
    above = app.lmi("scale", "chat", "5", "--yes")
    assert (above.code, "autoscaling keeps it at 1 to 4 copies" in above.err) == (2, True)
    none = app.lmi("scale", "chat", "0", "--yes")
    assert (none.code, "0 copies cannot serve" in none.err, copies(app)) == (2, True, 1)
    assert (
        "zero copies need endpoint.autoscaling with min: 0 and concurrent_requests_per_model, and" in none.err
    )
    result = app.lmi("scale", "chat", "2", "--yes", "--json").result
    assert (result["count_before"], result["count"], result["hourly"]) == (1, 2, None)
    assert app.lmi("status", "chat").code == 0


def test_copies_without_room_leave_what_serves(app: CloudApp) -> None:
    deployed(app, "")
    reasons = app.cloud.account_state.failures.reasons
    reasons["more copies"] = "There is not enough hardware resources on the instances"
    result = app.lmi("scale", "chat", "9", "--yes")
    assert (result.code, copies(app)) == (1, 1)
    assert "it did not get 9 copies; 1 copy on team as before: There is not enough hardware" in result.err
    reasons.clear()
    assert app.lmi("status", "chat").code == 0


def test_other_number_of_copies_that_autoscaling_set_meanwhile_is_said(app: CloudApp) -> None:
    deployed(app, SCALED)

    def scale_to_two() -> None:
        change = app.cloud.account_state.components["chat"]
        if change.then is not None:
            change.then = replace(change.then, copies=2, settings=change.then.settings.with_copies(2))

    while_waiting(app, scale_to_two)
    result = app.lmi("scale", "chat", "3", "--yes")
    assert (result.code, copies(app)) == (1, 2)
    assert "to get 3 copies, but something else changed the number while lmi waited: 2 copies" in result.err


def test_lost_reply_to_a_number_of_copies_is_continued(app: CloudApp) -> None:
    deployed(app, "")
    app.cloud.account_state.failures.lost.append("set_copies")
    assert app.lmi("scale", "chat", "2", "--yes").code == 1
    again = app.lmi("scale", "chat", "2", "--yes")
    assert (again.code, copies(app)) == (0, 2), again.err
    assert app.cloud.account_state.calls.count("set_copies") == 1


@dataclass
class Alarm:
    """On refused requests: the first one starts a copy."""

    app: CloudApp
    wakes: bool = True
    refused: int = 0

    def __call__(self, observed: ObservedComponent) -> None:
        self.refused += 1
        if self.wakes and observed.status == "InService":
            self.app.cloud.cloud().components.set_copies("chat", 1)


def asleep(app: CloudApp, *, wakes: bool = True) -> Alarm:
    deployed(app, ZERO)
    assert app.lmi("scale", "chat", "0", "--yes").code == 0
    app.cloud.account_state.refused = alarm = Alarm(app, wakes=wakes)
    return alarm


def test_invoke_waits_for_a_copy_and_sends_the_request_again(app: CloudApp) -> None:
    alarm = asleep(app)
    result = app.lmi("invoke", "chat", "Hello")
    assert (result.code, result.out.strip()) == (0, "OK"), result.err
    assert "chat: no copy of the model runs; this request starts one, which takes minutes" in result.err
    assert "Updating: 0 of 1 copy" in result.err
    assert alarm.refused == 1
    assert "[0" in result.err, "the time of the answer is without the wait"


def test_invoke_gives_up_after_its_time(app: CloudApp) -> None:
    alarm = asleep(app, wakes=False)
    result = app.lmi("invoke", "chat", "Hello", "--copy-timeout", "300")
    assert result.code == 1
    assert "no copy of the model answers after 5 min" in result.err
    assert alarm.refused == 3, "at once, and every 2 minutes"
    at_once = app.lmi("invoke", "chat", "Hello", "--copy-timeout", "0")
    assert (at_once.code, "no copy of the model runs now" in at_once.err) == (1, True)


def test_ctrl_c_ends_the_wait_for_a_copy_and_not_its_start(
    app: CloudApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    alarm = asleep(app)

    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(app.clock, "sleep", interrupt)
        result = app.lmi("invoke", "chat", "Hello")
    assert (result.code, result.out, alarm.refused) == (130, "", 1)
    assert "AWS goes on starting a copy" in result.err
    assert "next: run the same command again" in result.err
    assert app.lmi("invoke", "chat", "Hello").out.strip() == "OK"


def test_invoke_without_the_right_to_look_asks_again(app: CloudApp) -> None:
    asleep(app)
    denied = AccessError("not authorized", hint="ask for it")
    app.cloud.account_state.failures.before["component"] = [denied] * 100
    result = app.lmi("invoke", "chat", "Hello", "--raw")
    assert result.code == 0, result.err


def test_other_errors_are_not_answered_by_a_second_request(app: CloudApp) -> None:
    deployed(app, ZERO)
    state = app.cloud.account_state
    state.failures.before["invoke"] = [CloudError("endpoint team: another error", hint="look")]
    result = app.lmi("invoke", "chat", "Hello")
    assert (result.code, "another error" in result.err, state.calls[-1]) == (1, True, "invoke")


def test_model_that_nothing_wakes_is_not_waited_for(app: CloudApp) -> None:
    deployed(app, "")
    by_autoscaling(app, 0)
    result = app.lmi("invoke", "chat", "Hello")
    assert (result.code, "start one: `lmi scale chat --region us-east-1 1`" in result.err) == (1, True)
    up(app, "chat")
    assert app.lmi("invoke", "chat", "Hello").code == 0


@pytest.mark.parametrize("command", [("scale", "chat", "0", "--yes"), ("down", "chat", "--yes")])
def test_commands_work_without_copies(app: CloudApp, command: tuple[str, ...]) -> None:
    deployed(app, ZERO)
    by_autoscaling(app, 0)
    assert app.lmi(*command).code == 0
