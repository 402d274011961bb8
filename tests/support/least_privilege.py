"""A user with exactly the permissions that `lmi iam` prints, or with one less, and an emulator that enforces
IAM."""

from __future__ import annotations

import copy
import fnmatch
import json
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from lmi_deploy.cli.command_group import lmi
from lmi_deploy.cli.error_boundary import run
from tests.support.aws_requests import LOG
from tests.support.emulator_process import ACCOUNT, REGION, Emulated

HANDLER = "from djl_python import Output\n\n\ndef handle(inputs):\n    return Output().add_as_json({})\n"
ROLE, JOB_ROLE, SCHEDULER_ROLE = "serving", "carrying", "ending"
SIMULATES = "iam:SimulatePrincipalPolicy"
_NUMBERS = count()


def _managed_policies(document: str) -> list[str]:
    """A managed policy has at most 6,144 characters, without white space (IAM's quotas)."""
    if len("".join(document.split())) <= 6144:
        return [document]
    parsed = json.loads(document)
    statements = parsed["Statement"]
    half = len(statements) // 2
    return [json.dumps({**parsed, "Statement": part}) for part in (statements[:half], statements[half:])]


@dataclass(frozen=True, slots=True, order=True)
class ReducedPermissions:
    """One action of one statement, removed."""

    part: str
    sid: str
    action: str

    def __str__(self) -> str:
        return f"{self.part}-{self.sid}-{self.action}"


@dataclass
class Principal:
    """A user of the account with configurable policies, and the keys that `lmi` gets."""

    aws: Emulated
    capsys: pytest.CaptureFixture[str]
    monkeypatch: pytest.MonkeyPatch
    documents: dict[str, Any] = field(default_factory=dict)
    name: str = ""

    def lmi(self, *argv: str) -> tuple[int, str]:
        """Exit code, and stdout with stderr."""
        code = run(lmi, argv)
        out, err = self.capsys.readouterr()
        return code, out + err

    def enter(self) -> None:
        """From now on as a user who has not sent any request yet."""
        iam, self.name = self.aws.client("iam"), f"ada-{next(_NUMBERS)}"
        iam.create_user(UserName=self.name)
        key = iam.create_access_key(UserName=self.name)["AccessKey"]
        self.monkeypatch.setenv("AWS_ACCESS_KEY_ID", key["AccessKeyId"])
        self.monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", key["SecretAccessKey"])

    def as_root(self) -> None:
        for name, value in self.aws.keys.items():
            self.monkeypatch.setenv(name, value)

    def grant(self, *less: ReducedPermissions) -> None:
        """The printed policies, without these permissions."""
        documents, iam = copy.deepcopy(self.documents), self.aws.client("iam")
        for one in set(less):
            for statement in documents[one.part]["Statement"]:
                if statement["Sid"] == one.sid:
                    statement["Action"].remove(one.action)
        for part in documents.keys() - {"trust", "scheduler-trust"}:
            kept = [statement for statement in documents[part]["Statement"] if statement["Action"]]
            documents[part]["Statement"] = kept
        response = {part: json.dumps(document) for part, document in documents.items()}
        self._attach(response["deployer"])
        iam.put_role_policy(RoleName=ROLE, PolicyName="p", PolicyDocument=response["execution"])
        if "job" in response:
            iam.put_role_policy(RoleName=JOB_ROLE, PolicyName="p", PolicyDocument=response["job"])
        if "load" in response:
            iam.put_role_policy(RoleName=JOB_ROLE, PolicyName="l", PolicyDocument=response["load"])
        if "compile" in response:
            iam.put_role_policy(RoleName=JOB_ROLE, PolicyName="c", PolicyDocument=response["compile"])
        if "scheduler" in response:
            iam.put_role_policy(RoleName=SCHEDULER_ROLE, PolicyName="p", PolicyDocument=response["scheduler"])

    def _attach(self, document: str) -> None:
        """As managed policies: they are longer than the inline limit of a user. Two, if one would be too long."""
        iam = self.aws.client("iam")
        for attached in iam.list_attached_user_policies(UserName=self.name)["AttachedPolicies"]:
            iam.detach_user_policy(UserName=self.name, PolicyArn=attached["PolicyArn"])
            iam.delete_policy(PolicyArn=attached["PolicyArn"])
        for number, part in enumerate(_managed_policies(document)):
            name = f"{self.name}-{number}"
            iam.create_policy(PolicyName=name, PolicyDocument=part)
            iam.attach_user_policy(UserName=self.name, PolicyArn=f"arn:aws:iam::{ACCOUNT}:policy/{name}")

    @property
    def requests(self) -> list[tuple[str, str]]:
        """This user's requests to AWS: actions and resources, in the order of first use."""
        used = self.aws.get("/_rights").get(f"arn:aws:iam::{ACCOUNT}:user/{self.name}", [])
        return [(action, resource) for action, resource in used]

    def every(self, part: str) -> list[ReducedPermissions]:
        return [
            ReducedPermissions(part, statement["Sid"], action)
            for statement in self.documents[part]["Statement"]
            for action in statement["Action"]
        ]

    def decisive(self, requests: Iterable[tuple[str, str]]) -> list[ReducedPermissions]:
        """The actions that only one statement of the deployer's policy grants, in the order of first use."""
        found: dict[ReducedPermissions, None] = {}
        for action, resource in requests:
            grants = list(self._granting(action, resource))
            if len(grants) == 1:
                found[ReducedPermissions("deployer", grants[0], action)] = None
        return list(found)

    def _granting(self, action: str, resource: str) -> Iterator[str]:
        for statement in self.documents["deployer"]["Statement"]:
            fits = any(fnmatch.fnmatchcase(resource, pattern) for pattern in statement["Resource"])
            if action in statement["Action"] and fits:
                yield statement["Sid"]


def settle(aws: Emulated, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """The environment of a deployer in an account without any bucket, and a folder with a model."""
    chain = {"AWS_ENDPOINT_URL": aws.url, "AWS_REGION": REGION, "AWS_CONFIG_FILE": "/nowhere"}
    homes = {f"LMI_{kind}_HOME": str(folder / kind) for kind in ("STATE", "CACHE")}
    chain |= {"AWS_SHARED_CREDENTIALS_FILE": "/nowhere", LOG: str(folder / "requests.log")}
    for name, value in {**chain, **homes}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(folder)
    write_model(folder / "model")
    Path("model.py").write_text(HANDLER)
    clear_buckets(aws)


def write_model(folder: Path, *, more: Mapping[str, bytes] | None = None) -> None:
    header = json.dumps({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
    header += b" " * (-len(header) % 8)
    folder.mkdir()
    (folder / "config.json").write_text('{"architectures": ["Echo"]}')
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(8))
    for name, content in (more or {}).items():
        (folder / name).write_bytes(content)


def clear_buckets(aws: Emulated) -> None:
    s3 = aws.client("s3")
    for bucket in s3.list_buckets()["Buckets"]:
        name = bucket["Name"]
        for stored in s3.list_objects_v2(Bucket=name).get("Contents", ()):
            s3.delete_object(Bucket=name, Key=stored["Key"])
        for upload in s3.list_multipart_uploads(Bucket=name).get("Uploads", ()):
            s3.abort_multipart_upload(Bucket=name, Key=upload["Key"], UploadId=upload["UploadId"])
        s3.delete_bucket(Bucket=name)


def policies_of(principal: Principal, recipe: str, *more: str) -> None:
    """Read from `lmi iam` by a user who may; missing roles are created."""
    principal.as_root()
    assert run(lmi, ["iam", recipe, *more]) == 0
    principal.documents = json.loads(principal.capsys.readouterr().out)
    iam = principal.aws.client("iam")
    trust, scheduler_trust = (principal.documents.get(part) for part in ("trust", "scheduler-trust"))
    needed = {ROLE: trust, JOB_ROLE: trust, SCHEDULER_ROLE: scheduler_trust}
    for role in needed.keys() - {role["RoleName"] for role in iam.list_roles()["Roles"]}:
        if needed[role]:
            iam.create_role(RoleName=role, AssumeRolePolicyDocument=json.dumps(needed[role]))


def names(output: str, less: ReducedPermissions, who: str) -> bool:
    """Whether an error names the action, a resource and the principal, which a response without a body
    omits."""
    return (
        less.action in output
        and (who in output or "these credentials" in output)
        and ("arn:" in output or "on *" in output)
    )


Command = Sequence[str]
