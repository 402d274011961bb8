"""action.yml, ci/gitlab.yml and ci/buildspec.yml as people use them, over whole stories: the shell in them runs
unchanged against the emulator, each job on a fresh machine, with what the vendor's runner sets and signals.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from lmi_deploy.domain.deployment_names import MAX_NAME, NAME, preview_name
from lmi_deploy.errors import UsageRefused
from tests.support.ci_runner import (
    GRACE,
    RECIPE,
    CiRunner,
    CodeBuild,
    Done,
    GitHub,
    GitLab,
    cancelled,
    gitlab_jobs,
)
from tests.support.emulator_process import Emulated

OVERLAYS = RECIPE + "overlays:\n  prod: {options: {threads: 2}}\n  staging: {options: {threads: 3}}\n"
BENCH = "--prompts prompts.jsonl\n--requests 40 --concurrency 1\n"
MISSED = BENCH + "--objective p50_ms=0.001"


SLOW = {"method": "HOSTING", "path": "^/provision/echo/", "do": {"hang": {"seconds": 10_000_000}}}
"""Of the emulated clock: some ten seconds here."""


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    (folder / "prompts.jsonl").write_text('{"body": {"inputs": "OK"}}\n')
    return folder


@pytest.fixture
def github(aws: Emulated, workspace: Path) -> GitHub:
    return GitHub.of(aws, workspace)


@pytest.fixture(autouse=True)
def bill(aws: Emulated) -> Iterator[list[str]]:
    """What is billed after a story is in its last log, with the price or the command that ends it."""
    logs: list[str] = []
    CiRunner.finished = logs.append
    yield logs
    aws.no_faults()
    for name in endpoints(aws):
        last = logs[-1] if logs else ""
        said = name in last and ("an hour" in last or f"lmi down {name}" in last)
        aws.client("sagemaker").delete_endpoint(EndpointName=name)
        aws.wait_until_deleted(name)
        assert said, f"{name} is billed, and the last log does not say so:\n{last}"


def endpoints(aws: Emulated) -> list[str]:
    return sorted(found["EndpointName"] for found in aws.client("sagemaker").list_endpoints()["Endpoints"])


def served(aws: Emulated, name: str = "echo") -> str:
    return str(aws.described(name)["EndpointConfigName"])


def write(runner: CiRunner, text: str) -> None:
    (runner.folder / "recipe.yaml").write_text(text)


def ok(done: Done, code: int = 0) -> Done:
    assert done.code == code, done.log
    return done


@pytest.mark.landing
@pytest.mark.parametrize("overlay", ["", "prod"])
def test_github_preview_is_planned_deployed_and_ended_by_the_same_inputs(
    aws: Emulated, github: GitHub, overlay: str
) -> None:
    write(github, OVERLAYS)
    preview = {
        "recipe": "\n recipe.yaml \n",
        "preview": " pr-12\n",
        "ttl": "8h\n",
        "max_hourly": " 5 ",
        "overlay": overlay,
    }
    name = f"echo-pr-12-{overlay}".rstrip("-")
    planned = ok(github.use(command="plan", **preview))
    assert (planned.outputs["pending"], endpoints(aws)) == ("true", [])
    for _ in range(2):
        ok(github.comment(planned, **preview))
    posted = github.folder.parent / "posted.md"
    assert f"### `{name}`: " in posted.read_text()
    assert "commit 0123456789ab" in posted.read_text()
    methods = re.findall(r"--method (\w+) (\S+)", (github.folder.parent / "gh.log").read_text())
    assert methods == [
        ("POST", "repos/org/repo/issues/12/comments"),
        ("PATCH", "repos/org/repo/issues/comments/7"),
    ]
    mark = posted.read_text().splitlines()[0]
    (github.folder.parent / "comments.tsv").write_text(f"6\tmallory\t{mark}\n")
    ok(github.comment(planned, **preview))
    assert "--method POST" in (github.folder.parent / "gh.log").read_text().splitlines()[-1], "not mallory's"
    ok(github.use(command="up", **preview))
    assert endpoints(aws) == [name]
    # The next push breaks the recipe: the comment says so, and the endpoint stays.
    write(github, OVERLAYS.replace("engine: custom", "engien: custom"))
    broken = ok(github.use(command="plan", **preview), 2)
    assert "::error file=recipe.yaml,line=3" in broken.log
    ok(github.comment(broken, **preview))
    assert "### No plan" in posted.read_text()
    assert posted.read_text().count("did you mean engine") == 1
    # It is closed while the recipe is broken: the same inputs and the name still end it.
    for _ in range(2):
        ended = ok(github.use(command="down", name="echo", **preview))
    assert endpoints(aws) == []
    assert f"{name}: not found in account" in ended.log
    missing = ok(github.use(command="down", name="echo", if_missing="fail", **preview), 1)
    assert "us-east-1" in missing.log


@pytest.mark.long
def test_down_finds_the_region_of_the_recipe(aws: Emulated, github: GitHub) -> None:
    write(github, RECIPE + "endpoint: {region: eu-west-1}\n")
    ok(github.use(command="up", recipe="recipe.yaml"))
    assert endpoints(aws) == []
    ended = ok(github.use(command="down", recipe="recipe.yaml", if_missing="fail"))
    assert "eu-west-1) is deleted" in ended.log


@pytest.mark.long
def test_github_uses_in_one_job_have_files_and_comments_of_their_own(aws: Emulated, github: GitHub) -> None:
    write(github, OVERLAYS)
    first = ok(github.use(command="plan", recipe="recipe.yaml", overlay="prod"))
    second = ok(github.use(command="plan", recipe="recipe.yaml", overlay="staging"))
    several = "\n options.threads=4 \n\nendpoint.count=2\n"
    third = ok(github.use(command="plan", recipe="recipe.yaml", set=several))
    files = {done.outputs["plan"] for done in (first, second, third)}
    marks = {Path(done.outputs["comment"]).read_text().splitlines()[0] for done in (first, second, third)}
    assert (len(files), len(marks)) == (3, 3)
    assert json.loads(Path(first.outputs["plan"]).read_text())["spec"]["name"] == "echo-prod"
    # A use that fails leaves no plan of an earlier one behind.
    write(github, "name: [")
    broken = ok(github.use(command="plan", recipe="recipe.yaml", overlay="prod"), 2)
    assert "plan" not in broken.outputs
    assert not Path(first.outputs["plan"]).exists()
    assert endpoints(aws) == []


@pytest.mark.landing
def test_github_cancels_a_job_that_waits(aws: Emulated, github: GitHub) -> None:
    """Within GitHub's 7.5 seconds `lmi` says what runs and what ends it, and frees its lock."""
    aws.fault(SLOW)
    process = github.begun(command="up", recipe="recipe.yaml")
    while "echo" not in endpoints(aws):
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.1)
    done, seconds = cancelled(process)
    aws.no_faults()
    assert done.code == 130, done.log
    assert seconds < 7.5
    assert "lmi down echo" in done.log
    assert re.search(r"\$[0-9.]+ an hour", done.log), done.log
    ok(github.use(command="down", name="echo"))
    assert endpoints(aws) == []


@pytest.mark.long
def test_credentials_that_end_in_the_wait_leave_a_price_in_the_log(aws: Emulated, github: GitHub) -> None:
    aws.fault(SLOW)
    process = github.begun(command="up", recipe="recipe.yaml")
    while "echo" not in endpoints(aws):
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.1)
    expired = {
        "__type": "ExpiredTokenException",
        "message": "The security token included in the request is expired",
    }
    refused = {"answer": {"status": 400, "body": json.dumps(expired)}}
    aws.fault({"headers": {"X-Amz-Target": "SageMaker[.]"}, "do": refused, "times": None})
    output, _ = process.communicate(timeout=120)
    aws.no_faults()
    CiRunner.finished(output)
    assert process.returncode == 1, output
    assert "lmi down echo" in output
    assert "$0.23 an hour" in output.split("expired")[-1], output
    ok(github.use(command="down", recipe="recipe.yaml"))


@pytest.mark.long
def test_github_rerun_after_a_hard_end_continues(aws: Emulated, github: GitHub) -> None:
    aws.fault(SLOW)
    process = github.begun(command="up", recipe="recipe.yaml")
    while "echo" not in endpoints(aws):
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.1)
    process.kill()
    process.communicate()
    aws.no_faults()
    ok(github.use(command="up", recipe="recipe.yaml"))
    ok(github.use(command="down", recipe="recipe.yaml"))
    assert endpoints(aws) == []


@pytest.mark.long
def test_github_newer_of_two_pushes_wins(aws: Emulated, github: GitHub) -> None:
    ok(github.use(command="up", recipe="recipe.yaml"))
    before = served(aws)
    older, newer = RECIPE.replace("xlarge", "2xlarge"), RECIPE.replace("xlarge", "4xlarge")
    write(github, older)
    first = github.begun(command="up", recipe="recipe.yaml", lock_timeout="10m")
    while served(aws) == before and first.poll() is None:
        time.sleep(0.1)
    write(github, newer)
    ok(github.use(command="up", recipe="recipe.yaml", lock_timeout="10m"))
    first.communicate(timeout=120)
    config = aws.client("sagemaker").describe_endpoint_config(EndpointConfigName=served(aws))
    assert config["ProductionVariants"][0]["InstanceType"] == "ml.m5.4xlarge"
    ok(github.use(command="down", recipe="recipe.yaml"))


@pytest.mark.long
def test_github_plan_of_one_job_is_applied_by_another_once_and_again(
    aws: Emulated, github: GitHub, tmp_path: Path
) -> None:
    planned = ok(github.use(command="plan", recipe="recipe.yaml"))
    (tmp_path / "there").mkdir()
    there = github.elsewhere(tmp_path / "there")
    plan = there.folder / "plan.json"
    text = Path(planned.outputs["plan"]).read_text()
    plan.write_text(text.replace("ml.m5.xlarge", "ml.p4d.24xlarge"))
    assert "changed after `lmi plan` wrote it" in ok(there.use(command="up", plan="plan.json"), 5).log
    plan.write_text(text)
    assert "may cost" in ok(there.use(command="up", plan="plan.json", max_hourly="0.01"), 5).log
    for _ in range(2):
        ok(there.use(command="up", plan="plan.json"))
    assert endpoints(aws) == ["echo"]
    write(github, RECIPE.replace("xlarge", "2xlarge"))
    ok(github.use(command="up", recipe="recipe.yaml"))
    assert "the plan is stale" in ok(there.use(command="up", plan="plan.json"), 5).log
    ok(github.use(command="down", recipe="recipe.yaml"))
    assert endpoints(aws) == []


@pytest.mark.landing
def test_github_bench_decides_what_serves(aws: Emulated, github: GitHub) -> None:
    typo = ok(github.use(command="up", recipe="recipe.yaml", bench="--requets 4"), 2)
    assert "did you mean" in typo.log.lower() or "--requests" in typo.log
    gone = ok(github.use(command="up", recipe="recipe.yaml", bench="--prompts gone.jsonl --requests 4"), 2)
    assert "gone.jsonl" in gone.log
    assert endpoints(aws) == [], "options are checked before anything is deployed"
    ok(github.use(command="up", recipe="recipe.yaml", bench=BENCH))
    good = served(aws)
    write(github, RECIPE.replace("xlarge", "2xlarge"))
    ok(github.use(command="up", recipe="recipe.yaml", bench=MISSED), 7)
    assert served(aws) == good
    kept = ok(github.use(command="up", recipe="recipe.yaml", bench=MISSED, on_missed="keep"), 7)
    assert "::warning title=lmi::echo serves a version that was not accepted" in kept.log
    bad = served(aws)
    assert bad != good
    # Nothing is pending now, and the version was never accepted: the rerun goes back.
    ok(github.use(command="up", recipe="recipe.yaml", bench=MISSED), 7)
    assert served(aws) == good
    removed = ok(github.use(command="up", recipe="recipe.yaml", bench=MISSED, on_missed="down"), 7)
    assert endpoints(aws) == [], removed.log
    assert "FAIL" in (github.folder.parent / "summary.md").read_text()


@pytest.mark.landing
def test_github_carries_out_no_command_of_foreign_text(aws: Emulated, github: GitHub) -> None:
    evil = '"x\\n::add-mask::recipes\\n##[error]owned\\n  ::error file=action.yml::owned": 1\n'
    write(github, RECIPE + evil)
    done = ok(github.use(command="plan", recipe="recipe.yaml"), 2)
    carried_out, token = [], ""
    for line in done.log.splitlines():
        # As actions/runner reads it: a line is trimmed, `##[` counts anywhere.
        text = line.strip()
        if token:
            token = "" if text == f"::{token}::" else token
        elif found := re.fullmatch(r"::stop-commands::(\w+)", text):
            token = found[1]
        elif text.startswith("::") or "##[" in text:
            carried_out.append(text)
    assert not token, "commands work again for the next step"
    assert all(line.startswith("::error file=recipe.yaml,line=7") for line in carried_out), carried_out
    assert len(carried_out) == 1


@pytest.mark.landing
def test_github_refuses_what_costs_too_much_and_unknown_commands(aws: Emulated, github: GitHub) -> None:
    dear = ok(github.use(command="up", recipe="recipe.yaml", max_hourly="0.01"), 5)
    assert "may cost" in dear.log
    assert "**`lmi up` refuses it**" in (github.folder.parent / "summary.md").read_text()
    ok(github.use(command="destroy"), 2)
    (github.folder / "recipe.yaml").rename(github.folder / "moved.yaml")
    injected = ok(github.use(command="validate", recipe="$(touch owned)\nmoved.yaml"), 2)
    assert "touch owned" in injected.log
    assert not (github.folder / "owned").exists()
    assert endpoints(aws) == []


@pytest.mark.landing
def test_annotations_are_relative_to_the_repository(aws: Emulated, github: GitHub) -> None:
    below = github.folder / "services" / "a"
    below.mkdir(parents=True)
    (below / "chat.yaml").write_text(RECIPE + "engien: vllm\n")
    for recipe in ("services/a/chat.yaml", str(below / "chat.yaml"), "services/../services/a/chat.yaml"):
        done = ok(github.use(command="validate", recipe=recipe), 2)
        assert "::error file=services/a/chat.yaml,line=7" in done.log


INPUTS: Mapping[str, str] = {
    "recipe": "recipe.yaml",
    "name": "echo",
    "package": "lmi",
    "role": "arn:aws:iam::1:role/ci",
}


@pytest.mark.landing
def test_gitlab_plans_previews_deploys_and_ends(aws: Emulated, workspace: Path) -> None:
    gitlab = GitLab.of(aws, workspace)
    request = {"CI_MERGE_REQUEST_IID": "3"}
    ok(gitlab.job("lmi-validate", INPUTS, **request))
    assert (workspace / "gl-code-quality-report.json").read_text().strip() == "[]"
    ok(gitlab.job("lmi-plan", INPUTS, **request))
    assert (workspace / "plan.md").read_text().startswith("### `echo`: ")
    ok(gitlab.job("lmi-preview", INPUTS, **request))
    ok(gitlab.job("lmi-deploy", INPUTS))
    assert endpoints(aws) == ["echo", "echo-mr-3"]
    (workspace / "recipe.yaml").unlink()  # GIT_STRATEGY: none
    for _ in range(2):
        ok(gitlab.job("lmi-preview-end", INPUTS, **request))
    assert endpoints(aws) == ["echo"]
    ok(gitlab.run("lmi pipeline down", {"LMI_PIPELINE_NAME": "echo"}))
    write(gitlab, RECIPE + "engien: vllm\n")
    ok(gitlab.job("lmi-validate", INPUTS, **request), 2)
    (entry,) = json.loads((workspace / "gl-code-quality-report.json").read_text())
    assert entry["location"] == {"path": "recipe.yaml", "lines": {"begin": 7}}


def test_gitlab_file_is_included_for_several_recipes() -> None:
    one, two = gitlab_jobs({**INPUTS, "prefix": "a-"}), gitlab_jobs({**INPUTS, "prefix": "b-"})
    assert not one.keys() & two.keys()
    for prefix, jobs in (("a-", one), ("b-", two)):
        for name, job in jobs.items():
            assert name.removeprefix(".").startswith(prefix)
            assert job.get("extends", f".{prefix}lmi") == f".{prefix}lmi"
            assert job.get("resource_group", prefix).startswith(prefix)
            assert job.get("environment", {}).get("name", prefix).startswith(prefix)
    rules = gitlab_jobs(INPUTS)["lmi-deploy"]["rules"]
    assert rules[0]["when"] == "never"
    assert "schedule" in rules[0]["if"]


@pytest.mark.landing
def test_codebuild_plans_previews_deploys_the_branch_and_ends(aws: Emulated, workspace: Path) -> None:
    codebuild = CodeBuild.of(aws, workspace)
    ok(codebuild.build("PULL_REQUEST_CREATED", "pr/7"))
    assert endpoints(aws) == []
    assert 'failures="0"' in (workspace / "lmi-validate.xml").read_text()
    ok(codebuild.build("PULL_REQUEST_UPDATED", "pr/7", LMI_PREVIEW="true"))
    for other in ("branch/feature-x", "tag/v1"):
        assert "deploys nothing" in ok(codebuild.build("PUSH", other)).log
    assert endpoints(aws) == ["echo-pr-7"]
    ok(codebuild.build("PUSH", "branch/main"))
    assert endpoints(aws) == ["echo", "echo-pr-7"]
    ok(codebuild.build("PULL_REQUEST_MERGED", "pr/7"))
    assert endpoints(aws) == ["echo"]
    assert "set LMI_JOB" in ok(codebuild.build(), 2).log
    ok(codebuild.build(LMI_JOB="down"))
    assert endpoints(aws) == []


@pytest.mark.long
@pytest.mark.parametrize("system", ["codebuild", "gitlab"])
def test_build_that_is_stopped_reaches_lmi(aws: Emulated, workspace: Path, system: str) -> None:
    codebuild, gitlab = CodeBuild.of(aws, workspace), GitLab(workspace, {})
    job = (
        codebuild.job("PUSH", "branch/main") if system == "codebuild" else gitlab.shell("lmi-deploy", INPUTS)
    )
    aws.fault(SLOW)
    process = codebuild.begin(*job)
    while "echo" not in endpoints(aws):
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.1)
    process.terminate()
    output, _ = process.communicate(timeout=30)
    CiRunner.finished(output)
    assert (process.returncode, "lmi down echo" in output) == (130, True), output
    ok(codebuild.build(LMI_JOB="down"))


@pytest.mark.long
@pytest.mark.parametrize(
    "operation",
    [
        "PutObject",
        "CreateModel",
        "CreateEndpointConfig",
        "CreateEndpoint",
        "DescribeEndpoint",
        "InvokeEndpoint",
    ],
)
def test_github_cancels_a_job_at_any_step(aws: Emulated, github: GitHub, operation: str) -> None:
    where: dict[str, object] = {
        "PutObject": {"method": "PUT", "path": "artifacts/"},
        "InvokeEndpoint": {"path": "/endpoints/echo/invocations"},
    }.get(operation, {"headers": {"X-Amz-Target": f"{operation}$"}})
    aws.fault({**where, "do": {"hang": {"seconds": 60}}, "name": operation})
    process = github.begun(command="up", recipe="recipe.yaml")
    while not any(rule["fired"] for rule in aws.get("/_faults")["rules"]):
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.1)
    done, seconds = cancelled(process)
    aws.no_faults()
    assert (done.code, seconds < GRACE + 2.5) == (130, True), done.log
    ok(github.use(command="down", recipe="recipe.yaml"))
    assert endpoints(aws) == []


@pytest.mark.long
def test_cancelled_bench_accepts_nothing_and_takes_nothing_back(aws: Emulated, github: GitHub) -> None:
    ok(github.use(command="up", recipe="recipe.yaml", bench=BENCH))
    good = served(aws)
    write(github, RECIPE.replace("xlarge", "2xlarge"))
    process = github.begun(
        command="up", recipe="recipe.yaml", bench="--prompts prompts.jsonl --duration 60 --concurrency 1"
    )
    while served(aws) == good or aws.described("echo")["EndpointStatus"] != "InService":
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.1)
    time.sleep(5)
    done, seconds = cancelled(process)
    assert (done.code, seconds < GRACE + 2.5) == (130, True), done.log
    assert "not accepted" in done.log
    assert served(aws) != good
    # The next run of the same inputs measures it, and goes back.
    ok(github.use(command="up", recipe="recipe.yaml", bench=MISSED), 7)
    assert served(aws) == good
    ok(github.use(command="down", recipe="recipe.yaml"))


@pytest.mark.long
def test_preview_without_a_valid_name_is_in_the_comment(aws: Emulated, github: GitHub) -> None:
    write(github, RECIPE.replace("name: echo", f"name: {'n' * 45}"))
    done = ok(github.use(command="plan", recipe="recipe.yaml", preview="pr-1"), 2)
    ok(github.comment(done))
    assert "too long for previews" in (github.folder.parent / "posted.md").read_text()


@pytest.mark.landing
def test_fork_without_credentials_is_validated(aws: Emulated, github: GitHub) -> None:
    for name in [key for key in github.environment if key.startswith("AWS_")]:
        del github.environment[name]
    ok(github.use(command="validate", recipe="recipe.yaml"))
    write(github, RECIPE + "engien: vllm\n")
    wrong = ok(github.use(command="validate", recipe="recipe.yaml"), 2)
    assert "::error file=recipe.yaml,line=7" in wrong.log


@pytest.mark.parametrize(
    "branch",
    ["pr-12", "feature/New_Thing", "x" * 85, "ünïcode", "$(id)", "a\nb", "main", "-", "UPPER", "1.2.3"],
)
@pytest.mark.parametrize("overlay", ["", "production"])
def test_preview_of_any_branch_has_a_valid_name_of_its_own(branch: str, overlay: str) -> None:
    name = preview_name("chat-with-a-long-name", branch, overlay)
    assert NAME.fullmatch(name)
    assert len(name) + (len(overlay) + 1 if overlay else 0) <= MAX_NAME
    assert name == preview_name("chat-with-a-long-name", branch, overlay)
    assert name != preview_name("chat-with-a-long-name", branch + "x", overlay)


def test_name_that_leaves_no_room_for_a_branch_is_refused() -> None:
    with pytest.raises(UsageRefused, match="too long for previews"):
        preview_name("n" * 41, "pr-1")
    assert len(preview_name("n" * 39, "feature/a-long-one")) == MAX_NAME
