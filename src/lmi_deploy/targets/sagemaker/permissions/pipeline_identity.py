"""The pipeline of a CI system as an identity in AWS, by OpenID Connect: no access key is stored.

Sources: IAM user guide, "Create a role for OpenID Connect federation"; GitHub, "Configuring OpenID Connect in Amazon
Web Services" (subjects `repo:OWNER/REPO:ref:refs/heads/BRANCH`, `:environment:NAME`, `:pull_request`); GitLab,
"Configure OpenID Connect in AWS" (subject `project_path:GROUP/PROJECT:ref_type:branch:ref:BRANCH`, audience
https://gitlab.com; the type is branch or tag, and the job of a merge request has its source branch). Repositories of
GitHub that were created, renamed or transferred since July 2026 have ids in their subject, `repo:OWNER@ID/REPO@ID:...`
(GitHub's changelog of 2026-04-23, "Immutable subject claims for GitHub Actions OIDC tokens"; github/docs pull request
45221; Microsoft, "Migrate GitHub Actions federated credentials to immutable subjects"; read on 2026-11-28).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from lmi_deploy.errors import UsageRefused

EXAMPLE: Final = (
    "github:OWNER/REPOSITORY@BRANCH, github:OWNER@ID/REPOSITORY@ID@BRANCH (repositories since July 2026), "
    "github:OWNER/REPOSITORY#ENVIRONMENT or gitlab:GROUP/PROJECT@BRANCH; several as main,pull_request"
)
_FORM: Final = re.compile(
    r"(?P<system>github|gitlab):(?P<path>[\w.-]+@\d+/[\w.-]+@\d+|[\w.-]+(?:/[\w.-]+)+)"
    r"(?:@(?P<branches>[\w./*-]+(?:,[\w./*-]+)*)|#(?P<environment>[\w .-]+))?"
)
_PULL_REQUEST: Final = "pull_request"
"""The event of GitHub, in the place of a branch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineIdentity:
    """`subjects` are those of the tokens that are accepted; `*` in one matches any characters."""

    url: str
    audience: str
    subjects: tuple[str, ...]

    @property
    def issuer(self) -> str:
        return self.url.removeprefix("https://")

    def provider_arn(self, account: str, partition: str) -> str:
        return f"arn:{partition}:iam::{account}:oidc-provider/{self.issuer}"

    def trust(self, account: str, partition: str) -> Mapping[str, Any]:
        """The trust policy of the pipeline's role."""
        audience = {f"{self.issuer}:aud": self.audience}
        subject = {f"{self.issuer}:sub": self.subjects[0] if len(self.subjects) == 1 else [*self.subjects]}
        exact = {"StringEquals": {**audience, **subject}}
        pattern = {"StringEquals": audience, "StringLike": subject}
        statement = {
            "Effect": "Allow",
            "Principal": {"Federated": self.provider_arn(account, partition)},
            "Action": "sts:AssumeRoleWithWebIdentity",
            "Condition": pattern if any("*" in one for one in self.subjects) else exact,
        }
        return {"Version": "2012-10-17", "Statement": [statement]}


def parse_pipeline(text: str) -> PipelineIdentity:
    """Without a branch or an environment: the branch main. `@*`: every branch, tag and pull request."""
    found = _FORM.fullmatch(text)
    is_github = found is not None and found["system"] == "github"
    if found is None or (found["path"].count("/") != 1 if is_github else "@" in found["path"]):
        raise UsageRefused(
            f"--pipeline {text}: not a repository of GitHub or GitLab", hint=f"write {EXAMPLE}"
        )
    path, environment = found["path"], found["environment"]
    branches = (found["branches"] or "main").split(",")
    if is_github:
        places = [f"environment:{environment}"] if environment else [_github_place(one) for one in branches]
        return PipelineIdentity(
            url="https://token.actions.githubusercontent.com",
            audience="sts.amazonaws.com",
            subjects=tuple(f"repo:{path}:{place}" for place in places),
        )
    if environment:
        raise UsageRefused(
            f"--pipeline {text}: a token of GitLab has no environment in its subject",
            hint="give a branch: @BRANCH",
        )
    places = ["*" if branch == "*" else f"ref_type:branch:ref:{branch}" for branch in branches]
    return PipelineIdentity(
        url="https://gitlab.com",
        audience="https://gitlab.com",
        subjects=tuple(f"project_path:{path}:{place}" for place in places),
    )


def _github_place(branch: str) -> str:
    return branch if branch in ("*", _PULL_REQUEST) else f"ref:refs/heads/{branch}"
