"""The byte proxy drops, delays, cuts, stalls and flips bytes by the rules of `/_faults`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import BotoCoreError, ClientError, FlexibleChecksumError

from tests.emulator.conftest import FULL_SPEED
from tests.support.emulator_process import BUCKET, Emulated, emulator

CONTENT = bytes(range(256)) * 1024


@pytest.fixture(scope="module")
def through(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulated]:
    with emulator(tmp_path_factory.mktemp("proxy"), *FULL_SPEED, "--proxy") as running:
        s3 = running.client("s3")
        s3.create_bucket(Bucket=BUCKET)
        s3.put_object(Bucket=BUCKET, Key="weights", Body=CONTENT)
        yield running


@pytest.fixture(autouse=True)
def _no_faults(through: Emulated) -> Iterator[None]:
    yield
    through.no_faults()


def got(aws: Emulated, **settings: Any) -> bytes:
    """Read over a new connection."""
    client = aws.client("s3", fresh=True, **settings)
    content: bytes = client.get_object(Bucket=BUCKET, Key="weights")["Body"].read()
    return content


def rule(direction: str, do: Any, **more: Any) -> dict[str, Any]:
    return {"method": "BYTES", "path": f"^/{direction}/aws$", "do": do, **more}


def test_proxy_passes_bytes_unchanged(through: Emulated) -> None:
    assert got(through) == CONTENT


def test_cut_connection_is_a_client_error(through: Emulated) -> None:
    through.fault(rule("down", {"cut": {"after": 5000, "reset": True}}))
    with pytest.raises((BotoCoreError, ConnectionError)):
        got(through)
    assert got(through) == CONTENT


def test_lost_reply_means_the_request_was_executed(through: Emulated) -> None:
    through.fault(rule("down", {"cut": {"after": 0}}))
    s3 = through.client("s3", fresh=True)
    with pytest.raises(BotoCoreError):
        s3.copy_object(Bucket=BUCKET, Key="lost", CopySource={"Bucket": BUCKET, "Key": "weights"})
    existing = through.client("s3", fresh=True).get_object(Bucket=BUCKET, Key="lost")["Body"].read()
    assert existing == CONTENT


def test_dropped_connection_is_a_client_error(through: Emulated) -> None:
    through.fault(rule("up", {"drop": {"reset": True}}))
    with pytest.raises(BotoCoreError):
        got(through)


def test_flipped_bit_in_a_download_is_detected(through: Emulated) -> None:
    through.fault(rule("down", {"flip": {"at": 100_000}}))
    with pytest.raises(FlexibleChecksumError):
        got(through)


def test_flipped_bit_in_an_upload_is_refused(through: Emulated) -> None:
    """The body differs from the one that was signed."""
    through.fault(rule("up", {"flip": {"at": 100_000}}))
    with pytest.raises(ClientError, match="XAmzContentSHA256Mismatch"):
        through.client("s3", fresh=True).put_object(Bucket=BUCKET, Key="flipped", Body=CONTENT)


def test_delay_and_stall_slow_a_request_down(through: Emulated) -> None:
    through.fault(rule("up", {"stall": {"after": 0, "seconds": 0.3}}, delay=0.3))
    started = time.monotonic()
    assert got(through) == CONTENT
    assert time.monotonic() - started > 0.6


def test_proxy_works_in_front_of_an_external_s3_server(aws: Emulated, tmp_path: Path) -> None:
    """The external server is a second emulator."""
    aws.upload("outside", {"weights": CONTENT})
    with emulator(tmp_path, *FULL_SPEED, "--proxy", "--s3", aws.url, variables=aws.keys) as running:
        url = running.exported["AWS_ENDPOINT_URL_S3"]
        assert url != aws.url
        existing = replace(running, url=url, _clients={})
        place = {"Bucket": BUCKET, "Key": "outside/weights"}
        assert existing.client("s3").get_object(**place)["Body"].read() == CONTENT
        running.fault({"method": "BYTES", "path": "^/down/s3$", "do": {"cut": {"after": 5000}}})
        with pytest.raises(BotoCoreError):
            existing.client("s3", fresh=True).get_object(**place)["Body"].read()
