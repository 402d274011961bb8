"""The cloud account that we act in, and its buckets, before a byte moves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from lmi_deploy.domain.secret import Secret


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The caller: `arn` is the principal, `partition` one of aws, aws-cn, aws-us-gov."""

    account: str
    arn: str
    partition: str
    region: str


class Account(Protocol):
    def get_caller(self) -> Caller:
        """Requested once; AccessError, with the remedy, if the credentials are absent, expired or refused."""

    def regions(self) -> tuple[str, ...]:
        """Those with SageMaker that are enabled for the account, by name."""

    def bearer_token(self, seconds: int) -> Secret:
        """For the OpenAI path of the region's endpoints: signed here with the caller's credentials, without a request.

        It ends after `seconds`, or when those credentials do.
        """

    def has_bucket(self, bucket: str) -> bool:
        """True if it exists, is ours, and in our region; False if there is no bucket of this name.

        AccessError if it belongs to another account, is in another region, or may not be read.
        """

    def make_bucket(self, bucket: str, *, tags: Mapping[str, str], kms_key: str = "") -> None:
        """Private, encrypted, over TLS only, with these tags; all or nothing. Refused if the name is taken."""

    def upload_rule_advice(self, bucket: str) -> str:
        """The command that makes S3 abort incomplete uploads, so that they do not cost; empty if nothing is to be
        done.
        """
