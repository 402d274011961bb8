"""`endpoint.share`: several deployments on one endpoint, each an inference component of it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from lmi_deploy.domain.sagemaker.resource_settings import TAG, TAG_SHARED
from tests.support.cloud_app import CloudApp
from tests.support.local_app import MODEL

GPUS = "ml.g5.12xlarge"
"""4 GPUs, 196,608 MiB."""


def recipe(name: str, *, more: str = "", endpoint: str = "", share: str = "team") -> str:
    return f"""\
name: {name}
model_id: {MODEL}
engine: accelerate
instance_type: {GPUS}
tensor_parallel_degree: 1
{more}
endpoint: {{share: {share}{endpoint}}}
"""


def write(name: str, **given: str) -> None:
    Path(f"{name}.yaml").write_text(recipe(name, **given))


def up(app: CloudApp, name: str, *argv: str) -> None:
    app.up(f"{name}.yaml", *argv)


def actions(app: CloudApp, name: str) -> list[str]:
    return [action["action"] for action in app.lmi("plan", f"{name}.yaml", "--json").result["actions"]]


def test_two_models_share_one_endpoint_and_the_last_down_deletes_it(app: CloudApp) -> None:
    account = app.cloud.account_state
    for name in ("chat", "code"):
        write(name)
        up(app, name)
    assert [*account.endpoints] == ["team"]
    assert sorted(account.components) == ["chat", "code"]
    assert all(not config.models for config in account.configs.values())
    tags = dict(account.tags[account.arn("endpoint", "team")])
    assert (tags[TAG], tags[TAG_SHARED]) == ("team", "chat")
    place = account.components["code"].observed.settings.place
    assert (place.endpoint, place.copies, place.accelerators) == ("team", 1, 1)
    assert app.lmi("invoke", "code", "Hello").code == 0
    down = app.lmi("down", "chat", "--yes")
    assert down.code == 0, down.err
    assert "the shared endpoint team stays, and costs, as long as code uses it" in down.err
    assert [*account.endpoints] == ["team"]
    assert app.lmi("down", "code", "--yes").code == 0
    assert not account.endpoints
    assert not account.components
    assert not account.configs
    assert not account.models
    assert app.lmi("ls", "--all").out == ""


def test_two_parallel_down_delete_the_shared_endpoint(app: CloudApp) -> None:
    for name in ("chat", "code"):
        write(name)
        up(app, name)
    app.cloud.cloud().components.delete_component("code")
    going = app.cloud.account_state.components["code"]
    assert going.observed.status == "Deleting"
    going.until = app.clock.monotonic() + 65  # longer than the deletion of the other
    down = app.lmi("down", "chat", "--yes")
    assert down.code == 0, down.err
    assert not app.cloud.account_state.endpoints
    assert app.lmi("down", "code", "--yes").code == 0
    assert app.lmi("ls", "--all").out == ""


def test_printed_request_examples_name_the_model(app: CloudApp) -> None:
    write("chat")
    output = app.up("chat.yaml").err
    assert "--endpoint-name team \\\n    --inference-component-name chat" in output
    assert 'EndpointName="team",\n      InferenceComponentName="chat",' in output
    assert "-H 'X-Amzn-SageMaker-Inference-Component: chat'" in output


def test_second_plan_changes_nothing_and_status_is_in_step(app: CloudApp) -> None:
    write("chat")
    up(app, "chat")
    assert actions(app, "chat") == []
    status = app.lmi("status", "chat", "--json")
    assert status.code == 0, status.out
    assert status.result["summary"]["shared_endpoint"] == "team"


def test_update_of_one_model_leaves_the_others(app: CloudApp) -> None:
    account = app.cloud.account_state
    for name in ("chat", "code"):
        write(name)
        up(app, name)
    before = account.components["code"].observed
    config = account.endpoints["team"].observed.config
    write("chat", more="options: {dtype: fp32}")
    planned = actions(app, "chat")
    assert "update-inference-component" in planned
    assert "update-endpoint" not in planned
    first = account.components["chat"].observed.settings
    up(app, "chat")
    assert account.components["chat"].observed.settings.model != first.model
    assert account.components["code"].observed == before
    assert account.endpoints["team"].observed.config == config
    assert app.lmi("rollback", "chat", "--yes").code == 0
    assert account.components["chat"].observed.settings == first
    assert app.lmi("status", "chat").code == 0


def test_failed_update_is_reported_and_the_old_model_serves(app: CloudApp) -> None:
    account = app.cloud.account_state
    write("chat")
    up(app, "chat")
    write("chat", more="options: {dtype: fp32}")
    plan = app.lmi("plan", "chat.yaml", "--json").result["actions"]
    (model,) = (action["model"] for action in plan if action["action"] == "create-model")
    account.failures.reasons[model] = "The container did not pass the ping health check."
    failed = app.lmi("up", "--yes", "chat.yaml")
    assert failed.code == 1
    assert "ping health check" in failed.err
    assert "still serves" in failed.err
    account.failures.reasons.clear()
    up(app, "chat")
    assert actions(app, "chat") == []


def test_failed_component_is_deleted_and_created_again(app: CloudApp) -> None:
    account = app.cloud.account_state
    write("chat")
    plan = app.lmi("plan", "chat.yaml", "--json").result["actions"]
    (model,) = (action["model"] for action in plan if action["action"] == "create-model")
    account.failures.reasons[model] = "not enough hardware resources on the instances"
    failed = app.lmi("up", "--yes", "chat.yaml")
    assert failed.code == 1
    assert "endpoint.component" in failed.err
    account.failures.reasons.clear()
    assert "delete-inference-component" in actions(app, "chat")
    up(app, "chat")
    assert account.components["chat"].observed.status == "InService"


def test_model_without_room_is_refused_with_the_arithmetic(app: CloudApp) -> None:
    write("chat", endpoint=", component: {copies: 3}")
    up(app, "chat")
    write("code", endpoint=", component: {copies: 2}")
    refused = app.lmi("up", "--yes", "code.yaml")
    assert refused.code == 2, refused.err
    assert "no room for code: it needs 2 x (1 accelerator" in refused.err
    assert "1 x ml.g5.12xlarge has 4 accelerators, 196,608 MiB, 48 CPU cores each" in refused.err
    assert "chat 3 x (1 accelerator" in refused.err
    assert "endpoint.count: 2" in refused.err
    write("code", endpoint=", count: 2, component: {copies: 2}")
    assert "set-instance-count" in actions(app, "code")
    up(app, "code")
    assert app.cloud.account_state.endpoints["team"].observed.count == 2
    assert actions(app, "chat") == []


def test_recipe_of_another_instance_type_is_refused(app: CloudApp) -> None:
    write("chat")
    up(app, "chat")
    Path("code.yaml").write_text(recipe("code").replace(GPUS, "ml.g5.xlarge"))
    refused = app.lmi("plan", "code.yaml")
    assert refused.code == 5
    assert (
        "the shared endpoint team has instance_type ml.g5.12xlarge, and this recipe says ml.g5.xlarge"
        in refused.err
    )


def test_deployment_does_not_move_between_endpoints(app: CloudApp) -> None:
    write("chat")
    up(app, "chat")
    write("chat", share="other")
    moved = app.lmi("plan", "chat.yaml")
    assert moved.code == 5
    assert "it runs on the shared endpoint team, and the recipe wants it on other" in moved.err
    Path("chat.yaml").write_text(recipe("chat").replace("endpoint: {share: team}", ""))
    alone = app.lmi("plan", "chat.yaml")
    assert alone.code == 5
    assert "wants an endpoint of its own" in alone.err


def test_shared_endpoint_is_neither_a_deployment_nor_deleted_under_its_models(app: CloudApp) -> None:
    write("chat")
    up(app, "chat")
    status = app.lmi("status", "team")
    assert "a shared endpoint, InService; its models: chat" in status.out + status.err
    refused = app.lmi("down", "team", "--yes")
    assert refused.code == 5
    assert "it is a shared endpoint with chat" in refused.err
    Path("team.yaml").write_text(recipe("team").replace("endpoint: {share: team}", ""))
    assert "it is a shared endpoint, with chat" in app.lmi("plan", "team.yaml").err
    shared = app.lmi("scale", "team", "2", "--yes")
    assert (shared.code, "name one of its models" in shared.err) == (5, True)


def test_endpoint_of_another_deployment_is_not_shared(app: CloudApp) -> None:
    Path("team.yaml").write_text(recipe("team").replace("endpoint: {share: team}", ""))
    up(app, "team")
    write("chat")
    refused = app.lmi("up", "--yes", "chat.yaml")
    assert refused.code == 5
    assert "team: it is the endpoint of the deployment team, and not shared" in refused.err


def test_shared_endpoint_that_was_left_alone_is_an_orphan(app: CloudApp) -> None:
    write("chat")
    up(app, "chat")
    account = app.cloud.account_state
    del account.components["chat"]
    account.drop("inference-component", "chat")
    with app.depot().lock.hold("chat"):  # the `up` that created it, which adds its model next
        assert app.lmi("gc", "--yes").code == 0
        assert [*account.endpoints] == ["team"]
    found = app.lmi("gc", "--dry-run") if "--dry-run" in app.lmi("gc", "--help").out else app.lmi("gc")
    assert "team" in found.out + found.err
    assert "a shared endpoint without any model" in found.out + found.err
    assert app.lmi("gc", "--yes").code == 0
    assert not account.endpoints


@pytest.mark.parametrize("known_here", [True, False])
def test_logs_are_those_of_the_model_and_not_of_an_older_endpoint_of_its_name(
    app: CloudApp, known_here: bool
) -> None:
    app.cloud.logs.groups["/aws/sagemaker/Endpoints/chat"] = ("an older line",)
    app.cloud.account_state.prints["chat"] = ("a line of the model",)
    write("chat")
    up(app, "chat")
    if not known_here:
        shutil.rmtree(app.root / "state")
    assert app.lmi("logs", "chat").out == "a line of the model\n"


def test_model_that_was_deleted_by_hand_names_the_endpoint_that_still_costs(app: CloudApp) -> None:
    write("chat")
    up(app, "chat")
    account = app.cloud.account_state
    account.components.pop("chat")
    account.drop("inference-component", "chat")
    status = app.lmi("status", "chat")
    assert status.code == 4
    assert (
        "deleted from the shared endpoint, which may cost: `lmi status team --region us-east-1`" in status.out
    )


def test_endpoint_that_went_away_is_created_again(app: CloudApp) -> None:
    write("chat")
    up(app, "chat")
    write("code")
    account = app.cloud.account_state
    account.failures.before["create_component"] = []
    account.endpoints.pop("team")
    account.components.pop("chat")
    for kind, name in (("endpoint", "team"), ("inference-component", "chat")):
        account.drop(kind, name)  # type: ignore[arg-type]
    up(app, "code")
    assert [*account.endpoints] == ["team"]


@pytest.mark.parametrize(
    ("endpoint", "said"),
    [
        (
            ", autoscaling: {min: 1, max: 5, invocations_per_instance: 5}",
            "endpoint.autoscaling.max: 5 copies of",
        ),
        (", asynchronous: {}", "no asynchronous requests to inference components"),
        (", component: {accelerators: 8}", "8, and ml.g5.12xlarge has 4"),
        (", component: {memory_mb: 300000}", "a copy takes 1 accelerator, 300,000 MiB"),
        (", component: {copies: 5}", "5 copies of 1 accelerator"),
    ],
)
def test_keys_that_a_shared_endpoint_cannot_have_are_refused(app: CloudApp, endpoint: str, said: str) -> None:
    write("chat", endpoint=endpoint)
    refused = app.lmi("plan", "chat.yaml")
    assert refused.code == 2
    assert said in refused.err


def test_name_of_the_shared_endpoint_leads_to_its_models(app: CloudApp) -> None:
    write("chat")
    up(app, "chat")
    for command in (("invoke", "team", "hello"), ("logs", "team")):
        result = app.lmi(*command)
        assert (result.code, "chat" in result.err, "a shared endpoint" in result.err) == (1, True, True), (
            result.err
        )
    assert "no such deployment is running" in app.lmi("invoke", "nobody", "hello").err
    assert "nobody: no such deployment in" in app.lmi("rollback", "nobody", "--yes").err
