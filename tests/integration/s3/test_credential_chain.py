"""The AWS credential chain in common set-ups: endpoints, profiles, certificates, proxies, expired logins."""

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import boto3
import pytest

from lmi_deploy.aws.s3.client_factory import S3Settings
from lmi_deploy.aws.s3.object_store import BucketLocation, S3Store
from lmi_deploy.aws.session import SessionFactory, aws_session
from lmi_deploy.domain.crc32 import crc32_of
from lmi_deploy.errors import AccessError, NoCredentials, UsageRefused
from lmi_deploy.host.retry_policy import RetryPolicy
from tests.support.certificate import certificate
from tests.support.frozen_clock import FrozenClock
from tests.support.s3_servers import S3Server, versitygw_s3

ONCE = S3Settings(attempts=1, retries=RetryPolicy(attempts=1, longest_wait=0))


def _store(session: SessionFactory, server: S3Server, bucket: str, settings: S3Settings = ONCE) -> S3Store:
    place = BucketLocation(bucket=bucket, owner=server.owner)
    return S3Store(session, place, clock=FrozenClock(), settings=settings)


def _keys(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", server.access)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", server.secret)
    monkeypatch.setenv("AWS_REGION", server.region)
    monkeypatch.setenv("AWS_DEFAULT_REGION", server.region)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def over_tls(
    versity: S3Server, bundle: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[S3Server]:
    # `versity` is requested first: it skips where the program is missing.
    with versitygw_s3(tmp_path_factory.mktemp("versity-tls"), tls=bundle) as server:
        yield server


@pytest.mark.parametrize("variable", ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"])
def test_endpoint_url_of_the_environment_is_used(
    versity: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    versity.make_bucket(bucket)
    _keys(versity, monkeypatch)
    monkeypatch.setenv(variable, versity.url)
    store = _store(aws_session(), versity, bucket)
    assert store.where == versity.url
    assert store.put("k", b"x").size == 1


def test_default_endpoint_is_that_of_the_region(moto: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    _keys(moto, monkeypatch)
    assert _store(aws_session(region="eu-west-1"), moto, "b").where == "https://s3.eu-west-1.amazonaws.com"
    assert "amazonaws.com.cn" in _store(aws_session(region="cn-north-1"), moto, "b").where


def test_profile_gives_region_endpoint_and_credential_process(
    versity: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    versity.make_bucket(bucket)
    keys = {"Version": 1, "AccessKeyId": versity.access, "SecretAccessKey": versity.secret}
    (tmp_path / "keys.py").write_text(f"print({json.dumps(json.dumps(keys))})")
    (tmp_path / "config").write_text(
        f"[profile team]\nregion = us-east-1\nendpoint_url = {versity.url}\n"
        f"credential_process = {sys.executable} {tmp_path / 'keys.py'}\n"
    )
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    store = _store(aws_session(profile="team"), versity, bucket)
    store.put("k", b"x")
    assert store.where == versity.url


def test_expired_sso_login_is_reported_with_a_hint(
    versity: S3Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "config").write_text(
        "[profile team]\nregion = us-east-1\nsso_session = corp\nsso_account_id = 111122223333\nsso_role_name = dev\n"
        "[sso-session corp]\nsso_region = us-east-1\nsso_start_url = https://corp.example\n"
    )
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(AccessError, match=r"AWS credentials: .*SSO") as caught:
        _store(aws_session(profile="team"), versity, "b", replace(ONCE, endpoint_url=versity.url)).head("k")
    assert "aws sso login" in caught.value.hint


def test_missing_credentials_and_region_are_reported(moto: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NoCredentials, match="none found, and no region is set"):
        _store(aws_session(), moto, "b").head("k")
    with pytest.raises(AccessError, match="unable to locate credentials") as caught:
        _store(aws_session(region="us-east-1"), moto, "b").head("k")
    assert "AWS_PROFILE" in caught.value.hint
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    with pytest.raises(UsageRefused, match="region: not set"):
        _store(aws_session(), moto, "b").head("k")


def _watched(server: S3Server, sent: dict[str, str]) -> SessionFactory:
    """Records how each payload was signed."""

    def note(request, **_):  # type: ignore[no-untyped-def]
        sent[request.method] = request.headers["X-Amz-Content-SHA256"].decode()

    def make() -> boto3.Session:
        session = server.session()()
        session.events.register("before-send.s3", note)
        return session

    return make


def test_payload_is_unsigned_over_tls(
    over_tls: S3Server, bundle: tuple[Path, Path], bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_CA_BUNDLE", str(bundle[0]))
    over_tls.make_bucket(bucket)
    sent: dict[str, str] = {}
    store = _store(_watched(over_tls, sent), over_tls, bucket, replace(ONCE, endpoint_url=over_tls.url))
    store.put("k", b"x" * 100)
    assert sent.pop("PUT") == "UNSIGNED-PAYLOAD"
    upload = store.create_multipart("m")
    content = memoryview(b"y" * 3_000_000)
    part = store.put_part(upload, 1, content, crc32=crc32_of(content))
    assert sent["PUT"] == "UNSIGNED-PAYLOAD"
    store.complete(upload, [part], crc32=crc32_of(content), size=len(content))
    assert b"".join(store.read("m")) == content


def test_payload_signing_can_be_enabled_over_tls(
    over_tls: S3Server,
    bundle: tuple[Path, Path],
    bucket: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("AWS_CA_BUNDLE", str(bundle[0]))
    over_tls.make_bucket(bucket)
    (tmp_path / "config").write_text("[default]\ns3 =\n  payload_signing_enabled = true\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    sent: dict[str, str] = {}
    store = _store(_watched(over_tls, sent), over_tls, bucket, replace(ONCE, endpoint_url=over_tls.url))
    store.put("k", b"x")
    assert len(sent["PUT"]) == 64


def test_payload_is_signed_without_tls(versity: S3Server, bucket: str) -> None:
    versity.make_bucket(bucket)
    sent: dict[str, str] = {}
    _store(_watched(versity, sent), versity, bucket, replace(ONCE, endpoint_url=versity.url)).put("k", b"x")
    assert len(sent["PUT"]) == 64


def test_untrusted_certificate_is_refused(over_tls: S3Server, bucket: str) -> None:
    with pytest.raises(AccessError, match="CERTIFICATE_VERIFY_FAILED") as caught:
        over_tls.store(bucket, settings=ONCE).head("k")
    assert over_tls.url in caught.value.message
    assert "AWS_CA_BUNDLE" in caught.value.hint


def test_unreachable_proxy_is_reported(moto: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    with pytest.raises(AccessError, match=r"127\.0\.0\.1:1") as caught:
        moto.behind_proxy("http://s3.example").store("b", settings=ONCE).head("k")
    assert "HTTPS_PROXY" in caught.value.hint
