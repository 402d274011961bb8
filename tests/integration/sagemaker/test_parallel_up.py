"""`lmi up A B`: real processes of real processes on the emulator: both succeed, one fails, both are interrupted."""

from __future__ import annotations

import json
import signal
import subprocess
from typing import Any

import pytest

from tests.integration.sagemaker.test_killed_processes import (
    RECIPE,
    KilledRun,
    killed_run,
)
from tests.integration.sagemaker.test_signals import started
from tests.support.json_output import require_described

__all__ = ["killed_run"]  # created by the fixture
BOTH = ("up", "one.yaml", "two.yaml", "--yes", "--json")


def named(name: str) -> str:
    return RECIPE.replace("name: tiny", f"name: {name}")


@pytest.fixture
def two(killed_run: KilledRun) -> KilledRun:
    for name in ("one", "two"):
        (killed_run.root / f"{name}.yaml").write_text(named(name))
    return killed_run


def ended(run: KilledRun, process: subprocess.Popen[str]) -> tuple[int, list[dict[str, Any]]]:
    code, output = run.ended(process, ('"AwaitService',))
    require_described(BOTH, output)
    return code, [json.loads(line) for line in output.splitlines()]


def endpoints(run: KilledRun) -> dict[str, str]:
    found = run.aws.client("sagemaker").list_endpoints()["Endpoints"]
    return {item["EndpointName"]: item["EndpointStatus"] for item in found}


def test_each_recipe_gets_its_deployment(two: KilledRun) -> None:
    code, lines = ended(two, started(two, *BOTH))
    assert code == 0, [line for line in lines if line["event"] in ("notice", "row")]
    assert endpoints(two) == {"one": "InService", "two": "InService"}
    done = [line for line in lines if line["event"] == "finished" and line["key"].startswith("ProbeEndpoint")]
    assert sorted(line["deployment"] for line in done) == ["one", "two"]
    rows = [line for line in lines if line["event"] == "row"]
    assert [(row["deployment"], row["outcome"]) for row in rows] == [("one", "ok"), ("two", "ok")]
    assert [one["deployment"] for one in lines[-1]["deployments"]] == ["one", "two"]
    # They share a bucket and the weights: each plan had more than was left to do.
    code, lines = ended(two, started(two, *BOTH))
    assert (
        code,
        {line["action"] for plan in lines if plan["event"] == "plan" for line in plan["actions"]},
    ) == (0, set())


def test_failure_of_one_leaves_the_other_alone(two: KilledRun) -> None:
    (two.root / "two.yaml").write_text(named("two").replace("expect: OK", "expect: never"))
    code, lines = ended(two, started(two, *BOTH))
    error = lines[-1]["error"]
    assert (code, error["kind"]) == (1, "DeployFailed")
    assert error["message"] == "1 of 2 deployments failed: two.yaml"
    assert "lmi up two.yaml" in error["hint"]
    rows = {line["deployment"]: line for line in lines if line["event"] == "row"}
    assert (rows["one"]["outcome"], rows["two"]["outcome"]) == ("ok", "failed")
    assert "never" in rows["two"]["error"]
    assert endpoints(two)["one"] == "InService"


def test_signal_ends_both_and_gives_back_their_locks(two: KilledRun) -> None:
    process = started(two, *BOTH)
    waiting: set[str] = set()
    assert process.stdout is not None
    for line in process.stdout:
        event = json.loads(line)
        if event["event"] == "progress" and event["key"].startswith("AwaitService"):
            waiting.add(event["deployment"])
        if waiting == {"one", "two"}:
            break
    process.send_signal(signal.SIGINT)
    code, lines = ended(two, process)
    assert (code, lines[-1]["error"]["kind"]) == (130, "Interrupted"), lines[-1]
    rows = [line for line in lines if line["event"] == "row"]
    assert all("is Creating and still costs $" in row["error"] for row in rows), rows
    assert not [key for key in two.remaining()["objects"] if key.endswith("lock.json")]
    code, lines = ended(two, started(two, *BOTH))
    assert (code, endpoints(two)) == (0, {"one": "InService", "two": "InService"}), lines[-1]


def test_next_region_keeps_to_the_limit_of_all_together(two: KilledRun) -> None:
    """Each has its cost here and half of what is left. The emulator has no price for the next region."""
    for name in ("one", "two"):
        text = named(name) + "endpoint: {regions: [us-east-1, eu-west-1]}\n"
        (two.root / f"{name}.yaml").write_text(text)
    capacity = "Unable to provision requested ML compute capacity due to InsufficientInstanceCapacity error."
    rule = {"method": "HOSTING", "path": "^/provision/one/", "times": None}
    two.aws.fault({**rule, "do": {"answer": {"status": 400, "body": capacity}}})
    code, lines = ended(two, started(two, *BOTH, "--max-hourly", "2.9"))
    assert code == 1
    rows = {line["deployment"]: line for line in lines if line["event"] == "row"}
    assert (rows["one"]["outcome"], rows["two"]["outcome"]) == ("failed", "ok"), rows
    assert rows["one"]["error"] == "--max-hourly 1.45: the price of ml.g5.xlarge is unknown"
    assert endpoints(two) == {"two": "InService"}
