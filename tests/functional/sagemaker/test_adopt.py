"""`lmi adopt`: the recipe of an endpoint that another tool made, what may be taken over, and what works after it."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from lmi_deploy.domain.sagemaker.resource_settings import TAG, TAG_ADOPTED, TAG_BUCKET
from tests.support.cloud_app import CloudApp
from tests.support.crash_injection import Crash, Moment
from tests.support.crash_scenarios import ADOPT, DOWN, CrashApp, adopted, ended, made_by_hand
from tests.support.local_app import Ran


@pytest.fixture
def by_hand(app: CloudApp) -> CloudApp:
    made_by_hand(app)
    Path("tiny.yaml").unlink()
    return app


@pytest.fixture
def crash_app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CrashApp:
    monkeypatch.chdir(tmp_path)
    return CrashApp(tmp_path)


def tags(app: CloudApp, kind: str, name: str) -> dict[str, str]:
    account = app.cloud.account_state
    return dict(account.tags[account.arn(kind, name)])  # type: ignore[arg-type]


def tag(app: CloudApp, **more: str) -> None:
    account = app.cloud.account_state
    arn = account.arn("endpoint", "tiny")
    account.tags[arn] = (
        *account.tags[arn],
        *((key.replace("__", ":"), value) for key, value in more.items()),
    )


def refused(result: Ran) -> str:
    assert result.code == 5, result.err
    return result.err


def test_recipe_is_written_and_nothing_is_changed(by_hand: CloudApp) -> None:
    result = by_hand.lmi("adopt", "tiny")
    assert (result.code, result.out.strip()) == (0, "tiny.yaml"), result.err
    text = Path("tiny.yaml").read_text()
    for line in (
        "name: tiny",
        "model_id: org/tiny",
        "instance_type: ml.g5.xlarge",
        "timeouts: {model_download: 900, container_startup: 600}",
        "  version: 0.33.0-lmi15.0.0-cu128",
        "  region: us-east-1",
        "  role: 'arn:aws:iam::111122223333:role/notebook'",
        '  autoscaling: {"min": 1, "max": 2, "invocations_per_instance": 70}',
        '  tags: {"team": "search"}',
    ):
        assert line in text.splitlines(), text
    assert "the variant AllTraffic becomes main" in text
    assert by_hand.lmi("validate", "tiny.yaml").code == 0
    assert TAG not in tags(by_hand, "endpoint", "tiny")
    assert "tag the endpoint tiny as lmi's" in result.err
    assert by_hand.cloud.stores == {}


def test_second_run_does_not_overwrite_the_recipe(by_hand: CloudApp) -> None:
    assert by_hand.lmi("adopt", "tiny").code == 0
    assert "tiny.yaml: the file exists" in refused(by_hand.lmi("adopt", "tiny"))


def test_recipe_can_be_printed(by_hand: CloudApp) -> None:
    result = by_hand.lmi("adopt", "tiny", "-o", "-")
    assert result.code == 0
    assert "\nmodel_id: org/tiny\n" in result.out
    assert not Path("tiny.yaml").exists()
    assert "Next: save the recipe as tiny.yaml, then lmi adopt tiny --region us-east-1 --take" in result.err


def test_next_command_keeps_file_and_options(by_hand: CloudApp) -> None:
    first = by_hand.lmi("adopt", "tiny", "-o", "my recipe.yaml", "--force")
    again = "lmi adopt tiny --region us-east-1 --take -o 'my recipe.yaml' --force"
    assert f"Next: read my recipe.yaml, then {again}\n" in first.err
    assert f"`{again}` uses my recipe.yaml" in refused(
        by_hand.lmi("adopt", "tiny", "-o", "my recipe.yaml", "--force")
    )
    taken = by_hand.lmi(*shlex.split(again)[1:], "--yes")
    assert (taken.code, "lmi plan 'my recipe.yaml'" in taken.err) == (0, True), taken.err


def test_json_has_the_recipe_and_what_it_lacks(by_hand: CloudApp) -> None:
    result = by_hand.lmi("adopt", "tiny", "-o", "-", "--json").result
    assert result["ok"]
    assert "model_id: org/tiny" in result["recipe"]
    assert any("AllTraffic" in note for note in result["notes"])
    assert (result["taken"], result["refused"]) == (False, "")


def test_taken_endpoint_is_in_step_and_serves_what_it_served(by_hand: CloudApp) -> None:
    result = by_hand.lmi(*ADOPT)
    assert result.code == 0, result.err
    for kind, name in (("endpoint", "tiny"), ("endpoint-config", "my-config"), ("model", "my-model")):
        found = tags(by_hand, kind, name)
        assert (found[TAG], found[TAG_ADOPTED], found[TAG_BUCKET]) == ("tiny", "true", by_hand.bucket)
        assert found.get("team") == (None if kind == "endpoint-config" else "search")
    assert by_hand.lmi("status", "tiny").code == 0
    assert "update_endpoint" not in by_hand.cloud.account_state.calls
    assert by_hand.lmi("invoke", "tiny", "hello").code == 0
    assert by_hand.lmi("ls").out.split()[0:1] != []
    assert by_hand.lmi("extend", "tiny", "2h").code == 0


def test_second_take_changes_nothing(by_hand: CloudApp) -> None:
    assert by_hand.lmi(*ADOPT).code == 0
    calls = len(by_hand.cloud.account_state.calls)
    result = by_hand.lmi(*ADOPT)
    assert (result.code, "already: nothing to do" in result.err) == (0, True)
    assert "tag" not in by_hand.cloud.account_state.calls[calls:]


def test_without_a_yes_nothing_is_tagged(by_hand: CloudApp) -> None:
    result = by_hand.lmi("adopt", "tiny", "--take")
    assert (result.code, "--yes" in result.err) == (2, True)
    assert TAG not in tags(by_hand, "endpoint", "tiny")


def test_next_up_is_an_update_and_rollback_returns(by_hand: CloudApp) -> None:
    assert by_hand.lmi(*ADOPT).code == 0
    plan = by_hand.lmi("plan", "--json").result
    kinds = [action["action"] for action in plan["actions"]]
    assert kinds.index("remove-foreign-scaling") < kinds.index("update-endpoint")
    assert not {"delete-endpoint-config", "delete-model", "delete-endpoint"} & {*kinds}
    by_hand.up()
    account = by_hand.cloud.account_state
    assert account.endpoints["tiny"].observed.variant == "main"
    assert (account.scaled, by_hand.cloud.scalers.targets["tiny"].invocations) == ({}, 70)
    assert {"my-config"} < {*account.configs}
    assert by_hand.lmi("rollback", "tiny", "--yes").code == 0
    assert account.endpoints["tiny"].observed.config == "my-config"
    assert by_hand.lmi("status", "tiny").code == 0


@pytest.mark.parametrize("updated", [False, True])
def test_down_deletes_adopted_resources(by_hand: CloudApp, updated: bool) -> None:
    assert by_hand.lmi(*ADOPT).code == 0
    if updated:
        by_hand.up()
    assert by_hand.lmi(*DOWN).code == 0
    account = by_hand.cloud.account_state
    assert (account.endpoints, account.configs, account.models, account.scaled) == ({}, {}, {}, {})
    assert by_hand.cloud_resources() == []


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("number", range(5))
def test_down_after_a_crash_leaves_nothing_of_it(crash_app: CrashApp, moment: Moment, number: int) -> None:
    adopted(crash_app)
    assert crash_app.crashed(Crash(moment, number, "SIGKILL"), *DOWN) is None
    actions = crash_app.story.actions
    assert (
        actions
        == [
            "RemoveForeignScaling",
            "DeleteEndpoint",
            "DeleteEndpointConfig",
            "DeleteModel",
            "RemoveDeployment",
        ][: len(actions)]
    )
    ended(crash_app, DOWN)


def test_config_of_another_endpoint_stays(by_hand: CloudApp) -> None:
    by_hand.cloud.cloud().hosting.create_endpoint("other", "my-config", ())
    result = by_hand.lmi(*ADOPT)
    assert result.code == 0
    assert "the endpoint other uses the same config" in result.err
    assert TAG not in tags(by_hand, "model", "my-model")
    by_hand.clock.sleep(1000)
    down = by_hand.lmi(*DOWN)
    assert down.code == 0
    assert (
        "the endpoint config my-config and its model my-model stay, and cost nothing: others use them"
        in down.err
    )
    assert {*by_hand.cloud.account_state.configs} == {"my-config"}


def test_model_of_another_config_stays(by_hand: CloudApp) -> None:
    account, hosting = by_hand.cloud.account_state, by_hand.cloud.cloud().hosting
    settings = account.configs["my-config"].settings
    hosting.create_endpoint_config("other", replace(settings, count=2), ())
    hosting.create_endpoint("other", "other", ())
    assert "the endpoint config other uses the same model" in by_hand.lmi(*ADOPT).err


def test_endpoint_of_another_deployment_is_refused(by_hand: CloudApp) -> None:
    tag(by_hand, lmi__deployment="chat")
    assert "it belongs to the deployment chat of lmi" in refused(by_hand.lmi(*ADOPT))


@pytest.mark.parametrize("shared", [False, True])
def test_endpoint_that_lmi_created_is_refused(by_hand: CloudApp, shared: bool) -> None:
    tag(by_hand, lmi__deployment="tiny", **({"lmi__shared": "team"} if shared else {}))
    by_hand.cloud.account_state.foreign["my-config"] = ("main", "candidate")
    said = refused(by_hand.lmi(*ADOPT))
    assert f"tiny: it is {'a shared endpoint' if shared else 'a deployment'} of lmi already" in said
    assert "use `lmi status tiny --region us-east-1`" in said
    assert not Path("tiny.yaml").exists()


@pytest.mark.parametrize(
    ("tags", "why", "remedy"),
    [
        ({"aws__cloudformation__stack-name": "web"}, "the CloudFormation stack web manages it", "Retain"),
        ({"managed-by": "terraform"}, "Terraform (tag managed-by: terraform) manages it", "state rm"),
        ({"pulumi__stack": "prod"}, "Pulumi (tag pulumi:stack: prod) manages it", "pulumi state delete"),
    ],
)
def test_endpoint_of_another_tool_needs_force(
    by_hand: CloudApp, tags: dict[str, str], why: str, remedy: str
) -> None:
    tag(by_hand, **tags)
    said = refused(by_hand.lmi(*ADOPT))
    assert (why in said, remedy in said) == (True, True), said
    assert TAG not in dict(
        by_hand.cloud.account_state.tags[by_hand.cloud.account_state.arn("endpoint", "tiny")]
    )
    assert by_hand.lmi(*ADOPT, "--force").code == 0


def test_several_variants_are_refused(by_hand: CloudApp) -> None:
    by_hand.cloud.account_state.foreign["my-config"] = ("blue", "green")
    said = refused(by_hand.lmi("adopt", "tiny"))
    assert "its config my-config has the variants blue, green; a deployment has one" in said


def test_endpoint_that_changes_is_refused(by_hand: CloudApp) -> None:
    by_hand.cloud.cloud().hosting.endpoint("tiny")
    endpoint = by_hand.cloud.account_state.endpoints["tiny"]
    endpoint.observed = replace(endpoint.observed, status="Updating")
    assert "it is Updating: only an endpoint that is InService" in refused(by_hand.lmi(*ADOPT))


def test_missing_endpoint_and_config_are_named(by_hand: CloudApp) -> None:
    assert "nobody: no such endpoint in account" in by_hand.lmi("adopt", "nobody").err
    del by_hand.cloud.account_state.configs["my-config"]
    assert "its endpoint config my-config was deleted" in refused(by_hand.lmi("adopt", "tiny"))


def test_recipe_of_another_deployment_is_refused(by_hand: CloudApp) -> None:
    Path("tiny.yaml").write_text("name: chat\nmodel_id: org/tiny\ninstance_type: ml.g5.xlarge\n")
    result = by_hand.lmi(*ADOPT)
    assert (result.code, "its name is chat, target sagemaker; the endpoint's is tiny" in result.err) == (
        2,
        True,
    )


def test_endpoint_without_a_model_asks_for_one(by_hand: CloudApp) -> None:
    account = by_hand.cloud.account_state
    model = account.models["my-model"]
    account.models["my-model"] = replace(model, settings=replace(model.settings, environment=()))
    result = by_hand.lmi("adopt", "tiny")
    assert (result.code, "names no model" in result.err, "--model" in result.err) == (2, True, True)
    assert by_hand.lmi("adopt", "tiny", "--model", "org/tiny").code == 0


def test_another_tools_scaling_is_not_overruled(by_hand: CloudApp) -> None:
    assert by_hand.lmi(*ADOPT).code == 0
    assert "another tool scales its variant AllTraffic (1 to 2 instances" in refused(
        by_hand.lmi("scale", "tiny", "2", "--yes")
    )


def test_variant_of_another_name_is_scaled(by_hand: CloudApp) -> None:
    by_hand.cloud.account_state.scaled.clear()
    assert by_hand.lmi(*ADOPT).code == 0
    result = by_hand.lmi("scale", "tiny", "2", "--yes")
    assert (result.code, by_hand.cloud.account_state.endpoints["tiny"].observed.count) == (0, 2), result.err


def test_up_names_the_way_to_a_foreign_endpoint(by_hand: CloudApp) -> None:
    assert by_hand.lmi("adopt", "tiny").code == 0
    assert "lmi adopt tiny --region us-east-1 --take" in refused(by_hand.lmi("plan"))


def test_policy_names_exactly_its_resources(by_hand: CloudApp) -> None:
    result = by_hand.lmi("adopt", "tiny", "--policy")
    assert result.code == 0
    for name in ("endpoint/tiny", "endpoint-config/my-config", "model/my-model"):
        assert f":{name}" in result.out


def test_no_credentials_are_a_clear_error(app: CloudApp) -> None:
    """A typo in the name, and a wrong region, have errors of their own."""
    assert app.lmi("adopt").code == 2
