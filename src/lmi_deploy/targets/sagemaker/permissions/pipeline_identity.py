"""The pipeline of a CI system as an identity in AWS, by OpenID Connect: no access key is stored.

Sources: IAM user guide, "Create a role for OpenID Connect federation"; GitHub, "Configuring OpenID Connect in Amazon
Web Services" (subjects `repo:OWNER/REPO:ref:refs/heads/BRANCH`, `:environment:NAME`); GitLab, "Configure OpenID
Connect in AWS" (subject `project_path:GROUP/PROJECT:ref_type:branch:ref:BRANCH`, audience https://gitlab.com).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from lmi_deploy.errors import UsageRefused

EXAMPLE: Final = (
    "github:OWNER/REPOSITORY@BRANCH, github:OWNER/REPOSITORY#ENVIRONMENT or gitlab:GROUP/PROJECT@BRANCH"
)
_FORM: Final = re.compile(
    r"(?P<system>github|gitlab):(?P<path>[\w.-]+(?:/[\w.-]+)+)(?:@(?P<branch>[\w./*-]+)|#(?P<environment>[\w .-]+))?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineIdentity:
    """`subject` is that of the tokens that are accepted; `*` in it matches any characters."""

    url: str
    audience: str
    subject: str

    @property
    def issuer(self) -> str:
        return self.url.removeprefix("https://")

    def provider_arn(self, account: str, partition: str) -> str:
        return f"arn:{partition}:iam::{account}:oidc-provider/{self.issuer}"

    def trust(self, account: str, partition: str) -> Mapping[str, Any]:
        """The trust policy of the pipeline's role."""
        audience = {f"{self.issuer}:aud": self.audience}
        subject = {f"{self.issuer}:sub": self.subject}
        exact = {"StringEquals": {**audience, **subject}}
        pattern = {"StringEquals": audience, "StringLike": subject}
        statement = {
            "Effect": "Allow",
            "Principal": {"Federated": self.provider_arn(account, partition)},
            "Action": "sts:AssumeRoleWithWebIdentity",
            "Condition": pattern if "*" in self.subject else exact,
        }
        return {"Version": "2012-10-17", "Statement": [statement]}


def parse_pipeline(text: str) -> PipelineIdentity:
    """Without a branch or an environment: the branch main. `@*`: every branch, tag and pull request."""
    found = _FORM.fullmatch(text)
    if found is None or (found["system"] == "github" and found["path"].count("/") != 1):
        raise UsageRefused(
            f"--pipeline {text}: not a repository of GitHub or GitLab", hint=f"write {EXAMPLE}"
        )
    path, branch, environment = found["path"], found["branch"] or "main", found["environment"]
    if found["system"] == "github":
        where = f"environment:{environment}" if environment else f"ref:refs/heads/{branch}"
        return PipelineIdentity(
            url="https://token.actions.githubusercontent.com",
            audience="sts.amazonaws.com",
            subject=f"repo:{path}:{'*' if branch == '*' else where}",
        )
    if environment:
        raise UsageRefused(
            f"--pipeline {text}: a token of GitLab has no environment in its subject",
            hint="give a branch: @BRANCH",
        )
    where = "*" if branch == "*" else f"ref_type:branch:ref:{branch}"
    return PipelineIdentity(
        url="https://gitlab.com", audience="https://gitlab.com", subject=f"project_path:{path}:{where}"
    )
