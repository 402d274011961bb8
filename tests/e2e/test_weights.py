"""The wheel's `lmi weights` with real weights from the local Hub to moto's S3: killed and resumed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import boto3
import pytest

from tests.e2e.conftest import ROOT, Installed

RECIPE = str(ROOT / "recipes" / "quickstart.yaml")
BUCKET = "models"
pytestmark = [pytest.mark.model, pytest.mark.landing]


@pytest.fixture(scope="module")
def cloud(installed: Installed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    log = (tmp_path_factory.mktemp("moto") / "log").open("w+")
    moto = subprocess.Popen(
        [str(Path(sys.executable).with_name("moto_server")), "-H", "127.0.0.1", "-p", "0"],
        stdout=log,
        stderr=log,
    )
    try:
        url = _address(moto, Path(log.name))
        keys = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "aws_canary_that_must_not_be_seen"}
        boto3.client(
            "s3",
            endpoint_url=url,
            region_name="us-east-1",
            aws_access_key_id="test",
            aws_secret_access_key="test",
        ).create_bucket(Bucket=BUCKET)
        added = {
            **keys,
            "AWS_ENDPOINT_URL": url,
            "AWS_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }
        yield replace(installed, environment={**installed.environment, **added})
    finally:
        moto.terminate()
        moto.wait(10)
        log.close()


def push(cloud: Installed, *more: str) -> subprocess.CompletedProcess[str]:
    return cloud.run("weights", "push", "--bucket", BUCKET, "--json", *more, RECIPE)


def test_killed_push_resumes_and_every_byte_is_right(cloud: Installed) -> None:
    command = [str(cloud.lmi), "weights", "push", "--bucket", BUCKET, "--json", RECIPE]
    running = subprocess.Popen(command, env=cloud.environment, stdout=subprocess.PIPE, text=True)
    assert running.stdout is not None
    for line in running.stdout:
        event = json.loads(line)
        if event["event"] == "progress" and event["done"] > 60_000_000:
            break
    running.kill()
    running.wait()
    running.stdout.close()
    assert cloud.run("weights", "ls", "--bucket", BUCKET).stdout == "", "no manifest, no weights"
    done = push(cloud)
    assert done.returncode == 0, done.stdout
    verified = cloud.run("weights", "verify", "--deep", "--bucket", BUCKET, "HuggingFaceTB--SmolLM2")
    assert verified.returncode == 0, verified.stderr
    assert "canary" not in done.stdout + done.stderr


def test_second_push_uploads_nothing(cloud: Installed) -> None:
    done = push(cloud)
    assert done.returncode == 0
    results = [json.loads(line) for line in done.stdout.splitlines()]
    assert any("all already in the bucket" in str(event.get("note")) for event in results)


def test_another_file_selection_is_copied_inside_s3_and_listed(cloud: Installed) -> None:
    assert push(cloud, "--set", "files.ignore=[merges.txt]").returncode == 0
    listed = cloud.run("weights", "ls", "--bucket", BUCKET, "--json").stdout.splitlines()
    rows = [json.loads(line) for line in listed if json.loads(line)["event"] == "row"]
    assert [row["files"] for row in sorted(rows, key=lambda row: row["files"])] == [8, 9]


def test_missing_credentials_and_missing_bucket_are_reported(cloud: Installed) -> None:
    bare = {
        "AWS_ACCESS_KEY_ID": "",
        "AWS_SECRET_ACCESS_KEY": "",
        "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent",
    }
    none = cloud.run("weights", "ls", "--bucket", BUCKET, env=bare)
    assert none.returncode == 1
    assert "AWS_PROFILE" in none.stderr
    absent = cloud.run("weights", "ls", "--bucket", "nobody-made-this")
    assert absent.returncode == 1
    assert "no such bucket" in absent.stderr


def _address(moto: subprocess.Popen[bytes], log: Path) -> str:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and moto.poll() is None:
        if found := re.search(r"http://127\.0\.0\.1:\d+", log.read_text()):
            urllib.request.urlopen(found[0] + "/moto-api/", timeout=10).close()
            return found[0]
        time.sleep(0.1)
    raise AssertionError(f"moto did not start: {log.read_text()}")
