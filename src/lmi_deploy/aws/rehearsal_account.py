"""Prepares an emulated account for a rehearsal: roles, a bucket, and a user with given permissions."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from lmi_deploy.aws.session import SessionFactory
from lmi_deploy.domain.secret import Secret

_USER: Final = "rehearsal"


@dataclass(frozen=True, slots=True)
class RehearsalAccount:
    """With the credentials of the account's root. Only for an account that is empty: nothing that exists is kept."""

    session: SessionFactory

    def create_role(self, arn: str, trust: Mapping[str, Any], policy: Mapping[str, Any]) -> None:
        """Of this ARN, with the policy inline."""
        iam = self.session().client("iam")
        path, _, name = arn.partition(":role/")[2].rpartition("/")
        iam.create_role(
            RoleName=name,
            Path=f"/{path}/" if path else "/",
            AssumeRolePolicyDocument=json.dumps(trust),
        )
        iam.put_role_policy(RoleName=name, PolicyName="rehearsal", PolicyDocument=json.dumps(policy))

    def create_bucket(self, bucket: str) -> None:
        self.session().client("s3").create_bucket(Bucket=bucket)

    def create_user(self, policy: Mapping[str, Any]) -> tuple[str, Secret]:
        """A user with this managed policy; the access key."""
        iam = self.session().client("iam")
        iam.create_user(UserName=_USER)
        created = iam.create_policy(PolicyName=_USER, PolicyDocument=json.dumps(policy))
        iam.attach_user_policy(UserName=_USER, PolicyArn=created["Policy"]["Arn"])
        key = iam.create_access_key(UserName=_USER)["AccessKey"]
        return key["AccessKeyId"], Secret(key["SecretAccessKey"])

    def read_objects(self, bucket: str, keys: Sequence[str]) -> dict[str, bytes]:
        """The content of those that exist."""
        s3, found = self.session().client("s3"), {}
        for key in keys:
            for item in s3.list_objects_v2(Bucket=bucket, Prefix=key).get("Contents", ()):
                if item["Key"] == key:
                    found[key] = s3.get_object(Bucket=bucket, Key=key)["Body"].read()
        return found
