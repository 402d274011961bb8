"""`lmi compile`: one job, a result that is stored once and served, and everything that can go wrong on the way."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from lmi_deploy.domain.sagemaker.transfer_job import ObservedJob
from lmi_deploy.domain.weights import Manifest
from lmi_deploy.ports.cloud import BucketServices
from lmi_deploy.workflows.dependencies import Dependencies
from tests.support.action_failures import Killed
from tests.support.cloud_app import RECIPE, CloudApp, write_recipe
from tests.support.fake_hosting import Process
from tests.support.local_app import MODEL, Ran

SCRIPT = """\
import argparse, pathlib, shutil
parser = argparse.ArgumentParser()
for name in ("--model", "--output", "--batch"):
    parser.add_argument(name, required=True)
given = parser.parse_args()
print("compiling for batch", given.batch)
shutil.copytree(given.model, given.output, dirs_exist_ok=True)
pathlib.Path(given.output, "graph", "model.bin").parent.mkdir()
pathlib.Path(given.output, "graph", "model.bin").write_text("batch " + given.batch)
"""
COMPILED = RECIPE + "compile: {script: compile.py, arguments: {batch: 4}, instance_type: ml.m5.4xlarge}\n"
OPTIMIZED = f"""\
name: tiny
model_id: {MODEL}
engine: neuronx
instance_type: ml.inf2.8xlarge
compile: {{}}
tensor_parallel_degree: 2
"""


@pytest.fixture
def recipe(app: CloudApp) -> CloudApp:
    Path("compile.py").write_text(SCRIPT)
    write_recipe(COMPILED)
    return app


def results(app: CloudApp) -> list[Manifest]:
    return [manifest for manifest in app.depot().weights.all() if manifest.compiled]


def keys(app: CloudApp, prefix: str) -> list[str]:
    return [one.key for one in app.depot().store.list(prefix)]


def test_a_result_is_made_once_and_served(recipe: CloudApp) -> None:
    ran = recipe.lmi("compile", "--yes", "tiny.yaml")
    assert ran.code == 0, ran.err
    (result,) = results(recipe)
    assert "graph/model.bin" in {file.path for file in result.files}
    assert "tiny: compiled" in ran.out
    assert keys(recipe, "jobs/") == []

    again = recipe.lmi("compile", "--yes", "--json", "tiny.yaml")
    assert again.code == 0
    last = json.loads(again.out.splitlines()[-1])
    assert (last["changed"], last["result"]) == (False, result.commit)
    assert len(recipe.cloud.jobs.started) == 1
    assert "already compiled" in recipe.lmi("compile", "tiny.yaml").out

    recipe.up("tiny.yaml")
    current = recipe.record().current
    assert current is not None
    assert current.serving.loaded_weights == (result.name,)


def test_up_and_plan_refuse_a_recipe_that_is_not_compiled(recipe: CloudApp) -> None:
    for command in (("plan",), ("up", "--yes")):
        ran = recipe.lmi(*command, "tiny.yaml")
        assert ran.code == 2
        assert "is not compiled yet" in ran.err
        assert "run `lmi compile tiny.yaml` first" in ran.err
    assert recipe.cloud_resources() == []


def test_the_plan_names_the_price_and_the_time_limit(recipe: CloudApp) -> None:
    ran = recipe.lmi("compile", "tiny.yaml")
    assert ran.code == 2, ran.err
    assert "add --yes" in ran.err
    assert "a processing job on 1 x ml.m5.4xlarge" in ran.err
    assert "$0.92 an hour" in ran.err
    assert "at most $3.69" in ran.err
    assert recipe.cloud.jobs.started == {}


def test_a_job_beyond_the_price_limit_is_refused(recipe: CloudApp) -> None:
    ran = recipe.lmi("compile", "--yes", "tiny.yaml", "--max-hourly", "0.5")
    assert ran.code == 5
    assert "the compile job of tiny costs $0.92 an hour" in ran.err
    unknown = recipe.lmi(
        *("compile", "--yes", "tiny.yaml", "--max-hourly", "0.5"),
        *("--set", "compile.instance_type=ml.m5.12xlarge"),
    )
    assert unknown.code == 5
    assert "the price of the compile job is unknown" in unknown.err
    assert recipe.cloud.jobs.started == {}
    assert recipe.lmi("compile", "--yes", "tiny.yaml", "--max-hourly", "1").code == 0


def test_a_quota_without_an_instance_is_found_before_anything_is_started(recipe: CloudApp) -> None:
    recipe.cloud.account_state.quotas["ml.m5.4xlarge for processing job usage"] = 0
    ran = recipe.lmi("compile", "--yes", "tiny.yaml")
    assert ran.code == 1
    assert 'the quota "ml.m5.4xlarge for processing job usage" in us-east-1 is 0' in ran.err
    assert "aws service-quotas request-service-quota-increase" in ran.err
    recipe.cloud.limits.missing.add("ml.m5.4xlarge")
    ran = recipe.lmi("compile", "--yes", "tiny.yaml")
    assert "us-east-1 does not offer ml.m5.4xlarge for processing jobs" in ran.err
    assert recipe.cloud.stores == {}


def test_whatever_decides_the_result_makes_another_one(recipe: CloudApp) -> None:
    assert recipe.lmi("compile", "--yes", "tiny.yaml").code == 0
    changes = ("compile.arguments.batch=8", "container.version=0.35.0", "compile.instance_type=ml.g5.xlarge")
    for number, change in enumerate(changes, start=2):
        assert recipe.lmi("compile", "--yes", "tiny.yaml", "--set", change).code == 0
        assert len(results(recipe)) == number
    Path("compile.py").write_text(SCRIPT + "# another\n")
    assert recipe.lmi("compile", "--yes", "tiny.yaml").code == 0
    assert len(results(recipe)) == 5
    same = ("compile.timeout=1h", "instance_type=ml.g6.xlarge", "ttl=8h", "timeouts.predict=30")
    for change in same:
        assert recipe.lmi("compile", "--yes", "tiny.yaml", "--set", change).code == 0
    assert len(results(recipe)) == 5


def test_a_failed_script_leaves_nothing_and_can_be_corrected(recipe: CloudApp) -> None:
    Path("compile.py").write_text("import sys\nsys.exit('no such operator')\n")
    ran = recipe.lmi("compile", "--yes", "tiny.yaml")
    assert ran.code == 1
    assert "the compiler ended with exit status 1" in ran.err
    assert (results(recipe), keys(recipe, "jobs/")) == ([], [])
    Path("compile.py").write_text(SCRIPT)
    assert recipe.lmi("compile", "--yes", "tiny.yaml").code == 0


def test_a_failed_job_is_diagnosed_by_its_whole_log(recipe: CloudApp) -> None:
    """The cause is far above the lines that are shown."""
    cause = "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
    recipe.cloud.jobs.reason = "AlgorithmError: , exit code: 1"
    recipe.cloud.jobs.printed = (cause, *(f"INFO: closing worker {number}" for number in range(100)))
    ran = recipe.lmi("compile", "--yes", "tiny.yaml", "--json")
    assert ran.code == 1
    (error,) = [line["error"] for line in ran.lines if "error" in line]
    assert cause in error["message"]
    assert "use more GPUs" in error["hint"]
    assert len(error["details"]) == 40


def test_the_same_compile_is_tried_again_under_another_job_name(recipe: CloudApp) -> None:
    recipe.cloud.jobs.reason = "InternalServerError: We encountered an internal error. Please try again."
    assert recipe.lmi("compile", "--yes", "tiny.yaml").code == 1
    recipe.cloud.jobs.reason = ""
    assert recipe.lmi("compile", "--yes", "tiny.yaml").code == 0
    first, second = recipe.cloud.jobs.started
    assert second == f"{first}-2"


def test_a_script_that_writes_nothing_has_failed(recipe: CloudApp) -> None:
    Path("compile.py").write_text("")
    ran = recipe.lmi("compile", "--yes", "tiny.yaml")
    assert ran.code == 1
    assert "wrote no file" in ran.err


def test_a_mistake_in_the_script_is_found_before_anything_is_started(recipe: CloudApp) -> None:
    Path("compile.py").write_text("def f(:\n")
    ran = recipe.lmi("compile", "--yes", "tiny.yaml")
    assert ran.code == 2
    assert "compile.py:1: invalid syntax" in ran.err
    assert recipe.cloud.jobs.started == {}


def test_a_result_that_changed_in_the_bucket_is_not_stored(recipe: CloudApp) -> None:
    work = recipe.cloud.jobs.work

    def damaged(job: str) -> str | None:
        ended = work(job)
        recipe.depot_of_a_job().store.put(f"jobs/{job}/out/graph/model.bin", b"batch 5")
        return ended

    recipe.cloud.jobs.work = damaged
    ran = recipe.lmi("compile", "--yes", "tiny.yaml")
    assert ran.code == 6
    assert "graph/model.bin in the bucket is not what the job wrote" in ran.err
    assert results(recipe) == []


def test_a_recipe_without_compile_is_refused(app: CloudApp) -> None:
    write_recipe()
    ran = app.lmi("compile", "tiny.yaml")
    assert ran.code == 2
    assert "the recipe has no `compile`" in ran.err


def test_the_engines_own_compiler_is_an_optimization_job(app: CloudApp) -> None:
    write_recipe(
        f"name: tiny\nmodel_id: {MODEL}\nengine: neuronx\ninstance_type: ml.inf2.8xlarge\ncompile: {{}}\n"
        "tensor_parallel_degree: 2\noptions: {n_positions: 256, dtype: fp16}\n"
    )
    ran = app.lmi("compile", "--yes", "tiny.yaml")
    assert ran.code == 0, ran.err
    assert "an optimization job for ml.inf2.8xlarge" in ran.err
    assert "AWS bills the instance that compiles, and SageMaker chooses it" in ran.err
    assert "the quota cannot be checked: SageMaker chooses the instance" in ran.err
    ((settings, _),) = app.cloud.optimizations.started.values()
    assert dict(settings.environment)["OPTION_N_POSITIONS"] == "256"
    (result,) = results(app)
    assert {"compiled/graph.neff", "serving.properties"} <= {file.path for file in result.files}
    app.up("tiny.yaml", "--no-probe")
    stored = [key for key in keys(app, "artifacts/tiny/") if key.endswith("serving.properties")]
    found = app.depot().store.get(stored[0])
    assert found is not None
    lines = found[0].decode().splitlines()
    assert "option.load_split_model=true" in lines
    assert f"option.model_id=s3://{app.bucket}/weights/{result.name}/" in lines
    assert not any(line.startswith("option.model_dir") for line in lines)


def test_a_failed_optimization_job_says_why(app: CloudApp) -> None:
    write_recipe(OPTIMIZED)
    app.cloud.optimizations.reason = "ClientError: NCC_EBVF030: too many instructions"
    ran = app.lmi("compile", "--yes", "tiny.yaml")
    assert ran.code == 1
    assert "NCC_EBVF030" in ran.err
    assert (results(app), keys(app, "jobs/")) == ([], [])


def interrupted(app: CloudApp, *, at: int, jobs: Any = None) -> Ran:
    """By Ctrl-C, at this look at the job."""
    jobs, looks = jobs or app.cloud.jobs, count(1)
    observed = jobs.job

    def job(name: str) -> ObservedJob | None:
        if next(looks) == at:
            raise KeyboardInterrupt
        return observed(name)

    jobs.job = job
    try:
        return app.lmi("compile", "--yes", "tiny.yaml")
    finally:
        jobs.job = observed


def test_interrupted_compile_leaves_the_job_and_finds_it_again(recipe: CloudApp) -> None:
    ran = interrupted(recipe, at=4)
    (job,) = recipe.cloud.jobs.started
    assert ran.code == 130
    assert f"the job {job} still runs, and costs money" in ran.err
    assert "`lmi compile tiny.yaml --stop` to stop it" in ran.err
    assert recipe.lmi("compile", "--yes", "tiny.yaml").code == 0
    assert list(recipe.cloud.jobs.started) == [job]
    assert len(results(recipe)) == 1


def test_running_compile_can_be_stopped(recipe: CloudApp) -> None:
    assert interrupted(recipe, at=4).code == 130
    ran = recipe.lmi("compile", "tiny.yaml", "--stop")
    assert ran.code == 0, ran.err
    assert "has stopped" in ran.out
    assert keys(recipe, "jobs/") == []
    assert "no such job is running" in recipe.lmi("compile", "tiny.yaml", "--stop").out
    assert recipe.lmi("compile", "--yes", "tiny.yaml").code == 0
    assert len(recipe.cloud.jobs.started) == 2


def jobs_at_work(app: CloudApp) -> list[str]:
    found = (app.cloud.jobs, app.cloud.optimizations)
    return [name for jobs in found for name in jobs.started if name not in jobs.ended]


def test_up_leaves_a_running_compile_alone_and_down_stops_it(recipe: CloudApp) -> None:
    assert interrupted(recipe, at=4).code == 130
    (job,) = jobs_at_work(recipe)
    write_recipe(RECIPE)
    recipe.up("tiny.yaml")
    assert jobs_at_work(recipe) == [job]
    status = recipe.lmi("status", "tiny")
    assert status.code == 0
    assert f"{job} is InProgress, 1 x ml.m5.4xlarge" in status.out
    down = recipe.lmi("down", "--yes", "tiny", "--target", "sagemaker")
    assert down.code == 0, down.err
    assert f"stop the compile job {job}" in down.err
    assert jobs_at_work(recipe) == []
    assert keys(recipe, "jobs/") == []


def test_other_deployments_leave_a_running_compile_alone(recipe: CloudApp) -> None:
    assert interrupted(recipe, at=4).code == 130
    (job,) = jobs_at_work(recipe)
    Path("other.yaml").write_text(RECIPE.replace("name: tiny", "name: other"))
    recipe.up("other.yaml")
    assert recipe.lmi("down", "--yes", "other").code == 0
    assert recipe.lmi("gc", "--yes").code == 0
    assert jobs_at_work(recipe) == [job]
    assert recipe.lmi("compile", "--yes", "tiny.yaml").code == 0
    assert list(recipe.cloud.jobs.started) == [job]


def test_a_running_compile_without_an_endpoint_is_listed_and_deleted(recipe: CloudApp) -> None:
    assert interrupted(recipe, at=4).code == 130
    (job,) = jobs_at_work(recipe)
    status = recipe.lmi("status", "tiny", "--json")
    assert status.code == 4
    assert f"the compile job {job} is InProgress" in status.out
    listed = recipe.lmi("ls", "--all")
    assert "tiny" in listed.out
    assert "$0.92 an hour" in listed.out
    assert recipe.lmi("down", "--yes", "tiny").code == 0
    assert jobs_at_work(recipe) == []
    assert recipe.lmi("status", "tiny").code == 4
    assert "tiny" not in recipe.lmi("ls", "--all").out


def test_gc_of_an_expired_deployment_stops_its_compile(recipe: CloudApp) -> None:
    write_recipe(RECIPE + "ttl: 1h\n")
    recipe.up("tiny.yaml")
    write_recipe(COMPILED)
    recipe.cloud.jobs.seconds = 1e6
    assert interrupted(recipe, at=4).code == 130
    recipe.clock.sleep(4000)
    gone = recipe.lmi("gc", "--yes")
    assert gone.code == 0, gone.err
    assert jobs_at_work(recipe) == []


def test_down_stops_a_running_optimization_job(app: CloudApp) -> None:
    write_recipe(OPTIMIZED)
    app.cloud.optimizations.seconds = 1e6
    assert interrupted(app, at=2, jobs=app.cloud.optimizations).code == 130
    (job,) = jobs_at_work(app)
    assert f"{job} is InProgress, for ml.inf2.8xlarge" in app.lmi("status", "tiny").out
    assert app.lmi("down", "--yes", "tiny").code == 0
    assert jobs_at_work(app) == []


def test_compile_that_was_stopped_says_by_what(recipe: CloudApp) -> None:
    recipe.cloud.jobs.seconds = 1e6
    assert interrupted(recipe, at=4).code == 130
    (job,) = jobs_at_work(recipe)
    looked, looks = recipe.cloud.jobs.job, count(1)

    def job_of(name: str) -> ObservedJob | None:
        if next(looks) == 3:
            recipe.cloud.jobs.stop(name)
        return looked(name)

    recipe.cloud.jobs.job = job_of  # type: ignore[method-assign]
    ran = recipe.lmi("compile", "--yes", "tiny.yaml")
    assert ran.code == 1
    assert f"{job}: the job ended Stopped" in ran.err
    assert "by its time limit of 4h" in ran.err
    assert "`lmi down`" in ran.err


def test_two_deployments_share_one_result(recipe: CloudApp) -> None:
    assert recipe.lmi("compile", "--yes", "tiny.yaml").code == 0
    Path("other.yaml").write_text(COMPILED.replace("name: tiny", "name: other"))
    assert "already compiled" in recipe.lmi("compile", "other.yaml").out
    recipe.up("other.yaml")
    (result,) = results(recipe)
    refused = recipe.lmi("weights", "rm", "--yes", result.name)
    assert refused.code == 5, refused.err
    assert "the deployment other uses these weights" in refused.err


def test_a_damaged_result_is_not_served_and_made_again(recipe: CloudApp) -> None:
    assert recipe.lmi("compile", "--yes", "tiny.yaml").code == 0
    (result,) = results(recipe)
    recipe.depot().store.delete([f"weights/{result.name}/graph/model.bin"])
    assert recipe.lmi("up", "--yes", "tiny.yaml").code == 2
    assert recipe.lmi("compile", "--yes", "tiny.yaml").code == 0
    recipe.up("tiny.yaml")


class DyingApp(CloudApp):
    """Each `lmi` dies at its `at`-th write; the job does not."""

    at = 0
    writes = 0

    def deps(self) -> Dependencies:
        deps, app = super().deps(), self
        self.writes = 0

        class Dying(Process):
            def check(self) -> None:
                app.writes += 1
                if app.writes >= app.at > 0:
                    raise Killed

        self.cloud.account_state.process = Dying()
        return deps

    def depot_of_a_job(self) -> BucketServices:
        return replace(self.depot(), store=self.cloud.opened(self.bucket))


def test_compile_that_is_killed_at_any_write_is_completed_by_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for at in count(1):
        folder = tmp_path / str(at)
        folder.mkdir()
        monkeypatch.chdir(folder)
        Path("compile.py").write_text(SCRIPT)
        write_recipe(COMPILED)
        app = DyingApp(folder)
        app.at = at
        try:
            died = app.lmi("compile", "--yes", "tiny.yaml").code != 0
        except Killed:
            died = True
        app.at = 0
        assert app.lmi("compile", "--yes", "tiny.yaml").code == 0
        assert len(results(app)) == 1
        left = [one.name for one in app.depot().weights.orphans(before=app.clock.now() + timedelta(hours=1))]
        assert left == sorted({key.rpartition("/in/")[0] for key in keys(app, "jobs/") if "/in/" in key})
        app.depot().weights.clear(before=app.clock.now() + timedelta(hours=1))
        assert keys(app, "jobs/") == []
        assert len(app.cloud.jobs.started) == 1
        if not died:
            break
    assert at > 10
