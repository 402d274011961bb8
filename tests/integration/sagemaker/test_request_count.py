"""The number of requests of an `up` without changes, for which every run of a pipeline waits, and of commands over many
deployments: AWS throttles them.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.many import AIM as MANY_AIM
from benchmarks.sagemaker import AIM
from tests.integration.sagemaker.test_faults import error_for, on
from tests.integration.sagemaker.test_killed_processes import RECIPE
from tests.support import many_deployments
from tests.support.emulator_process import Emulated, emulator
from tests.support.fakes import model_files
from tests.support.program_forks import forked_lmi

pytestmark = pytest.mark.landing

COUNT = 400
JOBS = 400


def _lmi(root: Path, defaults: dict[str, str], *argv: str) -> None:
    subprocess.run(
        [forked_lmi() / "lmi", *argv],
        cwd=root,
        env={**os.environ, **defaults},
        check=True,
    )


def test_up_without_changes_stays_below_its_request_limit(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    for name, content in model_files().items():
        (tmp_path / "model" / name).write_bytes(content)
    (tmp_path / "tiny.yaml").write_text(RECIPE)
    (tmp_path / "aws").mkdir()
    recorded = tmp_path / "requests"
    with emulator(tmp_path / "aws", "--speed", "100000") as aws:
        defaults = dict(aws.environment(tmp_path))
        _lmi(tmp_path, defaults, "up", "tiny.yaml", "--yes")
        _lmi(tmp_path, {**defaults, "LMI_AWS_REQUESTS": str(recorded)}, "up", "tiny.yaml", "--yes")
    requests = recorded.read_text().splitlines()
    assert "s3 ListObjectsV2" in requests
    assert len(requests) <= AIM, requests


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulated]:
    folder = tmp_path_factory.mktemp("many")
    many_deployments.write(folder / "state", COUNT)
    with emulator(folder, "--speed", "1000", "--dir", str(folder / "state")) as aws:
        yield aws


def _counted(aws: Emulated, home: Path, *argv: str) -> tuple[list[dict[str, object]], list[str]]:
    """The lines of its JSON, and its requests."""
    place = home / "requests"
    place.unlink(missing_ok=True)
    done = subprocess.run(
        [forked_lmi() / "lmi", *argv, "--json"],
        cwd=home,
        env={**os.environ, **aws.environment(home), "LMI_AWS_REQUESTS": str(place)},
        stdout=subprocess.PIPE,
        check=False,
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, lines
    return lines, place.read_text().splitlines()


def test_requests_of_ls_grow_by_pages_of_100_and_not_by_deployments(many: Emulated, tmp_path: Path) -> None:
    lines, requests = _counted(many, tmp_path, "ls", "--all")
    rows = [line for line in lines if line["event"] == "row"]
    assert [row["name"] for row in rows] == many_deployments.names(COUNT)
    first = rows[0]
    assert (first["standing"], first["model"]) == ("InService", "org/model-0000")
    assert (first["costs"], first["since"]) == (None, None), "a list does not tell them"
    counts = Counter(requests)
    assert counts["resource-groups-tagging-api GetResources"] == 3 * COUNT / 100
    assert counts["sagemaker ListEndpoints"] == COUNT / 100
    assert len(requests) <= MANY_AIM, counts


def test_requests_of_gc_without_leftovers_grow_by_pages(many: Emulated, tmp_path: Path) -> None:
    lines, requests = _counted(many, tmp_path, "gc", "--older-than", "1")
    assert (lines[-1]["freed"], lines[-1]["ended"]) == (0, 0)
    counts = Counter(requests)
    assert counts["s3 GetObject"] == 0, "no record and no manifest is read"
    assert len(requests) <= MANY_AIM, counts


def test_requests_of_gc_idle_grow_by_pages(many: Emulated, tmp_path: Path) -> None:
    lines, requests = _counted(many, tmp_path, "gc", "--idle", "1h")
    assert lines[-1]["idle"] == COUNT
    counts = Counter(requests)
    assert counts["cloudwatch GetMetricData"] == 3, "three metrics each, 500 in one request"
    assert len(requests) <= MANY_AIM + 5, counts


@pytest.mark.parametrize("command", [("ls", "--all"), ("gc", "--older-than", "1")])
def test_requests_do_not_grow_with_the_jobs_that_ended(tmp_path: Path, command: tuple[str, ...]) -> None:
    many_deployments.write(tmp_path / "state", 1, jobs=JOBS)
    with emulator(tmp_path, "--speed", "1000", "--dir", str(tmp_path / "state")) as aws:
        lines, requests = _counted(aws, tmp_path, *command)
    counts = Counter(requests)
    assert counts["sagemaker ListProcessingJobs"] == 2, "those in progress, and those that are stopping"
    assert counts["resource-groups-tagging-api GetResources"] == JOBS // 100 + 1
    assert "gone-" not in str(lines)
    assert len(requests) <= MANY_AIM, counts


def test_throttled_pages_are_requested_again(many: Emulated, tmp_path: Path) -> None:
    throttled = error_for("ThrottlingException", "Rate exceeded")
    many.fault(on("ListEndpoints", throttled, times=1), on("GetResources", throttled, times=1))
    try:
        lines, requests = _counted(many, tmp_path, "ls", "--all")
    finally:
        many.no_faults()
    assert sum(line["event"] == "row" for line in lines) == COUNT
    assert requests.count("sagemaker ListEndpoints") > COUNT / 100


def test_all_regions_are_listed_and_a_failure_in_one_region_is_reported(
    many: Emulated, tmp_path: Path
) -> None:
    denied = error_for("AccessDeniedException", "User is not authorized to perform: tag:GetResources")
    in_one = {"Authorization": "/eu-west-1/tagging/", "X-Amz-Target": "GetResources$"}
    many.fault({"headers": in_one, "do": denied, "times": None})
    try:
        done = subprocess.run(
            [forked_lmi() / "lmi", "ls", "--all", "--all-regions", "--json"],
            cwd=tmp_path,
            env={**os.environ, **many.environment(tmp_path)},
            stdout=subprocess.PIPE,
            check=False,
        )
    finally:
        many.no_faults()
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert sum(line["event"] == "row" for line in lines) == COUNT
    assert done.returncode == 1
    error = lines[-1]["error"]
    assert re.fullmatch(r"1 of \d\d regions could not be listed: eu-west-1", error["message"])
    assert error["details"][0].startswith("eu-west-1: resources tagged lmi:deployment")


def test_several_profiles_are_listed(many: Emulated, tmp_path: Path) -> None:
    config, aws = tmp_path / "config", many.environment(tmp_path)
    config.write_text(
        f"[profile good]\nregion = us-east-1\naws_access_key_id = {many.key}\naws_secret_access_key = {many.secret}\n"
        "[profile bad]\nregion = us-east-1\naws_access_key_id = nobody\naws_secret_access_key = x\n"
    )
    done = subprocess.run(
        [
            *(forked_lmi() / "lmi", "ls", "--all", "--json"),
            *("--profile", "bad", "--profile", "good", "--region", "us-east-1"),
        ],
        cwd=tmp_path,
        env={**os.environ, **aws, "AWS_CONFIG_FILE": str(config)},
        stdout=subprocess.PIPE,
        check=False,
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    rows = [line for line in lines if line["event"] == "row"]
    assert [row["profile"] for row in rows] == ["good"] * COUNT
    assert done.returncode == 1
    assert lines[-1]["error"]["message"] == "1 of 2 regions could not be listed: bad us-east-1"
