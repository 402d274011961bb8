"""A deployment on SageMaker from its first `up` to nothing left, and what is changed on the way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lmi_deploy.domain.inference_http import Head
from lmi_deploy.domain.weights import manifest_key, weights_prefix
from lmi_deploy.errors import AccessError
from tests.support.cloud_app import RECIPE, CloudHouse, write_recipe
from tests.support.fake_hosting import answers_well

CHANGED = ("--set", "options.dtype=fp32")
ANSWER_ONLY = ["endpoint", "tagged", "endpoint_config", "model", "invoke"]


def steps(lines: list[dict[str, str]]) -> list[str]:
    return [line["key"].partition(":")[0] for line in lines if line["event"] == "finished"]


def test_from_nothing_to_an_answer_and_back(house: CloudHouse) -> None:
    ran = house.lmi("up", "--yes", "--json")
    assert ran.code == 0, ran.out
    assert steps(ran.lines) == [
        *("MakeBucket", "PushWeights", "PutArtifact", "CreateModel", "CreateEndpointConfig"),
        *("CreateEndpoint", "AwaitService", "ProbeEndpoint"),
    ]
    assert ran.result["address"].startswith("https://runtime.sagemaker.")
    assert house.lmi("status", "tiny").code == 0
    assert house.lmi("invoke", "tiny", "hello").out == "OK\n"
    down = house.lmi("down", "tiny", "--yes")
    assert down.code == 0, down.err
    assert house.kept_in_cloud() == []
    assert house.lmi("ls").out == ""
    assert house.depot().weights.all()
    again = house.lmi("down", "tiny", "--yes")
    assert (again.code, again.err) == (0, "tiny: nothing of it is in account 111122223333, us-east-1\n")


def test_a_second_up_asks_for_an_answer_and_nothing_else(house: CloudHouse) -> None:
    house.up()
    house.cloud.world.calls.clear()
    ran = house.up()
    assert "nothing to do" in ran.err
    assert house.cloud.world.calls == ANSWER_ONLY
    assert house.lmi("plan", "--exit-code").code == 0


def test_what_to_copy_is_for_this_very_endpoint(house: CloudHouse) -> None:
    told = house.up().err
    assert 'boto3.client("sagemaker-runtime", region_name="us-east-1")' in told
    assert "|\n  aws sagemaker-runtime invoke-endpoint --region us-east-1 --endpoint-name tiny" in told
    assert "--body fileb:///dev/stdin" in told
    assert "--cli-binary-format" not in told  # version 1 of the AWS CLI has no such option
    assert "--aws-sigv4 aws:amz:us-east-1:sagemaker" in told


def test_the_plan_tells_what_it_costs(house: CloudHouse) -> None:
    ran = house.lmi("plan", "--exit-code")
    assert ran.code == 4
    assert "cost: $1.41 an hour (1 x ml.g5.xlarge; a fake of 2026-01-01)" in ran.out


def test_a_plan_that_changes_nothing_tells_the_known_cost(house: CloudHouse) -> None:
    house.up()
    plan = house.lmi("plan", "--json").result
    assert (plan["pending"], plan["figures"]["cost"]) == (
        False,
        "$1.41 an hour (1 x ml.g5.xlarge; a fake of 2026-01-01)",
    )
    assert "nothing to do, it is as the recipe says\n  cost: $1.41 an hour" in house.lmi("plan").out
    (shown,) = (line for line in house.lmi("up", "--yes", "--json").lines if line["event"] == "plan")
    assert "cost" not in shown["figures"]  # it was not asked for


def test_a_list_of_instance_types_shows_the_price_of_each(house: CloudHouse) -> None:
    house.cloud.prices.hourly_of["ml.g6.xlarge"] = 1.13
    told = house.lmi("plan").out
    assert "cost: $1.41 an hour (1 x ml.g5.xlarge; a fake of 2026-01-01)" in told
    assert "alternatives: $1.13 an hour (1 x ml.g6.xlarge)" in told
    figures = house.lmi("plan", "--json").result["figures"]
    assert figures["alternatives"] == "$1.13 an hour (1 x ml.g6.xlarge)"


def test_a_changed_recipe_is_one_update(house: CloudHouse) -> None:
    house.up()
    ran = house.lmi("up", "--yes", "--json", *CHANGED)
    assert steps(ran.lines) == [
        *("PutArtifact", "CreateModel", "CreateEndpointConfig", "UpdateEndpoint"),
        *("AwaitService", "ProbeEndpoint", "TagEndpoint"),
    ]
    assert "nothing to do" in house.up(*CHANGED).err
    record = house.seen().record
    assert record
    assert len(record.generations) == 2
    assert record.generations[1].took >= 300


def test_another_count_makes_no_model(house: CloudHouse) -> None:
    house.up()
    ran = house.lmi("up", "--yes", "--json", "--set", "endpoint.count=2")
    assert "CreateModel" not in steps(ran.lines)
    seen = house.seen().endpoint
    assert seen
    assert seen.count == 2


def test_back_to_the_generation_before_and_forth(house: CloudHouse) -> None:
    house.up()
    first = house.seen().serving
    house.up(*CHANGED)
    second = house.seen().serving
    ran = house.lmi("rollback", "tiny", "--yes")
    assert ran.code == 0, ran.err
    assert house.seen().serving == first != second
    assert house.lmi("status", "tiny").code == 0
    assert house.lmi("rollback", "tiny", "--yes").code == 0
    assert house.seen().serving == second
    assert "nothing to do" in house.up(*CHANGED).err


def test_rollback_reaches_each_of_the_five_generations(house: CloudHouse) -> None:
    for number in range(6):
        house.up("--set", f"options.max_new_tokens={number + 1}")
    for number in (4, 4, 3, 2, 1, 4):
        status = house.lmi("status", "tiny", "--json").result
        wanted = status["earlier"][number - 1]
        assert [one["number"] for one in status["earlier"]] == [1, 2, 3, 4]
        assert f"{number} back" in house.lmi("status", "tiny").out
        ran = house.lmi("rollback", "tiny", "--to", str(number), "--yes", "--json")
        assert (ran.code, ran.result["config"]) == (0, wanted["config"]), ran.out
        assert house.seen().serving == wanted["config"]
    assert house.lmi("status", "tiny").code == 0


def test_a_generation_that_is_not_kept_or_lost_a_part_is_not_gone_back_to(house: CloudHouse) -> None:
    for number in range(3):
        house.up("--set", f"options.max_new_tokens={number + 1}")
    for number in ("0", "5"):
        assert house.lmi("rollback", "tiny", "--to", number, "--yes").code == 2
    far = house.lmi("rollback", "tiny", "--to", "3", "--yes")
    assert (far.code, "no generation 3: 2 earlier generations kept" in far.err) == (1, True)
    world = house.cloud.world
    first, second, _ = (generation for generation in house.seen().record.generations)  # type: ignore[union-attr]
    world.models.pop(second.summary["sagemaker_model"])
    world.drop("model", second.summary["sagemaker_model"])
    serving = house.seen().serving
    lost = house.lmi("rollback", "tiny", "--to", "1", "--yes")
    assert (lost.code, "its model tiny-" in lost.err) == (1, True)
    assert house.seen().serving == serving
    assert house.lmi("status", "tiny", "--json").result["earlier"][0]["gone"].endswith("is gone")
    assert house.lmi("rollback", "tiny", "--yes").code == 0
    assert house.seen().serving == first.server


def test_nothing_to_go_back_to(house: CloudHouse) -> None:
    house.up()
    ran = house.lmi("rollback", "tiny", "--yes")
    assert (ran.code, "no earlier generation" in ran.err) == (1, True)


def test_only_the_last_five_generations_are_kept(house: CloudHouse) -> None:
    for number in range(8):
        house.up("--set", f"options.max_new_tokens={number + 1}")
    seen = house.seen()
    assert len([r for r in seen.resources if r.kind == "endpoint-config"]) == 5
    assert len([r for r in seen.resources if r.kind == "model"]) == 5
    assert len(seen.artifacts) == 5


def test_detached_and_waited_for(house: CloudHouse) -> None:
    ran = house.lmi("up", "--yes", "--detach")
    assert ran.code == 0, ran.err
    assert "`lmi wait tiny`" in ran.err
    status = house.lmi("status", "tiny", "--json")
    assert (status.code, status.result["standing"]) == (4, "starting")
    assert "it has not come to answer yet" in house.lmi("invoke", "tiny", "OK").err
    waited = house.lmi("wait", "tiny", "--json")
    assert waited.code == 0, waited.out
    assert steps(waited.lines) == ["AwaitService", "ProbeEndpoint"]
    assert house.lmi("status", "tiny").code == 0
    assert house.lmi("wait", "tiny", "--json").lines[0]["event"] != "started"
    assert "nothing to do" in house.up().err


def test_waiting_gives_up_and_says_what_it_costs(house: CloudHouse) -> None:
    house.lmi("up", "--yes", "--detach")
    ran = house.lmi("wait", "tiny", "--timeout", "30")
    assert ran.code == 1
    assert "still Creating" in ran.err
    assert "goes on costing $1.41 an hour (1 x ml.g5.xlarge)" in ran.err
    assert house.lmi("wait", "tiny").code == 0


def test_an_update_that_was_rolled_back_is_not_in_step(house: CloudHouse) -> None:
    house.up()
    ping = "did not pass the ping health check"
    house.cloud.world.trouble.reasons["ml.g6.xlarge"] = ping
    other = ("--set", "instance_type=ml.g6.xlarge")
    assert house.lmi("up", "--yes", *other).code == 1
    status = house.lmi("status", "tiny", "--json")
    assert (status.code, status.result["standing"]) == (4, "drifted")
    assert "was rolled back" in status.result["why"]
    assert ping in status.result["why"]
    assert "was rolled back" in house.lmi("plan", *other).err
    assert ping in house.lmi("plan", *other).err
    house.up()
    assert house.lmi("status", "tiny").code == 0
    assert "was rolled back" not in house.lmi("plan", *other).err


def test_an_update_that_was_never_sent_is_not_in_step(house: CloudHouse) -> None:
    house.up()
    house.cloud.world.trouble.before["create_endpoint_config"] = [AccessError("may not", hint="ask")]
    assert house.lmi("up", "--yes", *CHANGED).code == 1
    status = house.lmi("status", "tiny", "--json")
    assert (status.code, status.result["standing"]) == (4, "drifted")
    assert "did not get as far as the endpoint" in status.result["why"]


def test_scaling_follows_the_recipe(house: CloudHouse) -> None:
    house.up()
    scaled = RECIPE + "endpoint: {autoscaling: {min: 1, max: 3, invocations_per_instance: 50}}\n"
    write_recipe(scaled)
    ran = house.lmi("up", "--yes", "--json")
    assert steps(ran.lines) == ["SetScaling", "TagEndpoint"]
    assert house.seen().scaling is not None
    assert "nothing to do" in house.up().err
    write_recipe()
    assert steps(house.lmi("up", "--yes", "--json").lines) == ["RemoveScaling", "TagEndpoint"]
    assert house.seen().scaling is None
    write_recipe(scaled)
    house.up()
    assert house.lmi("down", "tiny", "--yes").code == 0
    assert house.cloud.scalers.kept == {}


def test_a_tag_out_of_the_recipe_goes_and_nobody_elses(house: CloudHouse) -> None:
    write_recipe(RECIPE + "endpoint: {tags: {team: blue, cost-centre: '7'}}\n")
    house.up()
    world = house.cloud.world
    arn = world.arn("endpoint", "tiny")
    world.tags[arn] = (*world.tags[arn], ("owner", "platform"))
    write_recipe(RECIPE + "endpoint: {tags: {team: red}}\n")
    plan = house.lmi("plan").out
    assert "take the tag cost-centre off tiny" in plan
    assert "tag.cost-centre: 7 -> (none)" in plan
    assert "tag.team: blue -> red" in plan
    assert steps(house.lmi("up", "--yes", "--json").lines) == ["TagEndpoint", "UntagEndpoint"]
    tags = dict(world.tags[arn])
    assert (tags["team"], tags["owner"], "cost-centre" in tags) == ("red", "platform", False)
    assert "nothing to do" in house.up().err
    assert house.lmi("status", "tiny").code == 0


def test_a_tag_goes_though_the_ups_that_put_it_never_ended(house: CloudHouse) -> None:
    write_recipe(RECIPE + "endpoint: {tags: {team: blue}}\n")
    world = house.cloud.world
    world.answer = lambda name, request: [Head(status=500, reason="no", headers=()), b"no"]
    assert house.lmi("up", "--yes").code == 1
    write_recipe()
    assert house.lmi("up", "--yes").code == 1
    world.answer = answers_well
    house.up()
    assert "team" not in dict(world.tags[world.arn("endpoint", "tiny")])


def test_the_way_back_takes_its_tags_along(house: CloudHouse) -> None:
    write_recipe(RECIPE + "endpoint: {tags: {team: blue}}\n")
    house.up()
    write_recipe(RECIPE + "endpoint: {tags: {shift: night}}\n")
    house.up(*CHANGED)
    assert house.lmi("rollback", "tiny", "--yes").code == 0
    tags = dict(house.cloud.world.tags[house.cloud.world.arn("endpoint", "tiny")])
    assert (tags.get("team"), tags.get("shift")) == ("blue", None)


def test_a_plan_in_a_file_is_carried_out_or_refused(house: CloudHouse) -> None:
    assert house.lmi("plan", "--out", "plan.json").code == 0
    assert Path("plan.json").stat().st_mode & 0o077 == 0
    assert house.lmi("up", "plan.json", "--yes").code == 0
    assert house.lmi("status", "tiny").code == 0
    stale = house.lmi("up", "plan.json", "--yes")
    assert (stale.code, "the plan is stale" in stale.err) == (5, True)


@pytest.mark.parametrize(
    ("spoil", "said"),
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
def test_a_broken_plan_file_is_told_in_our_words(
    house: CloudHouse, spoil: Callable[[str], str], said: str
) -> None:
    assert house.lmi("plan", "--out", "plan.json").code == 0
    Path("plan.json").write_text(spoil(Path("plan.json").read_text()))
    ran = house.lmi("up", "plan.json", "--yes")
    assert (ran.code, said in ran.err) == (2, True), ran.err
    assert "not a plan as `lmi plan --out FILE` writes it" in ran.err
    assert "lmi plan RECIPE --out plan.json" in ran.err
    for word in ("Expecting", "Traceback", "__init__", "NoneType", "expected"):
        assert word not in ran.err


def test_a_plan_file_of_bytes_is_told_in_our_words(house: CloudHouse) -> None:
    Path("plan.json").write_bytes(b'{"schema": "\xff"}')
    ran = house.lmi("up", "plan.json", "--yes")
    assert (ran.code, "it is not JSON" in ran.err) == (2, True), ran.err


def test_what_costs_too_much_is_refused(house: CloudHouse) -> None:
    house.cloud.prices.hourly_of["ml.g6.xlarge"] = 1.0
    assert house.lmi("plan", "--max-hourly", "2").code == 0
    for command in (("plan",), ("up", "--yes")):
        ran = house.lmi(*command, "--max-hourly", "1.2")
        assert (ran.code, "may cost $1.41 an hour" in ran.err) == (5, True)
    del house.cloud.prices.hourly_of["ml.g6.xlarge"]
    assert house.lmi("up", "--yes", "--max-hourly", "99").code == 5
    assert house.kept_in_cloud() == []


@pytest.mark.parametrize("priced", [True, False])
def test_what_is_billed_is_not_agreed_to_by_enter_alone(house: CloudHouse, priced: bool) -> None:
    if not priced:
        house.cloud.prices.hourly_of.clear()
    ran = house.lmi("up", stdin=b"\n", terminal=True)
    assert (ran.code, ran.out) == (130, "")
    assert "Go ahead? [y/N] " in ran.err
    assert "error: you did not agree: nothing was changed\n" in ran.err
    assert house.kept_in_cloud() == []
    assert house.lmi("up", stdin=b"y\n", terminal=True).code == 0


def test_going_back_is_not_agreed_to_by_enter_alone(house: CloudHouse) -> None:
    house.up()
    house.up(*CHANGED)
    serving = house.seen().serving
    ran = house.lmi("rollback", "tiny", stdin=b"\n", terminal=True)
    assert (ran.code, "(account 111122223333, us-east-1)? [y/N] " in ran.err) == (130, True)
    assert house.seen().serving == serving
    assert house.lmi("rollback", "tiny", stdin=b"yes\n", terminal=True).code == 0


def test_weights_and_logs_go_when_asked(house: CloudHouse) -> None:
    house.cloud.world.prints["tiny"] = ("a line",)
    house.up()
    write_recipe(RECIPE.replace("name: tiny", "name: other"))
    house.up()
    shared = house.lmi("down", "tiny", "--yes", "--purge", "--logs")
    assert shared.code == 0, shared.err
    assert "stays: other uses it" in shared.err
    assert house.depot().weights.all()
    assert house.cloud.logs.groups == {}
    assert house.lmi("down", "other", "--yes", "--purge").code == 0
    assert not house.depot().weights.all()


def test_a_purge_that_was_interrupted_is_finished_by_the_next(house: CloudHouse) -> None:
    """The manifest goes first: what is left without it is deleted all the same."""
    house.up()
    store = house.depot().store
    (manifest,) = house.depot().weights.all()
    objects = list(store.list(weights_prefix(manifest.name)))
    store.delete([manifest_key(manifest.name), objects[0].key])
    ended = house.lmi("down", "tiny", "--yes", "--purge")
    assert ended.code == 0, ended.err
    assert list(store.list(weights_prefix(manifest.name))) == []
    assert house.kept_in_cloud() == []


def test_known_in_two_places_is_asked_back(house: CloudHouse) -> None:
    house.up()
    Path("here.yaml").write_text(
        "name: tiny\nmodel_id: org/tiny\nengine: accelerate\nendpoint: {target: local}\n"
    )
    house.up("here.yaml")
    ran = house.lmi("status", "tiny")
    assert (ran.code, "--target" in ran.err) == (2, True)
    assert house.lmi("status", "tiny", "--target", "sagemaker").code == 0
    assert house.lmi("status", "tiny", "--target", "local").code == 0
    assert house.lmi("down", "tiny", "--target", "local", "--yes").code == 0
    assert house.lmi("status", "tiny").code == 0
    house.servers.close()


def test_another_machine_finds_it_by_its_tags(house: CloudHouse) -> None:
    house.up()
    for path in (house.root / "state").rglob("*.json"):
        path.unlink()
    assert house.lmi("ls").out == ""
    assert "tiny" in house.lmi("ls", "--all").out
    assert house.lmi("status", "tiny").code == 0
    assert house.lmi("invoke", "tiny", "--target", "sagemaker", "hello").out == "OK\n"
    assert house.lmi("down", "tiny", "--yes").code == 0
    assert house.kept_in_cloud() == []


def test_what_expired_is_found_and_taken_away(house: CloudHouse) -> None:
    write_recipe(RECIPE + "ttl: 1h\n")
    house.up()
    house.clock.sleep(3000)
    assert "expired" not in house.lmi("gc", "--yes").out
    assert house.lmi("extend", "tiny", "2h").code == 0
    house.clock.sleep(4000)
    assert "expired" not in house.lmi("gc", "--yes").out
    house.clock.sleep(4000)
    asked = house.lmi("gc", stdin=b"\n", terminal=True)
    assert (asked.code, "Take away 1 deployment? [y/N] " in asked.err) == (130, True)
    assert house.lmi("status", "tiny").code == 0
    found = house.lmi("gc", "--yes")
    assert "expired at" in found.out
    assert house.kept_in_cloud() == []


def test_an_answer_that_is_none_fails_the_up(house: CloudHouse) -> None:
    world = house.cloud.world
    world.answer = lambda name, request: [answers_well(name, request)[0], b""]
    ran = house.lmi("up", "--yes")
    assert ran.code == 1
    assert "does not answer" in ran.err
    assert "goes on costing $1.41 an hour" in ran.err
    world.answer = answers_well
    assert house.lmi("up", "--yes").code == 0


@pytest.mark.parametrize("delivery", ["mount", "artifact"])
def test_other_ways_to_the_weights(house: CloudHouse, delivery: str) -> None:
    ran = house.up("--set", f"weights.deliver={delivery}")
    assert ran.code == 0
    assert "nothing to do" in house.up("--set", f"weights.deliver={delivery}").err
    objects = {stored.key for stored in house.depot().store.list("artifacts/tiny/")}
    assert any(key.endswith("model.safetensors") for key in objects) == (delivery == "artifact")
    assert house.lmi("down", "tiny", "--yes").code == 0
    assert house.kept_in_cloud() == []


def test_the_usual_time_is_that_of_earlier_runs(house: CloudHouse) -> None:
    assert "usually" not in house.up().err
    write_recipe(RECIPE.replace("name: tiny", "name: other"))
    assert "usually 5 min" in house.up().err


def test_a_bucket_that_somebody_named_is_not_made(house: CloudHouse) -> None:
    ran = house.lmi("up", "--yes", "--set", "endpoint.bucket=my-own-bucket")
    assert (ran.code, "s3://my-own-bucket: no such bucket" in ran.err) == (1, True)
    assert house.cloud.account.buckets == {}


def test_what_another_machine_took_away_is_forgotten_here(house: CloudHouse) -> None:
    house.up()
    for path in (house.root / "state").rglob("tiny.*.json"):
        kept = path.read_text()
    house.lmi("down", "tiny", "--yes")
    path.write_text(kept)
    assert "absent" in house.lmi("ls").out
    assert house.lmi("down", "tiny", "--yes").code == 0
    assert house.lmi("ls").out == ""


def test_a_deployment_does_not_leave_its_bucket(house: CloudHouse) -> None:
    house.up()
    house.cloud.account.buckets["my-own-bucket"] = "111122223333/us-east-1"
    ran = house.lmi("up", "--yes", "--set", "endpoint.bucket=my-own-bucket")
    assert (ran.code, "its record and artifacts lie in s3://lmi-" in ran.err) == (5, True)
    assert "nothing to do" in house.up().err


def test_a_question_looks_at_the_record_alone(house: CloudHouse) -> None:
    house.up()
    house.cloud.world.calls.clear()
    assert house.lmi("invoke", "tiny", "hello").out == "OK\n"
    assert house.cloud.world.calls == ["invoke"]


def test_what_came_into_service_unseen_is_asked_for_an_answer(house: CloudHouse) -> None:
    write_recipe(RECIPE + "endpoint: {autoscaling: {min: 1, max: 3, invocations_per_instance: 50}}\n")
    world = house.cloud.world
    world.trouble.before["endpoint_config"] = [AccessError("you may not look", hint="ask")]
    assert house.lmi("up", "--yes").code == 1
    house.clock.sleep(2 * world.startup)
    world.calls.clear()
    ran = house.lmi("up", "--yes", "--json")
    assert steps(ran.lines) == ["SetScaling"]
    assert "invoke" in world.calls
    world.calls.clear()
    assert "nothing to do" in house.up().err


def test_what_would_ship_is_shown_whatever_the_account_allows(house: CloudHouse) -> None:
    house.cloud.roles.absent.add("arn:aws:iam::111122223333:role/lmi-endpoint")
    house.cloud.roles.denied.add("sagemaker:CreateModel")
    assert house.lmi("render", "-o", "out").code == 0
    assert (Path("out") / "serving.properties").is_file()
