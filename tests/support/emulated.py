"""The emulator as a program of its own, and what every test puts into it first: a role, a bucket, a model."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.engine import engine_dir
from tests.support.served import worker_python

PATIENCE = 60.0
"""Real seconds; as long as these tests let a container take for its start."""
ACCOUNT = "123456789012"
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
    process: subprocess.Popen[bytes]
    log: Path
    region: str = REGION
    _clients: dict[str, Any] = field(default_factory=dict)

    def client(self, service: str, *, key: str = "any", fresh: bool = False, **more: Any) -> Any:
        """A boto3 client that retries nothing."""
        import boto3
        from botocore.config import Config

        if fresh or more or key != "any":
            return self._client(boto3, Config, service, key, more)
        if service not in self._clients:
            self._clients[service] = self._client(boto3, Config, service, key, more)
        return self._clients[service]

    def _client(self, boto3: Any, config: Any, service: str, key: str, more: Mapping[str, Any]) -> Any:
        settings = {"retries": {"total_max_attempts": 1}, "parameter_validation": False, **more}
        return boto3.client(
            service,
            endpoint_url=self.url,
            region_name=self.region,
            aws_access_key_id=key,
            aws_secret_access_key="any",
            config=config(**settings),
        )

    def post(self, path: str, body: Any) -> Any:
        request = urllib.request.Request(self.url + path, data=json.dumps(body).encode(), method="POST")
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return json.load(answer)

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(self.url + path, timeout=PATIENCE) as answer:
            return json.load(answer)

    def advance(self, seconds: float) -> None:
        self.post("/_clock", {"advance": seconds})

    def fault(self, *rules: Mapping[str, Any]) -> None:
        self.post("/_faults", {"rules": list(rules)})

    def no_faults(self) -> None:
        request = urllib.request.Request(self.url + "/_faults", method="DELETE")
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            answer.read()

    def role(self, name: str = "execution", *, trust: Any = TRUST, resources: Any = "*") -> str:
        """A role that SageMaker may assume, with the right to read these resources of S3."""
        iam = self.client("iam")
        with suppress(iam.exceptions.EntityAlreadyExistsException):
            iam.create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps(trust))
        statement = {"Effect": "Allow", "Action": ["s3:GetObject", "s3:ListBucket"], "Resource": resources}
        policy = {"Version": "2012-10-17", "Statement": [statement]}
        iam.put_role_policy(RoleName=name, PolicyName="read", PolicyDocument=json.dumps(policy))
        return f"arn:aws:iam::{ACCOUNT}:role/{name}"

    def environment(self, home: Path) -> dict[str, str]:
        """What a user sets to deploy here; lmi remembers in `home`. The role that recipes leave out may do all."""
        self.role("lmi-endpoint")
        statement = {"Effect": "Allow", "Action": "*", "Resource": "*"}
        policy = {"Version": "2012-10-17", "Statement": [statement]}
        self.client("iam").put_role_policy(
            RoleName="lmi-endpoint", PolicyName="all", PolicyDocument=json.dumps(policy)
        )
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": "any",
            "AWS_SECRET_ACCESS_KEY": "any",
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
        answer = self.client("sagemaker").create_model(
            ModelName=name, ExecutionRoleArn=role or self.role(), PrimaryContainer=container
        )
        return str(answer["ModelArn"])

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

    def settled(self, name: str, *, patience: float = PATIENCE) -> dict[str, Any]:
        """The endpoint once nothing is under way on it."""
        deadline = time.monotonic() + patience
        while (found := self.described(name))["EndpointStatus"] not in SETTLED:
            assert time.monotonic() < deadline, f"{found}\n{self.log.read_text()}"
            time.sleep(0.02)
        return found

    def gone(self, name: str) -> bool:
        names = [item["EndpointName"] for item in self.client("sagemaker").list_endpoints()["Endpoints"]]
        return name not in names

    def until_gone(self, name: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not self.gone(name):
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.02)


def folder(uri: str) -> dict[str, str]:
    return {"S3Uri": uri, "S3DataType": "S3Prefix", "CompressionType": "None"}


@contextmanager
def emulator(
    folder: Path, *arguments: str, containers: bool = False, variables: Mapping[str, str] | None = None
) -> Iterator[Emulated]:
    """A program of its own, ended as a user ends it; `folder` takes its output.

    Its own `variables` mean that it chooses how containers and jobs are made."""
    log = folder / "emulator.log"
    made: tuple[str, ...] = ("--no-containers",)
    if containers:
        made = ("--engine-dir", str(engine_dir()), "--python", worker_python())
    elif variables is not None:
        made = ()
    environ = {key: value for key, value in os.environ.items() if not key.startswith("AWS_")}
    environ |= variables or {}
    with log.open("wb") as output:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "lmi_deploy.emulator", "--port", "0"),
                *("--parent-pid", str(os.getpid()), *made, *arguments),
            ],
            stdout=subprocess.PIPE,
            stderr=output,
            env=environ,
        )
    try:
        yield Emulated(_address(process, log), process, log)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        assert process.stdout is not None
        process.stdout.close()


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    assert process.stdout is not None
    line = process.stdout.readline().decode()
    assert line.startswith("export AWS_ENDPOINT_URL="), log.read_text()
    return line.strip().partition("=")[2]
