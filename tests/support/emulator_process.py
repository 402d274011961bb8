"""The emulator as a program of its own, and the resources that every test needs: a role, a bucket, a model."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from tests.support.djl_engine import engine_dir
from tests.support.program_forks import ForkedProcess, fork_emulator
from tests.support.running_server import worker_python

TIMEOUT = 60.0
"""Real seconds; the time limit of these tests for the start of a container."""
ACCOUNT = "123456789012"
KEYS = {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"}
REGION = "us-east-1"
IMAGE = f"763104351884.dkr.ecr.{REGION}.amazonaws.com/djl-inference:0.36.0-lmi27.0.0-cu130"
BUCKET = "weights-and-artifacts"
TRUST = {
    "Version": "2012-10-17",
    "Statement": [
        {"Effect": "Allow", "Principal": {"Service": "sagemaker.amazonaws.com"}, "Action": "sts:AssumeRole"}
    ],
}
SETTLED = ("InService", "Failed", "OutOfService", "UpdateRollbackFailed")


@dataclass
class Emulated:
    """A running emulator, seen as a client sees AWS."""

    url: str
    key: str
    secret: str
    process: ForkedProcess | subprocess.Popen[bytes]
    log: Path
    exported: Mapping[str, str]
    """The lines that it printed at its start."""
    region: str = REGION
    _clients: dict[str, Any] = field(default_factory=dict)

    @property
    def keys(self) -> dict[str, str]:
        """The root's, as variables."""
        return {"AWS_ACCESS_KEY_ID": self.key, "AWS_SECRET_ACCESS_KEY": self.secret}

    def client(
        self, service: str, *, key: Mapping[str, str] | None = None, fresh: bool = False, **more: Any
    ) -> Any:
        """A boto3 client without retries; `key` is an access key as IAM returns it, by default the root's."""
        import boto3
        from botocore.config import Config

        if fresh or more or key is not None:
            return self._client(boto3, Config, service, key, more)
        if service not in self._clients:
            self._clients[service] = self._client(boto3, Config, service, key, more)
        return self._clients[service]

    def _client(
        self, boto3: Any, config: Any, service: str, key: Mapping[str, str] | None, more: Mapping[str, Any]
    ) -> Any:
        settings = {"retries": {"total_max_attempts": 1}, "parameter_validation": False, **more}
        return boto3.client(
            service,
            endpoint_url=self.url,
            region_name=self.region,
            aws_access_key_id=self.key if key is None else key["AccessKeyId"],
            aws_secret_access_key=self.secret if key is None else key["SecretAccessKey"],
            aws_session_token=key.get("SessionToken") if key is not None else None,
            config=config(**settings),
        )

    def signed(
        self, service: str, body: bytes, headers: Mapping[str, str], *, path: str = "/"
    ) -> dict[str, str]:
        """Headers of a POST that no AWS client would send, with a valid signature."""
        from botocore.auth import S3SigV4Auth, SigV4Auth
        from botocore.awsrequest import AWSRequest
        from botocore.credentials import Credentials

        request = AWSRequest(method="POST", url=self.url + path, data=body, headers=headers)
        kind = S3SigV4Auth if service == "s3" else SigV4Auth
        kind(Credentials(self.key, self.secret), service, self.region).add_auth(request)
        return dict(request.headers.items())

    def control(self, method: str, path: str, body: Any = None) -> Any:
        """The emulator's control API, with its key as user and password."""
        data = json.dumps(body).encode() if body is not None else None
        pair = base64.b64encode(f"{self.key}:{self.secret}".encode()).decode()
        headers = {"Authorization": f"Basic {pair}"}
        request = urllib.request.Request(self.url + path, data=data, method=method, headers=headers)
        with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
            return json.load(response)

    def post(self, path: str, body: Any) -> Any:
        return self.control("POST", path, body)

    def get(self, path: str) -> Any:
        return self.control("GET", path)

    def advance(self, seconds: float) -> None:
        self.post("/_clock", {"advance": seconds})

    def fault(self, *rules: Mapping[str, Any]) -> None:
        self.post("/_faults", {"rules": list(rules)})

    def no_faults(self) -> None:
        self.control("DELETE", "/_faults")

    def role(self, name: str = "execution", *, trust: Any = TRUST, resources: Any = "*") -> str:
        """A role that SageMaker may assume, with permission to read these S3 resources."""
        iam = self.client("iam")
        with suppress(iam.exceptions.EntityAlreadyExistsException):
            iam.create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps(trust))
        statement = {"Effect": "Allow", "Action": ["s3:GetObject", "s3:ListBucket"], "Resource": resources}
        policy = {"Version": "2012-10-17", "Statement": [statement]}
        iam.put_role_policy(RoleName=name, PolicyName="read", PolicyDocument=json.dumps(policy))
        return f"arn:aws:iam::{ACCOUNT}:role/{name}"

    def allow_all(self, role: str) -> None:
        statement = {"Effect": "Allow", "Action": "*", "Resource": "*"}
        document = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
        self.client("iam").put_role_policy(RoleName=role, PolicyName="all", PolicyDocument=document)

    def environment(self, home: Path) -> dict[str, str]:
        """The variables of a user who deploys here; lmi keeps its index in `home`. The default roles may do
        everything."""
        for role in ("lmi-endpoint", "lmi-transfer-job", "lmi-load-job"):
            self.role(role)
            self.allow_all(role)
        return {
            "AWS_ENDPOINT_URL": self.url,
            **self.keys,
            "AWS_REGION": self.region,
            "AWS_CONFIG_FILE": "/nowhere",
            "LMI_STATE_HOME": str(home / "state"),
        }

    def upload(self, prefix: str, files: Mapping[str, str | bytes], *, bucket: str = BUCKET) -> str:
        s3 = self.client("s3")
        s3.create_bucket(Bucket=bucket)
        for name, content in files.items():
            body = content.encode() if isinstance(content, str) else content
            s3.put_object(Bucket=bucket, Key=f"{prefix}/{name}", Body=body)
        return f"s3://{bucket}/{prefix}/"

    def model(self, name: str, uri: str, *, role: str | None = None, **more: Any) -> str:
        container = {"Image": IMAGE, "ModelDataSource": {"S3DataSource": folder(uri)}, **more}
        response = self.client("sagemaker").create_model(
            ModelName=name, ExecutionRoleArn=role or self.role(), PrimaryContainer=container
        )
        return str(response["ModelArn"])

    def endpoint_config(self, name: str, model: str, **more: Any) -> None:
        variant = {
            "VariantName": "AllTraffic",
            "ModelName": model,
            "InstanceType": "ml.g5.xlarge",
            "InitialInstanceCount": 1,
            **more,
        }
        self.client("sagemaker").create_endpoint_config(EndpointConfigName=name, ProductionVariants=[variant])

    def endpoint(self, name: str, config: str | None = None) -> None:
        self.client("sagemaker").create_endpoint(EndpointName=name, EndpointConfigName=config or name)

    def described(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.client("sagemaker").describe_endpoint(EndpointName=name)
        return found

    def settled(self, name: str, *, timeout: float = TIMEOUT) -> dict[str, Any]:
        """The endpoint once it has a settled status."""
        deadline = time.monotonic() + timeout
        while (found := self.described(name))["EndpointStatus"] not in SETTLED:
            assert time.monotonic() < deadline, f"{found}\n{self.log.read_text()}"
            time.sleep(0.02)
        return found

    def gone(self, name: str) -> bool:
        names = [item["EndpointName"] for item in self.client("sagemaker").list_endpoints()["Endpoints"]]
        return name not in names

    def wait_until_deleted(self, name: str) -> None:
        deadline = time.monotonic() + TIMEOUT
        while not self.gone(name):
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.02)


def folder(uri: str) -> dict[str, str]:
    return {"S3Uri": uri, "S3DataType": "S3Prefix", "CompressionType": "None"}


@contextmanager
def emulator(
    folder: Path,
    *arguments: str,
    containers: bool = False,
    variables: Mapping[str, str] | None = None,
    forked: bool = True,
) -> Iterator[Emulated]:
    """A program of its own, ended as a user ends it; `folder` takes its output. With `variables` other than
    keys, the program chooses how containers and jobs run. `forked`: from a process that has imported it."""
    log = folder / "emulator.log"
    created: tuple[str, ...] = ("--no-containers",)
    if containers:
        created = ("--engine-dir", str(engine_dir()), "--python", worker_python())
    elif variables is not None and not variables.keys() <= KEYS:
        created = ()
    environ = {key: value for key, value in os.environ.items() if not key.startswith("AWS_")}
    environ |= variables or {}
    with log.open("wb") as output:
        argv = ("--port", "0", "--parent-pid", str(os.getpid()), *created, *arguments)
        process = (fork_emulator if forked else _start)(argv, environ, output)
    try:
        response = _exported(process, log)
        existing = {**environ, **response}  # with an S3 server of the caller, the keys are the caller's
        key, secret = existing["AWS_ACCESS_KEY_ID"], existing["AWS_SECRET_ACCESS_KEY"]
        yield Emulated(response["AWS_ENDPOINT_URL"], key, secret, process, log, response)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        assert process.stdout is not None
        process.stdout.close()


def _start(
    arguments: Sequence[str], environ: Mapping[str, str], log: IO[bytes]
) -> ForkedProcess | subprocess.Popen[bytes]:
    argv = [sys.executable, "-m", "lmi_deploy.emulator", *arguments]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=log, env=environ)


def _exported(process: ForkedProcess | subprocess.Popen[bytes], log: Path) -> dict[str, str]:
    """The lines that it prints at its start, to the last of them."""
    assert process.stdout is not None
    response: dict[str, str] = {}
    while "AWS_DEFAULT_REGION" not in response:
        line = process.stdout.readline().decode().strip()
        assert line.startswith("export "), log.read_text()
        name, _, value = line.removeprefix("export ").partition("=")
        response[name] = value
    return response
