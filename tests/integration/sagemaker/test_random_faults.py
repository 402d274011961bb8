"""Random faults in every response of AWS: no command reports a bug of lmi, hangs, or leaves wrong data.

Each round is one seed: `up`, `status` and `down` with an emulator behind a proxy that alters a few of its
responses. Then the network is restored: the same command converges, the weights equal the source, and `down`
leaves nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lmi_deploy.cli.command_group import lmi
from lmi_deploy.cli.error_boundary import run
from tests.support.emulator_process import ACCOUNT, REGION, Emulated, emulator
from tests.support.fakes import model_files, safetensors
from tests.support.proxy import Proxy, proxied
from tests.support.random_faults import RandomFaults

pytestmark = pytest.mark.landing

ROUNDS = int(os.environ.get("LMI_FAULT_ROUNDS", "10"))
AT_MOST = 240
"""Seconds for one command: retries are bounded, and wait 20 s each at most."""
BUCKET = f"lmi-{ACCOUNT}-{REGION}-an"
RECIPE = """\
name: tiny
model_id: ./model
engine: accelerate
instance_type: ml.g5.xlarge
probe: {body: '{"inputs": "OK"}', expect: OK}
"""
FILES = {**model_files(), "model.safetensors": safetensors(5 << 20)}
"""The weights have more than one part."""
UP, DOWN = ("up", "tiny.yaml", "--yes"), ("down", "tiny", "--yes", "--target", "sagemaker", "--purge")
HARMED = (UP, ("status", "tiny"), DOWN)
ENDINGS = frozenset({0, 1, 4, 5, 6})
"""Success, failed, changes pending, refused, integrity. Neither a bug of lmi (3) nor a usage error (2)."""


@pytest.fixture(scope="module")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulated]:
    with emulator(tmp_path_factory.mktemp("aws"), "--speed", "100000") as running:
        yield running


@pytest.fixture(scope="module")
def network(aws: Emulated) -> Iterator[Proxy]:
    with proxied(aws.url) as proxy:
        yield proxy


@contextmanager
def _alarm(seconds: int, what: object) -> Iterator[None]:
    def late(*_: Any) -> None:
        raise AssertionError(f"{what}: no end after {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_random_fault_causes_no_bug_hang_or_wrong_data(
    aws: Emulated,
    network: Proxy,
    seed: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for key, value in {**aws.environment(tmp_path), "AWS_ENDPOINT_URL": network.url}.items():
        monkeypatch.setenv(key, value)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model").mkdir()
    for name, content in FILES.items():
        (tmp_path / "model" / name).write_bytes(content)
    (tmp_path / "tiny.yaml").write_text(RECIPE)
    faults = RandomFaults(seed)

    def ended(argv: tuple[str, ...]) -> tuple[int, str]:
        with _alarm(AT_MOST, (seed, argv, faults.done)):
            code = run(lmi, argv)
        out, err = capsys.readouterr()
        return code, f"{argv}: {code}\n{out}{err}\n{faults.done}"

    for argv in HARMED:
        network.alter = faults
        code, output = ended(argv)
        network.alter = None
        assert code in ENDINGS, output
        _unlock(aws)
    code, output = ended(UP)
    assert code == 0, output
    _require_right_weights(aws)
    code, output = ended(DOWN)
    assert code == 0, output
    _require_nothing_left(aws)


def _unlock(aws: Emulated) -> None:
    """The lock of an ended process is taken over; this process runs on."""
    if any(bucket["Name"] == BUCKET for bucket in aws.client("s3").list_buckets()["Buckets"]):
        aws.client("s3").delete_object(Bucket=BUCKET, Key="deployments/tiny/lock.json")


def _keys(aws: Emulated, prefix: str) -> list[str]:
    found = aws.client("s3").list_objects_v2(Bucket=BUCKET, Prefix=prefix)
    return [item["Key"] for item in found.get("Contents", ())]


def _read(aws: Emulated, key: str) -> bytes:
    content: bytes = aws.client("s3").get_object(Bucket=BUCKET, Key=key)["Body"].read()
    return content


def _require_right_weights(aws: Emulated) -> None:
    (key,) = _keys(aws, "manifests/")
    manifest = json.loads(_read(aws, key))
    prefix = f"weights/{manifest['name']}/"
    files = {file["path"]: file["sha256"] for file in manifest["files"]}
    assert files == {path: hashlib.sha256(FILES[path]).hexdigest() for path in files}
    assert {key.removeprefix(prefix): _read(aws, key) for key in _keys(aws, prefix)} == {
        path: FILES[path] for path in files
    }


def _require_nothing_left(aws: Emulated) -> None:
    sagemaker = aws.client("sagemaker")
    assert sagemaker.list_endpoints()["Endpoints"] == []
    assert sagemaker.list_endpoint_configs()["EndpointConfigs"] == []
    assert sagemaker.list_models()["Models"] == []
    assert _keys(aws, "") == []
    assert aws.client("s3").list_multipart_uploads(Bucket=BUCKET).get("Uploads", []) == []
