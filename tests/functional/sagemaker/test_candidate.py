"""A second version beside the one that serves: `endpoint.candidate`, from its first `up` to its end."""

from __future__ import annotations

from pathlib import Path

import pytest

from lmi_deploy.api.deployment_lookup import known
from lmi_deploy.bench.deployment_target import deployed_target
from lmi_deploy.domain.inference_http import VARIANT_HEADER, HttpRequest, ResponseHead
from lmi_deploy.domain.sagemaker.resource_settings import ObservedCandidate, ObservedEndpoint
from lmi_deploy.workflows.price_refresh import price_table
from tests.support.cloud_app import RECIPE, CloudApp, write_recipe
from tests.support.fake_hosting import ok_response

PLAIN = RECIPE.replace("[ml.g5.xlarge, ml.g6.xlarge]", "ml.g5.xlarge")
WEIGHTED = PLAIN + "endpoint: {candidate: {set: {options.dtype: fp32}, traffic_percent: 10}}\n"
SHADOW = PLAIN + "endpoint: {candidate: {set: {options.dtype: fp32}, shadow_percent: 50, count: 2}}\n"
PROMOTED = PLAIN + "options: {dtype: fp32}\n"


def steps(lines: list[dict[str, str]]) -> list[str]:
    return [line["key"].partition(":")[0] for line in lines if line["event"] == "finished"]


def live(app: CloudApp) -> ObservedEndpoint:
    observed = app.observe().endpoint
    assert observed is not None
    return observed


@pytest.fixture
def served(app: CloudApp) -> CloudApp:
    write_recipe(PLAIN)
    app.up()
    return app


def test_weighted_candidate_is_one_update_and_gets_traffic_after_its_probe(served: CloudApp) -> None:
    write_recipe(WEIGHTED)
    asked: list[str] = []

    def answer(name: str, request: HttpRequest) -> list[ResponseHead | bytes]:
        candidate = live(served).candidate
        assert candidate is not None
        asked.append(f"{dict(request.headers).get(VARIANT_HEADER)} at {candidate.percent} %")
        return ok_response(name, request)

    served.cloud.account_state.answer = answer
    result = served.lmi("up", "--yes", "--json")
    assert result.code == 0, result.err
    assert steps(result.lines) == [
        *("PutArtifact", "CreateModel", "CreateEndpointConfig", "UpdateEndpoint"),
        *("AwaitService", "ProbeEndpoint", "SetTraffic", "TagEndpoint"),
    ]
    assert asked == ["main at 0 %", "candidate at 0 %"]
    assert live(served).candidate == ObservedCandidate(shadow=False, percent=10, count=1, desired_count=1)
    assert "nothing to do" in served.up().err
    assert served.lmi("plan", "--exit-code").code == 0
    assert served.lmi("status", "tiny").code == 0


def test_first_up_creates_both_versions(app: CloudApp) -> None:
    write_recipe(WEIGHTED)
    result = app.lmi("up", "--yes", "--json")
    assert result.code == 0, result.err
    assert steps(result.lines).count("CreateModel") == 2
    assert steps(result.lines).count("PushWeights") == 1  # both read the same weights
    assert steps(result.lines)[-3:] == ["AwaitService", "ProbeEndpoint", "SetTraffic"]
    down = app.lmi("down", "tiny", "--yes")
    assert down.code == 0, down.err
    assert app.cloud_resources() == []


def test_plan_says_for_which_version_each_action_is(app: CloudApp) -> None:
    write_recipe(WEIGHTED)
    titles = [action["title"] for action in app.lmi("plan", "--json").result["actions"]]
    of = [
        (title.split()[0], title.rpartition(" (")[2])
        for title in titles
        if " (" in title and "config" not in title
    ]
    assert of == [
        ("push", "main and candidate)"),  # both read the same weights
        ("write", "main)"),
        ("write", "candidate)"),
        ("create", "main)"),
        ("create", "candidate)"),
    ]
    write_recipe(PLAIN)
    plain = app.lmi("plan").err
    assert "main" not in plain
    assert "candidate" not in plain


@pytest.mark.parametrize(
    ("candidate", "is_same", "is_known_early"),
    [
        ("{recipe: tiny.yaml, traffic_percent: 10}", True, True),
        ("{set: {engine: accelerate}, shadow_percent: 5, count: 2}", True, True),
        (
            "{set: {task: text-generation}, traffic_percent: 10}",
            True,
            False,
        ),  # the default, by the model's config
        ("{set: {options.dtype: fp32}, traffic_percent: 10}", False, False),
        ("{set: {instance_type: ml.g5.2xlarge}, traffic_percent: 10}", False, False),
    ],
)
def test_candidate_that_changes_nothing_gets_a_notice(
    app: CloudApp, candidate: str, is_same: bool, is_known_early: bool
) -> None:
    text = "endpoint.candidate: it is the same as the version that serves, and its instances cost as well"
    write_recipe(PLAIN + f"endpoint: {{candidate: {candidate}}}\n")
    early = app.lmi("validate", "tiny.yaml")
    assert (early.code, text in early.err) == (0, is_known_early), early.err
    plan = app.lmi("plan")
    assert (plan.code, plan.err.count(text)) == (0, int(is_same)), plan.err


def test_other_share_replaces_no_instance(served: CloudApp) -> None:
    write_recipe(WEIGHTED)
    served.up()
    result = served.lmi("up", "--yes", "--json", "--set", "endpoint.candidate.traffic_percent=40")
    assert steps(result.lines) == ["SetTraffic", "TagEndpoint"]
    assert live(served).candidate == ObservedCandidate(shadow=False, percent=40, count=1, desired_count=1)


def test_share_that_was_changed_by_hand_is_drift(served: CloudApp) -> None:
    write_recipe(WEIGHTED)
    served.up()
    served.cloud.cloud().hosting.set_traffic("tiny", 70)
    served.clock.sleep(301)
    status = served.lmi("status", "tiny")
    assert (status.code, "its candidate answers 70 %" in status.out) == (4, True), status.out
    plan = served.lmi("plan")
    assert "answers 70 % of the requests -> answers 10 % of the requests" in plan.out
    served.up()
    candidate = live(served).candidate
    assert candidate is not None
    assert candidate.percent == 10


def test_shadow_has_its_share_from_the_start_and_answers_no_probe(served: CloudApp) -> None:
    write_recipe(SHADOW)
    result = served.lmi("up", "--yes", "--json")
    assert result.code == 0, result.err
    assert "SetTraffic" not in steps(result.lines)
    assert live(served).candidate == ObservedCandidate(shadow=True, percent=50, count=2, desired_count=2)
    assert "the shadow variant has 2 instances in service" in result.out
    status = served.lmi("status", "tiny").out
    assert "candidate 2 of 2 instances, gets a copy of 50 % of the requests" in status
    refused = served.lmi("invoke", "tiny", "hello", "--variant", "candidate")
    assert (refused.code, "shadow variant" in refused.err) == (2, True)
    other = served.lmi("up", "--yes", "--json", "--set", "endpoint.candidate.shadow_percent=80")
    assert "UpdateEndpoint" in steps(other.lines)
    candidate = live(served).candidate
    assert candidate is not None
    assert candidate.percent == 80


def test_promoted_candidate_is_the_version_that_serves(served: CloudApp) -> None:
    write_recipe(WEIGHTED)
    served.up()
    write_recipe(PROMOTED)
    result = served.lmi("up", "--yes", "--json")
    assert result.code == 0, result.err
    assert "CreateModel" not in steps(result.lines)  # it exists already
    assert live(served).candidate is None
    back = served.lmi("rollback", "tiny", "--yes", "--json")
    assert back.code == 0, back.err
    assert steps(back.lines)[:4] == ["UpdateEndpoint", "AwaitService", "ProbeEndpoint", "SetTraffic"]
    candidate = live(served).candidate
    assert candidate is not None
    assert candidate.percent == 10


def test_invoke_names_a_version(served: CloudApp) -> None:
    write_recipe(WEIGHTED)
    served.up()
    variants: list[str] = []

    def answer(name: str, request: HttpRequest) -> list[ResponseHead | bytes]:
        variants.append(dict(request.headers).get(VARIANT_HEADER, ""))
        return ok_response(name, request)

    served.cloud.account_state.answer = answer
    for argv in ((), ("--variant", "candidate"), ("--variant", "main")):
        assert served.lmi("invoke", "tiny", "hello", *argv).out == "OK\n"
    assert variants == ["", "candidate", "main"]
    write_recipe(PLAIN)
    served.up()
    refused = served.lmi("invoke", "tiny", "hello", "--variant", "candidate")
    assert (refused.code, "it has one version" in refused.err) == (2, True)


def test_candidate_that_fails_its_probe_gets_no_traffic(served: CloudApp) -> None:
    write_recipe(WEIGHTED)
    before = live(served).config

    def answer(name: str, request: HttpRequest) -> list[ResponseHead | bytes]:
        if dict(request.headers).get(VARIANT_HEADER) == "candidate":
            return [ResponseHead(status=500, reason="Internal Server Error", headers=()), b"broken"]
        return ok_response(name, request)

    served.cloud.account_state.answer = answer
    result = served.lmi("up", "--yes")
    assert result.code == 1
    assert "the candidate: the model is loaded, but the probe failed" in result.err
    assert "set_traffic" not in served.cloud.account_state.calls
    assert live(served).config == before  # rolled back


def test_price_and_quota_count_both_versions(served: CloudApp) -> None:
    write_recipe(WEIGHTED.replace("options.dtype: fp32", "options.dtype: fp32, instance_type: ml.g6.xlarge"))
    served.cloud.prices.hourly_of["ml.g6.xlarge"] = 1.13
    plan = served.lmi("plan", "--json").result
    assert plan["figures"]["cost"].startswith("$2.54 an hour: $1.41 an hour (1 x ml.g5.xlarge")
    assert plan["figures"]["candidate"] == "1 x ml.g6.xlarge, answers 10 % of the requests"
    assert plan["figures"]["candidate_fit"]
    refused = served.lmi("up", "--yes", "--max-hourly", "2")
    assert (refused.code, "may cost $2.54 an hour" in refused.err) == (5, True), refused.err
    served.cloud.account_state.quotas["ml.g6.xlarge"] = 0.0
    quota = served.lmi("up", "--yes")
    assert (quota.code, "ml.g6.xlarge for endpoint usage" in quota.err) == (1, True), quota.err
    served.cloud.account_state.quotas.pop("ml.g6.xlarge")
    assert served.lmi("up", "--yes").code == 0
    assert (
        "$2.54" in served.lmi("status", "tiny").out or "and its candidate" in served.lmi("status", "tiny").out
    )


def test_list_and_scale_count_both_versions(served: CloudApp) -> None:
    write_recipe(WEIGHTED.replace("options.dtype: fp32", "options.dtype: fp32, instance_type: ml.g6.xlarge"))
    served.cloud.prices.hourly_of["ml.g6.xlarge"] = 1.13
    served.up()
    assert "$2.54 an hour" in served.lmi("ls").out
    refused = served.lmi("scale", "tiny", "2", "--yes", "--max-hourly", "3")
    assert (
        refused.code,
        "would cost $3.95 an hour (2 x ml.g5.xlarge, and its candidate 1 x" in refused.err,
    ) == (
        5,
        True,
    ), refused.err
    scaled = served.lmi("scale", "tiny", "2", "--yes", "--json").result
    assert (scaled["hourly_before"], scaled["hourly"]) == (pytest.approx(2.538), pytest.approx(3.946))


@pytest.mark.parametrize("other", ["ml.g5.xlarge", "ml.g5.2xlarge"])
def test_measured_deployment_is_billed_with_both_versions(served: CloudApp, other: str) -> None:
    write_recipe(WEIGHTED.replace("options.dtype: fp32", f"options.dtype: fp32, instance_type: {other}"))
    served.up()
    deps = served.deps()
    [ref] = known(deps)
    billed = deployed_target(ref, deps).billed
    names = dict.fromkeys(["ml.g5.xlarge", other])
    assert (billed.instance, billed.count) == (" and ".join(names), 2)
    prices = [price_table(deps).price(name, ref.region) for name in ("ml.g5.xlarge", other)]
    assert billed.price is not None
    assert billed.price.hourly * 2 == pytest.approx(sum(price.hourly for price in prices if price))


def test_interrupted_wait_still_gives_the_candidate_its_share(served: CloudApp) -> None:
    write_recipe(WEIGHTED)
    detached = served.lmi("up", "--yes", "--detach")
    assert detached.code == 0, detached.err
    waited = served.lmi("wait", "tiny", "--json")
    assert steps(waited.lines)[:3] == ["AwaitService", "ProbeEndpoint", "SetTraffic"]
    candidate = live(served).candidate
    assert candidate is not None
    assert candidate.percent == 10
    assert "nothing to do" in served.up().err


def test_update_policy_is_not_used_where_a_candidate_comes_or_goes(app: CloudApp) -> None:
    policy = "endpoint: {count: 2, update: {policy: canary}}\n"
    candidate = policy.replace("}}", "}, candidate: {set: {options.dtype: fp32}, traffic_percent: 5}}")
    write_recipe(PLAIN + policy)
    app.up()
    write_recipe(PLAIN + candidate)
    app.up()
    assert app.cloud.account_state.policies == {}
    app.up("--set", "options.max_rolling_batch_size=8")
    assert app.cloud.account_state.policies["tiny"].policy == "canary"
    write_recipe(PLAIN + policy)
    app.up()
    assert app.cloud.account_state.policies == {}


def test_overlay_and_another_recipe_name_the_candidate(served: CloudApp) -> None:
    overlay = (
        PLAIN
        + "endpoint: {candidate: {overlay: wide, traffic_percent: 1}}\noverlays: {wide: {options: {dtype: fp32}}}\n"
    )
    write_recipe(overlay)
    served.up()
    first = live(served).config
    Path("other").mkdir()
    other = PROMOTED.replace("name: tiny", "name: other") + "endpoint: {count: 7}\n"
    Path("other/wide.yaml").write_text(other)
    write_recipe(PLAIN + "endpoint: {candidate: {recipe: other/wide.yaml, traffic_percent: 1}}\n")
    assert "nothing to do" in served.up().err
    assert live(served).config == first


@pytest.mark.parametrize(
    ("candidate", "text"),
    [
        (
            "{overlay: wide, traffic_percent: 1}",
            "tiny.yaml:5:33: endpoint.candidate.overlay: no such overlay: 'wide'",
        ),
        (
            "{recipe: none.yaml, traffic_percent: 1}",
            "tiny.yaml:5:32: endpoint.candidate.recipe: cannot be read: none.yaml: No such file",
        ),
        (
            "{set: {revision: main, optionz.dtype: fp32}, traffic_percent: 1}",
            "tiny.yaml:5:46: endpoint.candidate: optionz: unknown key",
        ),
        (
            "{set: {revision: main, engine: vlm}, traffic_percent: 1}",
            "tiny.yaml:5:54: endpoint.candidate: engine: 'vlm' is not one of",
        ),
        (
            "{set: {endpoint.kms_key: alias/x}, traffic_percent: 1}",
            "tiny.yaml:5:30: endpoint.candidate: it sets endpoint.kms_key, and both versions",
        ),
        (
            "{set: {instance_type: auto}, traffic_percent: 1}",
            "tiny.yaml:5:30: endpoint.candidate: instance_type: cannot be combined",
        ),
        ("{set: {model_id: org/missing}, traffic_percent: 1}", "endpoint.candidate: org/missing"),
    ],
)
def test_error_of_the_candidate_names_its_key(served: CloudApp, candidate: str, text: str) -> None:
    write_recipe(PLAIN + f"endpoint: {{candidate: {candidate}}}\n")
    result = served.lmi("plan")
    assert result.code != 0
    assert text in result.err, result.err


def test_error_in_an_override_of_the_command_line_keeps_its_number(served: CloudApp) -> None:
    """The candidate brings along no key of the group `endpoint`, so that it gets the second override alone."""
    other = PLAIN.replace("engine: accelerate", "engine: vllm")
    Path("other.yaml").write_text(other + "container: {version: 0.36.0-lmi28}\n")
    write_recipe(PLAIN + "endpoint: {candidate: {recipe: other.yaml, traffic_percent: 1}}\n")
    result = served.lmi(
        "plan", "tiny.yaml", "--set", "endpoint.count=2", "--set", "options.low_cpu_mem_usage=true"
    )
    assert "--set:2:1: endpoint.candidate: options.low_cpu_mem_usage" in result.err, result.err


def test_export_refuses_a_candidate(app: CloudApp) -> None:
    write_recipe(WEIGHTED)
    result = app.lmi("export", "tiny.yaml", "--format", "cloudformation")
    assert (result.code, "endpoint.candidate: not yet in an exported stack" in result.err) == (2, True), (
        result.err
    )


def test_plan_in_a_file_contains_the_candidate(served: CloudApp) -> None:
    write_recipe(WEIGHTED)
    assert served.lmi("plan", "--out", "plan.json").code == 0
    assert served.lmi("up", "plan.json", "--yes").code == 0
    assert live(served).candidate == ObservedCandidate(shadow=False, percent=10, count=1, desired_count=1)


def test_overlay_of_the_command_line_may_set_the_endpoint(app: CloudApp) -> None:
    overlays = "overlays: {prod: {endpoint: {region: us-east-1}}, wide: {options: {dtype: fp32}}}\n"
    write_recipe(PLAIN + "endpoint: {candidate: {overlay: wide, traffic_percent: 1}}\n" + overlays)
    plan = app.lmi("plan", "--overlay", "prod", "--json")
    assert plan.code == 0, plan.err
    assert plan.result["figures"]["candidate"] == "1 x ml.g5.xlarge, answers 1 % of the requests"
