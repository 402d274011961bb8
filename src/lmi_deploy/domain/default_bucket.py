"""The bucket that `lmi` creates if the recipe names none, and its advice for any bucket."""

from __future__ import annotations

import json
import re
from typing import Any

REGIONAL_SUFFIX = "-an"
GLOBAL_NAMES_ONLY = frozenset({"me-central-1", "me-south-1"})
"""Regions without account-regional names (S3 user guide, "Namespaces for general purpose buckets", read 2026-11-28)."""
ADVISED_DAYS = 7
RULE_ID = "lmi-incomplete-uploads"
_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_DEFAULT = re.compile(
    rf"lmi-(\d{{12}})-(?:[a-z0-9-]+{REGIONAL_SUFFIX}|{'|'.join(sorted(GLOBAL_NAMES_ONLY))})"
)
_WEIGHTS = "weights/"
"""All multipart uploads are under it."""


def default_bucket(account: str, region: str) -> str:
    """In the account's own namespace of the region, where there is one: no other account can have that name."""
    return f"lmi-{account}-{region}" + ("" if region in GLOBAL_NAMES_ONLY else REGIONAL_SUFFIX)


def account_of(bucket: str) -> str:
    """The account of a default bucket; empty for a custom name."""
    found = _DEFAULT.fullmatch(bucket)
    return found[1] if found else ""


def bucket_name_error(bucket: str) -> str:
    """Why S3 does not allow this bucket name; empty if it does."""
    if "/" in bucket or ":" in bucket:
        return "is an address; write the name of the bucket"
    if not _NAME.fullmatch(bucket) or ".." in bucket:
        return (
            "is not a bucket name: 3 to 63 characters of a-z, 0-9, - and ., with a letter or digit first and "
            "last"
        )
    return ""


def is_regional(bucket: str, account: str, region: str) -> bool:
    """Whether the name belongs to the account's own namespace."""
    return bucket.endswith(f"-{account}-{region}{REGIONAL_SUFFIX}")


def tls_only_policy(bucket: str, partition: str) -> str:
    """A bucket policy under which nothing is read or written without TLS."""
    arn = f"arn:{partition}:s3:::{bucket}"
    statement = {
        "Sid": "TlsOnly",
        "Effect": "Deny",
        "Principal": "*",
        "Action": "s3:*",
        "Resource": [arn, f"{arn}/*"],
        "Condition": {"Bool": {"aws:SecureTransport": "false"}},
    }
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def with_upload_rule(rules: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The lifecycle rules plus one that aborts incomplete uploads; unchanged if such a rule exists."""
    if any(_ends_uploads(rule) for rule in rules):
        return rules
    own = {
        "ID": RULE_ID,
        "Status": "Enabled",
        "Filter": {"Prefix": ""},
        "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": ADVISED_DAYS},
    }
    return [*rules, own]


def upload_rule_advice(bucket: str, owner: str, rules: list[dict[str, Any]]) -> str:
    """The command that makes S3 abort incomplete uploads, so that they do not cost; empty if a rule already does.

    The command repeats the existing rules: S3 replaces them all at once.
    """
    required = with_upload_rule(rules)
    if required == rules:
        return ""
    text = json.dumps({"Rules": required}, indent=2, default=str)
    return (
        f"s3://{bucket} keeps the parts of incomplete uploads, and AWS bills them. `lmi gc` removes those of lmi.\n"
        f"A lifecycle rule of the bucket removes all of them after {ADVISED_DAYS} days:\n\naws s3api "
        f"put-bucket-lifecycle-configuration --bucket {bucket} --expected-bucket-owner {owner} \\\n  "
        f"--lifecycle-configuration '{text}'\n"
    )


def _ends_uploads(rule: dict[str, Any]) -> bool:
    prefix = rule.get("Filter", {}).get("Prefix", rule.get("Prefix", ""))
    enabled = rule.get("Status") == "Enabled" and "AbortIncompleteMultipartUpload" in rule
    return enabled and _WEIGHTS.startswith(prefix)
