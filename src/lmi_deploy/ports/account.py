"""The cloud account that we act in, and its buckets, before a byte moves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who we are: `arn` is the principal, `partition` one of aws, aws-cn, aws-us-gov."""

    account: str
    arn: str
    partition: str
    region: str


class Account(Protocol):
    def get_caller(self) -> Caller:
        """Asked once; AccessError, with the remedy, where the credentials are absent, expired or refused."""

    def has_bucket(self, bucket: str) -> bool:
        """True where it is there, ours, and in our region; False where there is none of that name.

        AccessError where it belongs to another account, lies in another region, or may not be looked at.
        """

    def make_bucket(self, bucket: str, *, tags: Mapping[str, str], kms_key: str = "") -> None:
        """Private, encrypted, over TLS only, with these tags; whole or not at all. Refused where the name is taken."""

    def upload_rule_advice(self, bucket: str) -> str:
        """What to run so that uploads nobody completes are not paid for; empty where nothing is to be done."""
