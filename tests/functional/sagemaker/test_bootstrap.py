"""`lmi bootstrap` in process: what it shows, changes, repeats after an end in the middle, and deletes."""

from __future__ import annotations

from dataclasses import replace

import pytest

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


def test_policy_of_the_administrator_is_printed_and_nothing_changed(app: CloudApp) -> None:
    document = app.lmi("bootstrap", "tiny.yaml", "--policy", "--json", *PIPELINE).result["bootstrap"]
    sids = [statement["Sid"] for statement in document["Statement"]]
    assert sids == ["SetUpRoles", "SetUpPolicy", "SetUpProvider", "LookIntoBucket", "MakeBucket"]
    assert app.cloud.iam_setup.changes == 0


def test_unknown_pipeline_is_refused_before_any_request(app: CloudApp) -> None:
    refused = app.lmi("bootstrap", "tiny.yaml", "--pipeline", "acme/models")
    assert (refused.code, "github:OWNER/REPOSITORY@BRANCH" in refused.err) == (2, True)
