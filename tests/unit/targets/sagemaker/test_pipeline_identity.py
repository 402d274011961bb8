"""The identities that `--pipeline` names."""

from __future__ import annotations

import pytest

from lmi_deploy.errors import UsageRefused
from lmi_deploy.targets.sagemaker.permissions.pipeline_identity import parse_pipeline

ACCOUNT = "123456789012"
GITHUB = "token.actions.githubusercontent.com"


@pytest.mark.parametrize(
    ("text", "subject"),
    [
        ("github:acme/models", "repo:acme/models:ref:refs/heads/main"),
        ("github:acme/models@release/2", "repo:acme/models:ref:refs/heads/release/2"),
        ("github:acme/models#production", "repo:acme/models:environment:production"),
        ("github:acme/models@*", "repo:acme/models:*"),
        ("github:acme@1/models@2", "repo:acme@1/models@2:ref:refs/heads/main"),
        ("github:acme@1/models@2#production", "repo:acme@1/models@2:environment:production"),
        ("github:acme/models@2", "repo:acme/models:ref:refs/heads/2"),
        ("gitlab:acme/ml/models", "project_path:acme/ml/models:ref_type:branch:ref:main"),
        ("gitlab:acme/models@*", "project_path:acme/models:*"),
    ],
)
def test_subject_is_the_one_that_the_system_writes_into_its_tokens(text: str, subject: str) -> None:
    assert parse_pipeline(text).subjects == (subject,)


@pytest.mark.parametrize("path", ["acme/models", "acme@123456/models@456789"])
def test_branches_and_pull_requests_share_one_role(path: str) -> None:
    identity = parse_pipeline(f"github:{path}@main,pull_request")
    assert identity.subjects == (f"repo:{path}:ref:refs/heads/main", f"repo:{path}:pull_request")
    condition = identity.trust(ACCOUNT, "aws")["Statement"][0]["Condition"]
    assert condition["StringEquals"][f"{GITHUB}:sub"] == [*identity.subjects]


@pytest.mark.parametrize(
    "text",
    [
        "acme/models",
        "github:acme",
        "github:a/b/c",
        "github:*/*",
        "gitlab:acme/models#production",
        "github:a/b@",
        "github:a/b@main,",
        "github:a@1/b@main@main",
        "gitlab:a@1/b@2@main",
        "",
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(UsageRefused, match="--pipeline"):
        parse_pipeline(text)


def test_trust_names_audience_and_subject() -> None:
    statement = parse_pipeline("github:acme/models").trust(ACCOUNT, "aws")["Statement"][0]
    assert statement["Principal"] == {"Federated": f"arn:aws:iam::{ACCOUNT}:oidc-provider/{GITHUB}"}
    assert statement["Condition"] == {
        "StringEquals": {
            f"{GITHUB}:aud": "sts.amazonaws.com",
            f"{GITHUB}:sub": "repo:acme/models:ref:refs/heads/main",
        }
    }


def test_only_a_wildcard_is_compared_as_a_pattern() -> None:
    condition = parse_pipeline("gitlab:acme/models@*").trust(ACCOUNT, "aws")["Statement"][0]["Condition"]
    assert condition == {
        "StringEquals": {"gitlab.com:aud": "https://gitlab.com"},
        "StringLike": {"gitlab.com:sub": "project_path:acme/models:*"},
    }
