"""`lmi bench` of an endpoint on the emulator: signed requests, event streams, SageMaker's errors."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lmi_deploy.bench.report import LoadPoint
from lmi_deploy.bench.report_file import from_json, to_json
from lmi_deploy.cli.command_group import lmi
from lmi_deploy.cli.error_boundary import run
from tests.support.emulator_process import Emulated, emulator
from tests.support.talking_handler import RECIPE, write_talking

pytestmark = [pytest.mark.worker, pytest.mark.landing]
WHOLE = "/endpoints/talks/invocations$"


@pytest.fixture(scope="module")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulated]:
    """With an endpoint, in the environment and the folder of its user."""
    home = tmp_path_factory.mktemp("home")
    write_talking(home)
    (home / "talks.yaml").write_text(RECIPE + 'options: {retry_threshold: "50"}\n')
    with (
        emulator(tmp_path_factory.mktemp("aws"), "--speed", "600", containers=True) as running,
        pytest.MonkeyPatch.context() as patch,
    ):
        for key, value in running.environment(home).items():
            patch.setenv(key, value)
        patch.chdir(home)
        assert run(lmi, ["up", "talks.yaml", "--yes"]) == 0
        yield running


@pytest.fixture(autouse=True)
def without_faults(aws: Emulated) -> Iterator[None]:
    yield
    aws.no_faults()


def bench(*argv: str, expected: int = 0, requests: int = 20) -> LoadPoint:
    body: dict[str, Any] = {"messages": [{"role": "user", "content": "words 5"}]}
    if "--no-stream" not in argv:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    Path("bodies.jsonl").write_text(json.dumps({"body": body}))
    limits = ["--requests", str(requests), "--warmup", "0"]
    assert run(lmi, ["bench", "talks", "--prompts", "bodies.jsonl", *limits, *argv]) == expected
    (point,) = from_json(Path("bench.json").read_text(encoding="utf-8"), "bench.json").points
    return point


def test_streams_are_signed_and_their_tokens_have_times(aws: Emulated) -> None:
    point = bench("-c", "2")
    assert (point.counts.succeeded, point.counts.output_tokens) == (20, 100)
    assert point.metrics["ttft"].n == 20
    assert point.billed.instance == "ml.g5.xlarge"
    assert point.billed.price is not None


def test_measured_cost_of_the_instance_type_is_listed(
    aws: Emulated, capsys: pytest.CaptureFixture[str]
) -> None:
    point = bench("--no-stream", "--cloudwatch-wait", "0", requests=40)
    # On a busy machine the checks say, rightly, that the client was measured; such a run is not listed.
    report = from_json(Path("bench.json").read_text(encoding="utf-8"), "bench.json")
    Path("bench.json").write_text(
        to_json(replace(report, points=(replace(point, checks=()),))), encoding="utf-8"
    )
    capsys.readouterr()
    assert run(lmi, ["instances", "--bench", "bench.json", "--json"]) == 0
    row = json.loads(capsys.readouterr().out.splitlines()[0])
    assert row["instance"] == "ml.g5.xlarge"
    price = point.billed.price
    assert price is not None
    tokens = {"output": point.rate("output_tokens_per_s"), "input": point.rate("input_tokens_per_s")}
    for kind, rate in tokens.items():
        assert row[f"per_million_{kind}_tokens"] == pytest.approx(price.hourly / 3600 / rate * 1e6, rel=0.01)


def test_whole_responses_have_no_time_to_the_first_token(aws: Emulated) -> None:
    point = bench("--no-stream", "--rate", "20")
    assert (point.counts.succeeded, point.counts.output_tokens) == (20, 100)
    assert "ttft" not in point.metrics


def test_figures_of_cloudwatch_are_beside_those_of_the_client(
    aws: Emulated, capsys: pytest.CaptureFixture[str]
) -> None:
    point = bench("--no-stream")
    assert point.cloudwatch["requests"] >= 20
    assert 0 < point.cloudwatch["ModelLatency p50 (ms)"] <= point.cloudwatch["ModelLatency p99 (ms)"]
    output = capsys.readouterr()
    assert "ModelLatency p50 (ms)" in output.out
    assert "CloudWatch counts by the minute, and no whole minute is within" in output.err
    assert "CloudWatch has no values of OverheadLatency p50 (ms)" in output.err
    assert bench("--no-stream", "--cloudwatch-wait", "0").cloudwatch == {}


def test_expired_credentials_are_read_again_in_the_run(aws: Emulated) -> None:
    expired = {"status": 403, "body": "{}", "headers": {"x-amzn-ErrorType": "ExpiredTokenException"}}
    aws.fault({"path": WHOLE, "do": {"answer": expired}, "times": 1})
    assert bench("--no-stream").counts.succeeded == 20


def test_throttling_is_counted_by_its_class_and_is_in_no_latency(aws: Emulated) -> None:
    throttled = {"status": 429, "body": "{}", "headers": {"x-amzn-ErrorType": "ThrottlingException"}}
    aws.fault({"path": WHOLE, "do": {"answer": throttled}, "times": 5})
    point = bench("--no-stream")
    assert point.counts.errors == {"ThrottlingException": 5}
    assert point.metrics["e2e"].n == 15


def test_storm_of_refusals_is_counted_by_class_and_the_run_goes_on(aws: Emulated) -> None:
    """As an endpoint behaves while it scales: 503 of the container's queue, then 429 of SageMaker's own limit."""
    busy = {"status": 503, "body": "{}", "headers": {"x-amzn-ErrorType": "ServiceUnavailable"}}
    throttled = {"status": 429, "body": "{}", "headers": {"x-amzn-ErrorType": "ThrottlingException"}}
    aws.fault(
        {"path": WHOLE, "do": {"answer": busy}, "times": 30},
        {"path": WHOLE, "do": {"answer": throttled}, "times": 30},
    )
    point = bench("--no-stream", "-c", "8", "--stop-at-errors", "1", requests=160)
    assert point.counts.errors == {"ServiceUnavailable": 30, "ThrottlingException": 30}
    assert (point.counts.succeeded, point.metrics["e2e"].n) == (100, 100)
    aws.fault({"path": WHOLE, "do": {"answer": busy}, "times": 1000})
    stopped = bench("--no-stream", "-c", "8", "--duration", "60", expected=1, requests=10_000)
    assert stopped.counts.sent < 100
    assert {*stopped.counts.errors} == {"ServiceUnavailable"}


def test_endpoint_that_is_updated_in_the_run_makes_it_invalid(
    aws: Emulated, capsys: pytest.CaptureFixture[str]
) -> None:
    client = aws.client("sagemaker")
    before = client.describe_endpoint(EndpointName="talks")["EndpointConfigName"]
    described = client.describe_endpoint_config(EndpointConfigName=before)
    client.create_endpoint_config(
        EndpointConfigName="talks-other", ProductionVariants=described["ProductionVariants"]
    )
    aws.fault({"path": WHOLE, "nth": 1_000_000, "do": "lose"})  # it only counts

    def update_in_the_run() -> None:
        while aws.get("/_faults")["rules"][0]["matched"] < 5:
            time.sleep(0.05)
        client.update_endpoint(EndpointName="talks", EndpointConfigName="talks-other")

    update = threading.Thread(target=update_in_the_run)
    update.start()
    try:
        point = bench(
            "--no-stream", "--rate", "20", "--duration", "6", "--cloudwatch-wait", "0", requests=100
        )
    finally:
        update.join()
        waiter = client.get_waiter("endpoint_in_service")
        waiter.wait(EndpointName="talks", WaiterConfig={"Delay": 1})
        client.update_endpoint(EndpointName="talks", EndpointConfigName=before)
        waiter.wait(EndpointName="talks", WaiterConfig={"Delay": 1})
    (check,) = [check for check in point.checks if check.name == "endpoint"]
    assert check.state == "invalid"
    assert "the endpoint changed during the run" in capsys.readouterr().err
    assert point.counts.sent > 0


def test_stream_that_is_cut_failed(aws: Emulated) -> None:
    aws.fault({"method": "HOSTING", "path": "^/stream/talks/", "do": {"cut": {"after": 200}}, "times": 3})
    point = bench()
    assert (point.counts.succeeded, point.counts.failed, point.counts.truncated) == (17, 3, 3)


def test_endpoint_that_is_deleted_in_the_run_ends_it_with_the_numbers_kept(aws: Emulated) -> None:
    gone = {"status": 400, "body": "{}", "headers": {"x-amzn-ErrorType": "ValidationError"}}
    aws.fault({"path": WHOLE, "do": {"answer": gone}, "times": 100})
    point = bench("--no-stream", "--duration", "60", expected=1, requests=10_000)
    assert point.counts.succeeded == 0
    assert 20 <= point.counts.errors["ValidationError"] < 100


def test_cost_is_said_before_the_run_and_may_be_limited(
    aws: Emulated, capsys: pytest.CaptureFixture[str]
) -> None:
    bench("--no-stream", "--duration", "10", "--timeout", "5", "--max-cost", "0.05")
    assert "1 load in at most 20.0 s: 1 x ml.g5.xlarge cost at most $0.00" in capsys.readouterr().err
    Path("bench.json").unlink()
    assert run(lmi, ["bench", "talks", "--prompts", "bodies.jsonl", "--max-cost", "0.001"]) == 5
    assert "--max-cost 0.001: 1 x ml.g5.xlarge may cost" in capsys.readouterr().err
    assert not Path("bench.json").exists()


def test_handler_of_unknown_form_needs_whole_bodies(
    aws: Emulated, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(lmi, ["bench", "talks", "--prompt", "What is a tide?"]) == 2
    assert '--prompts FILE with lines {"body": {...}}' in capsys.readouterr().err


def test_handler_of_unknown_form_gets_the_body_of_its_probe(aws: Emulated) -> None:
    short = ("--requests", "8", "--warmup", "0", "--no-stream", "--cloudwatch-wait", "0")
    assert run(lmi, ["bench", "talks", *short]) == 0
    made = from_json(Path("bench.json").read_text(encoding="utf-8"), "bench.json")
    assert made.provenance.details["requests"] == "the probe of the deployment"
    assert made.points[0].counts.succeeded == 8
