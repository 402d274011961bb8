"""A deployment on SageMaker from its first `up` to its `down`, with changes in between."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from lmi_deploy.bench.deployment_target import deployed_target
from lmi_deploy.domain.inference_http import ResponseHead
from lmi_deploy.domain.weights import manifest_key, weights_prefix
from lmi_deploy.errors import AccessError, CloudError
from lmi_deploy.targets.sagemaker.target import SageMakerTarget
from tests.support.cloud_app import RECIPE, REF, CloudApp, write_recipe
from tests.support.fake_hosting import ok_response
from tests.support.least_privilege import write_model
from tests.support.local_app import no_cloud
from tests.support.old_records import schema_1_text

CHANGED = ("--set", "options.dtype=fp32")
ANSWER_ONLY = ["endpoint", "tagged", "endpoint_config", "model", "scaling", "assumable", "invoke"]


def steps(lines: list[dict[str, str]]) -> list[str]:
    return [line["key"].partition(":")[0] for line in lines if line["event"] == "finished"]


def test_up_status_invoke_and_down_leave_nothing_but_weights(app: CloudApp) -> None:
    result = app.lmi("up", "--yes", "--json")
    assert result.code == 0, result.out
    assert steps(result.lines) == [
        *("MakeBucket", "PushWeights", "PutArtifact", "CreateModel", "CreateEndpointConfig"),
        *("CreateEndpoint", "AwaitService", "ProbeEndpoint"),
    ]
    assert result.result["address"].startswith("https://runtime.sagemaker.")
    assert app.lmi("status", "tiny").code == 0
    assert app.lmi("invoke", "tiny", "hello").out == "OK\n"
    down = app.lmi("down", "tiny", "--yes")
    assert down.code == 0, down.err
    assert app.cloud_resources() == []
    assert app.lmi("ls").out == ""
    assert app.depot().weights.all()
    again = app.lmi("down", "tiny", "--yes")
    assert (again.code, again.err) == (0, "tiny: not found in account 111122223333, us-east-1\n")


def test_second_up_only_probes(app: CloudApp) -> None:
    app.up()
    app.cloud.account_state.calls.clear()
    result = app.up()
    assert "nothing to do" in result.err
    assert app.cloud.account_state.calls == ANSWER_ONLY
    assert app.lmi("plan", "--exit-code").code == 0


def test_printed_request_examples_name_this_endpoint(app: CloudApp) -> None:
    output = app.up().err
    status = app.lmi("status", "tiny", "--calls")
    calls = app.lmi("status", "tiny", "--calls", "--json").result["calls"]
    assert calls in status.out
    assert calls in output
    assert app.lmi("status", "tiny", "--json").result["calls"] == ""
    assert 'boto3.client("sagemaker-runtime", region_name="us-east-1")' in output
    assert (
        "|\n  aws sagemaker-runtime invoke-endpoint --region us-east-1 \\\n    --endpoint-name tiny" in output
    )
    assert "--body fileb:///dev/stdin" in output
    assert "--cli-binary-format" not in output  # version 1 of the AWS CLI has no such option
    assert "--aws-sigv4 aws:amz:us-east-1:sagemaker" in output


def test_artifact_has_one_digest(app: CloudApp) -> None:
    planned = re.findall("write the artifact (.*)", app.lmi("plan").out)
    deployed = app.up("--json").result["artifact"]
    assert planned == [deployed[:10]]
    assert app.lmi("status", "--json").result["summary"]["artifact"] == deployed[:10]
    assert deployed_target(REF, app.deps()).details["artifact"] == deployed[:10]
    assert re.findall("remove the artifact (.*)", app.lmi("down", "tiny", "--yes").err)[0] == deployed[:10]


def test_plan_shows_the_cost(app: CloudApp) -> None:
    result = app.lmi("plan", "--exit-code")
    assert result.code == 4
    assert "cost: $1.41 an hour (1 x ml.g5.xlarge; a fake of 2026-11-01)" in result.out


def test_plan_without_changes_shows_the_known_cost(app: CloudApp) -> None:
    app.up()
    plan = app.lmi("plan", "--json").result
    assert (plan["pending"], plan["figures"]["cost"]) == (
        False,
        "$1.41 an hour (1 x ml.g5.xlarge; a fake of 2026-11-01)",
    )
    assert "nothing to do, it matches the recipe\n  cost: $1.41 an hour" in app.lmi("plan").out
    (shown,) = (line for line in app.lmi("up", "--yes", "--json").lines if line["event"] == "plan")
    assert "cost" not in shown["figures"]  # not requested


def test_plan_shows_the_price_of_each_instance_type(app: CloudApp) -> None:
    app.cloud.prices.hourly_of["ml.g6.xlarge"] = 1.13
    output = app.lmi("plan").out
    assert "cost: $1.41 an hour (1 x ml.g5.xlarge; a fake of 2026-11-01)" in output
    assert "alternatives: $1.13 an hour (1 x ml.g6.xlarge)" in output
    figures = app.lmi("plan", "--json").result["figures"]
    assert figures["alternatives"] == "$1.13 an hour (1 x ml.g6.xlarge)"


def test_changed_recipe_is_one_update(app: CloudApp) -> None:
    app.up()
    result = app.lmi("up", "--yes", "--json", *CHANGED)
    assert steps(result.lines) == [
        *("PutArtifact", "CreateModel", "CreateEndpointConfig", "UpdateEndpoint"),
        *("AwaitService", "ProbeEndpoint", "TagEndpoint"),
    ]
    assert "nothing to do" in app.up(*CHANGED).err
    record = app.observe().record
    assert record
    assert len(record.generations) == 2
    assert record.generations[1].took >= 300


def test_changed_count_creates_no_model(app: CloudApp) -> None:
    app.up()
    result = app.lmi("up", "--yes", "--json", "--set", "endpoint.count=2")
    assert "CreateModel" not in steps(result.lines)
    observed = app.observe().endpoint
    assert observed
    assert observed.count == 2


def test_rollback_returns_to_the_previous_generation_and_back(app: CloudApp) -> None:
    app.up()
    first = app.observe().serving
    app.up(*CHANGED)
    second = app.observe().serving
    result = app.lmi("rollback", "tiny", "--yes")
    assert result.code == 0, result.err
    assert app.observe().serving == first != second
    assert app.lmi("status", "tiny").code == 0
    again = app.lmi("rollback", "tiny", "--yes")
    assert (
        again.code,
        f"the previous generation, {second}, is the one that the rollback of" in again.err,
    ) == (5, True)
    assert f"by {app.cloud.account.get_caller().arn} left" in again.err
    other = app.lmi("rollback", "tiny", "--yes", "--to", str(second), "--if-serving", str(second))
    assert (other.code, f"{first} serves, not {second}" in other.err) == (5, True)
    assert app.lmi("rollback", "tiny", "--yes", "--to", str(second), "--if-serving", str(first)).code == 0
    assert app.observe().serving == second
    assert "nothing to do" in app.up(*CHANGED).err


def test_plan_that_goes_back_names_who_deployed_what_serves(app: CloudApp) -> None:
    app.up()
    app.up(*CHANGED)
    since, by = app.record().periods[-1].since, app.cloud.account.get_caller().arn
    told = app.lmi("plan")
    assert "tiny goes back to an earlier version (1 back" in told.err
    assert f"the one that serves was put there at {since} by {by}" in told.err
    assert "goes back" not in app.lmi("plan", "--set", "options.max_model_len=77").err


def test_old_record_serves_and_can_be_rolled_back_to(app: CloudApp) -> None:
    scaled = f"{RECIPE}endpoint: {{autoscaling: {{min: 1, max: 3, invocations_per_instance: 60}}, tags: {{a: b}}}}\n"
    write_recipe(scaled)
    app.up()
    first = app.observe()
    write_recipe()
    app.up(*CHANGED)
    objects = app.cloud.stores[app.bucket].objects
    objects["deployments/tiny/record.json"] = schema_1_text(app.record()).encode()
    before = app.lmi("status", "tiny", "--json").result
    assert (before["standing"], len(before["earlier"])) == ("in-step", 1)
    assert "nothing to do" in app.up(*CHANGED).err
    assert (
        json.loads(objects["deployments/tiny/record.json"])["schema"] == 1
    )  # the failed up recorded nothing
    assert app.lmi("invoke", "tiny", "hello").out == "OK\n"
    assert app.lmi("rollback", "tiny", "--yes").code == 0
    back = app.observe()
    assert (back.serving, back.scaling) == (first.serving, first.scaling)
    assert ("a", "b") in next(r.tags for r in back.resources if r.kind == "endpoint")
    assert json.loads(objects["deployments/tiny/record.json"])["schema"] == 2
    write_recipe(scaled)
    assert "nothing to do" in app.up().err


def test_rollback_reaches_each_of_the_kept_generations(app: CloudApp) -> None:
    for number in range(6):
        app.up("--set", f"options.max_new_tokens={number + 1}")
    for number in (4, 4, 3, 2, 1, 4):
        status = app.lmi("status", "tiny", "--json").result
        expected = status["earlier"][number - 1]
        assert [one["number"] for one in status["earlier"]] == [1, 2, 3, 4]
        assert f"{number} back" in app.lmi("status", "tiny").out
        result = app.lmi("rollback", "tiny", "--to", str(number), "--yes", "--json")
        assert (result.code, result.result["config"]) == (0, expected["config"]), result.out
        assert app.observe().serving == expected["config"]
    assert app.lmi("status", "tiny").code == 0


def test_damaged_record_is_named_and_no_earlier_version_is_deleted(app: CloudApp) -> None:
    app.up()
    app.up(*CHANGED)
    objects, configs = app.cloud.stores[app.bucket].objects, dict(app.cloud.account_state.configs)
    objects["deployments/tiny/record.json"] = objects["deployments/tiny/record.json"][:700]
    for command in (("plan", *CHANGED), ("up", "--yes", *CHANGED), ("rollback", "tiny", "--yes")):
        refused = app.lmi(*command)
        assert refused.code == 5, refused.out
        assert f"s3://{app.bucket}/deployments/tiny/record.json is damaged" in refused.err
        assert "or delete the deployment: lmi down tiny --region us-east-1" in refused.err
    assert app.cloud.account_state.configs == configs
    assert "is damaged" in app.lmi("status", "tiny").out
    assert app.lmi("down", "tiny", "--yes").code == 0
    assert app.lmi("ls", "--all").out == ""


def test_record_of_a_newer_lmi_hides_no_other_deployment(app: CloudApp) -> None:
    for name in ("tiny", "other"):
        write_recipe(RECIPE.replace("name: tiny", f"name: {name}"))
        app.up()
    app.cloud.stores[app.bucket].objects["deployments/tiny/record.json"] = b'{"schema": 99}'
    for flags in ((), ("--long",)):
        listed = app.lmi("ls", *flags)
        assert "written by a newer lmi" in listed.out
        assert "other" in listed.out
    costs = app.lmi("cost")
    assert "other" in costs.out
    assert "written by a newer lmi" in costs.err


def test_rollback_to_a_missing_or_damaged_generation_is_refused(app: CloudApp) -> None:
    for number in range(3):
        app.up("--set", f"options.max_new_tokens={number + 1}")
    for number in ("0", "5"):
        assert app.lmi("rollback", "tiny", "--to", number, "--yes").code == 2
    remote = app.lmi("rollback", "tiny", "--to", "3", "--yes")
    assert (remote.code, "no generation 3: 2 earlier generations kept" in remote.err) == (1, True)
    account = app.cloud.account_state
    first, second, _ = (generation for generation in app.observe().record.generations)  # type: ignore[union-attr]
    account.models.pop(second.serving.cloud.model)
    account.drop("model", second.serving.cloud.model)
    serving = app.observe().serving
    lost = app.lmi("rollback", "tiny", "--to", "1", "--yes")
    assert (lost.code, "its model tiny-" in lost.err) == (1, True)
    assert app.observe().serving == serving
    assert (
        app.lmi("status", "tiny", "--json")
        .result["earlier"][0]["gone"]
        .endswith("was deleted, or is not lmi's")
    )
    assert app.lmi("rollback", "tiny", "--yes").code == 0
    assert app.observe().serving == first.server


def test_rollback_without_an_earlier_generation_is_an_error(app: CloudApp) -> None:
    app.up()
    result = app.lmi("rollback", "tiny", "--yes")
    assert (result.code, "no earlier generation" in result.err) == (1, True)


def test_last_five_generations_are_kept(app: CloudApp) -> None:
    for number in range(8):
        app.up("--set", f"options.max_new_tokens={number + 1}")
    observed = app.observe()
    assert len([r for r in observed.resources if r.kind == "endpoint-config"]) == 5
    assert len([r for r in observed.resources if r.kind == "model"]) == 5
    assert len(observed.artifacts) == 5


def test_detached_up_is_completed_by_wait(app: CloudApp) -> None:
    result = app.lmi("up", "--yes", "--detach", "--no-rollback")
    assert result.code == 0, result.err
    assert "`lmi wait tiny --region us-east-1 --no-rollback`" in result.err
    status = app.lmi("status", "tiny", "--json")
    assert (status.code, status.result["standing"]) == (4, "starting")
    assert "it does not answer yet" in app.lmi("invoke", "tiny", "OK").err
    waited = app.lmi("wait", "tiny", "--json")
    assert waited.code == 0, waited.out
    assert steps(waited.lines) == ["AwaitService", "ProbeEndpoint"]
    assert app.lmi("status", "tiny").code == 0
    assert app.lmi("wait", "tiny", "--json").lines[0]["event"] != "started"
    assert "nothing to do" in app.up().err


def test_wait_times_out_and_reports_the_cost(app: CloudApp) -> None:
    app.lmi("up", "--yes", "--detach")
    result = app.lmi("wait", "tiny", "--timeout", "30")
    assert result.code == 1
    assert "still Creating" in result.err
    assert "still costs $1.41 an hour (1 x ml.g5.xlarge)" in result.err
    assert app.lmi("wait", "tiny").code == 0


def test_rolled_back_update_has_status_drifted(app: CloudApp) -> None:
    app.up()
    ping = "did not pass the ping health check"
    app.cloud.account_state.failures.reasons["ml.g6.xlarge"] = ping
    other = ("--set", "instance_type=ml.g6.xlarge")
    assert app.lmi("up", "--yes", *other).code == 1
    status = app.lmi("status", "tiny", "--json")
    assert (status.code, status.result["standing"]) == (4, "drifted")
    assert "was rolled back" in status.result["why"]
    assert ping in status.result["why"]
    assert "was rolled back" in app.lmi("plan", *other).err
    assert ping in app.lmi("plan", *other).err
    app.up()
    assert app.lmi("status", "tiny").code == 0
    assert "was rolled back" not in app.lmi("plan", *other).err


def test_update_that_was_never_sent_has_status_drifted(app: CloudApp) -> None:
    app.up()
    app.cloud.account_state.failures.before["create_endpoint_config"] = [AccessError("may not", hint="ask")]
    assert app.lmi("up", "--yes", *CHANGED).code == 1
    status = app.lmi("status", "tiny", "--json")
    assert (status.code, status.result["standing"]) == (4, "drifted")
    assert "ended before it updated the endpoint" in status.result["why"]


def test_autoscaling_follows_the_recipe(app: CloudApp) -> None:
    app.up()
    scaled = RECIPE + "endpoint: {autoscaling: {min: 1, max: 3, invocations_per_instance: 50}}\n"
    write_recipe(scaled)
    result = app.lmi("up", "--yes", "--json")
    assert steps(result.lines) == ["SetScaling", "TagEndpoint"]
    assert app.observe().scaling is not None
    assert "nothing to do" in app.up().err
    write_recipe()
    assert steps(app.lmi("up", "--yes", "--json").lines) == ["RemoveScaling", "TagEndpoint"]
    assert app.observe().scaling is None
    write_recipe(scaled)
    app.up()
    assert app.lmi("down", "tiny", "--yes").code == 0
    assert app.cloud.scalers.targets == {}


def test_tag_removed_from_the_recipe_is_removed_and_foreign_tags_stay(app: CloudApp) -> None:
    write_recipe(RECIPE + "endpoint: {tags: {team: blue, cost-centre: '7'}}\n")
    app.up()
    account = app.cloud.account_state
    arn = account.arn("endpoint", "tiny")
    account.tags[arn] = (*account.tags[arn], ("owner", "platform"))
    write_recipe(RECIPE + "endpoint: {tags: {team: red}}\n")
    plan = app.lmi("plan").out
    assert "remove the tag cost-centre from tiny" in plan
    assert "tag.cost-centre: 7 -> (none)" in plan
    assert "tag.team: blue -> red" in plan
    assert steps(app.lmi("up", "--yes", "--json").lines) == ["TagEndpoint", "UntagEndpoint"]
    tags = dict(account.tags[arn])
    assert (tags["team"], tags["owner"], "cost-centre" in tags) == ("red", "platform", False)
    assert "nothing to do" in app.up().err
    assert app.lmi("status", "tiny").code == 0


def test_tag_of_failed_ups_is_removed(app: CloudApp) -> None:
    write_recipe(RECIPE + "endpoint: {tags: {team: blue}}\n")
    account = app.cloud.account_state
    account.answer = lambda name, request: [ResponseHead(status=500, reason="no", headers=()), b"no"]
    assert app.lmi("up", "--yes").code == 1
    write_recipe()
    assert app.lmi("up", "--yes").code == 1
    account.answer = ok_response
    app.up()
    assert "team" not in dict(account.tags[account.arn("endpoint", "tiny")])


def test_rollback_restores_tags(app: CloudApp) -> None:
    write_recipe(RECIPE + "endpoint: {tags: {team: blue}}\n")
    app.up()
    write_recipe(RECIPE + "endpoint: {tags: {shift: night}}\n")
    app.up(*CHANGED)
    assert app.lmi("rollback", "tiny", "--yes").code == 0
    tags = dict(app.cloud.account_state.tags[app.cloud.account_state.arn("endpoint", "tiny")])
    assert (tags.get("team"), tags.get("shift")) == ("blue", None)


def test_saved_plan_is_applied_or_refused_as_stale(app: CloudApp) -> None:
    assert app.lmi("plan", "--out", "plan.json").code == 0
    assert Path("plan.json").stat().st_mode & 0o077 == 0
    assert app.lmi("up", "plan.json", "--yes").code == 0
    assert app.lmi("status", "tiny").code == 0
    again = app.lmi("up", "plan.json", "--yes", "--json")
    assert (again.code, again.result["changed"]) == (0, False), "its own first run is no change by others"
    app.up(*CHANGED)
    stale = app.lmi("up", "plan.json", "--yes", "--json")
    assert (stale.code, stale.result["error"]["kind"]) == (5, "StalePlan")


@pytest.mark.parametrize("changed", [(), CHANGED], ids=["first", "update"])
def test_saved_plan_goes_on_after_an_interruption(app: CloudApp, changed: tuple[str, ...]) -> None:
    """Its first run ends before, or after, each request that changes something."""
    for call in (
        "create_model",
        "create_endpoint_config",
        "update_endpoint" if changed else "create_endpoint",
    ):
        for lost in (False, True):
            if changed:
                app.up()
            assert app.lmi("plan", *changed, "--out", "plan.json").code == 0
            failures = app.cloud.account_state.failures
            failures.lost.append(call) if lost else failures.before.update(
                {call: [CloudError(call, hint="-")]}
            )
            first = app.lmi("up", "plan.json", "--yes")
            assert (first.code, failures.lost, failures.before[call] if not lost else []) == (1, [], []), (
                first.err
            )
            again = app.lmi("up", "plan.json", "--yes")
            assert again.code == 0, (call, lost, again.err)
            assert app.lmi("plan", *changed, "--exit-code").code == 0
            assert app.lmi("down", "tiny", "--yes").code == 0


def test_saved_plan_that_was_edited_is_called_so(app: CloudApp) -> None:
    assert app.lmi("plan", "--out", "plan.json").code == 0
    text = Path("plan.json").read_text()
    model_py = json.loads(text)["spec"]["inputs"]["model_py"]
    for edited in (
        text.replace('"count": 1', '"count": 9'),
        text.replace(json.dumps(model_py), '"cGFzcw=="'),
    ):
        assert edited != text
        edited = edited if "cGFzcw" not in edited else re.sub(r'"content": "\w+"', '"content": ""', edited)
        Path("plan.json").write_text(edited)
        ran = app.lmi("up", "plan.json", "--yes")
        assert (ran.code, "changed after `lmi plan` wrote it" in ran.err) == (5, True), ran.err
    assert app.cloud_resources() == []


def test_saved_plan_finds_its_local_model_in_another_workspace(
    app: CloudApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    for workspace in ("one", "two"):
        (app.root / workspace).mkdir()
        write_model(app.root / workspace / "m")
    monkeypatch.chdir(app.root / "one")
    write_recipe(
        RECIPE.replace("org/tiny", "./m")
        + "probe: {body: '{}'}\nhandler: {builtin: djl_python.huggingface}\n"
    )
    assert app.lmi("plan", "--out", "../two/plan.json").code == 0
    shutil.rmtree(app.root / "one")
    monkeypatch.chdir(app.root / "two")
    ran = app.lmi("up", "plan.json", "--yes")
    assert ran.code == 0, ran.err


@pytest.mark.parametrize(
    ("spoil", "output"),
    [
        (lambda text: "", "it is empty"),
        (lambda text: text[: len(text) // 2], "it ends too early"),
        (lambda text: text.replace('"spec"', "spec", 1), "it is not JSON (line 3, column 2)"),
        (lambda text: "[" * 100_000 + "}", "it is not JSON"),
        (lambda text: "[]", "it has no schema number"),
        (lambda text: '{"schema": true}', "it has no schema number"),
        (lambda text: '{"schema": 1}', "spec is missing"),
        (
            lambda text: text.replace('"count": 1', '"count": "1"'),
            "spec.place.count is text, not a whole number",
        ),
        (lambda text: text.replace('"artifact"', '"art"', 1), "is missing"),
    ],
)
def test_broken_plan_file_is_explained(app: CloudApp, spoil: Callable[[str], str], output: str) -> None:
    assert app.lmi("plan", "--out", "plan.json").code == 0
    Path("plan.json").write_text(spoil(Path("plan.json").read_text()))
    result = app.lmi("up", "plan.json", "--yes")
    assert (result.code, output in result.err) == (2, True), result.err
    assert "not a plan written by `lmi plan --out FILE`" in result.err
    assert "lmi plan RECIPE --out plan.json" in result.err
    for word in ("Expecting", "Traceback", "__init__", "NoneType", "expected"):
        assert word not in result.err


def test_plan_file_with_invalid_bytes_is_explained(app: CloudApp) -> None:
    Path("plan.json").write_bytes(b'{"schema": "\xff"}')
    result = app.lmi("up", "plan.json", "--yes")
    assert (result.code, "it is not JSON" in result.err) == (2, True), result.err


def test_plan_above_max_hourly_is_refused(app: CloudApp) -> None:
    app.cloud.prices.hourly_of["ml.g6.xlarge"] = 1.0
    assert app.lmi("plan", "--max-hourly", "2").code == 0
    for command in (("plan",), ("up", "--yes")):
        result = app.lmi(*command, "--max-hourly", "1.2")
        assert (result.code, "may cost $1.41 an hour" in result.err) == (5, True)
    del app.cloud.prices.hourly_of["ml.g6.xlarge"]
    assert app.lmi("up", "--yes", "--max-hourly", "99").code == 5
    assert app.cloud_resources() == []


@pytest.mark.parametrize("priced", [True, False])
def test_enter_alone_does_not_confirm_a_billed_change(app: CloudApp, priced: bool) -> None:
    if not priced:
        app.cloud.prices.hourly_of.clear()
    result = app.lmi("up", stdin=b"\n", terminal=True)
    assert (result.code, result.out) == (130, "")
    assert "Go ahead? [y/N] " in result.err
    assert "error: not confirmed: nothing was changed\n" in result.err
    assert app.cloud_resources() == []
    assert app.lmi("up", stdin=b"y\n", terminal=True).code == 0


def test_enter_alone_does_not_confirm_a_rollback(app: CloudApp) -> None:
    app.up()
    app.up(*CHANGED)
    serving = app.observe().serving
    result = app.lmi("rollback", "tiny", stdin=b"\n", terminal=True)
    assert (result.code, "(account 111122223333, us-east-1)? [y/N] " in result.err) == (130, True)
    assert app.observe().serving == serving
    assert app.lmi("rollback", "tiny", stdin=b"yes\n", terminal=True).code == 0


def test_purge_deletes_unused_weights_and_logs(app: CloudApp) -> None:
    app.cloud.account_state.prints["tiny"] = ("a line",)
    app.up()
    write_recipe(RECIPE.replace("name: tiny", "name: other"))
    app.up()
    shared = app.lmi("down", "tiny", "--yes", "--purge", "--logs")
    assert shared.code == 0, shared.err
    assert "stays: other uses it" in shared.err
    assert app.depot().weights.all()
    assert app.cloud.logs.groups == {}
    assert app.lmi("down", "other", "--yes", "--purge").code == 0
    assert not app.depot().weights.all()


def test_interrupted_purge_is_completed_by_the_next_one(app: CloudApp) -> None:
    """The manifest is deleted first: objects without a manifest are deleted all the same."""
    app.up()
    store = app.depot().store
    (manifest,) = app.depot().weights.all()
    objects = list(store.list(weights_prefix(manifest.name)))
    store.delete([manifest_key(manifest.name), objects[0].key])
    ended = app.lmi("down", "tiny", "--yes", "--purge")
    assert ended.code == 0, ended.err
    assert list(store.list(weights_prefix(manifest.name))) == []
    assert app.cloud_resources() == []


def test_name_on_two_targets_needs_the_target_option(app: CloudApp) -> None:
    app.up()
    Path("here.yaml").write_text(
        "name: tiny\nmodel_id: org/tiny\nengine: accelerate\nendpoint: {target: local}\n"
    )
    app.up("here.yaml")
    result = app.lmi("status", "tiny")
    assert (result.code, "--target" in result.err) == (2, True)
    assert app.lmi("status", "tiny", "--target", "sagemaker").code == 0
    assert app.lmi("status", "tiny", "--target", "local").code == 0
    assert app.lmi("down", "tiny", "--target", "local", "--yes").code == 0
    assert app.lmi("status", "tiny").code == 0
    app.servers.close()


def test_deployment_is_found_by_its_tags_from_another_machine(app: CloudApp) -> None:
    app.up()
    for path in (app.root / "state").rglob("*.json"):
        path.unlink()
    assert app.lmi("ls").out == ""
    assert "tiny" in app.lmi("ls", "--all").out
    assert app.lmi("status", "tiny").code == 0
    assert app.lmi("invoke", "tiny", "--target", "sagemaker", "hello").out == "OK\n"
    assert app.lmi("down", "tiny", "--yes").code == 0
    assert app.cloud_resources() == []


def test_gc_deletes_expired_deployments_after_confirmation(app: CloudApp) -> None:
    write_recipe(RECIPE + "ttl: 1h\n")
    app.up()
    app.clock.sleep(3000)
    assert "expired" not in app.lmi("gc", "--yes").out
    assert app.lmi("extend", "tiny", "2h").code == 0
    app.clock.sleep(4000)
    assert "expired" not in app.lmi("gc", "--yes").out
    app.clock.sleep(4000)
    requests = app.lmi("gc", stdin=b"\n", terminal=True)
    assert (requests.code, "Delete 1 deployment? [y/N] " in requests.err) == (130, True)
    assert app.lmi("status", "tiny").code == 0
    found = app.lmi("gc", "--yes")
    assert "expired at" in found.out
    assert app.cloud_resources() == []


def test_empty_answer_to_the_probe_fails_the_up(app: CloudApp) -> None:
    account = app.cloud.account_state
    account.answer = lambda name, request: [ok_response(name, request)[0], b""]
    result = app.lmi("up", "--yes")
    assert result.code == 1
    assert "the probe failed" in result.err
    assert "still costs $1.41 an hour" in result.err
    account.answer = ok_response
    assert app.lmi("up", "--yes").code == 0


@pytest.mark.parametrize("delivery", ["mount", "artifact"])
def test_weights_can_be_mounted_or_put_into_the_artifact(app: CloudApp, delivery: str) -> None:
    result = app.up("--set", f"weights.deliver={delivery}")
    assert result.code == 0
    assert "nothing to do" in app.up("--set", f"weights.deliver={delivery}").err
    objects = {stored.key for stored in app.depot().store.list("artifacts/tiny/")}
    assert any(key.endswith("model.safetensors") for key in objects) == (delivery == "artifact")
    assert app.lmi("down", "tiny", "--yes").code == 0
    assert app.cloud_resources() == []


def test_usual_duration_is_that_of_earlier_runs(app: CloudApp) -> None:
    assert "usually" not in app.up().err
    write_recipe(RECIPE.replace("name: tiny", "name: other"))
    assert "usually 5 min" in app.up().err


def test_bucket_named_in_the_recipe_is_not_created(app: CloudApp) -> None:
    result = app.lmi("up", "--yes", "--set", "endpoint.bucket=my-own-bucket")
    assert (result.code, "s3://my-own-bucket: no such bucket" in result.err) == (1, True)
    assert app.cloud.account.buckets == {}


def test_deployment_deleted_from_another_machine_is_forgotten_here(app: CloudApp) -> None:
    app.up()
    for path in (app.root / "state").rglob("tiny.*.json"):
        kept = path.read_text()
    app.lmi("down", "tiny", "--yes")
    path.write_text(kept)
    assert "absent" in app.lmi("ls").out
    assert app.lmi("down", "tiny", "--yes").code == 0
    assert app.lmi("ls").out == ""


def test_deployment_cannot_move_to_another_bucket(app: CloudApp) -> None:
    app.up()
    app.cloud.account.buckets["my-own-bucket"] = "111122223333/us-east-1"
    result = app.lmi("up", "--yes", "--set", "endpoint.bucket=my-own-bucket")
    assert (result.code, "its record and artifacts are in s3://lmi-" in result.err) == (5, True)
    assert "nothing to do" in app.up().err


@pytest.mark.parametrize("given", [("--body", "{}"), ("--file", "prompt.txt"), (), b"hello"])
def test_name_alone_is_no_prompt_for_the_only_deployment_known_here(
    app: CloudApp, given: tuple[str, ...] | bytes
) -> None:
    """A teammate deployed tiny; this machine has deployed one other."""
    app.up()
    shutil.rmtree(app.root / "state" / "elsewhere")
    app.up("--set", "name=own")
    Path("prompt.txt").write_text("hello")
    argv, stdin = ((), given) if isinstance(given, bytes) else (given, b"")
    answered = app.lmi("invoke", "tiny", *argv, "--json", stdin=stdin)
    if given:
        assert answered.result["deployment"] == "tiny"
    else:
        assert "the prompt is empty" in answered.out
    unknown = app.lmi("invoke", "tiyn", *argv, "--json", stdin=stdin)
    if given:
        assert "tiyn: no such deployment is running" in unknown.out
    else:
        assert unknown.result["deployment"] == "own"
        assert "tiyn: no deployment has this name: it is the prompt for own" in unknown.out + unknown.err
    assert app.lmi("invoke", "What is it?", "--json").result["deployment"] == "own"


def test_invoke_reads_only_the_record(app: CloudApp) -> None:
    app.up()
    app.cloud.account_state.calls.clear()
    assert app.lmi("invoke", "tiny", "hello").out == "OK\n"
    assert app.cloud.account_state.calls == ["invoke"]


def test_endpoint_that_became_ready_after_a_failed_up_is_probed(app: CloudApp) -> None:
    write_recipe(RECIPE + "endpoint: {autoscaling: {min: 1, max: 3, invocations_per_instance: 50}}\n")
    account = app.cloud.account_state
    account.failures.before["endpoint_config"] = [AccessError("you may not look", hint="ask")]
    assert app.lmi("up", "--yes").code == 1
    app.clock.sleep(2 * account.startup)
    account.calls.clear()
    result = app.lmi("up", "--yes", "--json")
    assert steps(result.lines) == ["SetScaling"]
    assert "invoke" in account.calls
    account.calls.clear()
    assert "nothing to do" in app.up().err


def test_render_works_without_aws_permissions(app: CloudApp) -> None:
    app.cloud.roles.absent.add("arn:aws:iam::111122223333:role/lmi-endpoint")
    app.cloud.roles.denied.add("sagemaker:CreateModel")
    assert app.lmi("render", "-o", "out").code == 0
    assert (Path("out") / "serving.properties").is_file()


def test_render_without_credentials_writes_the_same_files(app: CloudApp) -> None:
    with_account = app.lmi("render", "-o", "out", "--json").result["digest"]
    app.target = lambda target: (
        replace(target, cloud=no_cloud) if isinstance(target, SageMakerTarget) else target
    )
    without = app.lmi("render", "-o", "other", "--json")
    assert (without.code, without.result["digest"]) == (0, with_account), without.err
    assert app.lmi("plan").code != 0
