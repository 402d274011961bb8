"""`container.build` for real: podman builds, a registry program takes the image, the emulator pulls and serves it.

The user has exactly the permissions that `lmi iam` prints.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import own_server
from tests.support.container_image import FLAGS, image, podman_environ
from tests.support.emulator_process import REGION, Emulated, emulator
from tests.support.image_registry import image_registry
from tests.support.least_privilege import (
    Principal,
    ReducedPermissions,
    clear_buckets,
    policies_of,
    settle,
)

pytestmark = pytest.mark.landing

RECIPE = """\
name: own
model_id: ./model
engine: custom
instance_type: ml.c5.xlarge
container: {build: ./image, build_args: {GREETING: hello}}
probe: {body: '{"input": "ok"}', expect: OK}
endpoint: {role: serving}
"""
REPOSITORY = "lmi/own"
UP, DOWN = ("up", "r.yaml", "--yes"), ("down", "own", "--yes", "--purge")


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    podman_environ()
    with image_registry(tmp_path_factory.mktemp("registry")) as address:
        yield address


@pytest.fixture(scope="module")
def aws(registry: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulated]:
    variables = {"LMI_CONTAINER_ENGINE": "podman", "LMI_CONTAINER_FLAGS": FLAGS}
    flags = ("--speed", "1000000", "--enforce-iam", "--registry", registry)
    with emulator(tmp_path_factory.mktemp("aws"), *flags, containers=True, variables=variables) as running:
        yield running


@pytest.fixture
def ada(
    aws: Emulated, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Principal]:
    settle(aws, monkeypatch, tmp_path)
    monkeypatch.setenv("LMI_CONTAINER_ENGINE", "podman")
    write_image("first")
    Path("r.yaml").write_text(RECIPE)
    principal = Principal(aws, capsys, monkeypatch)
    policies_of(principal, "r.yaml")
    principal.enter()
    principal.grant()
    yield principal
    principal.as_root()
    assert principal.lmi(*DOWN)[0] == 0
    forget_images()
    clear_buckets(aws)


def write_image(label: str) -> None:
    Path("image").mkdir(exist_ok=True)
    base = image(Path(own_server.__file__))
    text = f"FROM {base}\nARG GREETING\nLABEL greeting=$GREETING label={label}\nCOPY note /note\n"
    Path("image", "Dockerfile").write_text(text)
    Path("image", "note").write_text(label)


def forget_images() -> None:
    """What was built and pulled. Without `-f`, which would also remove the containers that run them."""
    listed = [
        "podman",
        "images",
        "--filter",
        f"reference=*/{REPOSITORY}",
        "--format",
        "{{.Repository}}:{{.Tag}}",
    ]
    names = subprocess.run(listed, check=True, capture_output=True, text=True).stdout.split()
    for name in names:
        subprocess.run(["podman", "rmi", name], check=False, capture_output=True)


def done(ada: Principal, *command: str) -> str:
    code, output = ada.lmi(*command)
    assert code == 0, output
    return output


def tags(ada: Principal) -> list[str]:
    images = ada.aws.client("ecr").list_images(repositoryName=REPOSITORY)["imageIds"]
    return sorted(image["imageTag"] for image in images)


def test_image_is_built_pushed_pulled_and_served_with_the_printed_permissions(
    ada: Principal, registry: str
) -> None:
    assert "built for linux/amd64 from 2 files" in done(ada, "plan", "r.yaml")
    output = done(ada, *UP)
    assert "STEP" in output
    answer = json.loads(done(ada, "invoke", "own", "--body", '{"input": "abc"}').splitlines()[0])
    assert answer == {"output": "ABC", "weights": ["config.json", "model.safetensors"]}
    (first,) = tags(ada)
    with urllib.request.urlopen(f"{registry}/v2/{REPOSITORY}/tags/list", timeout=10) as response:
        assert json.load(response)["tags"] == [first]
    ecr = ada.aws.client("ecr")
    (repository,) = ecr.describe_repositories(repositoryNames=[REPOSITORY])["repositories"]
    assert repository["imageTagMutability"] == "IMMUTABLE"
    assert done(ada, "plan", "r.yaml", "--exit-code")

    forget_images()  # another machine: the image is in ECR, and nothing is built
    Path("r.yaml").write_text(RECIPE.replace("endpoint:", "timeouts: {container_startup: 500}\nendpoint:"))
    assert "already in ECR" in done(ada, "plan", "r.yaml")
    assert "STEP" not in done(ada, *UP)

    write_image("second")
    done(ada, *UP)
    assert len(tags(ada)) == 2
    assert "stays in ECR" in done(ada, "down", "own", "--yes")
    assert len(tags(ada)) == 2
    done(ada, *UP)
    done(ada, *DOWN)
    assert ecr.describe_repositories()["repositories"] == []


@pytest.mark.parametrize(
    "action",
    [
        "ecr:PutImage",
        *(
            pytest.param(action, marks=pytest.mark.long)
            for action in ("ecr:GetAuthorizationToken", "ecr:CreateRepository", "ecr:InitiateLayerUpload")
        ),
    ],
)
def test_missing_permission_is_named_and_the_next_up_continues(ada: Principal, action: str) -> None:
    sid = "EnterRegistry" if action == "ecr:GetAuthorizationToken" else "PushImage"
    ada.grant(ReducedPermissions("deployer", sid, action))
    code, output = ada.lmi(*UP)
    assert code == 1, output
    assert action in output
    assert ada.aws.client("sagemaker").list_models()["Models"] == []
    ada.grant()
    assert "STEP" not in done(ada, *UP)
    assert len(tags(ada)) == 1


PODMAN = """\
#!/bin/sh
echo "$@" >> {log}
if [ "$1" = login ]; then tee {password} | {podman} "$@"; else exec {podman} "$@"; fi
"""


def test_password_is_in_no_output_record_or_command_line(
    ada: Principal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, given, podman = tmp_path / "log", tmp_path / "password", tmp_path / "bin" / "podman"
    podman.parent.mkdir()
    podman.write_text(PODMAN.format(log=log, password=given, podman=shutil.which("podman")))
    podman.chmod(0o755)
    monkeypatch.setenv("LMI_CONTAINER_ENGINE", str(podman))
    output = done(ada, *UP, "--json")
    password, lines = given.read_text(), log.read_text()
    assert len(password) > 40
    assert "login --username AWS --password-stdin" in lines
    s3 = ada.aws.client("s3")
    bucket = f"lmi-123456789012-{REGION}-an"
    stored = s3.list_objects_v2(Bucket=bucket)["Contents"]
    bodies = [s3.get_object(Bucket=bucket, Key=each["Key"])["Body"].read() for each in stored]
    for text in (output, lines, *(body.decode(errors="replace") for body in bodies)):
        assert password not in text


def test_failed_build_shows_its_last_lines_and_pushes_nothing(ada: Principal) -> None:
    Path("image", "Dockerfile").write_text("FROM scratch\nCOPY nothing /nothing\n")
    code, output = ada.lmi(*UP)
    assert code == 1
    assert "nothing" in output
    assert "correct the Dockerfile" in output
    assert ada.aws.client("ecr").describe_repositories()["repositories"] == []
