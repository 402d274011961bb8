"""`lmi bench RECIPE` on the emulator: what it costs is said and limited, and no endpoint is left."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from lmi_deploy.bench.report import Report
from lmi_deploy.bench.report_file import from_json
from lmi_deploy.cli.command_group import lmi
from lmi_deploy.cli.error_boundary import run
from tests.support.emulator_process import Emulated, emulator
from tests.support.json_output import require_described
from tests.support.talking_handler import RECIPE, write_talking

pytestmark = [pytest.mark.worker, pytest.mark.landing]
WITH_BENCH = (
    RECIPE
    + """\
overlays:
  patient: {options: {retry_threshold: "50"}}
  broken: {probe: {expect: never}}
bench:
  variants: {plain: {}, patient: patient}
  baseline: plain
  layout: cost
  matrix: {concurrency: [1, 2]}
  requests: 20
  warmup: 0
  duration: 30
"""
)


@pytest.fixture(scope="module")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulated]:
    home = tmp_path_factory.mktemp("home")
    write_talking(home)
    with (
        emulator(tmp_path_factory.mktemp("aws"), "--speed", "600", containers=True) as running,
        pytest.MonkeyPatch.context() as patch,
    ):
        for key, value in running.environment(home).items():
            patch.setenv(key, value)
        patch.chdir(home)
        yield running


def bench(*argv: str, recipe: str = WITH_BENCH) -> int:
    Path("talks.yaml").write_text(recipe)
    return run(lmi, ["bench", "talks.yaml", "--yes", *argv])


def report(folder: str = "bench-talks") -> Report:
    path = Path(folder) / "report.json"
    return from_json(path.read_text(encoding="utf-8"), str(path))


def endpoints(aws: Emulated) -> list[str]:
    client = aws.client("sagemaker")
    return [one["EndpointName"] for one in client.list_endpoints()["Endpoints"]]


def test_cost_over_the_limit_is_refused_before_anything_is_created(
    aws: Emulated, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bench("--max-cost", "0.01", "--results", "refused") == 5
    error = capsys.readouterr().err
    assert "cost: at most about " in error
    assert "--max-cost 0.01: the experiment may cost" in error
    assert endpoints(aws) == []


def test_variants_are_measured_with_their_cost_and_no_endpoint_is_left(
    aws: Emulated, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bench("--max-cost", "5", "--json") == 0, capsys.readouterr().err
    found = report()
    assert [point.counts.succeeded for point in found.points] == [20] * 4
    assert all(point.billed.instance == "ml.g5.xlarge" and point.billed.price for point in found.points)
    out = capsys.readouterr().out
    require_described(["bench", "experiment", "--json"], out)
    assert json.loads(out.splitlines()[-1])["points"] == 4
    assert endpoints(aws) == []


def test_endpoint_that_fails_is_deleted_and_the_other_variant_is_measured(
    aws: Emulated, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = WITH_BENCH.replace("patient: patient}", "broken: broken}").replace("[1, 2]", "[1]")
    assert bench("--results", "half", recipe=recipe) == 1
    assert "1 cell or deployment failed" in capsys.readouterr().err
    (point,) = report("half").points
    assert point.factors["variant"] == "plain"
    assert endpoints(aws) == []
