"""Changes by others to a serving deployment: its tags removed, its config and model deleted."""

from __future__ import annotations

import pytest

from lmi_deploy.domain.recipe_keys import Pairs
from lmi_deploy.domain.sagemaker.resource_settings import (
    TAG,
    EndpointConfigSettings,
    ObservedEndpoint,
    ObservedEndpointConfig,
)
from tests.functional.sagemaker.test_lifecycle import CHANGED, steps
from tests.support.cloud_app import CloudApp, write_recipe
from tests.support.fake_hosting import Endpoint

PRICE = "$1.41 an hour"
OTHERS: tuple[Pairs | None, ...] = (None, (), ((TAG, "other"),), (("team", "blue"),))
"""The endpoint's remaining tags; None: all except the deployment's name."""


def remove_tags(app: CloudApp, tags: Pairs | None) -> None:
    account = app.cloud.account_state
    arn = account.arn("endpoint", "tiny")
    left = tuple(pair for pair in account.tags[arn] if pair[0] != TAG)
    account.tags[arn] = left if tags is None else tags


def everything(app: CloudApp) -> object:
    account = app.cloud.account_state
    objects = {key: found.etag for store in app.cloud.stores.values() for key, found in listed(store)}
    return {**account.endpoints}, {**account.configs}, {**account.models}, {**account.tags}, objects


def listed(store: object) -> list[tuple[str, object]]:
    return [(found.key, found) for found in store.list("") if not found.key.endswith("/lock.json")]  # type: ignore[attr-defined]


@pytest.mark.parametrize("tags", OTHERS)
@pytest.mark.parametrize("recorded", [True, False])
def test_down_refuses_when_the_endpoint_lost_its_tag(
    app: CloudApp, tags: Pairs | None, *, recorded: bool
) -> None:
    app.up()
    if not recorded:
        app.depot().records.remove("tiny")
    remove_tags(app, tags)
    before = everything(app)
    for command in (("down", "tiny", "--yes", "--purge"), ("up", "--yes"), ("up", "--yes", *CHANGED)):
        result = app.lmi(*command)
        assert result.code == 5, (command, result.err)
        assert "an endpoint of that name exists, but lmi did not create it" in result.err
        assert "aws sagemaker add-tags --region us-east-1 --resource-arn" in result.err
        assert everything(app) == before, command
    assert PRICE in app.lmi("down", "tiny", "--yes").err
    status = app.lmi("status", "tiny", "--json")
    assert (status.code, status.result["standing"]) == (4, "drifted")
    assert PRICE in status.result["cost"]
    assert "tiny" in app.lmi("ls", "--all").out
    app.lmi("gc", "--yes")
    assert everything(app) == before
    account = app.cloud.account_state
    account.tags[account.arn("endpoint", "tiny")] = ((TAG, "tiny"),)
    assert app.lmi("down", "tiny", "--yes").code == 0
    assert app.cloud_resources() == []


def test_tag_search_that_still_shows_a_removed_tag_is_not_trusted(app: CloudApp) -> None:
    """The tag search lags: before a deletion, SageMaker's ListTags decides."""
    app.up()
    account = app.cloud.account_state
    arn = account.arn("endpoint", "tiny")
    indexed = dict(account.tags)
    real = account.resources
    account.resources = lambda: (  # type: ignore[method-assign]
        found if found.arn != arn else type(found)(kind="endpoint", name="tiny", arn=arn, tags=indexed[arn])
        for found in real()
    )
    remove_tags(app, (("team", "blue"),))
    before = everything(app)
    assert app.lmi("down", "tiny", "--yes").code == 5
    assert everything(app) == before


def test_model_used_by_a_foreign_endpoint_is_not_deleted(app: CloudApp) -> None:
    """The endpoint was replaced by a foreign one of the same name, whose config uses our model."""
    app.up()
    account = app.cloud.account_state
    (model,) = account.models
    settings = EndpointConfigSettings(
        model=model, instance="ml.g5.xlarge", count=1, model_download=60, startup=60
    )
    arn = account.arn("endpoint-config", "theirs")
    account.configs["theirs"] = ObservedEndpointConfig(
        name="theirs", arn=arn, settings=settings, models=(model,)
    )
    account.tagged("endpoint-config", "theirs", ())
    observed = ObservedEndpoint(
        name="tiny", arn=account.arn("endpoint", "tiny"), status="InService", config="theirs"
    )
    account.endpoints["tiny"] = Endpoint(observed)
    account.tags[observed.arn] = ()
    before = everything(app)
    result = app.lmi("down", "tiny", "--yes")
    assert (result.code, f"its model {model} has the tag" in result.err) == (5, True), result.err
    assert everything(app) == before


@pytest.mark.parametrize("lost", [("model",), ("endpoint-config",), ("model", "endpoint-config")])
def test_config_or_model_deleted_by_hand_is_drift_and_created_again(
    app: CloudApp, lost: tuple[str, ...]
) -> None:
    app.up()
    account = app.cloud.account_state
    tables = {"model": account.models, "endpoint-config": account.configs}
    for kind in lost:
        tables[kind].clear()
        for arn in [arn for arn in account.tags if f":{kind}/" in arn]:
            del account.tags[arn]
    status = app.lmi("status", "tiny", "--json")
    assert (status.code, status.result["standing"]) == (4, "drifted")
    for kind in lost:
        assert f"{kind.replace('-', ' ')} tiny-" in status.result["why"]
    changed = app.lmi("plan", *CHANGED)
    assert ("deletes the endpoint tiny and creates it again" in changed.err) == ("endpoint-config" in lost)
    assert "deleted, not by lmi" in app.lmi("plan").err
    result = app.lmi("up", "--yes", "--json")
    named = {"model": "CreateModel", "endpoint-config": "CreateEndpointConfig"}
    assert steps(result.lines) == [named[kind] for kind in lost]
    assert app.lmi("status", "tiny").code == 0
    assert "DeleteEndpoint" not in steps(app.lmi("up", "--yes", "--json", *CHANGED).lines)


def test_down_deletes_our_resources_beside_a_foreign_endpoint(app: CloudApp) -> None:
    """The foreign endpoint uses none of our resources: ours are deleted, the endpoint stays."""
    app.up()
    account = app.cloud.account_state
    expected = ObservedEndpoint(
        name="tiny", arn=account.arn("endpoint", "tiny"), status="InService", config="theirs"
    )
    account.endpoints["tiny"] = Endpoint(expected)
    account.tags[expected.arn] = (("team", "blue"),)
    result = app.lmi("down", "tiny", "--yes")
    assert result.code == 0, result.err
    assert "an endpoint of that name exists, but lmi did not create it" in result.err
    assert account.endpoints["tiny"].observed == expected
    assert not account.models
    write_recipe()
    assert app.lmi("up", "--yes").code == 5
