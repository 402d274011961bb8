"""Addresses of models in S3, and the names of their weights."""

import pytest

from lmi_deploy.domain.gathered_facts import FileEntry
from lmi_deploy.domain.s3_address import read_prefix
from lmi_deploy.domain.weights import weights_name

COMMIT = "c" * 40
FILES = (FileEntry(path="a", size=1, oid="0" * 64, kind="sha256"),)
OURS = f"weights/org--model/{COMMIT}-01234567/"


@pytest.mark.parametrize(
    ("address", "bucket", "path"),
    [
        ("s3://bucket", "bucket", ""),
        ("s3://bucket/", "bucket", ""),
        ("s3://bucket/a/b", "bucket", "a/b/"),
        ("s3://bucket/a/b/", "bucket", "a/b/"),
    ],
)
def test_trailing_slash_makes_no_difference(address: str, bucket: str, path: str) -> None:
    prefix = read_prefix(address)
    assert (prefix.bucket, prefix.path) == (bucket, path)
    assert prefix.address == f"s3://{bucket}/{path}"


@pytest.mark.parametrize(
    ("address", "label"),
    [
        ("s3://bucket", "bucket"),
        ("s3://my.bucket/models/llama 3/", "my.bucket--llama-3"),
        (f"s3://bucket/{OURS}", "org--model"),
        (f"s3://bucket/copy/{OURS}", f"bucket--{COMMIT}-01234567"),
        (f"s3://bucket/weights/../{COMMIT}-01234567/", f"bucket--{COMMIT}-01234567"),
    ],
)
def test_weights_are_named_by_bucket_and_last_folder_or_their_own_name(address: str, label: str) -> None:
    assert weights_name(address, COMMIT, FILES).startswith(f"{label}/{COMMIT}-")
