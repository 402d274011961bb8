"""`endpoint.data_capture`: deployed, changed, refused before anything is created, and never deleted."""

from __future__ import annotations

from tests.support.cloud_app import RECIPE, CloudApp, write_recipe

CAPTURED = RECIPE + "endpoint:\n  data_capture: {output: 's3://captures/tiny/', percentage: 20}\n"


def planned(app: CloudApp) -> list[str]:
    return [action["key"].partition(":")[0] for action in app.lmi("plan", "--json").result["actions"]]


def test_endpoint_config_captures_and_the_plan_is_then_empty(app: CloudApp) -> None:
    write_recipe(CAPTURED)
    app.up()
    (config,) = app.cloud.account_state.configs.values()
    assert config.settings.data_capture is not None
    assert config.settings.data_capture.percentage == 20
    assert planned(app) == []


def test_changed_percentage_is_one_update_with_a_new_config(app: CloudApp) -> None:
    write_recipe(RECIPE)
    app.up()
    write_recipe(CAPTURED)
    actions = planned(app)
    assert "CreateEndpointConfig" in actions
    assert "UpdateEndpoint" in actions
    assert "CreateModel" not in actions


def test_role_that_may_not_write_is_refused_before_anything_is_created(app: CloudApp) -> None:
    write_recipe(CAPTURED)
    app.cloud.roles.denied.add("s3:PutObject")
    result = app.lmi("up", "--yes")
    assert result.code == 1
    assert "s3:PutObject on arn:aws:s3:::captures/tiny/*" in result.err
    assert app.cloud_resources() == []


def test_output_among_our_own_objects_is_a_mistake_of_the_recipe(app: CloudApp) -> None:
    for output in ("s3://lmi-111122223333-us-east-1-an/weights/x/", "s3://lmi-111122223333-us-east-1-an"):
        write_recipe(CAPTURED.replace("s3://captures/tiny/", output))
        result = app.lmi("validate")
        assert result.code == 2
        assert "endpoint.data_capture.output: lmi keeps its own objects there" in result.err + result.out
    write_recipe(CAPTURED.replace("s3://captures/tiny/", "https://captures/tiny"))
    assert "is not an S3 address" in app.lmi("validate").err
