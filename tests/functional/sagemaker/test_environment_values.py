"""The values of container.environment reach the container, and are neither shown nor recorded."""

from __future__ import annotations

from lmi_deploy.domain.environment_digests import value_digest
from tests.support.cloud_app import RECIPE, CloudApp, write_recipe
from tests.support.old_records import schema_1_text

FIRST, SECOND = "canary-4711", "canary-0815"
RECORD = "deployments/tiny/record.json"


def recipe(value: str) -> str:
    return f"{RECIPE}container: {{environment: {{FEATURE_SERVER: {value}}}}}\n"


def record(app: CloudApp) -> str:
    return app.cloud.stores[app.bucket].objects[RECORD].decode()


def test_environment_value_is_planned_and_recorded_as_a_digest(app: CloudApp) -> None:
    write_recipe(recipe(FIRST))
    shown = [app.lmi("plan", "--json").out, app.up("--json").out]
    [model] = app.cloud.account_state.models.values()
    assert ("FEATURE_SERVER", FIRST) in model.settings.environment
    write_recipe(recipe(SECOND))
    plan = app.lmi("plan")
    assert f"environment.FEATURE_SERVER: {value_digest(FIRST)} -> {value_digest(SECOND)}" in plan.out
    shown += [plan.out, app.lmi("plan", "--json").out, app.lmi("status", "tiny", "--json").out]
    assert not [text for text in (*shown, record(app)) if "canary" in text]


def test_interrupted_up_records_no_environment_value(app: CloudApp) -> None:
    write_recipe(recipe(FIRST))
    app.cloud.account_state.failures.lost.append("create_model")
    assert app.lmi("up", "--yes").code != 0
    assert value_digest(FIRST) in record(app)
    assert FIRST not in record(app)


def test_old_record_shows_no_change_and_loses_its_values(app: CloudApp) -> None:
    write_recipe(recipe(FIRST))
    app.up()
    objects = app.cloud.stores[app.bucket].objects
    objects[RECORD] = schema_1_text(app.record()).replace(value_digest(FIRST), FIRST).encode()
    write_recipe(recipe(FIRST) + "options: {dtype: fp32}\n")
    plan = app.lmi("plan").out
    assert "option.dtype" in plan
    assert "FEATURE_SERVER" not in plan
    app.up()
    assert FIRST not in record(app)
