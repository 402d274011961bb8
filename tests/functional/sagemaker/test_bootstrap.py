"""`lmi bootstrap` in process: what it shows, changes, repeats after an end in the middle, and deletes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lmi_deploy.domain.role_setup import beyond, lacking
from lmi_deploy.errors import AccessError
from tests.support.cloud_app import CloudApp

PIPELINE = ("--pipeline", "github:acme/models")
CHANGES = [
    "create bucket",
    "create policy",
    "create identity provider",
    "create role",
    "put policy",
    "create role",
    "attach policy",
]


def changes(app: CloudApp, *more: str) -> list[str]:
    return [
        each["change"]
        for each in app.lmi("bootstrap", "tiny.yaml", "--yes", "--json", *more).result["changes"]
    ]


def test_everything_is_created_once(app: CloudApp) -> None:
    assert changes(app, *PIPELINE) == CHANGES
    again = app.lmi("bootstrap", "tiny.yaml", *PIPELINE)
    assert (again.code, "everything is set up" in again.err) == (0, True)
    assert app.lmi("up", "tiny.yaml", "--yes").code == 0


def test_nothing_is_changed_without_a_yes(app: CloudApp) -> None:
    refused = app.lmi("bootstrap", "tiny.yaml")
    assert (refused.code, app.cloud.iam_setup.changes) == (2, 0)
    assert "create role lmi-endpoint" in refused.err


@pytest.mark.parametrize("done", range(len(CHANGES) - 1))
def test_next_run_completes_one_that_ended_in_the_middle(app: CloudApp, done: int) -> None:
    """The bucket is made by another service, so it is always there."""
    setup = app.cloud.iam_setup
    setup.fails_at = done
    assert app.lmi("bootstrap", "tiny.yaml", "--yes", *PIPELINE).code != 0
    setup.fails_at = None
    assert changes(app, *PIPELINE) == CHANGES[1 + done :]
    assert changes(app, *PIPELINE) == []


def test_changed_policies_are_written_again(app: CloudApp) -> None:
    changes(app)
    setup = app.cloud.iam_setup
    [arn] = setup.policies
    setup.policies[arn] = replace(setup.policies[arn], document={"Version": "2012-10-17", "Statement": []})
    setup.roles["lmi-endpoint"] = replace(setup.roles["lmi-endpoint"], inline={})
    assert changes(app) == ["update policy", "put policy"]


def test_foreign_role_keeps_its_trust_policy(app: CloudApp) -> None:
    changes(app)
    setup = app.cloud.iam_setup
    trust = {"Version": "2012-10-17", "Statement": []}
    setup.roles["lmi-endpoint"] = replace(setup.roles["lmi-endpoint"], trust=trust, own=False)
    before = setup.changes
    refused = app.lmi("bootstrap", "tiny.yaml", "--yes")
    assert (refused.code != 0, setup.changes) == (True, before)
    assert "was not made by lmi bootstrap" in refused.err
    setup.roles["lmi-endpoint"] = replace(setup.roles["lmi-endpoint"], own=True)
    assert changes(app) == ["update trust"]


def test_foreign_role_that_trusts_sagemaker_without_conditions_is_used(app: CloudApp) -> None:
    changes(app)
    setup = app.cloud.iam_setup
    role = setup.roles["lmi-endpoint"]
    plain = {key: value for key, value in role.trust["Statement"][0].items() if key != "Condition"}
    trust = {"Version": "2012-10-17", "Statement": [plain]}
    setup.roles["lmi-endpoint"] = replace(role, trust=trust, inline={}, own=False)
    assert changes(app) == ["put policy"]


def test_identity_provider_for_other_tokens_is_not_changed(app: CloudApp) -> None:
    changes(app, *PIPELINE)
    [arn] = app.cloud.iam_setup.providers
    app.cloud.iam_setup.providers[arn] = ("theirs",)
    refused = app.lmi("bootstrap", "tiny.yaml", "--yes", *PIPELINE)
    assert (refused.code != 0, "add-client-id-to-open-id-connect-provider" in refused.err) == (True, True)


def test_delete_removes_what_it_made_and_nothing_else(app: CloudApp) -> None:
    changes(app, *PIPELINE)
    setup = app.cloud.iam_setup
    setup.roles["theirs"] = replace(setup.roles["lmi-endpoint"], own=False)
    assert changes(app, "--delete", *PIPELINE) == ["delete role", "delete role", "delete policy"]
    assert (list(setup.roles), setup.policies, len(setup.providers)) == (["theirs"], {}, 1)
    assert changes(app, "--delete", *PIPELINE) == []


def test_role_that_other_deployments_use_stays(app: CloudApp) -> None:
    changes(app)
    setup = app.cloud.iam_setup
    role = setup.roles["lmi-endpoint"]
    setup.roles["lmi-endpoint"] = replace(
        role, inline={**role.inline, "lmi-other": {"Version": "2012-10-17"}}
    )
    assert changes(app, "--delete") == ["remove policy", "delete policy"]
    assert [*setup.roles["lmi-endpoint"].inline] == ["lmi-other"]


ASYNCHRONOUS = ("--set", "endpoint.asynchronous.max_concurrent_per_instance=2")


def allowing(resource: str) -> dict[str, Any]:
    statement = {"Sid": "More", "Effect": "Allow", "Action": ["s3:GetObject"], "Resource": [resource]}
    return {"Version": "2012-10-17", "Statement": [statement]}


def test_rights_of_another_recipe_stay(app: CloudApp) -> None:
    """A running endpoint reads its weights, and writes its responses, with what an earlier run gave its role."""
    shared = ("--shared", "ti")
    assert changes(app, *shared, *ASYNCHRONOUS)
    setup = app.cloud.iam_setup
    [before] = setup.roles["lmi-endpoint"].inline.values()
    [deployer] = setup.policies.values()
    other = ("--set", "endpoint.alarms.topic=arn:aws:sns:us-east-1:111122223333:on-call")
    told = app.lmi("bootstrap", "tiny.yaml", "--yes", *shared, *other)
    assert (
        "kept, though this recipe does not need it: lmi-ti-us-east-1 of lmi-endpoint: WriteResp" in told.err
    )
    [both] = setup.roles["lmi-endpoint"].inline.values()
    assert beyond(before, both) == ()
    assert "The deployer's policy is too long for a managed policy, and was not written" in told.err
    assert [*setup.policies.values()] == [deployer]
    assert len({statement["Sid"] for statement in both["Statement"]}) == len(both["Statement"])
    assert changes(app, *shared, *other) == []


def sids(app: CloudApp) -> list[str]:
    [inline] = app.cloud.iam_setup.roles["lmi-endpoint"].inline.values()
    return [statement["Sid"] for statement in inline["Statement"]]


def test_role_gets_back_what_runs_with_it(app: CloudApp) -> None:
    changes(app, *ASYNCHRONOUS)
    assert app.lmi("up", "tiny.yaml", "--yes", *ASYNCHRONOUS).code == 0
    role = app.cloud.iam_setup.roles["lmi-endpoint"]
    for narrowed in ({}, {"lmi-tiny-us-east-1": allowing("arn:aws:s3:::other/*")}):
        app.cloud.iam_setup.roles["lmi-endpoint"] = replace(role, inline=narrowed)
        assert changes(app) == ["put policy"]
        assert "WriteResponses" in sids(app)
        assert changes(app) == []
    del app.cloud.iam_setup.roles["lmi-endpoint"]
    assert changes(app) == ["create role", "put policy"]
    assert "WriteResponses" in sids(app)


def test_right_that_another_policy_of_the_role_gives_is_not_given_twice(app: CloudApp) -> None:
    changes(app, *ASYNCHRONOUS)
    assert app.lmi("up", "tiny.yaml", "--yes", *ASYNCHRONOUS).code == 0
    role = app.cloud.iam_setup.roles["lmi-endpoint"]
    [document] = role.inline.values()
    app.cloud.iam_setup.roles["lmi-endpoint"] = replace(role, inline={"lmi-tiny-eu-west-1": document})
    assert changes(app) == ["put policy"]
    inline = app.cloud.iam_setup.roles["lmi-endpoint"].inline["lmi-tiny-us-east-1"]
    assert "WriteResponses" not in [statement["Sid"] for statement in inline["Statement"]]


def test_deployment_whose_record_cannot_be_read_is_named(app: CloudApp) -> None:
    changes(app, *ASYNCHRONOUS)
    assert app.lmi("up", "tiny.yaml", "--yes", *ASYNCHRONOUS).code == 0
    denied = AccessError("endpoint config: may not sagemaker:DescribeEndpointConfig", hint="allow it")
    app.cloud.account_state.failures.before["endpoint_config"] = [denied] * 9
    told = app.lmi("bootstrap", "tiny.yaml", "--yes", *ASYNCHRONOUS)
    assert told.code == 0
    assert "what tiny in us-east-1 runs with is unknown: endpoint config" in told.err


def test_prune_is_refused_where_a_record_cannot_be_read(app: CloudApp) -> None:
    changes(app, *ASYNCHRONOUS)
    assert app.lmi("up", "tiny.yaml", "--yes", *ASYNCHRONOUS).code == 0
    denied = AccessError("endpoint config: may not sagemaker:DescribeEndpointConfig", hint="allow it")
    app.cloud.account_state.failures.before["endpoint_config"] = [denied] * 9
    before = app.cloud.iam_setup.changes
    refused = app.lmi("bootstrap", "tiny.yaml", "--yes", "--prune")
    assert (refused.code, app.cloud.iam_setup.changes) == (5, before)
    assert "--prune could remove what it needs" in refused.err


def test_denied_right_counts_as_missing() -> None:
    right = allowing("arn:aws:s3:::bucket/weights/m/*")
    denying = {**right, "Statement": [{**right["Statement"][0], "Effect": "Deny"}]}
    assert lacking([right], right)["Statement"] == []
    assert lacking([denying], right)["Statement"] == right["Statement"]


def test_prune_removes_what_is_not_needed_and_names_who_may_need_it(app: CloudApp) -> None:
    changes(app, *ASYNCHRONOUS)
    assert app.lmi("up", "tiny.yaml", "--yes", *ASYNCHRONOUS).code == 0
    told = app.lmi("bootstrap", "tiny.yaml", "--yes", "--prune")
    assert "- lmi-tiny-us-east-1-deployer: InvokeAsync" in told.err
    assert "may need it: tiny in us-east-1, $" in told.err
    assert "WriteResponses" in sids(app)
    assert changes(app, "--prune") == []
    assert app.lmi("down", "tiny", "--yes").code == 0
    assert changes(app, "--prune") == ["put policy"]
    assert "WriteResponses" not in sids(app)
    assert app.lmi("bootstrap", "tiny.yaml", "--prune", "--delete").code == 2


def test_deployer_policy_that_becomes_too_long_is_the_pipelines_own(app: CloudApp) -> None:
    changes(app)
    setup = app.cloud.iam_setup
    [arn] = setup.policies
    setup.policies[arn] = replace(setup.policies[arn], document=allowing("a" * 3000))
    before = setup.policies[arn]
    assert changes(app, *PIPELINE) == ["create identity provider", "create role", "put policy"]
    assert setup.policies[arn] == before
    assert [*setup.roles["lmi-tiny-pipeline"].inline] == ["lmi-tiny-us-east-1-deployer"]
    assert changes(app, "--prune") == ["update policy"]


def test_policies_that_become_too_long_for_a_role_are_refused_before_a_change(app: CloudApp) -> None:
    changes(app)
    setup = app.cloud.iam_setup
    role = setup.roles["lmi-endpoint"]
    inline = {"lmi-tiny-us-east-1": allowing("a" * 10_000)}
    setup.roles["lmi-endpoint"] = replace(role, inline=inline)
    before = setup.changes
    refused = app.lmi("bootstrap", "tiny.yaml", "--yes")
    assert (refused.code, setup.changes) == (5, before)
    assert "the policies of lmi-endpoint: with what is allowed already" in refused.err
    assert changes(app, "--prune") == ["put policy"]


def test_role_of_a_running_deployment_is_not_deleted(app: CloudApp) -> None:
    changes(app)
    app.up()
    before = app.cloud.iam_setup.changes
    for more in ((), ("--shared", "ti")):
        refused = app.lmi("bootstrap", "tiny.yaml", "--delete", "--yes", *more)
        assert (refused.code, app.cloud.iam_setup.changes) == (5, before)
        assert "tiny in us-east-1, $" in refused.err
    assert app.lmi("down", "tiny", "--yes").code == 0
    assert changes(app, "--delete") == ["delete role", "delete policy"]


def test_role_is_not_deleted_where_endpoints_may_not_be_listed(app: CloudApp) -> None:
    changes(app)
    app.up()
    before = app.cloud.iam_setup.changes
    denied = AccessError("list of endpoints: may not sagemaker:ListEndpoints", hint="allow it")
    app.cloud.account_state.failures.before["endpoints"] = [denied] * 9
    refused = app.lmi("bootstrap", "tiny.yaml", "--delete", "--yes")
    assert (refused.code, "tiny in us-east-1" in refused.err) == (5, True)
    assert app.cloud.iam_setup.changes == before


def test_policy_that_a_user_has_stops_the_deletion_before_it_starts(app: CloudApp) -> None:
    changes(app)
    setup = app.cloud.iam_setup
    [arn] = setup.policies
    setup.attached[arn] = ("user dev",)
    before = setup.changes
    refused = app.lmi("bootstrap", "tiny.yaml", "--delete", "--yes")
    assert (refused.code, setup.changes) == (5, before)
    assert "attached to user dev; nothing was deleted" in refused.err


def test_policy_of_the_administrator_is_printed_and_nothing_changed(app: CloudApp) -> None:
    document = app.lmi("bootstrap", "tiny.yaml", "--policy", "--json", *PIPELINE).result["bootstrap"]
    sids = [statement["Sid"] for statement in document["Statement"]]
    assert sids == [
        *("SetUpRoles", "SetUpPolicy", "SetUpProvider", "ReadRecords"),
        *("LookIntoBucket", "MakeBucket", "FindByTag"),
    ]
    assert app.cloud.iam_setup.changes == 0


def test_unknown_pipeline_is_refused_before_any_request(app: CloudApp) -> None:
    refused = app.lmi("bootstrap", "tiny.yaml", "--pipeline", "acme/models")
    assert (refused.code, "github:OWNER/REPOSITORY@BRANCH" in refused.err) == (2, True)
