"""The caller's account, and the bucket's owner, region and settings, checked before any upload."""

import json
import re

import boto3
import pytest

from lmi_deploy.aws.account import AwsAccount
from lmi_deploy.aws.s3.client_factory import S3Settings
from lmi_deploy.aws.session import aws_session
from lmi_deploy.domain.default_bucket import default_bucket, upload_rule_advice
from lmi_deploy.emulator.faults import rules as do
from lmi_deploy.emulator.faults.rules import FaultRule
from lmi_deploy.errors import AccessError, NoCredentials, Refused, UsageRefused
from lmi_deploy.host.clock import SystemClock
from lmi_deploy.ports.account import Account
from tests.integration.s3.test_faults import s3_error
from tests.support.fake_account import FakeAccount
from tests.support.proxy import proxied
from tests.support.s3_servers import REGION, S3Server

TAGS = {"lmi:made-by": "lmi", "lmi:deployment": "tiny"}


def _account(server: S3Server, *, s3: str = "", sts: str = "", region: str = "") -> AwsAccount:
    settings = S3Settings(attempts=1, endpoint_url=s3 or server.url)
    session = boto3.Session(
        aws_access_key_id=server.access, aws_secret_access_key=server.secret, region_name=region or REGION
    )
    return AwsAccount(lambda: session, clock=SystemClock(), settings=settings, sts_url=sts or server.url)


def test_caller_is_account_partition_region_and_arn(moto: S3Server) -> None:
    account: Account = _account(moto)
    caller = account.get_caller()
    assert (caller.account, caller.partition, caller.region) == ("123456789012", "aws", REGION)
    assert caller.arn.startswith("arn:aws:")


@pytest.mark.parametrize("region", [REGION, "eu-west-1"])
def test_new_bucket_is_private_encrypted_tagged_and_tls_only(moto: S3Server, region: str) -> None:
    account, name = _account(moto, region=region), default_bucket("123456789012", region)
    with proxied(moto.url) as proxy:
        account = _account(moto, s3=proxy.url, region=region)
        assert not account.has_bucket(name)
        account.make_bucket(name, tags=TAGS)
        assert account.has_bucket(name)
        account.make_bucket(name, tags={"other": "tags"})
    created = proxy.requests("PUT")[0]
    assert created.headers["x-amz-bucket-namespace"] == "account-regional"
    for passed in proxy.log:
        assert passed is created or passed.headers["x-amz-expected-bucket-owner"] == "123456789012"
    api = moto.api()
    assert (api.get_bucket_location(Bucket=name)["LocationConstraint"] or REGION) == region
    blocked = api.get_public_access_block(Bucket=name)["PublicAccessBlockConfiguration"]
    assert set(blocked.values()) == {True}
    assert "AES256" in str(api.get_bucket_encryption(Bucket=name))
    tags = {tag["Key"]: tag["Value"] for tag in api.get_bucket_tagging(Bucket=name)["TagSet"]}
    assert tags == TAGS
    assert "aws:SecureTransport" in api.get_bucket_policy(Bucket=name)["Policy"]


def test_bucket_is_encrypted_with_the_given_kms_key(moto: S3Server, bucket: str) -> None:
    _account(moto).make_bucket(bucket, tags={}, kms_key="alias/mine")
    found = str(moto.api().get_bucket_encryption(Bucket=bucket))
    assert "aws:kms" in found
    assert "alias/mine" in found


def test_bucket_is_deleted_again_when_its_settings_are_refused(moto: S3Server, bucket: str) -> None:
    with proxied(moto.url) as proxy:
        proxy.fail(FaultRule(do=s3_error("AccessDenied", 403), method="PUT", path="policy"))
        with pytest.raises(AccessError, match=rf"may not s3:PutBucketPolicy on arn:aws:s3:::{bucket}"):
            _account(moto, s3=proxy.url).make_bucket(bucket, tags={})
    assert not _account(moto).has_bucket(bucket)


def test_bucket_name_that_is_taken_is_an_error(moto: S3Server, bucket: str) -> None:
    with proxied(moto.url) as proxy:
        proxy.fail(FaultRule(do=s3_error("BucketAlreadyExists", 409), method="PUT"))
        with pytest.raises(Refused, match="the name is taken") as caught:
            _account(moto, s3=proxy.url).make_bucket(bucket, tags={})
    assert "endpoint.bucket" in caught.value.hint


def test_foreign_bucket_is_reported_before_any_upload(versity: S3Server, moto: S3Server, bucket: str) -> None:
    versity.make_bucket(bucket)
    account = _account(versity, sts=moto.url)
    with pytest.raises(AccessError, match=r"does not belong to account 123456789012") as caught:
        account.has_bucket(bucket)
    assert "s3:ListBucket" in caught.value.hint


@pytest.mark.parametrize(
    "response",
    [
        do.Answer(301, {"x-amz-bucket-region": "eu-west-1"}),
        do.Answer(400, {"x-amz-bucket-region": "eu-west-1"}),
        do.ChangedResponse(headers={"x-amz-bucket-region": "eu-west-1"}),
    ],
)
def test_bucket_in_another_region_is_reported_before_any_upload(
    moto: S3Server, bucket: str, response: do.Action
) -> None:
    moto.make_bucket(bucket)
    with proxied(moto.url) as proxy:
        proxy.fail(FaultRule(do=response, method="HEAD"))
        with pytest.raises(AccessError, match="the bucket is in eu-west-1") as caught:
            _account(moto, s3=proxy.url).has_bucket(bucket)
        assert "endpoint.region" in caught.value.hint
        assert len(proxy.log) == 1


@pytest.mark.parametrize(
    ("response", "why"),
    [
        (s3_error("ExpiredToken", 403), "they have expired"),
        (s3_error("InvalidClientTokenId", 403), "AWS does not know"),
        (do.Answer(418, {}, "<x/>"), "STS returned no identity"),
    ],
)
def test_sts_error_is_reported_with_a_hint(moto: S3Server, response: do.Answer, why: str) -> None:
    wrapped = do.Answer(
        response.status, response.headers, f"<ErrorResponse>{_inner(response.body)}</ErrorResponse>"
    )
    with proxied(moto.url) as proxy:
        proxy.fail(FaultRule(do=wrapped, times=None))
        with pytest.raises(AccessError, match=why) as caught:
            _account(moto, sts=proxy.url).get_caller()
    assert caught.value.hint


def _inner(body: str) -> str:
    return re.sub(r"<\?xml.*?\?>", "", body)


def test_missing_credentials_are_reported_with_ways_to_get_them(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AccessError, match="unable to locate credentials") as caught:
        AwsAccount(aws_session(region=REGION), clock=SystemClock()).get_caller()
    assert "aws sso login" in caught.value.hint
    with pytest.raises(NoCredentials, match="none found, and no region is set"):
        AwsAccount(aws_session(), clock=SystemClock()).get_caller()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "any")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "any")
    with pytest.raises(UsageRefused, match="not set"):
        AwsAccount(aws_session(), clock=SystemClock()).get_caller()
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    with pytest.raises(UsageRefused, match="nobody"):
        AwsAccount(aws_session(), clock=SystemClock()).get_caller()


def test_upload_rule_advice_keeps_existing_rules(moto: S3Server, bucket: str) -> None:
    moto.make_bucket(bucket)
    account = _account(moto)
    advice = account.upload_rule_advice(bucket)
    rules = json.loads(advice.split("'")[1])
    assert [rule["ID"] for rule in rules["Rules"]] == ["lmi-incomplete-uploads"]
    assert f"--bucket {bucket} --expected-bucket-owner 123456789012" in advice
    own = {"ID": "mine", "Status": "Enabled", "Filter": {"Prefix": "tmp/"}, "Expiration": {"Days": 1}}
    moto.api().put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration={"Rules": [own]})
    rules = json.loads(account.upload_rule_advice(bucket).split("'")[1])
    assert [rule["ID"] for rule in rules["Rules"]] == ["mine", "lmi-incomplete-uploads"]
    moto.api().put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration=rules)
    assert account.upload_rule_advice(bucket) == ""


def test_no_upload_rule_advice_where_rules_cannot_be_read(
    versity: S3Server, moto: S3Server, bucket: str
) -> None:
    versity.make_bucket(bucket)
    assert _account(versity, sts=moto.url).upload_rule_advice(bucket) == ""


def test_upload_rule_that_is_disabled_or_for_a_prefix_does_not_count() -> None:
    rule = {
        "Status": "Enabled",
        "Filter": {"Prefix": ""},
        "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 1},
    }
    assert upload_rule_advice("b", "1", [rule]) == ""
    assert upload_rule_advice("b", "1", [{**rule, "Status": "Disabled"}])
    assert upload_rule_advice("b", "1", [{**rule, "Filter": {"Prefix": "a/"}}])


def test_fake_account_behaves_like_the_real_one() -> None:
    account: Account = FakeAccount(
        buckets={"theirs": "999988887777/us-east-1", "far": "111122223333/eu-west-1"}
    )
    assert account.get_caller().account == "111122223333"
    assert not account.has_bucket("new")
    account.make_bucket("new", tags=TAGS)
    assert account.has_bucket("new")
    for bucket, why in (("theirs", "does not belong to account"), ("far", "the bucket is in eu-west-1")):
        with pytest.raises(AccessError, match=why) as caught:
            account.has_bucket(bucket)
        assert caught.value.hint
