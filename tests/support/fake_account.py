"""An account in memory, with buckets that are ours, foreign, or in another region."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lmi_deploy.domain.secret import Secret
from lmi_deploy.errors import AccessError, Refused
from lmi_deploy.ports.account import Caller

CALLER = Caller(
    account="111122223333", arn="arn:aws:iam::111122223333:user/ann", partition="aws", region="us-east-1"
)


@dataclass
class FakeAccount:
    """`buckets` maps each bucket name to its owner and region: `account/region`."""

    caller: Caller = CALLER
    buckets: dict[str, str] = field(default_factory=dict)
    created: dict[str, Mapping[str, str]] = field(default_factory=dict)
    """Tags of the buckets that were created here."""
    enabled: set[str] = field(default_factory=set)
    """Further regions of the account."""

    def get_caller(self) -> Caller:
        return self.caller

    def regions(self) -> tuple[str, ...]:
        return tuple(sorted({self.caller.region, *self.enabled}))

    def bearer_token(self, seconds: int) -> Secret:
        return Secret(f"sagemaker-api-key-of-{self.caller.account}-for-{seconds}")

    def has_bucket(self, bucket: str) -> bool:
        if bucket not in self.buckets:
            return False
        account, region = self.buckets[bucket].split("/")
        if account != self.caller.account:
            raise AccessError(
                f"s3://{bucket}: it does not belong to account {self.caller.account}", hint="name another one"
            )
        if region != self.caller.region:
            raise AccessError(
                f"s3://{bucket}: the bucket is in {region}", hint=f"set endpoint.region to {region}"
            )
        return True

    def make_bucket(self, bucket: str, *, tags: Mapping[str, str], kms_key: str = "") -> None:
        if bucket in self.buckets and not self.has_bucket(bucket):
            raise Refused(f"s3://{bucket}: the name is taken", hint="name another one")
        self.buckets[bucket] = f"{self.caller.account}/{self.caller.region}"
        self.created[bucket] = dict(tags)

    def upload_rule_advice(self, bucket: str) -> str:
        return ""
