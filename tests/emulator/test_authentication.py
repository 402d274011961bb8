"""No other user of the machine and no web page can use the emulator: it runs the commands of its clients."""

from __future__ import annotations

import http.client
import json
import os
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from tests.emulator.conftest import FULL_SPEED
from tests.support.emulator_process import ACCOUNT, BUCKET, REGION, TIMEOUT, TRUST, Emulated, emulator

LAST_OF_IAM = "SignatureDoesNotMatch"
FOREIGN = {"AccessKeyId": "any", "SecretAccessKey": "any"}
CALLS: dict[str, tuple[str, dict[str, Any], str, str]] = {
    # Service: operation, parameters, and the error codes for an unknown key and for a wrong secret.
    "sagemaker": ("ListModels", {}, "UnrecognizedClientException", "InvalidSignatureException"),
    "sagemaker-runtime": (
        "InvokeEndpoint",
        {"EndpointName": "x", "Body": b""},
        "UnrecognizedClientException",
        "InvalidSignatureException",
    ),
    "logs": ("DescribeLogGroups", {}, "UnrecognizedClientException", "InvalidSignatureException"),
    "cloudwatch": ("DescribeAlarms", {}, "UnrecognizedClientException", "InvalidSignatureException"),
    "iam": ("ListRoles", {}, "InvalidClientTokenId", LAST_OF_IAM),
    "sts": ("GetCallerIdentity", {}, "InvalidClientTokenId", LAST_OF_IAM),
    "s3": ("ListBuckets", {}, "InvalidAccessKeyId", "SignatureDoesNotMatch"),
}


def code(client: Any, operation: str, params: Any) -> str:
    with pytest.raises(ClientError) as refused:
        client._make_api_call(operation, params)
    return str(refused.value.response["Error"]["Code"])


@pytest.mark.parametrize("service", CALLS)
def test_every_service_checks_key_and_signature(aws: Emulated, service: str) -> None:
    operation, params, unknown, wrong = CALLS[service]
    mistaken = {"AccessKeyId": aws.key, "SecretAccessKey": "wrong"}
    assert code(aws.client(service, key=FOREIGN), operation, params) == unknown
    assert code(aws.client(service, key=mistaken), operation, params) == wrong


def test_request_with_a_foreign_key_runs_no_command(tmp_path: Path) -> None:
    """CreateProcessingJob from another user of the machine: signed with any key, or not at all."""
    with emulator(tmp_path, *FULL_SPEED, variables={"PATH": os.environ["PATH"]}) as aws:
        probe = tmp_path / "was-run"
        requests = {
            "ProcessingJobName": "theirs",
            "RoleArn": aws.role(),
            "AppSpecification": {"ImageUri": "i", "ContainerEntrypoint": ["touch", str(probe)]},
            "ProcessingResources": {
                "ClusterConfig": {"InstanceCount": 1, "InstanceType": "ml.m5.large", "VolumeSizeInGB": 1}
            },
        }
        message = code(aws.client("sagemaker", key=FOREIGN), "CreateProcessingJob", requests)
        assert message == "UnrecognizedClientException"
        headers = {"X-Amz-Target": "SageMaker.CreateProcessingJob"}
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(urllib.request.Request(aws.url, json.dumps(requests).encode(), headers))
        assert aws.client("sagemaker").list_processing_jobs()["ProcessingJobSummaries"] == []
        assert not probe.exists()


def send_request(aws: Emulated, method: str, path: str, **headers: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(urlsplit(aws.url).netloc, timeout=TIMEOUT)
    connection.putrequest(method, path, skip_host="Host" in headers)
    for name, value in headers.items():
        connection.putheader(name, value)
    connection.endheaders()
    response = connection.getresponse()
    found = response.status, response.read()
    connection.close()
    return found


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:4566", "127.0.0.1.evil.example", "localhost.evil"]
)
def test_foreign_host_header_is_refused(aws: Emulated, host: str) -> None:
    status, description = send_request(aws, "GET", "/_clock", Host=host)
    assert (status, b"use localhost or 127.0.0.1" in description) == (403, True)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:1", "bucket.localhost:4566", "[::1]:5"])
def test_local_host_header_is_accepted(aws: Emulated, host: str) -> None:
    assert send_request(aws, "GET", "/_clock", Host=host)[0] == 401


@pytest.mark.parametrize("path", ["/_clock", "/_faults", "/_rights", f"/_quotas/{REGION}"])
def test_control_api_requires_the_key(aws: Emulated, path: str) -> None:
    for method in ("GET", "POST"):
        status, description = send_request(aws, method, path, **{"Content-Length": "0"})
        assert (status, b"curl --user" in description) == (401, True)
    assert send_request(aws, "GET", path, Authorization="Basic bm90OnJpZ2h0")[0] == 401
    assert send_request(aws, "GET", path, Authorization="Basic !")[0] == 401


def user_key(aws: Emulated, name: str) -> dict[str, str]:
    iam = aws.client("iam")
    iam.create_user(UserName=name)
    key: dict[str, str] = iam.create_access_key(UserName=name)["AccessKey"]
    return key


def test_user_key_is_valid_until_it_is_deleted(aws: Emulated) -> None:
    key, iam = user_key(aws, "ada"), aws.client("iam")
    expected = aws.client("sagemaker", key=key)
    assert expected.list_models()["Models"] == []
    assert (
        code(aws.client("sagemaker", key={**key, "SecretAccessKey": "no"}), "ListModels", {})
        == "InvalidSignatureException"
    )
    iam.update_access_key(UserName="ada", AccessKeyId=key["AccessKeyId"], Status="Inactive")
    assert code(expected, "ListModels", {}) == "UnrecognizedClientException"
    # User keys do not open the control API.
    pair = {**vars(aws), "key": key["AccessKeyId"], "secret": key["SecretAccessKey"]}
    with pytest.raises(urllib.error.HTTPError, match="401"):
        Emulated(**pair).get("/_clock")


def test_assumed_role_key_requires_its_session_token(aws: Emulated) -> None:
    trust = {
        **TRUST,
        "Statement": [{"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": "sts:AssumeRole"}],
    }
    arn = aws.role("assumed", trust=trust)
    given = aws.client("sts").assume_role(RoleArn=arn, RoleSessionName="s")["Credentials"]
    assert aws.client("sagemaker", key=given).list_models()["Models"] == []
    for token in (None, "another"):
        other = aws.client("sagemaker", key={**given, "SessionToken": token})
        assert code(other, "ListModels", {}) == "UnrecognizedClientException"


def test_assume_role_with_web_identity_is_refused(aws: Emulated) -> None:
    sts = boto3.client(
        "sts", endpoint_url=aws.url, region_name=REGION, config=Config(retries={"total_max_attempts": 1})
    )
    requests = {
        "RoleArn": f"arn:aws:iam::{ACCOUNT}:role/x",
        "RoleSessionName": "me",
        "WebIdentityToken": "mine",
    }
    assert code(sts, "AssumeRoleWithWebIdentity", requests) == "MissingAuthenticationToken"


def test_presigned_urls_of_both_versions_work(aws: Emulated) -> None:
    aws.upload("signed", {"a b/é~+.txt": "content"})
    place = {"Bucket": BUCKET, "Key": "signed/a b/é~+.txt"}
    for version in (None, "s3v4", "s3"):
        s3 = (
            aws.client("s3", fresh=True, signature_version=version)
            if version
            else aws.client("s3", fresh=True)
        )
        url = s3.generate_presigned_url("get_object", Params={**place, "ResponseContentType": "text/x y"})
        assert ("X-Amz-Signature=" in url) == (version == "s3v4")
        with urllib.request.urlopen(url) as response:
            assert response.read() == b"content"
        for other in (url.replace("signed/", "other/"), url[:-1] + ("a" if url[-1] != "a" else "b")):
            with pytest.raises(urllib.error.HTTPError, match="403"):
                urllib.request.urlopen(other)
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(url, b"x")  # a POST to a URL that was signed for a GET


def test_upload_changed_in_transit_is_refused(aws: Emulated) -> None:
    aws.upload("bodies", {"x": "y"})
    for service, path, body in (("s3", f"/{BUCKET}/bodies/x", b"good"), ("sagemaker", "/", b"{}")):
        headers = aws.signed(service, body, {"X-Amz-Target": "SageMaker.ListModels"}, path=path)
        request = urllib.request.Request(aws.url + path, b"evil", headers, method="POST")
        with pytest.raises(urllib.error.HTTPError, match=r"40[03]"):
            urllib.request.urlopen(request)


def test_given_key_is_used_and_kept_in_the_state_folder(tmp_path: Path) -> None:
    with emulator(tmp_path, "--key", "mine:s3cret") as aws:
        assert (aws.key, aws.secret) == ("mine", "s3cret")
    with emulator(tmp_path, variables={"AWS_ACCESS_KEY_ID": "of", "AWS_SECRET_ACCESS_KEY": "mine"}) as aws:
        first = (aws.key, aws.secret)
        assert first[0].startswith("EMULATOR")
    kept = ("--dir", str(tmp_path / "state"))
    keys = []
    for _ in range(2):
        with emulator(tmp_path, *kept) as aws:
            keys.append((aws.key, aws.secret))
            assert aws.client("sts").get_caller_identity()["Account"] == ACCOUNT
    assert keys[0] == keys[1] != first
    for path in (tmp_path / "state").rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path


def test_malformed_key_is_refused_without_printing_it(capfd: pytest.CaptureFixture[str]) -> None:
    from lmi_deploy.emulator.__main__ import main

    assert main(["--key", "secret-without-an-id"]) == 2
    message = capfd.readouterr().err
    assert "--key: not ACCESS_KEY_ID:SECRET_ACCESS_KEY" in message
    assert "secret-without" not in message
